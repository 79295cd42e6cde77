"""Pages of the admin for channels."""

from channels_app.admin import accounts, patterns, unknown_requests

__all__ = ["accounts", "patterns", "unknown_requests"]

"""Pages of the admin for channels."""

from channels_app.admin import accounts, unknown_requests

__all__ = ["accounts", "unknown_requests"]

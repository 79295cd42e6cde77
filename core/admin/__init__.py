"""Pages of the admin for conversations."""

from core.admin import conversations

__all__ = ["conversations"]

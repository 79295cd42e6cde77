"""Pages of the admin for channels."""

from channels_app.admin import (
    accounts,
    language_models,
    mcp_servers,
    patterns,
    schedules,
    tool_calls,
    tool_rules,
    unknown_requests,
    web_search,
)

__all__ = [
    "accounts",
    "language_models",
    "mcp_servers",
    "patterns",
    "schedules",
    "tool_calls",
    "tool_rules",
    "unknown_requests",
    "web_search",
]

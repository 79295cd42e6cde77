"""Pages of the admin, each in a file of its subject; others: `allowlist.admin`, `core.admin`."""

from channels_app.admin import (
    accounts,
    backups,
    conversations,
    language_models,
    mcp_servers,
    patterns,
    retention,
    schedules,
    tool_calls,
    tool_rules,
    unknown_requests,
    web_search,
)

__all__ = [
    "accounts",
    "backups",
    "conversations",
    "language_models",
    "mcp_servers",
    "patterns",
    "retention",
    "schedules",
    "tool_calls",
    "tool_rules",
    "unknown_requests",
    "web_search",
]

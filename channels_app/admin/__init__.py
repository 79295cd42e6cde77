"""Pages of the admin for accounts, unknown requests, models, assistants, budgets and usage."""

from channels_app.admin import (
    accounts,
    backups,
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

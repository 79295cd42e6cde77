"""Encrypt the credentials of channels, the keys of providers and MCP servers, and that of Web Push
with the newest key.
"""

from datetime import datetime
from typing import Any

from django.db.models import Model

from allowlist import audit
from core.database import transactions
from core.lib import encryption
from core.models import (
    ChannelAccount,
    Installation,
    McpConnection,
    McpRevocation,
    McpServer,
    McpSignIn,
    ModelProvider,
    SearchProvider,
)
from core.providers import catalogue


def reencrypt_all(*, actor: str, now: datetime) -> int:
    """Encrypt all secrets with the first key, all or none; return in how many rows they changed.

    Raises DecryptError when no key opens one of them.
    """
    with transactions.atomic_write():
        accounts = reencrypt(ChannelAccount)
        providers = reencrypt(ModelProvider) + reencrypt(SearchProvider)
        servers = reencrypt(McpServer) + reencrypt(McpServer, "registration")
        tokens = reencrypt(McpConnection) + reencrypt(McpSignIn) + reencrypt(McpRevocation)
        push = reencrypt(Installation)
        if providers or servers:
            catalogue.changed()
        if accounts or providers or servers or tokens or push:
            data: dict[str, object] = {"accounts": accounts, "providers": providers}
            if servers:
                data["mcp_servers"] = servers
            if tokens:
                data["mcp_accounts"] = tokens
            if push:
                data["push_keys"] = push
            audit.record(actor=actor, action="secrets.rotated", data=data, now=now)
    return accounts + providers + servers + tokens + push


def reencrypt(table: type[Model], column: str = "secrets") -> int:
    """Encrypt the secrets of a table's rows with the first key; return how many changed."""
    rows: Any = table._default_manager
    changed = 0
    for row in rows.select_for_update().exclude(**{column: ""}).order_by("id"):
        sealed = getattr(row, column)
        if not encryption.is_current(sealed):
            rows.filter(pk=row.pk).update(**{column: encryption.reencrypt(sealed)})
            changed += 1
    return changed

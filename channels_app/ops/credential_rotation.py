"""Encrypt the credentials of channels, the keys of providers and MCP servers, and that of Web Push
with the newest key.
"""

from datetime import datetime
from typing import Any

from allowlist import audit
from core.database import transactions
from core.lib import encryption
from core.models import ChannelAccount, Installation, McpServer, ModelProvider, SearchProvider
from core.providers import catalogue


def reencrypt_all(*, actor: str, now: datetime) -> int:
    """Encrypt all secrets with the first key, all or none; return in how many rows they changed.

    Raises DecryptError when no key opens one of them.
    """
    with transactions.atomic_write():
        accounts = reencrypt(ChannelAccount)
        providers = reencrypt(ModelProvider) + reencrypt(SearchProvider)
        servers = reencrypt(McpServer)
        push = reencrypt(Installation)
        if providers or servers:
            catalogue.changed()
        if accounts or providers or servers or push:
            data: dict[str, object] = {"accounts": accounts, "providers": providers}
            if servers:
                data["mcp_servers"] = servers
            if push:
                data["push_keys"] = push
            audit.record(actor=actor, action="secrets.rotated", data=data, now=now)
    return accounts + providers + servers + push


def reencrypt(
    table: type[ChannelAccount | ModelProvider | SearchProvider | McpServer | Installation],
) -> int:
    """Encrypt the secrets of a table's rows with the first key; return how many changed."""
    rows: Any = table._default_manager
    changed = 0
    for row in rows.select_for_update().exclude(secrets="").order_by("id"):
        if not encryption.is_current(row.secrets):
            rows.filter(pk=row.pk).update(secrets=encryption.reencrypt(row.secrets))
            changed += 1
    return changed

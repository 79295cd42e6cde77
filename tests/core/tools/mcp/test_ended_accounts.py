"""Tokens at MCP servers whose account, person or server goes while they are renewed."""

from datetime import timedelta

import pytest
from django.utils import timezone

from core.lib import encryption
from core.models import McpConnection, McpRevocation, McpServer, User
from core.tools.mcp.oauth import connections
from core.tools.mcp.oauth.secret_values import Tokens

pytestmark = pytest.mark.django_db(transaction=True)
NEW = Tokens(access_token="new-access", refresh_token="new-refresh", seconds=60, scope="")


def account_at_server() -> McpConnection:
    """Return a connected account at a server."""
    server = McpServer.objects.create(name="Notes", slug="notes", url="https://notes.example/mcp")
    return McpConnection.objects.create(
        server=server,
        user=User.objects.create(username="guest"),
        secrets=encryption.encrypt({"access_token": "old-access", "refresh_token": "old-refresh"}),
        expires_at=timezone.now() - timedelta(seconds=1),
        connected_at=timezone.now(),
    )


def seen(row: McpConnection) -> connections.Token:
    """Return an account as the worker has read it that renews its tokens."""
    found = connections.read(row.server_id, row.user_id)
    assert found is not None
    return found


def refresh_tokens_to_revoke() -> list[str]:
    """Return the refresh tokens that wait for their revocation."""
    rows = McpRevocation.objects.order_by("id")
    return [encryption.decrypt(row.secrets)["refresh_token"] for row in rows]


def test_new_tokens_of_a_deleted_server_are_revoked() -> None:
    """[V77] The server was deleted while its authorization server was asked."""
    row = account_at_server()
    begun = seen(row)
    row.server.delete()
    assert not connections.store_refreshed(begun, NEW, now=timezone.now())
    assert refresh_tokens_to_revoke() == ["old-refresh", "new-refresh"]


def test_an_account_that_is_deleted_has_its_newest_tokens_revoked() -> None:
    """[V77] They were renewed after the page that deletes the account had read it."""
    row = account_at_server()
    shown = McpConnection.objects.get(pk=row.pk)
    assert connections.store_refreshed(seen(row), NEW, now=timezone.now())
    shown.delete()
    assert refresh_tokens_to_revoke() == ["new-refresh"]

"""Accounts at MCP servers: which token is used, who renews it, and what a failure leaves."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from core.database.transactions import in_thread
from core.lib import encryption
from core.models import McpConnection, McpServer, User
from core.tools.mcp.errors import GrantEndedError, McpError
from core.tools.mcp.oauth import connections, registrations, sign_ins
from core.tools.mcp.oauth.connections import Token
from core.tools.mcp.oauth.secret_values import Tokens
from core.tools.mcp.servers import ServerInfo, info_of

pytestmark = pytest.mark.django_db(transaction=True)
REGISTERED = '{"client_id":"client-1","client_secret":"s"}'
NEW = Tokens(access_token="new", refresh_token="new-refresh", seconds=3600, scope="")
Answer = Tokens | McpError


@pytest.fixture
def row() -> McpConnection:
    """Return an account whose token is over, at a server with a registered client."""
    server = McpServer.objects.create(
        name="Notes",
        slug="notes",
        url="https://notes.example/mcp",
        authentication="person",
        registration=encryption.encrypt({"client": REGISTERED}),
    )
    kept = {"access_token": "old", "refresh_token": "refresh", "client": REGISTERED}
    return McpConnection.objects.create(
        server=server,
        user=User.objects.create(username="guest"),
        secrets=encryption.encrypt(kept),
        expires_at=timezone.now() - timedelta(seconds=1),
        connected_at=timezone.now(),
    )


class Asked(list[dict[str, str]]):
    """What the authorization server was asked with; it gives ``answer``."""

    answer: Answer = NEW
    meanwhile: Callable[[], object] = staticmethod(lambda: None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()

    async def refresh(server: ServerInfo, kept: dict[str, str]) -> Tokens:
        found.append(kept)
        await in_thread(found.meanwhile)
        if isinstance(found.answer, McpError):
            raise found.answer
        return found.answer

    async def loaded() -> Any:
        return SimpleNamespace(refresh=refresh)

    monkeypatch.setattr(connections, "loaded", loaded)
    return found


def usable(row: McpConnection, **more: Any) -> Token | None:
    return asyncio.run(connections.usable(info_of(row.server), row.user_id, **more))


def known_client(row: McpConnection) -> str:
    """Return the client that the next sign-in uses; empty for a new one."""
    server = McpServer.objects.get(pk=row.server_id)
    return sign_ins.client_of(server).registration


@pytest.mark.parametrize("code", ["invalid_client", "unauthorized_client"])
def test_v74_a_client_that_is_unknown_by_now_is_registered_anew(
    row: McpConnection, asked: Asked, code: str
) -> None:
    """[V74] The person was sent to a page of the authorization server that knows no such client,
    and leads nowhere, with each link.
    """
    asked.answer = GrantEndedError(code, "x")
    assert usable(row) is None
    assert McpConnection.objects.get().secrets == ""
    assert known_client(row) == ""


def test_v74_a_grant_that_ended_keeps_the_client(row: McpConnection, asked: Asked) -> None:
    """[V74] As does the refusal of a client that was replaced meanwhile."""
    asked.answer = GrantEndedError("invalid_grant", "x")
    assert usable(row) is None
    assert known_client(row) == REGISTERED
    McpConnection.objects.update(secrets=row.secrets)
    other = REGISTERED.replace("client-1", "client-2")
    sealed = encryption.encrypt({"client": other})
    McpServer.objects.update(registration=sealed)
    asked.answer = GrantEndedError("invalid_client", "x")
    assert usable(row) is None
    assert known_client(row) == other


def test_v75_a_client_that_cannot_be_opened_is_registered_anew(row: McpConnection) -> None:
    """[V75] The gateway's own key was changed: nobody could sign in any more."""
    McpServer.objects.update(registration="gAAAAA-of-another-key")
    assert known_client(row) == ""
    registrations.forget(row.server_id, REGISTERED)
    McpServer.objects.update(secrets="gAAAAA-of-another-key")
    with pytest.raises(McpError, match="key was changed"):
        known_client(row)

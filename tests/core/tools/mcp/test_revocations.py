"""Tokens whose account is gone: revoked at their servers, a few times, and never for ever."""

import asyncio
import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from core.lib import encryption
from core.models import McpRevocation
from core.tools.mcp.errors import McpError
from core.tools.mcp.oauth import revocations

pytestmark = pytest.mark.django_db(transaction=True)
Outcome = Exception | None


class Servers:
    """Stands for the authorization servers: by token, the failure of its revocation. ``asked``: the
    tokens that came, with whether they may be inside the network.
    """

    def __init__(self) -> None:
        self.fails: dict[str, Exception] = {}
        self.asked: list[tuple[str, bool]] = []
        self.at_once = asyncio.Event()

    async def revoke(self, kept: dict[str, str], *, allow_private: bool) -> None:
        """Revoke a token; one of a silent server waits for all the others."""
        self.asked.append((kept["access_token"], allow_private))
        if kept["access_token"] == "silent":
            await self.at_once.wait()
        if kept["access_token"] == "last":
            self.at_once.set()
        if error := self.fails.get(kept["access_token"]):
            raise error


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    made = Servers()

    async def loaded() -> Any:
        return SimpleNamespace(revoke=made.revoke)

    monkeypatch.setattr(revocations, "loaded", loaded)
    return made


def queued(*tokens: str, **more: Any) -> None:
    """Queue tokens, due one second after each other, the last one now."""
    for number, token in enumerate(reversed(tokens)):
        due = timezone.now() - timedelta(seconds=number)
        sealed = encryption.encrypt({"access_token": token})
        values = {"secrets": sealed, "due_at": due, **more}
        McpRevocation.objects.create(**values)


def run() -> None:
    asyncio.run(asyncio.wait_for(revocations.revoke_due(), 10))


def left() -> set[str]:
    """Return the tokens that are still to be revoked."""
    rows = McpRevocation.objects.all()
    return {encryption.decrypt(each.secrets)["access_token"] for each in rows}


def test_v77_tokens_are_revoked_and_forgotten(servers: Servers) -> None:
    """[V77] Those that are due, ten at once, the oldest first."""
    queued(*(f"t{number}" for number in range(12)))
    queued("later", due_at=timezone.now() + timedelta(minutes=1))
    queued("private", allow_private=True, due_at=timezone.now() - timedelta(hours=1))
    run()
    assert {token for token, _ in servers.asked} == {"private", *(f"t{n}" for n in range(9))}
    assert [inside for token, inside in servers.asked if token == "private"] == [True]
    assert left() == {"t9", "t10", "t11", "later"}
    run()
    assert left() == {"later"}
    assert ("t9", False) in servers.asked


def test_v77_tokens_that_are_due_in_the_same_moment_are_all_revoked(servers: Servers) -> None:
    """[V77] As those of a server that is deleted."""
    due = timezone.now()
    queued("a", due_at=due)
    queued("b", due_at=due)
    run()
    assert left() == set()


def test_v77_a_failed_revocation_is_tried_three_times(servers: Servers) -> None:
    """[V77] Ten minutes apart."""
    queued("t")
    servers.fails["t"] = McpError("It fails.")
    for attempt in (1, 2):
        before = timezone.now()
        run()
        run()
        assert len(servers.asked) == attempt
        row = McpRevocation.objects.get()
        assert row.attempts == attempt
        assert timedelta(minutes=10) <= row.due_at - before < timedelta(minutes=11)
        McpRevocation.objects.update(due_at=timezone.now())
    run()
    assert left() == set()
    assert len(servers.asked) == 3


def test_v77_a_silent_server_holds_up_no_other(servers: Servers) -> None:
    """[V77] Nor the lists of tools, which are asked for afterwards."""
    queued("silent", "last")
    run()
    assert left() == set()


@pytest.mark.parametrize(
    "error", [KeyError("metadata"), ValueError("x"), json.JSONDecodeError("x", "", 0)]
)
def test_v77_tokens_that_cannot_be_read_are_dropped(servers: Servers, error: Exception) -> None:
    """[V77] Of another version of the gateway, or sealed with another key: the others are revoked,
    and it is not tried for ever.
    """
    queued("broken", "t")
    servers.fails["broken"] = error
    McpRevocation.objects.create(secrets="gAAAAA", due_at=timezone.now())
    run()
    assert not McpRevocation.objects.exists()
    assert ("t", False) in servers.asked


def test_v77_a_revocation_is_of_one_worker(servers: Servers, monkeypatch: Any) -> None:
    """[V77] Another one has taken it in the same moment."""
    queued("t")
    found = revocations.DUE.all(now=timezone.now())
    monkeypatch.setattr(revocations, "DUE", SimpleNamespace(all=lambda now: found))
    assert len(revocations.take_due(timezone.now())) == 1
    assert revocations.take_due(timezone.now()) == []
    assert McpRevocation.objects.get().attempts == 1

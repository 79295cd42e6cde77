"""A tool of an MCP server, called as a turn does: its result counts, whatever comes after it."""

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from core.files import storage
from core.lib import encryption
from core.models import McpConnection, McpServer, User
from core.tools.base import ToolError, ToolResult
from core.tools.mcp import offered, pins
from core.tools.mcp import tool as server_tool
from core.tools.mcp.oauth import connections
from core.tools.mcp.offers import offer
from core.tools.testing import play
from tests.core.tools.mcp.malicious_mcp import MaliciousMcp, running, tool
from tests.people import PIXEL

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server() -> Iterator[MaliciousMcp]:
    server_tool._stored.clear()
    with running(MaliciousMcp(tools=[tool("send")])) as made:
        yield made
    server_tool._stored.clear()


@pytest.fixture
def row(server: MaliciousMcp) -> McpServer:
    """Return the server, whose tool is accepted."""
    made = McpServer.objects.create(
        name="Shed", slug="shed", url=server.url, allow_private=True, seconds=5
    )
    [given] = server.tools
    found = offer("send", description=given["description"], schema=given["inputSchema"])
    pins.store_listing(made.pk, [found], protocol="", now=timezone.now())
    [each] = made.tools.all()
    assert pins.accept(each.pk, each.offered_hash, now=timezone.now())
    return made


def call(user_id: int = 1) -> ToolResult:
    """Return the result of a call for a person."""
    [found] = offered.read()
    place: dict[str, Any] = {"user_id": user_id, "run_id": None, "session_id": None}
    result = play(found, {"text": "x"}, **place).result
    assert result is not None
    return result


def away(*_: Any, **__: Any) -> Any:
    """Stand for a write while the database is away."""
    raise OperationalError("the server closed the connection")


def test_v45_a_result_counts_when_the_list_that_came_with_it_cannot_be_stored(
    server: MaliciousMcp, row: McpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V45] The database is away for a second: the call was made, and is not made again."""
    monkeypatch.setattr(pins, "store_listing", away)
    assert "Done." in call().text
    monkeypatch.undo()
    McpServer.objects.update(listed_at=None)
    assert "Done." in call().text
    assert McpServer.objects.get().listed_at is not None, "it is stored with the next call"
    assert len(server.calls) == 2


def test_v75_a_result_counts_when_its_sign_in_cannot_be_noted(
    server: MaliciousMcp, row: McpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V75] The next call proves the sign-in."""
    McpServer.objects.update(authentication="person")
    user = User.objects.create(username="guest")
    sealed = encryption.encrypt({"access_token": "token"})
    McpConnection.objects.create(server=row, user=user, secrets=sealed, connected_at=timezone.now())
    monkeypatch.setattr(connections, "prove", away)
    assert "Done." in call(user.pk).text
    monkeypatch.undo()
    assert "Done." in call(user.pk).text
    assert McpConnection.objects.get().proven_at is not None


@pytest.mark.parametrize("name", ["read", "end"])
def test_v75_a_call_whose_sign_in_cannot_be_looked_up_was_not_made(
    server: MaliciousMcp, row: McpServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """[V75] Nor was one whose token the server did not accept."""
    server.key = "another" if name == "end" else ""
    McpServer.objects.update(authentication="person")
    user = User.objects.create(username="guest")
    sealed = encryption.encrypt({"access_token": "token"})
    McpConnection.objects.create(server=row, user=user, secrets=sealed, connected_at=timezone.now())
    monkeypatch.setattr(connections, name, away)
    with pytest.raises(ToolError, match="The call was not made"):
        call(user.pk)
    assert server.calls == []


@pytest.mark.parametrize("error", [storage.NotStoredError("disk full"), OperationalError("locked")])
def test_v45_a_result_counts_when_its_picture_cannot_be_kept(
    server: MaliciousMcp, row: McpServer, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """[V45] The model is told that the person does not see it."""
    data = PIXEL.partition(",")[2]
    assert base64.b64decode(data)
    picture = {"type": "image", "data": data, "mimeType": "image/png"}
    server.results["send"] = {"content": [{"type": "text", "text": "Done."}, picture]}
    user = User.objects.create(username="guest")
    shown = call(user.pk)
    assert "shown to the person" in shown.text
    assert len(shown.messages) == 1

    def keep(**_: Any) -> Any:
        raise error

    monkeypatch.setattr(storage, "keep", keep)
    hidden = call(user.pk)
    assert "Done." in hidden.text
    assert "not shown" in hidden.text
    assert hidden.messages == []

"""Calls of MCP servers with the token of a person, and refusals of the server."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from core.database.transactions import in_thread
from core.lib import encryption
from core.models import McpConnection, McpServer, User
from core.tools.base import SignInError
from core.tools.mcp.errors import McpError, UnauthorizedError
from core.tools.mcp.oauth import connections, signed_in
from core.tools.mcp.servers import info_of

pytestmark = pytest.mark.django_db(transaction=True)
DEMANDS = 'Bearer resource_metadata="https://notes.example/r", scope="notes"'
Work = Callable[[str], Awaitable[str]]


@pytest.fixture
def server() -> McpServer:
    return McpServer.objects.create(
        name="Notes", slug="notes", url="https://notes.example/mcp", authentication="person"
    )


def connect(server: McpServer, user: User | None, token: str, **more: Any) -> McpConnection:
    """Give a person, or the gateway, an account whose sign-in was not accepted yet."""
    sealed = encryption.encrypt({"access_token": token})
    place: dict[str, Any] = {"server": server, "user": user, "connected_at": timezone.now()}
    return McpConnection.objects.create(secrets=sealed, **{**place, **more})


class Server:
    """Accepts ``token``; refuses any other with ``status`` and ``challenge``. ``seen``: those that
    came.
    """

    def __init__(self, token: str = "", status: int = 401, challenge: str = DEMANDS) -> None:
        self.token, self.status, self.challenge = token, status, challenge
        self.seen: list[str] = []

    async def work(self, token: str) -> str:
        """Answer a call."""
        self.seen.append(token)
        if token != self.token:
            raise UnauthorizedError(self.status, self.challenge, "It does not accept the sign-in.")
        return "Done."


async def demands() -> str:
    """Stand for the question what the server demands."""
    return DEMANDS


def call(server: McpServer, work: Work, user_id: int = 1) -> str:
    info = info_of(server)
    return asyncio.run(signed_in.call(info, user_id, work, challenge=demands))


def wanted(server: McpServer, work: Work, user_id: int) -> SignInError:
    """Return the sign-in that a call leads to."""
    with pytest.raises(SignInError) as caught:
        call(server, work, user_id)
    return caught.value


def test_v70_a_call_without_a_token_asks_for_the_demands_of_the_server(server: McpServer) -> None:
    """[V70] The person; for the account of the gateway, the owner."""
    asked = wanted(server, Server().work, 1)
    assert str(asked) == "The person has to sign in to Notes first."
    assert asked.wanted.server_id == server.pk
    assert (asked.wanted.server, asked.wanted.of_gateway) == ("Notes", False)
    assert asked.wanted.scope == "notes"
    assert asked.wanted.resource_metadata == "https://notes.example/r"
    connect(server, None, "of the gateway")
    assert not wanted(server, Server("of the gateway").work, 1).wanted.of_gateway
    McpServer.objects.update(authentication="gateway")
    McpConnection.objects.all().delete()
    server.refresh_from_db()
    asked = wanted(server, Server().work, 1)
    assert (str(asked), asked.wanted.of_gateway) == (
        "The owner has to sign in to Notes first.",
        True,
    )


def test_v71_each_person_has_their_own_token(server: McpServer) -> None:
    """[V71] And all that of the gateway, where it has one account; it is noted as accepted."""
    ann, bob = (User.objects.create(username=name) for name in ("ann", "bob"))
    connect(server, ann, "ann's")
    connect(server, bob, "bob's")
    connect(server, None, "all's")
    assert call(server, Server("bob's").work, bob.pk) == "Done."
    McpServer.objects.update(authentication="gateway")
    server.refresh_from_db()
    assert call(server, Server("all's").work, ann.pk) == "Done."
    proven = McpConnection.objects.filter(proven_at__isnull=False)
    assert {each.user_id for each in proven} == {bob.pk, None}


@pytest.mark.parametrize(
    ("proven", "repeated", "asks"), [(False, 0, True), (True, 1, True), (False, 1, False)]
)
def test_v75_a_refused_sign_in_is_asked_for_once_more(
    server: McpServer, proven: bool, repeated: int, asks: bool
) -> None:
    """[V75] Then the person is told, and not asked for a while."""
    ann = User.objects.create(username="ann")
    at = timezone.now() if proven else None
    connect(server, ann, "old", proven_at=at, repeated=repeated)
    notes = Server()
    if asks:
        assert wanted(server, notes.work, ann.pk).wanted.scope == "notes"
        assert wanted(server, notes.work, ann.pk).wanted.scope == "notes"
    else:
        for _ in range(2):
            with pytest.raises(
                McpError, match="does not accept the account that has just"
            ) as caught:
                call(server, notes.work, ann.pk)
            assert not isinstance(caught.value, UnauthorizedError)
    assert notes.seen == ["old"]
    row = McpConnection.objects.get()
    assert (row.secrets, row.refused_at is not None) == ("", not asks)


def test_v75_a_refused_token_is_renewed_once(
    server: McpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V75] The second refusal ends the account."""
    ann = User.objects.create(username="ann")
    connect(server, ann, "old", proven_at=timezone.now())
    asked: list[str] = []

    async def refreshed(_: Any, seen: connections.Token) -> None:
        asked.append(seen.kept["refresh_token"])
        kept = {"access_token": "new", "refresh_token": "next"}
        values = {"secrets": encryption.encrypt(kept), "version": seen.row.version + 1}
        await in_thread(McpConnection.objects.update, refreshing_until=None, **values)

    monkeypatch.setattr(connections, "refreshed", refreshed)
    kept = {"access_token": "old", "refresh_token": "first"}
    McpConnection.objects.update(secrets=encryption.encrypt(kept))
    notes = Server("new")
    assert call(server, notes.work, ann.pk) == "Done."
    assert (notes.seen, asked) == (["old", "new"], ["first"])
    notes = Server("another")
    wanted(server, notes.work, ann.pk)
    assert (notes.seen, asked) == (["new", "new"], ["first", "next"])
    assert McpConnection.objects.get().secrets == ""


@pytest.mark.parametrize(
    ("held", "more", "repeated", "scope"),
    [
        ("notes", "delete", 0, "notes delete"),
        ("notes", "delete notes", 1, "notes delete"),
        ("", "delete", 0, "delete"),
        ("notes", "delete", 2, None),
        ("notes delete", "delete", 0, None),
        ("notes", "", 0, None),
    ],
)
def test_v76_more_rights_are_asked_for_twice(
    server: McpServer, held: str, more: str, repeated: int, scope: str | None
) -> None:
    """[V76] When they are more than there are; the token stays."""
    ann = User.objects.create(username="ann")
    connect(server, ann, "old", scope=held, repeated=repeated)
    challenge = f'Bearer error="insufficient_scope", scope="{more}"'
    notes = Server(status=403, challenge=challenge)
    if scope is None:
        with pytest.raises(McpError, match="The account that is signed in may not do that"):
            call(server, notes.work, ann.pk)
    else:
        assert wanted(server, notes.work, ann.pk).wanted.scope == scope
    assert notes.seen == ["old"]
    assert McpConnection.objects.get().secrets != ""


@pytest.mark.parametrize(
    ("challenge", "value"),
    [
        ('Bearer scope="a b"', "a b"),
        ("Bearer scope=a, error=x", "a"),
        ("scope=a", "a"),
        ('Bearer realm="x",scope="a"', "a"),
        ('Basic realm="x", Bearer scope="a"', "a"),
        ('Bearer scope=""', ""),
        ('Bearer myscope="a"', ""),
        ("Bearer", ""),
        ("", ""),
        (f'Bearer scope="{"a" * 2_000}"', "a" * 2_000),
        (f'Bearer scope="{"a" * 2_001}"', ""),
        ('Bearer scope="a\x00"', ""),
        (f'Bearer x="{"a" * 7_990}" scope="b"', ""),
        (f'x="{"a" * 7_988}" scope=bc', "b"),
    ],
)
def test_v76_the_fields_of_a_challenge_are_read(challenge: str, value: str) -> None:
    """[V76] Quoted or not; nothing from a huge or an unreadable one."""
    assert signed_in.field_of(challenge, "scope") == value


def test_v76_a_huge_union_of_scopes_is_cut(server: McpServer) -> None:
    """[V76] It stands in an address."""
    ann = User.objects.create(username="ann")
    connect(server, ann, "old", scope="a" * 1_500)
    notes = Server(status=403, challenge=f'Bearer scope="{"b" * 1_500}"')
    assert len(wanted(server, notes.work, ann.pk).wanted.scope) == 2_000


def listed(server: McpServer, work: Work) -> str:
    return asyncio.run(signed_in.listed(info_of(server), work))


def test_v70_tools_are_listed_with_an_owners_account(
    server: McpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V70] The newest that is accepted; without one, the owner is told to sign in."""
    with pytest.raises(McpError, match="Sign in with “Connect” first"):
        listed(server, Server("x").work)
    for number, name in enumerate(("first", "second", "third")):
        owner = User.objects.create(username=name, is_owner=True)
        at = timezone.now() + timedelta(seconds=number)
        connect(server, owner, name, connected_at=at)
    connect(server, User.objects.create(username="guest"), "guest")
    connect(server, None, "gateway")
    notes = Server("first")
    assert listed(server, notes.work) == "Done."
    assert notes.seen == ["third", "second", "first"]
    notes = Server("guest")
    with pytest.raises(UnauthorizedError):
        listed(server, notes.work)
    assert notes.seen == ["third", "second", "first"]
    McpServer.objects.update(authentication="gateway")
    server.refresh_from_db()
    notes = Server("gateway")
    assert listed(server, notes.work) == "Done."
    assert notes.seen == ["gateway"]
    assert McpConnection.objects.exclude(secrets="").count() == 5


def test_v75_a_refused_token_that_lists_tools_is_renewed_once(
    server: McpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V75] As for a call; a second refusal is told."""
    given: list[connections.Token | None] = []
    owner = User.objects.create(username="owner", is_owner=True)
    token = connections.Token(connect(server, owner, "old"), {"access_token": "old"})

    async def usable(
        _: Any, user_id: int | None, *, instead_of: connections.Token | None = None
    ) -> connections.Token:
        assert user_id == owner.pk
        given.append(instead_of)
        return token if instead_of is None else replace(token, kept={"access_token": "new"})

    monkeypatch.setattr(connections, "usable", usable)
    notes = Server("new")
    assert listed(server, notes.work) == "Done."
    assert (notes.seen, given) == (["old", "new"], [None, token])
    notes = Server("another")
    with pytest.raises(UnauthorizedError):
        listed(server, notes.work)
    assert notes.seen == ["old", "new"]

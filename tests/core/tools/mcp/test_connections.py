"""Accounts at MCP servers: which token is used, when it is renewed, and what a failure leaves."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from core.database.transactions import atomic_write, in_thread
from core.lib import encryption
from core.models import McpConnection, McpRevocation, McpServer, User
from core.tools.mcp.errors import GrantEndedError, McpError
from core.tools.mcp.oauth import connections, registrations, sign_ins
from core.tools.mcp.oauth.connections import Token
from core.tools.mcp.oauth.secret_values import Tokens
from core.tools.mcp.servers import ServerInfo, info_of

pytestmark = pytest.mark.django_db(transaction=True)
REGISTERED = '{"client_id":"client-1","client_secret":"s"}'
NEW = Tokens(access_token="new", refresh_token="new-refresh", seconds=3600, scope="")
TOKENS = {"access_token", "refresh_token"}
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
    """The requests for the authorization server, which gives ``answer``."""

    answer: Answer = NEW
    meanwhile: Callable[[], object] = staticmethod(lambda: None)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()

    async def refresh(server: ServerInfo, kept: dict[str, str]) -> Tokens:
        assert server.name == "Notes"
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
    assert McpServer.objects.get().registration == ""


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


def test_v74_a_client_that_is_replaced_in_the_same_moment_is_kept(
    row: McpConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V74] By the sign-in of another person; one of a server that is gone changes nothing."""
    known = registrations.known

    def replaced(server: McpServer) -> str:
        McpServer.objects.update(registration="another")
        return known(server)

    monkeypatch.setattr(registrations, "known", replaced)
    registrations.forget_unknown(row.server_id, REGISTERED, code="invalid_client")
    assert McpServer.objects.get().registration == "another"
    registrations.forget_unknown(0, REGISTERED, code="invalid_client")
    assert known(McpServer(registration="")) == ""


def test_v75_a_client_that_cannot_be_opened_is_registered_anew(row: McpConnection) -> None:
    """[V75] The gateway's own key was changed: no sign-in was possible any more."""
    McpServer.objects.update(registration="gAAAAA-of-another-key")
    assert known_client(row) == ""
    registrations.forget_unknown(row.server_id, REGISTERED, code="invalid_client")
    McpServer.objects.update(secrets="gAAAAA-of-another-key")
    with pytest.raises(McpError, match="key was changed"):
        known_client(row)


def now_is(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    """Let the clock of the accounts stand."""
    monkeypatch.setattr(timezone, "now", lambda: now)


def test_v75_a_token_is_renewed_thirty_seconds_before_its_end(
    row: McpConnection, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V75] Not earlier; one that does not say when it ends is used until it is refused."""
    now = timezone.now()
    now_is(monkeypatch, now)
    for ends, renewed in ((now + timedelta(seconds=31), False), (None, False)):
        McpConnection.objects.update(expires_at=ends)
        found = usable(row)
        assert found is not None
        assert (found.value, found.row.version, bool(asked)) == ("old", 0, renewed)
    McpConnection.objects.update(expires_at=now + timedelta(seconds=30), scope="notes")
    found = usable(row)
    assert found is not None
    assert (found.value, found.row.pk, found.row.version) == ("new", row.pk, 1)
    assert (found.row.scope, found.row.proven_at, found.row.repeated) == ("notes", None, 0)
    assert asked[0]["refresh_token"] == "refresh"
    fresh = McpConnection.objects.get()
    assert encryption.decrypt(fresh.secrets) == {
        "access_token": "new",
        "refresh_token": "new-refresh",
        "client": REGISTERED,
    }
    assert fresh.expires_at == now + timedelta(seconds=3600)
    assert fresh.refreshing_until is None


def test_v75_a_server_that_gives_no_new_refresh_token_keeps_the_old_one(
    row: McpConnection, asked: Asked
) -> None:
    """[V75] RFC 6749, 6. It need not say how long the token lasts either."""
    asked.answer = replace(NEW, refresh_token="", seconds=None)
    assert usable(row) is not None
    fresh = McpConnection.objects.get()
    assert encryption.decrypt(fresh.secrets)["refresh_token"] == "refresh"
    assert fresh.expires_at is None


def test_v75_a_token_without_a_refresh_token_is_used_to_its_end(
    row: McpConnection, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V75] Then, and when it is refused, somebody has to sign in."""
    now = timezone.now()
    now_is(monkeypatch, now)
    McpConnection.objects.update(secrets=encryption.encrypt({"access_token": "old"}))
    McpConnection.objects.update(expires_at=now + timedelta(seconds=1))
    found = usable(row)
    assert found is not None
    assert usable(row, instead_of=found) is None
    McpConnection.objects.update(expires_at=now)
    assert usable(row) is None
    assert asked == []


def test_v75_a_refused_token_is_renewed_once_for_all(row: McpConnection, asked: Asked) -> None:
    """[V75] Another call that was refused with it takes the one that there is by now."""
    McpConnection.objects.update(expires_at=None)
    first = usable(row)
    second = usable(row, instead_of=first)
    assert second is not None
    assert (second.value, second.row.version) == ("new", 1)
    assert usable(row, instead_of=first) == second
    assert len(asked) == 1


def test_v75_a_token_that_is_over_is_not_used_when_its_server_is_away(
    row: McpConnection, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V75] One that is about to end is, unless it was refused; the next call asks again."""
    asked.answer = McpError("It fails.")
    with pytest.raises(McpError, match="It fails"):
        usable(row)
    assert McpConnection.objects.get().refreshing_until is None
    McpConnection.objects.update(expires_at=timezone.now() + timedelta(seconds=20))
    found = usable(row)
    assert found is not None
    assert found.value == "old"
    with pytest.raises(McpError, match="It fails"):
        usable(row, instead_of=found)
    asked.answer = NEW
    found = usable(row, instead_of=found)
    assert found is not None
    assert found.value == "new"
    assert len(asked) == 4


def test_v75_a_token_that_ends_at_once_is_used_when_it_is_new(
    row: McpConnection, asked: Asked
) -> None:
    """[V75] It would be renewed for ever."""
    asked.answer = replace(NEW, seconds=0)
    found = usable(row)
    assert found is not None
    assert (found.value, len(asked)) == ("new", 1)


def test_v74_a_token_that_counts_was_given_to_a_client_that_its_server_knows(
    row: McpConnection,
) -> None:
    """[V74] Not one that is over, and not to another client, or of another person."""
    now = timezone.now()
    of_row: dict[str, Any] = {"server_id": row.server_id, "user_id": row.user_id, "now": now}
    for expires_at, is_used in ((now, False), (now + timedelta(seconds=1), True), (None, True)):
        McpConnection.objects.update(expires_at=expires_at)
        assert connections.has_token_of(REGISTERED, **of_row) is is_used
    for client in ("", REGISTERED.replace("client-1", "client-2")):
        assert not connections.has_token_of(client, **of_row)
    assert not connections.has_token_of(REGISTERED, **{**of_row, "user_id": None})
    McpConnection.objects.update(secrets="")
    assert not connections.has_token_of(REGISTERED, **of_row)


@pytest.mark.parametrize(
    ("until", "takes"),
    [
        (timedelta(0), True),
        (timedelta(seconds=1), False),
        (timedelta(seconds=80), False),
        (timedelta(seconds=81), True),
    ],
)
def test_v75_the_lease_of_a_dead_worker_ends(
    row: McpConnection, until: timedelta, takes: bool
) -> None:
    """[V75] After 40 s, also where its clock was a little ahead; one far ahead is of a clock that
    was set back.
    """
    now = timezone.now()
    McpConnection.objects.update(refreshing_until=now + until)
    seen = McpConnection.objects.get()
    assert connections.take_lease(seen, now) is takes
    lease = now + (timedelta(seconds=40) if takes else until)
    assert McpConnection.objects.get().refreshing_until == lease


def test_v75_a_lease_belongs_to_the_tokens_that_were_read(row: McpConnection) -> None:
    """[V75] Another worker has renewed them meanwhile; only one's own lease is given back."""
    now = timezone.now()
    late = McpConnection.objects.get()
    McpConnection.objects.update(version=1)
    assert not connections.take_lease(late, now - timedelta(seconds=1))
    fresh = McpConnection.objects.get()
    assert connections.take_lease(fresh, now)
    connections.release(late)
    assert McpConnection.objects.get().refreshing_until is not None
    connections.release(fresh)
    assert McpConnection.objects.get().refreshing_until is None


def test_v75_a_worker_that_waits_for_another_one_gives_up(
    row: McpConnection, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V75] After 45 s; it takes the token when the other is done before."""
    monkeypatch.setattr(connections, "POLL_SECONDS", 0.01)
    waits = connections.WAIT_SECONDS
    assert (waits > connections.LEASE.total_seconds(), connections.STORE_SECONDS) == (True, 15)
    monkeypatch.setattr(connections, "WAIT_SECONDS", 0.1)
    McpConnection.objects.update(refreshing_until=timezone.now() + connections.LEASE)
    with pytest.raises(McpError, match="takes too long to renew the sign-in"):
        usable(row)
    assert asked == []
    monkeypatch.setattr(connections, "WAIT_SECONDS", waits)

    async def both() -> Token | None:
        waiting = asyncio.ensure_future(connections.usable(info, row.user_id))
        await asyncio.sleep(0.03)
        seen = await in_thread(connections.read, row.server_id, row.user_id)
        assert seen is not None
        await in_thread(connections.store_refreshed, seen, NEW, now=timezone.now())
        return await waiting

    info = info_of(row.server)
    found = asyncio.run(both())
    assert found is not None
    assert (found.value, asked) == ("new", [])


def test_v75_tokens_of_a_sign_in_meanwhile_stay(row: McpConnection, asked: Asked) -> None:
    """[V75] The person signed in again while the server was asked: the old grant is over."""
    kept = dict.fromkeys(("metadata", "client", "resource"), "{}")
    newest = replace(NEW, access_token="newest")

    def sign_in() -> None:
        with atomic_write():
            connections.store_signed_in(
                server_id=row.server_id, user_id=row.user_id, kept=kept, tokens=newest, scope=""
            )

    asked.meanwhile = sign_in
    for answer in (NEW, GrantEndedError("invalid_grant", "x")):
        McpConnection.objects.update(expires_at=timezone.now())
        asked.answer = answer
        found = usable(row)
        assert found is not None
        assert found.value == "newest"
    assert not McpRevocation.objects.exists()


def test_v75_tokens_of_an_account_that_has_ended_meanwhile_are_left(row: McpConnection) -> None:
    """[V75] Its row is there: it is not connected again."""
    seen = connections.read(row.server_id, row.user_id)
    assert seen is not None
    McpConnection.objects.update(secrets="")
    assert not connections.store_refreshed(seen, NEW, now=timezone.now())
    assert McpConnection.objects.get().secrets == ""
    assert not McpRevocation.objects.exists()
    assert connections.read(row.server_id, row.user_id) is None


def test_v75_new_tokens_wait_fifteen_seconds_for_the_database(
    row: McpConnection, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V75] Within the lease: then another worker may ask."""
    tries: list[int] = []

    def away(*_: object, **__: object) -> None:
        tries.append(1)
        raise OperationalError("the server closed the connection")

    monkeypatch.setattr(connections, "store_refreshed", away)
    monkeypatch.setattr(connections, "STORE_SECONDS", 0.3)
    with pytest.raises(OperationalError):
        usable(row)
    assert len(tries) > 1
    assert len(asked) == 1


def test_v75_a_sign_in_is_counted_until_a_call_is_accepted_with_it(row: McpConnection) -> None:
    """[V75] Each further one, so that no person is asked for ever."""
    kept = {**dict.fromkeys(("metadata", "client", "resource"), "{}"), "verifier": "v"}
    place: dict[str, Any] = {"server_id": row.server_id, "kept": kept, "tokens": NEW}

    def sign_in(scope: str = "notes", user_id: int | None = row.user_id) -> McpConnection:
        with atomic_write():
            return connections.store_signed_in(scope=scope, user_id=user_id, **place)

    McpConnection.objects.update(proven_at=timezone.now(), repeated=1, refused_at=timezone.now())
    McpConnection.objects.update(refreshing_until=timezone.now())
    for count in (0, 1, 2):
        made = sign_in()
        assert (made.repeated, made.version, made.scope) == (count, count + 1, "notes")
    assert (made.proven_at, made.refused_at, made.refreshing_until) == (None, None, None)
    assert set(encryption.decrypt(made.secrets)) == {*kept, *TOKENS} - {"verifier"}
    seen = connections.read(row.server_id, row.user_id)
    assert seen is not None
    connections.prove(seen)
    proven = McpConnection.objects.get()
    assert (proven.repeated, proven.proven_at is None) == (0, False)
    connections.prove(seen)
    assert McpConnection.objects.get().proven_at == proven.proven_at
    assert sign_in().repeated == 0
    of_gateway = sign_in("", None)
    assert (of_gateway.pk != row.pk, of_gateway.repeated) == (True, 0)
    assert (of_gateway.scope, of_gateway.version) == (NEW.scope, 1)
    assert McpConnection.objects.count() == 2


def test_v75_a_refused_sign_in_is_not_asked_for_again_for_ten_minutes(row: McpConnection) -> None:
    """[V75] Nor is one whose tokens were over before a call, the second time."""
    now = timezone.now()
    place = (row.server_id, row.user_id)
    assert not connections.was_refused(*place, now=now)
    connections.note_refused(row.pk)
    assert McpConnection.objects.get().refused_at is None, "it has tokens"
    connections.end(row.pk, version=1)
    assert McpConnection.objects.get().secrets != "", "these are others"
    McpConnection.objects.update(refreshing_until=now)
    connections.end(row.pk, version=0)
    ended = McpConnection.objects.get()
    assert (ended.secrets, ended.version, ended.refreshing_until) == ("", 1, None)
    connections.note_refused(row.pk)
    refused_at = McpConnection.objects.get().refused_at
    assert refused_at is not None
    assert refused_at >= now
    for minutes, is_refused in ((0, True), (9, True), (10, False), (-1, False)):
        McpConnection.objects.update(refused_at=now - timedelta(minutes=minutes))
        assert connections.was_refused(*place, now=now) is is_refused
    McpConnection.objects.update(secrets="x", refused_at=now)
    assert not connections.was_refused(*place, now=now)
    for minutes, is_refused in ((0, True), (9, True), (10, False), (-1, False)):
        then = now - timedelta(minutes=minutes)
        McpConnection.objects.update(connected_at=then, repeated=1)
        assert connections.was_refused(*place, now=now) is is_refused
    McpConnection.objects.update(connected_at=now, repeated=0)
    assert not connections.was_refused(*place, now=now)
    McpConnection.objects.update(repeated=1, proven_at=now)
    assert not connections.was_refused(*place, now=now)
    assert not connections.was_refused(row.server_id, None, now=now)


def test_v77_removed_accounts_are_revoked_at_once(row: McpConnection) -> None:
    """[V77] By the next chore; an ended one has no tokens to revoke."""
    before = timezone.now()
    McpServer.objects.update(allow_private=True)
    assert connections.remove(McpConnection.objects.all()) == 1
    [left] = McpRevocation.objects.all()
    assert (left.secrets, left.allow_private) == (row.secrets, True)
    assert before <= left.due_at <= timezone.now()
    row.pk = None
    row.secrets = ""
    row.save(force_insert=True)
    assert connections.remove(McpConnection.objects.all()) == 1
    assert connections.remove(McpConnection.objects.all()) == 0
    assert McpRevocation.objects.count() == 1


def test_v70_owners_with_an_account_list_tools_the_newest_first(row: McpConnection) -> None:
    """[V70] Without those whose sign-in has ended."""
    owners = [User.objects.create(username=f"o{n}", is_owner=True) for n in range(3)]
    for number, owner in enumerate(owners):
        McpConnection.objects.create(
            server=row.server,
            user=owner,
            secrets="x" if number else "",
            connected_at=timezone.now() + timedelta(seconds=number),
        )
    assert connections.of_owners(row.server_id) == [owners[2].pk, owners[1].pk]


def test_v71_accounts_of_others_and_at_other_servers_are_left(row: McpConnection) -> None:
    """[V71] Whatever happens to one account."""
    now = timezone.now()
    other = McpServer.objects.create(name="Shed", slug="shed", url="https://shed.example/mcp")
    bob = User.objects.create(username="bob", is_owner=True)
    lease = now + connections.LEASE
    neighbours = []
    for server, user in ((other, row.user), (row.server, bob), (other, bob)):
        values: dict[str, Any] = {"server": server, "user": user, "connected_at": now}
        sealed = encryption.encrypt({"access_token": f"{server.slug} of {user}"})
        neighbours.append(McpConnection.objects.create(secrets=sealed, **values))
    ended = McpConnection.objects.create(
        server=other, user=User.objects.create(username="eve"), connected_at=now
    )
    pks = [each.pk for each in (*neighbours, ended)]
    before = list(McpConnection.objects.filter(pk__in=pks).order_by("pk").values())
    seen = connections.read(row.server_id, row.user_id)
    assert seen is not None and seen.row == row  # noqa: PT018 - for mypy
    read = [connections.read(each.server_id, each.user_id) for each in neighbours]
    assert [each and each.row for each in read] == neighbours
    assert connections.take_lease(seen.row, now)
    assert list(McpConnection.objects.filter(pk__in=pks).order_by("pk").values()) == before
    McpConnection.objects.filter(pk__in=pks).update(refreshing_until=lease)
    connections.release(seen.row)
    assert McpConnection.objects.filter(refreshing_until=lease).count() == 4
    McpConnection.objects.filter(pk__in=pks).update(refreshing_until=None)
    assert connections.store_refreshed(seen, NEW, now=now)
    with atomic_write():
        kept = dict.fromkeys(("metadata", "client", "resource"), "{}")
        made = connections.store_signed_in(
            server_id=row.server_id, user_id=row.user_id, kept=kept, tokens=NEW, scope=""
        )
        eve = connections.store_signed_in(
            server_id=row.server_id, user_id=ended.user_id, kept=kept, tokens=NEW, scope=""
        )
    assert (made.pk, eve.user_id, eve.pk != ended.pk) == (row.pk, ended.user_id, True)
    eve.delete()
    connections.prove(seen)
    McpConnection.objects.filter(pk__in=pks).update(version=made.version)
    connections.end(row.pk, version=made.version)
    connections.note_refused(row.pk)
    assert connections.was_refused(row.server_id, row.user_id, now=timezone.now())
    assert not connections.was_refused(row.server_id, bob.pk, now=timezone.now())
    assert not connections.was_refused(other.pk, row.user_id, now=timezone.now())
    assert connections.of_owners(row.server_id) == [bob.pk]
    McpConnection.objects.filter(pk__in=pks).update(version=0)
    after = list(McpConnection.objects.filter(pk__in=pks).order_by("pk").values())
    assert after == before

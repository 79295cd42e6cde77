"""Sign-ins at MCP servers as rows: for whom, in which browser, how often, and for how long."""

import hashlib
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from core.lib import encryption
from core.models import (
    ChannelAccount,
    ChatSession,
    McpRevocation,
    McpServer,
    McpSignIn,
    Run,
    ToolCall,
    User,
)
from core.tools.mcp.errors import McpError
from core.tools.mcp.oauth import sign_ins
from core.tools.mcp.oauth.secret_values import Started

pytestmark = pytest.mark.django_db
NOW = timezone.now()
HOUR = timedelta(hours=1)
STARTED = Started(
    address="https://auth.example/authorize",
    state="state-1",
    scope="notes",
    kept={"verifier": "v"},
    issuer="https://auth.example",
    registered="",
)


@pytest.fixture
def server() -> McpServer:
    return McpServer.objects.create(
        name="Notes", slug="notes", url="https://notes.example/mcp", authentication="person"
    )


@pytest.fixture
def ann() -> User:
    return User.objects.create(username="ann")


@pytest.fixture
def row(server: McpServer, ann: User) -> McpSignIn:
    return sign_ins.create(server, ann, now=NOW)


def start(row: McpSignIn, started: Started = STARTED, browser: str = "browser") -> bool:
    return sign_ins.store_started(row, started, browser=browser, by=row.user)


def test_v72_the_page_is_for_a_person_that_may_use_the_server(
    row: McpSignIn, server: McpServer, ann: User
) -> None:
    """[V72] While both are let in and the sign-in is open."""
    bob = User.objects.create(username="bob", is_owner=True)
    assert sign_ins.may_open(row, ann, NOW)
    assert not sign_ins.may_open(row, bob, NOW)
    server.people.add(bob)
    assert not sign_ins.may_open(row, ann, NOW)
    assert sign_ins.may_use(server, bob)
    server.people.add(ann)
    assert sign_ins.may_open(row, ann, NOW)
    for change in ({"is_active": False}, {"is_active": True}):
        vars(ann).update(change)
        assert sign_ins.may_open(row, ann, NOW) is change["is_active"]
    row.server.enabled = False
    assert not sign_ins.may_open(row, ann, NOW)
    row.server.enabled = True
    assert not sign_ins.may_open(row, ann, NOW + HOUR)


def test_v70_any_owner_signs_in_for_the_gateway(server: McpServer, ann: User) -> None:
    """[V70] No guest does, also one on the list of the server."""
    McpServer.objects.update(authentication="gateway")
    server.refresh_from_db()
    bob, eve = (User.objects.create(username=name, is_owner=True) for name in ("bob", "eve"))
    row = sign_ins.create(server, bob, now=NOW)
    assert row.of_gateway
    server.people.add(ann)
    assert [sign_ins.may_open(row, each, NOW) for each in (bob, eve, ann)] == [True, True, False]


@pytest.mark.parametrize(
    ("state", "is_open"), [("open", True), ("exchanging", True), ("done", False), ("ended", False)]
)
def test_v74_an_open_link_is_used_again(row: McpSignIn, state: str, is_open: bool) -> None:
    """[V74] For another hour; one that has ended or expired is not, nor that of another person or
    of the gateway.
    """
    McpSignIn.objects.update(state=state)
    row.refresh_from_db()
    assert sign_ins.is_open(row, NOW) is is_open
    assert sign_ins.is_open(row, NOW + HOUR) is False
    assert [each.pk for each in sign_ins.open_at(row.server)] == ([row.pk] if is_open else [])
    again = sign_ins.create(row.server, row.user, now=NOW + HOUR / 2)
    assert (again.pk == row.pk) is is_open
    again.refresh_from_db()
    assert again.expires_at == NOW + HOUR * 1.5
    assert sign_ins.create(row.server, row.user, now=NOW + HOUR * 2).pk != again.pk
    bob = User.objects.create(username="bob")
    assert not McpSignIn.objects.filter(pk=sign_ins.create(row.server, bob, now=NOW).pk, user=1)
    McpSignIn.objects.update(of_gateway=True)
    assert not sign_ins.create(row.server, row.user, now=NOW).of_gateway


def test_v70_a_link_for_which_a_call_waits_is_not_used_for_another_sign_in(
    row: McpSignIn,
) -> None:
    """[V70] It ends with its call."""
    account = ChannelAccount.objects.create(channel="memory", name="m")
    session = ChatSession.objects.create(user=row.user, account=account, chat="1")
    run = Run.objects.create(session=session, user=row.user, origin="http")
    ToolCall.objects.create(
        run=run, call_id="1", tool="t", arguments="{}", state="waiting", sign_in=row
    )
    assert sign_ins.create(row.server, row.user, now=NOW).pk != row.pk


def test_v73_the_client_of_a_server(server: McpServer, settings: Settings) -> None:
    """[V73] Its own, that of the document, or the one that was registered."""
    settings.GATEWAY_URL = "https://gateway.example"
    server.client_id = "mine"
    server.secrets = encryption.encrypt({"client_secret": "s", "issuer": "i", "key": "k"})
    server.registration = encryption.encrypt({"client": "{}"})
    found = sign_ins.client_of(server)
    assert found.redirect_uri == "https://gateway.example/mcp/oauth/callback/notes"
    assert found.metadata_url == "https://gateway.example/mcp/oauth/client/notes.json"
    assert (found.client_id, found.client_secret, found.issuer) == ("mine", "s", "i")
    assert (found.registration, found.name) == ("{}", "Latchkey")
    bare = sign_ins.client_of(McpServer(slug="x", registration="", client_id=""))
    assert (bare.client_secret, bare.issuer, bare.registration) == ("", "", "")
    with pytest.raises(McpError, match="the gateway's own key was changed"):
        sign_ins.client_of(McpServer(slug="x", secrets="gAAAAA"))


def test_v72_an_attempt_belongs_to_its_browser_and_server(row: McpSignIn) -> None:
    """[V72] Its state is used once; an older one, another browser's and another server's are
    unknown.
    """
    other = sign_ins.create(row.server, User.objects.create(username="bob"), now=NOW)
    assert start(row)
    other.refresh_from_db()
    assert other.state_hash is None
    other.delete()
    kept = McpSignIn.objects.get()
    about = {"scope": "notes", "by": str(row.user_id), "ground": sign_ins.ground_of(row.server)}
    assert encryption.decrypt(kept.secrets) == {"verifier": "v", **about}
    assert kept.state_hash == sign_ins.digest("state-1") != "state-1"
    found = sign_ins.came_back("state-1", slug="notes", browser="browser")
    assert found == row
    for state, slug, browser in (
        ("state-2", "notes", "browser"),
        ("", "notes", "browser"),
        ("state-1", "other", "browser"),
        ("state-1", "notes", "another"),
        ("state-1", "notes", ""),
    ):
        assert sign_ins.came_back(state, slug=slug, browser=browser) is None
    assert sign_ins.take(found, now=NOW + HOUR) is None
    assert sign_ins.take(found, now=NOW) == {"verifier": "v", **about}
    assert sign_ins.take(found, now=NOW) is None
    assert start(row, replace(STARTED, state="state-2"), browser="another")
    assert sign_ins.take(found, now=NOW) is None, "the link was opened again"
    assert sign_ins.came_back("state-1", slug="notes", browser="browser") is None
    about = {"browser_hash": sign_ins.digest("browser", row.pk)}
    McpSignIn.objects.update(**about, state_hash=sign_ins.digest(""))
    assert sign_ins.came_back("", slug="notes", browser="browser") is None


def test_v72_secrets_that_cannot_be_opened_end_the_attempt(row: McpSignIn) -> None:
    """[V72] The link begins another one."""
    assert start(row)
    McpSignIn.objects.update(secrets="gAAAAA")
    found = sign_ins.came_back("state-1", slug="notes", browser="browser")
    assert found is not None
    with pytest.raises(McpError, match="the gateway's own key was changed"):
        sign_ins.take(found, now=NOW)
    assert start(row, replace(STARTED, state="state-2"))


def test_v72_an_attempt_is_closed_once(row: McpSignIn) -> None:
    """[V72] The one that is exchanging its code, not one that is older or was declined."""
    assert start(row)
    found = sign_ins.came_back("state-1", slug="notes", browser="browser")
    assert found is not None
    assert not sign_ins.close(found, now=NOW)
    assert sign_ins.take(found, now=NOW)
    for name in ("state_hash", "browser_hash"):
        value = getattr(found, name)
        setattr(found, name, "another")
        assert not sign_ins.close(found, now=NOW)
        setattr(found, name, value)
    assert sign_ins.close(found, now=NOW)
    row.refresh_from_db()
    assert (row.state, row.done_at, row.secrets) == ("done", NOW, "")
    assert not sign_ins.close(found, now=NOW)
    sign_ins.end(row)
    row.refresh_from_db()
    assert row.state == "done"
    assert not start(row)


def test_v70_a_declined_sign_in_is_over(row: McpSignIn) -> None:
    """[V70] Its secrets go; no attempt is begun with it any more."""
    assert start(row)
    sign_ins.end(row)
    row.refresh_from_db()
    assert (row.state, row.secrets) == ("ended", "")
    assert not start(row)


def test_v74_a_registered_client_is_kept_with_the_server(row: McpSignIn) -> None:
    """[V74] An attempt with a known one leaves it."""
    assert start(row, replace(STARTED, registered='{"client_id":"c"}'))
    assert start(row)
    row.server.refresh_from_db()
    assert encryption.decrypt(row.server.registration) == {"client": '{"client_id":"c"}'}
    assert row.server.secrets == ""


def test_v73_the_owners_client_is_bound_at_its_first_sign_in(row: McpSignIn) -> None:
    """[V73] To one authorization server; a client id that was entered meanwhile is not."""
    sealed = encryption.encrypt({"client_secret": "s"})
    McpServer.objects.update(client_id="mine", secrets=sealed)
    assert start(row)
    assert encryption.decrypt(McpServer.objects.get().secrets) == {"client_secret": "s"}
    row.server.refresh_from_db()
    for issuer in ("https://auth.example", "https://other.example"):
        assert start(row, replace(STARTED, issuer=issuer))
        kept = encryption.decrypt(McpServer.objects.get().secrets)
        assert kept == {"client_secret": "s", "issuer": "https://auth.example"}
    McpServer.objects.update(secrets="gAAAAA")
    with pytest.raises(McpError, match="the gateway's own key was changed"):
        start(row)


def test_v77_the_ground_of_a_sign_in_is_the_purpose_of_its_tokens(server: McpServer) -> None:
    """[V77] Address, client id and authentication; not the name."""
    before = sign_ins.ground_of(server)
    server.name = "Other"
    assert sign_ins.ground_of(server) == before
    grounds = {before}
    for name in ("url", "client_id", "authentication"):
        value = getattr(server, name)
        setattr(server, name, "x")
        grounds.add(sign_ins.ground_of(server))
        setattr(server, name, value)
    assert len(grounds) == 4
    assert sign_ins.digest("a", "b") == hashlib.sha256(b"a\0b").hexdigest(), "it is stored"
    assert len(sign_ins.digest("\ud800")) == 64


def test_v78_old_sign_ins_are_removed(row: McpSignIn) -> None:
    """[V78] Their secrets at their end, the rows a week later."""
    assert start(row)
    sign_ins.purge(now=NOW + HOUR)
    row.refresh_from_db()
    assert row.secrets != ""
    sign_ins.purge(now=NOW + HOUR + timedelta(seconds=1))
    row.refresh_from_db()
    assert row.secrets == ""
    sign_ins.purge(now=NOW + HOUR + timedelta(days=7))
    assert McpSignIn.objects.exists()
    sign_ins.purge(now=NOW + HOUR + timedelta(days=7, seconds=1))
    assert not McpSignIn.objects.exists()


def test_v75_times_far_ahead_are_brought_near(row: McpSignIn, settings: Settings) -> None:
    """[V75] The clock was set back: a sign-in is open no longer than a question, a revocation is
    tried within ten minutes.
    """
    settings.TOOL_QUESTION_HOURS = 24
    done = McpSignIn.objects.create(
        server=row.server, user=row.user, state="done", expires_at=NOW + timedelta(days=400)
    )
    McpSignIn.objects.filter(pk=row.pk).update(expires_at=NOW + timedelta(days=400))
    left = McpRevocation.objects.create(secrets="x", due_at=NOW + timedelta(days=400))
    sign_ins.bring_near()
    for each in (row, done, left):
        each.refresh_from_db()
    now = timezone.now()
    assert timedelta(hours=23) < row.expires_at - now <= timedelta(hours=24)
    assert timedelta(minutes=9) < left.due_at - now <= timedelta(minutes=10)
    assert done.expires_at == NOW + timedelta(days=400)

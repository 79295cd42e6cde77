"""Sign-ins at MCP servers, at the running worker and through the real pages (V70 to V79)."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from django.apps import apps
from django.core import serializers
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from allowlist import revocation
from allowlist.models import AuditEntry
from channels_app.memory.channel import PLATFORM, say
from channels_app.tool_requests import deciding, signing_in
from channels_app.webchat.transcript import parts_of
from channels_app.worker.runner import Runner
from core.database import transactions
from core.lib import encryption
from core.models import (
    ChannelAccount,
    McpConnection,
    McpFinding,
    McpRevocation,
    McpServer,
    McpSignIn,
    McpTool,
    Message,
    Run,
    RunEvent,
    ToolCall,
    User,
)
from core.tools.mcp import offered, pins, refresh
from core.tools.mcp import tool as server_tool
from core.tools.mcp.oauth import connections, flow, pages, revocations, sign_ins
from core.tools.mcp.servers import info_of
from tests.channels_app.running import make_person, memory_account, until
from tests.core.tools.mcp.authorization_server import SigningMcp, running
from tests.core.tools.mcp.malicious_mcp import tool

pytestmark = pytest.mark.django_db(transaction=True)
SCRIPT: list[dict[str, Any]] = [
    {"match": "^read", "after_tool": True, "steps": [{"text": "It was read."}]},
    {"match": "^both", "after_tool": True, "steps": [{"text": "Both were read."}]},
    {"match": "^send", "after_tool": True, "steps": [{"text": "It was sent."}]},
    {"match": "^send", "steps": [{"tool": "mcp_notes_send", "arguments": {"text": "x"}}]},
    {"match": "^both", "steps": [{"tool": "mcp_notes_read", "arguments": {"text": "1"}},
                                 {"tool": "mcp_notes_read", "arguments": {"text": "2"}}]},
    {"match": "", "steps": [{"tool": "mcp_notes_read", "arguments": {"text": "x"}}]},
]  # fmt: skip
PLACES = {"guest": ("556", "c"), "other": ("557", "d"), "owner": ("555", "own")}


@pytest.fixture
def notes() -> Iterator[SigningMcp]:
    server_tool._stored.clear()
    made = SigningMcp(tools=[tool("read", annotations={"readOnlyHint": True}), tool("send")])
    with running(made):
        yield made
    server_tool._stored.clear()


@pytest.fixture
def server(notes: SigningMcp, owner: User) -> McpServer:
    """Return a server of people's own accounts, whose tools the owner has accepted."""
    row = McpServer.objects.create(
        name="Notes",
        slug="notes",
        url=notes.url,
        allow_private=True,
        seconds=5,
        authentication="person",
    )
    connect(row, owner, notes, "boss")
    asyncio.run(refresh.refresh(info_of(row)))
    for each in row.tools.all():
        assert pins.accept(each.pk, each.offered_hash, now=timezone.now())
    McpTool.objects.update(ask="never")
    row.save()
    notes.accounts_of_calls.clear()
    notes.requests.clear()
    return row


@pytest.fixture
def account(
    server: McpServer,
    runner: Runner,
    owner: User,
    guest: User,
    settings: Settings,
    tmp_path: Path,
) -> ChannelAccount:
    """Return a channel on which the guest, the owner and another person write."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    settings.LLM_SCRIPT = str(path)
    made = memory_account()
    for user in (owner, guest, make_person("other", "557")):
        user.last_account = made
        user.last_target = {"chat": PLACES[user.username][1], "thread": ""}
        user.save()
    return made


def connect(row: McpServer, user: User, notes: SigningMcp, name: str) -> None:
    """Let a person sign in from a page of their own session."""
    sign_in = sign_ins.create(row, user, now=timezone.now())
    browser = Client()
    browser.force_login(user)
    page = f"/mcp/oauth/sign-in/{sign_in.public_id}"
    assert "You are signed in" in come_back(browser, go_there(browser, page, notes, name))


def go_there(browser: Client, page: str, notes: SigningMcp, name: str) -> str:
    """Press the button of a sign-in's page, and consent at the server; return the way back."""
    response = browser.post(page, {"choice": "start"})
    assert response.status_code == 200, response.content.decode()
    return notes.authorize(response.context["address"], name)


def come_back(browser: Client, address: str) -> str:
    """Open the callback."""
    parts = urlsplit(address)
    return browser.get(f"{parts.path}?{parts.query}").content.decode()


def write(account: ChannelAccount, words: str, person: str = "guest") -> Run:
    """Send a message; return its run when it has ended."""
    sender, chat = PLACES[person]
    say(account=account, sender=sender, chat=chat, text=words, message_id=words, now=timezone.now())
    until(lambda: Run.objects.filter(text=words, state__in=Run.FINAL).exists())
    run = Run.objects.filter(text=words).order_by("id")[0]
    assert run.state == "succeeded", run.error
    return run


def own_browser(person: str = "guest") -> Client:
    """Return a browser in which a person is signed in to the gateway."""
    browser = Client()
    browser.force_login(User.objects.get(username=person))
    return browser


def link_to(person: str = "guest") -> str:
    """Return the path of the newest link that is sent to a person."""
    rows = McpSignIn.objects.filter(user__username=person, state__in=("open", "exchanging"))
    until(rows.exists)
    path = f"/mcp/oauth/sign-in/{rows.latest('id').public_id}"
    until(lambda: any("🔑" in each and path in each for each in PLATFORM.texts(PLACES[person][1])))
    return path


def sign_in(notes: SigningMcp, name: str, person: str = "guest", browser: Any = None) -> str:
    """Sign in with the newest link of a person, in a browser of theirs."""
    browser = browser or own_browser(person)
    return come_back(browser, go_there(browser, link_to(person), notes, name))


def answered(words: str, person: str = "guest", times: int = 1) -> None:
    chat = PLACES[person][1]
    until(lambda: sum(words in each for each in PLATFORM.texts(chat)) == times)


def test_v70_the_request_goes_on_after_the_sign_in(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, guest: User
) -> None:
    """[V70] The call is made once, as the person; the answer has a link for their session, and the
    private chat one that needs none.
    """
    run = write(account, "read it")
    assert "Please sign in to “Notes” first" in run.result["text"]
    call = ToolCall.objects.get(run=run)
    assert (call.kind, call.state, call.of_person) == ("sign_in", "waiting", True)
    assert call.sign_in is not None
    assert f"/mcp/oauth/sign-in/{call.sign_in.public_id}" in run.result["text"]
    assert notes.calls == []
    [shown] = [each for each in parts_of([run])[run.id] if each["type"] == "tool_call"]
    assert shown["waits"], "the web chat says that a sign-in is needed, not that the call failed"
    page = own_browser().get(link_to()).content.decode()
    assert "Sign in to Notes" in page
    assert McpSignIn.objects.filter(state_hash=None, state="open").count() == 1
    assert "You are signed in" in sign_in(notes, "guest@notes")
    answered("It was read.")
    assert notes.accounts_of_calls == ["guest@notes"]
    call.refresh_from_db()
    assert call.state in {"allowed", "done"}
    until(lambda: any("✓ Signed in." in each for each in PLATFORM.texts("c")))
    write(account, "read it again")
    answered("It was read.", times=2)
    assert notes.accounts_of_calls == ["guest@notes"] * 2
    assert ToolCall.objects.filter(kind="sign_in").count() == 1


def test_v70_an_owners_sign_in_without_a_request_leads_back_to_the_server(
    notes: SigningMcp, server: McpServer, owner: User, guest: User
) -> None:
    """[V70] No request goes on then, and the result of an earlier test of the server is gone."""
    McpServer.objects.update(check_result="Sign in with “Connect” first")
    for user, is_led in ((guest, False), (owner, True)):
        row = sign_ins.create(server, user, now=timezone.now())
        browser = Client()
        browser.force_login(user)
        path = f"/mcp/oauth/sign-in/{row.public_id}"
        page = come_back(browser, go_there(browser, path, notes, user.username))
        assert "You are signed in. You can close this page.<" in page
        assert (f'href="/admin/core/mcpserver/{server.pk}/change/"' in page) == is_led
        assert (McpServer.objects.get().check_result == "") == is_led


def test_v70_one_sign_in_is_enough_for_all_calls_of_an_answer(
    account: ChannelAccount, notes: SigningMcp
) -> None:
    """[V70] Two calls wait; one message is sent."""
    run = write(account, "both")
    assert ToolCall.objects.filter(run=run, state="waiting").count() == 2
    sign_in(notes, "guest@notes")
    answered("Both were read.")
    assert sorted(each["arguments"]["text"] for each in notes.calls) == ["1", "2"]
    assert sum("🔑" in each for each in PLATFORM.texts("c")) == 1


def test_v70_the_yes_of_the_owner_comes_first(
    account: ChannelAccount, notes: SigningMcp, owner: User
) -> None:
    """[V70] A sign-in stands for no yes, and a call that must not be made twice is made once."""
    McpTool.objects.filter(name="send").update(ask="always")
    McpServer.objects.get().save()
    run = write(account, "send it")
    call = ToolCall.objects.get(run=run)
    assert call.kind == "yes"
    assert not McpSignIn.objects.filter(state="open").exists()
    now = timezone.now()
    deciding.decide(
        call_id=call.public_id, digest=call.digest, by=owner, choice="once", via="test", now=now
    )
    sign_in(notes, "guest@notes")
    answered("It was sent.")
    assert notes.accounts_of_calls == ["guest@notes"]
    assert ToolCall.objects.filter(state="waiting").count() == 0


def test_v70_not_now_and_too_late(account: ChannelAccount, notes: SigningMcp, guest: User) -> None:
    """[V70] The person is told, and the link is over."""
    call = ToolCall.objects.get(run=write(account, "read it"))
    link = link_to()
    decide: dict[str, Any] = {
        "call_id": call.public_id,
        "digest": call.digest,
        "by": guest,
        "via": "test",
    }
    now = timezone.now()
    assert deciding.decide(choice="once", now=now, **decide).outcome == "sign_in"
    assert deciding.decide(choice="deny", now=now, **decide).outcome == "denied"
    answered("There was no sign-in for “mcp_notes_read”")
    assert "This sign-in is over" in own_browser().get(link).content.decode()
    late = ToolCall.objects.get(run=write(account, "read it later"))
    past = now - timedelta(seconds=1)
    ToolCall.objects.filter(pk=late.pk).update(expires_at=past)
    McpSignIn.objects.filter(calls=late).update(expires_at=past)
    answered("There was no sign-in for", times=2)
    assert notes.calls == []


def test_v70_declined_at_the_server(account: ChannelAccount, notes: SigningMcp) -> None:
    """[V70] error=access_denied; from another server it ends nothing."""
    write(account, "read it")
    browser = own_browser()
    go_there(browser, link_to(), notes, "x")
    state = next(iter(notes.codes.values()))["state"]
    back = f"/mcp/oauth/callback/notes?state={state}&error=access_denied"
    assert "another authorization server" in come_back(browser, f"{back}&iss=http://evil.test")
    go_there(browser, link_to(), notes, "x")
    state = list(notes.codes.values())[-1]["state"]
    back = f"/mcp/oauth/callback/notes?state={state}&error=access_denied"
    assert "You are not signed in" in come_back(browser, f"{back}&iss={notes.base}")
    answered("There was no sign-in for")


def test_v70_another_error_of_the_server_is_no_refusal(
    account: ChannelAccount, notes: SigningMcp, guest: User
) -> None:
    """[V70] It is said, and the link works again; words of the server are not repeated."""
    write(account, "read it")
    browser = own_browser()
    for given, said in (
        ("&error=temporarily_unavailable", "an error (temporarily_unavailable)"),
        ("&error=planted-words", "without a code"),
        ("", "without a code"),
    ):
        go_there(browser, link_to(), notes, "x")
        state = list(notes.codes.values())[-1]["state"]
        back = f"/mcp/oauth/callback/notes?state={state}&iss={notes.base}{given}"
        page = come_back(browser, back)
        assert said in page
        assert "planted-words" not in page
    assert ToolCall.objects.get(run__user=guest, kind="sign_in").state == "waiting"
    sign_in(notes, "guest@notes")
    answered("It was read.")


def test_v71_two_people_never_get_each_others_tokens(
    account: ChannelAccount, notes: SigningMcp, guest: User
) -> None:
    """[V71] At the same time, on one server, and after both have signed in."""
    write(account, "read one")
    write(account, "read two", "other")
    sign_in(notes, "other@notes", "other")
    answered("It was read.", "other")
    assert notes.accounts_of_calls == ["other@notes"]
    assert ToolCall.objects.get(run__user=guest, kind="sign_in").state == "waiting"
    sign_in(notes, "guest@notes")
    answered("It was read.")
    for number in range(3):
        write(account, f"read g{number}")
        write(account, f"read o{number}", "other")
    answered("It was read.", times=4)
    answered("It was read.", "other", times=4)
    assert notes.accounts_of_calls[1:] == ["guest@notes", *["guest@notes", "other@notes"] * 3]


def test_v71_people_whom_an_open_list_lets_in_have_no_account(
    account: ChannelAccount, notes: SigningMcp, guest: User
) -> None:
    """[V71] They share a person, and would share the account of one of them."""
    guest.identities.all().delete()
    guest.only_listed = False
    guest.save()
    run = write(account, "read it")
    assert not ToolCall.objects.filter(run=run).exists()
    line = Message.objects.filter(run=run, role="assistant").get()
    assert "Only people on the owner" in json.dumps(line.calls)


def test_v72_a_callback_counts_in_the_browser_of_the_link_once(
    account: ChannelAccount, notes: SigningMcp, guest: User
) -> None:
    """[V72] Another person's browser, a wrong state, a code that comes twice."""
    write(account, "read it")
    mine, theirs = own_browser(), Client()
    theirs.force_login(User.objects.get(username="other"))
    back = go_there(mine, link_to(), notes, "guest@notes")
    assert "begun in another browser" in come_back(theirs, back)
    theirs.cookies["mcp-sign-in"] = "x" * 43
    assert "begun in another browser" in come_back(theirs, back)
    wrong = back.replace("state=", "state=x")
    assert "begun in another browser" in come_back(mine, wrong)
    assert notes.forms("authorization_code") == []
    assert "You are signed in" in come_back(mine, back)
    assert "was used already" in come_back(mine, back)
    assert len(notes.forms("authorization_code")) == 1
    answered("It was read.")


def test_v72_an_older_attempt_is_over_when_the_link_is_opened_again(
    account: ChannelAccount, notes: SigningMcp
) -> None:
    """[V72] Its state is not known any more."""
    write(account, "read it")
    browser = own_browser()
    first = go_there(browser, link_to(), notes, "first")
    second = go_there(browser, link_to(), notes, "second")
    assert "begun in another browser" in come_back(browser, first)
    assert "You are signed in" in come_back(browser, second)
    answered("It was read.")
    assert notes.accounts_of_calls == ["second"]


def test_v72_the_page_is_that_of_its_person(
    account: ChannelAccount, notes: SigningMcp, guest: User
) -> None:
    """[V72] Everyone else gets 404, the owner too; without a session the sign-in of the gateway."""
    call = ToolCall.objects.get(run=write(account, "read it"))
    assert call.sign_in is not None
    page = f"/mcp/oauth/sign-in/{call.sign_in.public_id}"
    assert Client().get(page).headers["Location"] == f"/sign-in?next={page}"
    for name in ("other", "owner"):
        browser = Client()
        browser.force_login(User.objects.get(username=name))
        assert browser.get(page).status_code == 404
        assert browser.post(page, {"choice": "start"}).status_code == 404
    browser = own_browser()
    assert browser.get(f"{link_to()}x").status_code == 404
    User.objects.filter(pk=guest.pk).update(is_active=False)
    assert browser.get(page).headers["Location"] == f"/sign-in?next={page}"


def test_v72_a_link_that_is_passed_on_gives_the_sender_nothing(
    account: ChannelAccount, notes: SigningMcp, guest: User
) -> None:
    """[V72] Without the session of who is asked it begins nothing; the page says whose it is, and
    the way back does not count in the session of somebody else.
    """
    write(account, "read it")
    link = link_to()
    answer = Client().post(link, {"choice": "start"})
    assert answer.headers["Location"] == f"/sign-in?next={link}"
    assert McpSignIn.objects.get(user=guest).state_hash is None
    browser = own_browser()
    page = browser.get(link).content.decode()
    assert f"for {guest} alone" in page
    assert "Asked on Memory" in page
    back = go_there(browser, link, notes, "victim@notes")
    browser.force_login(User.objects.get(username="other"))
    assert "begun in another browser" in come_back(browser, back)
    assert not McpConnection.objects.filter(user=guest).exists()


def test_v77_an_address_that_changes_during_a_sign_in_gets_no_token(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, guest: User
) -> None:
    """[V77] The tokens are revoked: they were given for the old address."""
    write(account, "read it")
    browser = own_browser()
    back = go_there(browser, link_to(), notes, "guest@notes")
    McpServer.objects.update(url=f"{notes.base}/other")
    assert "This sign-in is over" in come_back(browser, back)
    assert not McpConnection.objects.filter(user=guest).exists()
    assert McpRevocation.objects.count() == 1


def test_v73_another_issuer_in_the_response_gets_no_code(
    account: ChannelAccount, notes: SigningMcp
) -> None:
    """[V73] The mix-up attack (RFC 9207): also when the metadata does not promise the parameter."""
    write(account, "read it")
    browser = own_browser()
    for promised in (True, False):
        notes.metadata = {"authorization_response_iss_parameter_supported": promised}
        back = go_there(browser, link_to(), notes, "x")
        wrong, _, _ = back.partition("&iss=")
        answer = come_back(browser, f"{wrong}&iss=https%3A%2F%2Fevil.example")
        assert "another authorization server" in answer
    notes.metadata = {}
    back, _, _ = go_there(browser, link_to(), notes, "x").partition("&iss=")
    assert "another authorization server" in come_back(browser, back)
    assert len(notes.codes) == 3  # none of them came to it
    assert McpFinding.objects.filter(key__startswith="stopped:issuer").count() == 1


def test_v73_a_code_of_another_server_is_not_exchanged_without_an_issuer(
    account: ChannelAccount, notes: SigningMcp
) -> None:
    """[V73] The mix-up attack where no ``iss`` is given: the browser was sent on to the server of
    another row, whose way back has another address. It is the client's own at each server.
    """
    notes.metadata = {"authorization_response_iss_parameter_supported": False}
    write(account, "read it")
    browser = own_browser()
    back, _, _ = go_there(browser, link_to(), notes, "guest@notes").partition("&iss=")
    McpServer.objects.create(name="Other", slug="other", url="https://other.example/mcp")
    for wrong in ("other", "no-such-server"):
        page = come_back(browser, back.replace("/callback/notes?", f"/callback/{wrong}?"))
        assert "You are signed in" not in page
    assert notes.forms("authorization_code") == []
    client = list(notes.clients.values())[-1]
    assert client["redirect_uris"] == [pages.callback("notes")]
    assert pages.callback("notes").endswith("/mcp/oauth/callback/notes")
    about = browser.get("/mcp/oauth/client/other.json").json()
    assert about["redirect_uris"] == [pages.callback("other")]
    assert about["client_id"] == pages.document_address("other")
    assert "You are signed in" in come_back(browser, back)
    answered("It was read.")


async def huge(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
    """Answer with metadata of 1 MB."""
    del form
    return web.json_response({"issuer": "x" * 1024 * 1024})


@pytest.mark.parametrize(
    ("resource", "metadata", "words"),
    [
        ({"authorization_servers": ["http://169.254.169.254/"]}, {}, "inside the network"),
        ({"resource": "https://other.example/mcp"}, {}, "names another server"),
        ({}, {"issuer": "https://other.example"}, "that of another one"),
        ({}, {"token_endpoint": "http://user:x@127.0.0.1/"}, "name or password"),
        ({}, {"code_challenge_methods_supported": None}, "does not support PKCE"),
        ({}, {"code_challenge_methods_supported": ["plain"]}, "does not support PKCE"),
        ({}, {"registration_endpoint": None}, "enter a client id"),
        ({}, {"registration_endpoint": "http://169.254.169.254/r"}, "inside the network"),
        ({}, {"authorization_endpoint": "javascript:alert(1)"}, ""),
    ],
)
def test_v74_metadata_that_leads_elsewhere_ends_the_sign_in(
    account: ChannelAccount,
    notes: SigningMcp,
    resource: dict[str, Any],
    metadata: dict[str, Any],
    words: str,
) -> None:
    """[V74] The page says why, nothing is asked there, and the link can be opened again."""
    notes.resource, notes.metadata = resource, metadata
    write(account, "read it")
    response = own_browser().post(link_to(), {"choice": "start"})
    page = response.content.decode()
    assert response.status_code == 502
    assert 'role="alert"' in page
    assert words in page
    assert "javascript" not in page
    notes.resource, notes.metadata = {}, {}
    sign_in(notes, "guest@notes")
    answered("It was read.")


def test_v74_a_failure_is_told_in_the_language_of_the_person(
    server: McpServer, notes: SigningMcp, guest: User
) -> None:
    """[V74] On the page that begins a sign-in, and on the one that ends it."""
    row = sign_ins.create(server, guest, now=timezone.now())
    browser = Client(headers={"Accept-Language": "de"})
    browser.force_login(guest)
    page = f"/mcp/oauth/sign-in/{row.public_id}"
    address = go_there(browser, page, notes, "ann")
    notes.codes.clear()
    ended = come_back(browser, address)
    assert "Sein Anmeldeserver lehnt die Anmeldung ab (invalid_grant)." in ended
    notes.metadata = {"code_challenge_methods_supported": None}
    begun = browser.post(page, {"choice": "start"}).content.decode()
    assert "Sein Anmeldeserver unterstützt PKCE nicht" in begun
    assert "authorization server" not in ended + begun


def test_v74_plain_http_beside_https_and_huge_metadata_are_refused(
    account: ChannelAccount, notes: SigningMcp, server: McpServer
) -> None:
    """[V74] HTTP only for a server that is itself inside the network; 256 kB at most."""
    write(account, "read it")
    notes.replies["/.well-known/oauth-authorization-server"] = huge
    page = own_browser().post(link_to(), {"choice": "start"}).content.decode()
    assert "more than 256 kB" in page
    notes.replies.clear()
    McpServer.objects.update(allow_private=False)
    page = own_browser().post(link_to(), {"choice": "start"}).content.decode()
    assert "without encryption" in page


def test_v75_a_token_is_refreshed_once_by_many(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, guest: User
) -> None:
    """[V75] Rotating refresh tokens are used once; after a 401 they are refreshed, too."""
    connect(server, guest, notes, "guest@notes")
    McpConnection.objects.filter(user=guest).update(expires_at=timezone.now())
    info = info_of(server)

    async def all_at_once() -> set[str]:
        found = await asyncio.gather(*(connections.usable(info, guest.pk) for _ in range(8)))
        return {each.value for each in found if each is not None}

    assert len(asyncio.run(all_at_once())) == 1
    assert len(notes.forms("refresh_token")) == 1
    notes.tokens.clear()  # revoked without a word
    connect(server, User.objects.get(username="owner"), notes, "boss")
    write(account, "read it")
    answered("It was read.")
    assert len(notes.forms("refresh_token")) == 2
    assert notes.accounts_of_calls[-1] == "guest@notes"


def test_v75_a_grant_that_ended_is_asked_for_again_once(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, guest: User
) -> None:
    """[V75] When the server does not accept that either, the person is told, and not asked."""
    connect(server, guest, notes, "guest@notes")
    write(account, "read it")
    answered("It was read.")
    notes.tokens.clear()
    notes.refresh_tokens.clear()
    write(account, "read it now")
    assert McpConnection.objects.get(user=guest).secrets == ""
    notes.give_token, give = lambda *_: lost(give(*_)), notes.give_token  # type: ignore[method-assign]

    def lost(response: web.Response) -> web.Response:
        notes.tokens.clear()
        notes.refresh_tokens.clear()
        return response

    assert "You are signed in" in sign_in(notes, "guest@notes")
    until(lambda: ToolCall.objects.filter(kind="sign_in").count() == 2)
    assert "You are signed in" in sign_in(notes, "guest@notes")
    answered("It was read.", times=2)
    run = Run.objects.latest("id")
    line = Message.objects.filter(run=run, role="assistant").get()
    assert "does not accept the account" in json.dumps(line.calls)
    assert ToolCall.objects.filter(kind="sign_in").count() == 2
    again = write(account, "read it once more")
    assert "Please sign in" not in again.result["text"]


def test_v75_a_server_that_is_away_ends_no_grant(
    notes: SigningMcp, server: McpServer, guest: User
) -> None:
    """[V75] HTTP 500 at the token endpoint: the token is used as long as it may be."""
    connect(server, guest, notes, "guest@notes")

    async def broken(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        del request, form
        return web.Response(status=500)

    notes.replies["/token"] = broken
    soon = timezone.now() + timedelta(seconds=20)
    McpConnection.objects.filter(user=guest).update(expires_at=soon)
    assert asyncio.run(connections.usable(info_of(server), guest.pk)) is not None
    assert McpConnection.objects.get(user=guest).refreshing_until is None


def test_v75_the_tools_are_listed_with_a_token_that_is_renewed_after_a_refusal(
    notes: SigningMcp, server: McpServer
) -> None:
    """[V75] The server does not say how long its tokens last; no tool is called meanwhile."""
    McpConnection.objects.update(expires_at=None)
    notes.tokens.clear()
    notes.tools.append(tool("write"))
    asyncio.run(refresh.refresh(info_of(server)))
    assert server.tools.filter(name="write").exists()
    assert len(notes.forms("refresh_token")) == 1


def test_v75_a_call_that_waits_for_its_token_is_not_unsure(
    account: ChannelAccount,
    notes: SigningMcp,
    server: McpServer,
    guest: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[V75] The authorization server hangs for longer than a call may take: nothing was sent."""
    connect(server, guest, notes, "guest@notes")
    McpConnection.objects.filter(user=guest).update(expires_at=timezone.now())

    async def hang(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        del request, form
        await asyncio.sleep(1)
        return web.Response(status=503)

    notes.replies["/token"] = hang
    monkeypatch.setattr(flow, "SECONDS", 0.4)
    monkeypatch.setattr(offered, "MARGIN_SECONDS", 0.1 - server.seconds)
    server.save()
    run = write(account, "send it")
    assert "unsure" not in run.result["text"]
    assert ToolCall.objects.get(run=run).state == "done"
    assert notes.accounts_of_calls == []


def test_v75_new_tokens_are_stored_when_the_database_is_back(
    notes: SigningMcp, server: McpServer, guest: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V75] It goes away while the server is asked, which takes the old refresh token no more."""
    connect(server, guest, notes, "guest@notes")
    McpConnection.objects.filter(user=guest).update(expires_at=timezone.now())
    away: list[str] = []

    def atomic_write(*, joins: bool = False) -> AbstractContextManager[None]:
        if away:
            raise OperationalError(away.pop())
        return transactions.atomic_write(joins=joins)

    async def while_it_goes_away(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        away.append("the server closed the connection")
        return notes.give_token(form, request.headers.get("Authorization", ""))

    monkeypatch.setattr(connections, "atomic_write", atomic_write)
    notes.replies["/token"] = while_it_goes_away
    found = asyncio.run(connections.usable(info_of(server), guest.pk))
    assert found is not None
    assert found.value in notes.tokens
    kept = encryption.decrypt(McpConnection.objects.get(user=guest).secrets)
    assert kept["refresh_token"] in notes.refresh_tokens
    assert len(notes.forms("refresh_token")) == 1


def test_v75_tokens_that_cannot_be_opened_are_asked_for_again(
    notes: SigningMcp, server: McpServer, guest: User
) -> None:
    """[V75] The gateway's own key was changed."""
    connect(server, guest, notes, "guest@notes")
    McpConnection.objects.filter(user=guest).update(secrets="gAAAAA-of-another-key")
    assert asyncio.run(connections.usable(info_of(server), guest.pk)) is None


def test_v76_more_rights_are_asked_for_with_those_that_there_are(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, guest: User
) -> None:
    """[V76] 403 insufficient_scope; a server that is never content is not asked any more."""
    connect(server, guest, notes, "guest@notes")
    notes.needs["read"] = {"delete"}
    write(account, "read it")
    browser = own_browser()
    response = browser.post(link_to(), {"choice": "start"})
    assert "scope=notes+delete" in response.context["address"]
    come_back(browser, notes.authorize(response.context["address"], "guest@notes"))
    answered("It was read.")
    assert notes.accounts_of_calls == ["guest@notes"]
    # Its codes alone were exchanged: a client whose token has just counted is not asked for.
    assert len(notes.forms("authorization_code")) == len(notes.clients) == 2
    assert not McpRevocation.objects.exists()  # some servers would revoke the new tokens, too
    notes.needs["read"] = {"delete", "notes", "a"}
    write(account, "read more")
    for number in range(5):
        notes.needs["read"] |= {f"more{number}"}
        if not ToolCall.objects.filter(state="waiting").exists():
            break
        back = go_there(browser, link_to(), notes, "guest@notes")
        before = Run.objects.count()
        come_back(browser, back)
        until(lambda before=before: Run.objects.count() > before)
        until(lambda: not Run.objects.exclude(state__in=Run.FINAL).exists())
    answered("It was read.", times=2)
    assert number <= 3


@pytest.mark.parametrize("person", ["other", "guest"])
def test_v74_a_client_that_the_server_has_forgotten_is_registered_anew(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, guest: User, person: str
) -> None:
    """[V74] Before a person is sent there who has no account, or whose account is over: there are
    no refresh tokens, whose refusal would tell. The server says which rights it wants.
    """
    notes.gives_refresh_tokens = False
    connect(server, guest, notes, "guest@notes")
    McpConnection.objects.filter(user=guest).update(expires_at=timezone.now())
    [*_, forgotten] = notes.clients
    notes.clients[forgotten] = {}
    write(account, "read it", person)
    assert McpSignIn.objects.latest("id").scope == "notes"
    assert "You are signed in" in sign_in(notes, f"{person}@notes", person)
    answered("It was read.", person)


def test_v77_tokens_die_with_the_connection_the_person_and_the_server(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, guest: User, owner: User
) -> None:
    """[V77] And are revoked at the server, three attempts."""
    connect(server, guest, notes, "guest@notes")
    held = {token for token, grant in notes.tokens.items() if grant.account == "guest@notes"}
    assert held
    User.objects.filter(pk=guest.pk).update(is_active=False)
    revocation.end_user(user_id=guest.pk)
    assert not McpConnection.objects.filter(user=guest).exists()
    assert McpRevocation.objects.count() == 1
    asyncio.run(revocations.revoke_due())
    until(lambda: not McpRevocation.objects.exists())
    assert not held & notes.tokens.keys()
    assert {grant.account for grant in notes.refresh_tokens.values()} == {"boss"}
    other = User.objects.get(username="other")
    connect(server, other, notes, "other@notes")
    other.delete()
    server.delete()
    assert McpConnection.objects.count() == 0
    for _ in range(3):
        asyncio.run(revocations.revoke_due())
    until(lambda: not McpRevocation.objects.exists())
    assert notes.tokens == {}
    assert notes.refresh_tokens == {}


def test_v77_a_revocation_that_fails_is_tried_three_times(
    notes: SigningMcp, server: McpServer, owner: User
) -> None:
    """[V77] Then the tokens are deleted all the same."""

    async def broken(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        del request, form
        return web.Response(status=503)

    notes.replies["/revoke"] = broken
    connections.remove(McpConnection.objects.all())
    for left in (1, 1, 0):
        McpRevocation.objects.update(due_at=timezone.now())
        asyncio.run(revocations.revoke_due())
        assert McpRevocation.objects.count() == left


def test_v77_a_revocation_that_comes_too_often_is_tried_again(
    notes: SigningMcp, server: McpServer
) -> None:
    """[V77] Of many accounts at once: the server takes so many a minute."""

    async def too_many(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        del request, form
        return web.Response(status=429)

    notes.replies["/revoke"] = too_many
    connections.remove(McpConnection.objects.all())
    asyncio.run(revocations.revoke_due())
    assert McpRevocation.objects.count() == 1
    del notes.replies["/revoke"]
    McpRevocation.objects.update(due_at=timezone.now())
    asyncio.run(revocations.revoke_due())
    assert notes.tokens == {}


def test_v77_a_person_lists_connects_and_removes_their_accounts(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, guest: User
) -> None:
    """[V77] /connections; not where they have none to have, and not those of others."""

    def command(words: str) -> str:
        before = len(PLATFORM.texts("c"))
        number = f"{words} {before}"
        place: dict[str, Any] = {"sender": "556", "chat": "c", "message_id": number}
        say(account=account, text=words, now=timezone.now(), **place)
        until(lambda: len(PLATFORM.texts("c")) > before)
        return PLATFORM.texts("c")[-1]

    assert "Notes: not signed in" in command("/connections")
    assert "/connections" in command("/help")
    link = command("/connections connect notes").split()[-1]
    browser = own_browser()
    browser.force_login(guest)
    back = go_there(browser, urlsplit(link).path, notes, "guest@notes")
    assert "You are signed in" in come_back(browser, back)
    assert "Notes: signed in since" in command("/connections")
    assert "no server “x”" in command("/connections remove x")
    assert "was removed" in command("/connections remove Notes")
    assert [each.user.username for each in McpConnection.objects.all() if each.user] == ["owner"]
    server.people.add(User.objects.get(username="other"))
    assert "no server" in command("/connections")
    assert "/connections" not in command("/help")


def test_v78_no_token_and_no_code_stands_anywhere(
    account: ChannelAccount,
    notes: SigningMcp,
    server: McpServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """[V78] Not in a log, a row, an event, the audit, an answer or a page; errors have no words of
    the server.
    """
    caplog.set_level(logging.DEBUG)
    write(account, "read it")
    browser = own_browser()
    first = go_there(browser, link_to(), notes, "guest@notes")
    notes.codes.clear()
    pages = [come_back(browser, first)]
    assert "refuses the sign-in (invalid_grant)" in pages[0]
    pages.append(sign_in(notes, "guest@notes", browser=browser))
    answered("It was read.")
    McpConnection.objects.filter(expires_at__isnull=False).update(expires_at=timezone.now())
    write(account, "read it again")
    answered("It was read.", times=2)
    states = {each["state"] for each in notes.codes.values()}
    every = notes.secrets_seen | states | {"planted-words"}
    assert len(every) > 8
    rows = "".join(
        serializers.serialize("json", model._default_manager.all())
        for model in apps.get_models()
        if model._default_manager.exists()
    )
    texts = [rows, caplog.text, *pages, *PLATFORM.texts("c"), *PLATFORM.texts("own")]
    texts += [str(each) for each in McpConnection.objects.all()]
    for secret in every:
        assert not any(secret in each for each in texts), secret
    assert {"mcp.connected"} == set(AuditEntry.objects.values_list("action", flat=True))
    assert RunEvent.objects.exists()


def test_v79_kill_between_exchange_and_store(
    account: ChannelAccount,
    notes: SigningMcp,
    guest: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[V79] As a kill leaves it: the code is used and no token stored. The link works again."""
    write(account, "read it")
    browser = own_browser()
    back = go_there(browser, link_to(), notes, "guest@notes")
    with monkeypatch.context() as patched:
        patched.setattr(signing_in, "complete", killed)
        with pytest.raises(Killed):
            come_back(browser, back)
    assert McpSignIn.objects.get(user=guest).state == "exchanging"
    assert "was used already" in come_back(browser, back)
    assert not McpConnection.objects.filter(user=guest).exists()
    sign_in(notes, "guest@notes", browser=browser)
    answered("It was read.")
    assert notes.accounts_of_calls == ["guest@notes"]


def test_v79_kill_between_refresh_and_store(
    account: ChannelAccount,
    notes: SigningMcp,
    server: McpServer,
    guest: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[V79] The lease ends, the old refresh token is tried; one that was used asks once more."""
    connect(server, guest, notes, "guest@notes")
    past = timezone.now() - timedelta(seconds=1)
    for rotates in (False, True):
        notes.rotates = rotates
        McpConnection.objects.filter(user=guest).update(expires_at=past)
        with monkeypatch.context() as patched:
            patched.setattr(connections, "store_refreshed", killed)
            with pytest.raises(Killed):
                asyncio.run(connections.usable(info_of(server), guest.pk))
        assert McpConnection.objects.get(user=guest).refreshing_until is not None
        McpConnection.objects.filter(user=guest).update(refreshing_until=past)
        found = asyncio.run(connections.usable(info_of(server), guest.pk))
        assert (found is None) == rotates
    run = write(account, "read it")
    assert "Please sign in" in run.result["text"]
    sign_in(notes, "guest@notes")
    answered("It was read.")


class Killed(BaseException):
    """The end of a process."""


def killed(*_: object, **__: object) -> None:
    raise Killed


def test_v70_the_owner_signs_in_for_the_gateway(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, owner: User
) -> None:
    """[V70] One account for all; the person is told who has to, and gets the answer."""
    McpServer.objects.update(authentication="gateway")
    McpServer.objects.get().save()
    run = write(account, "read it")
    assert "The owner has to sign in to “Notes” first" in run.result["text"]
    assert "/mcp/oauth/" not in run.result["text"]
    sign_in(notes, "gateway@notes", "owner")
    answered("It was read.")
    write(account, "read two", "other")
    answered("It was read.", "other")
    assert notes.accounts_of_calls == ["gateway@notes"] * 2
    assert McpConnection.objects.get(user=None).secrets


def test_v70_a_sign_in_for_the_gateway_counts_for_the_owner_that_began_it(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, owner: User
) -> None:
    """[V70] Another owner than the one who was asked; the record names them."""
    McpServer.objects.update(authentication="gateway")
    McpServer.objects.get().save()
    second = User.objects.create(username="second", is_owner=True)
    row = sign_ins.create(McpServer.objects.get(), owner, now=timezone.now())
    owner.is_active = False
    owner.save()
    page = f"/mcp/oauth/sign-in/{row.public_id}"
    browser = own_browser("second")
    assert "You are signed in" in come_back(
        browser, go_there(browser, page, notes, "gateway@notes")
    )
    entry = AuditEntry.objects.filter(action="mcp.connected").latest("id")
    assert second.username in entry.actor


def test_v75_tokens_that_are_over_at_once_are_asked_for_twice_at_most(
    account: ChannelAccount, notes: SigningMcp, guest: User
) -> None:
    """[V75] Then the person is told."""
    notes.seconds = 0
    notes.gives_refresh_tokens = False
    write(account, "read it")
    for count in (1, 2):
        until(lambda count=count: ToolCall.objects.filter(kind="sign_in").count() == count)
        assert "You are signed in" in sign_in(notes, "guest@notes")
    answered("It was read.")
    line = Message.objects.filter(run=Run.objects.latest("id"), role="assistant").get()
    assert "does not accept the account" in json.dumps(line.calls)
    assert ToolCall.objects.filter(kind="sign_in").count() == 2
    assert notes.calls == []


def test_v73_an_owners_client_belongs_to_one_authorization_server(
    account: ChannelAccount, notes: SigningMcp
) -> None:
    """[V73] The first that it signs in at: its secret is sent to no other."""
    sealed = encryption.encrypt({"client_secret": "s3cret"})
    McpServer.objects.update(client_id="mine", secrets=sealed)
    notes.clients["mine"] = {"client_secret": "s3cret"}
    write(account, "read it")
    go_there(own_browser(), link_to(), notes, "x")
    assert encryption.decrypt(McpServer.objects.get().secrets)["issuer"] == notes.base
    other = notes.base.replace("127.0.0.1", "localhost")
    notes.resource, notes.metadata = {"authorization_servers": [other]}, {"issuer": other}
    page = own_browser().post(link_to(), {"choice": "start"}).content.decode()
    assert "client id and secret belong to another authorization server" in page
    assert McpFinding.objects.filter(key__startswith="stopped:client").count() == 1


def test_v74_few_clients_are_registered(
    account: ChannelAccount, notes: SigningMcp, server: McpServer, guest: User, settings: Settings
) -> None:
    """[V74] A code that is refused keeps the client, an unknown client is registered anew; a person
    begins few sign-ins a minute, and a link that is open is used again.
    """
    rows = [sign_ins.create(server, guest, now=timezone.now()) for _ in range(2)]
    assert rows[0].pk == rows[1].pk
    page = f"/mcp/oauth/sign-in/{rows[0].public_id}"
    browser = own_browser()
    back = go_there(browser, page, notes, "x")
    before = len(notes.clients)
    notes.codes.clear()
    assert "refuses the sign-in (invalid_grant)" in come_back(browser, back)
    back = go_there(browser, page, notes, "x")
    assert len(notes.clients) == before

    async def unknown(request: web.Request, form: dict[str, Any]) -> web.StreamResponse:
        del request, form
        return web.json_response({"error": "invalid_client"}, status=401)

    notes.replies["/token"] = unknown
    assert "(invalid_client)" in come_back(browser, back)
    go_there(browser, page, notes, "x")
    assert len(notes.clients) == before + 1
    state = list(notes.codes.values())[-1]["state"]
    back = f"/mcp/oauth/callback/notes?state={state}&iss={notes.base}&error=unauthorized_client"
    assert "(unauthorized_client)" in come_back(browser, back)
    go_there(browser, page, notes, "x")
    assert len(notes.clients) == before + 2
    settings.WRONG_KEYS_PER_MINUTE = 1
    answer = browser.post(page, {"choice": "start"})
    assert (answer.status_code, "Retry-After" in answer.headers) == (429, True)

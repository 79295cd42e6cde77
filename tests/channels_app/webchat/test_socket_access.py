"""Access to ``/ws`` and its end: [D3] [A9], RWS1, RWS3, RWS4, RWS6, RWS12."""

import asyncio
import logging
import re
from functools import partial
from typing import Any

import pytest
from channels.testing import WebsocketCommunicator
from django.db import DatabaseError
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from uvicorn.protocols.utils import ClientDisconnected

from allowlist import keys
from allowlist import sign_in as sign_in_links
from allowlist.models import ApiKey
from channels_app.asgi.authentication import RECHECK_SECONDS
from channels_app.webchat import access, consumers, operations, periodic_checks
from channels_app.webchat.urls import websocket_application
from core.database.transactions import in_thread
from core.models import InboundMessage, Run, User
from core.signals import pubsub
from tests import ROOT
from tests.channels_app.webchat.conftest import (
    HOST,
    asked,
    at_the_page,
    event,
    eventually,
    headers,
    is_fed,
    is_final,
    key_of,
    opened,
    refused,
    sign_in,
)

pytestmark = pytest.mark.django_db(transaction=True)


async def test_rws1_without_cookie_or_key_the_first_frame_ends_it_and_nothing_is_stored(
    ada: User,
) -> None:
    async with opened() as socket:
        await socket.say(type="message", text="Hello")
        assert await socket.closed() == 4401
    assert await in_thread(InboundMessage.objects.count) == 0


async def test_rws1_an_invalid_cookie_is_refused_before_the_handshake(ada: User) -> None:
    assert await refused(cookie="x" * 32) == 4401


@pytest.mark.parametrize("named", ["", "0", "ada"])
async def test_w56_a_page_of_another_person_is_closed_and_nothing_of_it_is_taken(
    ada: User, bob: User, named: str
) -> None:
    """A message that ada wrote offline must not go out as bob, who signed in meanwhile."""
    cookie = await in_thread(sign_in, bob)
    person = str(ada.pk) if named == "ada" else named
    async with opened(path=f"/ws?person={person}", cookie=cookie) as socket:
        await socket.say(type="message", text="From ada", client_id="c1")
        assert await socket.closed() == 4409
        await socket.say(type="message", text="From ada", client_id="c1")
    assert await in_thread(InboundMessage.objects.count) == 0
    assert await in_thread(Run.objects.count) == 0
    async with opened(path=f"/ws?person={bob.pk}", cookie=cookie) as socket:
        assert (await socket.ask("From bob"))["type"] == "accepted"


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        f"https://{HOST}",
        f"http://{HOST}.evil.example",
        "http://evil.example",
        f"http://{HOST}:8080",
        f"http://{HOST}/x",
        f"http://a@{HOST}",
        "\xff",
    ],
)
async def test_rws3_a_page_that_is_not_ours_is_refused(ada: User, origin: str) -> None:
    cookie = await in_thread(sign_in, ada)
    assert await refused(cookie=cookie, origin=origin) == 4403


def test_the_cookie_of_another_application_does_not_hide_ours() -> None:
    """On one host name, applications on other ports share the cookies; some break the grammar."""
    for other in ("x[y]=1", '{"j": 1}', "a b=1"):
        assert access.cookie_of({"cookie": f"{other}; latchkey_session=abc"}) == "abc"
    assert access.cookie_of({"cookie": "x[y]=1"}) == ""


async def test_rws3_without_origin_a_cookie_does_not_count(ada: User) -> None:
    cookie = await in_thread(sign_in, ada)
    assert await refused(cookie=cookie, origin=None) == 4403


async def test_rws3_a_host_that_is_not_allowed_makes_no_origin_ours(
    ada: User, settings: Any
) -> None:
    settings.ALLOWED_HOSTS = ["other.example"]
    cookie = await in_thread(sign_in, ada)
    assert await refused(cookie=cookie) == 4403


async def test_rws3_the_public_address_is_ours_behind_a_proxy(ada: User, settings: Any) -> None:
    settings.GATEWAY_URL = "https://chat.public.example"
    cookie = await in_thread(sign_in, ada)
    async with opened(cookie=cookie, origin="https://chat.public.example") as socket:
        assert await socket.is_silent()


@pytest.mark.parametrize("name", ["key", "api_key", "token", "access_token", "auth"])
async def test_rws4_a_key_in_the_address_is_refused(ada: User, name: str) -> None:
    _, token = await key_of(user=ada)
    assert await refused(path=f"/ws?{name}={token}", origin=None) == 4401


async def test_d3_a_key_in_the_first_frame_opens_the_socket(ada: User) -> None:
    _, token = await key_of(user=ada)
    async with opened(origin=None) as socket:
        await socket.say(type="auth", key=token)
        assert (await socket.hear())["type"] == "authenticated"
        accepted, _ = await asked(socket)
    assert await in_thread(lambda: Run.objects.get(public_id=accepted["run_id"]).user) == ada


async def test_a_socket_without_a_key_sends_no_large_frame(ada: User) -> None:
    """A megabyte of JSON takes a while to check."""
    _, token = await key_of(user=ada)
    async with opened(origin=None) as socket:
        await socket.say(type="auth", key=token + "x" * 1024)
        assert await socket.closed() == 4413
    async with opened(origin=None) as socket:
        await socket.wire.send_to(text_data="[]")
        assert (await socket.hear())["status"] == 400
        await socket.wire.send_to(text_data=f"[{'0,' * 512}0]")
        assert await socket.closed() == 4413
    async with opened(origin=None) as socket:
        await socket.say(type="auth", key=token)
        await socket.say(type="message", text="x" * 1024)  # not waiting for the answer before
        assert (await socket.hear())["type"] == "authenticated"
        assert (await socket.hear())["type"] == "accepted"


@pytest.mark.parametrize("token", ["", "lk_000000000000_" + "x" * 43, "nonsense"])
async def test_rws6_a_wrong_key_ends_the_socket(ada: User, token: str) -> None:
    async with opened(origin=None) as socket:
        await socket.say(type="auth", key=token)
        assert await socket.closed() == 4401


async def test_rws6_a_key_without_the_scope_ends_the_socket(ada: User) -> None:
    _, token = await in_thread(lambda: keys.create(name="t", user=ada, scopes=["inbound"]))
    async with opened(origin=None) as socket:
        await socket.say(type="auth", key=token)
        assert (await socket.hear())["status"] == 403
        assert await socket.closed() == 4401


async def test_rws6_a9_a_key_that_is_revoked_closes_its_socket(ada: User) -> None:
    key, token = await key_of(user=ada)
    async with opened(origin=None) as socket:
        await socket.say(type="auth", key=token)
        await socket.hear()
        assert await socket.is_silent()
        await eventually(partial(getattr, pubsub.local(), "connected"))

        def revoke() -> None:
            ApiKey.objects.filter(id=key.id).update(revoked_at="2020-01-01T00:00Z")
            pubsub.publish([{"keys": [f"key:{key.id}"], "kind": "revoked"}])

        await in_thread(revoke)
        assert await socket.closed() == 4401


async def test_rws6_a9_a_removed_users_socket_is_closed(ada: User) -> None:
    async with at_the_page(ada) as socket:

        def shut_out() -> None:
            User.objects.filter(id=ada.id).update(is_active=False)
            pubsub.publish([{"keys": [f"user:{ada.id}"], "kind": "revoked"}])

        await in_thread(shut_out)
        assert await socket.closed() == 4401


PASSWORDS = {
    "old_password": "correct horse",
    "new_password1": "battery staple",
    "new_password2": "battery staple",
}
ENDS = {
    "a sign-out": ("/sign-out", {}),
    "a sign-out of the admin": ("/admin/logout/", {}),
    "another person's sign-in": ("/sign-in", {"username": "bob", "password": "correct horse"}),
    "another person's link": ("link", {}),
    "a new password in another browser": ("/admin/password_change/", PASSWORDS),
    "a new password by the owner": ("password", {**PASSWORDS, "usable_password": "true"}),
}


def end_session(ada: User, bob: User, cookie: str, how: str) -> None:
    """End the session ``cookie`` of Ada, in her browser or in another one."""
    address, fields = ENDS[how]
    password = {"password1": "battery staple", "password2": "battery staple"}
    browser = Client(HTTP_HOST=HOST)
    if address == "link":
        address = f"/sign-in/{sign_in_links.create(user=bob, now=timezone.now())}"
    if address == "password":
        address = reverse("admin:auth_user_password_change", args=[ada.pk])
        browser.force_login(User.objects.create(username="root", is_staff=True, is_superuser=True))
        fields = {**fields, **password}
    elif fields is PASSWORDS:
        browser.force_login(ada)
    else:
        browser.cookies["latchkey_session"] = cookie
    assert browser.post(address, fields).status_code == 302
    assert access.by_session(cookie) is None


@pytest.mark.parametrize("how", ENDS)
async def test_w56_a9_an_open_page_ends_with_its_session(ada: User, bob: User, how: str) -> None:
    """In the same moment: until then it would show what comes for Ada, and take as hers what Bob
    types in it.
    """
    cookie = await in_thread(sign_in, ada)
    async with opened(cookie=cookie) as socket:
        await eventually(partial(is_fed, pubsub.local(), f"user:{ada.pk}", set()))
        await in_thread(end_session, ada, bob, cookie, how)
        async with asyncio.timeout(RECHECK_SECONDS / 2):
            assert await socket.closed() == 4401


async def test_rws6_a_frame_that_revokes_nothing_of_ours_changes_nothing(ada: User) -> None:
    async with at_the_page(ada) as socket:
        await in_thread(pubsub.publish, [{"keys": [f"user:{ada.id}"], "kind": "revoked"}])
        accepted, pen = await asked(socket)
        await in_thread(pen.end)
        assert (await socket.until(is_final))[-1]["run_id"] == accepted["run_id"]


async def test_rws6_a_lost_revocation_is_noticed_by_asking_now_and_then(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_checks, "RECHECK_SECONDS", 0.0)
    monkeypatch.setattr(periodic_checks, "POLL_SECONDS", 0.05)
    async with at_the_page(ada) as socket:
        await in_thread(lambda: User.objects.filter(id=ada.id).update(is_active=False))
        assert await socket.closed() == 4401


async def test_a3_a_removed_user_is_answered_permission_denied_immediately(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def later(*_: object) -> None:
        """Skip the socket's own periodic check, which would end it first."""

    monkeypatch.setattr(consumers.WebChatConsumer, "check_credential", later)
    async with at_the_page(ada) as socket:
        await in_thread(lambda: User.objects.filter(id=ada.id).update(is_active=False))
        answer = await socket.ask("Hello")
        assert (answer["status"], answer["error"]) == (401, "Permission denied")
        assert (answer["ok"], answer["text"], answer["format"]) == (False, "", "plain")
    assert await in_thread(InboundMessage.objects.count) == 0


async def test_rws12_a_silent_socket_is_closed(ada: User, settings: Any) -> None:
    settings.SOCKET_AUTH_SECONDS = 0.02
    async with opened() as socket:
        assert await socket.closed() == 4408


async def test_rws12_sockets_without_identity_are_bounded(ada: User, settings: Any) -> None:
    settings.MAX_WAITING_SOCKETS = 0
    assert await refused() == 4429


async def test_a_client_that_does_not_read_is_cut_off_and_may_resume(
    ada: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_the_page(ada) as socket:
        assert await socket.is_silent()
        settings.STREAM_STALL_SECONDS = 0.01
        never = asyncio.Event()
        monkeypatch.setattr(consumers.WebChatConsumer, "send", lambda *_, **__: never.wait())
        await socket.say(type="ping")
        assert await socket.closed() == 4408


@pytest.mark.parametrize("error", [OSError, RuntimeError])
async def test_a_client_that_has_gone_is_no_failure(
    ada: User, error: type[Exception], monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """uvicorn raises the one when it sends to a client that left, Daphne the other."""
    gone = asyncio.Event()

    async def fail(*_: object, **__: object) -> None:
        gone.set()
        raise error

    async with at_the_page(ada) as socket:
        _, pen = await asked(socket)
        monkeypatch.setattr(consumers.WebChatConsumer, "send", fail)
        monkeypatch.setattr(consumers.WebChatConsumer, "close", fail)
        await in_thread(pen.write, event("stream_start"))
        async with asyncio.timeout(60):
            await gone.wait()
    assert [each for each in caplog.records if each.levelno > logging.INFO] == []


async def test_rc6_a_database_that_fails_closes_the_socket_and_the_client_comes_back(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RC6]"""
    async with at_the_page(ada) as socket:

        def fail(*_: object, **__: object) -> None:
            raise DatabaseError

        monkeypatch.setattr(operations, "accept", fail)
        await socket.say(type="message", text="Hello")
        assert await socket.closed() == 4500


async def test_a_task_that_fails_closes_the_socket(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(operations, "pending_notices", fail)
    cookie = await in_thread(sign_in, ada)
    async with opened(cookie=cookie) as socket:
        assert await socket.closed() == 4500


async def test_rws12_one_person_has_a_bounded_number_of_sockets(ada: User, settings: Any) -> None:
    settings.MAX_SOCKETS_PER_USER = 2
    cookie = await in_thread(sign_in, ada)
    async with opened(cookie=cookie) as first:
        async with opened(cookie=cookie) as second:
            assert await refused(cookie=cookie) == 4429
            assert await first.is_silent()
            assert await second.is_silent()
        async with opened(cookie=cookie) as third:
            assert await third.is_silent()


async def test_rws12_a_client_that_left_before_it_was_accepted_takes_no_place(
    ada: User, settings: Any
) -> None:
    """A page that is reloaded at once; of a slow database, each try. The server says it by an
    error, and nothing of a disconnect.
    """
    settings.MAX_SOCKETS_PER_USER = 1
    cookie = await in_thread(sign_in, ada)
    wire = WebsocketCommunicator(websocket_application, "/ws", headers=headers(cookie=cookie))
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    events.put_nowait({"type": "websocket.connect"})

    async def send(_: object) -> None:
        raise ClientDisconnected

    with pytest.raises(ClientDisconnected):
        await websocket_application(wire.scope, events.get, send)
    async with opened(cookie=cookie) as socket:
        assert await socket.is_silent()


@pytest.mark.parametrize("extensions", [{"websocket.http.response": {}}, None])
async def test_d3_a_socket_at_an_address_of_the_openai_api_is_refused_at_once(
    extensions: dict[str, Any] | None,
) -> None:
    """[D3] Codex tries one at `/v1/responses`: it would wait for frames that never come."""
    wire = WebsocketCommunicator(websocket_application, "/v1/responses", headers=headers())
    wire.scope["extensions"] = extensions
    await wire.send_input({"type": "websocket.connect"})
    found = await wire.receive_output(5)
    assert found["type"] == ("websocket.http.response.start" if extensions else "websocket.close")
    assert found.get("status", 426) == 426


def test_d3_the_documentation_has_the_close_codes() -> None:
    """[D3] But that of a foreign origin, which comes before the handshake: a server answers it with
    HTTP 403."""
    text = (ROOT / "docs" / "websocket.md").read_text(encoding="utf-8")
    listed = re.findall(r"\b4\d{3}\b", text.split("Close codes:")[1].split("\n\n")[0])
    codes = {consumers.SIGNED_OUT, consumers.TOO_LATE, consumers.STALLED, consumers.OTHER_PERSON}
    codes |= {consumers.TOO_LARGE, consumers.TOO_MANY, consumers.BROKEN}
    assert listed == [str(each) for each in sorted(codes)]

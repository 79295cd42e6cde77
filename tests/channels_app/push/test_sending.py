"""Messages at a push service: W58 to W63."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web
from django.conf import settings as django_settings
from django.contrib.sessions.models import Session
from django.db import connection
from django.utils import timezone

from allowlist import revocation
from allowlist.models import UnknownRequest
from channels_app.push import content, keys, presence, sending
from channels_app.tool_requests import asking
from core.conversations import push_messages, push_subscriptions
from core.conversations.tool_calls import Asked
from core.database.transactions import atomic_write
from core.lib import encryption
from core.lib.safe_fetch import Fetcher
from core.models import (
    ChannelAccount,
    ChatSession,
    Installation,
    PushMessage,
    PushSubscription,
    Run,
    ToolCall,
    User,
)
from core.signals import pubsub, wakeups
from tests.channels_app.push.conftest import Enable, answered
from tests.channels_app.push.service import PushService, ReadingBrowser, signer

State = PushMessage.State
SECRET = "The secret word is heliotrope"


def announce(user: User, kind: push_messages.Kind, ref: str) -> None:
    with atomic_write():
        push_messages.enqueue(user_id=user.pk, kind=kind, ref=ref)


def told(user: User, text: str = SECRET) -> PushMessage:
    """Return the message about an answer, for the user's only browser."""
    run = answered(user, text)
    announce(user, "answer", run.public_id)
    return PushMessage.objects.get(ref=run.public_id)


def send(message: PushMessage) -> float | None:
    """Send it; return the wait until the next look."""
    wait = asyncio.run(sending.send(message.pk))
    while wait is not None and wait <= sending.SOON_SECONDS:  # the clock of the database
        wait = asyncio.run(sending.send(message.pk))
    return wait


def state(message: PushMessage) -> str:
    message.refresh_from_db()
    return message.state


def due_now(message: PushMessage) -> None:
    PushMessage.objects.filter(pk=message.pk).update(retry_at=None)
    PushSubscription.objects.update(held_until=None)


def test_w58_a_message_is_encrypted_for_the_browser_and_signed_by_the_gateway(
    service: PushService, ann: User, enable: Enable
) -> None:
    browser, row = enable(ann)
    message = told(ann, "**Blue**, because of\n\n- scattering")
    assert send(message) is None
    assert state(message) == State.SENT
    (got,) = service.received
    said = browser.read(got)
    assert said["body"] == "Blue, because of - scattering"
    assert said["tag"] == f"answer:{message.ref}"
    run = Run.objects.get(public_id=message.ref)
    assert said["url"] == f"/c/{run.session.public_id}"
    key, _ = signer(got, origin=service.origin)
    assert key == keys.public_key()
    assert 0 < int(got.headers["TTL"]) <= 24 * 3600
    assert got.headers["Urgency"] == "normal"
    assert len(got.headers["Topic"]) == 32
    assert SECRET.encode() not in got.body
    row.refresh_from_db()
    assert row.succeeded_at is not None


def test_w58_the_length_that_a_service_sees_is_rounded(
    service: PushService, ann: User, enable: Enable
) -> None:
    enable(ann)
    for text in ("Yes.", "No, that is quite another matter, which takes some words more."):
        send(told(ann, text))
    assert len({len(got.body) for got in service.received}) == 1
    send(told(ann, "\U0001f600" * 5000))
    assert len(service.received[-1].body) < 4096


@pytest.mark.django_db
def test_w58_the_key_is_made_once_encrypted_and_kept_through_a_rotation(settings: object) -> None:
    first = keys.public_key()
    assert keys.public_key() == first
    sealed = Installation.objects.get(id=1).secrets
    assert "PRIVATE" not in sealed
    assert "PRIVATE KEY" in encryption.decrypt(sealed)["vapid"]


def test_w60_an_answer_is_told_once_in_each_browser_and_again_under_the_same_tag(
    service: PushService, ann: User, enable: Enable
) -> None:
    """A worker that died while sending leaves a message whose lease ends."""
    one, two = enable(ann, "one")[0], enable(ann, "two")[0]
    run = answered(ann, "Blue.")
    for _ in range(2):
        announce(ann, "answer", run.public_id)
    rows = list(PushMessage.objects.order_by("pk"))
    assert len(rows) == 2
    for row in rows:
        send(row)
        send(row)
    assert [got.path for got in service.received] == ["/send/one", "/send/two"]
    PushMessage.objects.filter(pk=rows[0].pk).update(
        state=State.SENDING, lease_until=timezone.now() - timedelta(seconds=1)
    )
    assert push_messages.due() == [rows[0].pk]
    send(rows[0])
    first, second, third = service.received
    assert one.read(first)["tag"] == one.read(third)["tag"] == two.read(second)["tag"]
    assert first.headers["Topic"] == third.headers["Topic"]


def test_w60_a_message_that_ends_its_worker_each_time_is_given_up(
    service: PushService, ann: User, enable: Enable
) -> None:
    enable(ann)
    message = told(ann)
    for _ in range(push_messages.MOST_ATTEMPTS):
        assert push_messages.claim(message.pk) is not None
        PushMessage.objects.filter(pk=message.pk).update(
            lease_until=timezone.now() - timedelta(seconds=1)
        )
        push_messages.due()
    assert state(message) == State.DEAD
    assert service.received == []


def test_w60_a_message_that_was_tried_often_outlives_the_restart_of_its_worker(
    service: PushService, ann: User, enable: Enable
) -> None:
    """Tries that had an answer are no sendings without an end."""
    enable(ann)
    message = told(ann)
    service.answers = [503] * push_messages.MOST_ATTEMPTS
    for _ in range(push_messages.MOST_ATTEMPTS):
        send(message)
        due_now(message)
    assert push_messages.claim(message.pk) is not None
    PushMessage.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert push_messages.due() == [message.pk]
    send(message)
    assert state(message) == State.SENT


def test_w60_a_worker_that_lost_its_claim_changes_nothing(
    service: PushService, ann: User, enable: Enable
) -> None:
    del service
    enable(ann)
    message = told(ann)
    late = push_messages.claim(message.pk)
    assert late is not None
    PushMessage.objects.filter(pk=message.pk).update(attempt=7)
    push_messages.sent(late)
    push_messages.refused(late, error="x")
    assert state(message) == State.SENDING
    assert PushSubscription.objects.get().failures == 0


@contextmanager
def page_in_view(user: User) -> Iterator[None]:
    """Listen as the socket of a visible page does."""
    ready, over = threading.Event(), threading.Event()

    async def look() -> None:
        with pubsub.local().listen([presence.key_of(user.pk)]) as listener:
            while not await pubsub.local().confirmed(listener):
                await asyncio.sleep(0.01)
            ready.set()
            await asyncio.to_thread(over.wait, 60)
        await pubsub.local().close()

    thread = threading.Thread(target=lambda: asyncio.run(look()))
    thread.start()
    assert ready.wait(60)
    try:
        yield
    finally:
        over.set()
        thread.join(60)


def test_w60_nothing_is_sent_while_a_page_is_in_view(
    service: PushService, ann: User, owner: User, enable: Enable
) -> None:
    enable(ann, "ann")
    enable(owner, "owner")
    mine, others = told(ann), told(owner)
    with page_in_view(ann):
        send(mine)
        send(others)
    assert [state(mine), state(others)] == [State.SEEN, State.SENT]
    after = told(ann)
    send(after)
    assert state(after) == State.SENT


def test_w60_nothing_is_told_that_is_gone_or_decided(
    service: PushService, ann: User, owner: User, enable: Enable
) -> None:
    enable(ann, "ann")
    enable(owner, "owner")
    deleted, request = told(ann), unknown()
    Run.objects.filter(public_id=deleted.ref).delete()
    announce(owner, "request", request.public_id)
    UnknownRequest.objects.update(state=UnknownRequest.State.DENIED)
    decided = PushMessage.objects.get(ref=request.public_id)
    foreign = answered(owner, "Not Ann's.")
    announce(ann, "answer", foreign.public_id)
    for row in PushMessage.objects.all():
        send(row)
    assert service.received == []
    assert {state(deleted), state(decided)} == {State.STALE}


def unknown(**fields: object) -> UnknownRequest:
    account, _ = ChannelAccount.objects.get_or_create(channel="telegram", name="main")
    now = timezone.now()
    given = {
        "account": account,
        "kind": "im",
        "sender": "777",
        "sender_name": "Eve",
        "last_text": "Let me in",
        "first_seen_at": now,
        "last_seen_at": now,
        "expires_at": now + timedelta(days=1),
        **fields,
    }
    return UnknownRequest.objects.create(**given)


def test_w64_an_unknown_request_opens_its_page_and_its_buttons_the_decision(
    service: PushService, owner: User, enable: Enable
) -> None:
    browser, _ = enable(owner)
    request = unknown()
    announce(owner, "request", request.public_id)
    send(PushMessage.objects.get())
    said = browser.read(service.received[0])
    assert said["url"] == f"/admin/allowlist/unknownrequest/{request.pk}/change/"
    assert [each["title"] for each in said["actions"]] == ["Allow", "Deny"]
    allow, deny = (each["url"] for each in said["actions"])
    page = f"/requests/{request.public_id}"
    assert (allow, deny) == (f"{page}?choice=approve", f"{page}?choice=deny")
    assert service.received[0].headers["Urgency"] == "high"
    request.refresh_from_db()
    assert request.notified_at is None, "a push service that has it told nobody"
    assert request.state == UnknownRequest.State.PENDING


def test_w60_a_question_goes_to_its_decider_and_a_guest_learns_of_no_request(
    service: PushService, ann: User, owner: User, enable: Enable
) -> None:
    enable(ann, "ann")
    browser, _ = enable(owner, "owner")
    account = ChannelAccount.objects.create(channel="memory", name="mem")
    session = ChatSession.objects.create(user=ann, account=account, chat="42")
    run = Run.objects.create(session=session, user=ann, origin="memory", state="succeeded")
    with atomic_write():
        asking.ask(run=run, messages=[], questions=[Asked("1", "mail", '{"to": "bob"}')])
    call = ToolCall.objects.get()
    announce(ann, "request", unknown().public_id)
    for row in PushMessage.objects.all():
        send(row)
    (got,) = service.received
    said = browser.read(got)
    assert (got.path, said["url"]) == ("/send/owner", f"/tool-calls/{call.public_id}")
    assert "mail" in said["title"]


@pytest.mark.parametrize("kind", ["answer", "reminder"])
def test_w63_hidden_text_says_only_that_there_is_something(
    service: PushService, ann: User, enable: Enable, kind: push_messages.Kind
) -> None:
    browser, _ = enable(ann)
    run = answered(ann, SECRET)
    announce(ann, kind, run.public_id)
    User.objects.update(hide_push_text=True)
    send(PushMessage.objects.get())
    said = browser.read(service.received[0])
    assert (said["title"], said["body"]) == ("Latchkey", content.HIDDEN[kind])
    assert "heliotrope" not in str(said)
    assert "Sky" not in str(said)


def test_w63_a_failed_run_and_one_of_pictures_only_have_words_too(
    service: PushService, ann: User, enable: Enable
) -> None:
    browser, _ = enable(ann)
    for result in ({"text": "", "error": "The model is away."}, {"text": ""}):
        run = answered(ann, "", result=result)
        announce(ann, "answer", run.public_id)
        send(PushMessage.objects.get(ref=run.public_id))
    bodies = [browser.read(got)["body"] for got in service.received]
    assert bodies == ["There is no answer: The model is away.", "A file"]


@pytest.mark.parametrize("status", [404, 410])
def test_w59_a_browser_that_is_gone_is_forgotten_with_its_messages(
    service: PushService, ann: User, enable: Enable, status: int
) -> None:
    enable(ann)
    first, second = told(ann), told(ann)
    service.answers = [status]
    assert send(first) is None
    assert not PushSubscription.objects.exists()
    assert not PushMessage.objects.exists()
    assert send(second) is None
    assert len(service.received) == 1


async def retry_in_two_minutes(_: web.Request) -> web.Response:
    return web.Response(status=429, headers={"Retry-After": "120"})


async def retry_at_a_time(_: web.Request) -> web.Response:
    at = format_datetime(timezone.now() + timedelta(minutes=2), usegmt=True)
    return web.Response(status=503, headers={"Retry-After": at})


@pytest.mark.parametrize("answer", [retry_in_two_minutes, retry_at_a_time])
def test_w61_a_service_says_when_to_come_back(
    service: PushService, ann: User, enable: Enable, answer: object
) -> None:
    enable(ann)
    message = told(ann)
    service.answers = [answer]  # type: ignore[list-item]  # parametrised
    wait = send(message)
    assert wait is not None
    assert 110 <= wait <= 121
    assert state(message) == State.PENDING
    assert push_messages.due() == []
    due_now(message)
    send(message)
    assert state(message) == State.SENT


def test_w61_a_service_that_fails_is_tried_again_later_each_time_and_given_up_at_the_end(
    service: PushService, ann: User, enable: Enable
) -> None:
    enable(ann)
    message = told(ann)
    service.answers = [500, 502, 503]
    waits = []
    for _ in range(3):
        waits.append(send(message))
        due_now(message)
    assert waits == [5.0, 15.0, 60.0]
    PushMessage.objects.update(expires_at=timezone.now() + timedelta(seconds=30))
    service.answers = [500]
    assert send(message) is None
    assert state(message) == State.DEAD
    assert PushSubscription.objects.get().failures == 1
    send(told(ann))
    assert PushSubscription.objects.get().failures == 0


def test_w61_a_refusal_is_final_and_a_browser_that_takes_nothing_is_forgotten(
    service: PushService, ann: User, enable: Enable
) -> None:
    enable(ann)
    service.answers = [413, 302, *[403] * (push_messages.MOST_FAILURES - 2)]
    for _ in range(push_messages.MOST_FAILURES):
        assert send(told(ann)) is None
    assert not PushSubscription.objects.exists()
    assert len(service.received) == push_messages.MOST_FAILURES, "no redirect was followed"


def test_w61_a_slow_service_costs_a_bounded_time(
    service: PushService, ann: User, enable: Enable, monkeypatch: pytest.MonkeyPatch
) -> None:
    enable(ann)
    over = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    monkeypatch.setattr(sending, "FETCHER", service.fetcher(seconds=0.2))
    message = told(ann)
    service.answers = [hang]
    assert send(message) == 5.0
    assert state(message) == State.PENDING
    assert message.error == "TimeoutError"


def test_w61_a_browser_whose_service_is_slow_is_held_back_whole_and_counts_as_failing(
    service: PushService, ann: User, enable: Enable, monkeypatch: pytest.MonkeyPatch
) -> None:
    enable(ann)
    over = asyncio.Event()

    async def hang(_: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    monkeypatch.setattr(sending, "FETCHER", service.fetcher(seconds=0.2))
    first, second = told(ann), told(ann)
    service.answers = [hang, hang]
    assert send(first) == 5.0
    wait = send(second)
    assert wait is not None
    assert 3 < wait <= 5
    assert len(service.received) == 1, "the second did not wait for the service too"
    assert push_messages.due() == []
    assert PushSubscription.objects.get().failures == 1
    due_now(first)
    assert push_messages.due() == [first.pk]
    assert send(second) == 15.0, "the wait of a browser grows over its messages"
    due_now(second)
    send(first)
    row = PushSubscription.objects.get()
    assert (state(first), row.failures, row.held_until) == (State.SENT, 0, None)


def test_w61_a_browser_gets_one_request_at_a_time_and_then_the_next(
    service: PushService, ann: User, enable: Enable, monkeypatch: pytest.MonkeyPatch
) -> None:
    del service
    enable(ann, "one")
    first, second = told(ann), told(ann)
    woken: list[int] = []
    monkeypatch.setattr(wakeups, "push", woken.append)
    held = push_messages.claim(first.pk)
    assert held is not None
    assert push_messages.claim(second.pk) is None
    second.refresh_from_db()
    assert (second.state, second.attempt) == (State.PENDING, 0)
    assert push_messages.due_in(second.pk) is None
    assert send(second) is None
    push_messages.sent(held)
    assert woken == [second.pk]
    assert push_messages.claim(second.pk) is not None


def test_w61_of_workers_that_claim_at_once_one_sends_to_a_browser(
    service: PushService, ann: User, enable: Enable
) -> None:
    del service
    enable(ann)
    rows = [told(ann) for _ in range(4)]
    barrier = threading.Barrier(len(rows))

    def claim(message: PushMessage) -> bool:
        try:
            barrier.wait(60)
            return push_messages.claim(message.pk) is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(len(rows)) as threads:
        assert sum(threads.map(claim, rows)) == 1
    assert PushMessage.objects.filter(state=State.SENDING).count() == 1


def test_w61_due_messages_are_sent_to_people_in_turn(
    service: PushService, ann: User, owner: User, enable: Enable
) -> None:
    del service
    for name in ("one", "two", "three"):
        enable(ann, name)
    runs = [answered(ann, "Blue.") for _ in range(3)]
    for run in runs:
        announce(ann, "answer", run.public_id)
    enable(owner, "four")
    last = told(owner)
    found = push_messages.due()
    assert len(found) == 4, "one for each browser"
    assert found.index(last.pk) == 1


async def flood(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(status=201)
    await response.prepare(request)
    for _ in range(64):
        await response.write(b"x" * 65536)
    return response


def test_w62_little_of_an_answer_is_read(service: PushService, ann: User, enable: Enable) -> None:
    enable(ann)
    message = told(ann)
    service.answers = [flood]
    send(message)
    assert state(message) == State.SENT


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example/send",
        "https://127.0.0.1/send",
        "https://10.1.2.3/send",
        "https://localhost/send",
        "https://169.254.169.254/latest",
        "https://2130706433/send",
    ],
)
def test_w62_only_public_addresses_are_reached_and_only_over_tls(
    ann: User, enable: Enable, monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """With the fetcher as it is in production."""
    monkeypatch.setattr(sending, "FETCHER", Fetcher(https_only=True, max_seconds=5))
    enable(ann)
    PushSubscription.objects.update(endpoint=endpoint)
    message = told(ann)
    assert send(message) == 5.0
    assert (state(message), message.error) == (State.PENDING, "RefusedAddressError")


def test_w62_a_browser_whose_address_cannot_be_signed_is_forgotten(
    service: PushService, ann: User, enable: Enable
) -> None:
    """The library signs only for host names and IPv4 addresses."""
    enable(ann)
    PushSubscription.objects.update(endpoint="https://[::1]/send")
    assert send(told(ann)) is None
    assert service.received == []
    assert not PushSubscription.objects.exists()


def test_w62_a_resolver_that_gives_a_wrong_address_for_a_while_costs_no_browser(
    service: PushService, ann: User, enable: Enable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Routers do so while their line is down."""

    async def of_the_router(host: str, port: int) -> list[str]:
        del host, port
        return ["192.168.0.1"]

    enable(ann)
    message = told(ann)
    monkeypatch.setattr(sending, "FETCHER", replace(service.fetcher(), resolve=of_the_router))
    assert send(message) == 5.0
    assert (state(message), service.received) == (State.PENDING, [])
    monkeypatch.setattr(sending, "FETCHER", service.fetcher())
    due_now(message)
    send(message)
    assert state(message) == State.SENT


def test_w62_neither_the_address_nor_the_text_is_in_a_log_or_a_row(
    service: PushService, ann: User, enable: Enable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    browser, _ = enable(ann, "the-capability")
    for answer in (201, 500, 403, 410):
        service.answers = [answer]
        send(told(ann))
    enable(ann, "the-capability")
    lost = told(ann)
    service.port = 1
    PushSubscription.objects.update(endpoint=f"{service.origin}/send/the-capability")
    send(lost)
    logged = caplog.text + str(list(PushMessage.objects.values()))
    for secret in ("the-capability", "heliotrope", browser.subscription["keys"]["auth"]):
        assert secret not in logged


def end_session(browser: ReadingBrowser, row: PushSubscription, user: User) -> None:
    del browser, user
    PushSubscription.objects.filter(pk=row.pk).update(session_key="gone")


def deactivate(browser: ReadingBrowser, row: PushSubscription, user: User) -> None:
    del browser, row
    User.objects.filter(pk=user.pk).update(is_active=False)


def new_password(browser: ReadingBrowser, row: PushSubscription, user: User) -> None:
    del browser, row
    user.set_password("another")
    user.save()


@pytest.mark.parametrize("end", [end_session, deactivate, new_password])
def test_w59_a_browser_is_forgotten_with_the_session_that_enabled_it(
    service: PushService, ann: User, enable: Enable, end: object
) -> None:
    browser, row = enable(ann)
    message = told(ann)
    assert callable(end)
    end(browser, row, ann)
    assert send(message) is None
    assert service.received == []
    assert not PushSubscription.objects.exists()


def test_w59_a_browser_that_signs_in_anew_while_a_message_is_sent_stays(
    service: PushService, ann: User, enable: Enable
) -> None:
    """The page has enabled notifications for the new session before the old one was looked up."""
    _, row = enable(ann)
    message = push_messages.claim(told(ann).pk)
    assert message is not None
    Session.objects.all().delete()
    _, again = enable(ann)
    assert again.pk == row.pk
    assert sending.letter_of(message) is None
    assert PushSubscription.objects.exists()
    assert state(message) == State.PENDING
    due_now(message)
    send(message)
    assert state(message) == State.SENT


def test_w59_a_session_of_an_earlier_signing_key_stays_as_it_is(
    service: PushService, ann: User, enable: Enable, settings: object
) -> None:
    """Django would give it a new key, which the cookie of the browser does not have."""
    _, row = enable(ann)
    settings.SECRET_KEY_FALLBACKS = [django_settings.SECRET_KEY]  # type: ignore[attr-defined]
    settings.SECRET_KEY = "n" * 60  # type: ignore[attr-defined]  # the fixture
    before = Session.objects.get()
    message = told(ann)
    send(message)
    assert state(message) == State.SENT
    after = Session.objects.get()
    assert (after.session_key, after.session_data) == (row.session_key, before.session_data)
    settings.SECRET_KEY_FALLBACKS = []  # type: ignore[attr-defined]  # the fixture
    send(told(ann))
    assert len(service.received) == 1
    assert Session.objects.get().session_key == row.session_key


def test_w60_a_browser_that_is_forgotten_meanwhile_costs_its_message_only(
    service: PushService, ann: User, enable: Enable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two connections: the browser is read, deleted elsewhere, and then the run is committed."""
    _, row = enable(ann)
    found = [(row.pk,)]
    push_subscriptions.forget(id=row.pk)
    monkeypatch.setattr(push_messages, "SUBSCRIBED", lambda **_: found)
    message = told(ann)
    assert send(message) is None
    assert service.received == []
    assert not PushMessage.objects.exists()


def test_w60_a_message_without_its_browser_is_removed_at_its_end(
    service: PushService, ann: User, enable: Enable
) -> None:
    del service
    _, row = enable(ann)
    told(ann)
    PushMessage.objects.update(expires_at=timezone.now() - timedelta(hours=1))
    PushSubscription.objects.filter(pk=row.pk)._raw_delete("default")
    assert push_messages.purge() == 1


def test_w59_another_person_on_the_browser_gets_their_own_only(
    service: PushService, ann: User, owner: User, enable: Enable
) -> None:
    enable(ann, "shared")
    waits = told(ann)
    browser, _ = enable(owner, "shared")
    assert send(waits) is None
    assert service.received == []
    assert PushSubscription.objects.get().user == owner
    send(told(owner, "For the owner."))
    assert browser.read(service.received[0])["body"] == "For the owner."


def test_w59_a_revoked_person_has_no_browser_any_more(
    service: PushService, ann: User, enable: Enable
) -> None:
    enable(ann)
    waits = told(ann)
    revocation.end_user(user_id=ann.pk)
    assert not PushSubscription.objects.exists()
    assert send(waits) is None
    assert service.received == []


def test_w59_a_person_has_at_most_ten_browsers_the_longest_unused_goes(
    service: PushService, ann: User, enable: Enable
) -> None:
    enable(ann, "first")
    enable(ann, "used")
    PushSubscription.objects.filter(endpoint__endswith="used").update(
        succeeded_at=timezone.now() + timedelta(hours=1)
    )
    PushSubscription.objects.filter(endpoint__endswith="first").update(
        created_at=timezone.now() - timedelta(hours=1)
    )
    for number in range(9):
        enable(ann, f"b{number}")
    names = {row.endpoint.rpartition("/")[2] for row in PushSubscription.objects.all()}
    assert names == {"used", *(f"b{number}" for number in range(9))}


def test_w61_messages_are_removed_after_their_time(
    service: PushService, ann: User, enable: Enable
) -> None:
    del service
    enable(ann)
    old, new = told(ann), told(ann)
    PushMessage.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(hours=1))
    assert push_messages.purge() == 1
    assert list(PushMessage.objects.all()) == [new]


def test_w61_a_message_of_before_an_outage_of_a_day_is_not_sent_any_more(
    service: PushService, ann: User, enable: Enable
) -> None:
    """The sweep of a worker that starts looks for work before it removes what is over."""
    browser, _ = enable(ann)
    old, new = told(ann), told(ann, "Good morning.")
    PushMessage.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(hours=1))
    assert push_messages.due() == [old.pk]
    assert send(old) is None
    assert state(old) == State.STALE
    assert push_messages.due() == [new.pk]
    send(new)
    assert [browser.read(got)["body"] for got in service.received] == ["Good morning."]


def test_w58_browsers_outlive_days_with_keys_that_cannot_be_opened(
    service: PushService, ann: User, enable: Enable, settings: object
) -> None:
    """It is the gateway's own fault."""
    enable(ann)
    keys.public_key()
    right = django_settings.GATEWAY_ENCRYPTION_KEYS
    settings.GATEWAY_ENCRYPTION_KEYS = ["another key"]  # type: ignore[attr-defined]  # the fixture
    for _ in range(push_messages.MOST_FAILURES):
        message = told(ann)
        due_now(message)
        PushMessage.objects.update(expires_at=timezone.now() + timedelta(seconds=4))
        assert send(message) is None
        assert state(message) == State.DEAD
    settings.GATEWAY_ENCRYPTION_KEYS = right  # type: ignore[attr-defined]  # the fixture
    send(told(ann))
    assert len(service.received) == 1


def test_w58_a_key_that_cannot_be_opened_sends_nothing_and_replaces_nothing(
    service: PushService, ann: User, enable: Enable, settings: object
) -> None:
    enable(ann)
    keys.public_key()
    before = Installation.objects.get(id=1).secrets
    settings.GATEWAY_ENCRYPTION_KEYS = ["another key"]  # type: ignore[attr-defined]  # the fixture
    message = told(ann)
    send(message)
    assert service.received == []
    assert state(message) == State.PENDING
    with pytest.raises(encryption.DecryptError):
        keys.public_key()
    assert Installation.objects.get(id=1).secrets == before

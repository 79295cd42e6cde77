"""A message beyond capacity is refused early, by person first, in the form of its endpoint."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone
from pytest_django import Settings

from allowlist import keys
from channels_app.asgi import admission as admissions
from channels_app.asgi import event_stream
from channels_app.asgi.admission import ALWAYS_WAITING, FEW, Admission, BusyError
from channels_app.asgi.authentication import authenticate
from channels_app.asgi.http import Request
from channels_app.bridge import signing
from channels_app.intake import inbound
from core.conversations import inbox, runs
from core.conversations.runs import Load
from core.database import transactions
from core.database.transactions import in_thread
from core.lib.encryption import encrypt
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, Run, User
from gateway_project.asgi import application
from tests.channels_app.webchat.conftest import ada, allowed_host, at_the_page
from tests.loops import end_tasks

__all__ = ["ada", "allowed_host"]
CROWD, OTHER = 1_000_001, 1_000_002
# One place, taken by the crowd, of whom 20 more wait; a run a second.
FULL = Load(waiting={CROWD: 20}, held={CROWD: 1}, places=1, pace=1.0)


def knowing(load: Load | None) -> Admission:
    """Return an admission that has just looked."""
    made = Admission()
    made.load, made._looked_at = load, time.monotonic()
    return made


def accepted(made: Admission, person: int, *, most: int = 1000) -> int:
    """Return how many messages of ``person`` are accepted until one is refused."""
    for number in range(most):
        try:
            made.decide(person)
        except BusyError:
            return number
    return most


def test_no_message_is_refused_while_places_are_free() -> None:
    made = knowing(Load(waiting={}, held={CROWD: 10}, places=1000, pace=1.0))
    assert made.rank(CROWD) == 0
    assert accepted(made, CROWD) == 990 + ALWAYS_WAITING


def test_a_person_with_many_waiting_is_refused_before_one_with_none() -> None:
    made = knowing(FULL)
    with pytest.raises(BusyError) as refused:
        made.decide(CROWD)
    assert refused.value.details == {"code": "busy", "place": 21, "retry_after": 16}
    assert refused.value.headers == {"Retry-After": "16"}
    assert made.rank(OTHER) == 1, "the next place is theirs"
    assert accepted(made, OTHER) == 5, "they take turns: 1, 3, 5, 7, 9"


def test_as_many_wait_as_are_served_in_time(settings: Settings) -> None:
    settings.MAX_QUEUE_SECONDS = 5
    quick = knowing(Load(waiting={}, held={CROWD: 10}, places=10, pace=100.0))
    assert accepted(quick, CROWD) == 500
    slow = knowing(Load(waiting={}, held={CROWD: 10}, places=10, pace=0.01))
    assert accepted(slow, CROWD) == ALWAYS_WAITING, "however slow the model is"


def test_without_a_live_worker_messages_wait_until_their_number_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "MOST_WAITING", 50)
    assert accepted(knowing(Load(waiting={}, held={}, places=0, pace=0.0)), CROWD) == 49
    assert accepted(knowing(None), CROWD) == 1000, "unknown: at the start, or the database is away"


def test_an_old_look_tells_of_places_only() -> None:
    made = knowing(FULL)
    made._looked_at -= admissions.VALID_SECONDS + 1
    assert made.rank(CROWD) == 0
    assert accepted(made, CROWD) == 1 + ALWAYS_WAITING


def test_a_late_process_takes_one_of_each_person_and_a_very_late_one_none() -> None:
    """One late measurement is no overload."""
    made = knowing(Load(waiting={}, held={}, places=1000, pace=1.0))
    made.late.note(admissions.TOO_LATE_SECONDS + 1)
    assert accepted(made, CROWD, most=5) == 5
    made.late.note(admissions.LATE_SECONDS + 1)
    assert (accepted(made, CROWD), accepted(made, OTHER)) == (0, 1)
    made._accepted[OTHER] -= admissions.PAUSE * (admissions.LATE_SECONDS + 1)
    assert accepted(made, OTHER) == 1, "the later the process is, the longer is the pause"
    made.refuse_if_late()
    made.late.note(admissions.TOO_LATE_SECONDS + 1)
    made.late.note(admissions.TOO_LATE_SECONDS + 1)
    assert accepted(made, OTHER + 1) == 0
    with pytest.raises(BusyError):
        made.refuse_if_late()
    made.late.note(0.0)
    assert accepted(made, CROWD, most=5) == 5


async def test_the_wait_for_the_database_threads_is_measured_while_messages_come(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """A measurement that does not end counts: all threads are at work, or the database hangs."""
    monkeypatch.setattr(admissions, "PROBE_SECONDS", 0.0)
    monkeypatch.setattr(admissions, "GRACE_SECONDS", 0.0)
    made, gate, blocked = knowing(None), threading.Event(), list[int]()

    def wait() -> None:
        blocked.append(1)
        assert gate.wait(60)

    made.check(CROWD)
    assert made.late._probing is None, "a single message makes no process late"
    works = [asyncio.create_task(in_thread(wait)) for _ in range(settings.GATEWAY_DATABASE_THREADS)]
    while len(blocked) < settings.GATEWAY_DATABASE_THREADS:
        await asyncio.sleep(0)
    made.check(CROWD)
    assert made.late._probing is not None
    made.late._began -= admissions.TOO_LATE_SECONDS + 1
    with pytest.raises(BusyError):
        made.check(OTHER)
    gate.set()
    async with asyncio.timeout(60):
        await asyncio.gather(made.late._probing, *works)
    assert made.late._last > admissions.TOO_LATE_SECONDS
    made.check(OTHER)
    await asyncio.to_thread(transactions.close_pool)


async def test_the_database_is_asked_while_work_waits_and_not_for_a_single_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[Load | Exception] = [FULL, OperationalError("away"), FULL]
    loads: list[Any] = []

    def load() -> Load:
        found = looks.pop(0)
        loads.append(found)
        if isinstance(found, Exception):
            raise found
        return found

    async def looked(made: Admission) -> None:
        assert made._looking is not None
        async with asyncio.timeout(60):
            await made._looking

    monkeypatch.setattr(runs, "load", load)
    made = knowing(Load(waiting={}, held={}, places=10, pace=1.0))
    monkeypatch.setattr(admissions, "LOOK_SECONDS", -1.0)
    for _ in range(FEW):
        made.check(CROWD)
    assert loads == []
    made.check(OTHER)
    await asyncio.sleep(0)
    made.decide(OTHER)
    await looked(made)
    assert (loads, made.load) == ([FULL], FULL)
    assert made._recent == {OTHER: 1}, "what came since"
    made.check(OTHER)
    await looked(made)
    assert made.load is None
    made._looked_at -= admissions.KNOWN_SECONDS + 1
    made.check(CROWD)
    await looked(made)
    assert made.load == FULL
    await asyncio.to_thread(transactions.close_pool)


async def test_too_many_requests_without_a_known_person_are_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They wait for one thread; the others are not kept in memory for that."""
    monkeypatch.setattr(admissions, "MOST_UNKNOWN", 2)
    with admissions.entrance.one(), admissions.entrance.one():
        scope: dict[str, object] = {
            "type": "http",
            "method": "POST",
            "path": "/x",
            "headers": [],
            "client": None,
        }
        request = Request({**scope, "query_string": b""})
        with pytest.raises(BusyError):
            await authenticate(request, scope="chat")
    assert admissions.entrance.number == 0


# The forms of the endpoints ----------------------------------------------------------------------


Fill = Callable[[int], None]


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[Fill]:
    """Return a function that fills the gateway with the work of a person."""

    def fill(person: int) -> None:
        full = Load(waiting={person: 100}, held={person: 1}, places=1, pace=1.0)
        monkeypatch.setattr(runs, "load", lambda: full)
        admissions.admission.load = full
        admissions.admission._looked_at = time.monotonic()

    yield fill
    transactions.close_pool()


Answer = tuple[int, dict[str, str], str]


async def post(path: str, token: str, body: bytes, **headers: str) -> Answer:
    """Send a request to the application; return the status, headers and body of the answer."""
    sent: list[dict[str, Any]] = []
    given = {"host": "testserver", "content-type": "application/json", **headers}
    given["authorization"] = f"Bearer {token}"
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    left = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("testserver", 80),
    }
    try:
        async with asyncio.timeout(120):
            await application(scope, receive, send)
    finally:
        await end_tasks()
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(each.get("body", b"") for each in sent[1:]).decode()


def token_of(user: User) -> str:
    """Return a new key of ``user``."""
    return keys.create(name="k", user=user, scopes=["inbound", "chat"])[1]


CHAT = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}
SAID = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "x"}]}
UI = {"id": "c", "messages": [SAID]}


async def test_each_endpoint_says_busy_in_its_own_form(ada: User, busy: Fill) -> None:
    """With the place in the queue, when to try again, and nothing stored."""
    token = await in_thread(token_of, ada)
    busy(ada.pk)
    status, headers, text = await post("/inbound", token, b'{"text": "hello"}')
    body = json.loads(text)
    assert (status, body["ok"], body["code"], body["place"]) == (503, False, "busy", 101)
    assert headers["retry-after"] == str(body["retry_after"]) == "60"
    status, headers, text = await post("/inbound", token, b'{"text": "hello", "stream": true}')
    assert (status, headers["content-type"]) == (503, event_stream.CONTENT_TYPE)
    assert json.loads(text.removeprefix("data: "))["place"] == 101
    assert headers["retry-after"] == "60"
    status, headers, text = await post("/v1/chat/completions", token, json.dumps(CHAT).encode())
    error = json.loads(text)["error"]
    assert (status, error["type"]) == (429, "rate_limit_error")
    assert "number 101 in the queue" in error["message"]
    assert (headers["retry-after"], headers["x-ratelimit-reset-requests"]) == ("60", "60s")
    status, headers, text = await post("/ui/chat", token, json.dumps(UI).encode())
    assert (status, headers["retry-after"], text[:5]) == (503, "60", "Busy:")
    assert not await in_thread(InboundMessage.objects.exists)


async def test_a_socket_gets_an_error_frame_with_the_place_and_stays_open(
    ada: User, busy: Fill
) -> None:
    """Commands always pass: a person who waits may stop, or ask for help."""
    busy(ada.pk)
    async with at_the_page(ada) as socket:
        refused = await socket.ask("hello", client_id="c1")
        assert (refused["type"], refused["code"], refused["client_id"]) == ("error", "busy", "c1")
        assert (refused["status"], refused["place"], refused["retry_after"]) == (503, 101, 60)
        assert (await socket.ask("/help", client_id="c2"))["type"] == "accepted"


async def test_commands_over_inbound_pass_as_well(ada: User, busy: Fill) -> None:
    token = await in_thread(token_of, ada)
    busy(ada.pk)
    assert (await post("/inbound", token, b'{"text": "/help"}'))[0] == 200


async def test_another_person_is_accepted_meanwhile(ada: User, busy: Fill) -> None:
    token = await in_thread(token_of, ada)
    busy(CROWD)
    assert (await post("/inbound", token, b'{"text": "hello", "async": true}'))[0] == 202


def bridge_of(person: User) -> str:
    """Return the key of a bridge whose sender ``s1`` is ``person``."""
    account = ChannelAccount.objects.create(
        channel="bridge",
        name="main",
        config={"callback_url": "http://127.0.0.1:1/x"},
        secrets=encrypt({"signing_secret": "a-secret-of-this-bridge"}),
    )
    ChannelIdentity.objects.create(user=person, kind="im", value="s1")
    return keys.create(name="b", account=account, scopes=["inbound", "chat"])[1]


async def test_a_bridge_is_refused_by_the_person_behind_its_sender(ada: User, busy: Fill) -> None:
    token = await in_thread(bridge_of, ada)
    busy(ada.pk)
    body = json.dumps({"user_id": "s1", "text": "hello"}).encode()
    stamp = int(timezone.now().timestamp())
    signature = signing.sign(secret="a-secret-of-this-bridge", timestamp=stamp, body=body)
    signed = {signing.TIMESTAMP.lower(): str(stamp), signing.SIGNATURE.lower(): signature}
    status, headers, _ = await post("/process", token, body, **signed)
    assert (status, headers["retry-after"]) == (503, "60")
    status, headers, text = await post("/inbound", token, body)
    assert (status, json.loads(text)["place"]) == (503, 101)
    v1 = json.dumps({**CHAT, "user": "s1"}).encode()
    assert (await post("/v1/chat/completions", token, v1))[0] == 429
    assert not await in_thread(InboundMessage.objects.exists)


@pytest.mark.django_db(transaction=True)
def test_a_message_of_a_platform_is_stored_however_much_waits(ada: User, busy: Fill) -> None:
    """The platform would repeat it, and give up in the end."""
    account = ChannelAccount.objects.create(channel="memory", name="main")
    ChannelIdentity.objects.create(user=ada, kind="im", value="7")
    busy(ada.pk)
    now = timezone.now()
    draft = inbox.Draft(account=account, sender="7", chat="7", message_id="1", text="hello")
    receipt = inbound.receive_sender(draft=draft, now=now, debounce=True)
    assert receipt.outcome == "accepted"
    assert inbox.flush_due(session_id=receipt.session.id, now=now + inbox.usual_wait().most)  # type: ignore[union-attr]
    assert Run.objects.count() == 1

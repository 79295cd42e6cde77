"""Sockets of the web chat in tests: users, cookies, and a writer of runs' logs."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import orjson
import pytest
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi import throttling
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake.inbound import receive_personal
from channels_app.webchat.urls import websocket_application
from core.conversations import events, runs
from core.conversations.inbox import Draft
from core.database import transactions
from core.messages import MessageDict
from core.models import Run, User
from core.signals import pubsub
from tests.loops import end_tasks

Frame = dict[str, Any]
HOST = "chat.example"
SECONDS = 120.0


def person(name: str, **fields: Any) -> User:
    """Create a user who may sign in."""
    user = User(username=name, display_name=name.title(), **fields)
    user.set_password("correct horse")
    user.save()
    return user


@pytest.fixture
def ada(transactional_db: None) -> User:
    return person("ada", is_owner=True, is_staff=True)


@pytest.fixture
def bob(transactional_db: None) -> User:
    return person("bob")


@pytest.fixture(autouse=True)
def clean_counters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reset the counters of other tests; end the database threads after the test."""
    for name in ("addresses", "people", "failures"):
        monkeypatch.setattr(throttling, name, throttling.Rate())
    monkeypatch.setattr(throttling, "sockets", throttling.Streams())
    yield
    transactions.close_pool()


@pytest.fixture(autouse=True)
def allowed_host(settings: Any) -> None:
    """Make HOST an allowed host."""
    settings.ALLOWED_HOSTS = [HOST, "testserver"]


def sign_in(user: User) -> str:
    """Return the session key of a browser in which ``user`` is signed in."""
    store = SessionStore()
    store[SESSION_KEY] = str(user.pk)
    store[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.save()
    return str(store.session_key)


def headers(
    *, cookie: str = "", origin: str | None = f"http://{HOST}", language: str = ""
) -> list[tuple[bytes, bytes]]:
    """Return a browser's headers of the handshake."""
    found = [(b"host", HOST.encode())]
    if origin is not None:
        found.append((b"origin", origin.encode()))
    if cookie:
        found.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={cookie}".encode()))
    if language:
        found.append((b"accept-language", language.encode()))
    return found


class Socket:
    """The client's end of ``/ws``."""

    def __init__(self, wire: WebsocketCommunicator) -> None:
        self.wire = wire

    async def say(self, **frame: Any) -> None:
        await self.wire.send_to(text_data=orjson.dumps(frame).decode())

    async def hear(self) -> Frame:
        """Return the next frame."""
        found: Frame = orjson.loads(await self.wire.receive_from(SECONDS))
        return found

    async def until(self, wanted: Callable[[Frame], bool]) -> list[Frame]:
        """Return the frames up to the first wanted one."""
        found = [await self.hear()]
        while not wanted(found[-1]):
            found.append(await self.hear())
        return found

    async def ask(self, text: str, **fields: Any) -> Frame:
        """Send a message; return the ``accepted`` frame that answers it."""
        await self.say(type="message", text=text, **{"client_id": "c1", **fields})
        return (await self.until(lambda frame: frame["type"] in {"accepted", "error"}))[-1]

    async def closed(self) -> int:
        """Return the code with which the server closes; frames before that are dropped."""
        while True:
            message = await self.wire.receive_output(SECONDS)
            if message["type"] == "websocket.close":
                return int(message["code"])

    async def is_silent(self) -> bool:
        """Return whether no frame comes: a ping is answered first by its pong."""
        await self.say(type="ping")
        return bool((await self.hear())["type"] == "pong")


@asynccontextmanager
async def opened(*, path: str = "/ws", **kind: Any) -> AsyncIterator[Socket]:
    """Return an accepted socket."""
    wire = WebsocketCommunicator(websocket_application, path, headers=headers(**kind))
    accepted, _ = await wire.connect(timeout=SECONDS)
    assert accepted
    try:
        yield Socket(wire)
    finally:
        with contextlib.suppress(asyncio.CancelledError):
            await wire.disconnect(timeout=SECONDS)


async def refused(*, path: str = "/ws", **kind: Any) -> int:
    """Return the code with which a handshake is refused."""
    wire = WebsocketCommunicator(websocket_application, path, headers=headers(**kind))
    accepted, code = await wire.connect(timeout=SECONDS)
    assert not accepted
    return int(code)


@asynccontextmanager
async def at_the_page(user: User) -> AsyncIterator[Socket]:
    """Return the socket of a browser in which ``user`` is signed in, once pub/sub feeds it."""
    cookie = await transactions.in_thread(sign_in, user)
    hub, key = pubsub.local(), f"user:{user.pk}"
    earlier = listeners(hub, key)
    async with opened(cookie=cookie) as socket:
        await eventually(partial(is_fed, hub, key, earlier))
        yield socket


def listeners(hub: pubsub.Hub, key: str) -> set[pubsub.Listener]:
    return set(hub._listeners.get(key, ()))


def is_fed(hub: pubsub.Hub, key: str, earlier: set[pubsub.Listener]) -> bool:
    """Return whether a listener to this key that is none of the earlier ones misses nothing. A
    later socket of a test finds the subscription connected, and its channel not yet."""
    return any(not each.unconfirmed for each in listeners(hub, key) - earlier)


@pytest.fixture(autouse=True)
async def no_task_is_left() -> AsyncIterator[None]:
    """End the hub of this test's loop after the test; a client that just connects may swallow one
    cancellation.
    """
    yield
    await end_tasks()


def said(user: User, words: str, *, session_id: str = "", channel: str = "web") -> Run:
    """Store a message of ``user`` in the inbox."""
    receipt = receive_personal(
        user=user,
        draft=Draft(account=builtin_account(channel), text=words),
        session_id=session_id,
        now=timezone.now(),
    )
    assert receipt.run is not None
    return receipt.run


def event(name: str, **data: Any) -> MessageDict:
    """Return a lifecycle event."""
    return {"type": "event", "props": {"event": name, "data": data}}


def text(content: str, message_id: str = "text-1") -> MessageDict:
    """Return a piece of an answer."""
    return {
        "type": "text",
        "message_id": message_id,
        "delta": True,
        "delta_action": "append",
        "delta_path": "content",
        "props": {"content": content},
    }


class Pen:
    """Writes the log of one run as the worker that claimed it."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.log = events.log_of(run=run, seq=0)

    def write(self, *found: MessageDict, publish: bool = True) -> None:
        """Commit events, and publish them unless publishing fails in this test."""
        self._store(found, None, publish=publish)

    def _store(
        self, found: Sequence[MessageDict], finish: events.Finish | None, *, publish: bool
    ) -> None:
        rows = list(enumerate(found, self.log.seq + 1))
        events.write_batch([(self.log, rows, finish)])
        self.log.seq = self.log.stored = self.log.seq + len(rows)
        if publish:
            events.publish(self.log, list(found))
        self.log.published = self.log.seq

    def end(self, *, publish: bool = True, **outcome: Any) -> None:
        """Write the last event and the result of the run."""
        given = runs.Outcome(**{"state": Run.State.SUCCEEDED, **outcome})

        def finish(last_seq: int) -> None:
            runs.settle(run=self.run, outcome=given, last_seq=last_seq)

        self._store([event("stream_end", status="completed")], finish, publish=publish)


def take(run_id: str) -> Pen:
    """Claim the run with this public id."""
    row = Run.objects.get(public_id=run_id)
    claimed = runs.claim(run_ids=[row.id], worker="test").get(row.id)
    assert claimed is not None
    return Pen(claimed)


def is_final(frame: Frame) -> bool:
    return bool(frame["type"] == "final")


async def asked(socket: Socket, said: str = "Hello", **fields: Any) -> tuple[Frame, Pen]:
    """Return a message that was accepted, and the pen of its run."""
    accepted = await socket.ask(said, **fields)
    assert accepted["type"] == "accepted", accepted
    return accepted, await transactions.in_thread(take, accepted["run_id"])


async def key_of(**whose: Any) -> tuple[ApiKey, str]:
    """Return a new key with the scope ``chat``."""
    return await transactions.in_thread(lambda: keys.create(name="test", scopes=["chat"], **whose))


async def eventually(ready: Callable[[], Any]) -> Any:
    """Return the result of ``ready()``, called in a database thread, once it is truthy."""
    for _ in range(1000):
        if found := await transactions.in_thread(ready):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")

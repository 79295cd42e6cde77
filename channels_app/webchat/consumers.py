"""``WS /ws`` [D3]: one socket of one person. Verify, parse, one call, answer.

    connect ─ origin, cookie ─► open ◄─ frames of the client (parse ─► one call ─► answer)
       └ no cookie ─ auth frame ─┘ ◄─ frames of the hub (events of the person's runs, revocations)

One lock keeps the two sides from overtaking each other: a run's first event never comes before the
``accepted`` that names it, and what a resume reads is never mixed with what is live. There is no
channel layer per socket, and ``dispatch`` does not go through a database thread (Channels does so
for every frame, and sockets would wait behind any query).
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Mapping, MutableMapping
from typing import Any, assert_never

import orjson
from channels.consumer import get_handler_name
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError

from channels_app.asgi import http, throttling
from channels_app.asgi.acceptance import acceptance
from channels_app.asgi.http import RefusedError
from channels_app.webchat import access, adapter, calls, following, frames, ticking, transcript
from channels_app.webchat.access import Speaker
from channels_app.webchat.following import Following, Numbered
from core.conversations import events
from core.database.transactions import in_thread
from core.signals import pubsub

logger = logging.getLogger(__name__)

SIGNED_OUT, FOREIGN, TOO_LATE, TOO_LARGE, TOO_MANY = 4401, 4403, 4408, 4413, 4429
# Daphne lets an application close with 1000 or 3000–4999 only, so not with 1011.
STALLED, BROKEN = 4408, 4500
# What the servers raise when the client has gone: uvicorn an OSError, Daphne's autobahn the other.
GONE = (OSError, RuntimeError)

Data = Mapping[str, Any]


class CloseError(Exception):
    """The socket must be closed with ``code``."""

    def __init__(self, code: int) -> None:
        """``code`` is one of the contract's, or 4500."""
        super().__init__(f"close {code}")
        self.code = code


class Waiting:
    """The sockets of this process that have shown no key yet, the oldest first.

    One too many displaces the oldest of its own address, or of all: who has a key shows it at once
    and is never kept out by those who only wait.
    """

    def __init__(self) -> None:
        """None waits."""
        self._sockets: dict[WebChatConsumer, str] = {}

    def enter(self, socket: "WebChatConsumer", address: str) -> "WebChatConsumer | None":
        """Add a socket; the one that has to go for it, if any."""
        alike = [each for each, where in self._sockets.items() if where == address]
        displaced = None
        if len(alike) >= settings.MAX_WAITING_SOCKETS_PER_ADDRESS:
            displaced = alike[0]
        elif len(self._sockets) >= settings.MAX_WAITING_SOCKETS:
            displaced = next(iter(self._sockets))
        if displaced is not None:
            self.leave(displaced)
        self._sockets[socket] = address
        return displaced

    def leave(self, socket: "WebChatConsumer") -> None:
        """A socket waits no more."""
        self._sockets.pop(socket, None)


waiting = Waiting()


class WebChatConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """One socket."""

    # A name that no setting has: no channel layer, no subscription per socket.
    channel_layer_alias = "none"

    def __init__(self) -> None:
        """Nobody yet."""
        super().__init__()
        self.speaker: Speaker | None = None
        self.following = Following()
        self.own_sessions: dict[str, bool] = {}
        self.frames = throttling.Rate()
        self.turn = asyncio.Lock()
        self.asked: deque[tuple[frames.Frame, str, str]] = deque()
        self.worker: asyncio.Task[None] | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.deadline: asyncio.Task[None] | None = None
        self.counted = False
        self.closing = False

    async def dispatch(self, message: MutableMapping[str, Any]) -> None:
        """Call the handler of a message; what it refuses closes the socket."""
        try:
            await getattr(self, get_handler_name(message))(message)
        except CloseError as error:
            await self.end(error.code)
        except DatabaseError:
            logger.exception("the database failed under a socket")
            await self.end(BROKEN)

    async def connect(self) -> None:
        """Accept a socket of ours: signed in by its cookie, or with some seconds to show a key."""
        headers = access.headers_of(self.scope)
        origin, host = headers.get("origin"), headers.get("host", "")
        if access.has_secret_in_address(self.scope):
            raise CloseError(SIGNED_OUT)
        if origin is not None and not access.is_ours(origin=origin, host=host):
            raise CloseError(FOREIGN)
        cookie = access.cookie_of(headers)
        if not cookie:
            await self.wait_for_key()
            return
        if origin is None:
            raise CloseError(FOREIGN)
        speaker = await in_thread(self.who, cookie)
        if speaker is None:
            raise CloseError(SIGNED_OUT)
        self.admit(speaker)
        await self.accept()
        self.spawn(self.listen(speaker))

    def who(self, cookie: str) -> Speaker | None:
        """Who may open this socket with ``cookie``. In a database thread."""
        return access.by_session(cookie)

    def counter(self) -> throttling.Streams:
        """Where sockets of this kind are counted."""
        return throttling.sockets

    async def wait_for_key(self) -> None:
        """Accept, and close unless a key comes in time."""
        if not settings.MAX_WAITING_SOCKETS:
            raise CloseError(TOO_MANY)
        await self.accept()
        self.deadline = self.spawn(self.hurry())

    async def hurry(self) -> None:
        """Close a socket that shows no key within SOCKET_AUTH_SECONDS."""
        address = throttling.network_of((self.scope.get("client") or ("", 0))[0])
        displaced = waiting.enter(self, address)
        try:
            if displaced is not None:
                await displaced.end(TOO_MANY)
            await asyncio.sleep(settings.SOCKET_AUTH_SECONDS)
        finally:
            waiting.leave(self)
        await self.end(TOO_LATE)

    def admit(self, speaker: Speaker) -> None:
        """Count the socket of ``speaker``. Raises CloseError 4429 when they have too many."""
        try:
            self.counter().enter(user_id=speaker.number, limit=settings.MAX_SOCKETS_PER_USER)
        except RefusedError as error:
            raise CloseError(TOO_MANY) from error
        self.counted = True
        self.speaker = speaker

    async def disconnect(self, code: int) -> None:
        """Stop everything of this socket."""
        for task in self.tasks:
            task.cancel()
        if self.counted and self.speaker is not None:
            self.counter().leave(user_id=self.speaker.number)
            self.counted = False

    async def websocket_disconnect(self, message: Mapping[str, Any]) -> None:
        """As Channels does it, without a visit to the database thread."""
        await self.disconnect(message["code"])
        raise StopConsumer

    async def end(self, code: int) -> None:
        """Close the socket, once."""
        if not self.closing:
            self.closing = True
            with contextlib.suppress(*GONE):
                await self.close(code)

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Run ``work`` beside the socket, as long as that lives."""
        task = asyncio.ensure_future(self.guard(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def guard(self, work: Any) -> None:
        """Run ``work``; a failure closes the socket, and the client comes back and resumes."""
        try:
            await work
        except CloseError as error:
            await self.end(error.code)
        except Exception:
            logger.exception("a task of a socket failed")
            await self.end(BROKEN)

    async def tell(self, data: Data) -> None:
        """Send one frame. Raises CloseError when the client has gone, or has not read for long."""
        if self.closing:
            return
        try:
            async with asyncio.timeout(settings.STREAM_STALL_SECONDS):
                await self.send(text_data=orjson.dumps(data).decode())
        except TimeoutError as error:
            raise CloseError(STALLED) from error
        except GONE as error:
            raise CloseError(BROKEN) from error

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """One frame of the client."""
        if self.closing:
            return
        try:
            self.frames.check(subject="socket", limit=settings.FRAMES_PER_MINUTE)
        except RefusedError as error:
            raise CloseError(TOO_MANY) from error
        if len(text_data or bytes_data or "") > settings.MAX_FRAME_BYTES:
            raise CloseError(TOO_LARGE)
        client_id = run_id = ""
        try:
            if text_data is None:
                raise RefusedError(400, "Frames are JSON text.", field="frame")
            value = frames.parse(text_data)
            client_id, run_id = frames.client_id_of(value), frames.run_id_of(value)
            frame = frames.read(value)
            if isinstance(frame, frames.Ping) and self.speaker is not None and self.is_busy:
                await self.handle(frame)
                return
            self.take(frame, client_id, run_id)
        except RefusedError as error:
            await self.tell(adapter.error_frame(error, client_id=client_id, run_id=run_id))

    @property
    def is_busy(self) -> bool:
        """Whether as many frames wait as may."""
        return len(self.asked) >= settings.MAX_UNANSWERED_PER_SOCKET

    def take(self, frame: frames.Frame, client_id: str, run_id: str) -> None:
        """Put a frame behind those before it. The socket is read on meanwhile: pongs and pings of a
        client whose messages wait must be heard. Raises RefusedError 429 when too many wait."""
        if self.is_busy:
            raise RefusedError(429, "Busy: too many messages wait. Try again in a moment.")
        self.asked.append((frame, client_id, run_id))
        if self.worker is None or self.worker.done():
            self.worker = self.spawn(self.work())

    async def work(self) -> None:
        """Do what the frames ask, one after the other."""
        while self.asked and not self.closing:
            frame, client_id, run_id = self.asked.popleft()
            try:
                await self.handle(frame)
            except RefusedError as error:
                await self.tell(adapter.error_frame(error, client_id=client_id, run_id=run_id))

    async def handle(self, frame: frames.Frame) -> None:
        """Do what a frame asks. Raises RefusedError or CloseError."""
        if self.speaker is None:
            await self.introduce(frame)
            return
        if isinstance(frame, frames.Say):
            await acceptance.check()
        match frame:
            case frames.Ping():
                await self.tell({"type": "pong"})
            case frames.Say(plain=True):
                await self.say_plainly(frame, self.speaker)
            case frames.Say():
                await self.say(frame, self.speaker)
            case frames.Resume():
                await self.resume(frame, self.person())
            case frames.Stop():
                await in_thread(calls.stop, user_id=self.person(), run_id=frame.run_id)
            case frames.Decide():
                await self.tell(await in_thread(calls.decide, frame, speaker=self.speaker))
            case frames.Auth():
                raise RefusedError(400, "The socket has its identity already.", field="type")
            case _:
                assert_never(frame)

    def person(self) -> int:
        """The id of the person of this socket. Raises RefusedError for a bridge."""
        if self.speaker is None or self.speaker.user is None:
            raise RefusedError(403, "A bridge sends {user_id, text} frames only.", field="type")
        return self.speaker.user.id

    async def introduce(self, frame: frames.Frame) -> None:
        """The first frame of a socket without a cookie: a key, or the end."""
        if not isinstance(frame, frames.Auth):
            raise CloseError(SIGNED_OUT)
        address = http.plain_address((self.scope.get("client") or ("", 0))[0])
        try:
            speaker = await in_thread(access.by_key, token=frame.key, address=address)
        except RefusedError as error:
            await self.tell(adapter.error_frame(error))
            raise CloseError(TOO_MANY if error.status == 429 else SIGNED_OUT) from error
        self.admit(speaker)
        if self.deadline is not None:
            self.deadline.cancel()
        await self.tell({"type": "authenticated"})
        self.spawn(self.listen(speaker))

    async def say(self, frame: frames.Say, speaker: Speaker) -> None:
        """A message: stored, then accepted; its events follow as they come."""
        throttling.people.here(subject=speaker.subject, limit=settings.RATE_PER_MINUTE_USER)
        self.person()
        async with self.turn:
            run, session = await in_thread(calls.accept, frame, speaker=speaker)
            self.following.start(run.public_id)
            self.own_sessions[session] = True
            accepted = {"type": "accepted", "client_id": frame.client_id}
            await self.tell({**accepted, "run_id": run.public_id, "session_id": session})

    async def say_plainly(self, frame: frames.Say, speaker: Speaker) -> None:
        """The plain form: one frame in, one frame out."""
        # Beside the answers: what listens, and what does this.
        if len(self.tasks) - 1 > settings.MAX_UNANSWERED_PER_SOCKET:
            raise RefusedError(429, "Too many unanswered messages.")
        if speaker.user is not None:
            throttling.people.here(subject=speaker.subject, limit=settings.RATE_PER_MINUTE_USER)
        try:
            run, session = await in_thread(calls.accept, frame, speaker=speaker)
        except RefusedError as error:
            await self.tell(adapter.refused_plainly(error, client_id=frame.client_id))
            return
        self.spawn(self.answer_plainly(run.id, run.public_id, session, frame.client_id))

    async def answer_plainly(self, run_id: int, name: str, session: str, client_id: str) -> None:
        """Wait for a run and send its answer as ``{"text", "format", "error"?}``."""
        async for _ in events.follow(run_id=run_id, public_id=name, seq=0):
            pass
        result = await in_thread(calls.result, run_id)
        plain = adapter.plain_answer(result, run_id=name, session_id=session, client_id=client_id)
        await self.tell(plain)

    async def resume(self, frame: frames.Resume, user_id: int) -> None:
        """Send what the client has not got of a run, and go on from there."""
        async with self.turn:
            session = await in_thread(calls.session_of, user_id=user_id, run_id=frame.run_id)
            self.following.restart(frame.run_id, after=frame.after)
            await self.catch_up(frame.run_id, session)

    async def catch_up(self, run_id: str, session: str) -> None:
        """Send the events of a followed run that only the log has."""
        while run_id in self.following.sent:
            after = self.following.sent[run_id]
            found = await in_thread(
                following.read, user_id=self.person(), run_id=run_id, after=after
            )
            if not found:
                await self.close_ended(run_id, after)
                return
            await self.pass_on(run_id, session, found)

    async def close_ended(self, run_id: str, seq: int) -> None:
        """A client may have every event of an ended run but the final frame."""
        final = await in_thread(transcript.final, user_id=self.person(), run_id=run_id, seq=seq)
        if final is not None and run_id in self.following.sent:
            self.following.end(run_id)
            await self.tell(final)

    async def pass_on(self, run_id: str, session: str, numbered: list[Numbered]) -> None:
        """Send events of a followed run, and the final frame after the last of them."""
        for pair in numbered:
            for frame in adapter.frames_of(pair[1], run_id=run_id, session_id=session, seq=pair[0]):
                await self.tell(frame)
            if self.following.mark(run_id, pair):
                await self.finish(run_id, pair[0])
                return

    async def finish(self, run_id: str, seq: int) -> None:
        """Send the final frame of a run."""
        final = await in_thread(transcript.final, user_id=self.person(), run_id=run_id, seq=seq)
        if final is not None:
            await self.tell(final)

    async def listen(self, speaker: Speaker) -> None:
        """Pass on what the hub brings for this person, for as long as the socket lives."""
        for notice in await in_thread(calls.pending_notices, speaker):
            await self.show_notice(speaker, notice)
        with (
            pubsub.local().listen(speaker.keys) as listener,
            ticking.local().watch(listener, speaker, self.following),
        ):
            while not self.closing:
                got = await listener.wait()
                lagged = listener.take_lag()
                if lagged or any(frame["kind"] == "revoked" for frame in got):
                    await self.check_credential(speaker)
                if speaker.user is not None:
                    async with self.turn:
                        await self.relay(speaker, got, stale=lagged or not got)

    async def check_credential(self, speaker: Speaker) -> None:
        """Raises CloseError 4401 when the credential was revoked ([A9])."""
        if not await in_thread(access.is_still, speaker):
            raise CloseError(SIGNED_OUT)

    async def show_notice(self, speaker: Speaker, notice: dict[str, Any]) -> None:
        """Send a card; of an open request it is noted that an owner saw it ([A5])."""
        await self.tell({"type": "notice", **notice})
        if not notice.get("decided"):
            await in_thread(calls.note_shown, speaker, [str(notice["request"])])

    async def relay(self, speaker: Speaker, got: list[pubsub.Frame], *, stale: bool) -> None:
        """Send what is new in hub frames; when some may be missing, what the log has."""
        for frame in got:
            if frame["kind"] == "events":
                await self.relay_events(frame)
            elif frame["kind"] == "notice":
                await self.show_notice(speaker, frame["notice"])
        if stale:
            for run_id in list(self.following.sent):
                await self.look_after(run_id)

    async def look_after(self, run_id: str) -> None:
        """Send what the log has of a followed run; forget a run whose chat was deleted."""
        try:
            session = await in_thread(calls.session_of, user_id=self.person(), run_id=run_id)
        except RefusedError:
            self.following.sent.pop(run_id, None)
            return
        await self.catch_up(run_id, session)

    async def relay_events(self, frame: pubsub.Frame) -> None:
        """Send the events of one hub frame."""
        run_id, session = frame["run"], frame["session"]
        if self.following.is_over(run_id):
            return
        if frame["first"] == 1 and await self.is_chat(session):
            self.following.start(run_id)
        news = self.following.news(frame)
        if news is None:
            if events.ends(frame["events"][-1]) and await self.is_chat(session):
                self.following.end(run_id)
                await self.finish(run_id, frame["first"] + len(frame["events"]) - 1)
        elif news.gap:
            await self.catch_up(run_id, session)
        else:
            await self.pass_on(run_id, session, news.events)

    async def is_chat(self, session: str) -> bool:
        """Whether a session is one of the web chat: the page shows no other."""
        if session not in self.own_sessions:
            found = await in_thread(calls.is_chat, user_id=self.person(), session_id=session)
            self.own_sessions[session] = found
        return self.own_sessions[session]

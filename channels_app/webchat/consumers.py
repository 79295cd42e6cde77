"""``WS /ws`` [D3]: one socket of one user. Verify, parse, one call, answer.

    connect ─ origin, cookie ─► open ◄─ frames of the client (parse ─► one call ─► answer)
       └ no cookie ─ auth frame ─┘ ◄─ pubsub frames (events of the user's runs, revocations)

One lock keeps the two sides from overtaking each other: a run's first event never comes before the
``accepted`` that names it, and what a resume reads is never mixed with what is live.
``dispatch`` does not go through a database thread (Channels does so for every frame, and sockets
would wait behind any query).
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Mapping, MutableMapping
from functools import partial
from typing import Any, assert_never

import orjson
from channels.consumer import get_handler_name
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.db import DatabaseError
from django.utils.translation import gettext_lazy

from channels_app.asgi import http, throttling
from channels_app.asgi.acceptance import acceptance
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.push import presence
from channels_app.webchat import (
    access,
    adapter,
    following,
    frames,
    operations,
    periodic_checks,
    transcript,
)
from channels_app.webchat.following import Following
from core.conversations import events
from core.conversations.events import Numbered
from core.database.batching import in_shared_call
from core.database.transactions import in_thread
from core.lib import log_ids
from core.lib.interface_language import of_header, of_tag, spoken, spoken_by
from core.signals import live_events, pubsub

logger = logging.getLogger(__name__)

SIGNED_OUT, FOREIGN, TOO_LATE, TOO_LARGE, TOO_MANY = 4401, 4403, 4408, 4413, 4429
MAX_KEY_FRAME = 1024  # characters of a frame with a key
OTHER_PERSON = 4409  # the page was opened before another person signed in
# Daphne lets an application close with 1000 or 3000–4999 only, so not with 1011.
STALLED, BROKEN = 4408, 4500
# A visible page says so every 5 seconds (`visibility.js`); one that has lost its network does not.
VISIBLE_SECONDS = 12.0
# Raised after a disconnect: by uvicorn an OSError, by Daphne's autobahn the other.
GONE = (OSError, RuntimeError)
GONE_CODE = 1006

Data = Mapping[str, Any]
TOO_MANY_QUEUED = gettext_lazy("Busy: too many messages are queued. Try again in a moment.")


def language_of(principal: Principal, headers: Mapping[str, str]) -> str:
    """Return the language of a person at a page: their own choice, else the browser's."""
    own = principal.user.language if principal.user is not None else ""
    return of_tag(own) or of_header(headers.get("accept-language", ""))


def asked_by(notice: Data) -> str:
    """Return the id of the request or the call that a card asks about; empty for a plain notice."""
    return str(notice.get("tool_call") or notice.get("request") or "")


class CloseError(Exception):
    """Close the socket with ``code``."""

    def __init__(self, code: int) -> None:
        """Take one of the contract's codes, or 4500."""
        super().__init__(f"close {code}")
        self.code = code


class Waiting:
    """The sockets of this process that have sent no key yet, the oldest first.

    Above the limit the oldest of the same address, or of all, is closed: clients with a key
    authenticate immediately and are never blocked by idle sockets.
    """

    def __init__(self) -> None:
        self._sockets: dict[WebChatConsumer, str] = {}

    def enter(self, socket: "WebChatConsumer", address: str) -> "WebChatConsumer | None":
        """Add a socket; return the one to close for it, if any."""
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
        """Remove a socket."""
        self._sockets.pop(socket, None)


waiting = Waiting()


class WebChatConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """One socket."""

    def __init__(self) -> None:
        """Start unauthenticated."""
        super().__init__()
        self.principal: Principal | None = None
        self.following = Following()
        self.listener: pubsub.Listener | None = None
        self.own_sessions: dict[str, bool] = {}
        self.frames = throttling.Rate()
        self.turn = asyncio.Lock()
        self.asked: deque[tuple[frames.Frame, str, str, float]] = deque()
        self.worker: asyncio.Task[None] | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        self.deadline: asyncio.Task[None] | None = None
        self.counted = False
        self.closing = False
        self.language = ""  # of the person's browser; English for programs
        self.visible = False
        self.unseen: asyncio.TimerHandle | None = None
        self.shown: dict[str, Data] = {}  # the last frame of each card, by what it asks
        self.claimed: set[str] = set()  # the cards that the page had before, by what they ask

    async def __call__(self, scope: http.Scope, receive: http.Receive, send: http.Send) -> None:
        """Serve the socket to its end. A client that is gone before it is accepted ends it by an
        error, and Channels tells nothing of a disconnect then.
        """
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.disconnect(GONE_CODE)

    async def dispatch(self, message: MutableMapping[str, Any]) -> None:
        """Call the handler of a message; a CloseError closes the socket."""
        try:
            await getattr(self, get_handler_name(message))(message)
        except CloseError as error:
            await self.end(error.code)
        except DatabaseError:
            logger.exception("the database failed under a socket")
            await self.end(BROKEN)

    async def connect(self) -> None:
        """Accept a socket of an allowed origin: with a cookie, or with a time limit for a key."""
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
        principal = await in_thread(self.user_of_cookie, cookie)
        if principal is None:
            raise CloseError(SIGNED_OUT)
        if principal.user is not None and access.is_page_of_another(self.scope, principal.user.pk):
            await self.accept()  # a browser hides the code of a handshake that is refused
            raise CloseError(OTHER_PERSON)
        self.admit(principal)
        self.language = language_of(principal, headers)
        await self.accept()
        self.spawn(self.listen(principal))

    def user_of_cookie(self, cookie: str) -> Principal | None:
        """Return the user of ``cookie``. In a database thread."""
        return access.by_session(cookie)

    def counter(self) -> throttling.Streams:
        """Return the counter of open sockets."""
        return throttling.sockets

    async def wait_for_key(self) -> None:
        """Accept, and close unless a key arrives in time."""
        if not settings.MAX_WAITING_SOCKETS:
            raise CloseError(TOO_MANY)
        await self.accept()
        self.deadline = self.spawn(self.hurry())

    async def hurry(self) -> None:
        """Close a socket without a key after SOCKET_AUTH_SECONDS."""
        address = throttling.network_of((self.scope.get("client") or ("", 0))[0])
        displaced = waiting.enter(self, address)
        try:
            if displaced is not None:
                await displaced.end(TOO_MANY)
            await asyncio.sleep(settings.SOCKET_AUTH_SECONDS)
        finally:
            waiting.leave(self)
        await self.end(TOO_LATE)

    def admit(self, principal: Principal) -> None:
        """Count the socket of ``principal``. Raises CloseError 4429 above the limit."""
        try:
            self.counter().enter(user_id=principal.subject, limit=settings.MAX_SOCKETS_PER_USER)
        except RefusedError as error:
            raise CloseError(TOO_MANY) from error
        self.counted = True
        self.principal = principal

    async def disconnect(self, code: int) -> None:
        """Stop this socket's tasks. Safe to call again: they are cancelled once."""
        for task in self.tasks:
            task.cancel()
        self.tasks.clear()
        if self.unseen is not None:
            self.unseen.cancel()
        if self.counted and self.principal is not None:
            self.counter().leave(user_id=self.principal.subject)
            self.counted = False

    async def websocket_disconnect(self, message: Mapping[str, Any]) -> None:
        """Do as Channels does, without a database thread."""
        await self.disconnect(message["code"])
        raise StopConsumer

    async def end(self, code: int) -> None:
        """Close the socket, once."""
        if not self.closing:
            self.closing = True
            with contextlib.suppress(*GONE):
                await self.close(code)

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Run ``work`` as a task for the lifetime of the socket."""
        task = asyncio.ensure_future(self.guard(work))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    async def guard(self, work: Any) -> None:
        """Run ``work``; a failure closes the socket, and the client reconnects and resumes."""
        log_ids.begin()  # those of the work itself
        try:
            await work
        except CloseError as error:
            await self.end(error.code)
        except Exception:
            logger.exception("a task of a socket failed")
            await self.end(BROKEN)

    async def tell(self, data: Data) -> None:
        """Send one frame. Raises CloseError for a client that has disconnected or does not read."""
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
        """Handle one frame of the client."""
        if self.closing:
            return
        try:
            self.frames.check(subject="socket", limit=settings.FRAMES_PER_MINUTE)
        except RefusedError as error:
            raise CloseError(TOO_MANY) from error
        if len(text_data or bytes_data or "") > self.largest_frame:
            raise CloseError(TOO_LARGE)
        client_id = run_id = ""
        try:
            if text_data is None:
                raise RefusedError(400, "Frames are JSON text.", field="frame")
            value = frames.parse(text_data)
            client_id, run_id = frames.client_id_of(value), frames.run_id_of(value)
            frame = frames.read(value)
            is_sign_of_life = isinstance(frame, frames.Ping | frames.Visible)
            if is_sign_of_life and self.principal is not None and self.is_busy:
                await self.handle(frame)
                return
            self.take(frame, client_id, run_id)
        except RefusedError as error:
            await self.refuse(error, client_id=client_id, run_id=run_id)

    @property
    def largest_frame(self) -> int:
        """Return how long a frame may be: short before one has shown a key."""
        has_credential = self.principal is not None or self.worker is not None
        return settings.MAX_FRAME_BYTES if has_credential else MAX_KEY_FRAME

    @property
    def is_busy(self) -> bool:
        """Return whether the queue of frames is full."""
        return len(self.asked) >= settings.MAX_UNANSWERED_PER_SOCKET

    def take(self, frame: frames.Frame, client_id: str, run_id: str) -> None:
        """Queue a frame. The socket is read on meanwhile: pings and pongs must be answered while
        messages wait. Raises RefusedError 429 when the queue is full, 503 while the gateway is
        busy.
        """
        if self.is_busy:
            raise RefusedError(429, TOO_MANY_QUEUED)
        if isinstance(frame, frames.Say) and not frame.plain and self.principal is not None:
            waited = time.monotonic() - self.asked[0][-1] if self.asked else 0.0
            operations.admit(frame, self.principal, ahead=len(self.asked), waited=waited)
        self.asked.append((frame, client_id, run_id, time.monotonic()))
        if self.worker is None or self.worker.done():
            self.worker = self.spawn(self.work())

    async def work(self) -> None:
        """Handle the queued frames one by one."""
        while self.asked and not self.closing:
            frame, client_id, run_id, _ = self.asked.popleft()
            try:
                await self.handle(frame)
            except RefusedError as error:
                await self.refuse(error, client_id=client_id, run_id=run_id)

    async def handle(self, frame: frames.Frame) -> None:
        """Handle one frame. Raises RefusedError or CloseError."""
        if self.principal is None:
            await self.introduce(frame)
            return
        if isinstance(frame, frames.Say):
            await acceptance.check()
        match frame:
            case frames.Ping():
                await self.tell({"type": "pong"})
            case frames.Say():
                say = self.say_plainly if frame.plain else self.say
                await say(frame, self.principal)
            case frames.Resume():
                await self.resume(frame, self.person())
            case frames.Stop():
                await in_thread(operations.stop, user_id=self.person(), run_id=frame.run_id)
            case frames.Decide() | frames.DecideCall():
                await self.decide(frame, self.principal)
            case frames.Visible() | frames.Shown():
                await self.note_page(frame, self.principal)
            case frames.Auth():
                raise RefusedError(400, "The socket is already authenticated.", field="type")
            case _:
                assert_never(frame)

    async def note_page(self, frame: frames.Visible | frames.Shown, principal: Principal) -> None:
        """Note what a page says of itself: whether it can be seen, which cards it has."""
        if isinstance(frame, frames.Visible):
            self.note_visible(visible=frame.visible)
        else:
            self.claimed = set(frame.cards)
            await self.settle_cards(principal)

    async def decide(self, frame: frames.Decide | frames.DecideCall, principal: Principal) -> None:
        """Carry out a decision; show its outcome in its card. Raises RefusedError."""
        card = await in_thread(
            spoken_by, self.language, operations.decide, frame, principal=principal
        )
        await self.tell(card)

    async def refuse(self, error: RefusedError, *, client_id: str, run_id: str) -> None:
        """Send the error frame for a client's frame, in the person's language."""
        with spoken(self.language):
            refused = adapter.error_frame(error, client_id=client_id, run_id=run_id)
        await self.tell(refused)

    def note_visible(self, *, visible: bool) -> None:
        """Note whether the page is visible: for VISIBLE_SECONDS, its person gets no Web Push."""
        self.visible = visible
        if self.unseen is not None:
            self.unseen.cancel()
            self.unseen = None
        if visible:
            no_more = partial(self.note_visible, visible=False)
            self.unseen = asyncio.get_running_loop().call_later(VISIBLE_SECONDS, no_more)
        if self.listener is None or self.principal is None or self.principal.user is None:
            return
        key = presence.key_of(self.principal.user.id)
        if visible:
            pubsub.local().add(self.listener, [key])
        else:
            pubsub.local().remove(self.listener, [key])

    def person(self) -> int:
        """Return the id of the user of this socket. Raises RefusedError for a bridge."""
        if self.principal is None or self.principal.user is None:
            raise RefusedError(403, "A bridge sends {user_id, text} frames only.", field="type")
        return self.principal.user.id

    async def introduce(self, frame: frames.Frame) -> None:
        """Handle the first frame of a socket without a cookie: authenticate by key, or close."""
        if not isinstance(frame, frames.Auth):
            raise CloseError(SIGNED_OUT)
        waiting.leave(self)  # it waits for us now: not to be closed for another socket
        address = http.plain_address((self.scope.get("client") or ("", 0))[0])
        try:
            principal = await in_shared_call(access.by_keys, (frame.key, address))
        except RefusedError as error:
            await self.tell(adapter.error_frame(error))
            raise CloseError(TOO_MANY if error.status == 429 else SIGNED_OUT) from error
        self.admit(principal)
        if self.deadline is not None:
            self.deadline.cancel()
        await self.tell({"type": "authenticated"})
        self.spawn(self.listen(principal))

    async def say(self, frame: frames.Say, principal: Principal) -> None:
        """Store and acknowledge a message; its events follow live."""
        throttling.people.here(subject=principal.subject, limit=settings.RATE_PER_MINUTE_USER)
        self.person()
        async with self.turn:
            run, session = await in_thread(operations.accept, frame, principal=principal)
            self.following.start(run.public_id)
            self.own_sessions[session] = True
            accepted = {"type": "accepted", "client_id": frame.client_id}
            await self.tell({**accepted, "run_id": run.public_id, "session_id": session})
            await self.attend(run.public_id, session)

    async def say_plainly(self, frame: frames.Say, principal: Principal) -> None:
        """Handle the plain form: one frame in, one frame out."""
        # Besides the answers: the listener, and this task.
        if len(self.tasks) - 1 > settings.MAX_UNANSWERED_PER_SOCKET:
            raise RefusedError(429, "Too many unanswered messages.")
        if principal.user is not None:
            throttling.people.here(subject=principal.subject, limit=settings.RATE_PER_MINUTE_USER)
        try:
            operations.admit(frame, principal)
            run, session = await in_thread(operations.accept, frame, principal=principal)
        except RefusedError as error:
            await self.tell(adapter.refused_plainly(error, client_id=frame.client_id))
            return
        self.spawn(self.answer_plainly(run.id, run.public_id, session, frame.client_id))

    async def answer_plainly(self, run_id: int, name: str, session: str, client_id: str) -> None:
        """Wait for a run and send its answer as ``{"text", "format", "error"?}``."""
        async for _ in events.follow(run_id=run_id, public_id=name, seq=0):
            pass
        result = await in_thread(operations.result, run_id)
        plain = adapter.plain_answer(result, run_id=name, session_id=session, client_id=client_id)
        await self.tell(plain)

    async def resume(self, frame: frames.Resume, user_id: int) -> None:
        """Send the missing events of a run, and follow it from there."""
        async with self.turn:
            session = await in_thread(operations.session_of, user_id=user_id, run_id=frame.run_id)
            self.following.restart(frame.run_id, after=frame.after)
            await self.attend(frame.run_id, session)
            if frame.run_id in self.following.sent:
                await self.close_ended(frame.run_id, self.following.sent[frame.run_id])

    async def attend(self, run_id: str, session: str) -> None:
        """Listen to a followed run, and send what it has said before."""
        if self.listener is not None:
            pubsub.local().add(self.listener, [live_events.key_of(run_id)])
            await pubsub.local().confirmed(self.listener)
        await self.catch_up(run_id, session)

    def leave(self, run_id: str) -> None:
        """Stop listening to a run."""
        if self.listener is not None:
            pubsub.local().remove(self.listener, [live_events.key_of(run_id)])

    async def catch_up(self, run_id: str, session: str) -> None:
        """Send the events of a followed run that were not received live."""
        found: list[Numbered] | None = None
        while run_id in self.following.sent and (found is None or len(found) >= events.PAGE):
            after = self.following.sent[run_id]
            found = await in_thread(
                following.read, user_id=self.person(), run_id=run_id, after=after
            )
            await self.pass_on(run_id, session, found)

    async def close_ended(self, run_id: str, seq: int) -> None:
        """Send the final frame of an ended run to a client that has all its events."""
        final = await in_thread(transcript.final, user_id=self.person(), run_id=run_id, seq=seq)
        if final is not None and run_id in self.following.sent:
            self.following.end(run_id)
            self.leave(run_id)
            await self.tell(final)

    async def pass_on(self, run_id: str, session: str, numbered: list[Numbered]) -> None:
        """Send events of a followed run, and the final frame after the last of them."""
        for seq, event in numbered:
            after = self.following.sent[run_id]
            for frame in adapter.frames_of(
                event, run_id=run_id, session_id=session, seq=seq, after=after
            ):
                await self.tell(frame)
            if self.following.mark(run_id, (seq, event)):
                await self.finish(run_id, seq)
                return

    async def finish(self, run_id: str, seq: int) -> None:
        """Send the final frame of a run."""
        self.leave(run_id)
        final = await in_thread(transcript.final, user_id=self.person(), run_id=run_id, seq=seq)
        if final is not None:
            await self.tell(final)

    async def listen(self, principal: Principal) -> None:
        """Pass on pubsub frames for this user while the socket is open."""
        await self.show_pending(principal)
        with (
            pubsub.local().listen(principal.keys) as listener,
            periodic_checks.local().watch(listener, principal, self.following),
        ):
            self.listener = listener
            self.note_visible(visible=self.visible)
            pubsub.local().add(listener, map(live_events.key_of, self.following.sent))
            await pubsub.local().confirmed(listener)
            listener.resync()  # for what was published before
            while not self.closing:
                got = await listener.wait()
                lagged = listener.take_lag()
                if lagged or any(frame["kind"] == "revoked" for frame in got):
                    await self.check_credential(principal)
                if principal.user is not None:
                    async with self.turn:
                        await self.relay(principal, got, stale=lagged or not got)
                if lagged:
                    await self.show_pending(principal)

    async def check_credential(self, principal: Principal) -> None:
        """Raise CloseError 4401 when the credential was revoked ([A9])."""
        if await in_thread(access.ended, [principal]):
            raise CloseError(SIGNED_OUT)

    async def show_pending(self, principal: Principal) -> None:
        """Send the cards of what waits for a decision, and which the page does not show yet; then
        those of what it shows and was decided meanwhile.
        """
        waiting = operations.pending_notices
        for notice in await in_thread(spoken_by, self.language, waiting, principal):
            last = self.shown.get(asked_by(notice))
            if last is None or last.get("decided"):
                await self.show_notice(principal, notice)
        await self.settle_cards(principal)

    async def settle_cards(self, principal: Principal) -> None:
        """Send what became of the cards that the page shows as open."""
        names = {name for name, card in self.shown.items() if not card.get("decided")}
        names |= self.claimed
        if not names:
            return
        settled = operations.settled_notices
        for notice in await in_thread(spoken_by, self.language, settled, principal, [*names]):
            await self.show_notice(principal, notice)
            self.claimed.discard(asked_by(notice))

    async def show_published(self, principal: Principal, notice: Data) -> None:
        """Send a card that another process has published, in its person's own language; an open
        one in that of the page, which is the browser's where they have chosen none. Not to a
        program with the person's key, which decides nothing.
        """
        if asked_by(notice) and not principal.session_key:
            return
        if asked_by(notice) and not notice.get("decided"):
            cards = await in_thread(spoken_by, self.language, operations.pending_notices, principal)
            notice = {asked_by(each): each for each in cards}.get(asked_by(notice), notice)
        await self.show_notice(principal, notice)

    async def show_notice(self, principal: Principal, notice: Data) -> None:
        """Send a card, unless it is shown as it is: one may be both read and published. Record that
        an owner saw an open request ([A5]).
        """
        card = {"type": "notice", **notice}
        name = asked_by(card)
        if name and self.shown.get(name) == card:
            return
        await self.tell(card)
        if name:
            self.shown[name] = card
        if card.get("request") and not card.get("decided"):
            await in_thread(operations.note_shown, principal, [str(card["request"])])

    async def relay(self, principal: Principal, got: list[pubsub.Frame], *, stale: bool) -> None:
        """Send the new events of pubsub frames; read the log where some may be missing."""
        by_run: dict[str, list[pubsub.Frame]] = {}
        for frame in got:
            if frame["kind"] == "events":
                by_run.setdefault(frame["run"], []).append(frame)
            elif frame["kind"] == "notice":
                await self.show_published(principal, frame["notice"])
            elif frame["kind"] == "assistant":
                await self.tell({"type": "assistant", "session_id": frame["session"]})
            elif frame["kind"] == "chats":
                await self.tell({"type": "chats"})
        for run_id, said in by_run.items():
            if not self.following.is_over(run_id):
                await self.relay_events(run_id, said)
        if stale:
            for run_id in list(self.following.sent):
                await self.look_after(run_id)

    async def look_after(self, run_id: str) -> None:
        """Send a followed run's new events; stop following when its chat was deleted."""
        try:
            session = await in_thread(operations.session_of, user_id=self.person(), run_id=run_id)
        except RefusedError:
            self.following.sent.pop(run_id, None)
            self.leave(run_id)
            return
        await self.catch_up(run_id, session)

    async def relay_events(self, run_id: str, got: list[pubsub.Frame]) -> None:
        """Send the events of pubsub frames of one run."""
        session = got[0]["session"]
        is_new = run_id not in self.following.sent
        if is_new and got[0]["first"] == 1 and await self.is_chat(session):
            self.following.start(run_id)
        if run_id not in self.following.sent:
            if got[-1]["ends"] and await self.is_chat(session):
                self.following.end(run_id)
                await self.finish(run_id, got[-1]["first"] + len(got[-1]["events"]) - 1)
            return
        news = events.next_events(got, seq=self.following.sent[run_id])
        if news is not None:
            await self.pass_on(run_id, session, news)
        if (is_new or news is None) and run_id in self.following.sent:
            await self.attend(run_id, session)

    async def is_chat(self, session: str) -> bool:
        """Return whether a session belongs to the web chat: the page shows no other."""
        if session not in self.own_sessions:
            found = await in_thread(operations.is_chat, user_id=self.person(), session_id=session)
            self.own_sessions[session] = found
        return self.own_sessions[session]

"""Answer a run in a client's protocol: streamed, resumed, or whole; the same for all protocols."""

import asyncio
import contextlib
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Generic

from django.conf import settings

from channels_app.asgi import event_stream, http
from channels_app.asgi.admission import admit_head, admit_message
from channels_app.asgi.authentication import end_of_key, slot
from channels_app.asgi.chat_messages import Json
from channels_app.asgi.consumer import Endpoint
from channels_app.asgi.http import Headers, RefusedError
from channels_app.asgi.waiting import until_end
from channels_app.client_api import acceptance, sessions
from channels_app.client_api.acceptance import Ask, Work
from channels_app.client_api.run_adapter import Failure, Frame, Numbered, Rest, RunAdapter
from channels_app.rendering import follow_run
from core.conversations import runs
from core.database.transactions import in_thread
from core.lib.text import is_number
from core.messages import MessageDict

# The longest wait of a stream's head for the first text; usual proxies wait 60 s for a head.
HEAD_SECONDS = 45.0
# Of a client whose request was not answered before its process was stopped.
RESTART_SECONDS = "2"
RESTARTS_NOW = "The gateway restarts. Try again in a moment."
# Events without content for a client.
SILENT = ("event", "loading", "error")
MAX_NUMBER = 2**53


class RunEndpoint(Endpoint, Generic[Frame]):
    """An endpoint that answers a run. A protocol says which adapter it has, how a frame is encoded,
    and what a failed run is answered with.
    """

    # The head waits for the first text, so that a run that fails earlier has an error status.
    waits_for_text: bool = True
    # Sent while there is nothing to say.
    heartbeat: bytes = follow_run.BEAT

    @abstractmethod
    def adapter_of(self, work: Work) -> RunAdapter[Frame]:
        """Return the adapter of a run."""

    @abstractmethod
    def encode(self, number: int, frame: Frame) -> bytes:
        """Return a frame as a server-sent event. ``number``: that it is resumed by."""

    @abstractmethod
    def farewell(self, work: Work) -> bytes:
        """Return the last frames of a stream whose process is stopped."""

    async def answer_failure(self, work: Work, failure: Failure) -> None:
        """Answer a run that failed before its first text with an error status."""
        raise NotImplementedError

    async def whole(self, work: Work, log: list[MessageDict]) -> Mapping[str, Any] | Failure:
        """Return the answer of a finished run that is not streamed. ``log``: all its events."""
        raise NotImplementedError

    def log_of(
        self, work: Work, adapter: RunAdapter[Frame], *, is_cut: bool = False
    ) -> follow_run.Log:
        """Return the event log of a run, live. A protocol that needs more than the log for a frame
        gives it to its adapter here. ``is_cut``: the client has a part of it.
        """
        return follow_run.follow(work.run, with_lost=is_cut)

    def headers_of(self, work: Work) -> Headers:
        return work.headers

    async def stream_run(self, work: Work, *, seen: int = 0) -> None:
        """Stream the run from after ``seen``; stop it when the client leaves, unless it is kept."""
        adapter = self.adapter_of(work)
        async with contextlib.aclosing(self.log_of(work, adapter, is_cut=bool(seen))) as log:
            opening: Numbered[Frame] | None = []
            if self.waits_for_text and not seen:
                end, opening = await until_end(
                    opening_of(log, adapter), incoming=self.incoming, patience=0
                )
                if end == "stops":
                    raise await self.left(work, has_acted=False)  # a call begins the stream
            if opening is None:
                await stop(work)
            elif adapter.failure is not None and not seen and self.waits_for_text:
                await self.answer_failure(work, adapter.failure)
            else:
                blocks = self.blocks(log, adapter, opening, seen)
                is_read = await self.stream(
                    blocks,
                    headers=self.headers_of(work),
                    farewell=self.farewell(work),
                    ended=end_of_key(self.caller, work.run),
                )
                if not is_read or adapter.is_void:
                    await stop(work)

    async def blocks(
        self,
        log: follow_run.Log,
        adapter: RunAdapter[Frame],
        opening: Numbered[Frame],
        seen: int,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the frames as server-sent events, and ``heartbeat`` while there are none."""
        for number, frame in opening:
            yield self.encode(number, frame)
        numbered = Rest(adapter, seen).of if seen else adapter.numbered
        async for event in log:
            if event is None:
                yield self.heartbeat
                continue
            for number, frame in numbered(event):
                yield self.encode(number, frame)
            if adapter.is_void:
                return

    async def answer_run(self, work: Work) -> None:
        """Answer with one JSON object; stop the run if the client leaves or time is up."""
        found: list[MessageDict] = []
        end, _ = await until_end(
            read_log(work, found),
            incoming=self.incoming,
            seconds=settings.INBOUND_REQUEST_TIMEOUT_SECONDS or None,
            patience=event_stream.ANSWER_SECONDS,
        )
        if end == "done":
            whole = await self.whole(work, found)
            if isinstance(whole, Failure):
                await self.answer_failure(work, whole)
            else:
                await self.answer(200, whole, self.headers_of(work))
            return
        if end == "stops":
            raise await self.left(work, has_acted=has_acted(work, found))
        await stop(work)
        if end == "late":
            # Of one that is kept the same request gets the rest of the time.
            headers = {**self.headers_of(work), **({} if work.keep else http.NO_REPEAT)}
            raise RefusedError(504, "The answer takes too long.", headers=headers)

    async def left(self, work: Work, *, has_acted: bool) -> RefusedError:
        """Return the error of a request whose process is stopped before it is answered. Its run is
        stopped as where the client left, and the client asks again; but one whose tools have acted
        goes on, and is not to be repeated.
        """
        headers = {**self.headers_of(work), "Retry-After": RESTART_SECONDS}
        if work.keep or not has_acted:
            await stop(work)
            return RefusedError(503, RESTARTS_NOW, headers=headers)
        return RefusedError(503, goes_on(work), headers={**headers, **http.NO_REPEAT})

    def seen(self) -> int:
        """Return the number in ``Last-Event-ID``; 0 without one. Raises RefusedError 400."""
        return number_of(self.request.header("last-event-id"), "Last-Event-ID")


def goes_on(work: Work) -> str:
    """Return what a client is told whose process is stopped, and whose run is not."""
    name = work.run.public_id
    return f"{event_stream.RESTARTS} Its id is {name}; its answer is in the transcript."


def number_of(value: str, field: str) -> int:
    """Return the number of a frame that a client gives. Raises RefusedError 400."""
    if not value:
        return 0
    if not (is_number(value) and int(value) < MAX_NUMBER):
        raise RefusedError(400, f"{field} must be the number of an event.", field=field)
    return int(value)


class Accepting(Endpoint):
    """The part of an endpoint that accepts messages: a busy gateway refuses them by their head."""

    methods = ("POST",)
    takes_json = True

    async def check_head(self) -> None:
        """Check as every endpoint does, and whether the gateway is busy."""
        admit_head()
        await super().check_head()
        admit_message(self.caller)


class InSession(Accepting):
    """One that names its session in a header, as the endpoints under ``/v1`` do."""

    session: str

    async def check_head(self) -> None:
        """Check as :class:`Accepting` does, and the name of the session."""
        await super().check_head()
        self.session = sessions.checked(self.request.header(sessions.HEADER.lower()))


class HistoryEndpoint(InSession, RunEndpoint[Frame]):
    """An endpoint whose client keeps the history itself, and resumes by an idempotency key.

    With an ``Idempotency-Key`` the events of a stream are numbered, and the same request with
    ``Last-Event-ID`` is answered with the rest. Without it there are no numbers: some simple
    clients know no line but ``data:``.
    """

    is_numbered = False

    @abstractmethod
    def encoded(self, frame: Frame) -> bytes:
        """Return a frame as a server-sent event without a number."""

    def encode(self, number: int, frame: Frame) -> bytes:
        """Encode a frame, with its number if the client can resume."""
        block = self.encoded(frame)
        return b"id: %d\n" % number + block if self.is_numbered else block

    async def accept(self, data: Json, asked: Ask, *, sender: str) -> None:
        """Accept a request and answer its run. ``sender``: the field with a bridge's sender."""
        caller, request = self.caller, self.request
        seen = self.seen()
        key = acceptance.repeat_key(caller, data, self.session, request.idempotency_key())
        caller.require_sender(asked.user, field=sender)
        # Before anything is stored: a refused request must not leave a run behind.
        with slot(caller, sender=asked.user):
            await acceptance.prepare(caller, asked)
            work = await acceptance.accepted(
                caller, asked, session=self.session, repeat=key, language=request.language()
            )
            self.is_numbered = work.keep
            if asked.stream:
                await self.stream_run(work, seen=seen if work.keep else 0)
            else:
                await self.answer_run(work)


async def opening_of(log: follow_run.Log, adapter: RunAdapter[Frame]) -> Numbered[Frame]:
    """Read the frames up to the first text, the end, or HEAD_SECONDS: a proxy waits no longer."""
    deadline = asyncio.get_running_loop().time() + HEAD_SECONDS
    frames: Numbered[Frame] = []
    async for event in log:
        if event is not None:
            frames += adapter.numbered(event)
        is_silent = event is None or event["type"] in SILENT
        if adapter.has_ended or not is_silent or asyncio.get_running_loop().time() > deadline:
            break
    return frames


async def whole_log(work: Work) -> list[MessageDict]:
    """Return all events of a run, once it has ended."""
    found: list[MessageDict] = []
    await read_log(work, found)
    return found


async def read_log(work: Work, found: list[MessageDict]) -> None:
    """Add the events of a run to ``found`` as they come, until it has ended."""
    async with contextlib.aclosing(follow_run.follow(work.run)) as log:
        async for event in log:
            found += [event] if event is not None else []


def has_acted(work: Work, log: list[MessageDict]) -> bool:
    """Return whether a run has called tools of the gateway."""
    theirs = acceptance.tool_names(work.run)
    calls = [each["props"].get("name") for each in log if each["type"] == "tool_call"]
    return any(name and name not in theirs for name in calls)


async def stop(work: Work) -> None:
    """Cancel a run whose client left, unless it can come back with an Idempotency-Key."""
    if not work.keep:
        await in_thread(runs.request_cancel, run=work.run)

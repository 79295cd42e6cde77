"""``POST /inbound`` [D1] [D2], its result and cancel, and the event stream of a run."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils import timezone

from allowlist.models import ApiKey
from channels_app import http, limits
from channels_app.credentials import Caller, authenticate
from channels_app.http import Receive, RefusedError, Request, Scope, Send
from channels_app.http_api import adapter, fields
from channels_app.inbound import Receipt, door_account, receive_personal, receive_sender
from core import events, files, runs
from core.db import in_thread
from core.ids import is_public_id
from core.models import Run
from core.outbound_format import classified

DENIED = {"ok": False, "status": 401, "error": "Permission denied", "text": "", "format": "plain"}


@dataclass(frozen=True, slots=True)
class Work:
    """A run that a request waits for."""

    run: Run
    session: str
    user_id: int


async def inbound(scope: Scope, receive: Receive, send: Send) -> None:
    """``POST /inbound``."""
    request = Request(scope, receive)
    wants_stream = False
    try:
        if request.method != "POST":
            raise RefusedError(405, "Use POST.", headers={"Allow": "POST"})
        caller = await authenticate(request, scope=ApiKey.Scope.INBOUND)
        asked = fields.read(await request.json())
        wants_stream = asked.stream
        key = request.header("idempotency-key")[:100]
        receipt = await in_thread(accept, caller, asked, key)
        work = work_of(receipt)
        if asked.is_async:
            await http.answer(send, 202, pending(work))
        elif asked.stream:
            await stream_run(request, send, work, after=0, fresh=True)
        else:
            await answer_run(send, work)
    except RefusedError as error:
        await refuse(send, error, as_stream=wants_stream)
    except http.ClientGoneError:
        return


def accept(caller: Caller, asked: fields.Asked, idempotency_key: str) -> Receipt:
    """Put what was asked into the inbox. Raises RefusedError."""
    now = timezone.now()
    update_id = f"key:{caller.key.id}:{idempotency_key}" if idempotency_key else ""
    if caller.user is not None:
        draft = asked.draft(account=door_account("http"), update_id=update_id)
        receipt = receive_personal(
            user=caller.user, draft=draft, session_id=asked.session_id, now=now, origin="http"
        )
    else:
        assert caller.account is not None  # noqa: S101 - a constraint of ApiKey
        if not asked.user_id:
            raise RefusedError(400, "user_id is required with a bridge key.", field="user_id")
        draft = asked.draft(account=caller.account, update_id=update_id, sender=asked.user_id)
        receipt = receive_sender(draft=draft, now=now)
    if receipt.outcome == "unknown_session":
        raise RefusedError(404, "There is no such session.", field="session_id")
    return receipt


def work_of(receipt: Receipt) -> Work:
    """The run to wait for. Raises RefusedError 401 when the sender is unknown."""
    if receipt.run is None or receipt.session is None:
        raise RefusedError(401, "Permission denied")
    return Work(receipt.run, receipt.session.public_id, receipt.run.user_id)


def pending(work: Work) -> dict[str, Any]:
    """The answer while a run is not finished."""
    return {
        "ok": True,
        "status": 202,
        "state": "pending",
        "text": "",
        "format": "plain",
        "run_id": work.run.public_id,
        "session_id": work.session,
    }


async def refuse(send: Send, error: RefusedError, *, as_stream: bool) -> None:
    """Answer a refused request in the door's shape; on a stream, as its one ``done`` ([A3])."""
    body: dict[str, Any] = {
        "ok": False,
        "status": error.status,
        "error": str(error),
        "text": "",
        "format": "plain",
    }
    if error.field:
        body["field"] = error.field
    if not as_stream:
        await http.answer(send, error.status, body, error.headers)
        return
    data = http.sse({"event": "done", **body})
    headers = http.encoded({"Content-Type": "text/event-stream; charset=utf-8", **error.headers})
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


async def answer_run(send: Send, work: Work) -> None:
    """Wait for the run and answer it as JSON; 504 with the run's id when it takes too long."""
    seconds = settings.INBOUND_REQUEST_TIMEOUT_SECONDS or None
    translate = adapter_for(work)
    body: dict[str, Any] | None = None
    try:
        async with asyncio.timeout(seconds):
            async for item in events.follow(
                run_id=work.run.id, public_id=work.run.public_id, seq=0
            ):
                frames = translate.feed(item[1]) if item is not None else []
                for frame in frames:
                    if frame["event"] == "done":
                        body = {key: value for key, value in frame.items() if key != "event"}
    except TimeoutError:
        late = {**pending(work), "ok": False, "status": 504, "error": "The answer takes longer."}
        await http.answer(send, 504, late)
        return
    assert body is not None  # noqa: S101 - a log ends with stream_end, which makes a done frame
    await http.answer(send, int(body["status"]), body)


async def stream_run(
    request: Request, send: Send, work: Work, *, after: int, fresh: bool = False
) -> None:
    """The run as an event stream, from the event after ``after``."""
    limits.streams.enter(user_id=work.user_id, limit=settings.MAX_STREAMS_PER_USER)
    try:
        await http.stream(request, send, blocks(work, after=after, fresh=fresh))
    finally:
        limits.streams.leave(user_id=work.user_id)


async def blocks(work: Work, *, after: int, fresh: bool) -> AsyncIterator[bytes]:
    """The frames of a run as SSE; what a client that resumes already has is left out.

    The adapter reads the log from its first event, so that a resumed stream is the same bytes.
    """
    translate = adapter_for(work)
    if fresh:
        yield http.sse(adapter.progress())
    async for item in events.follow(
        run_id=work.run.id,
        public_id=work.run.public_id,
        seq=0,
        beat=settings.HEARTBEAT_SECONDS,
    ):
        if item is None:
            yield b": still working\n\n"
            continue
        seq, event = item
        for frame in translate.feed(event):
            if seq > after:
                yield http.sse(frame, seq=seq)


def adapter_for(work: Work) -> adapter.InboundAdapter:
    """The adapter that turns the log of ``work`` into the frames of this door."""
    return adapter.InboundAdapter(
        run_id=work.run.public_id,
        session_id=work.session,
        present=classified,
        inline=files.inline,
    )


async def run_events(scope: Scope, receive: Receive, send: Send) -> None:
    """``GET /runs/<id>/events``: continue a stream after ``Last-Event-ID`` or ``?after=``."""
    request = Request(scope, receive)
    try:
        if request.method != "GET":
            raise RefusedError(405, "Use GET.", headers={"Allow": "GET"})
        caller = await authenticate(request, scope=ApiKey.Scope.INBOUND)
        work = await in_thread(find, caller, request.path.split("/")[2])
        given = request.header("last-event-id") or request.query("after") or "0"
        await stream_run(request, send, work, after=position(given))
    except RefusedError as error:
        await refuse(send, error, as_stream=False)
    except http.ClientGoneError:
        return


def position(given: str) -> int:
    """An event number from a header. Raises RefusedError 400."""
    if not (given.isascii() and given.isdigit() and len(given) <= 9):
        raise RefusedError(400, "Last-Event-ID must be an event number.", field="Last-Event-ID")
    return int(given)


def find(caller: Caller, public_id: str) -> Work:
    """The caller's own run. Raises RefusedError 404, also for another person's."""
    run = None
    if is_public_id(public_id):
        own = Run.objects.select_related("session").filter(public_id=public_id)
        if caller.user is not None:
            run = own.filter(user=caller.user).first()
        else:
            run = own.filter(session__account=caller.account).first()
    if run is None:
        raise RefusedError(404, "There is no such run.", field="run_id")
    return Work(run, run.session.public_id, run.user_id)


async def result(scope: Scope, receive: Receive, send: Send) -> None:
    """``GET /inbound/result?run_id=``: 202 while it runs, then the answer."""
    request = Request(scope, receive)
    try:
        if request.method != "GET":
            raise RefusedError(405, "Use GET.", headers={"Allow": "GET"})
        caller = await authenticate(request, scope=ApiKey.Scope.INBOUND)
        work = await in_thread(find, caller, request.query("run_id"))
        if work.run.state in Run.FINAL:
            await answer_run(send, work)
        else:
            await http.answer(send, 202, pending(work))
    except RefusedError as error:
        await refuse(send, error, as_stream=False)
    except http.ClientGoneError:
        return


async def cancel(scope: Scope, receive: Receive, send: Send) -> None:
    """``POST /inbound/cancel``: ask the run to stop; its partial answer is kept."""
    request = Request(scope, receive)
    try:
        if request.method != "POST":
            raise RefusedError(405, "Use POST.", headers={"Allow": "POST"})
        caller = await authenticate(request, scope=ApiKey.Scope.INBOUND)
        run_id = (await request.json()).get("run_id")
        if not isinstance(run_id, str):
            raise RefusedError(400, "run_id must be a string.", field="run_id")
        work = await in_thread(find, caller, run_id)
        asked = await in_thread(runs.request_cancel, run=work.run)
        await http.answer(
            send, 200, {"ok": True, "status": 200, "cancelled": asked, "run_id": run_id}
        )
    except RefusedError as error:
        await refuse(send, error, as_stream=False)
    except http.ClientGoneError:
        return

"""``POST /inbound`` [D1] [D2], its result and cancel, and the event stream of a run."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone

from allowlist import permissions
from allowlist.models import ApiKey
from channels_app.asgi import event_stream, http
from channels_app.asgi.admission import admit_head, admit_message
from channels_app.asgi.authentication import count_sender, end_of_key, slot
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.consumer import Endpoint
from channels_app.asgi.fields import MOST_EVENT_DIGITS, conversation_id, text
from channels_app.asgi.http import RefusedError, Request
from channels_app.asgi.principal import DeniedError, Principal
from channels_app.asgi.waiting import until_end
from channels_app.http_api import adapter, fields
from channels_app.intake import slash_commands
from channels_app.intake.inbound import Receipt, may_speak, receive_personal, receive_sender
from channels_app.rendering.links import Links
from channels_app.rendering.translations import wording
from core.conversations import events, runs
from core.database.transactions import in_thread
from core.files import storage
from core.lib.text import is_number
from core.models import ChannelAccount, Run

TAKES_LONGER = "The answer takes longer."


@dataclass(frozen=True, slots=True)
class Work:
    """A run that a request waits for, with its person's language."""

    run: Run
    session: str
    user_id: int
    language: str

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers with the ids for finding the run again after a lost connection."""
        return {"X-Run-Id": self.run.public_id, "X-Session-Id": self.session}


class KeyEndpoint(Endpoint):
    """An endpoint of this interface: a key with the scope ``inbound``."""

    key_scope = ApiKey.Scope.INBOUND

    async def answer_run(self, work: Work) -> None:
        """Wait for the run and answer it as JSON; 504 with the run's id when it takes too long, and
        503 with it when this process is stopped first.
        """
        end, body = await until_end(
            answer_of(work),
            seconds=settings.INBOUND_REQUEST_TIMEOUT_SECONDS or None,
            patience=event_stream.ANSWER_SECONDS,
        )
        if body is None:
            status, error = (503, event_stream.RESTARTS) if end == "stops" else (504, TAKES_LONGER)
            body = {**pending(work), "ok": False, "status": status, "error": error}
        await self.answer(int(body["status"]), body, work.headers)

    async def stream_run(self, work: Work, *, after: int, fresh: bool) -> None:
        """Answer the run's events after the number ``after`` as a stream."""
        frames = blocks(work, after=after, fresh=fresh)
        ended = end_of_key(self.caller, work.run)
        await self.stream(frames, headers=work.headers, farewell=farewell(work), ended=ended)


class Inbound(KeyEndpoint):
    """``POST /inbound``."""

    methods = ("POST",)
    takes_json = True
    wants_stream = False

    async def check_head(self) -> None:
        """Check as every endpoint does, and the ``Idempotency-Key``."""
        self.wants_stream = "text/event-stream" in self.request.header("accept")
        admit_head()
        await super().check_head()
        self.key = self.request.idempotency_key()

    async def handle(self, body: bytes) -> None:
        """Accept a message, and answer its run in the requested form."""
        asked = fields.read(http.parse_object(body), keyed=bool(self.key))
        self.wants_stream = asked.stream and not asked.is_async
        if asked.media or slash_commands.answered_at_once(asked.text) is None:
            admit_message(self.caller)
        # Before anything is stored: a refused stream must not leave a run behind.
        with slot(self.caller, sender=asked.user_id, wanted=self.wants_stream):
            await fetch_pictures(self.caller, asked)
            work = await in_thread(accept, self.caller, asked, self.key)
            if asked.is_async:
                await self.answer(202, pending(work), work.headers)
            elif asked.stream:
                await self.stream_run(work, after=0, fresh=True)
            else:
                await self.answer_run(work)

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request; on a stream, as its one ``done`` ([A3])."""
        if not self.wants_stream:
            await super().refuse(error)
            return
        data = event_stream.sse({"event": "done", **http.refused_body(error)})
        headers = http.encoded({"Content-Type": event_stream.CONTENT_TYPE, **error.headers})
        await self.send_headers(status=error.status, headers=headers)
        await self.send_body(data)


async def fetch_pictures(caller: Principal, asked: fields.Asked) -> None:
    """Fetch the pictures that a message names by their address. Raises RefusedError.

    Not for a denied sender of a bridge: the held message has no such picture.
    """
    elsewhere = fields.pictures_elsewhere(asked.media)
    if not elsewhere:
        return
    account = caller.account
    if account is None or await in_thread(may_speak, account, asked.user_id):
        await fields.fetch_pictures(asked.media)
        return
    for item in elsewhere:
        asked.media.remove(item)


def accept(caller: Principal, asked: fields.Asked, key: str) -> Work:
    """Put the message into the inbox; return the run to wait for. Raises RefusedError."""
    now = timezone.now()
    command = None if asked.media else slash_commands.answered_at_once(asked.text)
    if caller.user is not None:
        repeat = asked.repeat(scope=f"key:{caller.key_id}", key=key, session=asked.session_id)
        draft = asked.draft(account=builtin_account("http"), repeat=repeat, key=caller.key_id)
        receipt = receive_personal(
            user=caller.user,
            draft=draft,
            session_id=asked.session_id,
            now=now,
            origin="http",
            command=command,
            may_decide=ApiKey.Scope.ADMIN_REQUESTS in caller.scopes,
        )
    else:
        assert caller.account is not None  # noqa: S101 - a constraint of ApiKey
        caller.require_sender(asked.user_id)
        count_sender(caller.account, asked.user_id)
        repeat = asked.repeat(scope="inbound", key=key)
        draft = asked.draft(
            account=caller.account, repeat=repeat, key=caller.key_id, sender=asked.user_id
        )
        receipt = receive_sender(draft=draft, now=now, command=command)
    if receipt.outcome == "unknown_session":
        raise RefusedError(404, "There is no session with this session_id.", field="session_id")
    return work_of(receipt)


def work_of(receipt: Receipt) -> Work:
    """Return the run to wait for. Raises RefusedError 401 when the sender is unknown."""
    if receipt.run is None or receipt.session is None:
        raise DeniedError(receipt.said)
    user = receipt.session.user
    return Work(receipt.run, receipt.session.public_id, user.pk, user.language)


def pending(work: Work) -> dict[str, Any]:
    """Return the answer while a run is not finished."""
    return {
        "ok": True,
        "status": 202,
        "state": "pending",
        "text": "",
        "format": "plain",
        "run_id": work.run.public_id,
        "session_id": work.session,
    }


async def answer_of(work: Work) -> dict[str, Any]:
    """Return the answer of a run, once it has ended."""
    body: dict[str, Any] = {}
    async with aclosing(frames_of(work)) as frames:
        async for _, frame in frames:
            if frame is not None and frame["event"] == "done":
                body = {key: value for key, value in frame.items() if key != "event"}
    return body


async def blocks(work: Work, *, after: int, fresh: bool) -> AsyncGenerator[bytes, None]:
    """Yield the frames of a run as SSE, without those that a resuming client already has."""
    if fresh:
        yield event_stream.sse(
            adapter.first_frame(run_id=work.run.public_id, session_id=work.session)
        )
    async with aclosing(frames_of(work, beat=settings.HEARTBEAT_SECONDS)) as frames:
        async for seq, frame in frames:
            if frame is None:
                yield b": still working\n\n"
            elif seq > after:
                yield event_stream.sse(frame, seq=seq)


def farewell(work: Work) -> bytes:
    """Return the last event of a stopped process's stream: no ``done``, as the run goes on."""
    name = work.run.public_id
    resume = f"/runs/{name}/events"
    return event_stream.sse(
        {
            "event": "interrupted",
            "message": f"{event_stream.RESTARTS} Continue with GET {resume} and Last-Event-ID.",
            "run_id": name,
            "session_id": work.session,
            "resume": resume,
        }
    )


async def frames_of(
    work: Work, *, beat: float | None = None
) -> AsyncGenerator[tuple[int, adapter.Frame | None], None]:
    """Yield the frames of a run with their event's number, from its first event; None is a
    heartbeat.

    The adapter reads the whole log, so that a resumed stream is the same bytes.
    """
    translate = adapter_for(work)
    log = events.follow(run_id=work.run.id, public_id=work.run.public_id, seq=0, idle_seconds=beat)
    async with aclosing(log):
        async for item in log:
            if item is None:
                yield 0, None
                continue
            seq, event = item
            # The end reads images from the database and converts the whole answer.
            last = events.ends(event)
            found = await in_thread(translate.feed, event) if last else translate.feed(event)
            for frame in found:
                yield seq, frame


def adapter_for(work: Work) -> adapter.InboundAdapter:
    """Return the adapter that turns the log of ``work`` into the frames of ``/inbound``."""
    return adapter.InboundAdapter(
        run_id=work.run.public_id,
        session_id=work.session,
        inline=partial(storage.inline, user_id=work.run.user_id),
        links=Links(base_url=settings.GATEWAY_URL, run_id=work.run.public_id),
        words=wording(work.language),
    )


class RunEvents(KeyEndpoint):
    """``GET /runs/<id>/events``: continue a stream after ``Last-Event-ID`` or ``?after=``."""

    methods = ("GET",)

    async def handle(self, body: bytes) -> None:
        """Answer the events as a stream."""
        name, sender = self.scope["url_route"]["kwargs"]["run_id"], self.request.query("user_id")
        work = await in_thread(find, self.caller, name, sender)
        after = position(self.request)
        with slot(self.caller, sender=work.run.session.chat):
            await self.stream_run(work, after=after, fresh=False)


def position(request: Request) -> int:
    """Return the event after which a stream continues: the header, else ``after``.

    Raises RefusedError 400, also when the unused one of the two is no event number.
    """
    asked = {"Last-Event-ID": request.header("last-event-id"), "after": request.query("after")}
    for name, given in asked.items():
        if given and not is_number(given, MOST_EVENT_DIGITS):
            raise RefusedError(400, f"{name} must be an event number.", field=name)
    return int(asked["Last-Event-ID"] or asked["after"] or 0)


def find(caller: Principal, public_id: str, sender: str = "") -> Work:
    """Return the caller's own run. Raises RefusedError 404, also for another user's.

    A bridge may give a ``sender``; then another sender's run counts as missing.
    """
    run = caller.own_run(public_id)
    if run is not None and caller.account is not None and sender:
        run = run if is_of_sender(run, caller.account, sender) else None
    if run is None:
        raise RefusedError(404, "There is no run with this run_id.", field="run_id")
    return Work(run, run.session.public_id, run.user_id, run.user.language)


def is_of_sender(run: Run, account: ChannelAccount, sender: str) -> bool:
    """Return whether an allowed ``sender`` is the user of a run."""
    named = permissions.Sender(account, account.sender_kind, sender)
    decision = permissions.decide(sender=named, now=timezone.now())
    if decision.user is None or decision.user.pk != run.user_id:
        return False
    said = set(run.inbound.values_list("sender", flat=True))
    if not said:  # an answer of the gateway itself
        return run.session.chat == conversation_id(sender)
    return not said.isdisjoint({sender, permissions.value_of(named)})


class Result(KeyEndpoint):
    """``GET /inbound/result?run_id=``: 202 while it runs, then the answer."""

    methods = ("GET",)

    async def handle(self, body: bytes) -> None:
        """Answer the run's current state."""
        run_id, sender = self.request.query("run_id"), self.request.query("user_id")
        work = await in_thread(find, self.caller, run_id, sender)
        if work.run.state in Run.FINAL:
            await self.answer_run(work)
        else:
            await self.answer(202, pending(work), work.headers)


class Cancel(KeyEndpoint):
    """``POST /inbound/cancel``: ask the run to stop; its partial answer is kept."""

    methods = ("POST",)
    takes_json = True

    async def handle(self, body: bytes) -> None:
        """Ask the run to stop."""
        asked = http.parse_object(body)
        run_id, sender = asked.get("run_id"), text(asked, "user_id", 256)
        if not isinstance(run_id, str):
            raise RefusedError(400, "run_id must be a string.", field="run_id")
        work = await in_thread(find, self.caller, run_id, sender)
        cancelled = await in_thread(runs.request_cancel, run=work.run)
        answer = {"ok": True, "status": 200, "cancelled": cancelled, "run_id": run_id}
        await self.answer(200, answer)

"""``POST /v1/chat/completions`` and ``GET /v1/models`` as OpenAI's clients expect them ([D5])."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.utils import timezone

from allowlist.models import ApiKey
from channels_app.asgi import chat_messages, event_stream, http
from channels_app.asgi.admission import BusyError, admit_head, admit_message
from channels_app.asgi.authentication import count_sender, slot
from channels_app.asgi.bodies import Body
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.consumer import Endpoint
from channels_app.asgi.http import RefusedError, Request
from channels_app.asgi.principal import DeniedError, Principal
from channels_app.client_api.openai import adapter, errors, fields, models, sessions
from channels_app.client_api.openai.completion import completion
from channels_app.client_api.openai.wire import DONE, ErrorFrame, Frame
from channels_app.intake import choosing
from channels_app.intake.inbound import Receipt, may_speak, receive_personal, receive_sender
from channels_app.rendering import follow_run
from channels_app.rendering.links import Links
from core.conversations import runs
from core.conversations.inbox import Draft, RepeatKey, body_digest
from core.database.batching import in_shared_transaction
from core.database.transactions import atomic_write, in_thread
from core.messages import MessageDict
from core.models import ChannelAccount, Run

ORIGIN = sessions.ORIGIN
DELIVERY_FIELDS = {"stream", "stream_options"}
# The longest wait of a stream's head for the first text; usual proxies wait 60 s for a head.
HEAD_SECONDS = 45.0
# Events without content for a client.
SILENT = ("event", "loading", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A run that a request waits for. ``keep``: it continues when the client leaves."""

    run: Run
    session: str
    config: adapter.Config
    keep: bool

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers with the ids of the run and session."""
        return {
            sessions.HEADER: self.session,
            "X-Request-Id": self.run.public_id,
        }


class OpenAIEndpoint(Endpoint):
    """An endpoint under ``/v1``: needs a key with the scope ``chat``; errors in OpenAI's shape."""

    key_scope = ApiKey.Scope.CHAT

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request; a busy gateway is 429, which clients of the API repeat."""
        status = 429 if isinstance(error, BusyError) else error.status
        param = "" if error.field == "body" else error.field
        rates = errors.rates(error.headers) if status == 429 else {}
        body = errors.body(status, str(error), param=param)
        await self.answer(status, body, {**rates, **error.headers})


class ChatCompletions(OpenAIEndpoint):
    """``POST /v1/chat/completions``."""

    methods = ("POST",)
    takes_json = True

    async def check_head(self) -> None:
        """Check as every endpoint does, and the session that the request names."""
        admit_head()
        await super().check_head()
        admit_message(self.caller)
        self.session = sessions.checked(self.request.header("x-session-id"))

    async def handle(self, body: bytes) -> None:
        """Accept a request, and answer its run."""
        data, caller, session = http.parse_object(body), self.caller, self.session
        asked = fields.read(data)
        key = repeat_key(caller, data, session, self.request.idempotency_key())
        if caller.user is None and not asked.user:
            raise RefusedError(400, "user is required with a bridge key.", field="user")
        # Before anything is stored: a refused request must not leave a run behind.
        with slot(caller, sender=asked.user):
            await prepare(caller, asked)
            work = await in_shared_transaction(
                partial(work_of, caller, asked, self.request, session, key)
            )
            if work is None:
                raise DeniedError
            if asked.stream:
                await self.stream_run(work)
            else:
                await self.answer_run(work)

    async def stream_run(self, work: Work) -> None:
        """Answer the run as chunks; it is stopped when the client leaves.

        The head waits for the first text: a run that fails earlier is answered with an error
        status.
        """
        translate = adapter.OpenAIAdapter(work.config)
        async with contextlib.aclosing(follow_run.follow(work.run)) as log:
            opening = await unless_gone(self.incoming, opening_of(log, translate))
            if opening is None:
                await stop(work)
            elif opening.failure is not None:
                await self.answer_failure(work, opening.failure, opening.last)
            else:
                frames = blocks(log, translate, opening.frames)
                last = farewell(work.run.public_id)
                if not await self.stream(frames, headers=work.headers, farewell=last):
                    await stop(work)

    async def answer_run(self, work: Work) -> None:
        """Answer the run as one completion; it is stopped when the client leaves or waits too
        long."""
        log = asyncio.ensure_future(whole_log(work))
        gone = asyncio.ensure_future(self.incoming.gone())
        seconds = settings.INBOUND_REQUEST_TIMEOUT_SECONDS or None
        try:
            await asyncio.wait({log, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if log.done():
                await self.answer_log(work, log.result())
                return
            await stop(work)
            if not gone.done():
                raise RefusedError(504, "The answer takes too long.", headers=work.headers)
        finally:
            for task in (log, gone):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(log, gone, return_exceptions=True)

    async def answer_log(self, work: Work, log: list[MessageDict]) -> None:
        """Answer a finished run."""
        found = completion(log, work.config)
        if "error" in found:
            await self.answer_failure(work, found, log[-1])
        else:
            await self.answer(200, found, work.headers)

    async def answer_failure(self, work: Work, found: ErrorFrame, last: MessageDict) -> None:
        """Answer a failed run with its error. ``last``: the last event of its log."""
        data = last["props"].get("data")
        headers = errors.headers_of(found, data if isinstance(data, dict) else {})
        await self.answer(errors.status_of(found), found, {**work.headers, **headers})


async def prepare(caller: Principal, asked: fields.Asked) -> None:
    """Count a bridge's sender, then fetch the pictures that messages name by their address. Raises
    RefusedError.

    Not for a denied sender: the held message has no such picture.
    """
    account = caller.account
    if account is not None:
        await in_thread(count_sender, account, asked.user)
        elsewhere = chat_messages.has_pictures_elsewhere(asked.messages)
        if elsewhere and not await in_thread(may_speak, account, asked.user):
            chat_messages.drop_pictures_elsewhere(asked.messages)
    await chat_messages.fetch_pictures(asked.messages)


def repeat_key(
    caller: Principal, body: Mapping[str, Any], session: str, key: str
) -> RepeatKey | None:
    """Return the idempotency key of a request; None when the client gave none.

    The form of the answer (``stream``) may change. Computed before pictures are fetched.
    """
    if not key:
        return None
    asked = {name: value for name, value in body.items() if name not in DELIVERY_FIELDS}
    scope = f"key:{caller.key_id}" if caller.user is not None else "v1"
    return RepeatKey(scope, key, "Idempotency-Key", body_digest(asked, session))


def accept(
    caller: Principal, asked: fields.Asked, session: str, repeat: RepeatKey | None
) -> Receipt:
    """Put the message into the inbox. Raises RefusedError."""
    text = chat_messages.last_said(asked.messages)
    media = chat_messages.take_files(asked.messages)
    options: dict[str, Any] = {
        "messages": asked.messages,
        "tools": asked.tools,
        "model_options": asked.options,
    }
    said = Said(text, media, options, repeat)
    if caller.user is None:
        return accept_sender(caller, asked, session, said)
    with atomic_write(joins=True):
        account = builtin_account(ORIGIN)
        chat = sessions.chat_of(caller.key_id)
        mine = sessions.own(user=caller.user, name=session)
        thread, known = sessions.named_thread(session), None
        if not thread:
            thread, known = sessions.free_session(account=account, chat=chat, user=caller.user)
        draft = Draft(
            account=account,
            chat=chat,
            thread=thread,
            repeat=repeat,
            text=text,
            media=media,
            options=options,
            via_key=caller.key_id,
            wanted=models.wanted(asked.model),
        )
        return receive_personal(
            user=caller.user,
            draft=draft,
            session_id=mine,
            now=timezone.now(),
            origin=ORIGIN,
            session=known,
        )


@dataclass(frozen=True, slots=True)
class Said:
    """The parts of a request that go into the inbox."""

    text: str
    media: list[dict[str, Any]]
    options: dict[str, Any]
    repeat: RepeatKey | None


def accept_sender(caller: Principal, asked: fields.Asked, session: str, said: Said) -> Receipt:
    """Accept a message of a bridge, which names its sender in ``user``; the rule decides ([A5],
    [A10]).
    """
    assert caller.account is not None  # noqa: S101 - a constraint of ApiKey
    draft = Draft(
        account=caller.account,
        kind=str(caller.account.config.get("kind", "im")),
        sender=asked.user,
        chat=asked.user[:128],
        thread=sessions.named_thread(session),
        repeat=said.repeat,
        text=said.text,
        media=said.media,
        options=said.options,
        via_key=caller.key_id,
        wanted=models.wanted(asked.model),
    )
    return receive_sender(draft=draft, now=timezone.now())


def work_of(
    caller: Principal,
    asked: fields.Asked,
    request: Request,
    session: str,
    repeat: RepeatKey | None,
) -> Work | None:
    """Accept a request; return the run to wait for, None when its sender is unknown.

    RefusedError rolls everything back; the message of an unknown sender is kept.
    """
    receipt = accept(caller, asked, session, repeat)
    run = receipt.run
    if run is None or receipt.session is None:
        return None
    config = adapter.Config(
        completion_id=f"chatcmpl-{run.public_id}",
        model=asked.model,
        created=int(run.created_at.timestamp()),
        links=Links(base_url=settings.GATEWAY_URL, run_id=run.public_id),
        locale=receipt.session.user.language or request.language(),
        trace_link=trace_link(receipt.session.account),
        include_usage=asked.include_usage,
        client_tools=frozenset(tool["function"]["name"] for tool in asked.tools),
    )
    return Work(
        run=run,
        session=receipt.session.public_id,
        config=config,
        keep=repeat is not None,
    )


def trace_link(account: ChannelAccount) -> adapter.TraceLink:
    """Return whether answers begin with a link to their trace: by the account, else by the
    setting.
    """
    word = account.config.get("trace_link", settings.OPENAI_TRACE_LINK)
    return word if word in ("content", "reasoning") else "off"


@dataclass(frozen=True, slots=True)
class Opening:
    """The beginning of a stream: its first frames, and the event that they end with."""

    frames: list[Frame]
    last: MessageDict

    @property
    def failure(self) -> ErrorFrame | None:
        """Return the error, if it came before any content."""
        return next((each for each in self.frames if each != DONE and "error" in each), None)


def farewell(run_id: str) -> bytes:
    """Return the last frames of a stream whose process is stopped."""
    frame = errors.body(
        503, f"{event_stream.RESTARTS} Its id is {run_id}; its answer is in the transcript."
    )
    return adapter.encode(frame) + adapter.encode(DONE)


async def unless_gone(incoming: Body, begins: Awaitable[Opening]) -> Opening | None:
    """Return the result of ``begins``; None when the client left first."""
    begun = asyncio.ensure_future(begins)
    gone = asyncio.ensure_future(incoming.gone())
    try:
        await asyncio.wait({begun, gone}, return_when=asyncio.FIRST_COMPLETED)
        return begun.result() if begun.done() else None
    finally:
        for task in (begun, gone):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(begun, gone, return_exceptions=True)


async def opening_of(log: follow_run.Log, translate: adapter.OpenAIAdapter) -> Opening:
    """Read the frames up to the first text, the end, or HEAD_SECONDS: a proxy waits no longer."""
    deadline = asyncio.get_running_loop().time() + HEAD_SECONDS
    frames: list[Frame] = []
    last: MessageDict = {"type": "event", "props": {}}
    async for event in log:
        if event is not None:
            frames += translate.feed(event)
            last = event
        ended = bool(frames) and frames[-1] == DONE
        if ended or last["type"] not in SILENT or asyncio.get_running_loop().time() > deadline:
            break
    return Opening(frames, last)


async def blocks(
    log: follow_run.Log, translate: adapter.OpenAIAdapter, frames: list[Frame]
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks as server-sent events, and comments while there are none."""
    for frame in frames:
        yield adapter.encode(frame)
    async for event in log:
        if event is None:
            yield follow_run.BEAT
            continue
        for frame in translate.feed(event):
            yield adapter.encode(frame)


async def whole_log(work: Work) -> list[MessageDict]:
    """Return all events of a run, once it has ended."""
    async with contextlib.aclosing(follow_run.follow(work.run)) as log:
        return [event async for event in log if event is not None]


async def stop(work: Work) -> None:
    """Cancel a run whose client left; with an Idempotency-Key the client may come back, so it goes
    on.
    """
    if not work.keep:
        await in_thread(runs.request_cancel, run=work.run)


class Models(OpenAIEndpoint):
    """``GET /v1/models``."""

    methods = ("GET",)

    async def handle(self, body: bytes) -> None:
        """Answer the list."""
        data = await in_thread(models.listed, self.caller)
        await self.answer(200, {"object": "list", "data": data})


class Model(OpenAIEndpoint):
    """``GET /v1/models/<name>``; a name may hold slashes."""

    methods = ("GET",)

    async def handle(self, body: bytes) -> None:
        """Answer one model."""
        name = self.scope["url_route"]["kwargs"]["name"]
        found = await in_thread(models.one, self.caller, name)
        if found is None:
            raise choosing.refusal("either", name)
        await self.answer(200, found)


class Unknown(OpenAIEndpoint):
    """Any other address under ``/v1``."""

    async def check_head(self) -> None:
        """Answer 404, also without a key."""
        raise RefusedError(404, f"There is no {self.request.method} here.")

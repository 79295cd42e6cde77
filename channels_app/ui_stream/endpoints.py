"""``POST /ui/chat``, its resume and its stop, for clients of the UI message stream."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils import timezone

from allowlist.models import ApiKey
from channels_app.asgi import chat_messages, http
from channels_app.asgi.authentication import authenticate, slot
from channels_app.asgi.builtin_accounts import door_account
from channels_app.asgi.http import Receive, RefusedError, Request, Scope, Send
from channels_app.asgi.principal import Principal
from channels_app.intake.inbound import Receipt, receive_personal
from channels_app.rendering import follow_run
from channels_app.rendering.links import Links
from channels_app.ui_stream import adapter, fields
from core.conversations import inbox, runs
from core.conversations.inbox import Draft
from core.database.transactions import in_thread
from core.models import ChatSession, Run, User

ORIGIN = "ui"


@dataclass(frozen=True, slots=True)
class Work:
    """A run that a request waits for."""

    run: Run
    config: adapter.Config


async def chat(scope: Scope, receive: Receive, send: Send) -> None:
    """``POST /ui/chat``: the run as a UI message stream. It goes on when the client leaves."""
    request = Request(scope, receive)
    try:
        caller, user = await person(request)
        asked = fields.read(await request.json())
        # Before anything is stored: a refused stream must not leave a run behind.
        with slot(caller):
            await chat_messages.fetch_pictures(asked.messages)
            receipt = await in_thread(accept, user, asked, caller.key_id)
            await stream_run(request, send, work_of(receipt.run, language=request.language()))
    except RefusedError as error:
        await refuse(request, send, error)
    except http.ClientGoneError:
        return


async def resume(scope: Scope, receive: Receive, send: Send) -> None:
    """``GET /ui/chat/<chat>/stream``: the open run from its beginning; 204 when there is none."""
    request = Request(scope, receive)
    try:
        caller, user = await person(request)
        run = await in_thread(open_run, user, chat_in(request))
        if run is None:
            headers = http.encoded({})
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        with slot(caller):
            await stream_run(request, send, work_of(run, language=request.language()))
    except RefusedError as error:
        await refuse(request, send, error)
    except http.ClientGoneError:
        return


async def stop(scope: Scope, receive: Receive, send: Send) -> None:
    """``POST /ui/chat/<chat>/stop``: ask the open run to end; what it said is kept."""
    request = Request(scope, receive)
    try:
        _, user = await person(request)
        asked = await in_thread(stop_run, user, chat_in(request))
        await http.answer(send, 200, {"ok": True, "status": 200, "cancelled": asked})
    except RefusedError as error:
        await refuse(request, send, error)


async def person(request: Request) -> tuple[Principal, User]:
    """Return the caller and its person. Raises RefusedError 401; 403 for a bridge's key."""
    caller = await authenticate(request, scope=ApiKey.Scope.CHAT)
    return caller, caller.person


def chat_in(request: Request) -> str:
    """The id of the chat in ``/ui/chat/<chat>/…``. Raises RefusedError 400."""
    return fields.checked_id(request.path.split("/")[3])


def accept(user: User, asked: fields.Asked, key: int) -> Receipt:
    """Put what was asked into the inbox; ``key``: that of the API key that was shown."""
    text = chat_messages.last_said(asked.messages)
    documents = chat_messages.take_files(asked.messages)
    options: dict[str, Any] = {"tools": asked.tools, "ui_message_id": asked.message_id}
    if asked.history:
        options["messages"] = asked.messages
    mine = inbox.own_session(user=user, session_id=asked.chat)
    draft = Draft(
        account=door_account(ORIGIN),
        chat=f"chat:{asked.chat}",
        text=text,
        media=[
            {"kind": "image", "url": part["image_url"]["url"]}
            for part in chat_messages.parts_with_pictures(asked.messages[-1])
        ]
        + documents,
        options=options,
        via_key=key,
    )
    session_id = mine.public_id if mine else ""
    return receive_personal(
        user=user, draft=draft, session_id=session_id, now=timezone.now(), origin=ORIGIN
    )


def session_of(user: User, chat_id: str) -> ChatSession | None:
    """The person's session that a chat id names: its public id, or the client's own name."""
    mine = inbox.own_session(user=user, session_id=chat_id)
    named = ChatSession.objects.filter(
        user=user, account=door_account(ORIGIN), chat=f"chat:{chat_id}", closed_at__isnull=True
    )
    return mine or named.first()


def open_run(user: User, chat_id: str) -> Run | None:
    """The oldest run of a chat that has not ended."""
    session = session_of(user, chat_id)
    return runs.open_of([session.id]).get(session.id) if session else None


def stop_run(user: User, chat_id: str) -> bool:
    """Ask the open run of a chat to end; whether there was one."""
    run = open_run(user, chat_id)
    return run is not None and runs.request_cancel(run=run)


def work_of(run: Run | None, *, language: str) -> Work:
    """The run to tell. Raises RefusedError 404 when its session was closed meanwhile."""
    if run is None:
        raise RefusedError(404, "This chat does not exist.", field="id")
    config = adapter.Config(
        message_id=run.options.get("ui_message_id") or run.public_id,
        links=Links(base_url=settings.GATEWAY_URL, run_id=run.public_id),
        locale=language,
        client_tools=frozenset(tool["function"]["name"] for tool in run.options.get("tools") or []),
    )
    return Work(run=run, config=config)


async def stream_run(request: Request, send: Send, work: Work) -> None:
    """The run as a stream of chunks."""
    headers = {**adapter.HEADERS, "X-Run-Id": work.run.public_id}
    text = f"{http.RESTARTS} Reload to see the rest of the answer ({work.run.public_id})."
    last = adapter.encode({"type": "error", "errorText": text}) + adapter.encode(adapter.DONE)
    await http.stream(request, send, blocks(work), headers=headers, farewell=last)


async def blocks(work: Work) -> AsyncGenerator[bytes, None]:
    """The chunks as server-sent events, and comments while nothing is said."""
    translate = adapter.UiStreamAdapter(work.config)
    async with aclosing(follow_run.follow(work.run)) as log:
        async for event in log:
            if event is None:
                yield follow_run.BEAT
                continue
            for frame in translate.feed(event):
                yield adapter.encode(frame)


async def refuse(request: Request, send: Send, error: RefusedError) -> None:
    """Answer a refused request: in a sentence, which ``useChat`` shows to the person as it is; in
    the shape of ``/inbound`` to whoever asks for JSON."""
    if "application/json" in request.header("accept"):
        await http.answer(send, error.status, http.refused_body(error), error.headers)
    else:
        await http.answer_text(send, error.status, str(error), error.headers)

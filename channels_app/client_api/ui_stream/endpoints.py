"""``POST /ui/chat``, its resume and its stop, for clients of the UI message stream."""

from typing import Any

from django.conf import settings
from django.utils import timezone

from allowlist.models import ApiKey
from channels_app.asgi import chat_messages, event_stream, http
from channels_app.asgi.admission import admit_head, admit_message
from channels_app.asgi.authentication import slot
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.http import RefusedError
from channels_app.client_api import acceptance
from channels_app.client_api.acceptance import Work
from channels_app.client_api.run_endpoint import RunEndpoint
from channels_app.client_api.ui_stream import adapter, fields
from channels_app.intake.inbound import Receipt, receive_personal
from channels_app.rendering.links import Links
from core.conversations import inbox, runs
from core.conversations.inbox import Draft
from core.database.transactions import in_thread
from core.models import ChatSession, Run, User

ORIGIN = "ui"


class UiEndpoint(RunEndpoint[adapter.Frame]):
    """An endpoint of this interface: a personal key with the scope ``chat``."""

    key_scope = ApiKey.Scope.CHAT
    waits_for_text = False
    user: User

    async def check_head(self) -> None:
        """Check as every endpoint does. Raises RefusedError 403 for the key of a bridge."""
        await super().check_head()
        if self.caller.user is None:
            raise RefusedError(403, "This endpoint needs a personal key.")
        self.user = self.caller.user

    @property
    def chat_id(self) -> str:
        """Return the id of the chat in ``/ui/chat/<chat>/…``. Raises RefusedError 400."""
        return fields.checked_id(self.scope["url_route"]["kwargs"]["chat"])

    def adapter_of(self, work: Work) -> adapter.UiStreamAdapter:
        """Return the adapter of a run."""
        run = work.run
        config = adapter.Config(
            message_id=run.options.get("ui_message_id") or run.public_id,
            links=Links(base_url=settings.GATEWAY_URL, run_id=run.public_id),
            locale=work.language,
            client_tools=acceptance.tool_names(run),
        )
        return adapter.UiStreamAdapter(config)

    def encode(self, number: int, frame: adapter.Frame) -> bytes:
        """Encode a chunk with its number."""
        return b"id: %d\n" % number + adapter.encode(frame)

    def headers_of(self, work: Work) -> http.Headers:
        """Return the headers of a stream."""
        return {**adapter.HEADERS, "X-Run-Id": work.run.public_id}

    def farewell(self, work: Work) -> bytes:
        """Return the last chunks of a stream whose process is stopped."""
        name = work.run.public_id
        text = f"{event_stream.RESTARTS} Reload to see the rest of the answer ({name})."
        return adapter.encode({"type": "error", "errorText": text}) + adapter.encode(adapter.DONE)

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request: in a sentence, which ``useChat`` shows; in the shape of
        ``/inbound`` to a client that accepts JSON.
        """
        if "application/json" in self.request.header("accept"):
            await super().refuse(error)
        else:
            await self.answer_text(error.status, str(error), error.headers)


class Chat(UiEndpoint):
    """``POST /ui/chat``: the run as a UI message stream. It goes on when the client leaves."""

    methods = ("POST",)
    takes_json = True

    async def check_head(self) -> None:
        """Check as every endpoint does, and whether the gateway is busy."""
        admit_head()
        await super().check_head()
        admit_message(self.caller)

    async def handle(self, body: bytes) -> None:
        """Accept a message, and answer its run."""
        asked = fields.read(http.parse_object(body))
        # Before anything is stored: a refused stream must not leave a run behind.
        with slot(self.caller):
            await chat_messages.fetch_pictures(asked.messages)
            receipt = await in_thread(accept, self.user, asked, self.caller.key_id)
            await self.stream_run(work_of(receipt.run, language=self.request.language()))


class Resume(UiEndpoint):
    """``GET /ui/chat/<chat>/stream``: the open run from its beginning; 204 when there is none."""

    methods = ("GET",)

    async def handle(self, body: bytes) -> None:
        """Answer the open run."""
        run = await in_thread(open_run, self.user, self.chat_id)
        if run is None:
            await self.send_response(204, b"", headers=http.encoded({}))
            return
        with slot(self.caller):
            work = work_of(run, language=self.request.language())
            await self.stream_run(work, seen=self.seen())


class Stop(UiEndpoint):
    """``POST /ui/chat/<chat>/stop``: ask the open run to end; its partial answer is kept."""

    methods = ("POST",)

    async def handle(self, body: bytes) -> None:
        """Ask the open run to end."""
        asked = await in_thread(stop_run, self.user, self.chat_id)
        await self.answer(200, {"ok": True, "status": 200, "cancelled": asked})


def accept(user: User, asked: fields.Asked, key: int) -> Receipt:
    """Put the message into the inbox; ``key``: that of the API key that was used."""
    text = chat_messages.last_said(asked.messages)
    documents = chat_messages.take_files(asked.messages)
    options: dict[str, Any] = {"tools": asked.tools, "ui_message_id": asked.message_id}
    if asked.history:
        options["messages"] = asked.messages
    mine = inbox.own_session(user=user, session_id=asked.chat)
    draft = Draft(
        account=builtin_account(ORIGIN),
        chat=f"chat:{asked.chat}",
        text=text,
        media=[
            {"kind": "image", "url": part["image_url"]["url"]}
            for part in chat_messages.parts_with_pictures(asked.messages[-1])
        ]
        + documents,
        options=options,
        via_key=key,
        wanted=asked.wanted,
    )
    session_id = mine.public_id if mine else ""
    return receive_personal(
        user=user, draft=draft, session_id=session_id, now=timezone.now(), origin=ORIGIN
    )


def session_of(user: User, chat_id: str) -> ChatSession | None:
    """Return the user's session for a chat id: its public id, or the client's own name."""
    mine = inbox.own_session(user=user, session_id=chat_id)
    named = ChatSession.objects.filter(
        user=user, account=builtin_account(ORIGIN), chat=f"chat:{chat_id}", closed_at__isnull=True
    )
    return mine or named.first()


def open_run(user: User, chat_id: str) -> Run | None:
    """Return the oldest run of a chat that has not ended."""
    session = session_of(user, chat_id)
    return runs.open_of([session.id]).get(session.id) if session else None


def stop_run(user: User, chat_id: str) -> bool:
    """Cancel the open run of a chat; return whether there was one."""
    run = open_run(user, chat_id)
    return run is not None and runs.request_cancel(run=run)


def work_of(run: Run | None, *, language: str) -> Work:
    """Return the run to stream; it goes on when the client leaves. Raises RefusedError 404 when its
    session was closed meanwhile.
    """
    if run is None:
        raise RefusedError(404, "This chat does not exist.", field="id")
    return Work(run=run, language=language)

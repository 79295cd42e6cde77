"""``POST /ui/chat``, its resume and its stop, for clients of the UI message stream."""

from urllib.parse import quote

from django.utils import timezone

from channels_app.asgi import chat_messages, event_stream, http
from channels_app.asgi.authentication import slot
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.client_api import acceptance, chats, tool_questions
from channels_app.client_api.acceptance import Ask, Said, Work
from channels_app.client_api.chats import ChatEndpoint
from channels_app.client_api.run_adapter import DONE, encode
from channels_app.client_api.run_endpoint import Accepting
from channels_app.client_api.tool_questions import Resumed
from channels_app.client_api.ui_stream import adapter, fields
from channels_app.intake.inbound import Receipt
from channels_app.tool_requests import deciding
from core.database.transactions import in_thread
from core.models import Run, RunOptions

ORIGIN = "ui"
# The header by which assistant-ui finds a stream again: the rest of its address after /ui/chat/,
# with its run, which may have ended meanwhile.
STREAM_ID = "X-Resumable-Stream-Id"


class UiEndpoint(ChatEndpoint[adapter.Frame]):
    """An endpoint of this interface."""

    # The answer goes on in the client's message that has the calls of the paused run.
    continues = False
    encoded = staticmethod(encode)

    @property
    def chat_id(self) -> str:
        """Return the id of the chat in ``/ui/chat/<chat>/…``. Raises RefusedError 400."""
        return chats.checked_id(self.scope["url_route"]["kwargs"]["chat"])

    def adapter_of(self, work: Work) -> adapter.UiStreamAdapter:
        run = work.run
        config = adapter.Config(
            **acceptance.facts_of(work),
            message_id=run.options.get("ui_message_id") or run.public_id,
            before=self.before,
            continues=self.continues,
        )
        return adapter.UiStreamAdapter(config)

    def headers_of(self, work: Work) -> http.Headers:
        return {**adapter.HEADERS, "X-Run-Id": work.run.public_id}

    def farewell(self, work: Work) -> bytes:
        name = work.run.public_id
        text = f"{event_stream.RESTARTS} Reload to see the rest of the answer ({name})."
        return encode({"type": "error", "errorText": text}) + encode(DONE)

    async def refuse(self, error: RefusedError) -> None:
        """Refuse with a sentence for ``useChat``, or with JSON if the client accepts that."""
        if "application/json" in self.request.header("accept"):
            await super().refuse(error)
        else:
            await self.answer_text(error.status, str(error), error.headers)


class Chat(Accepting, UiEndpoint):
    """``POST /ui/chat``: the run as a UI message stream. It goes on when the client leaves."""

    chat = ""

    def headers_of(self, work: Work) -> http.Headers:
        """Return the headers of a stream, with the address at which it goes on."""
        stream = f"{quote(self.chat, safe='')}/stream?run_id={work.run.public_id}"
        return {**super().headers_of(work), STREAM_ID: stream}

    async def handle(self, body: bytes) -> None:
        """Accept a message, or answers to questions; then answer the run."""
        asked = fields.read(chat_messages.parse_body(body))
        self.chat = asked.chat
        # Before anything is stored: a refused stream must not leave a run behind.
        with slot(self.caller):
            if asked.answers:
                resumed = await in_thread(answer, self.caller, asked)
                if resumed is not None:
                    await self.go_on(asked, resumed)
                    return
            await chat_messages.fetch_pictures(asked.messages)
            receipt = await in_thread(accept, self.caller, asked)
            if receipt.run is None:  # its session was closed meanwhile
                raise RefusedError(404, "This chat does not exist.", field="id")
            await self.stream_run(Work(run=receipt.run, language=self.request.language()))

    async def go_on(self, asked: fields.Asked, resumed: Resumed) -> None:
        """Answer the run that goes on, or what is still open."""
        if resumed.run is not None:
            self.continues = True
            await self.learn(resumed.run)
            await self.stream_run(Work(run=resumed.run, language=self.request.language()))
            return
        frames = adapter.waiting(asked.message_id, resumed.open)
        for outcome in sorted(set(resumed.problems.values())):
            frames[-2:] = [{"type": "error", "errorText": deciding.TEXTS[outcome]}, DONE]
        await self.stream_frames(frames, adapter.HEADERS)


class Resume(UiEndpoint):
    """``GET /ui/chat/<chat>/stream``: the open run from its beginning, or the run of
    ``Last-Event-ID`` from after it; 204 when there is none. ``run_id``: that run instead.
    """

    methods = ("GET",)

    async def handle(self, body: bytes) -> None:
        seen, name = self.last_seen(), self.request.query("run_id")
        rest = await in_thread(
            chats.run_to_resume, self.user, ORIGIN, self.chat_id, name=name, seen=seen
        )
        if rest is None:
            await self.send_response(204, b"", headers=http.encoded({}))
            return
        with slot(self.caller):
            await self.begin(rest.run, rest.seen)
            number, run = rest.seen, rest.run
            if rest.next is not None and await self.is_whole(run, number):
                number, run = 0, rest.next
                await self.begin(run, number)
            await self.stream_run(Work(run=run, language=self.request.language()), seen=number)

    async def begin(self, run: Run, seen: int) -> None:
        """Look up what the frames of a run depend on."""
        self.continues = bool(seen) and bool(run.options.get("ui_continues"))
        await self.learn(run)


class Stop(UiEndpoint):
    """``POST /ui/chat/<chat>/stop``: ask the open run to end; its partial answer is kept."""

    methods = ("POST",)

    async def handle(self, body: bytes) -> None:
        """Ask the open run to end."""
        await self.answer_stop(ORIGIN, self.chat_id)


def accept(caller: Principal, asked: fields.Asked) -> Receipt:
    """Put the message into the inbox. Raises RefusedError."""
    context: RunOptions = {"client_context": asked.system} if asked.system else {}
    ask = Ask(
        model="",
        messages=asked.messages or fields.checked([]),
        sends_history=asked.history,
        tools=asked.tools,
        more={"ui_message_id": asked.message_id, **context},
    )
    return chats.accept(caller, Said.of(ask), origin=ORIGIN, chat=asked.chat, wanted=asked.wanted)


def answer(caller: Principal, asked: fields.Asked) -> Resumed | None:
    """Decide the questions that a request answers; None if they are not of this chat."""
    session = chats.session_of(caller.person, ORIGIN, asked.chat)
    if session is None:
        return None
    rows = tool_questions.found([each.id for each in asked.answers], session)
    if not rows:
        return None
    answers = [each for each in asked.answers if each.id in rows]
    more: RunOptions = {"ui_message_id": asked.message_id, "ui_continues": True}
    return tool_questions.answer(rows, answers, caller=caller, now=timezone.now(), more=more)

"""Chats of clients that name their conversations themselves: ``/ui/chat`` and ``/ag-ui``.

A chat is one of the person's own sessions, by its public id, or a name of the client's choice.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from django.utils import timezone

from allowlist.models import ApiKey
from channels_app.asgi import fields
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.asgi.chat_messages import refused
from channels_app.asgi.http import Headers, RefusedError
from channels_app.asgi.principal import Principal
from channels_app.client_api import tool_questions
from channels_app.client_api.acceptance import Said, Work
from channels_app.client_api.run_adapter import Numbered, RunAdapter, after
from channels_app.client_api.run_endpoint import RunEndpoint, number_of
from channels_app.client_api.tool_questions import AskingAdapter
from channels_app.intake.inbound import Receipt, receive_personal
from channels_app.rendering import follow_run
from core.conversations import events, inbox, runs
from core.conversations.assistants import Wanted
from core.conversations.inbox import Draft, RepeatKey
from core.database.transactions import in_thread
from core.lib.ids import is_public_id
from core.messages import MessageDict
from core.models import ChatSession, Run, User

Frame = TypeVar("Frame")
LAST_EVENT = "Last-Event-ID"


@dataclass(frozen=True, slots=True)
class Seen:
    """The last frame that a client has: of the run with the public id ``run_id``; empty in a bare
    number, which counts for a run that the request names.
    """

    run_id: str = ""
    number: int = 0

    @classmethod
    def of(cls, value: str) -> "Seen":
        """Read ``<run id>.<number>``. Raises RefusedError 400."""
        run_id, _, number = value.rpartition(".")
        if run_id and not is_public_id(run_id):
            raise RefusedError(400, f"{LAST_EVENT} must be the id of an event.", field=LAST_EVENT)
        return cls(run_id, number_of(number, LAST_EVENT))

    def in_run(self, run: Run) -> int:
        """Return the number in ``run``, which the request names; 0 if it is another run's."""
        return self.number if self.run_id in ("", run.public_id) else 0


class ChatEndpoint(RunEndpoint[Frame]):
    """An endpoint of such an interface: a personal key with the scope ``chat``."""

    key_scope = ApiKey.Scope.CHAT
    waits_for_text = False
    user: User
    before = tool_questions.Before()
    # The public id of the run that is followed: numbers of frames are bound to it.
    run_id = ""

    async def check_head(self) -> None:
        """Check as every endpoint does. Raises RefusedError 403 for the key of a bridge."""
        await super().check_head()
        if self.caller.user is None:
            raise RefusedError(403, "This endpoint needs a personal key.")
        self.user = self.caller.user

    @abstractmethod
    def encoded(self, frame: Frame) -> bytes:
        """Return a frame as a server-sent event without an id."""

    def encode(self, number: int, frame: Frame) -> bytes:
        """Return a frame of the run that is followed, with its id."""
        return b"id: %s.%d\n" % (self.run_id.encode(), number) + self.encoded(frame)

    async def stream_frames(self, frames: Iterable[Frame], headers: Headers) -> None:
        """Answer with frames that belong to no run."""

        async def blocks() -> AsyncGenerator[bytes, None]:
            for frame in frames:
                yield self.encoded(frame)

        await self.stream(blocks(), headers=headers, farewell=b"")

    async def answer_stop(self, origin: str, chat: str) -> None:
        """Ask the open run of a chat to end, and answer whether there was one."""
        asked = await in_thread(stop_run, self.user, origin, chat)
        await self.answer(200, {"ok": True, "status": 200, "cancelled": asked})

    def last_seen(self) -> Seen:
        """Return the last frame that the client has. Raises RefusedError 400."""
        return Seen.of(self.request.header("last-event-id"))

    async def stream_run(self, work: Work, *, seen: int = 0) -> None:
        """Answer the run as a stream; the ids of its frames name it."""
        self.run_id = work.run.public_id
        await super().stream_run(work, seen=seen)

    async def is_whole(self, run: Run, seen: int) -> bool:
        """Return whether a client which has an ended run's frames up to ``seen`` has all."""
        adapter = self.adapter_of(Work(run=run, language=self.request.language()))
        adapter.opened()
        async with aclosing(self.log_of(Work(run=run, language=""), adapter)) as log:
            async for event in log:
                if event is not None:
                    adapter.numbered(event)
        return adapter.number <= seen

    async def learn(self, run: Run) -> None:
        """Look up what the frames of a run depend on besides its log."""
        self.before = await in_thread(tool_questions.before, run)

    async def opened(self, adapter: RunAdapter[Frame], seen: int) -> AsyncGenerator[bytes, None]:
        """Yield the first frames, before the log begins: a run may wait for its turn."""
        for number, frame in after(adapter, adapter.opened(), seen):
            yield self.encode(number, frame)

    async def blocks(
        self,
        log: follow_run.Log,
        adapter: RunAdapter[Frame],
        opening: Numbered[Frame],
        seen: int,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the frames as server-sent events."""
        async for block in self.opened(adapter, seen):
            yield block
        async for block in super().blocks(log, adapter, opening, seen):
            yield block

    async def log_of(
        self, work: Work, adapter: RunAdapter[Frame], *, is_cut: bool = False
    ) -> AsyncGenerator[MessageDict | None, None]:
        """Yield the events of a run; at its end the adapter knows its questions."""
        async with aclosing(follow_run.follow(work.run, with_lost=is_cut)) as log:
            async for event in log:
                if event is not None and events.ends(event):
                    assert isinstance(adapter, AskingAdapter)  # noqa: S101 - by adapter_of
                    adapter.questions = await in_thread(
                        tool_questions.of_run, work.run, self.caller
                    )
                yield event


def checked_id(value: Any, *, field: str = "id") -> str:
    """Check the id of a chat, which the client chose. Raises RefusedError 400."""
    if not isinstance(value, str) or not 0 < len(value) <= fields.MAX_CHAT_ID:
        raise refused(f"must be a string of 1 to {fields.MAX_CHAT_ID} characters", field)
    if not (value.isascii() and value.isprintable()):
        raise refused("must be printable ASCII", field)
    return value


def accept(
    caller: Principal,
    said: Said,
    *,
    origin: str,
    chat: str,
    wanted: Wanted | None,
    repeat: RepeatKey | None = None,
) -> Receipt:
    """Put a message into the inbox. ``origin``: the built-in channel. Raises RefusedError."""
    user = caller.person
    mine = inbox.own_session(user=user, session_id=chat)
    draft = Draft(
        account=builtin_account(origin),
        chat=f"chat:{chat}",
        repeat=repeat,
        text=said.text,
        media=said.media,
        options=said.options,
        via_key=caller.key_id,
        wanted=wanted,
    )
    session_id = mine.public_id if mine else ""
    return receive_personal(
        user=user, draft=draft, session_id=session_id, now=timezone.now(), origin=origin
    )


def session_of(user: User, origin: str, chat: str) -> ChatSession | None:
    """Return the user's session for a chat: by its public id, or the client's own name."""
    mine = inbox.own_session(user=user, session_id=chat)
    named = ChatSession.objects.filter(
        user=user, account=builtin_account(origin), chat=f"chat:{chat}", closed_at__isnull=True
    )
    return mine or named.first()


@dataclass(frozen=True, slots=True)
class Cut:
    """The run that a cut stream goes on with, from after the frame ``seen``. ``next``: the run that
    goes on with it, for a client that has all of it.
    """

    run: Run
    seen: int
    next: Run | None = None


def run_to_resume(user: User, origin: str, chat: str, *, name: str, seen: Seen) -> Cut | None:
    """Return the run that a cut stream goes on with: see :func:`rest_of`; ``name``: its public id.
    None when there is none. Raises RefusedError 404 for a name that is not of this chat.
    """
    session = session_of(user, origin, chat)
    named = None
    if name:
        rows = Run.objects.filter(session=session, public_id=name)
        named = rows.first() if session is not None and is_public_id(name) else None
        if named is None:
            raise RefusedError(404, "This run does not exist.", field="run_id")
    return rest_of(session, seen, named) if session is not None else None


def rest_of(session: ChatSession, seen: Seen, named: Run | None) -> Cut | None:
    """Return the run that a cut stream goes on with: the one that the request names, else that of
    the last frame which was ``seen``, else the open one, else, for a client that has seen
    something, the newest.
    """
    if named is not None:
        return Cut(named, seen.in_run(named))
    own = Run.objects.filter(session=session)
    if seen.run_id and (run := own.filter(public_id=seen.run_id).first()):
        return Cut(run, seen.number, tool_questions.follower(run.pk))
    last = runs.open_of([session.pk]).get(session.pk)
    if last is None and seen.number:
        last = own.order_by("-id").first()
    return Cut(last, 0) if last is not None else None


def stop_run(user: User, origin: str, chat: str) -> bool:
    """Cancel the oldest open run of a chat; return whether there was one."""
    session = session_of(user, origin, chat)
    run = runs.open_of([session.id]).get(session.id) if session else None
    return run is not None and runs.request_cancel(run=run)

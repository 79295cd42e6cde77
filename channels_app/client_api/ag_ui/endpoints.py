"""``POST /ag-ui``, and reconnecting to and stopping a run, for clients of AG-UI."""

from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

from channels_app.asgi import chat_messages, event_stream, http
from channels_app.asgi.authentication import slot
from channels_app.asgi.http import RefusedError
from channels_app.client_api import acceptance, chats
from channels_app.client_api.acceptance import Work
from channels_app.client_api.ag_ui import adapter, fields, resuming, threads
from channels_app.client_api.ag_ui.threads import ORIGIN
from channels_app.client_api.chats import ChatEndpoint, Seen
from channels_app.client_api.run_adapter import RunAdapter, encode
from channels_app.client_api.run_endpoint import Accepting
from core.database.transactions import in_thread
from core.models import Run


class AgUiEndpoint(ChatEndpoint[adapter.Frame]):
    """An endpoint of this protocol. ``thread``, ``name`` and ``state`` are of the client's
    request: its ids of the conversation and of the run.
    """

    thread = ""
    name = ""
    state: object = None
    encoded = staticmethod(encode)

    @property
    def thread_id(self) -> str:
        """Return the id of the thread in the path. Raises RefusedError 400."""
        given = self.scope["url_route"]["kwargs"]["thread"]
        return chats.checked_id(given, field="threadId")

    def config_of(self, **facts: Any) -> adapter.Config:
        """Return the ids of a stream; ``facts`` of its run, if one is followed."""
        ids = {"thread": self.thread, "name": self.name, "state": self.state}
        return adapter.Config(**{"locale": self.request.language(), **ids, **facts})

    def adapter_of(self, work: Work) -> adapter.AgUiAdapter:
        config = self.config_of(**acceptance.facts_of(work), before=self.before)
        return adapter.AgUiAdapter(config)

    def headers_of(self, work: Work) -> http.Headers:
        return {"X-Run-Id": work.run.public_id}

    def farewell(self, work: Work) -> bytes:
        return encode(adapter.error(event_stream.RESTARTS, "restarting"))

    async def follow(self, run: Run, *, seen: int = 0) -> None:
        """Answer a run; it goes on when the client leaves."""
        await self.learn(run)
        await self.stream_run(Work(run=run, language=self.request.language()), seen=seen)


class Runs(Accepting, AgUiEndpoint):
    """``POST /ag-ui``: the run as events. The same ``runId`` again is the same run."""

    async def handle(self, body: bytes) -> None:
        """Accept a message, or answers to questions, and answer the run that comes of it."""
        asked, seen = fields.read(chat_messages.parse_body(body)), self.last_seen()
        self.thread, self.name, self.state = asked.thread, asked.run_id, asked.state
        # Before anything is stored: a refused stream must not leave a run behind.
        with slot(self.caller):
            if problem := await in_thread(resuming.problem_of, self.caller, asked):
                await self.stream_frames([problem], {})
                return
            if asked.resume:
                resumed = await in_thread(resuming.resume, self.caller, asked)
                if resumed.problem or not asked.said:
                    await self.go_on(resumed, seen=seen)
                    return
            await chat_messages.fetch_pictures(asked.messages)
            receipt = await in_thread(threads.accept, self.caller, asked)
            if receipt.run is None:
                raise RefusedError(404, "This thread does not exist.", field="threadId")
            await self.follow(receipt.run, seen=seen.in_run(receipt.run))

    async def go_on(self, resumed: resuming.Outcome, *, seen: Seen) -> None:
        """Answer the run that goes on, or say what is still open."""
        if resumed.problem is not None:
            await self.stream_frames([resumed.problem], {})
        elif resumed.run is not None:
            await self.follow(resumed.run, seen=seen.in_run(resumed.run))
        else:
            stopped: adapter.Frame = {"type": "cancelled"}
            outcome = adapter.interrupted(resumed.open) if resumed.open else stopped
            config = self.config_of()
            frames = [*adapter.beginning(config), adapter.finish(config, outcome)]
            await self.stream_frames(frames, {})


class Connect(AgUiEndpoint):
    """``GET /ag-ui/<thread>/stream``: the messages of a thread, and its open run from its
    beginning; with ``Last-Event-ID`` the rest of a run. ``runId``: that run instead.
    """

    methods = ("GET",)
    snapshot: adapter.Frame

    async def handle(self, body: bytes) -> None:
        """Answer the run; without one, its messages and open questions."""
        self.thread, seen = self.thread_id, self.last_seen()
        name = self.request.query("runId")
        if name:
            fields.checked_run_id({"runId": name})
        with slot(self.caller):
            found = await in_thread(threads.look_up, self.caller, self.thread, name=name, seen=seen)
            if found.rest is not None and found.rest.next is not None:
                await self.learn(found.rest.run)
                if await self.is_whole(found.rest.run, found.rest.seen):
                    later = found.rest.next.public_id
                    look_up = partial(threads.look_up, name=later, seen=Seen())
                    found = await in_thread(look_up, self.caller, self.thread)
            self.name, self.state, self.snapshot = found.name, found.state, found.snapshot
            if found.rest is not None:
                await self.follow(found.rest.run, seen=found.rest.seen)
                return
            config, open_ones = self.config_of(), found.questions
            done: adapter.Frame = {"type": "success"}
            outcome = adapter.interrupted(open_ones) if open_ones else done
            first, *state = adapter.beginning(config)
            frames = [first, self.snapshot, *state, adapter.finish(config, outcome)]
            await self.stream_frames(frames, {})

    async def opened(
        self, adapted: RunAdapter[adapter.Frame], seen: int
    ) -> AsyncGenerator[bytes, None]:
        """Yield the first events, and the messages of the thread."""
        async for block in super().opened(adapted, seen):
            yield block
        if not seen:
            yield self.encode(adapted.number, self.snapshot)


class Stop(AgUiEndpoint):
    """``POST /ag-ui/<thread>/stop``: ask the open run to end; its partial answer is kept."""

    methods = ("POST",)

    async def handle(self, body: bytes) -> None:
        """Ask the open run to end."""
        await self.answer_stop(ORIGIN, self.thread_id)

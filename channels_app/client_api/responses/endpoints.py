"""``/v1/responses``: create, poll, resume, cancel, delete, and the list of a response's input."""

import asyncio
import contextlib
from dataclasses import replace
from typing import Any

from channels_app.asgi import chat_messages, event_stream
from channels_app.asgi.authentication import slot
from channels_app.asgi.chat_messages import Json
from channels_app.asgi.http import RefusedError
from channels_app.client_api import acceptance
from channels_app.client_api.acceptance import Work
from channels_app.client_api.openai import errors
from channels_app.client_api.openai.endpoints import OpenAIEndpoint
from channels_app.client_api.responses import adapter, fields, stored
from channels_app.client_api.responses.reasoning import NotVerifiedError
from channels_app.client_api.run_adapter import Failure
from channels_app.client_api.run_endpoint import InSession, RunEndpoint, number_of, whole_log
from core.conversations import runs
from core.database.transactions import in_thread
from core.messages import MessageDict
from core.models import Run

# How long a request to cancel waits for the end, which comes within 3 s.
CANCEL_SECONDS = 5.0
MOST_ITEMS, USUAL_ITEMS = 100, 20


class ResponseEndpoint(OpenAIEndpoint, RunEndpoint[Json]):
    encode = staticmethod(adapter.encode)

    def adapter_of(self, work: Work) -> adapter.ResponsesAdapter:
        return adapter.ResponsesAdapter(stored.config_of(work))

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request; reasoning that cannot be opened has a code of its own."""
        if not isinstance(error, NotVerifiedError):
            await super().refuse(error)
            return
        found = errors.body(error.status, str(error), param=error.field)
        found["error"]["code"] = error.code
        await self.answer(error.status, found)

    def farewell(self, work: Work) -> bytes:
        """Return the end of a stopped process's stream: a comment, as events have numbers."""
        return f": {event_stream.RESTARTS}\n\n".encode()

    async def whole(self, work: Work, log: list[MessageDict]) -> Json | Failure:
        found = await in_thread(stored.ended, work, log)
        return found.response if found.failure is None else found.failure


class Responses(InSession, ResponseEndpoint):
    """``POST /v1/responses``."""

    async def handle(self, body: bytes) -> None:
        """Accept a request, and answer its run: streamed, whole, or at once (``background``)."""
        data, caller, request = chat_messages.parse_body(body), self.caller, self.request
        asked = fields.read(data)
        seen = self.seen()
        key = acceptance.repeat_key(caller, data, self.session, request.idempotency_key())
        caller.require_sender(asked.user, field="user")
        with slot(caller, sender=asked.user):
            messages, session = await stored.compose(caller, asked)
            asked = replace(
                asked, messages=messages, more=stored.kept_of(asked, request.language())
            )
            await acceptance.prepare(caller, asked)
            work = await acceptance.accepted(
                caller,
                asked,
                session=session or self.session,
                repeat=key,
                language=request.language(),
                keep=asked.background,
            )
            self.waits_for_text = not asked.background
            if asked.stream:
                await self.stream_run(work, seen=seen if work.keep else 0)
            elif asked.background:
                await self.answer(200, await stored.current(work), work.headers)
            else:
                await self.answer_run(work)


class StoredEndpoint(ResponseEndpoint):
    waits_for_text = False

    async def own_run(self) -> Run:
        """Return the run of the response in the address. Raises RefusedError 404."""
        name = self.scope["url_route"]["kwargs"]["response"]
        return await in_thread(stored.find, self.caller, name)

    async def stopped(self) -> Run:
        """Return the run after it was asked to end; it has, unless that takes too long."""
        run = await self.own_run()
        if await in_thread(runs.request_cancel, run=run):
            with contextlib.suppress(TimeoutError):  # no worker has it: it ends when one does
                async with asyncio.timeout(CANCEL_SECONDS):
                    await whole_log(stored.work_of(run))
            run = await self.own_run()
        return run

    async def answer_current(self, run: Run) -> None:
        work = stored.work_of(run)
        await self.answer(200, await stored.current(work), work.headers)


class Response(StoredEndpoint):
    """``GET`` and ``DELETE /v1/responses/<id>``."""

    methods = ("GET", "DELETE")

    async def handle(self, body: bytes) -> None:
        """Answer the response, or with ``stream=true`` its events after ``starting_after``.

        ``include`` may ask for encrypted reasoning, as it may when the response is created.
        """
        if self.request.method == "DELETE":
            run = await self.stopped()
            await in_thread(stored.delete, run)
            found = {"id": stored.id_of(run), "object": "response", "deleted": True}
            await self.answer(200, found)
            return
        request = self.request
        given = [*request.queries("include[]"), *request.queries("include")]
        encrypts = fields.include(given)
        run = await self.own_run()
        if encrypts:
            run.options["response"]["encrypts"] = True  # of this copy: nothing is stored
        if request.query("stream") == "true":
            seen = number_of(request.query("starting_after"), "starting_after") or self.seen()
            with slot(self.caller, sender=run.session.chat):
                await self.stream_run(stored.work_of(run), seen=seen)
        else:
            await self.answer_current(run)


class Cancel(StoredEndpoint):
    """``POST /v1/responses/<id>/cancel``: stop it; the partial output is kept."""

    methods = ("POST",)

    async def handle(self, body: bytes) -> None:
        """Ask the run to end, and wait for it."""
        await self.answer_current(await self.stopped())


class InputItems(StoredEndpoint):
    """``GET /v1/responses/<id>/input_items``."""

    methods = ("GET",)

    async def handle(self, body: bytes) -> None:
        """Answer one page of the items."""
        order, after = self.request.query("order") or "desc", self.request.query("after")
        if order not in ("asc", "desc"):
            raise RefusedError(400, "order must be asc or desc.", field="order")
        limit = number_of(self.request.query("limit"), "limit") or USUAL_ITEMS
        if limit > MOST_ITEMS:
            raise RefusedError(400, f"limit must be at most {MOST_ITEMS}.", field="limit")
        items = await in_thread(stored.given_items, await self.own_run())
        await self.answer(200, page(items if order == "asc" else items[::-1], after, limit))


def page(items: list[dict[str, Any]], after: str, limit: int) -> dict[str, Any]:
    """Return a page of ``items``: those after the id ``after``. Raises RefusedError 404."""
    names = [each["id"] for each in items]
    if after and after not in names:
        raise RefusedError(404, "There is no such item.", field="after")
    start = names.index(after) + 1 if after else 0
    shown = items[start : start + limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else "",
        "last_id": shown[-1]["id"] if shown else "",
        "has_more": start + limit < len(items),
    }

"""``POST /v1/messages`` and what belongs to it, as Anthropic's clients expect them."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from allowlist.models import ApiKey
from channels_app.asgi import chat_messages
from channels_app.asgi.admission import BusyError
from channels_app.asgi.consumer import Endpoint
from channels_app.asgi.http import Headers, RefusedError
from channels_app.client_api import acceptance, failures, models
from channels_app.client_api.acceptance import Work
from channels_app.client_api.anthropic import adapter, errors, fields
from channels_app.client_api.openai.endpoints import nothing_at
from channels_app.client_api.run_adapter import Failure
from channels_app.client_api.run_endpoint import HistoryEndpoint, goes_on
from core.database.transactions import in_thread
from core.lib.ids import public_id
from core.lib.text import is_number
from core.messages import MessageDict

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
MAX_SENDER = 256  # characters, of a bridge
USUAL_PAGE, MOST_PAGE = 20, 1000


class AnthropicEndpoint(Endpoint):
    """An endpoint of the Messages API: needs a key with the scope ``chat``; errors in Anthropic's
    shape. Every answer has an id in the header ``request-id``.
    """

    key_scope = ApiKey.Scope.CHAT
    request_id = ""

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request; a busy gateway is 529, which clients repeat."""
        status = errors.OVERLOADED if isinstance(error, BusyError) else error.status
        rates = errors.rates(error.headers) if status == 429 else {}
        name = self.name_request()
        body = errors.body(status, str(error), request_id=name, field=error.field)
        await self.answer(status, body, {**rates, **error.headers, "request-id": name})

    def name_request(self) -> str:
        self.request_id = self.request_id or f"req_{public_id()}"
        return self.request_id


class Messages(HistoryEndpoint[adapter.Frame], AnthropicEndpoint):
    """``POST /v1/messages``."""

    heartbeat = PING
    asked: fields.Asked
    encoded = staticmethod(adapter.encode)

    async def handle(self, body: bytes) -> None:
        """Accept a request, and answer its run."""
        data = chat_messages.parse_body(body)
        self.asked = fields.read(data)
        if self.caller.user is None and len(self.asked.user) > MAX_SENDER:
            text = f"metadata.user_id is longer than {MAX_SENDER} characters."
            raise RefusedError(400, text, field="metadata.user_id")
        await self.accept(data, self.asked, sender="metadata.user_id")

    def adapter_of(self, work: Work) -> adapter.AnthropicAdapter:
        config = config_of(work, self.asked)
        estimated = fields.tokens(self.asked)
        return adapter.AnthropicAdapter(replace(config, prompt_tokens=estimated))

    def farewell(self, work: Work) -> bytes:
        body = errors.body(errors.OVERLOADED, goes_on(work), request_id=work.run.public_id)
        return adapter.encode(body)

    def headers_of(self, work: Work) -> Headers:
        """Return the headers of an answer; the id of the request is that of its run."""
        return {**work.headers, "request-id": work.run.public_id}

    async def answer_failure(self, work: Work, failure: Failure) -> None:
        headers = {**self.headers_of(work), **failures.headers_of(failure, errors.rates)}
        body = adapter.error_of(failure, request_id=work.run.public_id)
        await self.answer(errors.status_of(failure), body, headers)

    async def whole(self, work: Work, log: list[MessageDict]) -> adapter.Frame | Failure:
        return adapter.message(log, config_of(work, self.asked))


def config_of(work: Work, asked: fields.Asked) -> adapter.Config:
    facts = acceptance.facts_of(work)
    return adapter.Config(**facts, model=asked.model, shows_thinking=asked.shows_thinking)


class CountTokens(AnthropicEndpoint):
    """``POST /v1/messages/count_tokens``: an estimate, without a call of a model."""

    methods = ("POST",)
    takes_json = True

    async def handle(self, body: bytes) -> None:
        """Answer the tokens of a request that is not made."""
        asked = fields.read(chat_messages.parse_body(body), counts=True)
        await in_thread(models.named, self.caller, asked.model)
        headers = {"request-id": self.name_request()}
        await self.answer(200, {"input_tokens": fields.tokens(asked)}, headers)


class Models(AnthropicEndpoint):
    """``GET /v1/models`` of a request with the header ``anthropic-version``."""

    methods = ("GET", "HEAD")

    async def handle(self, body: bytes) -> None:
        """Answer the list, or the page of it that is asked for."""
        every = [model_of(each) for each in await in_thread(models.listed, self.caller)]
        page, has_more = self.page(every)
        found = {
            "data": page,
            "has_more": has_more,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
        }
        await self.answer(200, found, {"request-id": self.name_request()})

    def page(self, every: list[dict[str, str]]) -> tuple[list[dict[str, str]], bool]:
        """Return the entries of a page, and whether there are more in its direction."""
        limit, names = limit_of(self.request.query("limit")), [each["id"] for each in every]
        after, before = self.request.query("after_id"), self.request.query("before_id")
        start = names.index(after) + 1 if after in names else 0
        if before in names:
            end = names.index(before)
            return every[max(end - limit, 0) : end], end > limit
        return every[start : start + limit], len(every) > start + limit


class OneModel(AnthropicEndpoint):
    """``GET /v1/models/<name>`` of a request with the header ``anthropic-version``."""

    methods = ("GET", "HEAD")

    async def handle(self, body: bytes) -> None:
        name = self.scope["url_route"]["kwargs"]["name"]
        found = await in_thread(models.named, self.caller, name)
        await self.answer(200, model_of(found), {"request-id": self.name_request()})


def limit_of(given: str) -> int:
    """Return the size of a page that a client asks for. Raises RefusedError 400."""
    if not given:
        return USUAL_PAGE
    if not (is_number(given) and 1 <= int(given) <= MOST_PAGE):
        text = f"limit must be a whole number from 1 to {MOST_PAGE}."
        raise RefusedError(400, text, field="limit")
    return int(given)


def model_of(entry: dict[str, Any]) -> dict[str, str]:
    """Return an entry of the list of models in Anthropic's form."""
    made = datetime.fromtimestamp(entry["created"], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = entry["id"]
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": made,
        "lifecycle": "active",
    }


class Unknown(AnthropicEndpoint):
    """Any other address under ``/v1/messages``, and of a request with ``anthropic-version``."""

    async def check_head(self) -> None:
        """Answer 404, also without a key."""
        raise nothing_at(self.request)

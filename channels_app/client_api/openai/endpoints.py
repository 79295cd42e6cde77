"""``POST /v1/chat/completions`` and ``GET /v1/models`` as OpenAI's clients expect them ([D5])."""

from django.conf import settings

from allowlist.models import ApiKey
from channels_app.asgi import chat_messages, http
from channels_app.asgi.admission import BusyError
from channels_app.asgi.consumer import Endpoint
from channels_app.asgi.http import RefusedError
from channels_app.client_api import acceptance, failures, models
from channels_app.client_api.acceptance import Work
from channels_app.client_api.openai import adapter, errors, fields
from channels_app.client_api.openai.completion import completion
from channels_app.client_api.run_adapter import DONE, Failure, encode
from channels_app.client_api.run_endpoint import HistoryEndpoint, goes_on
from core.database.transactions import in_thread
from core.messages import MessageDict
from core.models import ChannelAccount

# Of all protocols under /v1.
PLACES = (
    *("chat/completions", "responses", "messages", "messages/count_tokens", "models", "embeddings"),
    *("audio/speech", "audio/transcriptions", "audio/translations"),
)
# Steps of base URLs that people write: of a call, with two slashes, of other vendors.
BASES = frozenset(
    {"v1", "", "api", "openai", *(step for each in PLACES for step in each.split("/"))}
)


class OpenAIEndpoint(Endpoint):
    """An endpoint under ``/v1``: needs a key with the scope ``chat``; errors in OpenAI's shape."""

    key_scope = ApiKey.Scope.CHAT

    async def refuse(self, error: RefusedError) -> None:
        """Answer a refused request; a busy gateway is 429, which clients of the API repeat."""
        status = 429 if isinstance(error, BusyError) else error.status
        param = "" if error.field == "body" else error.field
        rates = failures.rates(error.headers) if status == 429 else {}
        body = errors.body(status, str(error), param=param)
        await self.answer(status, body, {**rates, **error.headers})

    async def answer_failure(self, work: Work, failure: Failure) -> None:
        """Answer a failed run with its error."""
        headers = {**work.headers, **failures.headers_of(failure)}
        await self.answer(failures.status_of(failure), adapter.error_of(failure), headers)


class ChatCompletions(OpenAIEndpoint, HistoryEndpoint[adapter.Frame]):
    """``POST /v1/chat/completions``."""

    asked: fields.Asked
    encoded = staticmethod(encode)

    async def handle(self, body: bytes) -> None:
        """Accept a request, and answer its run."""
        data = chat_messages.parse_body(body)
        self.asked = fields.read(data, keeps_system=self.caller.model_only)
        await self.accept(data, self.asked, sender="user")

    def adapter_of(self, work: Work) -> adapter.OpenAIAdapter:
        return adapter.OpenAIAdapter(config_of(work, self.asked))

    def farewell(self, work: Work) -> bytes:
        return encode(errors.body(503, goes_on(work))) + encode(DONE)

    async def whole(self, work: Work, log: list[MessageDict]) -> adapter.Json | Failure:
        return completion(log, config_of(work, self.asked))


def config_of(work: Work, asked: fields.Asked) -> adapter.Config:
    return adapter.Config(
        **acceptance.facts_of(work),
        completion_id=f"chatcmpl-{work.run.public_id}",
        model=asked.model,
        trace_link=trace_link(work.account),
        include_usage=asked.include_usage,
    )


def trace_link(account: ChannelAccount | None) -> adapter.TraceLink:
    """Return whether answers begin with a link to the trace: by the account, else the setting."""
    config = account.config if account is not None else {}
    word = config.get("trace_link", settings.OPENAI_TRACE_LINK)
    return word if word in ("content", "reasoning") else "off"


class Models(OpenAIEndpoint):
    """``GET /v1/models``."""

    methods = ("GET", "HEAD")

    async def handle(self, body: bytes) -> None:
        data = await in_thread(models.listed, self.caller)
        await self.answer(200, {"object": "list", "data": data})


class Model(OpenAIEndpoint):
    """``GET /v1/models/<name>``; a name may hold slashes."""

    methods = ("GET", "HEAD")

    async def handle(self, body: bytes) -> None:
        name = self.scope["url_route"]["kwargs"]["name"]
        await self.answer(200, await in_thread(models.named, self.caller, name))


class Unknown(OpenAIEndpoint):
    """Any other address under ``/v1``, and an address of the API without it."""

    async def check_head(self) -> None:
        """Answer 404, also without a key."""
        raise nothing_at(self.request)


def nothing_at(request: http.Request) -> RefusedError:
    """Return the refusal of an address that is none."""
    return RefusedError(404, f"There is no {request.method} here. {meant(request.path)}".rstrip())


def meant(path: str) -> str:
    """Return the address that a client with a wrong base URL means: without ``/v1``, with a slash
    or a call too many, or with the path of another vendor; empty for another address.
    """
    steps = path.strip("/").split("/")
    ends = ("/".join(steps[number:]) for number in range(len(steps)))
    place = next((each for each in ends if each in PLACES), "")
    before = steps[: len(steps) - len(place.split("/"))]
    if place and BASES.issuperset(before):
        return f"The address is /v1/{place}: check the client's base URL."
    if steps[-1] == "completions":
        return "Use /v1/chat/completions: this gateway has no API of plain completions."
    return ""

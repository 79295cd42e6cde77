"""One call of a provider that is passed through: bounded, counted, and without its key.

reserve ─► POST to the provider ─► its answer, piece by piece ─► settle, by the usage in it
"""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field

import aiohttp

from channels_app.asgi.http import ClientGoneError
from channels_app.client_api.passthrough.bodies import Asked
from channels_app.client_api.passthrough.targets import Target
from core.conversations import usage
from core.conversations.usage import RunMeter
from core.database.transactions import in_thread
from core.providers import addresses, registry
from core.providers.base import ModelRequest, ProviderError, Usage
from core.providers.failures import NoStreamError, classify
from core.providers.openai_compatible import FAILURES, body_of, failed, refusal
from core.providers.redaction import without_key

PIECE_BYTES = 64 * 1024
TAIL_BYTES = 4096  # the usage stands at the end
PROMPT = re.compile(rb'(?<!\\)"(?:prompt|input)_tokens"\s*:\s*([0-9]{1,9})')
ANSWER = re.compile(rb'(?<!\\)"(?:completion|output)_tokens"\s*:\s*([0-9]{1,9})')
TYPES = re.compile(
    r"(?:audio/[a-z0-9.+-]+|application/json|text/(?:plain|vtt|event-stream))"
    r"(?: *; *charset=utf-8)?",
    re.IGNORECASE,
)
PAGES = ("text/html", "application/xhtml+xml")


@dataclass(slots=True)
class Call:
    """A call that has begun to answer. ``output``: the estimated tokens of the answer."""

    target: Target
    request: ModelRequest
    meter: RunMeter
    output: int = 0
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    content_type: str = ""
    _response: aiohttp.ClientResponse | None = None
    _tail: bytes = b""
    _failure: str = "stopped"
    _is_reserved: bool = False

    async def begin(self, asked: Asked, path: str) -> None:
        """Reserve, ask, and return when the answer begins. Raises ProviderError."""
        provider = self.target.model.provider
        self.stack.push_async_callback(self.settle)
        await self.meter.reserve(self.target.model, self.request)
        self._is_reserved = True
        try:
            async with asyncio.timeout(provider.first_token_seconds):
                if self.target.is_of_row:
                    await self.stack.enter_async_context(registry.slot_of(provider))
                self._response = await self._post(asked, path)
                if self._response.status != 200 or self._response.content_type in PAGES:
                    raise await self._refusal(self._response)
        except ProviderError as error:
            self._failure = error.code
            raise without_key(error, self.target.server.key) from None
        except FAILURES as error:
            found = failed(error, begun=False)
            self._failure = found.code
            raise without_key(found, self.target.server.key) from None
        kind = self._response.headers.get("Content-Type", "")
        found_type = TYPES.match(kind)
        self.content_type = found_type.group().lower() if found_type else "application/octet-stream"

    async def _post(self, asked: Asked, path: str) -> aiohttp.ClientResponse:
        server = self.target.server
        client = await self.stack.enter_async_context(addresses.session(server.allowed))
        data, headers = asked.payload(self.target.model.name)
        # A redirect would take the key along.
        return await self.stack.enter_async_context(
            client.post(
                f"{server.url}/{path}",
                data=data,
                headers={**headers, **server.headers},
                allow_redirects=False,
            )
        )

    async def _refusal(self, response: aiohttp.ClientResponse) -> ProviderError:
        if response.content_type in PAGES and response.status == 200:
            return ProviderError.of(classify(exception=NoStreamError("a page")))
        return refusal(response, await body_of(response))

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the answer. It is cut off where the provider sends nothing for too long."""
        assert self._response is not None  # noqa: S101 - after begin()
        idle = self.target.model.provider.idle_seconds
        try:
            async with asyncio.timeout(idle) as bound:
                async for piece in self._response.content.iter_chunked(PIECE_BYTES):
                    self._tail = (self._tail + piece)[-TAIL_BYTES:]
                    bound.reschedule(None)
                    yield piece
                    bound.reschedule(asyncio.get_running_loop().time() + idle)
            self._failure = ""
        except FAILURES as error:
            self._failure = failed(error, begun=True).code
            raise CutOffError from None

    async def settle(self) -> None:
        """Store what the call used: by its answer, else estimated."""
        prompt, answer = PROMPT.findall(self._tail), ANSWER.findall(self._tail)
        used = Usage(int(prompt[-1]), int(answer[-1]) if answer else 0) if prompt else None
        if self._is_reserved:
            model, request, failure = self.target.model, self.request, self._failure
            output = self.output if self.content_type else 0  # it was not answered
            self.meter.settled(model, request, usage=used, output_tokens=output, failure=failure)
        storing = asyncio.ensure_future(in_thread(usage.store, self.meter))
        with suppress(asyncio.CancelledError):  # the client left: it is stored all the same
            await asyncio.shield(storing)


class CutOffError(ClientGoneError):
    """The provider's answer broke off, and so does the connection to the client."""


def request_of(asked: Asked, target: Target) -> ModelRequest:
    """Return a request by which budgets measure a call: its texts, and the answer as estimated."""
    messages = [{"role": "user", "content": each} for each in asked.texts]
    return ModelRequest(
        messages, model=target.model.name, options={"max_tokens": max(1, asked.output)}
    )

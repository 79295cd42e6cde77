"""Anthropic and Google through the agent library, with explicit keys and addresses.

The packages of the vendors send by :class:`Transport`: our own client, which checks addresses,
follows no redirect and bounds what a server may send. Importing this module costs 1 to 3 s and 70
to 110 MB; ``vendors.Library`` does it on the first call.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import aiohttp
import httpx2
import orjson
from pydantic_ai.models import Model

from core.lib.safe_fetch import RefusedAddressError
from core.models import ModelProvider
from core.providers.agent_library import AgentLibrary
from core.providers.catalogue import ProviderInfo
from core.providers.checked_transport import CheckedBody, CheckedTransport, as_read_errors
from core.providers.failures import BODY_BYTES, BadStreamError, NoStreamError
from core.providers.openai_compatible import MAX_LINE_BYTES
from core.providers.vendors import allowed_of

PAGES = {"text/html", "application/xhtml+xml"}
TIMEOUT = 24 * 60 * 60.0  # ours are in AgentLibrary
MOST_MODELS = 100
NO_USAGE = {"input_tokens": 0, "output_tokens": 0}


class Transport(CheckedTransport):
    """Sends the requests of a vendor's package."""

    def __init__(self, info: ProviderInfo) -> None:
        super().__init__(allowed_of(info))
        self._body = AnthropicBody if info.kind == ModelProvider.Kind.ANTHROPIC else Body

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return a response whose body is still to be read. Raises httpx2.TransportError."""
        try:
            answer = await self.answer_to(request)
        except RefusedAddressError as error:
            raise httpx2.ConnectError("refused") from error
        wrong = misplaced(answer)
        if wrong is not None:
            answer.close()
            raise httpx2.RemoteProtocolError("no model server") from wrong
        return httpx2.Response(answer.status, headers=answer.raw_headers, stream=self._body(answer))


class Body(CheckedBody):
    """The body of a response: of an error a bounded part, of a stream bounded lines."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async with aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                yield piece

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        left = BODY_BYTES
        unended = 0
        with as_read_errors():
            async for piece in self._answer.content.iter_any():
                if self._answer.status != 200:
                    yield piece[:left]
                    left -= len(piece)
                    if left <= 0:
                        return
                    continue
                end = piece.rfind(b"\n")
                unended = unended + len(piece) if end < 0 else len(piece) - end
                if unended > MAX_LINE_BYTES:
                    problem = BadStreamError("a line is too long")
                    raise httpx2.RemoteProtocolError("too long") from problem
                yield piece


class AnthropicBody(Body):
    """A stream to which is added what some compatible servers leave out, and the package needs."""

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        rest, is_named = b"", False
        async with aclosing(super().pieces()) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for number, line in enumerate(lines):
                    lines[number] = completed(line, is_named=is_named) + b"\n"
                    is_named = line.startswith(b"event:") or (is_named and bool(line.strip()))
                yield b"".join(lines)
        yield completed(rest, is_named=is_named)


def completed(line: bytes, *, is_named: bool) -> bytes:
    """Return a line of Anthropic's stream: the data of an event after its name, which the package
    passes over without one, and with a usage, without which it fails. Zeros are no report.
    """
    try:
        event = orjson.loads(line[5:] if line.startswith(b"data:") else b"")
    except ValueError:
        return line
    if not isinstance(event, dict):
        return line
    kind = str(event.get("type", ""))
    holder = {"message_start": event.get("message"), "message_delta": event}.get(kind)
    if isinstance(holder, dict) and not isinstance(holder.get("usage"), dict):
        holder["usage"] = NO_USAGE
        line = b"data: " + orjson.dumps(event)
    return line if is_named else b"event: " + kind.encode() + b"\n" + line


def misplaced(answer: aiohttp.ClientResponse) -> NoStreamError | None:
    """Return why a response cannot be that of a model server; None when it can."""
    if 300 <= answer.status < 400:
        return NoStreamError("The server sends to another address.")
    if answer.status == 200 and answer.content_type in PAGES:
        return NoStreamError("A web page answers.")
    return None


class VendorLibrary(AgentLibrary):
    """Models of one vendor by name, at the address ``url`` with the key of a provider's row."""

    def __init__(self, info: ProviderInfo, *, url: str, key: str) -> None:
        self._client = httpx2.AsyncClient(
            transport=Transport(info),
            timeout=TIMEOUT,
            follow_redirects=False,
            trust_env=False,
        )
        self._make = MAKERS[info.kind](url, key, self._client)
        self._models: dict[str, Model] = {}
        super().__init__(
            self._make("default"),
            first_seconds=info.first_token_seconds,
            idle_seconds=info.idle_seconds,
            keys=[key],
        )

    def model_of(self, name: str) -> Model:
        """Return the model with this name, kept; the default one for an empty name."""
        if not name:
            return super().model_of(name)
        if len(self._models) >= MOST_MODELS:
            self._models.clear()
        return self._models.setdefault(name, self._models.get(name) or self._make(name))

    async def close(self) -> None:
        await self._client.aclose()


def anthropic(url: str, key: str, client: httpx2.AsyncClient) -> Callable[[str], Model]:
    """Return the maker of Anthropic's models."""
    from anthropic import AsyncAnthropic, Omit  # noqa: PLC0415 - one vendor needs not the other's
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415

    # The header of the API's reference: compatible servers know it, but not all know the package's.
    headers: dict[str, Any] = {"X-Api-Key": key, "Authorization": Omit()}
    sdk = AsyncAnthropic(
        api_key=key, base_url=url, http_client=client, max_retries=0, default_headers=headers
    )
    provider = AnthropicProvider(anthropic_client=sdk)
    return lambda name: AnthropicModel(name, provider=provider)


def google(url: str, key: str, client: httpx2.AsyncClient) -> Callable[[str], Model]:
    """Return the maker of Google's models."""
    from pydantic_ai.models.google import GoogleModel  # noqa: PLC0415
    from pydantic_ai.providers.google import GoogleProvider  # noqa: PLC0415

    provider = GoogleProvider(api_key=key, base_url=url, http_client=client)
    return lambda name: GoogleModel(name.removeprefix("models/"), provider=provider)


MAKERS: Mapping[str, Callable[[str, str, httpx2.AsyncClient], Callable[[str], Model]]] = {
    ModelProvider.Kind.ANTHROPIC: anthropic,
    ModelProvider.Kind.GOOGLE: google,
}

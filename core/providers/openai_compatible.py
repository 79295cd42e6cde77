"""Any server that speaks OpenAI's chat completions, over aiohttp and orjson.

The `openai` SDK costs 0.4 ms of CPU a streamed token, this 0.05 (docs/decisions/003-providers.md).
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import orjson

from core import frame_clock
from core.providers.base import (
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)

MAX_LINE_BYTES = 4 * 1024 * 1024
MAX_RETRY_SECONDS = 30.0
AT_ONCE_SECONDS = 0.01  # an answer that comes whole is not held up


class BadStreamError(ValueError):
    """The server's stream is not what the format allows."""


FAILURES = (TimeoutError, aiohttp.ClientError, BadStreamError)


class OpenAICompatible:
    """Streams from ``base_url``/chat/completions. Seconds bound the first token and each pause."""

    def __init__(
        self, *, base_url: str, api_key: str, model: str, first_seconds: float, idle_seconds: float
    ) -> None:
        """No connection is made before the first call."""
        self._url = f"{base_url}/chat/completions"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._model = model
        self._first_seconds = first_seconds
        self._idle_seconds = idle_seconds
        self._session: aiohttp.ClientSession | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """See ``Provider.stream``."""
        reason, begun = "", 0.0
        try:
            async with asyncio.timeout(self._first_seconds) as bound, self._post(request) as answer:
                if answer.status != 200:
                    raise refusal(answer.status, answer.headers.get("Retry-After", ""))
                async for block in blocks(answer):
                    now = asyncio.get_running_loop().time()
                    bound.reschedule(now + self._idle_seconds)
                    speaks = False
                    for delta in joined(block):
                        speaks = True
                        if isinstance(delta, Finish):
                            reason = delta.reason
                        else:
                            yield delta
                    begun = begun or (now if speaks else 0.0)
                    if speaks and not reason and now - begun > AT_ONCE_SECONDS:
                        await until_the_next_frame(answer)
        except FAILURES as error:
            # Whole already: some servers end a finished answer by dropping the connection.
            if not reason:
                raise failure(error) from error
        if not reason:
            raise broken()
        yield Finish(reason)

    async def close(self) -> None:
        """See ``Provider.close``."""
        if self._session is not None:
            await self._session.close()

    def _post(self, request: ModelRequest) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        # A redirect would turn this into a GET, and take the key along.
        return self._client().post(self._url, data=self._body(request), allow_redirects=False)

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                headers={"Content-Type": "application/json", **self._headers},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10),
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
                read_bufsize=256 * 1024,
            )
        return self._session

    def _body(self, request: ModelRequest) -> bytes:
        body: dict[str, Any] = {
            **request.options,
            "model": request.model or self._model,
            "messages": request.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = request.tools
        try:
            return orjson.dumps(body)
        except TypeError:
            # 3.4e38 in the schema of a tool comes back from PostgreSQL as a whole number.
            return json.dumps(body).encode()


async def blocks(response: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """The ``data:`` lines of an SSE body until ``[DONE]`` or its end, those of one read together.

    The body's last line may be open.
    """
    rest = b""
    async for block in response.content.iter_any():
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise BadStreamError("a line is too long")
        end = next((number for number, line in enumerate(lines) if is_end(line)), None)
        yield [line for line in lines[:end] if line.startswith(b"data:")]
        if end is not None:
            return
    if rest.startswith(b"data:") and not is_end(rest):
        yield [rest]


async def until_the_next_frame(response: aiohttp.ClientResponse) -> None:
    """Leave what the server sends to the kernel until it is time for the next frame.

    Raises ClientConnectionError when the connection was closed meanwhile.
    """
    transport = response.connection.transport if response.connection else None
    if transport is None or transport.is_closing():
        return  # all of it is here already
    # Not the client's own flow control: that one holds back what it has read as well.
    transport.pause_reading()
    try:
        await frame_clock.local().beat()
    finally:
        if not transport.is_closing():
            transport.resume_reading()
    if transport.is_closing():  # by us; what the server closes is noticed when it is read
        raise aiohttp.ClientConnectionError


def is_end(line: bytes) -> bool:
    """Whether this is the line after which nothing follows."""
    return line.startswith(b"data:") and line[5:].strip() == b"[DONE]"


def parsed(line: bytes) -> dict[str, Any]:
    """The object of a ``data:`` line. Raises BadStreamError."""
    try:
        chunk = orjson.loads(line[5:])
    except orjson.JSONDecodeError as error:
        raise BadStreamError("a chunk is not JSON") from error
    if not isinstance(chunk, dict):
        raise BadStreamError("a chunk is not an object")
    return chunk


def joined(lines: list[bytes]) -> Iterator[Delta]:
    """What ``data:`` lines bring, neighbouring pieces of a text as one; what came before an error
    comes before it here as well. Raises as :func:`parsed` and :func:`deltas` do."""
    last: Delta | None = None
    for line in lines:
        try:
            found = deltas(parsed(line))
        except (BadStreamError, ProviderError):
            if last is not None:
                yield last
            raise
        for delta in found:
            more = continued(last, delta)
            if more is None and last is not None:
                yield last
            last = more or delta
    if last is not None:
        yield last


def continued(last: Delta | None, delta: Delta) -> Delta | None:
    """``last`` with ``delta`` added to its text; None when they are not pieces of one text."""
    if isinstance(last, TextDelta) and isinstance(delta, TextDelta):
        return TextDelta(last.text + delta.text)
    if isinstance(last, ThinkingDelta) and isinstance(delta, ThinkingDelta):
        return ThinkingDelta(last.text + delta.text)
    return None


def deltas(chunk: dict[str, Any]) -> list[Delta]:
    """What one ``chat.completion.chunk`` brings.

    Raises ProviderError on an error frame, BadStreamError on what is none of the format.
    """
    if chunk.get("error"):
        raise ProviderError("The model reported an error.", code="server", retry_after=1)
    found: list[Delta] = []
    try:
        for choice in chunk.get("choices") or ():
            found += of_choice(choice)
        usage = chunk.get("usage") or {}
        if usage:
            found.append(
                Usage(
                    int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
                )
            )
    except (AttributeError, TypeError, ValueError) as error:
        raise BadStreamError("a chunk has another form") from error
    return found


def of_choice(choice: dict[str, Any]) -> list[Delta]:
    """What one choice of a chunk brings."""
    found: list[Delta] = []
    delta = choice.get("delta") or {}
    thinking = delta.get("reasoning_content") or delta.get("reasoning")
    if isinstance(thinking, str):
        found.append(ThinkingDelta(thinking))
    content = delta.get("content")
    if content:
        found.append(TextDelta(str(content)))
    for number, call in enumerate(delta.get("tool_calls") or ()):
        function = call.get("function") or {}
        index = call.get("index")
        found.append(
            ToolCallDelta(
                index=index if isinstance(index, int) else number,
                id=str(call.get("id") or ""),
                name=str(function.get("name") or ""),
                arguments=str(function.get("arguments") or ""),
            )
        )
    if choice.get("finish_reason"):
        found.append(Finish(str(choice["finish_reason"])))
    return found


def failure(error: Exception) -> ProviderError:
    """The error for a call that ended without an answer."""
    match error:
        case TimeoutError():
            text = "The model did not answer in time."
            return ProviderError(text, code="timeout", retry_after=1)
        case aiohttp.InvalidURL() | aiohttp.NonHttpUrlClientError():
            text = "The model's address is wrong. The owner should check LLM_BASE_URL."
            return ProviderError(text, code="setup")
        case aiohttp.ClientConnectorError() | aiohttp.ServerDisconnectedError():
            text = "The model server cannot be reached."
            return ProviderError(text, code="unreachable", retry_after=1)
    return broken()


def broken() -> ProviderError:
    """The error for a stream without an end."""
    return ProviderError("The model's answer broke off.", code="bad_stream", retry_after=1)


def refusal(status: int, retry_after: str) -> ProviderError:
    """The error for an HTTP status that is not 200."""
    if status in {401, 403}:
        return ProviderError(
            "The model refused the gateway's key. The owner should check LLM_API_KEY.",
            code="unauthorised",
        )
    if status == 404:
        return ProviderError(
            "The model was not found. The owner should check LLM_MODEL and LLM_BASE_URL.",
            code="refused",
        )
    if status == 429:
        seconds = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 2.0
        return ProviderError(
            "The model is busy (rate limit). Please try again in a moment.",
            code="rate_limited",
            retry_after=min(seconds, MAX_RETRY_SECONDS),
        )
    if status >= 500:
        return ProviderError("The model server failed.", code="server", retry_after=1)
    return ProviderError(f"The model refused the request ({status}).", code="refused")

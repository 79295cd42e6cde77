"""Any server that speaks OpenAI's chat completions, over aiohttp and orjson.

The `openai` SDK costs 0.4 ms of CPU a streamed token, this 0.05 (docs/decisions/003-providers.md).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson

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

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """See ``Provider.stream``."""
        reason = ""
        try:
            async with asyncio.timeout(self._first_seconds) as bound:
                async with self._client().post(self._url, data=self._body(request)) as response:
                    if response.status != 200:
                        raise refusal(response.status, response.headers.get("Retry-After", ""))
                    async for chunk in chunks(response):
                        bound.reschedule(asyncio.get_running_loop().time() + self._idle_seconds)
                        for delta in deltas(chunk):
                            if isinstance(delta, Finish):
                                reason = delta.reason
                            else:
                                yield delta
        except TimeoutError as error:
            raise ProviderError(
                "The model did not answer in time.", code="timeout", retry_after=1
            ) from error
        except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError) as error:
            raise ProviderError(
                "The model server cannot be reached.", code="unreachable", retry_after=1
            ) from error
        except (aiohttp.ClientError, orjson.JSONDecodeError, KeyError, ValueError) as error:
            raise ProviderError("The model's answer broke off.", code="bad_stream") from error
        if not reason:
            raise ProviderError("The model's answer broke off.", code="bad_stream")
        yield Finish(reason)

    async def close(self) -> None:
        """See ``Provider.close``."""
        if self._session is not None:
            await self._session.close()

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
            "model": request.model or self._model,
            "messages": request.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            **request.options,
        }
        if request.tools:
            body["tools"] = request.tools
        return orjson.dumps(body)


async def chunks(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    """The JSON objects of an SSE body until ``[DONE]`` or its end."""
    rest = b""
    async for block in response.content.iter_any():
        *lines, rest = (rest + block).split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError("a line of the model's stream is too long")
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            yield orjson.loads(data)


def deltas(chunk: dict[str, Any]) -> list[Delta]:
    """What one ``chat.completion.chunk`` brings. Raises ProviderError on an error frame."""
    if "error" in chunk:
        raise ProviderError("The model reported an error.", code="server", retry_after=1)
    found: list[Delta] = []
    for choice in chunk.get("choices") or ():
        delta = choice.get("delta") or {}
        thinking = delta.get("reasoning_content") or delta.get("reasoning")
        if thinking:
            found.append(ThinkingDelta(thinking))
        if delta.get("content"):
            found.append(TextDelta(delta["content"]))
        for number, call in enumerate(delta.get("tool_calls") or ()):
            function = call.get("function") or {}
            found.append(
                ToolCallDelta(
                    index=call.get("index", number),
                    id=call.get("id") or "",
                    name=function.get("name") or "",
                    arguments=function.get("arguments") or "",
                )
            )
        if choice.get("finish_reason"):
            found.append(Finish(choice["finish_reason"]))
    usage = chunk.get("usage")
    if usage:
        found.append(Usage(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)))
    return found


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

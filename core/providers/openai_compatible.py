"""Any server that speaks OpenAI's chat completions, over aiohttp and orjson.

The `openai` SDK costs 0.4 ms of CPU a streamed token, this 0.05 (docs/decisions/003-providers.md).
"""

import asyncio
import json
import logging
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from core.lib.safe_fetch import RefusedAddressError
from core.lib.text import one_line
from core.providers import addresses, resent, returned
from core.providers.base import (
    MOST_EXTRA,
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    SealedDelta,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
    arguments_text,
)
from core.providers.failures import (
    BODY_BYTES,
    BadStreamError,
    CutStreamError,
    Failure,
    NoStreamError,
    SilenceError,
    classify,
)
from core.providers.redaction import without_key
from core.providers.thoughts import Thoughts
from core.signals import frame_clock

logger = logging.getLogger(__name__)

MAX_LINE_BYTES = 4 * 1024 * 1024

FAILURES = (
    TimeoutError, aiohttp.ClientError, BadStreamError, NoStreamError, RefusedAddressError,
)  # fmt: skip
NO_STREAMS = {"text/html", "application/xhtml+xml", "application/json"}
ERROR = b"error:"  # the field of llama.cpp's errors until late in 2025
READ = (b"data:", ERROR)
FIELDS = (*READ, b":", b"event:", b"id:", b"retry:", b"data\r", b"\xef\xbb\xbf")
LONGEST_FIELD = 16  # bytes of a first line that show whether it belongs to a stream
ERROR_SECONDS = 10.0  # for the body of an error
# Reasons of servers that gave an answer up, each with its code of KINDS: of OpenRouter and Mistral,
# Zhipu, DeepSeek, vLLM and Google. Google adds details after a colon.
GIVEN_UP = {
    "error": "server",
    "network_error": "server",
    "insufficient_system_resource": "overloaded",
    "abort": "cut",
    "function_call_filter": "bad_stream",
}
# OpenAI's reasons for those of Mistral, Zhipu (twice) and others.
REASONS = {
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "sensitive": "content_filter",
    "eos": "stop",
}
# Arguments that are no text; orjson would round their numbers of more than 64 bits.
OBJECT = re.compile(rb'"arguments"\s*:\s*[{\[]')
MOST_TOKENS = 1_000_000_000  # of one call, as a server reports them


class OpenAICompatible:
    """Stream from ``base_url``/chat/completions. Seconds limit the first token and each pause.

    ``model``: of requests that name none. ``allowed``: the check of the server's addresses, None
    for all. ``adapt`` changes the body for a vendor that deviates from OpenAI's.
    ``may_lack_tools``: it was not tested whether the model calls any.
    """

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str,
        first_seconds: float,
        idle_seconds: float,
        model: str = "",
        allowed: addresses.Allowed | None = None,
        adapt: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        may_lack_tools: bool = False,
    ) -> None:
        self._url = f"{base_url}/chat/completions"
        self._key = api_key
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._model = model
        self._first_seconds = first_seconds
        self._idle_seconds = idle_seconds
        self._allowed = allowed
        self._adapt = adapt
        self._may_lack_tools = may_lack_tools
        # Model -> what its server refuses, and lacks; see core.providers.resent and returned.
        self._refused = defaultdict[str, frozenset[str]](frozenset)
        self._begin_open: set[str] = set()  # models; see core.providers.thoughts
        self._session: aiohttp.ClientSession | None = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """See ``Provider.stream``. Usage is yielded once, also of an answer that broke off."""
        end, begun = Ending(), False
        model = request.model or self._model
        thoughts = Thoughts(begins_open=model in self._begin_open)
        failure: Exception | None = None
        try:
            async with (
                asyncio.timeout(self._first_seconds) as bound,
                self._answered(request) as (answer, pieces),
            ):
                async for block in blocks(pieces, end):
                    speaks = False
                    for delta in joined(block):
                        # Comments, a role and usage are no tokens: the user has no output yet.
                        speaks = speaks or not isinstance(delta, Usage | SealedDelta)
                        for each in () if end.takes(delta) else thoughts.of(delta):
                            yield each
                    begun = begun or speaks
                    if speaks:
                        bound.reschedule(asyncio.get_running_loop().time() + self._idle_seconds)
                    if speaks and not end.reason and frame_clock.local().is_busy():
                        await until_the_next_frame(answer)
            end.settle(begun=begun)
        except (*FAILURES, ProviderError) as found:
            failure = found
        error = end.error(failure, begun=begun)
        for each in thoughts.end("" if error else end.reason):
            yield each
        remember = self._begin_open.add if thoughts.begins_open else self._begin_open.discard
        remember(model)
        if end.usage is not None:
            yield end.usage
        if error is not None:
            # Outside of the handler: its cause may hold the server's words, and the key.
            raise without_key(error, self._key)
        yield Finish(end.reason, end.stop_sequence)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _answered(
        self, request: ModelRequest
    ) -> AsyncGenerator[tuple[aiohttp.ClientResponse, AsyncIterator[bytes]], None]:
        """Yield the response to a request, and its stream; one that lacked a field, or had what
        this model does not take, is sent again. Raises ProviderError.
        """
        model = request.model or self._model
        known = self._refused[model]
        while True:
            async with self._post(self._body(request, known)) as answer:
                if answer.status == 200 and answer.content_type not in NO_STREAMS:
                    self._learn(model, known)
                    yield answer, answer.content.iter_any()
                    return
                body = await body_of(answer)
                if whole := whole_answer(answer, body):
                    self._learn(model, known)
                    yield answer, events_of(whole)
                    return
                error = refusal(answer, body)
            found = returned.lacking(error.reason, request.messages, known) or resent.refused(
                error.reason, request, known, may_lack_tools=self._may_lack_tools
            )
            if not found:
                raise error
            known |= {found}

    def _learn(self, model: str, known: frozenset[str]) -> None:
        """Remember what a model's server refuses and lacks: it has taken a request made so."""
        for each in known - self._refused[model]:
            logger.warning("model %s has refused a request for its %s", model, one_line(each, 80))
        self._refused[model] = resent.remembered(self._refused[model], known)

    def _post(self, body: bytes) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None or self._session.closed:
            self._session = addresses.session(self._allowed)
        # A redirect would turn this into a GET, and take the key along.
        return self._session.post(
            self._url,
            data=body,
            headers={"Content-Type": "application/json", **self._headers},
            allow_redirects=False,
        )

    def _body(self, request: ModelRequest, known: frozenset[str]) -> bytes:
        body: dict[str, Any] = {
            **request.options,
            "model": request.model or self._model,
            "messages": returned.for_server(request.messages, known),
            "stream": True,
            resent.USAGE: {"include_usage": True},
        }
        if request.tools:
            body["tools"] = request.tools
        body = resent.without(known, self._adapt(body) if self._adapt else body)
        try:
            return orjson.dumps(body)
        except TypeError:
            # 3.4e38 in the schema of a tool comes back from PostgreSQL as a whole number.
            return json.dumps(body).encode()


@dataclass(slots=True)
class Ending:
    """An answer's reason and usage, which some servers repeat. ``is_done``: ``[DONE]`` came."""

    reason: str = ""
    stop_sequence: str = ""
    usage: Usage | None = None
    is_done: bool = False
    has_calls: bool = False

    def takes(self, delta: Delta) -> bool:
        """Note a delta; return whether it belongs to the end alone."""
        if isinstance(delta, Finish):
            reason = delta.reason.partition(":")[0]
            self.reason, self.stop_sequence = REASONS.get(reason, reason), delta.stop_sequence
        elif isinstance(delta, Usage) and (delta.prompt_tokens or delta.completion_tokens):
            self.usage = delta  # zeros are no report: every call has a prompt
        self.has_calls |= isinstance(delta, ToolCallDelta)
        return isinstance(delta, Finish | Usage)

    def settle(self, *, begun: bool) -> None:
        """Add the reason that the server did not give for a complete answer."""
        if begun and not self.reason and self.is_done and self.usage is not None:
            self.reason = "tool_calls" if self.has_calls else "stop"

    def error(self, failure: Exception | None, *, begun: bool) -> ProviderError | None:
        """Return the error of an answer that ended, or None for a complete one."""
        if isinstance(failure, ProviderError):
            return failure
        if self.reason in GIVEN_UP:
            return ProviderError.of(Failure(GIVEN_UP[self.reason], self.reason))
        if self.reason:
            # Whole already: some servers end a finished answer by dropping the connection.
            return None
        cut = CutStreamError("the stream ended before the answer")
        return failed(failure or cut, begun=begun)


def whole_answer(response: aiohttp.ClientResponse, body: bytes) -> dict[str, Any]:
    """Return an answer that was not streamed; empty for anything else."""
    if response.status != 200 or response.content_type != "application/json":
        return {}
    try:
        found = loaded(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and found.get("choices") else {}


async def events_of(answer: dict[str, Any]) -> AsyncIterator[bytes]:
    """Yield an answer as a stream."""
    yield b"data:" + json.dumps(answer).encode() + b"\n\ndata: [DONE]\n\n"


async def blocks(pieces: AsyncIterator[bytes], ending: Ending) -> AsyncIterator[list[bytes]]:
    """Yield the lines with READ fields of an SSE body until ``[DONE]`` or its end, grouped by read.

    The body's last line may be unterminated. Notes in ``ending`` that ``[DONE]`` came.
    """
    rest, begun = b"", False
    async for block in pieces:
        *lines, rest = (rest + block).split(b"\n")
        if not begun:
            begun = check_beginning(lines, rest)
        if len(rest) > MAX_LINE_BYTES:
            raise BadStreamError("a line is too long")
        end = next((number for number, line in enumerate(lines) if is_end(line)), None)
        yield [line for line in lines[:end] if line.startswith(READ)]
        if end is not None:
            ending.is_done = True
            return
    check_beginning([rest] if not begun else [], b"")
    ending.is_done = is_end(rest)
    if rest.startswith(READ) and not ending.is_done:
        yield [rest]


def check_beginning(lines: list[bytes], rest: bytes) -> bool:
    """Check that a response begins as a stream does. Raises NoStreamError otherwise."""
    for line in (*lines, *([rest] if len(rest) >= LONGEST_FIELD else [])):
        if line.strip() and not line.startswith(FIELDS):
            raise NoStreamError(line[:200].decode("utf-8", "replace"))
        if line.strip():
            return True
    return False


async def until_the_next_frame(response: aiohttp.ClientResponse) -> None:
    """Leave the server's data in the kernel's buffer until the next frame is due.

    Raises ClientConnectionError when the connection was closed meanwhile.
    """
    transport = response.connection.transport if response.connection else None
    if transport is None or transport.is_closing():
        return  # all of it is here already
    # Not the client's own flow control: that also delays data it has already read.
    transport.pause_reading()
    try:
        await frame_clock.local().tick()
    finally:
        if not transport.is_closing():
            transport.resume_reading()
    if transport.is_closing():  # by us; a close by the server is noticed when reading
        raise aiohttp.ClientConnectionError


def is_end(line: bytes) -> bool:
    """Return whether this is the last line of a stream."""
    return line.startswith(b"data:") and line[5:].strip() == b"[DONE]"


def parsed(line: bytes) -> dict[str, Any]:
    """Return the object of a ``data:`` line. Raises BadStreamError, ProviderError for an error."""
    if line.startswith(ERROR):
        raise ProviderError.of(classify(body=line.removeprefix(ERROR)))
    try:
        chunk = loaded(line[5:])
    except (ValueError, RecursionError) as error:
        raise BadStreamError("a chunk is not JSON") from error
    if not isinstance(chunk, dict):
        raise BadStreamError("a chunk is not an object")
    return chunk


def loaded(text: bytes) -> Any:
    """Return JSON, with exact numbers in arguments. Half a character, at which servers in
    JavaScript cut their texts, is a question mark. Raises ValueError, RecursionError.
    """
    if b'"arguments"' not in text or OBJECT.search(text) is None:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            if b"\\ud" not in text.lower():
                raise
    found = json.dumps(json.loads(text), ensure_ascii=False)
    return json.loads(found.encode(errors="replace"))


def joined(lines: list[bytes]) -> Iterator[Delta]:
    """Return the deltas of lines, adjacent pieces of a text merged; those before an error
    are returned before it is raised. Raises as :func:`parsed` and :func:`deltas` do.
    """
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
    """Return ``last`` with ``delta`` appended; None for pieces of different texts."""
    for kind in (TextDelta, ThinkingDelta):
        if isinstance(last, kind) and isinstance(delta, kind):
            return kind(last.text + delta.text)
    return None


def deltas(chunk: dict[str, Any]) -> list[Delta]:
    """Return the deltas of one ``chat.completion.chunk``.

    Raises ProviderError on an error frame, BadStreamError on an invalid one.
    """
    if chunk.get("error") or chunk.get("object") == "error":  # the second: vLLM until 2025
        raise ProviderError.of(classify(body=orjson.dumps(chunk)))
    found: list[Delta] = []
    try:
        for choice in chunk.get("choices") or ():
            found += of_choice(choice)
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise BadStreamError("a chunk has another form") from error
    # Usage that cannot be read is estimated: it is not worth the answer.
    with suppress(AttributeError, TypeError, ValueError):
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage")
        if usage:
            found.append(usage_of(usage))
    return found


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return the tokens of a ``usage`` object.

    Cached ones: OpenAI's ``prompt_tokens_details``, DeepSeek's ``prompt_cache_hit_tokens``. Some
    servers do not count reasoning among the completion: their total shows it. xAI says how much it
    was, Google does not.
    """
    prompt = number(usage.get("prompt_tokens"))
    completion = number(usage.get("completion_tokens"))
    of_prompt = usage.get("prompt_tokens_details") or {}
    of_completion = usage.get("completion_tokens_details") or {}
    cached = number(of_prompt.get("cached_tokens") or usage.get("prompt_cache_hit_tokens"))
    reasoning = number(of_completion.get("reasoning_tokens"))
    more = max(0, number(usage.get("total_tokens")) - prompt - completion)
    if more == reasoning or not (of_completion or cached):
        reasoning = more
        completion += more
    return Usage(prompt, completion, min(cached, prompt), min(reasoning, completion))


def number(value: Any) -> int:
    """Return a number of tokens within bounds. Raises TypeError, ValueError."""
    return max(0, min(int(value or 0), MOST_TOKENS))


def of_choice(choice: dict[str, Any]) -> list[Delta]:
    """Return the deltas of one choice of a chunk. Raises ProviderError for one with an error."""
    if choice.get("error"):
        raise ProviderError.of(classify(body=orjson.dumps(choice)))
    found: list[Delta] = []
    # Perplexity repeats the message so far beside each delta.
    delta = (choice["delta"] if "delta" in choice else choice.get("message")) or {}
    thinking = delta.get("reasoning_content") or delta.get("reasoning")
    if isinstance(thinking, str):
        found.append(ThinkingDelta(thinking))
    content = delta.get("content") or delta.get("refusal")  # of OpenAI's models that owe a schema
    if isinstance(content, list):
        found += of_parts(content)
    elif content:
        found.append(TextDelta(str(content)))
    for number, call in enumerate(delta.get("tool_calls") or ()):
        function = call.get("function") or {}
        index = call.get("index")
        found.append(
            ToolCallDelta(
                index=index if isinstance(index, int) else number,
                id=str(call.get("id") or ""),
                name=str(function.get("name") or ""),
                arguments=arguments_text(function.get("arguments")),
                extra=packed(call.get("extra_content")),
            )
        )
    details = delta.get("reasoning_details")
    for each in details if isinstance(details, list) else ():
        if each.get("type") == "reasoning.encrypted" and (sealed := packed(each)):
            found.append(SealedDelta(sealed))
    if choice.get("finish_reason"):
        # Of vLLM and of SGLang: the text that matched; a number there is a token.
        matched = choice.get("stop_reason") or choice.get("matched_stop")
        stop = matched if isinstance(matched, str) else ""
        found.append(Finish(str(choice["finish_reason"]), stop))
    return found


def packed(given: Any) -> str:
    """Return an object as JSON; empty for anything else, and for one that is too long."""
    text = orjson.dumps(given).decode() if isinstance(given, dict) else ""
    return text if len(text) <= MOST_EXTRA else ""


def of_parts(parts: list[Any]) -> list[Delta]:
    """Return the deltas of a content that is a list of parts: Mistral's reasoning models."""
    found: list[Delta] = []
    for part in parts:
        if part.get("type") == "thinking":
            text = "".join(str(each.get("text") or "") for each in part.get("thinking") or ())
            found += [ThinkingDelta(text)] if text else []
        elif part.get("text"):
            found.append(TextDelta(str(part["text"])))
    return found


async def body_of(answer: aiohttp.ClientResponse) -> bytes:
    """Return the body of an error, or of an answer that was not streamed."""
    body = b""
    # An answer may begin long before it is written: some send white space until then.
    most, seconds = (MAX_LINE_BYTES, None) if answer.status == 200 else (BODY_BYTES, ERROR_SECONDS)
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(seconds):
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > most:
                    break
    return body


def refusal(answer: aiohttp.ClientResponse, body: bytes) -> ProviderError:
    """Return the error for a response without an answer."""
    failure = classify(status=answer.status, headers=answer.headers, body=body)
    if answer.status == 200 and failure.code == "server" and b'"error"' not in body:
        failure = classify(exception=NoStreamError(failure.reason or answer.content_type))
    return ProviderError.of(failure)


def failed(error: Exception, *, begun: bool) -> ProviderError:
    """Return the error for a call that ended without a response, or during one (``begun``)."""
    if isinstance(error, RefusedAddressError):
        return ProviderError.of(Failure("setup", str(error)))
    silent = begun and isinstance(error, TimeoutError)
    return ProviderError.of(classify(exception=SilenceError() if silent else error))

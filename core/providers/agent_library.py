"""Every vendor that ``pydantic-ai`` supports: ``LLM_PROVIDER=anthropic:claude-…`` and so on.

Only its direct model requests are used; the loop is ours. The vendor's key comes from the vendor's
own environment variable; the packages of OpenAI, Anthropic and Google are installed, others come
from ``pip install pydantic-ai-slim[vendor]``. Its cost per token, compared to
``openai_compatible``: docs/decisions/003-providers.md.
"""

import asyncio
import base64
import binascii
import os
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import Any

import orjson
from django.conf import settings
from pydantic_ai import messages as library
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import AgentRunError, ModelHTTPError, UserError
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from core.lib.ids import digest_of
from core.lib.safe_fetch import RefusedAddressError
from core.providers import resent
from core.providers.base import (
    REASONING,
    ChatMessage,
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
    arguments_text,
)
from core.providers.failures import (
    BadStreamError,
    CutStreamError,
    Failure,
    NoStreamError,
    SilenceError,
    bounded,
    classify,
)
from core.providers.openai_compatible import number
from core.providers.redaction import without_key

# Errors that the library and the vendors' own packages raise for a stream that they cannot read.
UNREADABLE = (
    AgentRunError, ValueError, TypeError, LookupError, AttributeError, AssertionError,
)  # fmt: skip
REASONING_TOKENS = ("reasoning_tokens", "thoughts_tokens", "thinking_tokens")  # by vendor
# Variables of the environment that hold keys of vendors; shorter values are no secrets.
KEY_NAMES = ("_API_KEY", "_ACCESS_KEY", "_TOKEN")
SHORTEST_ENVIRONMENT_KEY = 12
CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
EMPTY = "(empty)"  # the result of a tool that has none
FINISH = {"tool_call": "tool_calls"}
# OpenAI's name -> the library's. Others are left out: each vendor refuses different ones.
OPTIONS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "parallel_tool_calls": "parallel_tool_calls",
    "top_k": "top_k",  # of Anthropic and Google; those of LLM_PROVIDER are not sent it
}


def build(name: str) -> "AgentLibrary":
    """Return the provider of ``vendor:model``. Raises ProviderError without configuration."""
    try:
        model = infer_model(name)
    except (UserError, ImportError, ValueError) as error:
        raise ProviderError(
            "The model is not set up. The owner should check LLM_PROVIDER.",
            code="setup",
            reason=bounded(str(error)),
        ) from error
    return AgentLibrary(
        model,
        first_seconds=settings.LLM_FIRST_TOKEN_SECONDS,
        idle_seconds=settings.LLM_IDLE_SECONDS,
        keys=environment_keys(),
    )


def environment_keys() -> tuple[str, ...]:
    """Return the keys of vendors in the environment: which one the library uses is not known."""
    found = (value for name, value in os.environ.items() if name.upper().endswith(KEY_NAMES))
    return tuple(value for value in found if len(value) >= SHORTEST_ENVIRONMENT_KEY)


class AgentLibrary:
    """Stream from a model of the library. Seconds limit the first token and each pause.

    ``keys`` are left out of errors.
    """

    def __init__(
        self,
        model: Model,
        *,
        first_seconds: float,
        idle_seconds: float,
        keys: Sequence[str] = (),
    ) -> None:
        self._model = model
        self._first_seconds = first_seconds
        self._idle_seconds = idle_seconds
        self._keys = keys
        # Model -> what it refuses; see core.providers.resent.
        self._refused = defaultdict[str, frozenset[str]](frozenset)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        error: ProviderError | None = None
        try:
            async with aclosing(self._answered(request)) as found:
                async for delta in found:
                    yield delta
        except ProviderError as failure:
            error = failure
        if error is not None:
            # Outside of the handler: its cause may hold the server's words, and the key.
            for key in self._keys:
                error = without_key(error, key)
            raise error

    async def close(self) -> None:  # the library manages its connections
        """See ``Provider.close``."""

    def model_of(self, name: str) -> Model:
        """Return the model that answers a request for ``name``."""
        return self._model

    async def _answered(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of an answer; adapt and repeat a request that the model refuses."""
        known = self._refused[request.model]
        while True:
            told, begun = resent.request_without(known, request), False
            try:
                async with aclosing(self._deltas(told)) as found:
                    async for delta in found:
                        if not begun:
                            begun, before = True, self._refused[request.model]
                            self._refused[request.model] = resent.remembered(before, known)
                        yield delta
            except ProviderError as error:
                refused = resent.refused(error.reason, told, known)
                if begun or not refused:
                    raise
                known |= {refused}
            else:
                return

    async def _deltas(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        model = self.model_of(request.model)
        # In a field, as to DeepSeek's and Kimi's: to others it would go as text, or not without its
        # signature.
        takes_reasoning = model.profile.get("openai_chat_send_back_thinking_parts") == "field"
        asked = model_request_stream(
            model,
            converted(request.messages, with_reasoning=takes_reasoning),
            model_settings=options(request.options),
            model_request_parameters=parameters(request),
        )
        spoke = False
        try:
            async with asyncio.timeout(self._first_seconds) as bound, asked as response:
                async for event in response:
                    for delta in deltas(event):
                        spoke = True
                        yield delta
                    if spoke:
                        bound.reschedule(asyncio.get_running_loop().time() + self._idle_seconds)
                last = ending(response, spoke=spoke)
        except TimeoutError as error:
            cause = SilenceError() if spoke else error
            raise ProviderError.of(classify(exception=cause)) from error
        except ModelHTTPError as error:
            raise refused(error) from error
        except UserError as error:  # as of a model that cannot be made to call a tool
            raise ProviderError.of(Failure("bad_request", bounded(str(error)))) from error
        except UNREADABLE as error:
            raise broken(error, begun=spoke) from error
        for each in last:
            if isinstance(each, Finish) and each.reason == "error":  # as of Google's broken calls
                raise ProviderError.of(Failure("bad_stream", "The vendor gave the answer up."))
            yield each


def ending(response: StreamedResponse, *, spoke: bool) -> list[Delta]:
    """Return the final deltas. Raises ProviderError for an empty stream."""
    reason = response.finish_reason
    if reason is None and not spoke:
        raise cut()
    called = any(isinstance(part, library.ToolCallPart) for part in response.get().parts)
    usage = response.usage
    given = FINISH.get(reason or "", reason) or "stop"
    if called and given == "stop":
        given = "tool_calls"  # Google has no reason of its own for calls
    completion = number(usage.output_tokens)
    reasoning = max(number(usage.details.get(name)) for name in REASONING_TOKENS)
    counted = Usage(
        number(usage.input_tokens),
        completion,
        min(number(usage.cache_read_tokens), number(usage.input_tokens)),
        min(reasoning, completion),
    )
    # Zeros are no report: every call has a prompt.
    is_told = counted.prompt_tokens or counted.completion_tokens
    return [counted, Finish(given)] if is_told else [Finish(given)]


def deltas(event: library.ModelResponseStreamEvent) -> Iterator[Delta]:
    """Return the deltas of one event of the library; vendors' packages do not check its types."""
    match event:
        case (
            library.PartStartEvent(part=library.TextPart(content=text))
            | library.PartDeltaEvent(delta=library.TextPartDelta(content_delta=text))
        ) if text:
            yield TextDelta(str(text))
        case (
            library.PartStartEvent(part=library.ThinkingPart(content=text))
            | library.PartDeltaEvent(delta=library.ThinkingPartDelta(content_delta=text))
        ) if text:
            yield ThinkingDelta(str(text))
        case library.PartStartEvent(index=index, part=library.ToolCallPart() as part):
            arguments = arguments_text(part.args)
            yield ToolCallDelta(index, str(part.tool_call_id), str(part.tool_name), arguments)
        case library.PartDeltaEvent(index=index, delta=library.ToolCallPartDelta() as part):
            name, arguments = str(part.tool_name_delta or ""), arguments_text(part.args_delta)
            yield ToolCallDelta(index, name=name, arguments=arguments)


def refused(error: ModelHTTPError) -> ProviderError:
    """Return the error for an HTTP status."""
    headers = dict(error.headers or {})
    if error.retry_after is not None:
        headers.setdefault("retry-after", str(error.retry_after))
    body = error.body if error.body is not None else error.message
    return ProviderError.of(
        classify(status=error.status_code, headers=headers, body=orjson.dumps(body, default=str))
    )


def cut(error: BaseException | None = None) -> ProviderError:
    """Return the error for a stream without an end."""
    return ProviderError.of(classify(exception=CutStreamError(type(error).__name__)))


def broken(error: Exception, *, begun: bool) -> ProviderError:
    """Return the error for a call that failed without a status; ``begun``: during its answer."""
    chain = causes(error)
    for cause in chain:
        if isinstance(cause, RefusedAddressError):
            return ProviderError.of(Failure("setup", str(cause)))
        if isinstance(cause, NoStreamError | BadStreamError):
            return ProviderError.of(classify(exception=cause))
    body = getattr(error, "body", None)
    if body is not None:  # an error inside the stream
        return ProviderError.of(classify(body=orjson.dumps(body, default=str)))
    connecting = [each for each in chain if "Connect" in type(each).__name__]
    if connecting and not begun:
        return ProviderError.of(Failure("unreachable", type(connecting[-1]).__name__))
    if isinstance(error, AgentRunError):
        return cut(error)
    return ProviderError.of(Failure("bad_stream", type(error).__name__))


def causes(error: BaseException) -> list[BaseException]:
    """Return an error and what it came from, the last first."""
    found: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in found:
        found.append(cause)
        cause = cause.__cause__
    return found


def options(given: dict[str, Any]) -> ModelSettings:
    """Return the options that every vendor understands."""
    known = {OPTIONS[name]: value for name, value in given.items() if name in OPTIONS}
    most = known.get("top_k", 0)
    if not isinstance(most, int) or most <= 0:  # all, for local servers; vendors refuse it
        known.pop("top_k", None)
    stop = given.get("stop")
    if stop:
        known["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    forced = given.get("tool_choice")
    if forced is not None:
        is_named = isinstance(forced, dict)
        known["tool_choice"] = [forced["function"]["name"]] if is_named else forced
    made: ModelSettings = known  # type: ignore[assignment]  # the names are those of ModelSettings
    return made


def parameters(request: ModelRequest) -> ModelRequestParameters:
    """Return the tools, and the answer's form in words: few vendors take a schema with tools."""
    tools = [definition(tool) for tool in request.tools]
    form = request.options.get("response_format") or {}
    if form.get("type") not in ("json_object", "json_schema"):
        return ModelRequestParameters(function_tools=tools)
    named = form.get("json_schema") or {}
    wanted = OutputObjectDefinition(
        json_schema=named.get("schema") or {"type": "object"}, description=named.get("description")
    )
    return ModelRequestParameters(
        function_tools=tools, output_mode="prompted", output_object=wanted
    )


def definition(tool: dict[str, Any]) -> ToolDefinition:
    """Convert a tool of OpenAI's ``tools`` parameter."""
    function = tool["function"]
    return ToolDefinition(
        name=function["name"],
        description=function.get("description"),
        parameters_json_schema=function.get("parameters") or {"type": "object", "properties": {}},
    )


def converted(
    messages: list[ChatMessage], *, with_reasoning: bool = False
) -> list[library.ModelMessage]:
    """Convert OpenAI's chat messages; adjacent ones to the model are merged. ``with_reasoning``:
    with that before calls of this turn.
    """
    made: list[library.ModelMessage] = []
    names: dict[str, str] = {}
    for is_answer, group in groupby(messages, lambda each: each["role"] == "assistant"):
        if not is_answer:
            parts = [request_part(each, names) for each in group]
            made.append(library.ModelRequest(parts=parts))
            continue
        for message in group:
            for call in message.get("tool_calls") or ():
                names[call["id"]] = call["function"]["name"]
            reasoning = message.get(REASONING, "") if with_reasoning else ""
            thought = [library.ThinkingPart(content=reasoning)] if reasoning else []
            made.append(library.ModelResponse(parts=[*thought, *response_parts(message)]))
    return made


def request_part(message: ChatMessage, names: dict[str, str]) -> library.ModelRequestPart:
    """Convert a message to the model. ``names``: tool call id -> tool."""
    match message["role"]:
        case "system" | "developer":
            return library.SystemPromptPart(content=words_of(message["content"]))
        case "tool":
            call = message["tool_call_id"]
            words = words_of(message["content"])
            return library.ToolReturnPart(
                tool_name=names.get(call, "unknown"),
                content=words if words.strip() else EMPTY,  # Anthropic refuses empty texts
                tool_call_id=accepted_id(call),
            )
    content = message["content"]
    if isinstance(content, str):
        return library.UserPromptPart(content=content)
    return library.UserPromptPart(content=[user_content(part) for part in content])


def response_parts(message: ChatMessage) -> list[library.ModelResponsePart]:
    """Return the model's texts and calls."""
    text = words_of(message.get("content"))
    said = [library.TextPart(content=text)] if text.strip() else []
    parts: list[library.ModelResponsePart] = [*said]
    for call in message.get("tool_calls") or ():
        function = call["function"]
        parts.append(
            library.ToolCallPart(
                tool_name=function["name"],
                args=function["arguments"],
                tool_call_id=accepted_id(call["id"]),
            )
        )
    return parts


def accepted_id(given: str) -> str:
    """Return an id of a call as Anthropic accepts it: the same for the same id."""
    return given if CALL_ID.fullmatch(given) else digest_of(given, 32)


def words_of(content: Any) -> str:
    """Return the text of a message's content, which may be a list of parts."""
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if part.get("type") == "text")
    return content or ""


def user_content(part: dict[str, Any]) -> library.UserContent:
    """Convert one part of a user's message. Addresses become text: the library would fetch them."""
    if part.get("type") != "image_url":
        return str(part.get("text", ""))
    url = str(part["image_url"]["url"])
    head, comma, data = url.partition(";base64,")
    if not (head.startswith("data:") and comma):
        return f"[image: {url}]"
    try:
        return library.BinaryContent(
            data=base64.b64decode(data), media_type=head.removeprefix("data:")
        )
    except binascii.Error:
        return "[an image that cannot be read]"

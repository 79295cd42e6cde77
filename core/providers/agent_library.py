"""Vendors that do not speak OpenAI's protocol, through pydantic-ai (``LLM_PROVIDER=vendor:model``).

Thin: OpenAI's chat form is turned into the library's messages, its stream events into our deltas.
It costs several times the CPU of ``openai_compatible`` a token (docs/decisions/003-providers.md).
The vendor's key comes from the vendor's own variable, such as ``ANTHROPIC_API_KEY``.
"""

import asyncio
import base64
from collections.abc import AsyncGenerator, Iterator
from typing import Any, cast

from django.conf import settings
from pydantic_ai import messages as library
from pydantic_ai.direct import model_request_stream
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior, UserError
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from core.providers.base import (
    ChatMessage,
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
)
from core.providers.openai_compatible import refusal

FINISH = {"tool_call": "tool_calls"}


def build(name: str) -> "AgentLibrary":
    """The model called ``name`` (``vendor:model``). Raises ProviderError when it is not set up."""
    try:
        model = infer_model(name)
    except (UserError, ImportError, ValueError) as error:
        raise ProviderError(
            "The model is not set up: LLM_PROVIDER names a vendor whose package or key is missing.",
            code="setup",
        ) from error
    return AgentLibrary(
        model,
        first_seconds=settings.LLM_FIRST_TOKEN_SECONDS,
        idle_seconds=settings.LLM_IDLE_SECONDS,
    )


class AgentLibrary:
    """Streams from a model of pydantic-ai. Seconds bound the first event and each pause."""

    def __init__(self, model: Model, *, first_seconds: float, idle_seconds: float) -> None:
        """Nothing is sent before the first call."""
        self._model = model
        self._first_seconds = first_seconds
        self._idle_seconds = idle_seconds

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """See ``Provider.stream``."""
        calls: dict[int, int] = {}
        try:
            async with (
                asyncio.timeout(self._first_seconds) as bound,
                model_request_stream(
                    self._model,
                    converted(request.messages),
                    model_settings=cast(ModelSettings, request.options),
                    model_request_parameters=ModelRequestParameters(
                        function_tools=[definition(tool) for tool in request.tools]
                    ),
                ) as stream,
            ):
                async for event in stream:
                    bound.reschedule(asyncio.get_running_loop().time() + self._idle_seconds)
                    for delta in deltas(event, calls):
                        yield delta
                usage = stream.usage
                yield Usage(usage.input_tokens, usage.output_tokens)
                reason = stream.finish_reason or ("tool_call" if calls else "stop")
                yield Finish(FINISH.get(reason, reason))
        except TimeoutError as error:
            raise ProviderError(
                "The model did not answer in time.", code="timeout", retry_after=1
            ) from error
        except ModelHTTPError as error:
            raise refusal(error.status_code, "") from error
        except ModelAPIError as error:
            raise ProviderError(
                "The model server cannot be reached.", code="unreachable", retry_after=1
            ) from error
        except UnexpectedModelBehavior as error:
            raise ProviderError("The model's answer broke off.", code="bad_stream") from error

    async def close(self) -> None:
        """The library keeps its connections for the process."""


def converted(messages: list[ChatMessage]) -> list[library.ModelMessage]:
    """OpenAI's chat messages as the library's, in order."""
    names: dict[str, str] = {}
    found: list[library.ModelMessage] = []
    for message in messages:
        if message["role"] == "assistant":
            calls = message.get("tool_calls") or []
            names |= {call["id"]: call["function"]["name"] for call in calls}
            found.append(library.ModelResponse(parts=list(answer_parts(message, calls))))
        else:
            found.append(library.ModelRequest(parts=[request_part(message, names)]))
    return found


def answer_parts(
    message: ChatMessage, calls: list[dict[str, Any]]
) -> Iterator[library.ModelResponsePart]:
    """What the assistant said and called."""
    if message.get("content"):
        yield library.TextPart(content=message["content"])
    for call in calls:
        yield library.ToolCallPart(
            tool_name=call["function"]["name"],
            args=call["function"]["arguments"],
            tool_call_id=call["id"],
        )


def request_part(message: ChatMessage, names: dict[str, str]) -> library.ModelRequestPart:
    """A message of the system, of a tool or of the person."""
    role, content = message["role"], message["content"]
    if role == "system":
        return library.SystemPromptPart(content=content)
    if role == "tool":
        call_id = message["tool_call_id"]
        return library.ToolReturnPart(
            tool_name=names.get(call_id, "tool"), content=content, tool_call_id=call_id
        )
    if isinstance(content, str):
        return library.UserPromptPart(content=content)
    return library.UserPromptPart(content=[user_content(part) for part in content])


def user_content(part: dict[str, Any]) -> library.UserContent:
    """A text or a picture of OpenAI's content parts."""
    if part["type"] == "text":
        return str(part["text"])
    url = str(part["image_url"]["url"])
    if url.startswith("data:"):
        head, _, data = url.partition(",")
        media_type = head.removeprefix("data:").partition(";")[0]
        return library.BinaryContent(data=base64.b64decode(data), media_type=media_type)
    return library.ImageUrl(url=url)


def definition(tool: dict[str, Any]) -> ToolDefinition:
    """A tool of OpenAI's ``tools`` parameter."""
    function = tool["function"]
    return ToolDefinition(
        name=function["name"],
        description=function.get("description"),
        parameters_json_schema=function.get("parameters") or {"type": "object", "properties": {}},
    )


def deltas(event: library.ModelResponseStreamEvent, calls: dict[int, int]) -> Iterator[Delta]:
    """What one event of the library's stream brings; ``calls``: part -> number of the call."""
    if isinstance(event, library.PartStartEvent):
        part = event.part
        if isinstance(part, library.TextPart) and part.content:
            yield TextDelta(part.content)
        elif isinstance(part, library.ThinkingPart) and part.content:
            yield ThinkingDelta(part.content)
        elif isinstance(part, library.ToolCallPart):
            number = calls.setdefault(event.index, len(calls))
            yield ToolCallDelta(number, part.tool_call_id, part.tool_name, arguments_of(part))
    elif isinstance(event, library.PartDeltaEvent):
        delta = event.delta
        if isinstance(delta, library.TextPartDelta) and delta.content_delta:
            yield TextDelta(delta.content_delta)
        elif isinstance(delta, library.ThinkingPartDelta) and delta.content_delta:
            yield ThinkingDelta(delta.content_delta)
        elif isinstance(delta, library.ToolCallPartDelta):
            number = calls.setdefault(event.index, len(calls))
            pieces = delta.args_delta if isinstance(delta.args_delta, str) else ""
            yield ToolCallDelta(number, "", delta.tool_name_delta or "", pieces)


def arguments_of(part: library.ToolCallPart) -> str:
    """The arguments that a call begins with, as JSON text."""
    if isinstance(part.args, str):
        return part.args
    return part.args_as_json_str() if part.args else ""

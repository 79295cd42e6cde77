"""Calls of tools that a model's answer makes: read, made side by side, each within its time."""

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from django.conf import settings

from core.conversations import traces
from core.conversations.events import LostLeaseError
from core.lib.ids import digest_of
from core.lib.text import clean
from core.providers.base import EXTRA, REASONING, SEALED, ChatMessage, ProviderError, ToolCallDelta
from core.tools.base import SignInError, Tool, ToolContext, ToolError, ToolResult

logger = logging.getLogger(__name__)

MOST_NAME = 256  # characters of a call's name in one piece
# Characters of an id. LiteLLM's may have thousands: it writes a vendor's signature into them.
MOST_ID = 100
MOST_EXTRAS = 32  # calls of an answer whose ``extra`` is kept: each may be large
MOST_DIGITS = 20  # of a number of 64 bits, with its sign


class LongNumberError(orjson.JSONEncodeError):
    """A whole number of JSON has more than 64 bits."""


@dataclass(slots=True)
class Call:
    """A tool call assembled from its deltas. ``extra``: see ToolCallDelta."""

    id: str = ""
    name: str = ""
    arguments: str = "{}"
    extra: str = ""
    pieces: list[str] = field(default_factory=list)


class Calls:
    """The calls of one answer, in the order in which they begin, while their pieces arrive."""

    def __init__(self) -> None:
        self._all: list[Call] = []
        self._newest: dict[int, Call] = {}

    def take(self, delta: ToolCallDelta) -> None:
        """Add a piece to the newest call of its index, or begin one."""
        if len(delta.id) > MOST_ID:
            delta = replace(delta, id=f"call_{digest_of(delta.id, 32)}")
        call = self._newest.get(delta.index)
        if call is None or is_another(call, delta):
            call = self._newest[delta.index] = Call()
            self._all.append(call)
        call.id = call.id or delta.id
        if delta.name[:MOST_NAME] != call.name:  # some servers send it with each piece
            call.name += delta.name[:MOST_NAME]
        if len(self._all) <= MOST_EXTRAS:
            call.extra = call.extra or delta.extra
        if delta.arguments:
            call.pieces.append(delta.arguments)

    def clear(self) -> None:
        """Drop all calls: the answer begins again, or was cut."""
        self._all, self._newest = [], {}

    def whole(self) -> list[Call]:
        """Return the calls with their arguments; the answer is complete."""
        for call in self._all:
            call.arguments, call.pieces = clean("".join(call.pieces)) or "{}", []
            call.id, call.name = clean(call.id), clean(call.name)
        return self._all


def is_another(call: Call, delta: ToolCallDelta) -> bool:
    """Return whether a piece with the index of ``call`` begins another one: some servers give all
    calls of an answer the same index, and some no ids.

    It has a name, while ``call`` has one and arguments, or another id. The same name without an id
    comes with each piece of some servers: then the arguments of ``call`` are whole.
    """
    if not (call.name and delta.name) or (delta.id and delta.id == call.id):
        return False
    if not delta.id and delta.name == call.name:
        return bool(delta.arguments) and is_whole(call)
    return bool(call.pieces) or bool(call.id and delta.id)


def is_whole(call: Call) -> bool:
    """Return whether the arguments of a call are a JSON object."""
    if not (call.pieces and call.pieces[-1].rstrip().endswith("}")):
        return False
    try:
        return isinstance(orjson.loads("".join(call.pieces)), dict)
    except orjson.JSONDecodeError:
        return False


def parsed(arguments: str) -> Any:
    """Return the JSON value in a text of arguments. Raises JSONDecodeError, and JSONEncodeError for
    one that is nested more deeply than can be written again; LongNumberError is one of these.
    """
    orjson.dumps(orjson.loads(arguments))
    return json.loads(arguments, parse_int=whole)


def whole(digits: str) -> int:
    """Return a whole number of JSON. Raises LongNumberError where orjson would round it: a tool
    would get another number than the one that was shown and allowed.
    """
    if len(digits) > MOST_DIGITS or not -(2**63) <= int(digits) < 2**64:
        raise LongNumberError
    return int(digits)


def arguments_of(call: Call) -> dict[str, Any] | str:
    """Return the arguments of a call, or what is wrong with them, for the model."""
    try:
        arguments = parsed(call.arguments)
    except orjson.JSONDecodeError:
        return "The arguments are not valid JSON."
    except LongNumberError:
        return "A number in the arguments has more than 64 bits. Write it as a text."
    except orjson.JSONEncodeError:
        return "The arguments are nested too deeply."
    return arguments if isinstance(arguments, dict) else "The arguments must be a JSON object."


def message_of(
    calls: Sequence[Call],
    texts: Sequence[str],
    *,
    thoughts: Sequence[str] = (),
    sealed: Sequence[str] = (),
) -> ChatMessage:
    """Return the model's answer with these texts and calls, as the model gets it again."""
    said = "\n\n".join(texts)
    made: ChatMessage = {
        "role": "assistant",
        "content": said if said.strip() else "",  # Anthropic refuses white space alone
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **({EXTRA: call.extra} if call.extra else {}),
            }
            for call in calls
        ],
    }
    if thoughts:
        made[REASONING] = "".join(thoughts)
    return {**made, SEALED: [*sealed]} if sealed else made


def last_calls(messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the calls of the model's last answer in ``messages``."""
    return next((each["tool_calls"] for each in reversed(messages) if each.get("tool_calls")), [])


async def result_within(
    tool: Tool, arguments: dict[str, Any], context: ToolContext
) -> ToolResult | None:
    """Return the result of a call; None when there was none in its time: it may have happened.

    Raises LostLeaseError and ProviderError.
    """
    started = time.monotonic()
    try:
        with traces.tool_call(tool.name, context.tool_call_id):
            async with asyncio.timeout(tool.seconds or None):
                result = await tool.run(context, arguments)
        return replace(result, text=clean(result.text), shown=clean(result.shown))
    except SignInError as error:
        return ToolResult(clean(f"Error: {error}"), ok=False, sign_in=error.wanted)
    except ToolError as error:
        return ToolResult(clean(f"Error: {error}"), ok=False)
    except TimeoutError:
        return None
    except (LostLeaseError, ProviderError):
        raise
    except Exception:
        # A bug of one tool must not take the answer, and the results of other calls, with it.
        logger.exception("the tool %s failed", tool.name)
        return ToolResult("Error: the tool failed.", ok=False) if tool.idempotent else None
    finally:
        logger.info("tool %s took %.2f s", tool.name, time.monotonic() - started)


async def side_by_side(
    works: Sequence[Callable[[], Coroutine[Any, Any, ToolResult]]],
) -> list[ToolResult]:
    """Return the results of all, in their order, at most TOOL_CALLS_AT_ONCE of them at a time.

    An exception of one ends the others and is raised.
    """
    if len(works) == 1:
        return [await works[0]()]
    places = asyncio.Semaphore(settings.TOOL_CALLS_AT_ONCE)

    async def placed(work: Callable[[], Coroutine[Any, Any, ToolResult]]) -> ToolResult:
        async with places:
            return await work()

    tasks = [asyncio.ensure_future(placed(each)) for each in works]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

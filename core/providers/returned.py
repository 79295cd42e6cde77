"""Fields that a vendor's server wants back with the calls of tools that its model made. Pure.

The loop keeps their values in messages under names of its own: the reasoning before the calls
(REASONING), its pieces that only the server can read (SEALED), and the field beside a call (EXTRA),
both as JSON. A server gets a field after it has refused a request for lack of it: others refuse
those that they do not know. Calls without a value, as of another model or of an earlier turn, are
completed then.

Sources: api-docs.deepseek.com/guides/thinking_mode, openrouter.ai/docs/use-cases/reasoning-tokens
and ai.google.dev/gemini-api/docs/thought-signatures.
"""

from collections.abc import Sequence, Set
from typing import Any

import orjson

from core.providers.base import EXTRA, REASONING, SEALED, ChatMessage

OWN = {REASONING, SEALED}
# The words of a refusal: of DeepSeek and Kimi, of OpenRouter, of Google.
THOUGHTS, DETAILS, SIGNATURE = "reasoning_content", "reasoning details", "thought_signature"
# Google's own word for calls that it has not signed.
UNSIGNED = {"google": {SIGNATURE: "skip_thought_signature_validator"}}
MADE_UP = "I call {0} with {1}."
MADE_UP_CHARACTERS = 200


def lacking(reason: str, messages: Sequence[ChatMessage], wanted: Set[str]) -> str:
    """Return the word for the required field that a request lacked; empty for other reasons."""
    has_calls = any(each.get("tool_calls") for each in messages)
    named = (word for word in (THOUGHTS, DETAILS, SIGNATURE) if word in reason)
    return next((word for word in named if has_calls and word not in wanted), "")


def for_server(messages: Sequence[ChatMessage], wanted: Set[str]) -> list[ChatMessage]:
    """Return messages for a server that wants these fields back, without answers that say nothing:
    Mistral and vLLM refuse the whole conversation for one, which clients keep after a stop.
    """
    return [
        completed(each, wanted) if each["role"] == "assistant" else each
        for each in messages
        if each["role"] != "assistant" or each["content"] or each.get("tool_calls")
    ]


def completed(message: ChatMessage, wanted: Set[str]) -> ChatMessage:
    """Return a message of the assistant."""
    calls = message.get("tool_calls") or []
    found = {name: value for name, value in message.items() if name not in OWN}
    if calls:
        found["tool_calls"] = signed(calls) if SIGNATURE in wanted else [*map(plain, calls)]
    if THOUGHTS in wanted:
        # Also in the answer after the calls; DeepSeek takes no empty text.
        found[THOUGHTS] = message.get(REASONING) or made_up(calls)
    if DETAILS in wanted and SEALED in message:
        found["reasoning_details"] = [orjson.loads(each) for each in message[SEALED]]
    return found


def signed(calls: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the calls of a message with the fields beside them; one of them has it always."""
    found = [
        {**plain(each), "extra_content": orjson.loads(each[EXTRA])}
        if EXTRA in each
        else plain(each)
        for each in calls
    ]
    if not any(EXTRA in each for each in calls):
        found[0] = {**found[0], "extra_content": UNSIGNED}
    return found


def plain(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call as every server knows it. Its arguments are an object, also where its model
    wrote another text: vLLM and llama.cpp refuse the whole conversation for that.
    """
    found = {name: value for name, value in call.items() if name != EXTRA}
    function = call["function"]
    return {**found, "function": {**function, "arguments": as_object(function["arguments"])}}


def as_object(arguments: str) -> str:
    """Return arguments that are a JSON object unchanged, and others in one."""
    try:
        if isinstance(orjson.loads(arguments or "{}"), dict):
            return arguments or "{}"
    except orjson.JSONDecodeError:
        pass
    return orjson.dumps({"arguments": arguments}).decode()


def made_up(calls: Sequence[dict[str, Any]]) -> str:
    """Return a thought for a message that came without one: not the same for all, since models
    repeat what stands there often.
    """
    if not calls:
        return "I answer."
    function = calls[0]["function"]
    return MADE_UP.format(function["name"], function["arguments"][:MADE_UP_CHARACTERS])

"""Requests that are sent again after a server refused something in them that may be left out, or be
said otherwise. Pure.

The words are those of OpenAI's models, which may be behind any address (Azure's, a proxy's), of
Kimi's and of Groq's; of the templates of Gemma, Mistral and others, at llama.cpp, vLLM and LM
Studio: a conversation in which two messages of a person follow each other, as after a turn that
failed, would fail for good; and of Google for Gemma, which takes no instructions.
"""

import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

from core.providers.base import ChatMessage

OPTION = re.compile(
    r"(?i)(?:unsupported (?:parameter|value)|unrecognized request argument supplied): \W?(\w+)"
    r"|invalid (\w+): only|`(\w+)` is not supported with this model|\b(stream_options)\b"
)
USAGE = "stream_options"  # it asks for the tokens; they are estimated where none come
NEWER = {"max_tokens": "max_completion_tokens"}
SPARED = frozenset(
    {"temperature", "top_p", "presence_penalty", "frequency_penalty", "reasoning_effort", USAGE}
)
ALTERNATE = re.compile(r"(?i)\balternat(?:e|ing)\b")
INSTRUCTIONS = re.compile(
    r"(?i)developer instruction is not enabled|system role (?:is )?not supported|does not support "
    r"'system'|only user and assistant roles"
)
# Refused are two messages in a row with one role, and those of the role "system".
ALTERNATING, SYSTEM = "messages", "system"


def refused(reason: str, options: Mapping[str, Any], known: Set[str] = frozenset()) -> str:
    """Return what a server refuses, if it has a newer name, may be left out, or may be said
    otherwise: options of how a model chooses its words, how long it thinks and whether its tokens
    are told; messages that do not alternate, and instructions. Empty for another ``reason``, and
    for what is ``known``.
    """
    found = OPTION.search(reason)
    name = next(filter(None, found.groups())) if found is not None else ""
    if takes_no_instructions(reason):
        name = SYSTEM
    elif ALTERNATE.search(reason):
        name = SYSTEM if ALTERNATING in known else ALTERNATING
    elif name not in {*options, USAGE} or not (name in NEWER or name in SPARED):
        name = ""
    return "" if name in known else name


def takes_no_instructions(reason: str) -> bool:
    """Return whether a model takes messages of a person and of its own alone."""
    return INSTRUCTIONS.search(reason) is not None


def without(names: Set[str], body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a request for a server that has refused these."""
    made = dict(body)
    for name in names & made.keys() - {ALTERNATING, SYSTEM}:
        value = made.pop(name)
        if name in NEWER:
            made[NEWER[name]] = value
    if SYSTEM in names:
        made["messages"] = of_person(made["messages"])
    elif ALTERNATING in names:
        made["messages"] = merged(made["messages"])
    return made


def of_person(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return messages whose instructions are the beginning of what the person says."""
    return merged(
        [
            {**each, "role": "user"} if each["role"] in ("system", "developer") else each
            for each in messages
        ]
    )


def merged(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return messages of which no two in a row have the same role, but calls of tools and their
    results.
    """
    made: list[ChatMessage] = []
    for each in messages:
        last = made[-1] if made else {}
        is_more = last.get("role") == each["role"] != "tool"
        if is_more and not (last.get("tool_calls") or each.get("tool_calls")):
            made[-1] = {**last, "content": both(last.get("content"), each.get("content"))}
        else:
            made.append(each)
    return made


def both(first: Any, second: Any) -> Any:
    """Return the content of two messages: a text, or a list of parts where one of them has it."""
    if isinstance(first, list) or isinstance(second, list):
        return [*parts_of(first), *parts_of(second)]
    return "\n\n".join(filter(None, (first, second)))


def parts_of(content: Any) -> list[dict[str, Any]]:
    """Return the content of a message as parts."""
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []

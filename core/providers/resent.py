"""Requests that are sent again after a server refused something in them that may be left out, or be
said otherwise. Pure.

The words are those of models of OpenAI, Anthropic, xAI, Kimi, Google and Groq, which may be behind
any address (Azure's, a proxy's); of the templates of Gemma, Mistral and others, at llama.cpp, vLLM
and LM Studio: a conversation in which two messages of a person follow each other, as after a turn
that failed, would fail for good; of Google for Gemma, which takes no instructions; and of Ollama,
vLLM, llama.cpp and others for models that call no tools. Google's words about schemas of tools come
through relays.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from core.providers import simple_schemas
from core.providers.base import ChatMessage, ModelRequest

OPTION = re.compile(
    r"(?i)(?:unsupported (?:parameter|value)|unrecognized request argument supplied): \W?(\w+)"
    r"|invalid (\w+): only|`(\w+)` is not supported with this model|\b(stream_options)\b"
    r"|\b(\w+)\W? is deprecated for this model|does not support parameters?\W+(\w+)"
    r"|argument not supported on this model: (\w+)|unknown name \W*(\w+)\W*: cannot find field"
    r"|property '(?:body\.)?(\w+)' is unsupported|\b(penalty) is not enabled for"
)
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")  # of names such as presencePenalty, as xAI says them
# A refusal of a value: another one may be taken.
VALUE = re.compile(r"(?i)unsupported value|invalid \w+: only")
PENALTIES = ("presence_penalty", "frequency_penalty")

MOST_VALUE = 100  # characters of a value that is remembered
MOST_VALUES = 50  # that are remembered of one model: people may think of any number
USAGE = "stream_options"  # it asks for the tokens; they are estimated where none come
NEWER = {"max_tokens": "max_completion_tokens"}
SPARED = frozenset({"temperature", "top_p", "top_k", "reasoning_effort", USAGE, *PENALTIES})
ALTERNATE = re.compile(r"(?i)\balternat(?:e|ing)\b")
INSTRUCTIONS = re.compile(
    r"(?i)developer instruction is not enabled|system role (?:is )?not supported|does not support "
    r"'system'|only user and assistant roles"
)
NO_TOOLS = re.compile(
    r"(?i)does not support (?:tools|tool use|function calling)|that support tool use"
    r"|requires --(?:enable-auto-tool-choice|jinja)|'tools' is not supported"
    r"|(?:function|tool) calling\W? is not (?:enabled|supported)"
)
TOOLS = frozenset({"tools", "tool_choice", "parallel_tool_calls"})
TWO = re.compile(r"(?i)temperature\W+and\W+top_p\W+cannot both be")  # of Anthropic
LONG = re.compile(
    r"(?i)function\.description\W+string too long\W+expected a string with maximum length (\d+)"
)
# All that may be the words of a person; ALTERNATE leaves their words in the request.
REFUSALS = (OPTION, INSTRUCTIONS, NO_TOOLS, TWO, LONG, simple_schemas.REFUSAL)
DESCRIPTIONS = "descriptions of tools beyond "  # so many characters: 1,024 at older addresses
# Refused are two messages in a row with one role, those of the role "system", and top_p beside a
# temperature, each of which is taken alone.
ALTERNATING, SYSTEM, BESIDE = "messages", "system", "top_p beside temperature"


def refused(
    reason: str, request: ModelRequest, known: Set[str], *, may_lack_tools: bool = False
) -> str:
    """Return what a server refuses, if it has a newer name, may be left out, or may be said
    otherwise: options of how a model chooses its words, how long it thinks and whether its tokens
    are told; messages that do not alternate, and instructions; schemas of tools; tools of which
    none is demanded, where it is not known whether the model calls any. Empty for another
    ``reason``, for what is ``known``, and where the words are the request's own.
    """
    if repeats(reason, request):
        return ""
    name = option_in(reason, [each for each in request.options if each not in known])
    if NO_TOOLS.search(reason):
        is_free = may_lack_tools and request.tools and not demands_a_call(request.options)
        name = "tools" if is_free else ""
    elif INSTRUCTIONS.search(reason):
        name = SYSTEM
    elif TWO.search(reason):
        name = BESIDE
    elif long := LONG.search(reason):
        is_short = any(each.startswith(DESCRIPTIONS) for each in known)
        name = "" if is_short else f"{DESCRIPTIONS}{long[1]}"
    elif request.tools and simple_schemas.REFUSAL.search(reason):
        name = simple_schemas.SCHEMAS
    elif ALTERNATE.search(reason):
        name = SYSTEM if ALTERNATING in known else ALTERNATING
    elif name not in {*request.options, USAGE} or not (name in NEWER or name in SPARED):
        name = ""
    elif name in request.options and VALUE.search(reason):
        name = valued(name, request.options[name])
    return "" if name in known else name


def valued(name: str, value: Any) -> str:
    """Return the name for one value of an option; the option's own where that is no short one."""
    given = str(value) if isinstance(value, str | int | float) else ""
    return f"{name}={given}" if 0 < len(given) <= MOST_VALUE else name


def option_in(reason: str, options: Collection[str]) -> str:
    """Return the option that a refusal names, as OpenAI writes it; empty for none."""
    found = OPTION.search(reason)
    if found is None:
        return ""
    name = HUMP.sub("_", next(filter(None, found.groups()))).lower()
    if name == "penalty":  # Google says no more
        return next((each for each in PENALTIES if each in options), "")
    return name


def repeats(reason: str, request: ModelRequest) -> bool:
    """Return whether the words of a refusal are those of a person: servers quote a value that they
    do not take, and the refusal would count for all people.
    """
    found = [pattern.search(reason) for pattern in REFUSALS]
    said = [words_of(each[0]) for each in found if each is not None]
    given = map(words_of, texts_in([request.options, request.tools])) if said else ()
    return any(each in text for text in given for each in said)


def words_of(text: str) -> str:
    """Return the words of a text, whatever is between them."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value, with the names in its objects."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            left += [*each.keys(), *each.values()]
        elif isinstance(each, Sequence):
            left += each


def demands_a_call(options: Mapping[str, Any]) -> bool:
    """Return whether a client wants a call of a tool, and would take no text for it."""
    return options.get("tool_choice") not in (None, "auto", "none")


def remembered(known: frozenset[str], left_out: frozenset[str]) -> frozenset[str]:
    """Return what a model refuses, with what was left out of a request that it has taken: a refusal
    of that alone proves nothing.
    """
    both = known | left_out
    if sum("=" in each for each in both) <= MOST_VALUES:
        return both
    return known | {each for each in left_out if "=" not in each}


def without(names: frozenset[str], body: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a request for a server that has refused these."""
    if "tools" in names:
        names = names - TOOLS if demands_a_call(body) else names | TOOLS
    made = with_options(names, body)
    for name in names:
        if name.startswith(DESCRIPTIONS) and "tools" in made:
            most = int(name.removeprefix(DESCRIPTIONS))
            made["tools"] = [shortened(each, most) for each in made["tools"]]
    if simple_schemas.SCHEMAS in names and "tools" in made:
        made["tools"] = [simple_schemas.simple_tool(each) for each in made["tools"]]
    if SYSTEM in names:
        made["messages"] = of_person(made["messages"])
    elif ALTERNATING in names:
        made["messages"] = merged(made["messages"])
    return made


def with_options(names: frozenset[str], body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with the options that the server takes, by the names that it takes."""
    made = dict(body)
    for name in body.keys() - {ALTERNATING}:
        if not names & {name, valued(name, body[name])}:
            continue
        value = made.pop(name)
        if name in NEWER:
            made[NEWER[name]] = value
    if BESIDE in names and "temperature" in made:
        made.pop("top_p", None)
    return made


def request_without(names: frozenset[str], request: ModelRequest) -> ModelRequest:
    """Return a request for a server that has refused these."""
    given = {**request.options, "messages": request.messages, "tools": request.tools}
    made = without(names, given)
    messages, tools = made.pop("messages"), made.pop("tools")
    return replace(request, messages=messages, tools=tools, options=made)


def shortened(tool: dict[str, Any], most: int) -> dict[str, Any]:
    """Return a tool with at most so many characters of description."""
    function = tool["function"]
    said = function.get("description") or ""
    if len(said) <= most:
        return tool
    return {**tool, "function": {**function, "description": f"{said[: most - 1]}…"}}


def of_person(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return messages whose instructions are the beginning of what the person says."""
    return merged(
        [
            {**each, "role": "user"} if each["role"] in ("system", "developer") else each
            for each in messages
        ]
    )


def merged(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return messages without two of one role in a row, except calls of tools and results."""
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
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []

"""Calls of tools as a part of the history: the part that is kept with an answer, and the
messages that the model gets of it. Pure.

Kept are, of the last MOST_CALLS calls of a turn, ARGUMENTS characters of the arguments and RESULT
characters of the result, of all of them IN_ALL: head and tail, with the number of characters
left out between them. Arguments stay a JSON object, since vendors refuse others.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import orjson

from core.agent.calling import LongNumberError, parsed
from core.providers.base import ChatMessage

MOST_CALLS = 32
ARGUMENTS, RESULT, IN_ALL = 2_000, 4_000, 16_000
REPEATED = "(The answer below has it.)"
LEFT_OUT = "\n… {} characters left out …\n"
ID_CHARACTERS = 9
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def calls_of(
    messages: Sequence[ChatMessage], since: int, *, answer: str = ""
) -> list[dict[str, str]]:
    """Return the calls that a turn has added to ``messages`` from index ``since`` on, shortened, as
    ``Message.calls`` has them: id, name, arguments, result, and step (the number of the model's
    answer that made the call).

    A call without a result, as of a turn that was stopped, is left out. Of a result that ``answer``
    repeats only the mention is kept.
    """
    added = messages[since:]
    results = {each["tool_call_id"]: each["content"] for each in added if each["role"] == "tool"}
    asked = [each["tool_calls"] for each in added if each.get("tool_calls")]
    found = [
        (step, call)
        for step, calls in enumerate(asked, 1)
        for call in calls
        if call["id"] in results
    ][-MOST_CALLS:]
    third = IN_ALL // 3 // max(1, len(found))
    return [
        {
            "id": call["id"],
            "name": call["function"]["name"],
            "arguments": short_arguments(call["function"]["arguments"], min(ARGUMENTS, third)),
            "result": kept_result(results[call["id"]], answer, min(RESULT, 2 * third)),
            "step": str(step),
        }
        for step, call in found
    ]


def ids_of_calls(messages: Sequence[ChatMessage]) -> set[str]:
    return {call["id"] for each in messages for call in each.get("tool_calls") or ()}


def kept_result(result: str, answer: str, most: int) -> str:
    """Return a result as it is kept: within ``most`` characters."""
    is_repeated = len(result) > len(REPEATED) and result.strip() in answer
    return REPEATED if is_repeated else short(result, most)


def short(text: str, most: int) -> str:
    """Shorten ``text`` to ``most`` characters: two thirds of its head, one third of its tail."""
    if len(text) <= most:
        return text
    left = most - len(LEFT_OUT.format(len(text)))
    if left < 3:
        return text[:most]
    tail = left // 3
    head = left - tail
    return text[:head] + LEFT_OUT.format(len(text) - left) + text[len(text) - tail :]


def short_arguments(arguments: str, most: int) -> str:
    """Return the arguments of a call as a JSON object within ``most`` characters: its longer values
    are shortened. Anything else becomes one.
    """
    try:
        given = parsed(arguments or "{}")
    except LongNumberError:  # refused, but an object
        given = orjson.loads(arguments)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        given = None
    if isinstance(given, dict) and len(arguments) <= most:
        return arguments or "{}"
    if not isinstance(given, dict):
        given = {"arguments": arguments}
    share = most // max(1, len(given))
    while share > 8:  # escaped characters are several
        text = orjson.dumps({name: short_value(each, share) for name, each in given.items()})
        if len(text.decode()) <= most:
            return text.decode()
        share //= 2
    return "{}"


def short_value(value: Any, most: int) -> Any:
    """Return a value of arguments; a long one as the shortened text of it."""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return value if len(text) <= most else short(text, most)


def as_messages(calls: Sequence[dict[str, str]], message_id: int) -> list[ChatMessage]:
    """Return the kept calls of the stored message with this id as chat messages: for each step the
    model's calls, then their results.

    Their ids are made anew, unique in a conversation and the same in every turn: vendors refuse
    repeated ones, more than 40 characters, or others than nine letters and digits.
    """
    made: list[ChatMessage] = []
    for _, step in groupby(enumerate(calls), lambda each: each[1]["step"]):
        named = [(id_of(message_id * MOST_CALLS + number), call) for number, call in step]
        asked = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call_id, call in named
        ]
        made.append({"role": "assistant", "content": "", "tool_calls": asked})
        made += [
            {"role": "tool", "tool_call_id": call_id, "content": call["result"]}
            for call_id, call in named
        ]
    return made


def id_of(number: int) -> str:
    """Return a number as nine letters and digits."""
    found = ""
    while number:
        number, digit = divmod(number, len(DIGITS))
        found = DIGITS[digit] + found
    return found.rjust(ID_CHARACTERS, "0")

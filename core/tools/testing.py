"""A test kit for authors of tools: call one as a turn does, and check what is around it.

    from core.tools.testing import check, play

    def test_the_weather() -> None:
        check(TOOL, {"city": "Oslo"})                 schema, wrong arguments, sentences
        played = play(TOOL, {"city": "Oslo"}, request="Wie wird das Wetter?")
        assert played.lines == ["Das Wetter wird nachgesehen…"]
        assert "°C" in played.result.text

It needs no server and no database, unless the tool does. The checks raise AssertionError.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonschema

from core.lib.installed import is_name
from core.messages import Message, to_dict
from core.tools import languages, phrases
from core.tools.arguments import all_coerced, problem
from core.tools.base import Tool, ToolContext, ToolError, ToolResult
from core.tools.typed import TypedTool

LONGEST_REFUSAL = 1000
CHOICES = {"anyOf", "oneOf", "allOf", "$ref"}
# Of every JSON type; which are wrong depends on the schema.
VALUES: tuple[Any, ...] = (
    "", "no such value", "x" * 100_000, -1, 0, 0.5, 10**30, -(10**30), True, None, [], [[]], ["x"],
    {}, {"no such key": 1}, "\u2028\u202e",
)  # fmt: skip


@dataclass(slots=True)
class Played:
    """The result of a call, and all that the person was shown, in the order of showing.

    ``lines`` has the progress lines and the texts, in the person's language; ``messages`` has all
    that was sent besides, as in the run's log.
    """

    result: ToolResult = field(default_factory=lambda: ToolResult(""))
    lines: list[str] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def emit(self, message: Message) -> None:
        """Keep a message of the tool, and the line of one that reports progress."""
        self.messages.append(message)
        props = to_dict(message)["props"]
        if message.type == "loading" or props.get("event") == "progress":
            self.lines.append(str(props["message"]))


def context_for(played: Played, **changes: Any) -> ToolContext:
    """Return the context of a call, whose messages are kept in ``played``."""
    values: dict[str, Any] = {
        "run_id": 1,
        "user_id": 1,
        "session_id": 1,
        "tool_call_id": "call-1",
        "time_zone": "Europe/Berlin",
        "emit": played.emit,
    }
    return ToolContext(**{**values, **changes})


def play(tool: Tool, arguments: Mapping[str, Any], *, request: str = "", **context: Any) -> Played:
    """Call a tool as a turn does, for a person who wrote ``request``; ``context`` replaces values
    of the ToolContext. Raises ToolError.
    """
    return asyncio.run(played(tool, arguments, request=request, **context))


async def played(
    tool: Tool, arguments: Mapping[str, Any], *, request: str = "", **context: Any
) -> Played:
    """Do as :func:`play`, in a running event loop."""
    found, given = Played(), dict(arguments)
    language = languages.of_request(request)
    if line := tool.progress(given):
        found.lines.append(phrases.in_language(line, language))
    found.result = await tool.run(context_for(found, request=request, **context), given)
    if found.result.final:
        found.lines.append(found.result.text)
    if found.result.shown:
        found.lines.append(found.result.shown)
    return found


def check(tool: Tool, good: Mapping[str, Any], *, languages: Iterable[str] = phrases.ORDER) -> None:
    """Check a tool with the arguments of a ``good`` call, which is not made."""
    check_schema(tool, good)
    check_sentences(tool, good, languages=languages)
    asyncio.run(check_refusals(tool, good))


def check_schema(tool: Tool, good: Mapping[str, Any]) -> None:
    """Check that vendors take the tool's name and schema, and the schema a good call."""
    must(is_name(tool.name), "the name has letters, digits, - and _, at most 64")
    must(tool.description.strip(), "the description is empty")
    json.dumps(tool.parameters)
    jsonschema.Draft202012Validator.check_schema(tool.parameters)
    must(tool.parameters.get("type") == "object", "the schema is of an object")
    must(tool.parameters.get("additionalProperties") is False, "the schema is closed")
    must(not CHOICES & set(tool.parameters), "no choice at the top")
    for name, each in tool.parameters["properties"].items():
        must({"type", "anyOf"} & set(each), f"{name} has no type")
    jsonschema.validate(dict(good), tool.parameters)


def check_sentences(
    tool: Tool, good: Mapping[str, Any], *, languages: Iterable[str] = phrases.ORDER
) -> None:
    """Check that the lines of a tool are translated, and that wrong arguments change nothing."""
    phrases.add(getattr(tool, "translations", {}))
    wanted = [*languages]
    for english in getattr(tool, "translations", {}):
        assert_translated(english, wanted)
    for arguments in (dict(good), *wrong_arguments(tool, good), {}):
        line = tool.progress(arguments)
        must(isinstance(line, str), f"progress is no text for {arguments!r:.80}")
        must(isinstance(tool.cost(arguments), str), f"cost is no text for {arguments!r:.80}")
    if line := tool.progress(dict(good)):
        assert_translated(line, wanted)
    for text in ("", "Thank you.", "\u2028"):
        must(tool.infer(text) is None, f"infer takes {text!r} for a request")


def assert_translated(line: str, wanted: Iterable[str]) -> None:
    """Check that a line which people see has a translation in each language."""
    filled = phrases.SLOT.sub("7", line)
    missing = [each for each in wanted if not phrases.is_translated(filled, [each])]
    must(not missing, f"“{line}” is not translated to {', '.join(missing)}")


async def check_refusals(tool: Tool, good: Mapping[str, Any]) -> None:
    """Check that wrong arguments are refused in words for the model, and raise nothing else.

    A tool that checks by itself may accept some of them: a typed one refuses all.
    """
    for arguments in wrong_arguments(tool, good):
        try:
            await tool.run(context_for(Played()), arguments)
        except ToolError as error:
            said = str(error)
            must(0 < len(said) <= LONGEST_REFUSAL, f"a refusal of {len(said)} letters")
        else:
            must(not isinstance(tool, TypedTool), f"{arguments!r:.200} was not refused")


def wrong_arguments(tool: Tool, good: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield arguments that the schema refuses, also when texts are read as numbers."""
    validator = jsonschema.Draft202012Validator(tool.parameters)
    tries = [{**good, "no such argument": 1}]
    tries += [{key: each for key, each in good.items() if key != name} for name in good]
    tries += [{**good, name: value} for name in tool.parameters["properties"] for value in VALUES]
    for arguments in tries:
        if problem(validator, all_coerced(arguments, tool.parameters)):
            yield arguments


def must(is_so: object, otherwise: str) -> None:
    """Raise AssertionError with a text unless something is so."""
    if not is_so:
        raise AssertionError(otherwise)

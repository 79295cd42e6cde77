"""[V24] The test kit for authors finds what is wrong with a tool, and shows what a person sees."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import pytest

from core.messages import progress
from core.tools import registry
from core.tools.base import Tool, ToolContext, ToolError, ToolResult
from core.tools.testing import (
    assert_translated,
    check,
    check_refusals,
    check_schema,
    check_sentences,
    play,
    wrong_arguments,
)
from core.tools.typed import Field, TypedTool
from tests.core.tools.installed import installed

GERMAN = "Wie viele Tage sind es bis zum 31. Januar?"


class Echo(TypedTool):
    """Repeats a word."""

    line = "Reading the document…"

    async def call(
        self, context: ToolContext, word: str, times: Annotated[int, Field(ge=1, le=3)] = 1
    ) -> ToolResult:
        """Return the words."""
        context.emit(progress("Halfway", tool=self.name, percent=50))
        return ToolResult("Repeated.", shown=" ".join([word] * times), final=word == "end")


def test_v24_a_played_call_shows_all_that_the_person_sees() -> None:
    played = play(Echo(), {"word": "end", "times": 2}, request="Erstelle bitte das für mich")
    assert played.result.shown == "end end"
    assert played.lines == ["Das Dokument wird gelesen…", "Halfway", "Repeated.", "end end"]
    assert len(played.messages) == 1
    with pytest.raises(ToolError, match=r"times must be a whole number from 1 to 3"):
        play(Echo(), {"word": "a", "times": 9})


def test_v24_a_sound_tool_passes() -> None:
    check(Echo(), {"word": "a"})


def test_v24_the_example_of_the_documentation_passes(
    tmp_path: Path,
) -> None:
    with installed(tmp_path, points={"days": "latchkey_example_tool:TOOL"}):
        tool = registry.installed().found["days_until"]
        check(tool, {"day": "2027-01-31"})
        played = play(tool, {"day": "9999-01-31", "count": "workdays"}, request=GERMAN)
        assert played.lines[0] == "Die Tage werden gezählt…"
        assert played.lines[1].startswith("📅 Bis zum 9999-01-31 sind es 26")
        with pytest.raises(ToolError, match="day is a date such as"):
            play(tool, {"day": "tomorrow!!"})


def test_v24_wrong_arguments_are_of_every_kind_that_the_schema_refuses() -> None:
    tried = [*wrong_arguments(Echo(), {"word": "a"})]
    assert {} in tried
    assert {"word": "a", "no such argument": 1} in tried
    values: list[Any] = [0, 0.5, 10**30, True, "no such value", [], {}]
    for value in values:
        assert {"word": "a", "times": value} in tried
    assert {"word": "a", "times": None} not in tried


class ByHand(Tool):
    """A tool with mistakes, each in a test of its own."""

    name, description = "by_hand", "Does things."
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {"number": {"type": "integer"}},
        "required": ["number"],
        "additionalProperties": False,
    }

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Return the next number, without a check."""
        del context
        return ToolResult(str(arguments["number"] + 1))


def test_v24_an_error_other_than_a_refusal_is_found() -> None:
    with pytest.raises((KeyError, TypeError)):
        asyncio.run(check_refusals(ByHand(), {"number": 1}))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "by hand"}, "the name has"),
        ({"description": " "}, "description is empty"),
        ({"parameters": {"type": "object", "properties": {}}}, "is closed"),
        (
            {"parameters": {**ByHand.parameters, "properties": {"number": {}}}},
            "number has no type",
        ),
        ({"parameters": {**ByHand.parameters, "anyOf": [{}]}}, "no choice at the top"),
    ],
)
def test_v24_a_schema_that_vendors_refuse_is_found(changes: dict[str, Any], said: str) -> None:
    tool = type("Changed", (ByHand,), changes)()
    with pytest.raises(AssertionError, match=said):
        check_schema(tool, {"number": 1})


def test_v24_a_line_without_a_translation_is_found() -> None:
    class Silent(Echo):
        """Says something that is not listed."""

        line = "Doing something odd…"

    with pytest.raises(AssertionError, match="“Doing something odd…” is not translated to zh, es"):
        check_sentences(Silent(), {"word": "a"})
    check_sentences(Silent(), {"word": "a"}, languages=[])
    with pytest.raises(AssertionError, match="not translated to fr"):
        assert_translated("Odd: {0}", ["fr"])

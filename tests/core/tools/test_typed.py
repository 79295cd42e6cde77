"""A tool that is one class with types: its schema, and its refusals of wrong arguments."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.messages import Message
from core.tools import registry
from core.tools.base import ToolContext, ToolError, ToolResult
from core.tools.typed import Field, TypedTool, snake_case

SCHEMAS = json.loads((Path(__file__).parent / "schemas.json").read_text(encoding="utf-8"))


class Stop(TypedDict):
    """A place on a journey."""

    city: Annotated[str, Field("In any language.")]
    nights: NotRequired[int]


class PlanJourney(TypedTool):
    """Plans a journey. Call it
    for any journey.

    Never for work.
    """

    line = "Planning…"
    ask = "always"
    idempotent = False

    async def call(
        self,
        context: ToolContext,
        stops: Annotated[list[Stop], Field(min_length=1, max_length=3)],
        from_: str,
        days: Annotated[int, Field("How long.", ge=1, le=7)] = 1,
        mood: Literal["calm", "wild"] = "calm",
        budget: float | None = None,
        *,
        alone: bool = True,
        more: dict[str, Any] | None = None,
        marks: dict[str, int] | None = None,
    ) -> str:
        """Return what was understood."""
        del context
        return repr((stops, from_, days, mood, budget, alone, more, marks))


TOOL = PlanJourney()
GOOD: dict[str, Any] = {"stops": [{"city": "Oslo"}], "from": "Rome"}


def context() -> ToolContext:
    sent: list[Message] = []
    return ToolContext(1, 2, 3, "call-1", "Europe/Berlin", sent.append)


def ran(**arguments: Any) -> str:
    return asyncio.run(TOOL.run(context(), arguments)).text


def refused(arguments: Any) -> str:
    with pytest.raises(ToolError) as error:
        asyncio.run(TOOL.run(context(), arguments))
    return str(error.value)


def test_v20_the_schema_is_made_from_the_types() -> None:
    """[V20] Flat, closed, without titles and references; name and description from the class."""
    assert (TOOL.name, TOOL.ask, TOOL.asks, TOOL.idempotent) == (
        "plan_journey",
        "always",
        "owner",
        False,
    )
    assert TOOL.description == "Plans a journey. Call it for any journey.\nNever for work."
    assert TOOL.parameters == {
        "type": "object",
        "properties": {
            "stops": {
                "type": "array",
                "minItems": 1,
                "maxItems": 3,
                "items": {
                    "type": "object",
                    "properties": {
                        "city": {"type": "string", "description": "In any language."},
                        "nights": {"type": "integer"},
                    },
                    "required": ["city"],
                    "additionalProperties": False,
                },
            },
            "from": {"type": "string"},
            "days": {"type": "integer", "description": "How long.", "minimum": 1, "maximum": 7},
            "mood": {"type": "string", "enum": ["calm", "wild"]},
            "budget": {"type": "number"},
            "alone": {"type": "boolean"},
            "more": {"type": "object"},
            "marks": {"type": "object", "additionalProperties": {"type": "integer"}},
        },
        "required": ["stops", "from"],
        "additionalProperties": False,
    }
    jsonschema.Draft202012Validator.check_schema(TOOL.parameters)


@pytest.mark.parametrize("before", SCHEMAS, ids=lambda each: str(each["name"]))
def test_v20_models_see_the_same_schemas_as_when_they_were_written_by_hand(
    before: dict[str, Any],
) -> None:
    tool = registry.get(before["name"])
    assert tool is not None
    assert isinstance(tool, TypedTool)
    assert registry.schema(tool)["function"] == before


@pytest.mark.parametrize(
    ("class_", "name"), [("CurrentTime", "current_time"), ("HTTPGet", "http_get"), ("X2Y", "x2_y")]
)
def test_v20_the_name_is_the_classs_in_snake_case(class_: str, name: str) -> None:
    assert snake_case(class_) == name


def test_v20_a_call_gets_values_of_its_types() -> None:
    """Numbers as texts, null for what is left out, a list of one without its brackets: models
    write such.
    """
    plain = "([{'city': 'Oslo'}], 'Rome', 1, 'calm', None, True, None, None)"
    assert ran(**GOOD) == plain
    assert ran(**GOOD, days=None, mood="", budget="", alone=None, more=None) == plain
    assert ran(
        stops=[{"city": 7, "nights": "2"}, {"city": "Bern", "nights": None}],
        **{"from": "Rome"},
        days=3.0,
        budget="2.5",
        alone="False",
        more='{"a": [1]}',
        marks={"x": "4"},
    ) == (
        "([{'city': '7', 'nights': 2}, {'city': 'Bern'}], 'Rome', 3, 'calm', 2.5, False, "
        "{'a': [1]}, {'x': 4})"
    )


WRONG: dict[str, Any] = {
    "from is missing.": {"stops": GOOD["stops"]},
    "colour is not known; known are: stops, from, days,": {**GOOD, "colour": "red"},
    "days must be a whole number from 1 to 7; it was 8.": {**GOOD, "days": 8},
    'days must be a whole number from 1 to 7; it was "soon".': {**GOOD, "days": "soon"},
    "days must be a whole number from 1 to 7; it was 2.5.": {**GOOD, "days": 2.5},
    "mood must be one of calm, wild; it was []": {**GOOD, "mood": []},
    "budget must be a number; it was []": {**GOOD, "budget": []},
    "alone must be true or false; it was 1.": {**GOOD, "alone": 1},
    "stops must have at least 1 entry.": {**GOOD, "stops": []},
    "stops must have at most 3 entries.": {**GOOD, "stops": GOOD["stops"] * 4},
    "stops.0.city is missing.": {**GOOD, "stops": [{}]},
    "stops.1 must be an object; it was 5.": {**GOOD, "stops": [{"city": "x"}, 5]},
    "stops.0.nights must be a whole number; it was true.": {
        **GOOD,
        "stops": [{"city": "x", "nights": True}],
    },
    "marks.a must be a whole number; it was {}.": {**GOOD, "marks": {"a": {}}},
    "The arguments must be an object; it was [].": [],
    "The arguments must be an object; it was null.": None,
}


@pytest.mark.parametrize("said", WRONG)
def test_v21_wrong_arguments_are_refused_in_a_line_that_names_the_fault(said: str) -> None:
    assert refused(WRONG[said]).startswith(said)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["city", "nights", "a", "\n"]) | st.text(max_size=6), inner, max_size=4
        )
    ),
    max_leaves=12,
)
KEYS = st.sampled_from([*TOOL.parameters["properties"], "context", "self", "colour\u2028"])


@pytest.mark.unmeasured
@settings(max_examples=400, deadline=None)
@given(
    st.one_of(
        ANY,
        st.dictionaries(KEYS, ANY, max_size=6),
        st.dictionaries(KEYS, ANY, max_size=6).map(lambda values: {**GOOD, **values}),
    )
)
def test_v21_any_json_is_carried_out_or_refused_in_one_plain_line(arguments: Any) -> None:
    """[V21] Nothing else is raised, and nothing wrong reaches ``call``."""
    try:
        values = TOOL.checked(arguments)
    except ToolError as error:
        said = str(error)
        assert said
        assert len(said) <= 300
        assert said.isprintable()
        return
    jsonschema.validate(values, TOOL.parameters)
    assert asyncio.run(TOOL.run(context(), arguments)).ok


def test_v21_a_result_may_be_more_than_a_text() -> None:
    class Shout(TypedTool):
        """Shouts."""

        async def call(self, context: ToolContext) -> ToolResult:
            """Return a text that the person is shown."""
            del context
            return ToolResult("Shouted.", shown="HEY")

    assert asyncio.run(Shout().run(context(), {})) == ToolResult("Shouted.", shown="HEY")
    assert Shout.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def made(hint: Any, *, name: str = "value") -> type[TypedTool]:
    """Return a tool whose only parameter has this type."""

    async def call(self: Any, context: ToolContext, value: Any) -> str:
        return str((self, context, value))

    call.__annotations__["value"] = hint
    return type("Odd", (TypedTool,), {"__doc__": "Is odd.", "call": call, "__module__": name})


class Deep(TypedDict):
    """A type within itself."""

    inner: "list[Deep]"


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (Any, "no type that a model can be told"),
        (object, "no type"),
        (set[int], "no type"),
        (int | str, "no type"),
        (list, "no type"),
        (dict[int, str], "have to be str"),
        (Literal["a", 1], "no type"),
        (Deep, "levels deep"),
        (Annotated[int, "days"], r"write one Field\(…\)"),
        (Annotated[int, Field(max_length=3)], "max_length is no limit of a value of the type int"),
        (Annotated[str, Field(ge=3)], "ge is no limit"),
    ],
)
def test_v20_a_type_that_a_model_cannot_be_told_is_refused_when_the_class_is_made(
    hint: Any, said: str
) -> None:
    with pytest.raises(TypeError, match=rf"Odd\.call: value.*{said}"):
        made(hint)


def test_v20_other_mistakes_of_an_author_are_named_too() -> None:
    async def bare(_self: Any, context: ToolContext, city) -> str:  # type: ignore[no-untyped-def]
        return f"{context}{city}"

    async def without(_self: Any, city: str) -> str:
        return city

    async def starred(_self: Any, context: ToolContext, *cities: str) -> str:
        return f"{context}{cities}"

    async def twice(_self: Any, context: ToolContext, from_: str, **more: str) -> str:
        return f"{context}{from_}{more}"

    async def same(_self: Any, context: ToolContext, day: str, day_: str) -> str:
        return f"{context}{day}{day_}"

    def blocking(_self: Any, context: ToolContext) -> str:
        return str(context)

    for call, said in (
        (bare, "city has no type"),
        (without, "first parameter of Odd.call is context"),
        (starred, "cities has to be a named parameter"),
        (twice, "more has to be a named parameter"),
        (same, "day_ has the name of another parameter"),
        (blocking, "has to be an async method"),
    ):
        with pytest.raises(TypeError, match=said):
            type("Odd", (TypedTool,), {"__doc__": "Is odd.", "call": call})
    with pytest.raises(TypeError, match="Odd needs a docstring"):
        type("Odd", (TypedTool,), {"call": TOOL.call})

"""Numbers as texts and null for nothing are read; a wrong value is refused in a sentence."""

from typing import Any

import orjson
import pytest

from core.plugins import registry
from core.tools import registry as tools
from core.tools.base import ToolError
from core.tools.route_to_plugin import given, known
from core.tools.run_skill import TOOL as RUN_SKILL
from core.tools.testing import play

SLIDES = registry.every()["ppt-generation"].capabilities["create_from_source"]


@pytest.mark.parametrize("number", ["9" * 5000, 1e30, -1e300, "-" + "9" * 400])
def test_a_number_of_any_length_is_refused_in_words(number: Any) -> None:
    """Each was an error of the gateway itself, and the turn's end."""
    with pytest.raises(ToolError, match=r"^parameters\.slides must be a whole number from 3 to 40"):
        known({"source": "Bees", "slides": number}, SLIDES, "ppt-generation")


@pytest.mark.parametrize("depth", [100, 400, 1000])
@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":', "}")])
def test_a_value_of_any_depth_is_refused_in_words(depth: int, pair: tuple[str, str]) -> None:
    """As deep as a call can be read: it was an error of the gateway itself."""
    deep = orjson.loads(pair[0] * depth + "1" + pair[1] * depth)
    with pytest.raises(ToolError, match=r"^parameters must not be nested so deeply\.$"):
        known(given({"parameters": {"source": "Bees", "slides": deep}}), SLIDES, "ppt-generation")
    for arguments in ({"skill": deep}, {"skill": "a", "input": {"b": deep}}):
        with pytest.raises(ToolError, match=r"^The arguments must not be nested so deeply\.$"):
            play(RUN_SKILL, arguments)


def test_a_value_of_a_few_levels_is_read() -> None:
    deep = {"b": orjson.loads("[" * 40 + "]" * 40)}
    assert RUN_SKILL.checked({"skill": "a", "input": deep}) == {"skill": "a", "input": deep}


@pytest.mark.parametrize("name", ["route_to_plugin", "schedule", "run_skill"])
def test_no_argument_is_too_deep_for_a_tool_that_reads_it_by_hand(name: str) -> None:
    tool = tools.get(name)
    assert tool is not None
    deep = orjson.loads("[" * 1000 + "]" * 1000)
    for key in tool.parameters["properties"]:
        assert isinstance(tool.progress({key: deep}), str)
        with pytest.raises(ToolError):
            play(tool, {"plugin_id": "ppt-generation", key: deep, "parameters": deep})

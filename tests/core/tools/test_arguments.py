"""Numbers as texts and null for nothing are read; a wrong value is refused in a sentence."""

from typing import Any

import orjson
import pytest

from core.plugins import registry
from core.tools.base import ToolError
from core.tools.route_to_plugin import known
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
    with pytest.raises(ToolError, match=r"^parameters\.slides must be a whole number|so deeply\.$"):
        known({"source": "Bees", "slides": deep}, SLIDES, "ppt-generation")
    with pytest.raises(ToolError, match=r"^skill must be a string|so deeply\.$"):
        play(RUN_SKILL, {"skill": deep})
    assert RUN_SKILL.checked({"skill": "a", "input": {"b": deep}}) == {
        "skill": "a",
        "input": {"b": deep},
    }

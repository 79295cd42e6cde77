"""[V24] The gateway's own tools pass the test kit that authors of tools use."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tools import registry
from core.tools.base import ToolError
from core.tools.testing import check, check_schema, check_sentences, play
from core.tools.typed import TypedTool

GOOD: dict[str, dict[str, Any]] = {
    "current_time": {"time_zone": "Asia/Tokyo"},
    "document_read": {"file": "/files/abc", "from_part": 2},
    "route_to_plugin": {
        "plugin_id": "ppt-generation",
        "capability_id": "create_from_source",
        "parameters": {"source": "Bees", "slides": 5},
    },
    "run_skill": {"skill": "count", "input": {"text": "a b"}},
    "save_result_page": {"title": "Plan", "content": "# Plan", "format": "html"},
    "schedule": {"action": "create", "text": "Pills", "at": "2027-01-01T08:00"},
    "web_search": {"query": "mill prices", "results": 3, "since": "week"},
    "web_fetch": {"url": "https://example.org/page", "from_part": 2},
}


@pytest.mark.parametrize("name", registry.TOOLS)
def test_v24_every_tool_of_the_gateway_has_a_sound_schema_and_translated_lines(name: str) -> None:
    tool = registry.get(name)
    assert tool is not None
    assert (tool.ask, tool.asks, tool.idempotent) == ("never", "owner", True)
    check_schema(tool, GOOD[name])
    check_sentences(tool, GOOD[name])


@pytest.mark.parametrize("name", registry.TOOLS)
def test_v24_wrong_arguments_of_typed_tools_are_refused_before_anything_is_read(name: str) -> None:
    """No database is there: nothing was asked of it."""
    tool = registry.get(name)
    if isinstance(tool, TypedTool):
        check(tool, GOOD[name])


@pytest.mark.parametrize(
    "zone", ["Europe", "a" * 300, "a/" * 5000, "..", "/", "a\x00b", "Mars/Olympus"]
)
def test_v21_a_text_that_is_no_time_zone_is_refused_in_words(zone: str) -> None:
    """A folder of zones, or a long name, was an error of the gateway and the turn's end."""
    tool = registry.get("current_time")
    assert tool is not None
    with pytest.raises(ToolError, match="There is no time zone") as error:
        play(tool, {"time_zone": zone})
    assert len(str(error.value)) < 300


@pytest.mark.unmeasured
@settings(max_examples=150, deadline=None)
@given(st.text() | st.sampled_from(["europe/berlin", "New York", "UTC", "GMT+3", "localtime"]))
def test_v21_any_text_is_a_time_zone_or_refused(zone: str) -> None:
    tool = registry.get("current_time")
    assert tool is not None
    with contextlib.suppress(ToolError):
        assert play(tool, {"time_zone": zone}).result.text.startswith("2")

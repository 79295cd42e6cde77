"""[V22] Tools of other packages, found by entry point; the others work without a broken one."""

from pathlib import Path

import pytest

from channels_app.ops.doctor import work
from core.tools import phrases, registry
from tests.core.tools.installed import installed

DAYS = "latchkey_example_tool:TOOL"
CODE = '''
from core.tools.base import Tool, ToolResult
from core.tools.typed import TypedTool


class Plain(Tool):
    """Written against the protocol alone."""

    name, description = "plain", "Is plain."
    parameters = {"type": "object", "properties": {}}

    async def run(self, context, arguments):
        return ToolResult("Plain.")


class CurrentTime(TypedTool):
    """Has the name of a tool of the gateway."""

    async def call(self, context):
        return "Noon."


class Deaf(Plain):
    name, description = "deaf", " "


class Spaced(Plain):
    name = "two words"


class Shapeless(Plain):
    name, parameters = "shapeless", {"type": "object", "properties": 4}


class Listed(Plain):
    name, parameters = "listed", {"type": "array"}


class Babel(Plain):
    name, translations = "babel", {"Hi {0}": {"de": "Hallo {1}"}}


class Martian(Plain):
    name, translations = "martian", {"Hi": {"xx": "Qu"}}


PLAIN, DOUBLE, CLASS, ODD = Plain(), CurrentTime(), Plain, object()
DEAF, SPACED, SHAPELESS, LISTED = Deaf(), Spaced(), Shapeless(), Listed()
BABEL, MARTIAN = Babel(), Martian()
'''
BROKEN = {
    "gone": ("no_such_package:TOOL", "ModuleNotFoundError"),
    "missing": ("latchkey_scratch:NOTHING", "AttributeError"),
    "double": ("latchkey_scratch:DOUBLE", "another tool with the name current_time"),
    "class": ("latchkey_scratch:CLASS", "no object of a class that derives from Tool"),
    "odd": ("latchkey_scratch:ODD", "no object of a class that derives from Tool"),
    "deaf": ("latchkey_scratch:DEAF", "no description"),
    "spaced": ("latchkey_scratch:SPACED", "letters, digits, - and _"),
    "shapeless": ("latchkey_scratch:SHAPELESS", "JSON schema is not valid"),
    "listed": ("latchkey_scratch:LISTED", "no JSON schema of an object"),
    "babel": ("latchkey_scratch:BABEL", "has other variable parts than"),
    "martian": ("latchkey_scratch:MARTIAN", "not xx"),
}


def names() -> list[str]:
    return [tool.name for tool in registry.every()]


def test_v22_a_tool_of_an_installed_package_is_offered_beside_the_gateways(
    tmp_path: Path,
) -> None:
    points = {"days": DAYS, "plain": "latchkey_scratch:PLAIN"}
    with installed(tmp_path, points=points, code=CODE):
        assert names() == [*registry.TOOLS, "days_until", "plain"]
        tool = registry.get("days_until")
        assert tool is not None
        assert registry.schema(tool)["function"]["name"] == "days_until"
        assert phrases.in_language(tool.progress({}), "de") == "Die Tage werden gezählt…"
        assert registry.installed().broken == {}
        assert list(work.packages_that_fail()) == []
    assert names() == [*registry.TOOLS]
    assert registry.get("days_until") is None
    assert phrases.in_language("Counting the days…", "de") == "Counting the days…"


def test_v22_broken_tools_are_logged_and_shown_and_the_others_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = {name: value for name, (value, _said) in BROKEN.items()} | {"days": DAYS}
    with installed(tmp_path, points=points, code=CODE):
        assert names() == [*registry.TOOLS, "days_until"]
        findings = list(work.packages_that_fail())
    assert len(findings) == len(BROKEN)
    for name, (_value, said) in BROKEN.items():
        (finding,) = [each for each in findings if f"tool {name} cannot" in each.what]
        assert said in finding.what
        assert f"the tool {name} cannot be loaded" in caplog.text

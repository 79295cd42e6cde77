"""[V22] Plugins of other packages, found by entry point; the others work without a broken one."""

import logging
from pathlib import Path

import pytest

from channels_app.ops.doctor import work
from core.plugins import registry
from core.tools.route_to_plugin import TOOL
from tests.core.tools.installed import installed

CODE = """
from core.plugins.base import Capability

EMPTY = {"type": "object", "properties": {}}


class Minutes:
    id, name = "minutes", "minutes of a meeting"
    capabilities = {"write": Capability("Writes minutes.", EMPTY)}
    asked = {"capability_id": "write", "source": "the meeting"}

    async def run(self, capability_id, parameters, source, host):
        raise NotImplementedError

    def infer(self, text):
        if "fail" in text:
            raise RuntimeError
        return self.asked if "minutes" in text else None


def with_(**values):
    return type("Other", (Minutes,), values)()


def able(parameters, description="Does."):
    return with_(id="able", capabilities={"do": Capability(description, parameters)})


GOOD, CLASS, ODD = Minutes(), Minutes, object()
SYNC, NAMED, NAMELESS = with_(run=print), with_(id="two words"), with_(name=" ")
NUMBER, NAMELESS_TOO, DOUBLE = with_(id=5), with_(name=5), with_(id="summarize")
IDLE, LISTED = with_(capabilities={}), with_(capabilities=["write"])
BLANK, MUTE = with_(capabilities={"a b": GOOD.capabilities["write"]}), able(EMPTY, None)
BARE, ARRAY = with_(capabilities={"do": EMPTY}), able({"type": "array"})
SHAPELESS, TRUE = able({**EMPTY, "required": 4}), able({**EMPTY, "properties": {"a": True}})
"""
NAMES = "has letters, digits, - and _, at most 64"
BROKEN = {
    "gone": ("no_such_package:PLUGIN", "ModuleNotFoundError: "),
    "missing": ("latchkey_scratch:NOTHING", "AttributeError: "),
    "class": ("latchkey_scratch:CLASS", "is no object with an async method run."),
    "odd": ("latchkey_scratch:ODD", "is no object with an async method run."),
    "sync": ("latchkey_scratch:SYNC", "is no object with an async method run."),
    "named": ("latchkey_scratch:NAMED", f"Its id {NAMES}"),
    "number": ("latchkey_scratch:NUMBER", f"Its id {NAMES}"),
    "nameless": ("latchkey_scratch:NAMELESS", "It has no name."),
    "nameless-too": ("latchkey_scratch:NAMELESS_TOO", "It has no name."),
    "double": ("latchkey_scratch:DOUBLE", "There is another plugin with the id summarize."),
    "idle": ("latchkey_scratch:IDLE", "It has no capabilities."),
    "listed": ("latchkey_scratch:LISTED", "It has no capabilities."),
    "blank": ("latchkey_scratch:BLANK", f"Its capability a b: its name {NAMES}"),
    "mute": ("latchkey_scratch:MUTE", "do: it is no Capability with a description."),
    "bare": ("latchkey_scratch:BARE", "do: it is no Capability with a description."),
    "array": ("latchkey_scratch:ARRAY", "do: its parameters are no JSON schema of an object."),
    "shapeless": ("latchkey_scratch:SHAPELESS", "do: its JSON schema is not valid: "),
    "true": (
        "latchkey_scratch:TRUE",
        "do: each of its parameters needs a schema",
    ),
}
GOOD = "latchkey_scratch:GOOD"


def test_v22_a_plugin_of_an_installed_package_is_offered_beside_the_gateways(
    tmp_path: Path,
) -> None:
    with installed(tmp_path, points={"minutes": GOOD}, code=CODE, group=registry.GROUP):
        assert [*registry.every()] == [*registry.PLUGINS, "minutes"]
        assert "plugin_id minutes, capability_id write: Writes minutes." in TOOL.description
        assert list(work.packages_that_fail()) == []
    assert [*registry.every()] == [*registry.PLUGINS]


def test_v22_broken_plugins_are_logged_and_shown_and_the_others_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    points = {name: value for name, (value, _said) in BROKEN.items()} | {"minutes": GOOD}
    with installed(tmp_path, points=points, code=CODE, group=registry.GROUP):
        assert [*registry.every()] == [*registry.PLUGINS, "minutes"]
        assert TOOL.parameters["properties"]["plugin_id"]["enum"] == [*registry.every()]
        findings = list(work.packages_that_fail())
    assert len(findings) == len(BROKEN)
    for name, (_value, said) in BROKEN.items():
        (finding,) = [each for each in findings if f"plugin {name} cannot" in each.what]
        assert said in finding.what
        assert f"the plugin {name} cannot be loaded" in caplog.text


def test_l3_a_plugin_that_cannot_tell_whether_it_is_meant_fails_no_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    call = {"plugin_id": "minutes", "capability_id": "write"}
    call["parameters"] = {"source": "the meeting"}  # type: ignore[assignment]
    with installed(tmp_path, points={"minutes": GOOD}, code=CODE, group=registry.GROUP):
        assert TOOL.infer("fail") is None
        assert "the plugin minutes cannot tell whether it is meant" in caplog.text
        assert [TOOL.infer("the minutes, please") for _ in range(2)] == [call, call]
        assert TOOL.infer("Hello") is None

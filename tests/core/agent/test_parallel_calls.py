"""Calls of one answer side by side ([V7])."""

import asyncio
from typing import Any

import pytest
from pytest_django import Settings

from core.tools.base import Tool, ToolContext, ToolError, ToolResult
from tests.core.agent.test_loop import DONE, Events, Model, Step, call, turn

pytestmark = pytest.mark.asyncio


class Waiting(Tool):
    """A tool that ends when it is told to; ``most``: how many calls ran at once."""

    description = "Waits."
    parameters: dict[str, Any] = {"type": "object", "properties": {}}

    def __init__(self, name: str = "wait", seconds: float = 0.0) -> None:
        self.name, self.seconds = name, seconds
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.most = 0
        self.release = {"a": asyncio.Event(), "b": asyncio.Event(), "c": asyncio.Event()}

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        name = str(arguments["name"])
        self.begun.append(name)
        self.most = max(self.most, len(self.begun) - len(self.ended))
        try:
            await self.release[name].wait()
        finally:
            self.ended.append(name)
        if name == "b":
            raise ToolError("b is broken")
        return ToolResult(f"result of {name}")


def asking(*names: str) -> Model:
    """Return a model that makes a call for each name in one answer."""
    calls: Step = [
        delta
        for index, name in enumerate(names)
        for delta in call("wait", f'{{"name": "{name}"}}', index=index, id=name)
    ]
    return Model(calls, DONE)


def results(model: Model) -> list[tuple[str, str]]:
    """Return the results that the model got, in order."""
    messages = model.requests[1].messages
    return [(each["tool_call_id"], each["content"]) for each in messages if each["role"] == "tool"]


async def test_v7_results_keep_the_order_of_the_calls() -> None:
    tool, model, events = Waiting(), asking("a", "b", "c"), Events()
    going = asyncio.ensure_future(turn(model, events, tools={"wait": tool}).run())
    for name in ("c", "b", "a"):
        tool.release[name].set()
        while name not in tool.ended:
            await asyncio.sleep(0)
    await going
    assert tool.ended == ["c", "b", "a"]
    assert results(model) == [
        ("a", "result of a"),
        ("b", "Error: b is broken"),
        ("c", "result of c"),
    ]


async def test_v7_one_that_hangs_does_not_keep_the_others_results_back() -> None:
    tool, model, events = Waiting(seconds=0.05), asking("a", "c"), Events()
    tool.release["c"].set()
    await turn(model, events, tools={"wait": tool}).run()
    assert results(model) == [("a", "Error: no result within 0.05 s."), ("c", "result of c")]


async def test_v7_only_so_many_run_at_once(settings: Settings) -> None:
    settings.TOOL_CALLS_AT_ONCE = 2
    tool, model, events = Waiting(), asking("a", "b", "c"), Events()
    for each in tool.release.values():
        each.set()
    await turn(model, events, tools={"wait": tool}).run()
    assert (len(tool.begun), tool.most <= 2) == (3, True)


async def test_v7_a_stop_ends_all_of_them() -> None:
    tool, model, events = Waiting(), asking("a", "c"), Events()
    going = asyncio.ensure_future(turn(model, events, tools={"wait": tool}).run())
    while len(tool.begun) < 2:
        await asyncio.sleep(0)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert sorted(tool.ended) == ["a", "c"]

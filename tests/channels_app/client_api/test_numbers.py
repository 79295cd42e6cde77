"""The numbers of frames: a part of one stream and the rest of another make the whole answer."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels_app.client_api.ag_ui import adapter as ag_ui
from channels_app.client_api.anthropic import adapter as anthropic
from channels_app.client_api.openai import adapter as openai
from channels_app.client_api.responses.adapter import Config, ResponsesAdapter
from channels_app.client_api.responses.fields import REPEATED
from channels_app.client_api.run_adapter import Rest, RunAdapter
from channels_app.client_api.ui_stream import adapter as ui_stream
from channels_app.rendering.translations import ENGLISH
from core.messages import (
    Message,
    custom_message,
    delta_message,
    image_message,
    loading_message,
    message_end,
    message_start,
    reset_delta,
    text_delta,
    thinking_delta,
    to_dict,
    tool_call_message,
    tool_end,
)
from tests.core.messages.samples import Event, run

Make = Callable[[], RunAdapter[Any]]
CLIENT_TOOLS = frozenset({"weather"})
RESPONSE: Any = {**REPEATED, "id": "resp_r", "output": [], "status": "in_progress"}
ADAPTERS: dict[str, Make] = {
    "openai": lambda: openai.OpenAIAdapter(
        openai.Config(completion_id="c", client_tools=CLIENT_TOOLS, include_usage=True)
    ),
    "ag_ui": lambda: ag_ui.AgUiAdapter(
        ag_ui.Config(thread="t", name="r", client_tools=CLIENT_TOOLS)
    ),
    "anthropic": lambda: anthropic.AnthropicAdapter(
        anthropic.Config(run_id="r", client_tools=CLIENT_TOOLS, shows_thinking=True)
    ),
    "responses": lambda: ResponsesAdapter(
        Config(run_id="r", client_tools=CLIENT_TOOLS, response=RESPONSE)
    ),
    "ui_stream": lambda: ui_stream.UiStreamAdapter(
        ui_stream.Config(message_id="A1", client_tools=CLIENT_TOOLS)
    ),
}
PARTS = (
    ("text", "M1", "Hello **world**, this is the answer.\n\nIt has two paragraphs."),
    ("thinking", "T1", "Let me see, what do they mean?"),
    ("text", "M2", "And another message, with 🦀 in it."),
)
# Of progress, and of reasoning that is joined with it.
UNCOUNTED = ("reasoning_content", "data-loading", "PROGRESS")
ROLE = re.compile(r"(, )?'role': 'assistant'(, )?")
DELTAS = {"text": text_delta, "thinking": thinking_delta}


def log_of(cuts: tuple[int, ...], *, with_progress: bool) -> list[Event]:
    """Return one answer whose texts come in pieces of the lengths ``cuts``, one after another."""
    lengths = iter(cuts)
    said: list[Message] = [loading_message("Working…", message_id="L1")] if with_progress else []
    for kind, name, text in PARTS:
        said.append(message_start(message_id=name, message_type=kind))
        left = text
        while left:
            length = next(lengths, len(left))
            said.append(DELTAS[kind](left[:length], message_id=name))
            left = left[length:]
        said.append(message_end(message_id=name, message_type=kind))
        if name == "T1":
            said += [tool_call_message("call_1", "clock", "{}", message_id="C1")]
            said += [loading_message("Almost…", message_id="L2")] if with_progress else []
            said += [tool_end(call_id="call_1", name="clock", ok=True, output="noon")]
            said += [image_message("https://e.org/a.png", message_id="I1")]
    said.append(tool_call_message("call_2", "weather", '{"city": "Rome"}', message_id="C2"))
    return run([to_dict(each) for each in said])


def shown(adapter: RunAdapter[Any], frames: list[Any]) -> list[Any]:
    """Return the frames with pieces of text joined, and without progress and reasoning."""
    found: list[Any] = []
    for frame in frames:
        length = adapter.length(frame)
        if not length:
            if not any(each in str(frame) for each in UNCOUNTED):
                found.append(frame)
            continue
        text = text_of(frame)
        key = ROLE.sub("", str(adapter.without(frame, length)))
        if found and isinstance(found[-1], list) and found[-1][0] == key:
            found[-1][1] += text
        else:
            found.append([key, text])
    return found


def text_of(frame: Any) -> str:
    """Return the piece of a text in a frame of any protocol."""
    if "choices" in frame:
        return openai.content_of(frame)
    delta = frame["delta"]
    return str(delta if isinstance(delta, str) else delta.get("text", delta.get("thinking")))


def kind_of(frame: Any) -> str:
    """Return the type of a frame that has one."""
    return str(frame.get("type")) if isinstance(frame, dict) else ""


def added(frames: list[Any]) -> list[Any]:
    """Return the frames without those that repeat a whole text, which may hold a part of it that
    was never stored.
    """
    ends = (".done", ".completed")
    return [each for each in frames if not kind_of(each).endswith(ends)]


def numbered(make: Make, log: list[Event]) -> tuple[RunAdapter[Any], list[tuple[int, Any]]]:
    adapter = make()
    return adapter, [pair for event in log for pair in adapter.numbered(event)]


CUTS = st.lists(st.integers(1, 30), max_size=40).map(tuple)


@pytest.mark.parametrize("name", ADAPTERS)
@given(CUTS, CUTS, st.booleans(), st.booleans(), st.data())
def test_w1_a_client_gets_exactly_the_rest_however_the_log_is_cut(
    name: str,
    live_cuts: tuple[int, ...],
    stored_cuts: tuple[int, ...],
    live_progress: bool,
    stored_progress: bool,
    data: st.DataObject,
) -> None:
    """[W1] At every frame, in another cutting, with and without the progress lines."""
    make = ADAPTERS[name]
    adapter, live = numbered(make, log_of(live_cuts, with_progress=live_progress))
    at = data.draw(st.integers(0, len(live)))
    seen = live[at - 1][0] if at else 0
    stored = log_of(stored_cuts, with_progress=stored_progress)
    again = make()
    lacks = Rest(again, seen)
    rest = [frame for event in stored for _, frame in lacks.of(event)]
    whole = shown(adapter, [frame for _, frame in live])
    assert shown(adapter, [frame for _, frame in live[:at]] + rest) == whole


@pytest.mark.parametrize("name", ADAPTERS)
def test_w1_numbers_rise(name: str) -> None:
    """[W1] No number is less than the one before."""
    _, found = numbered(ADAPTERS[name], log_of((3,) * 60, with_progress=True))
    numbers = [number for number, _ in found]
    assert numbers == sorted(numbers)
    assert numbers[-1] > sum(len(text) for _, _, text in PARTS[::2])


TEXTS = st.text("The way is long. 🦀", min_size=1, max_size=30)


@pytest.mark.parametrize("name", ADAPTERS)
@given(TEXTS, TEXTS, st.integers(0, 30), st.data())
def test_w2_after_a_kill_a_reader_gets_the_notice_and_the_whole_new_text(
    name: str, lost: str, second: str, stored: int, data: st.DataObject
) -> None:
    """[W2] However much of the lost attempt was sent, and however little of it was stored."""
    end = [
        to_dict(reset_delta("text", message_id="M1")),
        to_dict(text_delta(second, message_id="M1")),
        to_dict(message_end(message_id="M1", message_type="text")),
    ]
    pieces = [to_dict(text_delta(each, message_id="M1")) for each in lost]
    _, live = numbered(ADAPTERS[name], run(pieces)[:-1])
    at = data.draw(st.integers(1, len(live)))
    seen = live[at - 1][0]
    again = ADAPTERS[name]()
    rest = Rest(again, seen)
    left = [frame for event in run([*pieces[:stored], *end]) for _, frame in rest.of(event)]
    said = "".join(text_of(each) for each in left if again.length(each))
    known, log = numbered(ADAPTERS[name], run(pieces[:stored])[:-1])
    if seen > known.number:
        assert said.endswith(f"{ENGLISH.restarted}\n\n{second}"), said
    else:
        uncut, whole = numbered(ADAPTERS[name], run([*pieces[:stored], *end]))
        has = [frame for number, frame in log if number <= seen]
        assert shown(uncut, added([*has, *left])) == shown(uncut, added([f for _, f in whole]))
    last = ADAPTERS[name]()
    assert kind_of(left[-1]) == kind_of([last.feed(event) for event in run(end)][-1][-1])


@pytest.mark.parametrize("name", ADAPTERS)
def test_w1_a_message_that_grows_counts_the_same_however_it_is_cut(name: str) -> None:
    """[W1] A chart in one piece, or in three; the text after it has the same numbers."""
    whole: list[Message] = [custom_message("chart", {"points": "1 2 3"}, message_id="D1")]
    pieces: list[Message] = [
        message_start(message_id="D1", message_type="chart"),
        *(
            delta_message("chart", {"points": each}, message_id="D1", path="points")
            for each in "12"
        ),
        message_end(message_id="D1", message_type="chart"),
    ]
    ends = []
    for chart in (whole, pieces):
        said = [*chart, text_delta("Look.", message_id="M1")]
        adapter, found = numbered(ADAPTERS[name], run([to_dict(each) for each in said]))
        ends.append(next(number for number, each in found if adapter.length(each)))
    assert ends[0] == ends[1]

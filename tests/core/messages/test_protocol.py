"""Types, constructors, validation and the log's JSON ([M1], [M2])."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import messages
from core.messages import (
    BUILTIN_TYPES,
    BuiltinMessage,
    CustomMessage,
    Message,
    MessageError,
    Transcript,
    custom_message,
    delta_message,
    from_dict,
    image_message,
    progress,
    reset_delta,
    stream_end,
    stream_start,
    text_delta,
    text_message,
    thinking_delta,
    to_dict,
    tool_call_message,
    tool_end,
    video_message,
)
from core.messages.types import CLASSES
from tests import ROOT
from tests.core.messages.samples import SAMPLES, end_of, run, streamed


def test_m1_there_are_exactly_twelve_builtin_types_everywhere() -> None:
    assert len(BUILTIN_TYPES) == 12
    assert set(get_args(BuiltinMessage)) == set(CLASSES.values())


@pytest.mark.parametrize("name", BUILTIN_TYPES)
def test_m1_every_message_survives_the_log(name: str) -> None:
    message = SAMPLES[name]
    props = get_type_hints(type(message))["props"]
    assert props.__required_keys__ <= message.props.keys() <= props.__annotations__.keys()
    assert from_dict(to_dict(message)) == message
    for event in run(streamed(message)):
        assert to_dict(from_dict(event)) == event


def test_m1_the_envelope_survives_the_log_and_empty_fields_are_left_out() -> None:
    message = delta_message("card", {"a": 1}, message_id="M1", path="a", type_change=True)
    message.block_id, message.thread_id = "B1", "T1"
    message.metadata = {"timestamp": 1763779905679, "sequence": 7}
    data = to_dict(message)
    assert data == {
        "type": "card",
        "props": {"a": 1},
        "message_id": "M1",
        "block_id": "B1",
        "thread_id": "T1",
        "delta": True,
        "delta_path": "a",
        "delta_action": "append",
        "type_change": True,
        "metadata": {"timestamp": 1763779905679, "sequence": 7},
    }
    assert from_dict(data) == message
    assert to_dict(text_message("x")) == {"type": "text", "props": {"content": "x"}}


def test_m1_fields_outside_the_protocol_stay_out_of_the_envelope_and_null_is_absent() -> None:
    data = {"type": "text", "props": {"content": "x"}, "chunk_id": "C1", "message_id": None}
    assert to_dict(from_dict(data)) == {"type": "text", "props": {"content": "x"}}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "type"),
        ({"type": ""}, "type"),
        ({"type": 5}, "type"),
        ({"type": "no spaces"}, "type"),
        ({"type": "../x"}, "type"),
        ({"type": "text", "props": []}, "props"),
        ({"type": "text", "props": {"content": 5}}, "props.content"),
        ({"type": "text", "props": {"content": ["x"]}}, "props.content"),
        ({"type": "text", "message_id": 5}, "message_id"),
        ({"type": "text", "delta": "yes"}, "delta"),
        ({"type": "text", "delta_action": "add"}, "delta_action"),
        ({"type": "text", "delta_path": "a..b"}, "delta_path"),
        ({"type": "text", "metadata": 1}, "metadata"),
        ({"type": "text", "metadata": {"timestamp": "now"}}, "metadata.timestamp"),
        ({"type": "user_input", "props": {"role": "root"}}, "props.role"),
        ({"type": "user_input", "props": {"content": 1}}, "props.content"),
        ({"type": "user_input", "props": {"content": ["x"]}}, "props.content[0]"),
        ({"type": "user_input", "props": {"content": [{"type": 1}]}}, "props.content[0].type"),
        ({"type": "image", "props": {"width": -1}}, "props.width"),
        ({"type": "image", "props": {"width": True}}, "props.width"),
        ({"type": "image", "props": {"detail": "best"}}, "props.detail"),
        ({"type": "audio", "props": {"duration": True}}, "props.duration"),
        ({"type": "video", "props": {"loop": 1}}, "props.loop"),
        ({"type": "action", "props": {"payload": []}}, "props.payload"),
        ({"type": "retrieval", "props": {"sources": {}}}, "props.sources"),
        ({"type": "retrieval", "props": {"sources": ["x"]}}, "props.sources[0]"),
        ({"type": "retrieval", "props": {"sources": [{"type": "x"}]}}, "props.sources[0].type"),
        ({"type": "retrieval", "props": {"sources": [{"score": "1"}]}}, "props.sources[0].score"),
    ],
)
def test_m1_a_wrong_type_is_refused_with_the_fields_name(data: dict[str, Any], field: str) -> None:
    with pytest.raises(MessageError) as refused:
        from_dict(data)
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")


def test_m1_holes_that_a_delta_leaves_in_lists_are_no_error() -> None:
    sources = [None, {"id": "s2", "type": "web"}]
    data = {"type": "retrieval", "message_id": "M1", "delta": True, "props": {"sources": sources}}
    assert from_dict(data).props == {"sources": sources}
    content = [None, {"type": "text", "text": "x"}]
    assert from_dict({"type": "user_input", "props": {"content": content}})


def test_m1_custom_messages_keep_their_props_but_not_a_builtin_name() -> None:
    card = custom_message("order_card", {"total": 5}, message_id="M1")
    assert isinstance(from_dict(to_dict(card)), CustomMessage)
    with pytest.raises(MessageError, match="built-in"):
        custom_message("text", {})


def test_m1_constructors_leave_out_fields_that_were_not_given() -> None:
    assert to_dict(tool_call_message("c", "n"))["props"] == {"id": "c", "name": "n"}
    assert to_dict(image_message("u", detail="low"))["props"] == {"url": "u", "detail": "low"}
    assert to_dict(messages.event_message("connected"))["props"] == {"event": "connected"}
    assert to_dict(messages.error_message("m"))["props"] == {"message": "m"}
    assert to_dict(messages.action_message("close_modal"))["props"] == {"name": "close_modal"}
    assert to_dict(video_message("u"))["props"] == {"url": "u", "controls": True}
    assert to_dict(messages.retrieval_message("q", []))["props"] == {"query": "q", "sources": []}
    audio = messages.audio_message("u", duration=1.5, autoplay=True)
    assert audio.props == {"url": "u", "controls": True, "duration": 1.5, "autoplay": True}


def test_m2_lifecycle_events_carry_the_fields_of_the_requirement() -> None:
    start = stream_start(
        request_id="r", chat_id="c", trace_id="t", timestamp_ms=5, context_id="x"
    ).props
    assert start["data"] == {
        "request_id": "r",
        "context_id": "x",
        "chat_id": "c",
        "trace_id": "t",
        "timestamp": 5,
    }
    end = stream_end(status="error", request_id="r", timestamp_ms=9, duration_ms=4, error="no")
    assert end.props["data"] == {
        "status": "error",
        "request_id": "r",
        "timestamp": 9,
        "duration_ms": 4,
        "error": "no",
    }
    assert progress("Slide 3", tool="ppt", percent=30).props["data"] == {
        "tool": "ppt",
        "percent": 30,
    }
    ended = tool_end(call_id="c1", name="n", ok=False, output="no such file")
    assert ended.props["data"] == {
        "id": "c1",
        "name": "n",
        "status": "error",
        "output": "no such file",
    }


def test_m2_a_reset_empties_the_streamed_text_and_appends_go_on_from_there() -> None:
    log: list[Message] = [
        text_delta("Hal", message_id="M1"),
        thinking_delta("hm", message_id="M2"),
        reset_delta("text", message_id="M1"),
        text_delta("Hello", message_id="M1"),
    ]
    merged = messages.fold(map(to_dict, log))
    assert [message["props"] for message in merged] == [{"content": "Hello"}, {"content": "hm"}]


def test_m2_only_a_completed_end_settles_open_messages() -> None:
    call = {"id": "c", "name": "n", "arguments": '{"a'}
    half = to_dict(delta_message("tool_call", call, message_id="M1"))
    for status, settled in (("completed", [False, True]), ("cancelled", [False])):
        transcript = Transcript()
        changes = [
            change.settled
            for event in run([half], status=status)
            for change in transcript.read(event)
            if change.message.type == "tool_call"
        ]
        assert changes == settled


def test_m2_an_event_that_makes_no_valid_message_changes_nothing() -> None:
    transcript = Transcript()
    transcript.read(to_dict(text_delta("x", message_id="M1")))
    broken = delta_message("text", {"content": 5}, message_id="M1", action="set")
    assert transcript.read(to_dict(broken)) == []
    assert transcript.read({"type": "text", "props": {"content": 5}}) == []
    (still,) = transcript.messages()
    assert still.props == {"content": "x"}
    assert transcript.is_open(still)
    (change, _) = transcript.read(end_of("M1")[0])
    assert change == (still, True)
    assert transcript.close() == []


FIELD_VALUES = (
    st.none() | st.booleans() | st.text() | st.dictionaries(st.sampled_from(["content"]), st.text())
)


@given(
    st.dictionaries(
        st.sampled_from(["type", "props", "delta", "delta_path", "metadata"]), FIELD_VALUES
    )
)
def test_m1_any_json_is_read_or_refused_but_never_crashes(data: dict[str, Any]) -> None:
    try:
        message = from_dict(data)
    except MessageError:
        return
    assert from_dict(to_dict(message)) == message


FORGETFUL = """
from typing import assert_never
from core.messages import (
    ActionMessage, AudioMessage, CustomMessage, ErrorMessage, EventMessage, ImageMessage,
    LoadingMessage, Message, RetrievalMessage, TextMessage, ThinkingMessage, ToolCallMessage,
    UserInputMessage, VideoMessage,
)

def show(message: Message) -> str:
    match message:
        case %s:
            return message.type
        case _:
            assert_never(message)
"""


@pytest.mark.slow
def test_m3_mypy_names_the_type_that_an_adapter_forgot(tmp_path: Path) -> None:
    names = sorted(kind.__name__ for kind in get_args(Message))
    results = {}
    for forgotten in ("", "RetrievalMessage"):
        kept = " | ".join(f"{name}()" for name in names if name != forgotten)
        snippet = tmp_path / f"adapter{len(forgotten)}.py"
        snippet.write_text(FORGETFUL % kept)
        checked = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir",
             str(tmp_path / "cache"), str(snippet)],
            cwd=Path(messages.__file__).parents[2],
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        results[forgotten] = (checked.returncode, checked.stdout)
    assert results[""][0] == 0, results[""][1]
    assert results["RetrievalMessage"][0] == 1
    assert '"RetrievalMessage"; expected "Never"' in results["RetrievalMessage"][1]


@pytest.mark.parametrize(
    "path",
    ["client_api/run_adapter.py", "rendering/text.py"],
)
def test_m3_every_adapter_ends_its_match_over_messages_in_assert_never(path: str) -> None:
    source = Path(messages.__file__).parents[2] / "channels_app" / path
    tree = ast.parse(source.read_text("utf-8"))
    matches = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Match) and ast.unparse(node.subject) == "message"
    ]
    assert matches
    for match in matches:
        last = match.cases[-1]
        assert ast.unparse(last.pattern) == "_"
        assert ast.unparse(last.body[0]) == "assert_never(message)"


def test_m1_the_table_of_types_in_the_documentation_has_their_props() -> None:
    """[M1] In their order; those that a complete message needs are bold."""
    text = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\*\*`.*?) \| [^|]+ \|$", text, re.MULTILINE)
    documented = {name: re.sub(r" \([^()]*\)", "", props) for name, props in rows}
    assert [*documented] == [*BUILTIN_TYPES]
    for each in get_args(BuiltinMessage):
        props = get_type_hints(each)["props"]
        needed = props.__required_keys__
        listed = [
            f"**`{name}`**" if name in needed else f"`{name}`" for name in props.__annotations__
        ]
        assert documented[each.__dataclass_fields__["type"].default] == ", ".join(listed)

"""The events of the Messages API for the log of a run, live and stored."""

import json
from typing import Any

from channels_app.client_api.anthropic import adapter
from channels_app.client_api.anthropic.adapter import AnthropicAdapter, Config
from channels_app.client_api.run_adapter import Failure, after
from core.messages import (
    MessageDict,
    error_message,
    event_message,
    message_end,
    message_start,
    text_delta,
    text_message,
    thinking_delta,
    thinking_message,
    to_dict,
    tool_call_message,
)

Json = dict[str, Any]
CONFIG = Config(run_id="r", model="default", shows_thinking=True, client_tools=frozenset({"f"}))
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def end(**more: Any) -> Any:
    """Return the end of a run."""
    return event_message("stream_end", data={"status": "completed", "usage": USAGE, **more})


def log(*messages: Any) -> list[MessageDict]:
    """Return a log as it is stored."""
    return [to_dict(each) for each in messages]


def fed(events: list[MessageDict], config: Config = CONFIG) -> list[tuple[int, Any]]:
    """Return the numbered frames of a log."""
    made = AnthropicAdapter(config)
    return [each for event in events for each in made.numbered(event)]


LIVE = log(
    message_start(message_id="thinking-1", message_type="thinking"),
    thinking_delta("Let me ", message_id="thinking-1"),
    thinking_delta("think.", message_id="thinking-1"),
    message_end(message_id="thinking-1", message_type="thinking"),
    message_start(message_id="text-1", message_type="text"),
    text_delta("Hel", message_id="text-1"),
    text_delta("lo", message_id="text-1"),
    message_end(message_id="text-1", message_type="text"),
    tool_call_message("own", "current_time", "{}", message_id="t1"),
    tool_call_message("call_0", "f", '{"a":1}', message_id="t2"),
    end(finish_reason="tool_calls"),
)
STORED = log(
    thinking_message("Let me think.", message_id="thinking-1"),
    text_message("Hello", message_id="text-1"),
    tool_call_message("own", "current_time", "{}", message_id="t1"),
    tool_call_message("call_0", "f", '{"a":1}', message_id="t2"),
    end(finish_reason="tool_calls"),
)


def test_w26_w27_w28_blocks_follow_each_other_and_are_signed() -> None:
    """[W26] [W27] [W28] One block at a time, with its index; the gateway's own call is none."""
    frames = [frame for _, frame in fed(STORED)]
    assert [frame["type"] for frame in frames] == [
        "message_start",
        *("content_block_start", "content_block_delta", "content_block_delta"),
        *("content_block_stop", "content_block_start", "content_block_delta"),
        *("content_block_stop", "content_block_start", "content_block_delta"),
        *("content_block_stop", "message_delta", "message_stop"),
    ]
    assert [frame["index"] for frame in frames if "index" in frame] == [0] * 4 + [1] * 3 + [2] * 3
    assert frames[3]["delta"]["type"] == "signature_delta"
    assert frames[8]["content_block"] == {
        "type": "tool_use",
        "id": "toolu_r_1",
        "name": "f",
        "input": {},
    }
    assert frames[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert frames[-2]["usage"]["input_tokens"] == 7


def test_w31_numbers_do_not_depend_on_how_the_text_was_cut() -> None:
    """[W31] From each number on, the stored log gives exactly the rest of the live stream."""
    live, stored = fed(LIVE), fed(STORED)
    assert live[-1][0] == stored[-1][0]
    for seen, _ in live:
        before = [frame for number, frame in live if number <= seen]
        rest = [frame for _, frame in after(AnthropicAdapter(CONFIG), stored, seen)]
        assert told(before + rest) == told([frame for _, frame in stored])


def told(frames: list[Any]) -> str:
    """Return all that frames say, pieces of a text joined."""
    said = [adapter.text_of(frame) or json.dumps(frame) for frame in frames]
    return "".join(said)


def test_w25_the_stream_adds_up_to_the_whole_message() -> None:
    """[W25] The same blocks, reason and usage."""
    found = adapter.message(LIVE, CONFIG)
    assert not isinstance(found, Failure)
    assert [block["type"] for block in found["content"]] == ["thinking", "text", "tool_use"]
    assert found["content"][0]["thinking"] == "Let me think."
    assert found["content"][2]["input"] == {"a": 1}
    assert found["stop_reason"] == "tool_use"
    assert found["usage"]["output_tokens"] == 3


def test_w27_thinking_is_left_out_unless_asked_for() -> None:
    """[W27] It has no block then, and no number."""
    config = Config(run_id="r", model="default")
    kinds = [
        frame["content_block"]["type"]
        for _, frame in fed(STORED, config)
        if "content_block" in frame
    ]
    assert kinds == ["text"]


def test_w25_reasons_of_the_end() -> None:
    """[W25] In Anthropic's words."""
    reasons = {
        "stop": "end_turn",
        "length": "max_tokens",
        "content_filter": "refusal",
        "tool_calls": "end_turn",  # of the gateway's own tool: there is nothing to run
    }
    for ours, theirs in reasons.items():
        found = adapter.message(log(text_message("x"), end(finish_reason=ours)), CONFIG)
        assert not isinstance(found, Failure)
        assert found["stop_reason"] == theirs


def test_w30_a_failed_run_ends_with_an_error() -> None:
    """[W30] After what was said; its type is that of its status."""
    frames = fed(
        log(
            text_message("Half"),
            error_message("Too many", code="overloaded"),
            event_message("stream_end", data={"status": "error"}),
        )
    )
    assert frames[-1][1] == {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Too many"},
        "request_id": "r",
    }


def test_w28_arguments_that_are_no_object_are_handed_over_in_one() -> None:
    """[W28] Clients can parse nothing else."""
    for arguments in ("[1]", "{broken", "5"):
        events = log(tool_call_message("c", "f", arguments, message_id="t"), end())
        found = adapter.message(events, CONFIG)
        assert not isinstance(found, Failure)
        assert found["content"][0]["input"] == {"arguments": arguments}


def test_w33_a_stopped_message_does_not_look_whole() -> None:
    """[W33] As where its key is revoked; it is not a full turn, and the API has no word for it."""
    events = log(text_message("So", message_id="t"), end(status="cancelled"))
    last = [frame for _, frame in fed(events)][-1]
    assert (last["type"], last["error"]["type"]) == ("error", "conflict_error")
    whole = adapter.message(events, CONFIG)
    assert isinstance(whole, Failure)
    assert whole.code == "stopped"

"""The shared message vectors, all of them ([M1], [M2], [M3])."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from channels_app.asgi.event_stream import sse
from channels_app.client_api.openai.adapter import Config, OpenAIAdapter
from channels_app.client_api.run_adapter import encode
from channels_app.rendering.links import Links
from channels_app.webchat import adapter as webchat
from core.messages import (
    BUILTIN_TYPES,
    block_end,
    block_start,
    error_message,
    fold,
    message_end,
    message_start,
    stream_end,
    stream_start,
    text_message,
    to_dict,
    tool_call_message,
)
from tests import load_vectors
from tests.core.messages.samples import Event, end_of, openai_client, run, subset, text_of

DATA = load_vectors("messages")
VECTORS: list[dict[str, Any]] = DATA["vectors"]


def of_kind(*kinds: str) -> pytest.MarkDecorator:
    """Return the vectors of these kinds as parameters."""
    return pytest.mark.parametrize(
        "vector", [pytest.param(v, id=v["id"]) for v in VECTORS if v["kind"] in kinds]
    )


def transformer(rule: str | None) -> Callable[[str, str, str], str] | None:
    if rule is None:
        return None
    prefix = rule.removeprefix("prefix:")
    return lambda url, kind, message_id: f"{prefix}{kind}/{message_id}?u={url}"


def adapter(config: dict[str, Any]) -> OpenAIAdapter:
    return OpenAIAdapter(
        Config(
            completion_id="chatcmpl-1",
            model="m",
            created=1,
            locale=config.get("locale", ""),
            trace_link={None: "off", True: "reasoning", False: "content"}[config.get("reasoning")],  # type: ignore[arg-type]  # the three literals
            links=Links(
                base_url=config.get("base_url", ""),
                templates=config.get("link_templates", {}),
                transformer=transformer(config.get("link_transformer")),
            ),
        )
    )


def frames_of(vector: dict[str, Any]) -> list[Any]:
    """Return all frames but those that every stream has: the finish chunk and [DONE]."""
    converter = adapter(vector["config"])
    frames: list[Any] = [frame for event in vector["inputs"] for frame in converter.feed(event)]
    frames += converter.close()
    return [
        frame
        for frame in frames
        if frame != "[DONE]" and not ("choices" in frame and frame["choices"][0]["finish_reason"])
    ]


def comparable(chunk: dict[str, Any]) -> dict[str, Any]:
    """Return the frames without the parts that the vectors ignore."""
    kept = {name: value for name, value in chunk.items() if name not in ("id", "created", "model")}
    for choice in kept.get("choices", []):
        choice["delta"].pop("role", None)
    return kept


@of_kind("openai_chunk")
def test_m3_openai_chunks(vector: dict[str, Any]) -> None:
    expect, frames = vector["expect"], frames_of(vector)
    if "chunks" in expect:
        assert subset([comparable(c) for c in expect["chunks"]], [comparable(f) for f in frames])
        return
    field = "reasoning_content" if "reasoning_matches" in expect else "content"
    said = "".join(frame["choices"][0]["delta"].get(field, "") for frame in frames)
    for pattern in expect.get("reasoning_matches", []) + expect.get("content_matches", []):
        assert re.search(pattern, said)


@of_kind("openai_sse")
def test_m3_openai_server_sent_events(vector: dict[str, Any]) -> None:
    # The inputs of the vector about groups were left out: its one text, in a block.
    inputs = vector["inputs"] or [
        {"type": "text", "block_id": "B1", "props": {"content": "msg in group"}}
    ]
    converter = adapter({})
    frames = [frame for event in inputs for frame in converter.feed(event)] + converter.close()
    lines = b"".join(encode(frame) for frame in frames).decode().split("\n\n")
    assert lines[-1] == ""
    sent = [line.removeprefix("data: ") for line in lines[:-1]]
    parsed = [line if line == "[DONE]" else comparable(json.loads(line)) for line in sent]
    wanted = [f if f == "[DONE]" else comparable(f) for f in vector["expect"]["frames"]]
    assert [w for w in wanted if any(subset(w, each) for each in parsed)] == wanted


@of_kind("cui_sse")
def test_m3_cui_passes_messages_through(vector: dict[str, Any]) -> None:
    frames = [
        webchat.frame(event, run_id="r1", seq=seq, after=seq - 1)
        for seq, event in enumerate(vector["inputs"], start=1)
    ]
    stream = b"".join(sse(each, seq=each["seq"]) for each in frames).decode()
    sent = [orjson.loads(line[6:]) for line in stream.split("\n") if line.startswith("data: ")]
    assert subset(vector["expect"]["frames"], sent)
    assert re.findall(r"^id: (\d+)$", stream, re.MULTILINE) == ["1", "2", "3"]


@of_kind("cui_client_merge")
def test_m1_client_merge(vector: dict[str, Any]) -> None:
    (message,) = fold(vector["inputs"])
    assert {name: message[name] for name in ("type", "props")} == vector["expect"]["final"]


@of_kind("is_builtin")
def test_m1_is_builtin(vector: dict[str, Any]) -> None:
    name = vector["id"].rsplit(".", 1)[-1].replace("empty", "")
    assert (name in BUILTIN_TYPES) is vector["expect"]


def block_of_three() -> list[Event]:
    log = [to_dict(block_start(block_id="B1", block_type="mixed"))]
    for message_id in ("M1", "M2", "M3"):
        message = text_message("x", message_id=message_id)
        message.block_id = "B1"
        log += [
            to_dict(message_start(message_id=message_id, message_type="text")),
            to_dict(message),
            *end_of(message_id),
        ]
    return [*log, to_dict(block_end(block_id="B1", block_type="mixed", message_count=3))]


def started() -> Event:
    return to_dict(stream_start(request_id="r1", chat_id="c1", trace_id="t1", timestamp_ms=1))


def thinking_then_text() -> list[Event]:
    log = [started()]
    for message_id, kind in (("M1", "thinking"), ("M2", "text")):
        log += [
            to_dict(message_start(message_id=message_id, message_type=kind)),
            *text_of("a", "b", message_id=message_id, kind=kind),
            to_dict(message_end(message_id=message_id, message_type=kind, chunk_count=2)),
        ]
    return [*log, to_dict(stream_end(status="completed"))]


def failing() -> list[Event]:
    return [
        started(),
        to_dict(message_start(message_id="M1", message_type="text")),
        *text_of("a"),
        *end_of("M1"),
        to_dict(message_start(message_id="M2", message_type="error")),
        to_dict(error_message("it broke", "stream_error", message_id="M2")),
        *end_of("M2", "error"),
        to_dict(stream_end(status="error", error="it broke")),
    ]


SEQUENCES: dict[str, Callable[[], list[Event]]] = {
    "cui.lifecycle.block": block_of_three,
    "cui.lifecycle.llm_thinking_then_text": thinking_then_text,
    "cui.lifecycle.error": failing,
    "cui.lifecycle.events_have_no_chunk_id": lambda: [started()],
}


@of_kind("cui_sequence")
def test_m2_lifecycle_sequences(vector: dict[str, Any]) -> None:
    frames = [
        webchat.frame(event, run_id="r1", seq=seq, after=seq - 1)
        for seq, event in enumerate(SEQUENCES[vector["id"]](), start=1)
    ]
    rest = iter(frames)
    for wanted in vector["expect"]["frames"]:
        assert any(subset(wanted, frame) for frame in rest), wanted


def stream(events: list[Event], **config: Any) -> list[Any]:
    converter = OpenAIAdapter(Config(completion_id="c", model="m", created=1, **config))
    return [frame for event in events for frame in converter.feed(event)] + converter.close()


def role_first() -> None:
    frames = stream(run(text_of("a", "b"), end_of("M1")))
    assert [f["choices"][0]["delta"].get("role") for f in frames[:-1]] == ["assistant", None, None]


def finish_once() -> None:
    reasons = [f["choices"][0]["finish_reason"] for f in stream(run(text_of("a")))[:-1]]
    assert reasons == [None, "stop"]


def call_of(name: str) -> list[Event]:
    return [to_dict(tool_call_message("call_1", name, "{}", message_id="M1"))]


def no_empty_tool_calls() -> None:
    for name in ("theirs", "ours"):
        frames = stream(run(call_of(name)), client_tools=frozenset(["theirs"]))
        assert all(f["choices"][0]["delta"].get("tool_calls") != [] for f in frames[:-1])


def server_tools_hidden() -> None:
    hidden = openai_client(stream(run(call_of("ours")), client_tools=frozenset(["theirs"])))
    assert (hidden["tool_calls"], hidden["finish"]) == ([], "stop")
    shown = openai_client(stream(run(call_of("theirs")), client_tools=frozenset(["theirs"])))
    assert (shown["tool_calls"][0]["index"], shown["finish"]) == (0, "tool_calls")


def error_no_raw_json() -> None:
    for frame in stream(failing()):
        assert re.fullmatch(rb"data: [^\n]+\n\n", encode(frame))


def usage_last() -> None:
    frames = stream(run(text_of("a")), include_usage=True)
    assert frames[-1] == "[DONE]"
    assert frames[-2]["choices"] == []
    assert frames[-2]["usage"]["total_tokens"] == 8
    assert all(frame["usage"] is None for frame in frames[:-2])


INVARIANTS: dict[str, Callable[[], None]] = {
    "stream.role_first": role_first,
    "stream.finish_once": finish_once,
    "stream.no_empty_tool_calls": no_empty_tool_calls,
    "stream.server_tools_hidden": server_tools_hidden,
    "stream.error_no_raw_json": error_no_raw_json,
    "stream.usage_last": usage_last,
}


@of_kind("stream_invariant")
def test_m3_stream_invariants(vector: dict[str, Any]) -> None:
    INVARIANTS[vector["id"]]()


def test_every_kind_of_vector_has_a_test() -> None:
    assert {vector["kind"] for vector in VECTORS} == {
        "openai_chunk",
        "openai_sse",
        "cui_sse",
        "cui_client_merge",
        "is_builtin",
        "cui_sequence",
        "stream_invariant",
    }

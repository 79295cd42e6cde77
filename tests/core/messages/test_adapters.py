"""Adapters beyond one message: restarts, errors, progress, links ([M3], [D1], [D2])."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels_app.asgi.event_stream import sse
from channels_app.client_api import failures
from channels_app.client_api.openai.adapter import Config, OpenAIAdapter, TraceLink, error_of
from channels_app.client_api.openai.completion import completion
from channels_app.client_api.run_adapter import Failure, encode
from channels_app.client_api.ui_stream import adapter as ui_stream
from channels_app.http_api.adapter import Frame, InboundAdapter, progress
from channels_app.rendering.answer import Answer, answer_of, reply
from channels_app.rendering.links import Links
from channels_app.rendering.text import one_line
from channels_app.rendering.translations import ENGLISH, wording
from channels_app.webchat.adapter import final_frame
from core import messages
from core.messages import (
    AppendOnly,
    EventMessage,
    Message,
    Transcript,
    error_message,
    event_data,
    event_message,
    image_message,
    loading_message,
    reset_delta,
    retrieval_message,
    text_message,
    to_dict,
    tool_call_message,
    tool_end,
)
from tests.core.messages.samples import (
    Event,
    end_of,
    no_image,
    openai_client,
    rendered,
    run,
    text_of,
    ui_client,
)

NOTICE = ENGLISH.restarted


def say(*pieces: Message) -> list[Event]:
    return [to_dict(piece) for piece in pieces]


def reset(message_id: str = "M1") -> list[Event]:
    return say(reset_delta("text", message_id=message_id))


def openai(log: list[Event], **config: Any) -> dict[str, Any]:
    converter = OpenAIAdapter(Config(completion_id="c", model="m", created=1, **config))
    return openai_client([f for event in log for f in converter.feed(event)] + converter.close())


def whole_completion(log: list[Event], **config: Any) -> Any:
    found = completion(log, Config(completion_id="c", model="m", created=1, **config))
    return error_of(found) if isinstance(found, Failure) else found


def ui(log: list[Event], **config: Any) -> dict[str, Any]:
    converter = ui_stream.UiStreamAdapter(ui_stream.Config(message_id="A1", **config))
    frames = [f for event in log for f in converter.feed(event)] + converter.close()
    assert all(encode(frame).startswith(b"data: ") for frame in frames)
    return ui_client(frames)


def answer(log: list[Event], *, links: Links) -> Answer:
    """Return the answer of a log, as far as it goes."""
    transcript = Transcript()
    ends = [each.message for event in log for each in transcript.read(event)]
    data = [event_data(each) for each in ends if isinstance(each, EventMessage)]
    end = data[-1] if log[-1]["props"].get("event") == "stream_end" else {}
    return answer_of(transcript.messages(), end, links=links, words=ENGLISH)


def inbound(log: list[Event]) -> list[Any]:
    converter = InboundAdapter(run_id="r1", session_id="s1", inline=no_image)
    return [frame for event in log for frame in converter.feed(event)]


def told(log: list[Event]) -> tuple[str, str]:
    """Return the final texts of an OpenAI client and of a UI stream client."""
    return openai(log)["content"], ui(log)["text"]


# A new attempt of the run


def test_m3_repeated_text_of_a_new_attempt_is_sent_once() -> None:
    log = run(text_of("Hello ", "wor"), reset(), text_of("Hel", "lo world", "!"), end_of("M1"))
    assert told(log) == ("Hello world!", "Hello world!")
    assert whole_completion(log)["choices"][0]["message"]["content"] == "Hello world!"


def test_m3_a_new_attempt_that_goes_another_way_says_so_once_and_goes_on() -> None:
    log = run(text_of("First.\n\nThe cat"), reset(), text_of("First.\n\nThe ", "dog", " runs"))
    expected = f"First.\n\nThe cat\n\n{NOTICE}\n\nThe dog runs"
    assert told(log) == (expected, expected)
    assert whole_completion(log)["choices"][0]["message"]["content"] == "First.\n\nThe dog runs"


def test_m3_an_answer_shorter_than_the_lost_attempt_is_sent_again() -> None:
    log = run(text_of("One, two, thr"), reset(), text_of("One."), end_of("M1"))
    assert told(log)[0] == f"One, two, thr\n\n{NOTICE}\n\nOne."
    shorter = run(text_of("One, two"), reset(), text_of("One"), end_of("M1"))
    assert told(shorter)[1] == f"One, two\n\n{NOTICE}\n\nOne"


def test_m3_a_cancelled_new_attempt_leaves_the_longer_partial_text() -> None:
    log = run(text_of("One, two"), reset(), text_of("One"), status="cancelled")
    assert openai(log)["content"] == "One, two"
    seen = ui(log)
    stopped = {"type": "abort", "reason": "The answer was stopped."}
    assert (seen["text"], seen["end"]) == ("One, two", stopped)


def test_m3_the_notice_stands_outside_an_open_code_fence() -> None:
    first = "See:\n\n```py\nx = 1\n"
    log = run(text_of(first), reset(), text_of("See:\n\n```py\nx = 2\n```\n"))
    expected = f"{first}\n```\n\n{NOTICE}\n\n```py\nx = 2\n```\n"
    assert told(log)[0] == expected


def test_m3_a_closed_code_fence_needs_no_closing() -> None:
    first = "```py\nx = 1\n```\n\nThe c"
    log = run(text_of(first), reset(), text_of("```py\nx = 1\n```\n\nThe d"))
    assert told(log)[0] == f"{first}\n\n{NOTICE}\n\nThe d"


def test_m3_a_message_that_had_ended_may_be_begun_anew() -> None:
    again = [*reset(), *text_of("Hi"), *end_of("M1")]
    assert ui(run(text_of("Hi"), end_of("M1"), again))["text"] == "Hi"
    other = [*reset(), *text_of("Yo"), *end_of("M1")]
    assert ui(run(text_of("Hi"), end_of("M1"), other))["text"] == f"Hi\n\n{NOTICE}\n\nYo"


def test_m3_texts_after_the_difference_of_attempts_are_sent_again_below_it() -> None:
    first = [*text_of("One"), *end_of("M1"), *text_of("Two", message_id="M2")]
    second = [*text_of("Uno"), *end_of("M1"), *text_of("Two!", message_id="M2"), *end_of("M2")]
    log = run(first, reset("M1"), reset("M2"), second)
    assert openai(log)["content"] == f"One\n\nTwo\n\n{NOTICE}\n\nUno\n\nTwo!"
    assert ui(log)["text"] == f"OneTwo\n\n{NOTICE}\n\nUnoTwo!"


def test_m3_reasoning_is_continued_the_same_way() -> None:
    think = text_of("a b", kind="thinking")
    again = say(reset_delta("thinking", message_id="M1")) + text_of("a c", kind="thinking")
    assert openai(run(think, again))["reasoning"] == f"a b\n\n{NOTICE}\n\na c"


@given(st.lists(st.text("ab\n`", max_size=6), max_size=8), st.integers(0, 8))
def test_m3_an_append_only_client_always_ends_with_the_last_version(
    versions: list[str], cut: int
) -> None:
    teller = AppendOnly("*anew*")
    shown = ""
    for text in versions:
        shown += teller.advance("")
        shown += teller.advance(text[:cut])
        shown += teller.settle(text)
        if text:
            assert teller.sent == text
            assert shown.endswith(text.rsplit("\n", 1)[-1])


def test_m3_a_tool_call_of_the_client_is_sent_once_and_whole() -> None:
    pieces = [
        to_dict(tool_call_message("call_1", "weather", message_id="M1")),
        *_arguments('{"city": ', '"Rome"}'),
        *end_of("M1", "tool_call"),
    ]
    second = say(tool_call_message("call_2", "weather", "{}", message_id="M2"))
    again = say(tool_call_message("call_1", "weather", "{}", message_id="M1"))
    seen = openai(run(pieces, second, again), client_tools=frozenset(["weather"]))
    assert [(c["index"], c["id"], c["function"]["arguments"]) for c in seen["tool_calls"]] == [
        (0, "call_1", '{"city": "Rome"}'),
        (1, "call_2", "{}"),
    ]
    assert seen["finish"] == "tool_calls"
    answer = whole_completion(run(pieces, second), client_tools=frozenset(["weather"]))
    calls = answer["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in calls] == ["call_1", "call_2"]
    assert "index" not in calls[0]
    assert answer["choices"][0]["message"]["content"] is None


def test_m3_an_answer_without_a_call_of_the_client_has_no_such_reason() -> None:
    """The last call was the gateway's own, as where it waits for a yes: a client that reads the
    reason would look for a call.
    """
    own = say(tool_call_message("call_1", "delete", "{}", message_id="C1"))
    log = run(own, text_of("The owner was asked."), end_of("M1"), finish_reason="tool_calls")
    assert openai(log)["finish"] == "stop"
    assert whole_completion(log)["choices"][0]["finish_reason"] == "stop"


def _arguments(*pieces: str) -> list[Event]:
    return [
        to_dict(
            messages.delta_message(
                "tool_call", {"arguments": piece}, message_id="M1", path="arguments"
            )
        )
        for piece in pieces
    ]


def test_m3_half_a_tool_call_of_a_cancelled_run_is_never_sent() -> None:
    half = [to_dict(tool_call_message("call_1", "weather", message_id="M1")), *_arguments('{"c')]
    log = run(half, status="cancelled")
    config = {"client_tools": frozenset(["weather"])}
    assert openai(log, **config)["tool_calls"] == []
    assert whole_completion(log, **config)["error"]["code"] == "stopped"
    assert ui(log, **config)["parts"] == []


# Errors


def test_m3_a_stopped_answer_does_not_look_whole() -> None:
    """As where its key is revoked; the official clients are told not to ask again."""
    log = run(text_of("So"), status="cancelled")
    error = {"message": "The answer was stopped.", "type": "stopped", "code": "stopped"}
    seen = openai(log)
    assert (seen["content"], seen["finish"]) == ("So", None)
    assert seen["error"] == whole_completion(log)["error"] == {**error, "param": None}
    stopped = Failure(code="stopped", text="")
    assert failures.status_of(stopped) == 499
    assert failures.headers_of(stopped) == {"x-should-retry": "false"}


def test_m3_a_fatal_error_is_the_last_frame_and_its_details_stay_here() -> None:
    log = run(text_of("So"), say(error_message("It broke", "X", details="pw")), status="error")
    assert openai(log)["error"] == {"message": "It broke", "type": "X", "code": "X", "param": None}
    assert "pw" not in json.dumps(ui(log)["end"])
    assert whole_completion(log)["error"]["code"] == "X"
    (done,) = inbound(log)
    assert [done[name] for name in ("ok", "status", "error", "code", "text")] == [
        *(False, 502, "It broke", "X", "So")
    ]
    assert done["run_id"] == "r1"


@pytest.mark.parametrize(("end", "code"), [({}, "budget"), ({"retry_after": 30.0}, "rate_limited")])
def test_m3_a_budget_that_is_free_again_soon_is_a_rate_limit(
    end: dict[str, float], code: str
) -> None:
    """Programs do not ask again after ``budget``."""
    (done,) = inbound(run(say(error_message("Later.", "budget")), status="error", **end))
    assert done["code"] == code


def test_m3_a_run_that_goes_on_after_an_error_is_not_ended_by_it() -> None:
    log = run(say(error_message("One source was down")), text_of("Still."))
    assert openai(log)["content"] == "⚠️ One source was down\n\nStill."
    assert openai(log)["finish"] == "stop"
    seen = ui(log)
    assert (seen["text"], seen["end"]["type"]) == ("Still.", "finish")
    assert seen["data"]["data-error"] == {"message": "One source was down"}
    last = run(text_of("Still."), say(error_message("late")))
    assert openai(last)["content"] == "Still.\n\n⚠️ late"
    assert "data-error" in ui(last)["data"]


def test_m3_a_failed_run_without_an_error_message_still_says_so() -> None:
    log = run(status="error", error="lease lost")
    assert openai(log)["error"]["message"] == "lease lost"
    assert ui(log)["end"] == {"type": "error", "errorText": "lease lost"}
    assert inbound(log)[-1]["error"] == "lease lost"
    assert "code" not in inbound(log)[-1]
    assert openai(run(status="error"))["error"]["message"] == ENGLISH.failed


def test_m3_nothing_follows_the_end_of_a_run() -> None:
    for converter in (
        OpenAIAdapter(Config(completion_id="c", model="m", created=1)),
        ui_stream.UiStreamAdapter(ui_stream.Config(message_id="A1")),
    ):
        for event in run(text_of("x")):
            converter.feed(event)
        assert converter.feed(text_of("late")[0]) == []
        assert converter.feed(run()[-1]) == []
        assert converter.close() == []
    assert [frame["event"] for frame in inbound(run() + run())] == ["done"]


def test_m3_a_log_that_stops_short_still_ends_as_clients_need() -> None:
    assert openai(run(text_of("x"))[:-1])["finish"] == "stop"
    assert openai(say(error_message("no")))["error"]["code"] == "server_error"
    assert ui(run(text_of("x"))[:-1])["end"] == {"type": "finish", "finishReason": "stop"}
    assert ui(say(error_message("no")))["end"]["errorText"] == "no"


def test_m3_the_models_own_finish_reason_is_kept() -> None:
    end = messages.stream_end(status="completed")
    end.props["data"] = {"status": "completed", "finish_reason": "length"}
    assert openai([*text_of("x"), to_dict(end)])["finish"] == "length"


# Layout


def test_m3_messages_are_set_apart_from_each_other() -> None:
    picture = say(image_message("https://e.org/a.png", "x", message_id="M2"))
    log = run(text_of("Look:"), picture, picture, text_of("There", message_id="M3"))
    assert openai(log)["content"] == "Look:\n\n![x](https://e.org/a.png)\n\nThere"
    lines = say(loading_message("One"), loading_message("Two"), loading_message("Two"))
    assert openai(run(lines))["reasoning"] == "One\nTwo\nTwo"
    same = say(*(loading_message(text, message_id="M1") for text in ("One", "Two", "Two", "")))
    assert openai(run(same))["reasoning"] == "One\nTwo"


@pytest.mark.parametrize(
    ("where", "field", "sign"), [("content", "content", "🚀"), ("reasoning", "reasoning", "🔍")]
)
def test_m3_the_trace_link_is_there_only_when_switched_on(
    where: TraceLink, field: str, sign: str
) -> None:
    links = Links(base_url="https://gw")
    off = openai(run(text_of("x")), links=links)
    assert (off["content"], off["reasoning"]) == ("x", "")
    on = openai(run(text_of("x")), links=links, trace_link=where, locale="de-AT")
    link = "Der Assistent arbeitet - [Ablauf ansehen](https://gw/trace/t1/view)\n"
    assert on[field].startswith(f"{sign} {link}")
    assert on["content"].endswith("x")


def test_m3_citations_point_at_their_place_in_the_content() -> None:
    found = say(
        retrieval_message(
            "q",
            [
                {
                    "id": "1",
                    "type": "web",
                    "content": "",
                    "title": "A",
                    "url": "https://e.org/a(1)",
                },
                {"id": "2", "type": "web", "content": "", "url": "https://e.org/a(1)"},
                {"id": "3", "type": "web", "content": "", "url": "https://e.org/b"},
                {"id": "4", "type": "file", "content": "", "file_path": "notes.txt"},
                {"id": "5", "type": "web", "content": "", "title": "Bad", "url": "javascript:x"},
            ],
            message_id="M0",
        )
    )
    seen = openai(run(found, text_of("Answer.")))
    assert seen["content"] == (
        "Answer.\n\n**Sources**\n\n1. [A](https://e.org/a%281%29)\n2. [e.org](https://e.org/b)\n"
        "3. notes.txt\n4. Bad"
    )
    cited = [each["url_citation"] for each in seen["annotations"]]
    assert [each["url"] for each in cited] == ["https://e.org/a(1)", "https://e.org/b"]
    assert [seen["content"][each["start_index"] : each["end_index"]] for each in cited] == [
        "1. [A](https://e.org/a%281%29)",
        "2. [e.org](https://e.org/b)",
    ]


def test_m3_text_channels_show_only_the_first_sources() -> None:
    sources: Any = [{"id": str(n), "type": "kb", "content": "", "title": f"T{n}"} for n in range(8)]
    (shown,) = rendered(say(retrieval_message("q", sources, message_id="M1")), Links())
    assert shown.text.endswith("5. T4\n6. … (+3)")


def test_v32_a_page_that_was_found_and_then_read_is_listed_first() -> None:
    def web(*names: str) -> Any:
        return [
            {
                "id": name,
                "type": "web",
                "content": "",
                "title": name,
                "url": f"https://e.org/{name}",
            }
            for name in names
        ]

    found = say(retrieval_message("q", web(*"abcdefg"), message_id="M1"))
    read = say(retrieval_message("f", web("f"), message_id="M2"))
    seen = openai(run(found, read, text_of("Answer.")))
    cited = [each["url_citation"]["title"] for each in seen["annotations"]]
    assert cited == ["f", *"abcdeg"]


# Links


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "//evil.example",
        "/\\evil.example",
        "data:text/html,x",
        "https://",
        "http://[",
        "ftp://e.org/x",
    ],
)
def test_rx2_unsafe_addresses_are_not_linked(url: str) -> None:
    card = messages.custom_message("card", {"url": url}, message_id="M/1")
    markdown = Links(base_url="https://gw").markdown(card)
    assert markdown == "🔗 [Card](https://gw/agent/view/card/M%2F1)"


def test_m3_untrusted_text_cannot_leave_its_label() -> None:
    picture = image_message("https://e.org/a b.png?x=(1)", "a](https://evil) [\nb", message_id="M")
    assert Links().markdown(picture) == (
        r"![a\](https://evil) \[ b](https://e.org/a%20b.png?x=%281%29)"
    )


def test_m3_addresses_of_ours_become_absolute_and_a_message_without_any_is_named() -> None:
    links = Links(base_url="https://gw", templates={"card": "100 %s"})
    card = messages.custom_message("card", {"url": "/files/out?token=x"})
    assert links.markdown(card) == "100 https://gw/files/out?token=x"
    assert links.markdown(messages.custom_message("order_card", {"title": "*T*"})) == r"\*T\*"
    fixed = Links(base_url="https://gw", templates={"card": "no address"})
    assert fixed.markdown(card) == "no address"


def test_m3_languages_fall_back_to_english() -> None:
    assert wording("zh-CN").sources == "来源"
    assert wording("xx") is wording("") is wording("en_US")


# UI message stream


def test_m3_a_tool_of_the_gateway_ends_with_its_result() -> None:
    call = say(tool_call_message("c1", "search", "not json", message_id="M1"))
    ok = ui(run(call, say(tool_end(call_id="c1", name="search", ok=True, output="3 hits"))))
    ran = {"toolCallId": "c1", "providerExecuted": True, "dynamic": True}
    assert ok["parts"] == [
        {"type": "tool-input-available", "toolName": "search", "input": "not json", **ran},
        {"type": "tool-output-available", "output": "3 hits", **ran},
    ]
    bad = say(tool_end(call_id="c1", name="search", ok=False))
    stranger = say(tool_end(call_id="c9", name="search", ok=False))
    failed = ui(run(call, stranger, bad))["parts"][-1]
    assert failed == {"type": "tool-output-error", "errorText": ENGLISH.failed, **ran}
    assert ui(run(call, status="cancelled"))["parts"][-1]["type"] == "tool-output-error"


@pytest.mark.parametrize(
    "arguments", ['{"wei": 340282366920938463463374607431768211456}', "[" * 300 + "]" * 300]
)
def test_m3_arguments_that_cannot_be_written_again_end_no_stream(arguments: str) -> None:
    """A number of more than 64 bits is not rounded."""
    call = say(tool_call_message("c1", "pay", arguments, message_id="M1"))
    assert ui(run(call), client_tools=frozenset(["pay"]))["parts"][0]["input"] == arguments


def test_m3_a_tool_of_the_client_is_the_clients_to_run() -> None:
    call = say(tool_call_message("c1", "weather", '{"city": "Rome"}', message_id="M1"))
    seen = ui(run(call, call), client_tools=frozenset(["weather"]))
    assert seen["parts"] == [
        {
            "type": "tool-input-available",
            "toolCallId": "c1",
            "toolName": "weather",
            "input": {"city": "Rome"},
        }
    ]


@pytest.mark.parametrize(
    ("message", "media_type"),
    [
        (image_message("data:image/webp;base64,AA"), "image/webp"),
        (image_message("data:,x"), "image/png"),
        (image_message("https://e.org/a.jpg?x=1"), "image/jpeg"),
        (image_message("https://e.org/a"), "image/png"),
        (messages.audio_message("https://e.org/a", "wav"), "audio/x-wav"),
        (messages.video_message("https://e.org/v.mp3"), "video/mp4"),
    ],
)
def test_m3_media_of_a_ui_stream_say_their_type(message: Message, media_type: str) -> None:
    (part,) = ui(run(say(message)))["parts"]
    assert part["mediaType"] == media_type


def test_m3_a_medium_and_a_source_are_sent_once() -> None:
    picture = say(image_message("https://e.org/a.png", message_id="M1"))
    found = say(retrieval_message("q", [{"id": "1", "type": "kb", "content": ""}], message_id="M2"))
    parts = ui(run(picture, picture, found, found))["parts"]
    assert [part["type"] for part in parts] == ["file", "source-document"]


def test_m3_texts_without_an_id_are_parts_of_their_own() -> None:
    assert ui(run(say(text_message("a"), text_message("b"))))["text"] == "ab"
    assert openai(run(say(text_message("a"), text_message("b"))))["content"] == "a\n\nb"


# /inbound


def test_d2_one_progress_when_a_long_tool_is_about_to_run() -> None:
    call = say(tool_call_message("c", "document_read", "{}", message_id="M1"))
    line = "Reading the document…"
    log = run(call, say(messages.progress(line, tool="document_read")), text_of("x"))
    frames = inbound(log)
    assert frames[0] == {"event": "progress", "message": line, "tool": "document_read"}
    assert [frame["event"] for frame in frames] == ["progress", "done"]
    assert [shown.progress for shown in rendered(log, Links())] == [line, ""]


def test_d2_repeated_lines_make_no_progress() -> None:
    lines = say(*(loading_message(text) for text in ("Wait", "Wait", progress()["message"], "")))
    frames = inbound(run(lines, text_of("x")))
    assert [frame.get("message") for frame in frames] == ["Wait", progress()["message"], None]


def test_d2_a_tool_tells_how_far_it_is() -> None:
    steps = say(*(messages.progress("Slides", tool="ppt", percent=each) for each in (10, 55.5)))
    frames = inbound(run(steps))
    assert frames[:2] == [
        {"event": "progress", "message": "Slides", "tool": "ppt", "percent": 10},
        {"event": "progress", "message": "Slides", "tool": "ppt", "percent": 55.5},
    ]


def test_d2_a_loading_line_that_is_set_anew_is_shown_at_once() -> None:
    steps = [
        messages.delta_message("loading", {"message": text}, message_id="M1", action="set")
        for text in ("Slide 1", "Slide 2")
    ]
    log = run(say(*steps))
    assert [frame.get("message") for frame in inbound(log)] == ["Slide 1", "Slide 2", None]


def test_d2_a_stream_cut_at_any_event_and_resumed_adds_up_to_the_same_bytes() -> None:
    step = say(messages.progress("Reading the document…", tool="document_read"))
    log = run(step, text_of("a", "b", message_id="M2"), say(loading_message("Last")))

    def stream(after: int) -> bytes:
        converter = InboundAdapter(run_id="r1", session_id="s1", inline=no_image)
        frames: list[tuple[int, Frame]] = [
            (seq, frame) for seq, event in enumerate(log, 1) for frame in converter.feed(event)
        ]
        return b"".join(sse(frame, seq=seq) for seq, frame in frames if seq > after)

    full = stream(0)
    assert full.count(b"\n\n") == 3
    for cut in range(len(log) + 1):
        assert full.endswith(stream(cut))
    assert stream(len(log)) == b""


def test_ri14_newlines_in_an_answer_cannot_end_an_event() -> None:
    (done,) = inbound(run(text_of('x\n\ndata: {"event":"done"}')))
    assert sse(done, seq=3).count(b"\n") == 3


def test_d1_images_are_sent_themselves_and_only_else_as_a_link() -> None:
    log = run(
        text_of("Look", message_id="M0"),
        say(image_message("data:image/png;base64,AA"), image_message("/files/1", "Cat")),
        say(image_message("https://e.org/gone.png", "Dog")),
    )
    given = answer(log, links=Links(base_url="https://gw"))
    shown = reply(given, inline={"/files/1": "data:image/png;base64,BB"}.get)
    assert shown.images == ["data:image/png;base64,AA", "data:image/png;base64,BB"]
    assert shown.text == "Look\n\n![Dog](https://e.org/gone.png)"
    frame = final_frame(shown, run_id="r1", seq=9)
    assert (frame["type"], frame["images"], frame["ok"]) == ("final", shown.images, True)


def test_d1_an_answer_says_how_its_run_stands() -> None:
    def status(log: list[Event]) -> tuple[str, int, bool, str]:
        given = answer(log, links=Links())
        shown = reply(given, inline=no_image)
        return given.status, shown.status, shown.ok, shown.error

    assert status(run(text_of("x"))[:-1]) == ("pending", 202, True, "")
    assert status(run(text_of("x"))) == ("completed", 200, True, "")
    assert status(run(text_of("x"), status="cancelled")) == ("cancelled", 409, False, "Cancelled")
    assert status(run(status="error")) == ("error", 502, False, ENGLISH.failed)
    assert status(say(event_message("stream_end", data={"x": 1})))[0] == "completed"


def test_m3_a_line_is_one_line_and_short() -> None:
    assert one_line("a\n\tb") == "a b"
    assert len(one_line("x" * 1000)) == 300

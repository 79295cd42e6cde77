"""Every adapter shows every built-in type, whole and streamed, in the same way ([M3])."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from channels_app.client_api.ag_ui import adapter as ag_ui
from channels_app.client_api.anthropic import adapter as anthropic
from channels_app.client_api.openai.adapter import Config, OpenAIAdapter, error_of
from channels_app.client_api.openai.completion import completion
from channels_app.client_api.responses import adapter as responses_adapter
from channels_app.client_api.responses.fields import REPEATED
from channels_app.client_api.run_adapter import Failure
from channels_app.client_api.ui_stream import adapter as ui_stream
from channels_app.http_api.adapter import InboundAdapter
from channels_app.rendering.links import Links
from channels_app.rendering.text import Rendering
from channels_app.webchat import adapter as webchat
from core.messages import BUILTIN_TYPES, custom_message, delta_message, fold, to_dict
from tests.channels_app.client_api.ag_ui.frames import verify
from tests.core.messages.samples import (
    SAMPLES,
    USAGE,
    Event,
    no_image,
    openai_client,
    rendered,
    run,
    streamed,
    ui_client,
    whole,
)

LINKS = Links(base_url="https://gw.example")
IMAGE = "data:image/png;base64,AAAA"
WAYS = pytest.mark.parametrize("way", [whole, streamed], ids=["complete", "streamed"])
TYPES = pytest.mark.parametrize("message_type", BUILTIN_TYPES)
SOURCES = "**Sources**\n\n1. [News \\[1\\]](https://e.org/n)\n2. Guide"

Way = Callable[[Any], list[Event]]


def cui(log: list[Event]) -> object:
    frames = [
        webchat.frame(event, run_id="r1", seq=seq, after=seq - 1)
        for seq, event in enumerate(log, 1)
    ]
    assert [frame["seq"] for frame in frames] == list(range(1, len(log) + 1))
    return [m["props"] for m in fold(frames) if m["type"] != "event" or "connecting" in str(m)]


def openai(log: list[Event]) -> object:
    config = Config(completion_id="c1", model="m", created=1, links=LINKS)
    converter = OpenAIAdapter(config)
    seen = openai_client([f for event in log for f in converter.feed(event)] + converter.close())
    found = completion(log, config)
    answer: Any = error_of(found) if isinstance(found, Failure) else found
    if "error" in seen:
        assert answer["error"] == seen["error"]
        return seen["error"]["code"]
    message = answer["choices"][0]["message"]
    assert (message["content"] or "") == seen["content"]
    assert message.get("reasoning_content", "") == seen["reasoning"]
    assert message.get("annotations", []) == seen["annotations"]
    details = {
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    assert answer["usage"] == {**USAGE, **details}
    return seen["content"], seen["reasoning"], len(seen["annotations"])


def responses(log: list[Event]) -> object:
    begun: Any = {**REPEATED, "id": "resp_r1", "output": []}
    config = responses_adapter.Config(run_id="r1", links=LINKS, response=begun)
    converter = responses_adapter.ResponsesAdapter(config)
    frames: list[Any] = [f for event in log for f in converter.feed(event)] + converter.close()
    said = [f["delta"] for f in frames if f["type"] == "response.output_text.delta"]
    thought = [f["delta"] for f in frames if f["type"] == "response.reasoning_summary_text.delta"]
    end = frames[-1]["response"]
    parts = [part for item in end["output"] for part in item.get("content", [])]
    assert "".join(said) == "".join(part["text"] for part in parts)
    if end["status"] == "failed":
        return end["error"]["message"]
    assert end["usage"]["total_tokens"] == USAGE["total_tokens"]
    return "".join(said), "".join(thought), sum(len(part["annotations"]) for part in parts)


def ui(log: list[Event]) -> object:
    converter = ui_stream.UiStreamAdapter(ui_stream.Config(message_id="A1", links=LINKS))
    seen = ui_client([f for event in log for f in converter.feed(event)] + converter.close())
    parts = [part["type"] for part in seen["parts"]]
    if seen["end"]["type"] == "error":
        return seen["end"]["errorText"]
    usage = {"messageMetadata": {"usage": USAGE}}
    assert seen["end"] == {"type": "finish", "finishReason": "stop", **usage}
    return seen["text"] or seen["reasoning"], parts, sorted(seen["data"])


def agent(log: list[Event]) -> object:
    config = ag_ui.Config(run_id="R1", thread="T1", name="N1", links=LINKS)
    converter = ag_ui.AgUiAdapter(config)
    events = [frame for event in log for frame in converter.feed(event)] + converter.close()
    verify(events)
    if events[-1]["type"] == "RUN_ERROR":
        return events[-1]["message"]
    parts = [each["type"] for each in events if each["type"] in ("TOOL_CALL_RESULT", "CUSTOM")]
    shown = {
        kind: "".join(str(each["delta"]) for each in events if each["type"] == f"{kind}_CONTENT")
        for kind in ("TEXT_MESSAGE", "REASONING_MESSAGE")
    }
    return shown["TEXT_MESSAGE"] or shown["REASONING_MESSAGE"], parts


def anthropic_message(log: list[Event]) -> object:
    config = anthropic.Config(run_id="R1", links=LINKS, shows_thinking=True)
    converter = anthropic.AnthropicAdapter(config)
    frames = [frame for event in log for frame in converter.feed(event)] + converter.close()
    found = anthropic.message(log, config)
    if isinstance(found, Failure):
        assert frames[-1]["type"] == "error"
        return found.text
    streamed_texts = "".join(map(anthropic.text_of, frames))
    texts = {"text": "", "thinking": ""}
    for block in found["content"]:
        assert block["type"] != "tool_use"
        texts[block["type"]] += block["text"] if block["type"] == "text" else block["thinking"]
    assert streamed_texts == texts["thinking"] + texts["text"]
    assert found["usage"]["output_tokens"] == USAGE["completion_tokens"]
    return texts["text"], texts["thinking"]


def inbound(log: list[Event]) -> object:
    converter = InboundAdapter(run_id="r1", session_id="s1", inline=no_image, links=LINKS)
    frames: list[Any] = [frame for event in log for frame in converter.feed(event)]
    *progress, done = frames
    assert done["event"] == "done"
    shown = done["text"], [frame["message"] for frame in progress], done.get("images", [])
    return shown if done["ok"] else (done["status"], done["error"])


def text(log: list[Event]) -> object:
    shown = rendered(log, LINKS)
    assert len(shown) <= 1
    return shown[0] if shown else None


SILENT_OPENAI = ("", "", 0)
SILENT_INBOUND: tuple[str, list[str], list[str]] = ("", [], [])
AUDIO_LINK = "🔊 [Play Audio](https://e.org/a.ogg)"
VIDEO_LINK = "🎬 [Watch Video](https://e.org/v.webm)"

# The result of each adapter for each sample. A missing folder with an adapter.py fails.
EXPECTED: dict[str, tuple[Callable[[list[Event]], object], dict[str, object]]] = {
    "webchat": (cui, {name: [sample.props] for name, sample in SAMPLES.items()}),
    "openai": (
        openai,
        {
            "user_input": SILENT_OPENAI,
            "text": ("Hello **world**!", "", 0),
            "thinking": ("", "Let me see.", 0),
            "loading": ("", "Searching…", 0),
            "tool_call": SILENT_OPENAI,
            "retrieval": (SOURCES, "", 1),
            "error": "BROKEN",
            "image": (f"![A cat]({IMAGE})", "", 0),
            "audio": (AUDIO_LINK, "", 0),
            "video": (VIDEO_LINK, "", 0),
            "action": SILENT_OPENAI,
            "event": SILENT_OPENAI,
        },
    ),
    "anthropic": (
        anthropic_message,
        {
            "user_input": ("", ""),
            "text": ("Hello **world**!", ""),
            "thinking": ("", "Let me see."),
            "loading": ("", ""),
            "tool_call": ("", ""),
            "retrieval": (SOURCES, ""),
            "error": "It broke",
            "image": (f"![A cat]({IMAGE})", ""),
            "audio": (AUDIO_LINK, ""),
            "video": (VIDEO_LINK, ""),
            "action": ("", ""),
            "event": ("", ""),
        },
    ),
    "responses": (
        responses,
        {
            "user_input": SILENT_OPENAI,
            "text": ("Hello **world**!", "", 0),
            "thinking": ("", "Let me see.", 0),
            "loading": SILENT_OPENAI,
            "tool_call": SILENT_OPENAI,
            "retrieval": (SOURCES, "", 1),
            "error": "It broke",
            "image": (f"![A cat]({IMAGE})", "", 0),
            "audio": (AUDIO_LINK, "", 0),
            "video": (VIDEO_LINK, "", 0),
            "action": SILENT_OPENAI,
            "event": SILENT_OPENAI,
        },
    ),
    "ui_stream": (
        ui,
        {
            "user_input": ("", [], []),
            "text": ("Hello **world**!", [], []),
            "thinking": ("Let me see.", [], []),
            "loading": ("", [], ["data-loading"]),
            "tool_call": ("", ["tool-input-available", "tool-output-available"], []),
            "retrieval": ("", ["source-url", "source-document"], ["data-retrieval"]),
            "error": "It broke",
            "image": ("", ["file"], ["data-image"]),
            "audio": ("", ["file"], ["data-audio"]),
            "video": ("", ["file"], ["data-video"]),
            "action": ("", [], ["data-action"]),
            "event": ("", [], ["data-event"]),
        },
    ),
    "ag_ui": (
        agent,
        {
            "user_input": ("", []),
            "text": ("Hello **world**!", []),
            "thinking": ("Let me see.", []),
            "loading": ("", []),
            "tool_call": ("", ["TOOL_CALL_RESULT"]),
            "retrieval": ("", ["CUSTOM"]),
            "error": "It broke",
            "image": (f"![A cat]({IMAGE})", []),
            "audio": (AUDIO_LINK, []),
            "video": (VIDEO_LINK, []),
            "action": ("", ["CUSTOM"]),
            "event": ("", ["CUSTOM"]),
        },
    ),
    "http_api": (
        inbound,
        {
            "user_input": SILENT_INBOUND,
            "text": ("Hello **world**!", [], []),
            "thinking": SILENT_INBOUND,
            "loading": ("", ["Searching…"], []),
            "tool_call": SILENT_INBOUND,
            "retrieval": (SOURCES, [], []),
            "error": (502, "It broke"),
            "image": ("", [], [IMAGE]),
            "audio": (AUDIO_LINK, [], []),
            "video": (VIDEO_LINK, [], []),
            "action": SILENT_INBOUND,
            "event": SILENT_INBOUND,
        },
    ),
    "text_rendering": (
        text,
        {
            "user_input": None,
            "text": Rendering(text="Hello **world**!"),
            "thinking": None,
            "loading": Rendering(progress="Searching…"),
            "tool_call": None,
            "retrieval": Rendering(text=SOURCES),
            "error": Rendering(text="⚠️ It broke"),
            "image": ("image", IMAGE, f"![A cat]({IMAGE})"),
            "audio": ("audio", "https://e.org/a.ogg", AUDIO_LINK),
            "video": ("video", "https://e.org/v.webm", VIDEO_LINK),
            "action": None,
            "event": None,
        },
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
@TYPES
@WAYS
def test_m3_every_adapter_shows_every_type_whole_and_streamed(
    name: str, message_type: str, way: Way
) -> None:
    show, expected = EXPECTED[name]
    status = "error" if message_type == "error" else "completed"
    shown = show(run(way(SAMPLES[message_type]), status=status))
    if isinstance(shown, Rendering) and shown.media:
        media = shown.media
        shown = (media.kind, media.url, media.link)
    assert shown == expected[message_type]


def test_m3_no_adapter_is_left_out_of_the_contract() -> None:
    folder = Path(webchat.__file__).parents[1]
    found = {path.parent.name for path in folder.glob("**/adapter.py")}
    # Telegram's and the bridge's take the text that was made of the messages; MCP's
    # tells an agent the outcome of its results, and no run.
    assert found - {"telegram", "bridge", "mcp"} == set(EXPECTED) - {"text_rendering"}
    assert all(set(expected) == set(BUILTIN_TYPES) for _, expected in EXPECTED.values())


@WAYS
def test_m1_a_custom_type_passes_or_becomes_a_link(way: Way) -> None:
    card = custom_message(
        "order_card", {"url": "https://e.org/o/1", "total": "5 €"}, message_id="M1"
    )
    link = "🔗 [Order card](https://e.org/o/1)"
    log = run(way(card))
    assert cui(log) == [card.props]
    assert openai(log) == (link, "", 0)
    assert ui(log) == ("", [], ["data-order_card"])
    assert inbound(log) == (link, [], [])
    assert text(log) == Rendering(text=link)


def test_m3_a_message_that_changes_its_type_is_shown_in_its_new_type() -> None:
    wait = to_dict(SAMPLES["loading"])
    answer = delta_message("text", {"content": "Done"}, message_id="M1", action="replace")
    log = run([wait, to_dict(answer)])
    assert cui(log) == [{"content": "Done"}]
    assert openai_content(log) == "Done"
    assert rendered(log, LINKS) == [Rendering(progress="Searching…"), Rendering(text="Done")]


def openai_content(log: list[Event]) -> str:
    converter = OpenAIAdapter(Config(completion_id="c1", model="m", created=1))
    content: str = openai_client([f for e in log for f in converter.feed(e)])["content"]
    return content

"""[W77] A text that was sent and begins anew: in words for people, an error for programs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from channels_app.client_api.anthropic import adapter as anthropic
from channels_app.client_api.openai import adapter as openai
from channels_app.client_api.responses.adapter import Config, ResponsesAdapter
from channels_app.client_api.responses.fields import REPEATED
from channels_app.client_api.run_adapter import Rest, RunAdapter, RunConfig
from channels_app.rendering.translations import ENGLISH
from core.messages import (
    Message,
    message_end,
    message_start,
    reset_delta,
    text_delta,
    thinking_delta,
    to_dict,
)
from tests.core.messages.samples import Event, run

RESPONSE: Any = {**REPEATED, "id": "resp_r", "output": [], "status": "in_progress"}
CONFIGS: dict[str, tuple[Callable[[Any], RunAdapter[Any]], RunConfig]] = {
    "openai": (openai.OpenAIAdapter, openai.Config(completion_id="c")),
    "anthropic": (anthropic.AnthropicAdapter, anthropic.Config(run_id="r", shows_thinking=True)),
    "responses": (ResponsesAdapter, Config(run_id="r", response=RESPONSE)),
}
CUT = "The connection to the model broke off in the middle of its answer."


def text(content: str, name: str = "M1") -> list[Message]:
    return [text_delta(content, message_id=name)]


def thought(content: str) -> list[Message]:
    start = message_start(message_id="T1", message_type="thinking")
    end = message_end(message_id="T1", message_type="thinking")
    return [start, thinking_delta(content, message_id="T1"), end]


def anew(*names: str) -> list[Message]:
    kinds = {"M": "text", "T": "thinking"}
    return [reset_delta(kinds[each[0]], message_id=each) for each in names]


def sent(name: str, log: list[Event], *, wants_json: bool, seen: int = 0) -> tuple[str, str, int]:
    """Return the texts that a client gets, the error that ends it, and the last number."""
    make, config = CONFIGS[name]
    adapter = make(replace(config, wants_json=wants_json))
    rest = Rest(adapter, seen)
    frames = [frame for event in log for _, frame in rest.of(event)]
    said = "".join(
        text_of(frame)
        for frame in frames
        if not any(each in str(frame) for each in ("thinking", "reasoning"))
    )
    assert adapter.is_void == (adapter.failure is not None)
    return said, adapter.failure.text if adapter.failure else "", adapter.number


def text_of(frame: Any) -> str:
    match frame:
        case {"delta": {"text": str(found)}} | {"delta": str(found)}:
            return found
        case {"choices": [{"delta": {"content": str(found)}}]}:
            return found
    return ""


@pytest.mark.parametrize("name", CONFIGS)
def test_w77_json_that_begins_anew_with_another_text_ends_with_an_error(name: str) -> None:
    log = run([to_dict(each) for each in [*text('{"a": 1'), *anew("M1"), *text('{"b": 2}')]])
    assert sent(name, log, wants_json=True)[:2] == ('{"a": 1', CUT)
    assert sent(name, log, wants_json=False)[:2] == (
        f'{{"a": 1\n\n{ENGLISH.restarted}\n\n{{"b": 2}}',
        "",
    )


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("again", ['{"a": 1}', '{"a"'])
def test_w77_json_that_is_repeated_goes_on_and_one_that_is_shorter_does_not(
    name: str, again: str
) -> None:
    log = run([to_dict(each) for each in [*text('{"a": 1'), *anew("M1"), *text(again)]])
    said, error, _ = sent(name, log, wants_json=True)
    assert (said, error) == ((again, "") if len(again) > 7 else ('{"a": 1', CUT))


@pytest.mark.parametrize("name", CONFIGS)
def test_w77_other_thoughts_do_not_void_json(name: str) -> None:
    """A thought may be followed by a notice: it is not parsed."""
    first, second = [*thought("Hm."), *text("{}")], [*thought("Well."), *text("{}")]
    log = run([to_dict(each) for each in [*thought("Hm."), *anew("T1"), *second]])
    assert sent(name, log, wants_json=True)[:2] == ("{}", "")
    # The text stands above the new thought, and would be sent a second time below it.
    log = run([to_dict(each) for each in [*first, *anew("T1", "M1"), *second]])
    said, error, _ = sent(name, log, wants_json=True)
    assert (said, error) == ("{}", CUT)


@pytest.mark.parametrize("name", CONFIGS)
def test_w77_a_second_text_that_is_not_written_again_voids_json(name: str) -> None:
    said = [*text("{}"), *text("[]", "M2"), *anew("M1", "M2"), *text("{}")]
    assert sent(name, run([to_dict(each) for each in said]), wants_json=True)[1] == CUT


@pytest.mark.parametrize("name", CONFIGS)
def test_w77_a_reader_of_json_that_has_more_than_is_known_gets_an_error(name: str) -> None:
    said = [*anew("M1"), *text('{"a": 1}')]
    for stored in (text('{"a"'), []):
        log = run([to_dict(each) for each in [*stored, *said]])
        assert sent(name, log, wants_json=True, seen=500)[1] == CUT
        assert sent(name, log, wants_json=True)[:2] == ('{"a": 1}', "")

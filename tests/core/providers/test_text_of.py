"""The text of one answer, as descriptions and titles ask for it, and its bound."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from pytest_django import Settings

from core.providers.base import (
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    Restart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
    most_bytes,
    text_of,
)
from core.providers.failures import Failure

LEAST_BYTES = 256 * 16
FEW: dict[str, Any] = {"max_tokens": 1}


class Model:
    """A model that plays ``deltas``; ``asked`` counts what was read."""

    def __init__(self, *deltas: Delta) -> None:
        self.deltas = deltas
        self.asked, self.is_closed = 0, False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        assert request.messages == [{"role": "user", "content": "hi"}]
        try:
            for each in self.deltas:
                self.asked += 1
                yield each
        finally:
            self.is_closed = True

    async def close(self) -> None:
        """Do nothing."""


def said(model: Model, options: dict[str, Any] | None = None) -> str:
    """Return the text of the model's answer."""
    request = ModelRequest([{"role": "user", "content": "hi"}], options=options or {})
    return asyncio.run(text_of(model, request))


def test_the_text_is_joined_and_thoughts_and_calls_are_none_of_it() -> None:
    model = Model(
        *(ThinkingDelta("hm"), TextDelta("a"), ToolCallDelta(index=0, arguments="{}")),
        *(TextDelta("b"), Finish("stop")),
    )
    assert said(model) == "ab"
    assert (model.asked, model.is_closed) == (5, True)


def test_an_answer_that_begins_again_replaces_the_first() -> None:
    """And may be as long as the first."""
    half = "x" * (LEAST_BYTES - 1)
    model = Model(TextDelta(half), Restart(), TextDelta("y" * (LEAST_BYTES - 2)), TextDelta("z"))
    assert said(model, FEW) == "y" * (LEAST_BYTES - 2) + "z"
    assert model.asked == 4


@pytest.mark.parametrize("kind", [TextDelta, ThinkingDelta])
@pytest.mark.parametrize(("letter", "size"), [("x", 1), ("é", 2)])
def test_an_answer_without_an_end_is_left_at_its_bound(kind: Any, letter: str, size: int) -> None:
    """Counted in bytes, thoughts included."""
    model = Model(*[kind(letter * 256)] * 1000)
    text = said(model, FEW)
    assert model.asked == LEAST_BYTES // (256 * size)
    assert len(text) == (model.asked * 256 if kind is TextDelta else 0)
    assert model.is_closed


def test_calls_without_an_end_are_left_at_the_bound() -> None:
    """Also those without arguments: no tool was offered, but a server may send anything."""
    model = Model(*[ToolCallDelta(index=number) for number in range(1000)])
    assert said(model, FEW) == ""
    assert model.asked == LEAST_BYTES // 64
    model = Model(*[ToolCallDelta(index=0, arguments="é" * 960)] * 1000)
    assert said(model, FEW) == ""
    assert model.asked == LEAST_BYTES // 1024
    assert model.is_closed


def test_other_pieces_count_nothing() -> None:
    model = Model(*[Usage(1, 1)] * 5000, TextDelta("a"), Finish("stop"))
    assert said(model, FEW) == "a"


def test_an_answer_below_its_bound_is_read_to_the_end() -> None:
    model = Model(TextDelta("x" * (LEAST_BYTES - 1)), Finish("stop"))
    assert len(said(model, FEW)) == LEAST_BYTES - 1
    assert model.asked == 2


@pytest.mark.parametrize(
    ("options", "most"),
    [
        ({}, 8192 * 16),
        ({"temperature": 1}, 8192 * 16),
        ({"max_tokens": 2000}, 2000 * 16),
        ({"max_completion_tokens": 3000, "max_tokens": 1}, 3000 * 16),
        ({"max_tokens": 255}, LEAST_BYTES),
        ({"max_tokens": 257}, 257 * 16),
        ({"max_tokens": 300.7}, 300 * 16),
        ({"max_tokens": 2**60}, 1_000_000),
    ],
)
def test_the_bound_is_four_times_the_allowed_tokens(
    options: dict[str, Any], most: int, settings: Settings
) -> None:
    settings.LLM_CONTEXT_TOKENS = 8192
    assert most_bytes(options) == most
    larger = most_bytes(options, window=9000)
    assert larger == (most if "tokens" in str(options) else 9000 * 16)
    assert most_bytes(options, window=8000) == most


def test_an_error_has_the_words_the_code_and_the_wait_of_its_failure() -> None:
    failure = Failure("rate_limited", reason="overloaded", asked_seconds=3.0)
    error = ProviderError.of(failure)
    assert (str(error), error.code) == (failure.words, failure.code)
    assert (error.retry_after, error.reason) == (3.0, "overloaded")

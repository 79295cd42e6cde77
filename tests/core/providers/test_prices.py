"""Prices: own ones, those of the list, and models that cost nothing or have no price."""

import time
from decimal import Decimal
from typing import Any

import pytest
from genai_prices import Usage as ListUsage
from genai_prices import calc_price

from core.providers import prices
from core.providers.base import Usage
from core.providers.prices import cost, is_known
from tests.core.providers.rows import model


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    prices.rates_in.cache_clear()


def test_own_prices_win_over_the_list() -> None:
    own = model(kind="openai", name="gpt-4o-mini", input_price="1", output_price="2.5")
    assert cost(own, Usage(1_000_000, 1_000_000)) == 3_500_000_000
    assert cost(own, Usage(1, 0)) == 1_000


def test_an_own_price_of_zero_is_a_price() -> None:
    free = model(kind="openai", name="gpt-4o-mini", input_price="0", output_price="0")
    assert is_known(free)
    assert cost(free, Usage(1000, 1000)) == 0


def test_cached_tokens_have_their_own_price_and_without_one_that_of_the_prompt() -> None:
    plain = model(input_price="2", output_price="4")
    assert cost(plain, Usage(1000, 0, cached_tokens=600)) == 2_000_000
    cheaper = model(input_price="2", output_price="4", cached_price="0.5")
    assert cost(cheaper, Usage(1000, 0, cached_tokens=600)) == 400 * 2_000 + 600 * 500


def test_the_smallest_price_of_a_row_is_not_lost() -> None:
    cheap = model(input_price="0.000001", output_price="0")
    assert cost(cheap, Usage(1_000_000, 0)) == 1_000
    assert cost(cheap, Usage(1, 0)) == 1  # rounded up: never free


def test_one_own_price_leaves_the_other_to_the_list() -> None:
    mixed = model(kind="openai", name="gpt-4o-mini", input_price="1")
    assert cost(mixed, Usage(0, 1000)) == cost(
        model(kind="openai", name="gpt-4o-mini"), Usage(0, 1000)
    )
    assert cost(mixed, Usage(1000, 0, cached_tokens=1000)) == 1_000_000
    alone = model(name="nobody-knows", input_price="1")
    assert not is_known(alone)


@pytest.mark.parametrize(
    ("kind", "name", "more"),
    [
        ("openai", "gpt-4o-mini", {}),
        ("openai", "gpt-5", {}),
        ("anthropic", "claude-sonnet-4-5-20250929", {}),
        ("google", "models/gemini-2.5-pro", {}),
        ("mistral", "mistral-small-latest", {}),
        ("groq", "llama-3.3-70b-versatile", {}),
        ("openrouter", "anthropic/claude-sonnet-4.5", {}),
        ("openai-compatible", "gpt-5", {"base_url": "https://api.openai.com/v1"}),
        ("environment", "anthropic:claude-sonnet-4-5", {}),
    ],
)
@pytest.mark.parametrize("prompt", [1_000, 300_000])
def test_the_lists_price_is_the_one_that_the_list_computes(
    kind: str, name: str, more: dict[str, Any], prompt: int
) -> None:
    """Also beyond 200,000 tokens, where some models cost twice as much."""
    vendor = "anthropic" if kind == "environment" else kind
    vendor = "openai" if kind == "openai-compatible" else vendor
    usage = ListUsage(input_tokens=prompt, cache_read_tokens=prompt // 2, output_tokens=777)
    plain = name.removeprefix("models/").removeprefix("anthropic:")
    expected = calc_price(usage, plain, provider_id=vendor).total_price
    row = model(kind=kind, name=name, **more)
    assert is_known(row)
    assert cost(row, Usage(prompt, 777, cached_tokens=prompt // 2, reasoning_tokens=700)) == int(
        (expected * 10**9).to_integral_value(rounding="ROUND_CEILING")
    )


def test_reasoning_has_its_own_price_where_the_list_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Listed:
        context_window = 1

        def get_prices(self, now: object) -> Any:
            from genai_prices.types import ModelPrice

            return ModelPrice(
                input_mtok=Decimal(1), output_mtok=Decimal(2), output_reasoning_mtok=Decimal(3)
            )

    monkeypatch.setattr(prices, "find", lambda *given: Listed())
    row = model(kind="openai", name="x")
    assert cost(row, Usage(0, 100, reasoning_tokens=40)) == 60 * 2_000 + 40 * 3_000


@pytest.mark.parametrize(
    "row",
    [
        model(kind="ollama", name="gpt-4o-mini"),
        model(name="x", is_embedded=True),
        model(kind="openrouter", name="deepseek/deepseek-chat-v3.1:free"),
    ],
)
def test_models_on_own_hardware_or_given_away_cost_nothing(row: Any) -> None:
    assert is_known(row)
    assert cost(row, Usage(1000, 1000)) == 0


@pytest.mark.parametrize(
    "row",
    [
        model(kind="openai", name="not-a-model"),
        model(name="gpt-5", base_url="http://127.0.0.1:8000/v1"),
        model(name="gpt-5"),
        model(kind="environment", name="scripted"),
        model(kind="environment", name="nobody:x"),
        model(kind="openai", name=""),
        model(kind="openai", name="models/"),
    ],
)
def test_a_model_that_the_list_does_not_know_has_no_price(row: Any) -> None:
    """Behind an own address anything may answer to the name of a vendor's model."""
    assert not is_known(row)
    assert cost(row, Usage(1000, 1000)) == 0


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [
        ("https://api.together.xyz/v1", True),
        ("http://127.0.0.1:8000/v1", False),
        ("http://[fd00::1]/v1", False),
        ("http://localhost:8000/v1", False),
        ("http://vllm:8000/v1", False),
        ("http://box.local/v1", False),
        ("", False),
    ],
)
def test_the_list_is_not_loaded_for_models_inside_the_network(
    base_url: str, expected: bool
) -> None:
    """It takes 40 MB."""
    assert prices.may_be_listed("openai-compatible", base_url) is expected
    assert prices.may_be_listed("openai", base_url)
    assert not prices.may_be_listed("ollama", base_url)


def test_usage_that_contradicts_itself_is_never_negative() -> None:
    row = model(input_price="1", output_price="1", cached_price="0")
    assert cost(row, Usage(10, 5, cached_tokens=99, reasoning_tokens=99)) == 5_000


def test_a_price_is_looked_up_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    now = [0.0]
    monkeypatch.setattr(prices, "look_up", calls.append)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    row = model(kind="openai", name="gpt-5")
    for now[0] in (0, 1, 59, 61):
        cost(row, Usage(1, 1))
    assert len(calls) == 2
    for number in range(prices.MOST_KEPT + 1):
        cost(model(kind="openai", name=f"m{number}"), Usage(1, 1))
    assert prices.rates_in.cache_info().currsize == prices.MOST_KEPT


def test_the_list_knows_windows_of_models() -> None:
    assert prices.context_tokens("openai", "", "gpt-4o-mini") == 128_000
    assert prices.context_tokens("openai", "", "not-a-model") is None
    assert prices.context_tokens("ollama", "", "llama3") is None

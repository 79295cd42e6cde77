"""The cost of a call: the own prices of a model's row, else the list of ``genai-prices``.

The list is a table inside that package, of the day of its release; nothing is fetched. Importing it
takes 0.4 s and 40 MB, so it waits for the first model that may be in it; the registry of providers
imports it in a thread meanwhile.
"""

import ipaddress
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from core.lib.safe_fetch import is_public
from core.models import ModelProvider
from core.providers.base import Usage
from core.providers.catalogue import ModelInfo

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo as Listed
    from genai_prices.types import ModelPrice

Kind = ModelProvider.Kind
# The list's names of vendors; others are found by their address.
LISTED = {
    Kind.OPENAI: "openai",
    Kind.ANTHROPIC: "anthropic",
    Kind.GOOGLE: "google",
    Kind.OPENROUTER: "openrouter",
    Kind.GROQ: "groq",
    Kind.MISTRAL: "mistral",
    Kind.DEEPSEEK: "deepseek",
}
# A price is kept in millionths of a dollar for a million tokens, a whole number as in the rows; a
# cost in billionths of a dollar: 1 $ for a million tokens is 1,000 billionths a token.
UNIT = 1_000_000
TO_BILLIONTHS = 1_000
# Prices may depend on the date and the time of the day (DeepSeek).
KEPT_SECONDS = 60.0
MOST_KEPT = 1_000
# Names inside a network: RFC 6762, RFC 8375, and those that routers give.
INSIDE = (".local", ".lan", ".internal", ".localhost", ".home.arpa")
FREE_ENDING = ":free"  # OpenRouter's models without a price


@dataclass(frozen=True, slots=True)
class Price:
    """A price in UNIT; ``tiers``: that of all tokens when the prompt has more than so many."""

    base: int = 0
    tiers: tuple[tuple[int, int], ...] = ()

    def of(self, prompt_tokens: int) -> int:
        price = self.base
        for start, higher in self.tiers:
            if prompt_tokens > start:
                price = higher
        return price


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The prices of a model for each kind of token."""

    prompt: Price
    cached: Price
    completion: Price
    reasoning: Price


FREE = Rates(prompt=Price(), cached=Price(), completion=Price(), reasoning=Price())


@lru_cache(MOST_KEPT)
def rates_in(minute: int, model: ModelInfo) -> Rates | None:
    """Return the rates of a model; each minute has its own, since the list's may change."""
    return look_up(model)


def rates_of(model: ModelInfo) -> Rates | None:
    """Return the rates of a model, looked up once a minute; None when they are not known."""
    return rates_in(int(time.monotonic() // KEPT_SECONDS), model)


def cost(model: ModelInfo, usage: Usage) -> int:
    """Return the price of a call in billionths of a dollar, rounded up; 0 when it is not known."""
    rates = rates_of(model)
    if rates is None:
        return 0
    prompt = usage.prompt_tokens
    cached = min(usage.cached_tokens, prompt)
    reasoning = min(usage.reasoning_tokens, usage.completion_tokens)
    total = (
        (prompt - cached) * rates.prompt.of(prompt)
        + cached * rates.cached.of(prompt)
        + (usage.completion_tokens - reasoning) * rates.completion.of(prompt)
        + reasoning * rates.reasoning.of(prompt)
    )
    return -(-total * TO_BILLIONTHS // UNIT)


def is_known(model: ModelInfo) -> bool:
    """Return whether the model has a price, which may be zero: on own hardware it is."""
    return rates_of(model) is not None


def load_list() -> None:
    """Import the list; blocks for a while."""
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - see the description

    get_snapshot()


def may_be_listed(kind: str, base_url: str) -> bool:
    """Return whether the list may know models of a provider: not those inside the network."""
    if kind != Kind.OPENAI_COMPATIBLE:
        return kind in LISTED or kind == Kind.ENVIRONMENT
    host = urlsplit(base_url).hostname or ""
    try:
        return is_public(ipaddress.ip_address(host))
    except ValueError:
        return "." in host and not host.endswith(INSIDE)


def context_tokens(kind: str, base_url: str, name: str) -> int | None:
    """Return a model's window as the list knows it; None when it does not."""
    listed = find(kind, base_url, name)
    return listed.context_window if listed is not None else None


def look_up(model: ModelInfo) -> Rates | None:
    """Return the rates of a model: its own prices, for others those of the list."""
    own_prompt, own_cached, own_completion = (
        None if each is None else Price(int(each * UNIT))
        for each in (model.input_price, model.cached_price, model.output_price)
    )
    is_own = own_prompt is not None and own_completion is not None
    listed = FREE if is_own else rates_of_list(model)  # its discount belongs to its own price
    if listed is None:
        return None
    return Rates(
        prompt=own_prompt or listed.prompt,
        cached=own_cached or own_prompt or listed.cached,
        completion=own_completion or listed.completion,
        reasoning=own_completion or listed.reasoning,
    )


def rates_of_list(model: ModelInfo) -> Rates | None:
    """Return the list's rates of a model. Nothing is paid for models on own hardware."""
    if model.is_embedded or model.provider.kind == Kind.OLLAMA:
        return FREE
    if model.provider.kind == Kind.OPENROUTER and model.name.endswith(FREE_ENDING):
        return FREE
    found = find(model.provider.kind, model.provider.base_url, model.name)
    if found is None:
        return None
    prices = found.get_prices(datetime.now(UTC))
    prompt, completion = listed(prices, "input_mtok"), listed(prices, "output_mtok")
    if prompt is None or completion is None:
        return None
    return Rates(
        prompt=prompt,
        cached=listed(prices, "cache_read_mtok") or prompt,
        completion=completion,
        reasoning=listed(prices, "output_reasoning_mtok") or completion,
    )


def find(kind: str, base_url: str, name: str) -> "Listed | None":
    """Return the list's entry of a model; None when it has none."""
    if not may_be_listed(kind, base_url):
        return None
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - see the description

    vendor: str | None = LISTED.get(Kind(kind)) if kind in LISTED else None
    url: str | None = None
    if kind == Kind.ENVIRONMENT:  # the agent library's "vendor:model"
        vendor, _, name = name.partition(":")
    elif vendor is None:
        url = base_url
    if not (name and (vendor or url)):
        return None
    name = name.removeprefix("models/")
    try:
        _, model = get_snapshot().find_provider_model(name, None, vendor, url)
    except LookupError:
        return None
    return model


def listed(prices: "ModelPrice", name: str) -> Price | None:
    """Return a price of the list; None when it has none of this name."""
    found = getattr(prices, name)
    if found is None:
        return None
    if isinstance(found, Decimal):
        return Price(int(found * UNIT))
    tiers = tuple((tier.start, int(tier.price * UNIT)) for tier in found.tiers)
    return Price(int(found.base * UNIT), tiers)

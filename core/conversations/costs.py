"""The price of a call, until ``core.providers.prices`` is there."""

from decimal import ROUND_CEILING, Decimal

from core.providers.base import Usage
from core.providers.catalogue import ModelInfo

BILLIONTHS_A_TOKEN = 1000  # of a dollar, at a dollar for a million tokens


def cost(model: ModelInfo, usage: Usage) -> int:
    """Return the price in billionths of a dollar, by the prices of the row; 0 when unknown."""
    whole, cached, out = model.input_price, model.cached_price, model.output_price
    part = usage.cached_tokens if cached is not None else 0
    sum_ = (usage.prompt_tokens - part) * (whole or Decimal(0)) + part * (cached or Decimal(0))
    sum_ += usage.completion_tokens * (out or Decimal(0))
    return int((sum_ * BILLIONTHS_A_TOKEN).to_integral_value(ROUND_CEILING))

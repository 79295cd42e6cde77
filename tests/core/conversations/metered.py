"""Calls of models that are metered, without a model."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from core.conversations import usage
from core.database.transactions import atomic_write
from core.database.writes import write_all
from core.models import Budget, BudgetPeriod, ModelCall, Run
from core.providers.base import ModelRequest, Usage
from core.providers.catalogue import BudgetInfo, ModelInfo
from tests.core.providers.chains import MODEL

# 96 bytes, which are 32 tokens at most, and 8 for the message.
REQUEST = ModelRequest([{"role": "user", "content": "a" * 96}])
PROMPT, ANSWER = 40, 1024
CALL = PROMPT + ANSWER
# A dollar for a thousand tokens of a prompt, two for those of an answer.
PRICED = replace(MODEL, input_price=Decimal(1000), output_price=Decimal(2000))
DOLLAR = 1_000_000_000


def info(**more: Any) -> BudgetInfo:
    """Return a budget without a row."""
    values: dict[str, Any] = {
        "id": 1,
        "unit": "tokens",
        "period": "day",
        "limit": 1,
        "each_person": False,
        "user_id": 0,
        "key_id": 0,
        "account_id": 0,
        "assistant_id": 0,
        **more,
    }
    return BudgetInfo(**values)


def budget(limit: int, **more: Any) -> Budget:
    """Create a budget, of tokens a day unless told."""
    values = {"unit": Budget.Unit.TOKENS, "period": Budget.Period.DAY, **more}
    return Budget.objects.create(limit=limit, **values)


def period(of: Budget) -> BudgetPeriod:
    """Return the only period of a budget."""
    return BudgetPeriod.objects.get(budget=of)


def state(of: Budget) -> tuple[int, int]:
    """Return what is spent and reserved in the only period of a budget."""
    row = period(of)
    return row.spent, row.reserved


def call_of(run: Run) -> ModelCall:
    """Return the only call of a run."""
    return ModelCall.objects.get(run=run)


def end(
    meter: usage.RunMeter,
    used: Usage | None,
    *,
    model: ModelInfo = MODEL,
    output_tokens: int = 0,
    failure: str = "",
) -> None:
    """Note the end of a call."""
    meter.settled(model, REQUEST, usage=used, output_tokens=output_tokens, failure=failure)


def commit(meter: usage.RunMeter) -> None:
    """Settle a meter in a transaction, as the end of its run does."""
    with atomic_write():
        inserts = usage.settle(meter)
        if inserts:
            write_all(*inserts)


async def whole(
    meter: usage.RunMeter, used: Usage | None, *, model: ModelInfo = MODEL, **more: Any
) -> int | None:
    """Make one call; return the most tokens of its answer."""
    most = await meter.reserve(model, REQUEST)
    end(meter, used, model=model, **more)
    return most

"""Texts about budgets. In English; listed sentences are translated at the edge."""

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from django.utils.formats import number_format
from django.utils.translation import gettext, gettext_noop

from core.conversations.reservations import Refusal
from core.lib import money
from core.models import Budget, User
from core.providers.base import ProviderError
from core.providers.catalogue import BudgetInfo

if TYPE_CHECKING:
    from core.conversations.usage_reports import Used

USED_UP = {
    "tokens": "The tokens for {when} are used up: {amount}.",
    "money": "The budget for {when} is used up: {amount}.",
    "messages": "The messages for {when} are used up: {amount}.",
}
TOO_LARGE = "The rest of the budget for {when} is not enough for this message."
BUSY = "Other answers are being written within the same budget. Please try again soon."
# A turn has waited itself, and does not ask again within ``core.providers.chain.PATIENCE_SECONDS``.
BUSY_SECONDS = 30.0
WHEN = {"day": "today", "month": "this month"}
FREE = "You can go on from {moment}."
LIMITS = {
    ("tokens", "day"): gettext_noop("{amount} tokens a day"),
    ("tokens", "month"): gettext_noop("{amount} tokens a month"),
    ("money", "day"): gettext_noop("{amount} a day"),
    ("money", "month"): gettext_noop("{amount} a month"),
    ("messages", "day"): gettext_noop("{amount} messages a day"),
    ("messages", "month"): gettext_noop("{amount} messages a month"),
}


def refusal(found: Refusal) -> ProviderError:
    """Return the error of a call that does not fit: the used-up budget, and when it frees."""
    if found.is_soon:
        return ProviderError(BUSY, code="budget", retry_after=BUSY_SECONDS)
    unit, when = found.budget.unit, WHEN[found.budget.period]
    text = USED_UP[unit] if found.is_used_up else TOO_LARGE
    free = FREE.format(moment=at(found.free_at))
    lines = text.format(when=when, amount=amount(unit, found.limit)), free
    return ProviderError("\n".join(lines), code="budget")


def amount(unit: str, number: int) -> str:
    """Return an amount of a budget: ``$5.00``, or ``100,000``; as the active language writes it."""
    return dollars(number) if unit == "money" else grouped(number)


def grouped(number: int | Decimal) -> str:
    """Return a number with the points and commas of the active language."""
    return number_format(number, force_grouping=True)


def dollars(billionths: int) -> str:
    """Return money: two digits after the point, more for less than a cent."""
    return f"${grouped(money.rounded(billionths))}"


def at(moment: datetime) -> str:
    """Return a moment with its time zone."""
    return f"{moment:%Y-%m-%d %H:%M} ({moment.tzinfo})"


def named(budget: Budget | BudgetInfo) -> str:
    """Return a limit: ``100,000 tokens a day``."""
    said = gettext(LIMITS[budget.unit, budget.period])
    return said.format(amount=amount(budget.unit, budget.limit))


def used_line(when: str, used: "Used") -> str:
    """Return a sum of calls in one line."""
    said = gettext("{when}: {tokens} tokens in {calls} calls.")
    if used.cost:
        said = gettext("{when}: {tokens} tokens in {calls} calls, {cost}.")
    counts = {"tokens": grouped(used.tokens), "calls": grouped(used.calls)}
    return said.format(when=when, cost=dollars(used.cost), **counts)


def left_line(budget: BudgetInfo, spent: int, free_at: datetime) -> str:
    """Return what is left of a budget in one line."""
    left = amount(budget.unit, max(0, budget.limit - spent))
    said = gettext("Budget of {limit}: {left} left until {date}.")
    return said.format(limit=named(budget), left=left, date=at(free_at))


def notice(budget: Budget, whose: User | None, *, percent: int, spent: int, end: datetime) -> str:
    """Return the notice of a used budget; ``whose``: the person, where another one reads it."""
    used = gettext("{spent} of {limit}").format(
        spent=amount(budget.unit, spent), limit=named(budget)
    )
    values = {"percent": percent, "used": used, "name": whose, "date": at(end)}
    if percent < 100:
        said = gettext("{percent} % of the budget are used: {used}.")
        if whose is not None:
            said = gettext("{percent} % of the budget of {name} are used: {used}.")
        return said.format(**values)
    said = gettext("The budget is used up: {used}. It begins again at {date}.")
    if whose is not None:
        said = gettext("The budget of {name} is used up: {used}. It begins again at {date}.")
    return said.format(**values)

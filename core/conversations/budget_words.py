"""What people read about budgets. In English; listed sentences are translated at the edge."""

from core.conversations.reservations import Refused
from core.providers.base import ProviderError

USED_UP = {
    "tokens": "The tokens for {when} are used up: {amount}.",
    "money": "The budget for {when} is used up: {amount}.",
    "messages": "The messages for {when} are used up: {amount}.",
}
TOO_LARGE = "What is left of the budget for {when} is not enough for this message."
BUSY = "Other answers are being written within the same budget. Please try again soon."
WHEN = {"day": "today", "month": "this month"}
FREE = "You can go on from {moment}."


def refusal(found: Refused) -> ProviderError:
    """Return the error of a call that does not fit: what is used up, and when it frees."""
    if found.is_soon:
        return ProviderError(BUSY, code="budget")
    unit, when = found.budget.unit, WHEN[found.budget.period]
    text = USED_UP[unit] if found.is_used_up else TOO_LARGE
    moment = f"{found.free_at:%Y-%m-%d %H:%M} ({found.free_at.tzinfo})"
    lines = text.format(when=when, amount=amount(unit, found.limit)), FREE.format(moment=moment)
    return ProviderError("\n".join(lines), code="budget")


def amount(unit: str, number: int) -> str:
    """Return an amount of a budget: ``$5.00``, or ``100,000``."""
    return dollars(number) if unit == "money" else f"{number:,}"


def dollars(billionths: int) -> str:
    """Return money: two digits after the point, more for less than a cent."""
    value = billionths / 1_000_000_000
    return f"${value:,.2f}" if value >= 0.01 or not value else f"${value:.6f}".rstrip("0")

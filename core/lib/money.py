"""Money for people: rows hold billionths of a dollar."""

from decimal import ROUND_HALF_EVEN, Decimal

BILLION = 1_000_000_000
CENT = Decimal("0.01")


def dollars(amount: int) -> Decimal:
    """Return an amount in dollars, exactly."""
    return Decimal(amount) / BILLION


def billionths(amount: Decimal) -> int:
    """Return dollars in billionths. Raises ValueError for a finer amount."""
    exact = amount * BILLION
    if exact != exact.to_integral_value():
        raise ValueError("finer than a billionth of a dollar")
    return int(exact)


def rounded(amount: int) -> Decimal:
    """Return an amount in dollars for people: 12.30, or 0.0042 where cents would hide it."""
    exact = dollars(amount)
    if exact and abs(exact) < CENT:
        return exact.quantize(Decimal("0.000001")).normalize()
    return exact.quantize(CENT, ROUND_HALF_EVEN)


def shown(amount: int) -> str:
    """Return an amount for people, in English: $12.30."""
    return f"${rounded(amount):,f}"


def plain(amount: int) -> str:
    """Return dollars for a file: exact, without a sign of the currency."""
    return f"{dollars(amount).normalize():f}"

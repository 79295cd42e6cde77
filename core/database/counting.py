"""Many counts by one statement."""

from collections.abc import Sequence
from typing import Any

from django.db.models import Func, IntegerField, QuerySet, Value

# SQLite takes 500 parts of a statement.
AT_ONCE = 100


def numbers(selections: Sequence[QuerySet[Any]]) -> list[int]:
    """Return how many rows each has, by one statement for AT_ONCE of them.

    For querysets without ``distinct`` and without a limit.
    """
    return [
        number
        for start in range(0, len(selections), AT_ONCE)
        for number in counted(selections[start : start + AT_ONCE])
    ]


def counted(selections: Sequence[QuerySet[Any]]) -> list[int]:
    rows = [
        each.order_by().values_list(
            Value(place, output_field=IntegerField()),
            Func(Value(1), function="COUNT", output_field=IntegerField()),
        )
        for place, each in enumerate(selections)
    ]
    found = dict(rows[0].union(*rows[1:], all=True))
    return [found[place] for place in range(len(selections))]

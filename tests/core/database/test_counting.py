"""Many counts by few statements."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.database import counting
from core.models import ChannelAccount

pytestmark = pytest.mark.django_db


def test_hundreds_are_counted_in_their_order() -> None:
    """In as few statements as SQLite allows."""
    ChannelAccount.objects.bulk_create(
        ChannelAccount(channel="memory", name=str(number)) for number in range(30)
    )
    first = ChannelAccount.objects.filter(channel="memory").order_by("pk")[0].pk
    rows = [
        ChannelAccount.objects.filter(channel="memory", pk__gte=first + number % 40).order_by(
            "name"
        )
        for number in range(250)
    ]
    with CaptureQueriesContext(connection) as asked:
        found = counting.numbers(rows)
    assert found == [max(0, 30 - number % 40) for number in range(250)]
    assert len(asked) == 3


def test_nothing_is_asked_for_nothing() -> None:
    with CaptureQueriesContext(connection) as asked:
        assert counting.numbers([]) == []
    assert len(asked) == 0

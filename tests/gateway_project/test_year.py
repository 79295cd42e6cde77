"""After a simulated year, in small: the queries of a page do not grow, and retention bounds rows.

``python -m tests.benchmarks.year`` prints the same of a larger one, with times.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.core.cache import cache
from django.db.models import Model
from django.test import Client
from django.utils import timezone

from channels_app.models import SourceFeedback
from core.models import (
    Delivery,
    InboundMessage,
    Job,
    Message,
    ModelCall,
    Run,
    RunEvent,
    RunFailure,
    StoredFile,
    ToolCall,
    UsageDay,
)
from tests.benchmarks.year import MOST_QUERIES, after, installation
from tests.benchmarks.year.pages import Queries
from tests.benchmarks.year.rows import Scale

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
SMALL, MORE = Scale(1 / 1000), Scale(1 / 200)  # 1,000 messages, and 5,000 more
DELETING = {
    "/admin/core/user/#/delete/",
    "/admin/core/user/#/forget/",
    "/admin/core/channelaccount/#/delete/",
}
# The findings of the doctor on the dashboard are kept for a minute.
BY_MINUTE = {"/admin/"}
# Rules of retention are about these: nothing of the first year is left after the second.
REMOVED: tuple[type[Model], ...] = (
    Message,
    InboundMessage,
    Run,
    RunEvent,
    RunFailure,
    ToolCall,
    Job,
    Delivery,
    StoredFile,
    SourceFeedback,
    ModelCall,
)
# Their rows stay: the chain of the audit, schedules that are active, and unknown senders that were
# decided about, up to their limits. The second year has as many again.
KEPT = {"allowlist_auditentry", "allowlist_unknownrequest", "core_schedule"}


@pytest.fixture(autouse=True)
def fresh_cache(settings: Any) -> Iterator[None]:
    """Empty the cache, and count no requests."""
    settings.RATE_PER_MINUTE_USER = settings.RATE_PER_MINUTE_ADDRESS = 0
    cache.clear()
    yield
    cache.clear()


def kind_of(address: str) -> str:
    """Return an address without the numbers and ids in it, which differ between two looks."""
    without_ids = re.sub(r"(?<=[/=])[\w-]{22}(?=[/?&]|$)", "#", address)
    return re.sub(r"\d+", "#", without_ids)


def bound_of(address: str, few: dict[str, int]) -> int:
    """Return how many queries a page may have."""
    return min(MOST_QUERIES, few.get(kind_of(address), 0))


def by_kind(found: list[Queries]) -> dict[str, Queries]:
    """Return the dearest page of each kind."""
    return {kind_of(each.address): each for each in sorted(found, key=lambda each: each.later)}


def test_x30_no_page_has_more_than_twenty_queries_and_their_number_does_not_grow() -> None:
    """[X30]. Six times as many messages, people, assistants, budgets and servers."""
    installed, now = installation.install(), timezone.now()
    after.add(installed, SMALL, now=now)
    place = after.place_of_owner()
    few: dict[str, int] = {}
    for address, number in after.queries_once(Client(), place).items():
        few[kind_of(address)] = max(number, few.get(kind_of(address), 0))
    after.add(installed, MORE, now=now)
    # The same conversation: a search for a run of another one may find more.
    # The cache only spares queries: a page is asked for again where it had more.
    many = by_kind(after.queries(Client(), place, enough=lambda each: bound_of(each, few)))
    assert len(few) > 200
    assert {*few} >= DELETING
    over = {kind: each.later for kind, each in many.items() if each.later > MOST_QUERIES}
    assert over == {}
    at_first = {kind: each.first for kind, each in many.items() if each.first > MOST_QUERIES}
    assert {*at_first} <= BY_MINUTE, at_first
    grown = {
        kind: (few[kind], each.later)
        for kind, each in many.items()
        if kind in few and each.later > few[kind]
    }
    assert grown == {}


def test_x31_rules_leave_nothing_of_the_first_year_after_a_second() -> None:
    """[X31]. Tables that grow on are named. At a fixed time: some kinds have ten rows, and where
    these lie in a year depends on its end.
    """
    now = datetime(2026, 6, 15, 12, tzinfo=UTC)
    after.fill(SMALL, now=now)
    after.keep_half()
    whole = after.numbers()
    after.remove_old(now=now)
    first = after.numbers()
    names = {each: each._meta.db_table for each in REMOVED}
    assert all(0 < first[name] < whole[name] * 0.8 for name in names.values()), first
    last = {each: each._default_manager.latest("pk").pk for each in REMOVED}
    after.remove_old(now=after.again(SMALL, now=now))
    left = {
        names[each]: each._default_manager.filter(pk__lte=number).count()
        for each, number in last.items()
    }
    assert not any(left.values()), left
    second = after.numbers()
    assert all(second[name] for name in names.values()), second
    # Chance makes a year a little fuller than another; rows that are never removed double.
    more = {
        name: (first.get(name, 0), number)
        for name, number in second.items()
        if number > first.get(name, 0) * 1.5 + 10
    }
    assert {*more} <= KEPT, more
    assert "allowlist_auditentry" in more
    assert 0 < UsageDay.objects.filter(day=date(1970, 1, 1)).count() < 5

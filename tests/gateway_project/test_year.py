"""After a simulated year, in small: what a page asks does not grow, and retention bounds rows.

``python -m tests.benchmarks.year`` prints the same of a larger one, with times.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from core.models import UsageDay
from tests.benchmarks.year import MOST_QUERIES, after, installation
from tests.benchmarks.year.pages import Queries
from tests.benchmarks.year.rows import Scale

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.timeout(900)]
SMALL, MORE = Scale(1 / 1000), Scale(1 / 200)  # 1,000 messages, and 5,000 more
# Before such a deletion a page names all tables that it empties, one by one.
BY_TABLE = {
    "/admin/core/user/#/delete/",
    "/admin/core/user/#/forget/",
    "/admin/core/channelaccount/#/delete/",
}
# The dry run of retention asks for each rule; a person's usage for each budget that limits it.
BY_RULE = {"/admin/core/retentionrule/due/", "/chat/usage"}
# What a minute's memory of the process saves the dashboard: the checks of the doctor.
BY_MINUTE = {"/admin/"}
# Their rows stay: sums, the chain of the audit, conversations with their settings, and what people
# and owners make by hand. The second year has as many again.
KEPT = {
    "allowlist_auditentry",
    "allowlist_unknownrequest",
    "core_chatsession",
    "core_modelcall",
    "core_occurrence",
    "core_schedule",
    "core_usageday",
}


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


def by_kind(found: list[Queries]) -> dict[str, Queries]:
    """Return the dearest page of each kind."""
    return {kind_of(each.address): each for each in sorted(found, key=lambda each: each.later)}


def test_x30_no_page_has_more_than_twenty_queries_and_their_number_does_not_grow() -> None:
    """[X30]. Six times as many messages, people, assistants, budgets and servers."""
    installed, now = installation.install(), timezone.now()
    after.add(installed, SMALL, now=now)
    few = by_kind(after.queries(Client()))
    after.add(installed, MORE, now=now)
    many = by_kind(after.queries(Client()))
    assert len(few) > 200
    known = BY_TABLE | {"/admin/core/retentionrule/due/"}
    assert known <= {*few}
    over = {kind: each.later for kind, each in many.items() if each.later > MOST_QUERIES}
    assert {*over} <= known, over
    at_first = {kind: each.first for kind, each in many.items() if each.first > MOST_QUERIES}
    assert {*at_first} <= known | BY_MINUTE, at_first
    grown = {
        kind: (few[kind].later, each.later)
        for kind, each in many.items()
        if kind in few and each.later > few[kind].later
    }
    assert {*grown} <= BY_RULE | {"/admin/core/channelaccount/#/delete/"}, grown


def test_x31_a_second_year_has_no_more_rows_than_the_first_where_rules_remove_them() -> None:
    """[X31]."""
    now = timezone.now()
    after.fill(SMALL, now=now)
    after.keep_half()
    whole = after.numbers()
    after.remove_old(now=now)
    first = after.numbers()
    after.remove_old(now=after.again(SMALL, now=now))
    second = after.numbers()
    removed = {name for name, number in first.items() if number < whole[name] * 0.8}
    assert {"core_run", "core_message", "core_runevent", "core_inboundmessage"} <= removed
    assert {"core_storedfile", "core_delivery", "core_runfailure", "core_toolcall"} <= removed
    more = {
        name: (first.get(name, 0), number)
        for name, number in second.items()
        if number > first.get(name, 0) * 1.15 + 10
    }
    assert {*more} <= KEPT, more
    assert UsageDay.objects.exists()

"""Due rows are counted by a dry run, and removed in batches until a rule changes."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from core.conversations.retention import passes
from core.conversations.retention.passes import Counts, Selection, Selections
from core.database import counting
from core.models import ChannelAccount, Delivery, RetentionRule, User

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 1, tzinfo=UTC)
Kind = RetentionRule.Kind
Select = Callable[[RetentionRule, datetime], Selections]


@pytest.fixture
def rows(account: ChannelAccount) -> list[Delivery]:
    """Return five deliveries to chat "old", and two to "new"."""
    return [
        Delivery.objects.create(
            account=account,
            dedupe_key=str(number),
            conversation="old" if number < 5 else "new",
            target={},
        )
        for number in range(7)
    ]


@pytest.fixture
def rule(db: None) -> RetentionRule:
    return RetentionRule.objects.create(kind=Kind.DELIVERIES, days=30)


def of(conversation: str, *, table: str = "x", most: int = 2) -> Selection:
    """Return the selection of all deliveries of a conversation."""
    found = Delivery.objects.filter(conversation=conversation).order_by("pk")
    return Selection(
        {table: found},
        partial(passes.first_ids, found, most=most),
        lambda ids: {table: passes.delete(found, ids)},
    )


def all_of(*selections: Selection | None) -> Select:
    """Return what every rule selects: these, when it is asked at NOW."""

    def select(rule: RetentionRule, now: datetime) -> Iterator[Selection | None]:
        assert (type(rule), now) == (RetentionRule, NOW)
        yield from selections

    return select


def left() -> list[str]:
    """Return the keys of the deliveries that are left."""
    return sorted(Delivery.objects.values_list("dedupe_key", flat=True))


def removing(select: Select) -> Iterator[Counts]:
    """Begin a pass at NOW."""
    return passes.remove_due(select, now=NOW)


def test_the_rows_of_a_batch_that_are_still_due_go(rows: list[Delivery]) -> None:
    old = Delivery.objects.filter(conversation="old").order_by("-pk")
    ids = passes.first_ids(old, most=3)
    assert ids == [row.pk for row in rows[4:1:-1]]
    Delivery.objects.filter(pk=ids[0]).update(conversation="new")
    assert passes.delete(old, ids) == 2
    assert left() == ["0", "1", "4", "5", "6"]
    assert passes.delete(old, []) == 0


def test_rules_that_remove_something_are_in_the_order_of_their_kinds() -> None:
    """The messages last: the other kinds look at their runs."""
    kinds = [Kind.MESSAGES, *(kind for kind in Kind if kind != Kind.MESSAGES)]
    made = {kind: RetentionRule.objects.create(kind=kind, days=30) for kind in kinds}
    person = User.objects.create(username="ann")
    RetentionRule.objects.create(kind=Kind.EVENTS, user=person)
    newest = RetentionRule.objects.create(kind=Kind.MESSAGES, newest=5, user=person)
    found = passes.in_order()
    assert [rule.kind for rule in found[:3]] == [Kind.EVENTS, Kind.FILES, Kind.DELIVERIES]
    assert found[-2:] == [made[Kind.MESSAGES], newest]
    assert {rule.pk for rule in found} == {newest.pk, *(rule.pk for rule in made.values())}
    assert set(passes.ORDER) == set(Kind)


def test_a_dry_run_counts_each_table_once_for_each_rule(
    rows: list[Delivery], rule: RetentionRule
) -> None:
    events = RetentionRule.objects.create(kind=Kind.EVENTS, days=30)
    RetentionRule.objects.create(kind=Kind.AUDIT)
    select = all_of(None, of("old"), None, of("new"), of("new", table="y"), of("none", table="z"))
    expected = {"x": 7, "y": 2, "z": 0}
    assert passes.counted(select, now=NOW) == [(events, expected), (rule, expected)]
    assert len(left()) == 7


def test_many_selections_are_never_read_all_at_once(
    rows: list[Delivery], rule: RetentionRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule of the newest messages has some for each conversation."""
    most, parts, numbers = counting.AT_ONCE, list[int](), counting.numbers

    def counted(selections: Any) -> list[int]:
        parts.append(len(selections))
        return numbers(selections)

    monkeypatch.setattr(counting, "numbers", counted)
    select = all_of(*[of("new")] * (most + 1))
    assert passes.count(select, rule, now=NOW) == {"x": 2 * (most + 1)}
    assert parts == [most, 1]


def test_rows_go_in_batches_and_the_pass_tells_of_each(
    rows: list[Delivery], rule: RetentionRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pass removes at a time, of all workers. A page on which no row is due counts, too."""
    locks: list[int] = []
    monkeypatch.setattr(passes, "lock_until_commit", locks.append)
    found = removing(all_of(None, of("old"), of("none"), None, of("new")))
    assert next(found) == {}
    assert left() == ["0", "1", "2", "3", "4", "5", "6"]
    assert next(found) == {"x": 2}
    assert left() == ["2", "3", "4", "5", "6"]
    assert list(found) == [{"x": 2}, {"x": 1}, {}, {"x": 2}]
    assert left() == []
    assert locks == [passes.LOCK] * 4
    assert isinstance(passes.LOCK, int)


def test_every_rule_is_carried_out(rows: list[Delivery], rule: RetentionRule) -> None:
    RetentionRule.objects.create(kind=Kind.EVENTS, days=30)
    asked: list[str] = []

    def select(rule: RetentionRule, now: datetime) -> Selections:
        asked.append(rule.kind)
        yield of("old" if rule.kind == Kind.EVENTS else "new")

    assert len(list(removing(select))) == 4
    assert asked == [Kind.EVENTS, Kind.DELIVERIES]


@pytest.mark.parametrize("other", [False, True])
def test_a_rule_that_changes_ends_the_pass(
    rows: list[Delivery], rule: RetentionRule, other: bool
) -> None:
    """Also another rule: it may keep what this one removes."""
    found = removing(all_of(of("old"), of("new")))
    assert next(found) == {"x": 2}
    if other:
        RetentionRule.objects.create(kind=Kind.DELIVERIES, account=rows[0].account)
    else:
        RetentionRule.objects.filter(pk=rule.pk).update(days=31)
    assert list(found) == []
    assert left() == ["2", "3", "4", "5", "6"]


def test_rows_that_others_have_changed_do_not_hold_the_pass_up(
    rows: list[Delivery], rule: RetentionRule
) -> None:
    changed = of("old")
    changed = Selection(changed.going, changed.batch, lambda ids: {"x": 0, "y": 0})
    found = removing(all_of(changed, of("new")))
    assert list(found) == [{"x": 0, "y": 0}, {"x": 2}]
    assert left() == ["0", "1", "2", "3", "4"]

"""Each row has one rule that counts: the most specific one of its kind that names it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest

from core.conversations.retention import rules
from core.conversations.retention.rules import Columns
from core.models import Assistant, ChannelAccount, ChatSession, Delivery, RetentionRule, Run, User

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 1, tzinfo=UTC)
WHOLE = Columns("user", "session__account", "assistant_id")
NAMES = ("user", "account", "assistant")
SETS = [found for number in range(5) for found in combinations((*NAMES, ""), number)]


@pytest.fixture
def named(db: None) -> dict[str, int]:
    """Return the ids that rules can name, by target: each has runs, with and without the others."""
    ann, bob = (User.objects.create(username=name) for name in ("ann", "bob"))
    main, second = (
        ChannelAccount.objects.create(channel="memory", name=name) for name in ("main", "second")
    )
    pirate = Assistant.objects.create(name="Pirate", slug="pirate").pk
    for user in (ann, bob):
        for account in (main, second):
            talk = ChatSession.objects.create(user=user, account=account, chat="42")
            for assistant in (pirate, pirate + 1):
                Run.objects.create(session=talk, user=user, assistant_id=assistant)
    return {"user": bob.pk, "account": second.pk, "assistant": pirate}


Rule = Callable[..., RetentionRule]


@pytest.fixture
def rule(named: dict[str, int]) -> Rule:
    """Return ``rule("user")``: it stores a rule for the user; "" is for everyone."""

    def make(target: str = "", kind: str = "messages") -> RetentionRule:
        names = {f"{target}_id": named[target]} if target else {}
        return RetentionRule.objects.create(kind=kind, days=30, **names)

    return make


def targets_of(run: Run, named: dict[str, int]) -> set[str]:
    """Return the targets to which a run belongs."""
    has = dict(zip(NAMES, (run.user_id, run.session.account_id, run.assistant_id), strict=True))
    return {"", *(name for name in NAMES if has[name] == named[name])}


@pytest.mark.parametrize("targets", SETS, ids="+".join)
def test_the_most_specific_rule_counts_whatever_others_there_are(
    targets: tuple[str, ...], named: dict[str, int], rule: Rule
) -> None:
    among = [rule(target) for target in reversed(targets)]
    expected: dict[str, set[int]] = {target: set() for target in targets}
    for run in Run.objects.all():
        its = [each for each in (*NAMES, "") if each in targets and each in targets_of(run, named)]
        if its:
            expected[its[0]].add(run.id)
    found = {
        rules.target(each): set(
            Run.objects.filter(rules.scope(each, WHOLE)).values_list("pk", flat=True)
        )
        for each in among
    }
    assert found == expected
    assert sum(map(len, found.values())) == len(set().union(*found.values()))


def test_several_rules_of_a_target_count_for_their_own(named: dict[str, int], rule: Rule) -> None:
    everyone = rule()
    among = [everyone, rule("user")]
    among.append(
        RetentionRule.objects.create(kind="messages", user=User.objects.get(username="ann"))
    )
    counts = [Run.objects.filter(rules.scope(each, WHOLE)).count() for each in among]
    assert counts == [0, 4, 4]


def test_a_rule_of_a_target_that_a_table_does_not_name_is_of_no_row_in_it(
    named: dict[str, int], rule: Rule
) -> None:
    """And takes none from the others."""
    among = [rule("assistant"), rule("account"), rule()]
    columns = Columns("user", "session__account", "")
    counts = [Run.objects.filter(rules.scope(each, columns)).count() for each in among]
    assert counts == [0, 4, 4]


def test_a_row_of_no_person_and_no_run_is_of_the_rule_for_everyone(rule: Rule) -> None:
    account = ChannelAccount.objects.get(name="main")
    Delivery.objects.create(account=account, dedupe_key="k", conversation="c", target={})
    among = [rule("user"), rule("account"), rule("assistant"), rule()]
    columns = Columns("session__user", "account", "run__assistant_id")
    counts = [Delivery.objects.filter(rules.scope(each, columns)).count() for each in among]
    assert counts == [0, 0, 0, 1]


def test_rules_are_read_by_kind_in_the_order_of_their_ids(rule: Rule) -> None:
    first, other, last = rule("user"), rule("user", "files"), rule("", "messages")
    assert rules.read() == [first, other, last]
    assert rules.read("messages") == [first, last]
    assert rules.read("events") == []


def test_a_change_of_any_rule_is_noticed(named: dict[str, int], rule: Rule) -> None:
    states = [rules.state()]
    made = rule("user")
    states.append(rules.state())
    changes: list[dict[str, Any]] = [
        {"days": 31},
        {"days": None, "newest": 5},
        {"newest": 7},
        {"newest": None},
        {"kind": "files"},
        {"user": None},
        {"account": named["account"]},
    ]
    for change in changes:
        RetentionRule.objects.filter(pk=made.pk).update(**change)
        states.append(rules.state())
    assert len({str(state) for state in states}) == len(states)
    assert rules.state() == states[-1]
    RetentionRule.objects.update(counted_at=NOW)
    assert rules.state() == states[-1]


@pytest.mark.parametrize(
    ("days", "before"),
    [
        (None, NOW - timedelta(days=36_500)),
        (30, NOW - timedelta(days=30)),
        (2, NOW - timedelta(days=2)),
        (1, NOW - timedelta(days=2)),
        (0, NOW - timedelta(days=2)),
        (10**6, NOW - timedelta(days=36_500)),
        (10**12, NOW - timedelta(days=36_500)),
    ],
)
def test_rows_are_due_before_so_many_days_but_not_within_two(
    days: int | None, before: datetime
) -> None:
    assert rules.cutoff(RetentionRule(kind="messages", days=days), NOW) == before

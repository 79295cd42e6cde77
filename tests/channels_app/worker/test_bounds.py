"""Rules for calls of models, sums of usage and empty conversations; rows that expire; and a bound
for each table ([X32] to [X34]).
"""

import re
from datetime import date, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings as shipped
from django.contrib.sessions.models import Session
from django.utils import timezone

from channels_app.worker import expired_rows, retention
from core.conversations import usage_reports
from core.conversations.retention import conversations
from core.database import moves
from core.models import (
    Backup,
    Budget,
    BudgetPeriod,
    ChannelAccount,
    ChatSession,
    InboundMessage,
    Message,
    ModelCall,
    RetentionRule,
    Run,
    Schedule,
    UsageDay,
    User,
)
from gateway_project.home import BASE_DIR

pytestmark = pytest.mark.django_db


@pytest.fixture
def account(db: None) -> ChannelAccount:
    return ChannelAccount.objects.create(channel="memory", name="main")


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create(username="ann")


def ago(days: float) -> datetime:
    return timezone.now() - timedelta(days=days)


def removed() -> dict[str, int]:
    """Remove what is due by the rules; return how many rows of each table."""
    found: dict[str, int] = {}
    for counts in retention.remove(now=timezone.now()):
        for name, number in counts.items():
            found[name] = found.get(name, 0) + number
    return {name: number for name, number in found.items() if number}


def dry() -> dict[str, int]:
    """Return what the dry run says."""
    found: dict[str, int] = {}
    for _, counts in retention.due(now=timezone.now()):
        for name, number in counts.items():
            found[name] = found.get(name, 0) + number
    return {name: number for name, number in found.items() if number}


def call(user: User | None, days: float, **more: Any) -> ModelCall:
    at = ago(days)
    given = {"model_name": "Cloud: large", "prompt_tokens": 10, "cost": 5, **more}
    return ModelCall.objects.create(user=user, day=at.date(), **given)


def roll_up() -> None:
    while usage_reports.roll_up(now=timezone.now()):
        pass


def reports() -> list[Any]:
    """Return the sums of all time, by person and by outcome."""
    usage_reports.all_totals.clear()
    usage_reports.past_totals.clear()
    return [
        usage_reports.by("model", since=date(1970, 1, 1), until=ago(0).date()),
        usage_reports.totals(),
    ]


def test_x32_calls_go_once_they_are_summed_up_and_reports_stay(ann: User) -> None:
    """[X32] Also those without a person; not one that is open, nor of a run that is."""
    for days in (90, 50, 40, 3, 0):
        call(ann, days)
        call(None, days, failure="timeout")
    assert usage_reports.last_day() is None
    RetentionRule.objects.create(kind="calls", days=30)
    assert removed() == {}  # not summed up yet
    roll_up()
    call(ann, 60, state="open")
    before = reports()
    assert dry() == {"calls of models": 6}
    assert removed() == {"calls of models": 6}
    assert removed() == {}
    assert ModelCall.objects.count() == 5
    assert reports() == before
    roll_up()
    assert reports() == before


def test_x32_the_call_of_an_open_run_stays(ann: User, account: ChannelAccount) -> None:
    """[X32] Its message is counted in budgets by it."""
    talk = ChatSession.objects.create(user=ann, account=account, chat="1")
    run = Run.objects.create(session=talk, user=ann, origin="memory", state="held")
    call(ann, 90, run=run)
    call(ann, 3)
    roll_up()
    RetentionRule.objects.create(kind="calls", days=30)
    assert removed() == {}
    Run.objects.update(state="cancelled", finished_at=ago(3))
    assert removed() == {"calls of models": 1}


def test_x32_a_rule_of_a_person_counts_before_that_of_everyone(ann: User) -> None:
    """[X2] [X32]"""
    bob = User.objects.create(username="bob")
    for user in (ann, bob):
        call(user, 90)
        call(user, 3)
    roll_up()
    for kind in ("calls", "usage"):
        RetentionRule.objects.create(kind=kind, days=30)
        RetentionRule.objects.create(kind=kind, user=bob)
    assert removed() == {"calls of models": 1, "sums of usage": 1}
    assert ModelCall.objects.filter(day__lt=ago(30).date()).get().user == bob
    [left] = UsageDay.objects.filter(user_id__gt=0, day__lt=ago(30).date())
    assert left.user_id == bob.pk


def test_x32_a_rule_of_very_many_days_removes_nothing_in_any_time_zone(
    ann: User, settings: Any
) -> None:
    """[X32] West of Greenwich its day came before the first one of the calendar."""
    settings.TIME_ZONE = "America/Lima"
    call(ann, 90)
    call(ann, 3)
    roll_up()
    for kind in ("calls", "usage"):
        RetentionRule.objects.create(kind=kind, days=10**6)
    assert removed() == {}


def test_x32_old_sums_become_one_row_a_model_and_the_totals_stay(ann: User) -> None:
    """[X12] [X32] Nothing of a person is in it; the last summed day stays, however old."""
    for days in (400, 300, 200, 100):
        for failure in ("", "timeout"):
            call(ann, days, failure=failure, estimated=True)
    roll_up()
    before = reports()[1]
    RetentionRule.objects.create(kind="usage", days=30)
    assert dry() == {"sums of usage": 6}
    assert removed() == {"sums of usage": 6}
    assert removed() == {}
    assert reports()[1] == before
    rows = UsageDay.objects.filter(day=date(1970, 1, 1))
    assert {(row.failure, row.calls, row.cost, row.user_id) for row in rows} == {
        ("", 3, 15, 0),
        ("timeout", 3, 15, 0),
    }
    assert usage_reports.last_day() == ago(100).date()
    call(ann, 50)
    roll_up()
    whole = reports()[1]
    assert removed() == {"sums of usage": 2}
    assert UsageDay.objects.filter(day=date(1970, 1, 1)).count() == 2
    assert reports()[1] == whole


def test_x33_only_old_conversations_without_anything_go(ann: User, account: ChannelAccount) -> None:
    """[X33] Not those with one row in any table, a batch that waits, or of a person who keeps."""
    bob = User.objects.create(username="bob")

    def talk(chat: str, days: float, **more: Any) -> ChatSession:
        at = ago(days)
        given = {"user": ann, "account": account, "last_message_at": at, **more}
        row = ChatSession.objects.create(chat=chat, **given)
        ChatSession.objects.filter(pk=row.pk).update(created_at=at)
        return row

    gone = [talk("gone", 40), talk("never", 40, last_message_at=None)]
    kept = [
        talk("young", 20),
        talk("waits", 40, flush_at=timezone.now()),
        talk("bob", 40, user=bob),
        *(talk(name, 40) for name in ("said", "received", "run", "planned")),
    ]
    said, received, run, planned = kept[-4:]
    Message.objects.create(session=said, role="user", text="x")
    InboundMessage.objects.create(session=received, account=account, received_at=ago(40))
    Run.objects.create(session=run, user=ann, origin="memory")
    Schedule.objects.create(session=planned, user=ann, kind="text", text="x", time_zone="UTC")
    RetentionRule.objects.create(kind="sessions", days=30)
    RetentionRule.objects.create(kind="sessions", user=bob)
    assert dry() == {"empty conversations": 2}
    assert removed() == {"empty conversations": 2}
    assert {*ChatSession.objects.all()} == {*kept}
    assert not ChatSession.objects.filter(pk__in=[each.pk for each in gone]).exists()


def test_x33_a_message_that_comes_meanwhile_keeps_its_conversation(
    ann: User, account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X33] Found empty, then written to before it is removed; over several pages."""
    monkeypatch.setattr(conversations, "PAGE", 2)
    rows = [
        ChatSession.objects.create(
            user=ann, account=account, chat=str(number), last_message_at=ago(40)
        )
        for number in range(7)
    ]
    remove = conversations.remove

    def removes(found: Any, ids: list[int]) -> Any:
        InboundMessage.objects.get_or_create(
            session=rows[3],
            account=account,
            external_update_id="1",
            defaults={"received_at": ago(0)},
        )
        return remove(found, ids)

    monkeypatch.setattr(conversations, "remove", removes)
    RetentionRule.objects.create(kind="sessions", days=30)
    assert removed() == {"empty conversations": 6}
    assert ChatSession.objects.get() == rows[3]
    assert InboundMessage.objects.get().session == rows[3]


def test_x34_rows_that_have_expired_go_without_a_rule(db: None) -> None:
    """[X34] Signed-out sessions, budgets of past months, backups long ago."""
    budget = Budget.objects.create(limit=100)
    for number in range(2):
        at = ago(401 if number else 399)
        Session.objects.create(session_key=f"s{number}", expire_date=ago(number - 0.5))
        BudgetPeriod.objects.create(budget=budget, start=at.date(), spent=1)
        Backup.objects.create(cause="admin", asked_at=at, state="removed")
    Backup.objects.create(cause="admin", asked_at=ago(900), state="good")
    assert expired_rows.purge(now=timezone.now()) == 3
    assert expired_rows.purge(now=timezone.now()) == 0
    assert Session.objects.get().session_key == "s0"
    assert [each.objects.count() for each in (BudgetPeriod, Backup)] == [1, 2]


def bounds() -> dict[str, str]:
    """Return what docs/retention.md says of each table."""
    text = (BASE_DIR / "docs" / "retention.md").read_text()
    part = text.partition("## What bounds each table")[2]
    found: dict[str, str] = {}
    for names, bound in re.findall(r"^\| ([A-Z][\w, ]+) \| (.+) \|$", part, re.MULTILINE):
        for name in names.split(", "):
            assert name not in found, name
            found[name] = bound
    return found


def test_x34_each_table_has_a_bound(db: None) -> None:
    """[X34] A new table needs one in docs/retention.md: a rule, a setting, or what limits it."""
    found = bounds()
    assert {*found} == {model.__name__ for model in moves.stored()}
    kinds = {each.label.partition(",")[0] for each in RetentionRule.Kind}
    named = {rule for bound in found.values() for rule in re.findall(r"rule \*([^*]+)\*", bound)}
    assert named == kinds
    for setting in re.findall(r"`([A-Z_]+)`", " ".join(found.values())):
        assert hasattr(shipped, setting), setting

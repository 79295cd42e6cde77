"""Logs of runs that ended a day ago are folded, without a loss, whatever the rules say ([X29])."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from channels_app.worker import retention
from core.conversations import events
from core.conversations.event_codec import MERGED_CHARACTERS, encode
from core.conversations.retention import log_folding
from core.messages import (
    Message,
    fold,
    message_end,
    message_start,
    progress,
    stream_end,
    stream_start,
    text_delta,
    thinking_delta,
    to_dict,
)
from core.models import (
    ChannelAccount,
    ChatSession,
    Installation,
    RetentionRule,
    Run,
    RunEvent,
    User,
)
from tests.core.database import growth
from tests.plans import analyse, listening, work_of

pytestmark = pytest.mark.django_db

LOG = [
    stream_start(request_id="r", chat_id="c", trace_id="t", timestamp_ms=0),
    message_start(message_id="th", message_type="thinking"),
    *(thinking_delta(f"thought {number}. ", message_id="th") for number in range(5)),
    message_end(message_id="th", message_type="thinking"),
    message_start(message_id="te", message_type="text"),
    text_delta("One, ", message_id="te"),
    text_delta("two, ", message_id="te"),
    progress("half", tool="t", percent=50),
    text_delta("three, ", message_id="te"),
    text_delta("four.", message_id="te"),
    message_end(message_id="te", message_type="text"),
    stream_end(status="completed"),
]
FOLDED = 4 + 1 + 1  # rows that go


@pytest.fixture
def talk(db: None) -> ChatSession:
    account = ChannelAccount.objects.create(channel="memory", name="main")
    ann = User.objects.create(username="ann")
    return ChatSession.objects.create(user=ann, account=account, chat="42")


def ended(talk: ChatSession, days: float, log: list[Message] = LOG, **more: Any) -> Run:
    """Store a run that ended so many days ago, with its log."""
    at = timezone.now() - timedelta(days=days)
    given: dict[str, Any] = {"state": "succeeded", "finished_at": at, "last_seq": len(log), **more}
    run = Run.objects.create(session=talk, user=talk.user, origin="memory", **given)
    RunEvent.objects.bulk_create(
        RunEvent(run=run, seq=number, data=encode(to_dict(message)))
        for number, message in enumerate(log, start=1)
    )
    return run


def do_chore() -> int:
    """Let the chore of a worker do what is due; return how many rows of logs are left."""
    chore = retention.Chore()
    while chore.go_on(now=timezone.now()):
        pass
    return RunEvent.objects.count()


def test_x29_a_folded_log_says_the_same_to_a_reader_at_any_number(talk: ChatSession) -> None:
    """[X29] Thoughts, progress and their order stay; parts of a text are one row."""
    run = ended(talk, 1.1)
    whole = events.whole_log(run.pk)
    said = fold(event for _, event in whole)
    assert do_chore() == len(LOG) - FOLDED
    left = events.whole_log(run.pk)
    assert fold(event for _, event in left) == said
    assert [event["type"] for _, event in left].count("thinking") == 1
    assert left[-1] == whole[-1]
    for seen in range(len(whole) + 1):
        before = [event for number, event in whole if number <= seen]
        rest = events.missing(run_id=run.pk, public_id=run.public_id, seq=seen)
        assert all(number > seen for number, _ in rest)
        both = fold([*before, *(event for _, event in rest)])
        assert texts(both) == texts(said), seen
    assert do_chore() == len(LOG) - FOLDED


def texts(messages: Any) -> list[Any]:
    return [(each["type"], each["props"]) for each in messages]


def test_x29_a_young_an_open_and_a_condensed_log_stay_as_they_are(
    talk: ChatSession, settings: Any
) -> None:
    """[X29] And each one when the setting is 0."""
    ended(talk, 0.9)
    ended(talk, 9, state="running", finished_at=None)
    ended(talk, 9, condensed_at=timezone.now())
    assert do_chore() == 3 * len(LOG)
    ended(talk, 9)
    settings.EVENT_FOLD_DAYS = 0
    assert do_chore() == 4 * len(LOG)
    settings.EVENT_FOLD_DAYS = 10
    assert do_chore() == 4 * len(LOG)
    settings.EVENT_FOLD_DAYS = 8
    call_command("retention")
    assert RunEvent.objects.count() == 4 * len(LOG) - FOLDED


def test_x29_a_rule_condenses_a_folded_log_as_a_whole_one(talk: ChatSession) -> None:
    """[X5] [X29]"""
    run = ended(talk, 9)
    do_chore()
    RetentionRule.objects.create(kind="events", days=5)
    do_chore()
    left = events.whole_log(run.pk)
    said = fold(event for _, event in left)
    assert [each["props"]["content"] for each in said if each["type"] == "text"] == [
        "One, two, three, four."
    ]
    assert "thought" not in str(left)


def test_x29_runs_that_ended_at_the_same_moment_are_all_folded(talk: ChatSession) -> None:
    """[X29] The ends of a group commit are the same time; some are of another transaction."""
    at = timezone.now() - timedelta(days=2)
    number = 3 * log_folding.AT_ONCE + 1
    for _ in range(number):
        ended(talk, 2, finished_at=at)
    assert do_chore() == number * (len(LOG) - FOLDED)
    late = ended(talk, 1.5)
    assert do_chore() == (number + 1) * (len(LOG) - FOLDED)
    row = Installation.objects.get(pk=1)
    assert (row.folded_until, row.folded_run) == (late.finished_at, late.pk)


def test_x29_a_worker_that_is_killed_is_followed_by_the_next_one(
    talk: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X29] After any transaction, in the middle of a log too; a transaction is bounded."""
    monkeypatch.setattr(log_folding, "MOST_EVENTS", 3)
    runs = [ended(talk, 5 - number / 10) for number in range(5)]
    said = {run.pk: texts(fold(event for _, event in events.whole_log(run.pk))) for run in runs}
    steps = 0
    while True:
        before = RunEvent.objects.count()
        if next(log_folding.fold(now=timezone.now()), None) is None:
            break
        assert before - RunEvent.objects.count() <= 3 + 4
        for run in runs:
            log = events.whole_log(run.pk)
            assert texts(fold(event for _, event in log)) == said[run.pk]
        steps += 1
    assert steps > 5
    assert RunEvent.objects.count() == 5 * (len(LOG) - FOLDED)


def test_x29_two_workers_do_not_fold_the_same(talk: ChatSession) -> None:
    """[X29] The one that finds another mark than it read stops."""
    for number in range(3 * log_folding.AT_ONCE):
        ended(talk, 9 - number / 100)
    slow = log_folding.fold(now=timezone.now())
    next(slow)
    do_chore()
    assert list(slow) == []
    mark = Installation.objects.get(pk=1).folded_until
    assert mark == Run.objects.latest("finished_at").finished_at


def test_x29_a_run_that_goes_meanwhile_is_no_trouble(
    talk: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[X29] Removed, or condensed by another worker, after its log was read."""
    gone, condensed, kept = (ended(talk, 5 - number) for number in range(3))
    carry_out = log_folding.carry_out

    def removes(joins: Any) -> Any:
        Run.objects.filter(pk=gone.pk).delete()
        Run.objects.filter(pk=condensed.pk).update(condensed_at=timezone.now())
        return carry_out(joins)

    monkeypatch.setattr(log_folding, "carry_out", removes)
    assert do_chore() == 2 * len(LOG) - FOLDED
    assert RunEvent.objects.filter(run=kept).count() == len(LOG) - FOLDED


def test_x29_a_clock_that_was_set_back_takes_the_mark_with_it(talk: ChatSession) -> None:
    """[X29] Else the runs that end before the wrong time would never be folded."""
    ended(talk, 1.2)
    do_chore()
    Installation.objects.filter(pk=1).update(folded_until=timezone.now() + timedelta(days=400))
    do_chore()
    ended(talk, 0.9)
    assert sum(counts[log_folding.JOINED] for counts in log_folding.fold(now=in_hours(3))) == FOLDED


def in_hours(number: float) -> datetime:
    return timezone.now() + timedelta(hours=number)


def test_x29_a_row_stays_bounded(talk: ChatSession) -> None:
    """[X29] As the writer's."""
    part = "x" * (MERGED_CHARACTERS // 2 + 1)
    log = [text_delta(part, message_id="te") for _ in range(6)]
    run = ended(talk, 2, [LOG[0], *log, LOG[-1]])
    do_chore()
    lengths = [
        len(data) for data in RunEvent.objects.filter(run=run).values_list("data", flat=True)
    ]
    assert len(lengths) == 2 + 3
    assert max(lengths) < 2 * MERGED_CHARACTERS


def test_x29_nothing_due_costs_the_same_beside_many_runs(talk: ChatSession) -> None:
    """[X29] An index finds that nothing is; no query reads a large table as a whole."""
    ended(talk, 3)
    do_chore()

    def look() -> None:
        assert list(log_folding.fold(now=timezone.now())) == []

    few = work_of(look)
    growth.others(talk.account, 20_000)
    middle = Run.objects.latest("pk").pk - 10_000
    Run.objects.filter(pk__gt=middle).update(finished_at=in_hours(-1))
    Run.objects.filter(pk__lte=middle).update(finished_at=in_hours(-96))
    if connection.vendor == "postgresql":
        analyse()
    assert work_of(look) <= few * 2 + 200
    with listening() as asked:
        look()
    assert len(asked) == 2  # the mark, and the runs behind it
    assert [each.sql for each in asked if each.read_whole(by_choice=False)] == []
    ended(talk, 1.2)
    with listening() as asked:
        assert any(any(counts.values()) for counts in log_folding.fold(now=timezone.now()))
    slow = [each.sql for each in asked if each.read_whole(by_choice=False)]
    assert slow == []

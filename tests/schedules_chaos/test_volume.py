"""Ten thousand schedules, and a thousand that are due in the same second ([H52], [H53])."""

import time
from collections import defaultdict
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from channels_app.memory.channel import PLATFORM
from channels_app.schedules import firing
from channels_app.worker.chores import fire_due
from channels_app.worker.runner import Runner
from core.conversations.schedules import occurrences
from core.models import ChatSession, Occurrence, Schedule, User
from tests.channels_app.running import memory_account, until
from tests.channels_app.schedules.making import chat_of, fire
from tests.plans import Asked, analyse, listening, work_of

MANY, FEW = 10_000, 10
DUE, CHATS = 1000, 50
IDLE_SECONDS = 2.0


def stored(chats: list[ChatSession], number: int, *, due: timedelta, apart: timedelta) -> None:
    """Store schedules whose occurrences wait, ``apart`` from each other, and as many that are
    done; each in the next one of the chats.
    """
    sender = chats[0].user.identities.values_list("value", flat=True)[0]
    now = timezone.now().replace(microsecond=0)
    rows = Schedule.objects.bulk_create(
        Schedule(
            user=chats[0].user,
            kind="text",
            text=f"number {index}",
            rule="FREQ=DAILY",
            start=now.replace(tzinfo=None).isoformat(),
            time_zone="UTC",
            session=chats[index % len(chats)],
            account=chats[0].account,
            chat=chats[index % len(chats)].chat,
            sender=sender,
            sender_kind="im",
        )
        for index in range(number)
    )
    Occurrence.objects.bulk_create(
        Occurrence(schedule=row, nominal_at=at, look_at=at)
        for index, row in enumerate(rows)
        for at in (now + due + apart * index,)
    )
    before = now - timedelta(days=1)
    Occurrence.objects.bulk_create(
        Occurrence(schedule=row, nominal_at=before, state="done", fired_at=before) for row in rows
    )


@pytest.mark.django_db
def test_h52_a_sweep_is_one_query_by_its_index_however_many_schedules_there_are(
    guest: User,
) -> None:
    chats = [chat_of(guest, memory_account())]
    now = timezone.now()
    stored(chats, FEW, due=timedelta(hours=1), apart=timedelta(minutes=10))
    analyse()
    before = work_of(lambda: firing.look(now=now))
    stored(chats, MANY, due=timedelta(hours=1), apart=timedelta(minutes=10))
    analyse()
    with listening() as asked:
        firing.look(now=now)
    [question] = asked
    assert "occurrences_to_look" in question.plan()
    assert work_of(lambda: firing.look(now=now)) <= before + 100
    with CaptureQueriesContext(connection) as seen:
        firing.look(now=now)
    assert len(seen) == 1
    print(f"idle with {MANY} schedules: {share_of_a_core():.3%} of a core")


def share_of_a_core() -> float:
    """Return the share of a core of a chore that looks once a second."""
    began, looks = time.process_time(), 0
    while time.process_time() - began < IDLE_SECONDS:
        fire_due()
        looks += 1
    return (time.process_time() - began) / looks


@pytest.mark.django_db
def test_h52_the_history_of_a_clock_costs_a_sweep_nothing(guest: User) -> None:
    """Whether a clock was set back is looked up by an index."""
    stored([chat_of(guest, memory_account())], MANY, due=timedelta(hours=1), apart=timedelta(0))
    analyse()
    with listening() as asked:
        assert occurrences.plan_again(now=timezone.now()) == 0
    assert "fired_occurrences" in asked[0].plan()


@pytest.mark.django_db
def test_h53_a_due_one_costs_the_same_however_many_wait(guest: User) -> None:
    """The statements of firing; each of them by an index."""
    chats = [chat_of(guest, memory_account())]

    def statements() -> list[Asked]:
        Occurrence.objects.filter(state="fired").update(look_at=None)
        stored(chats, 1, due=timedelta(0), apart=timedelta(0))
        with listening() as asked:
            fire(timezone.now() + timedelta(seconds=1))
        return asked

    statements()
    before = [each.sql for each in statements()]
    stored(chats, MANY, due=timedelta(days=2), apart=timedelta(minutes=1))
    analyse()
    after = statements()
    assert [each.sql for each in after] == before
    assert len(after) < 40
    slow = [each.sql for each in after if "SCAN core_schedule" in each.plan()]
    slow += [each.sql for each in after if "Seq Scan on core_schedule" in each.plan()]
    slow += [each.sql for each in after if "Seq Scan on core_occurrence" in each.plan()]
    assert slow == []


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_h53_a_thousand_in_one_second_are_fired_and_delivered_in_order(
    runner: Runner, guest: User, settings: Settings
) -> None:
    # Where a machine needs longer than a minute, the rest was missed, and comes as lists.
    settings.SCHEDULE_MISSED_SECONDS = 3600
    account = memory_account()
    chats = [chat_of(guest, account, f"c{number}") for number in range(CHATS)]
    began = time.monotonic()
    stored(chats, DUE, due=timedelta(seconds=1), apart=timedelta(0))
    until(lambda: not Occurrence.objects.filter(state="waiting", nominal_at__lt=soon()).exists())
    fired = time.monotonic() - began
    until(lambda: len(PLATFORM.sent) >= DUE, seconds=60)
    sent = time.monotonic() - began
    print(f"{DUE} due at once: fired after {fired:.1f} s, delivered after {sent:.1f} s")
    said = defaultdict(list)
    for each in PLATFORM.sent:
        said[each.target.chat].append(str(each.block.get("text")))
    wanted = {
        chat.chat: [f"⏰ number {index}" for index in range(place, DUE, CHATS)]
        for place, chat in enumerate(chats)
    }
    assert dict(said) == wanted
    until(lambda: Occurrence.objects.filter(state="done", executed_at__isnull=False).count() == DUE)
    rows = Occurrence.objects.filter(executed_at__isnull=False)
    assert all(row.delivered_at and row.fired_at and row.fired_at >= row.nominal_at for row in rows)


def soon() -> datetime:
    return timezone.now() + timedelta(hours=1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_h53_the_throughput_of_firing_is_shown(guest: User) -> None:
    account = memory_account()
    chats = [chat_of(guest, account, f"c{number}") for number in range(CHATS)]
    stored(chats, DUE, due=timedelta(0), apart=timedelta(0))
    now = timezone.now() + timedelta(seconds=1)
    began = time.monotonic()
    fire(now)
    taken = time.monotonic() - began
    assert Occurrence.objects.filter(state="fired").count() == DUE
    print(f"firing, {connection.vendor}: {DUE / taken:.0f} occurrences a second")

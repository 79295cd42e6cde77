"""Clocks that jump, and outages, while random schedules are due ([H50], [H51])."""

import os
import random
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from channels_app.schedules import firing
from core.conversations.schedules import occurrences
from core.models import ChatSession, Occurrence, Run, Schedule, User
from tests.channels_app.running import memory_account
from tests.channels_app.schedules.making import NOON, arrive, chat_of, fire, made, texts, waiting

pytestmark = pytest.mark.django_db

SEEDS = int(os.environ.get("SCHEDULE_CLOCKS", "2"))
STEP = timedelta(minutes=5)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
JUMPS = (HOUR, -HOUR, DAY, -DAY)
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York")
RULES = (
    "FREQ=MINUTELY;INTERVAL=15",
    "FREQ=HOURLY",
    "FREQ=HOURLY;INTERVAL=7",
    "FREQ=HOURLY;COUNT=9",
    "FREQ=DAILY",
    "FREQ=DAILY;COUNT=2",
    "",
)
HAPPENED = (Occurrence.State.FIRED, Occurrence.State.DONE)


@dataclass
class Clock:
    """The gateway's clock, and what it has passed: ``steps`` as clocks go, ``leaps`` at once."""

    now: datetime = NOON
    steps: list[tuple[datetime, datetime]] = field(default_factory=list)
    leaps: list[tuple[datetime, datetime]] = field(default_factory=list)

    def tick(self) -> None:
        """Let a step of time pass."""
        self.steps.append((self.now, self.now + STEP))
        self.now += STEP
        look(self.now)

    def jump(self, by: timedelta) -> None:
        """Set the clock; a worker that sees it set back plans again, as the runner does."""
        before, self.now = self.now, self.now + by
        if by > timedelta(0):
            self.leaps.append((before, self.now))
        else:
            occurrences.plan_again(now=self.now)
        look(self.now)


def look(now: datetime) -> None:
    fire(now)
    arrive()


def some(chat: ChatSession, dice: random.Random, number: int) -> list[Schedule]:
    """Return random schedules of the person of a chat; each rule comes at least once."""
    found = []
    for index in range(number):
        rule = RULES[index] if index < len(RULES) else dice.choice(RULES)
        found.append(
            made(
                chat,
                text=f"reminder {index}.",
                rule=rule,
                minutes=dice.randint(1, 600),
                time_zone=dice.choice(ZONES),
                missed=dice.choice(Schedule.Missed.values),
            )
        )
    return found


@pytest.mark.parametrize("seed", range(SEEDS))
def test_h50_a_clock_that_jumps_fires_nothing_twice_and_loses_nothing(
    seed: int, guest: User, settings: Any
) -> None:
    settings.SCHEDULE_MISSED_SECONDS = STEP.total_seconds() + 1  # a step is none of an outage
    dice = random.Random(f"clock {seed}")
    schedules = some(chat_of(guest, memory_account()), dice, 14)
    clock = Clock()
    for _ in range(8):
        for _ in range(dice.randint(1, 60)):
            clock.tick()
        clock.jump(dice.choice(JUMPS))
    for _ in range(12):
        clock.tick()
    for schedule in schedules:
        check_all_came(schedule, clock)
    check_each_once()


def check_all_came(schedule: Schedule, clock: Clock) -> None:
    """Check that each time that the clock passed as clocks go has come, and one of each leap."""
    rows = Occurrence.objects.filter(schedule=schedule)
    came = {row.nominal_at for row in rows.filter(state__in=HAPPENED)}
    # Times that were left out too early, by a clock that was set back afterwards, wait again.
    settled = rows.filter(nominal_at__gt=clock.now, state=Occurrence.State.WAITING)
    settled |= rows.filter(state=Occurrence.State.SKIPPED)
    others = {row.nominal_at for row in settled}
    times = occurrences.rule_of(schedule).after(NOON, most=2000)
    named = (schedule.text, schedule.rule, schedule.missed)
    passed = [each for each in times if any(a < each <= b for a, b in clock.steps)]
    assert [each for each in passed if each not in came] == [], named
    for start, end in clock.leaps:
        missed = {each for each in times if start < each <= end}
        assert not missed or missed & (came | others), named


def check_each_once() -> None:
    """Check that nothing came twice, nor before its time by the gateway's clock."""
    rows = list(Occurrence.objects.filter(state__in=HAPPENED).select_related("schedule"))
    assert [row for row in rows if row.fired_at is None or row.fired_at < row.nominal_at] == []
    assert said() == Counter(row.schedule.text for row in rows)
    runs = Counter(row.run_id for row in rows)
    listed = {run_id for run_id, number in runs.items() if number > 1}
    assert [row for row in rows if row.run_id in listed and not row.was_missed] == []
    assert len(texts()) == len(runs) == Run.objects.filter(origin=firing.ORIGIN).count()


def said() -> Counter[str]:
    """Return how often each schedule's text stands in the messages."""
    return Counter(re.findall(r"reminder \d+\.", "\n".join(texts())))


@pytest.mark.parametrize("rule", ["", "FREQ=DAILY;COUNT=3"])
@pytest.mark.parametrize("missed", Schedule.Missed.values)
def test_h50_a_leap_to_the_far_future_and_back_ends_no_schedule(
    rule: str, missed: str, guest: User
) -> None:
    """Times that were left out, and schedules that seemed to be over, are still to come."""
    schedule = made(chat_of(guest, memory_account()), rule=rule, minutes=30, missed=missed)
    clock = Clock()
    clock.jump(400 * DAY)
    clock.jump(-400 * DAY)
    schedule.refresh_from_db()
    for hour in range(3 * 24):
        look(NOON + hour * HOUR + 31 * timedelta(minutes=1))
    assert len(texts()) == (3 if rule else 1)
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("ended", "over")


@pytest.mark.parametrize("seed", range(3))
def test_h51_after_an_outage_each_schedule_comes_once_at_most(seed: int, guest: User) -> None:
    dice = random.Random(f"outage {seed}")
    schedules = some(chat_of(guest, memory_account()), dice, 20)
    back = NOON + dice.randint(11, 300) * HOUR + timedelta(minutes=dice.randint(2, 14))
    look(back)
    assert said() == Counter(each.text for each in schedules if each.missed == "once")
    for each in schedules:
        rows = Occurrence.objects.filter(schedule=each).exclude(state="waiting")
        assert rows.count() == 1
        assert rows.get().was_missed
        each.refresh_from_db()
        if each.state == Schedule.State.ACTIVE:
            assert waiting(each) == occurrences.rule_of(each).after(back)[0]


def test_h51_every_15_minutes_after_a_day_off_gives_one(guest: User) -> None:
    schedule = made(chat_of(guest, memory_account()), rule="FREQ=MINUTELY;INTERVAL=15", minutes=15)
    look(NOON + 15 * timedelta(minutes=1))
    look(NOON + DAY + timedelta(minutes=20))
    assert len(texts()) == 2
    assert "comes late" in texts()[1]
    assert waiting(schedule) == NOON + DAY + timedelta(minutes=30)

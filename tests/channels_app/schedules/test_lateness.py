"""Reminders that nothing fires are seen in `/metrics` and by the doctor ([H43])."""

from datetime import timedelta

import pytest
from django.utils import timezone

from channels_app.ops import health
from channels_app.ops.doctor import work
from core.conversations.schedules import changes
from core.models import ChatSession, Occurrence
from tests.channels_app.schedules.making import made

pytestmark = pytest.mark.django_db


def gauges() -> dict[str, float]:
    """Return the gauges of schedules."""
    lines = [line.split() for line in health.metrics_text().decode().splitlines()]
    return {
        line[0].removeprefix("latchkey_"): float(line[1])
        for line in lines
        if line[0].startswith(("latchkey_schedules", "latchkey_occurrences"))
    }


def test_h43_occurrences_that_wait_after_their_time_are_counted(chat: ChatSession) -> None:
    """From five seconds on; those that wait for their time, or were withdrawn, are not late."""
    now = timezone.now()
    rows = [made(chat, now=now, text=f"n{number}") for number in range(4)]
    assert gauges() == {
        "schedules_active": 4,
        "occurrences_late": 0,
        "occurrences_late_seconds": 0,
    }
    for row, seconds in zip(rows, (2, 30, 20, 90), strict=True):
        due = now - timedelta(seconds=seconds)
        Occurrence.objects.filter(schedule=row).update(nominal_at=due, look_at=due)
    changes.pause(schedule_ids=[rows[3].pk], why="person")
    found = gauges()
    assert (found["schedules_active"], found["occurrences_late"]) == (3, 2)
    assert 30 <= found["occurrences_late_seconds"] < 90


def test_h43_a_fired_occurrence_is_not_late(chat: ChatSession) -> None:
    """A fired occurrence is looked at again, whenever that is."""
    row, now = made(chat, now=timezone.now()), timezone.now()
    before = now - timedelta(minutes=5)
    Occurrence.objects.filter(schedule=row).update(state="fired", look_at=before, fired_at=before)
    assert gauges()["occurrences_late"] == 0
    assert list(work.schedules()) == []


def test_h43_the_doctor_says_that_no_worker_fires(chat: ChatSession) -> None:
    """After a minute."""
    row, now = made(chat, now=timezone.now()), timezone.now()
    rows = Occurrence.objects.filter(schedule=row)
    rows.update(look_at=now - timedelta(seconds=40))
    assert list(work.schedules()) == []
    rows.update(look_at=now - timedelta(seconds=185))
    (found,) = work.schedules()
    assert (found.level, found.id) == ("error", "schedules")
    assert found.what.startswith("1 reminder or task waits although it was due, the first one")
    assert "for 3 minutes: no worker fires them." in found.what

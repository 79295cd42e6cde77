"""Backups that are due, asked for and made: their rows, and what the owners are told.

[X48] [X49] [X50] [X51]
"""

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from allowlist.models import AuditEntry
from channels_app.owner import backups
from channels_app.owner.backups import Made
from core.models import Backup, BackupSchedule, ChannelAccount, Delivery, User
from tests.channels_app.running import memory_account

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 3, 27, 12, tzinfo=UTC)  # a Friday
GOOD = Made(name="2026-03-27T12-00-00Z", rows=5, files=1, size=100, has_keys=True)


def on(**more: Any) -> BackupSchedule:
    return BackupSchedule.objects.create(is_on=True, **more)


def taken(now: datetime = NOW) -> Backup:
    found = backups.take(now=now)
    assert found is not None
    return found


def asked_and_taken(now: datetime) -> Backup:
    assert backups.ask(cause=Backup.Cause.ADMIN, now=now)
    return taken(now)


def states() -> list[str]:
    return list(Backup.objects.order_by("id").values_list("state", flat=True))


@pytest.mark.parametrize(
    ("day", "at", "zone", "expected"),
    [
        (0, time(3), "UTC", "2026-03-28 03:00"),
        (0, time(12), "UTC", "2026-03-28 12:00"),
        (0, time(13), "UTC", "2026-03-27 13:00"),
        (5, time(3), "UTC", "2026-04-03 03:00"),
        (5, time(15), "UTC", "2026-03-27 15:00"),
        (7, time(3), "Europe/Berlin", "2026-03-29 01:00"),  # the clocks go forward at 2
        (7, time(2, 30), "Europe/Berlin", "2026-03-29 01:30"),  # a time that this day has not
        (1, time(0), "Pacific/Auckland", "2026-03-29 11:00"),
    ],
)
def test_x48_the_next_time(
    settings: Settings, day: int, at: time, zone: str, expected: str
) -> None:
    settings.TIME_ZONE = zone
    found = backups.next_time(BackupSchedule(day=day, at=at), after=NOW)
    assert f"{found.astimezone(UTC):%Y-%m-%d %H:%M}" == expected


def test_x48_a_backup_that_is_due_is_asked_for_once() -> None:
    """However many workers look, and however many nights the machine was off."""
    on()
    backups.fire_due(now=NOW)
    assert states() == []
    for later in (timedelta(hours=14), timedelta(hours=16), timedelta(days=4), timedelta(days=4)):
        backups.fire_due(now=NOW + later)
        if later >= timedelta(hours=15):
            backups.fire_due(now=NOW + later)
    assert Backup.objects.count() == 1  # the first one still waits
    Backup.objects.update(state="good")
    for _ in range(3):
        backups.fire_due(now=NOW + timedelta(days=10))
    assert states() == ["good", "waiting"]
    assert set(Backup.objects.values_list("cause", flat=True)) == {"schedule"}


@pytest.mark.parametrize("is_on", [True, False])
def test_x48_a_schedule_that_is_off_asks_for_nothing(is_on: bool) -> None:
    BackupSchedule.objects.create(is_on=is_on, next_at=NOW)
    backups.fire_due(now=NOW)
    assert states() == ["waiting"] * is_on


def test_x49_one_worker_at_a_time_makes_one_backup() -> None:
    assert backups.take(now=NOW) is None
    assert backups.ask(cause=Backup.Cause.ADMIN, now=NOW)
    assert not backups.ask(cause=Backup.Cause.SCHEDULE, now=NOW)
    backup = taken()
    assert backups.take(now=NOW) is None
    assert not backups.ask(cause=Backup.Cause.ADMIN, now=NOW)
    assert backups.renew(backup, now=NOW + timedelta(seconds=50))
    assert backups.take(now=NOW + timedelta(seconds=70)) is None
    backups.succeed(GOOD, removed=(), row=backup.pk, now=NOW)
    assert states() == ["good"]
    assert not backups.renew(backup, now=NOW)
    assert backups.take(now=NOW) is None


def test_x49_a_backup_of_a_worker_that_died_is_made_again_three_times_at_most(owner: User) -> None:
    backups.ask(cause=Backup.Cause.ADMIN, now=NOW)
    first = taken()
    for number in range(1, backups.MOST_ATTEMPTS):
        again = taken(NOW + number * timedelta(minutes=2))
        assert again.pk == first.pk
        assert not backups.renew(first, now=NOW)
    assert backups.take(now=NOW + timedelta(hours=1)) is None
    assert states() == ["failed"]
    assert backups.ask(cause=Backup.Cause.ADMIN, now=NOW)


@pytest.fixture
def notified(owner: User) -> ChannelAccount:
    account = memory_account()
    owner.last_account, owner.last_target = account, {"chat": "own", "thread": ""}
    owner.save()
    return account


def told() -> list[str]:
    return [
        each["text"] for each in Delivery.objects.order_by("id").values_list("payload", flat=True)
    ]


def test_x50_the_first_failure_is_told_and_the_first_good_one_after_it(
    notified: ChannelAccount,
) -> None:
    days = [NOW + timedelta(days=number) for number in range(6)]
    for now, reason in zip(
        days, ["", "The disk is full.", "It is still full.", "", "", "Gone."], strict=True
    ):
        backup = asked_and_taken(now)
        if reason:
            backups.fail(reason, row=backup.pk, now=now)
        else:
            backups.succeed(GOOD, removed=(), row=backup.pk, now=now)
    assert told() == [
        "The backup could not be made: The disk is full.",
        f"A backup was made and checked again: {GOOD.name}.",
        "The backup could not be made: Gone.",
    ]


def test_x50_a_backup_by_command_ends_a_failure_and_says_which_are_removed(
    notified: ChannelAccount,
) -> None:
    first = asked_and_taken(NOW)
    backups.succeed(GOOD, removed=(), row=first.pk, now=NOW)
    backup = asked_and_taken(NOW)
    backups.fail("No.", row=backup.pk, now=NOW)
    backups.succeed(Made("new", 1, 1, 1, has_keys=False), removed=[GOOD.name], row=None, now=NOW)
    assert states() == ["removed", "failed", "good"]
    assert len(told()) == 2


@pytest.fixture
def browser(owner: User) -> Client:
    User.objects.filter(pk=owner.pk).update(is_superuser=True, is_staff=True)
    owner.refresh_from_db()
    client = Client()
    client.force_login(owner)
    return client


def test_x51_the_schedule_is_set_in_the_admin(browser: Client) -> None:
    """And audited; a worker plans its next time."""
    listed = reverse("admin:core_backup_changelist")
    assert "No backup is made by itself." in browser.get(listed).content.decode()
    page = browser.get(reverse("admin:core_backupschedule_changelist"), follow=True)
    address = page.redirect_chain[-1][0]
    answer = browser.post(address, {"is_on": "on", "day": "7", "at": "04:30"}, follow=True)
    text = answer.content.decode()
    assert "Every Sunday, 04:30 (UTC). Next: " in text
    schedule = BackupSchedule.objects.get()
    assert (schedule.is_on, schedule.day, schedule.at) == (True, 7, time(4, 30))
    assert AuditEntry.objects.filter(action="backupschedule.changed").count() == 1
    backups.fire_due(now=NOW)
    assert BackupSchedule.objects.get().next_at == datetime(2026, 3, 29, 4, 30, tzinfo=UTC)
    browser.post(address, {"day": "7", "at": "04:30"})
    assert "No backup is made by itself." in browser.get(listed).content.decode()


def test_x51_back_up_now_asks_for_one(browser: Client) -> None:
    make = reverse("admin:core_backup_make")
    assert browser.get(make).status_code == 405
    for said in ("A backup is being made: ", "A backup is being made already."):
        assert said in browser.post(make, follow=True).content.decode()
    assert states() == ["waiting"]

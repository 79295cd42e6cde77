"""Occurrences that were over long ago are removed ([H44])."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from pytest_django import Settings

from core.conversations.schedules import changes, reports, retention
from core.conversations.schedules.changes import Grant, Wish
from core.models import ChatSession, Occurrence, Schedule, User
from tests.core.database.growth import copies
from tests.plans import analyse, listening

pytestmark = pytest.mark.django_db
# The database's clock dates the end of a schedule.
NOW = datetime.now(UTC).replace(microsecond=0)
MANY = 20_000


def made(session: ChatSession, *, rule: str = "FREQ=DAILY", text: str = "x") -> Schedule:
    """Return a schedule that was changed for the last time 200 days ago."""
    row = changes.create(
        user=session.user,
        session=session,
        wish=Wish(text=text, at=datetime(2100, 1, 1, 8), rule=rule, time_zone="UTC"),
        grant=Grant(),
        now=NOW - timedelta(days=200),
    )
    aged(row, 200)
    return row


def aged(schedule: Schedule, days: int) -> None:
    """Let the last change of a schedule be so long ago."""
    Schedule.objects.filter(pk=schedule.pk).update(changed_at=NOW - timedelta(days=days))


def over(schedule: Schedule, days: float, state: str = "done", *, fired: bool = True) -> Occurrence:
    """Return an occurrence that was over so many days ago."""
    moment = NOW - timedelta(days=days)
    return Occurrence.objects.create(
        schedule=schedule, nominal_at=moment, state=state, fired_at=moment if fired else None
    )


def ids() -> set[int]:
    return set(Occurrence.objects.values_list("pk", flat=True))


def test_h44_occurrences_of_long_ago_go_and_the_rest_stays(
    session: ChatSession,
) -> None:
    """Also what never fired; not what waits or still runs, however old."""
    row = made(session)
    old = [over(row, 91), over(row, 100, "failed"), over(row, 120, "skipped")]
    old += [over(row, 92, "withdrawn", fired=False), over(row, 93, "failed", fired=False)]
    running = over(row, 99, "fired")
    late = over(row, 98, "waiting", fired=False)
    Occurrence.objects.filter(pk__in=[running.pk, late.pk]).update(look_at=NOW)
    stay = [over(row, 89), over(row, 88, "withdrawn", fired=False), running, late]
    stay += Occurrence.objects.filter(schedule=row, nominal_at__year=2100)
    assert retention.purge(now=NOW) == len(old)
    assert ids() == {each.pk for each in stay}
    assert retention.purge(now=NOW) == 0


def test_h44_the_time_is_a_setting(session: ChatSession, settings: Settings) -> None:
    over(made(session), 89)
    settings.OCCURRENCE_DAYS = 88
    assert retention.purge(now=NOW) == 1


def test_h44_ended_schedules_go_with_their_last_occurrence(session: ChatSession) -> None:
    """Withdrawn ones of any time go with them; open schedules stay without any."""
    paused, ended, recent, busy = (made(session, text=f"n{number}") for number in range(4))
    changes.pause(schedule_ids=[paused.pk], why="person")
    for each in (ended, recent, busy):
        changes.end(schedule=each)
    over(ended, 91)
    over(busy, 5)
    for each in (paused, ended, busy):
        aged(each, 95)
    Occurrence.objects.filter(schedule=paused).delete()
    assert retention.purge(now=NOW) == 3  # an occurrence that was over, one withdrawn, the schedule
    assert set(Schedule.objects.all()) == {paused, recent, busy}
    assert Occurrence.objects.filter(schedule=busy).count() == 2


@pytest.mark.parametrize("how", ["end", "pause"])
def test_h44_an_end_is_a_change(session: ChatSession, how: str) -> None:
    """One that ends today is kept from today on, however long ago it was made."""
    row = made(session)
    if how == "end":
        changes.end(schedule=row)
    else:
        changes.pause(schedule_ids=[row.pk], why="person")
    row.refresh_from_db()
    assert row.changed_at >= NOW
    retention.purge(now=NOW)
    assert Schedule.objects.filter(pk=row.pk).exists()


def test_h44_a_round_is_bounded(session: ChatSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest goes in the next ones."""
    monkeypatch.setattr(retention, "MOST_BATCHES", 2)
    row = made(session)
    copies(
        Occurrence(schedule=row, state="done", nominal_at=NOW),
        1201,
        nominal_at="{at}",
        fired_at="{at}",
    )
    late = NOW + timedelta(days=20_000)
    assert retention.purge(now=late) == 1000
    assert retention.purge(now=late) == 201


def test_h44_every_query_uses_an_index(session: ChatSession, user: User) -> None:
    """[H40] [H43] Beside many occurrences that are over, wait, or were withdrawn."""
    row = made(session)
    plan = Schedule(
        user=user,
        text="x",
        kind="text",
        start="2026-01-01T08:00:00",
        time_zone="UTC",
        state="ended",
    )
    first = copies(plan, MANY, public_id="'plan' || n")
    theirs = {"schedule_id": f"n + {first - 1}"}
    later = NOW + timedelta(days=9000)
    for state, columns in (
        ("done", {"fired_at": "{at}", "nominal_at": "{at}"}),
        ("withdrawn", {}),
    ):
        given = {**theirs, **columns}
        copies(Occurrence(state=state, nominal_at=later), MANY, **given)
    moment = later + timedelta(days=1)
    copies(Occurrence(state="waiting", nominal_at=moment, look_at=moment), MANY, **theirs)
    if connection.vendor == "postgresql":
        analyse()
    with listening() as asked:
        retention.purge(now=NOW - timedelta(days=9000))
        reports.lateness(now=NOW)
        reports.next_of([row.pk, first])
    assert len(asked) >= 5
    for each in asked:
        # Tables without old rows: PostgreSQL takes the index, as it would in a grown one.
        assert each.read_whole(by_choice=False) == [], each.sql

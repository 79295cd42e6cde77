"""Occurrences: planned as rows, found when they are due, fired once.

    plan ─► waiting ──due: fire (channels_app.schedules)──► fired ──run ended, messages sent──► done
               ├─ missed and to be left out, or the one before lasts ─► skipped  └─ or not ─► failed
               └─ changed, paused, deleted ─► withdrawn

``look_at`` is the only column that sweeps read: the due time while it waits, then the next look at
what has become of it.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import Error as DatabaseFailure
from django.db.models import DateTimeField, F, Q
from django.db.models.functions import Now

from core.conversations.schedules.rules import Rule
from core.database import transactions
from core.database.queries import Param, Values
from core.database.transactions import atomic_write
from core.database.writes import insert_or_find
from core.models import Occurrence, Schedule

logger = logging.getLogger(__name__)

DUE_AT_ONCE = 200
# The first look at a fired occurrence, and the longest wait between two.
FIRST_LOOK, LONGEST_LOOK = timedelta(seconds=2), timedelta(minutes=5)
AHEAD_OF_CLOCK = timedelta(seconds=5)

DUE = Values(
    lambda: (
        Occurrence.objects.filter(look_at__lte=Param("now", DateTimeField()), look_at__isnull=False)
        .order_by("look_at", "id")
        .values_list("id")[:DUE_AT_ONCE]
    )
)


def due(*, now: datetime) -> list[int]:
    """Return the occurrences to look at now, in the order in which they were due and planned."""
    return DUE.column(now=now)


def by_conversation(ids: Sequence[int]) -> list[int]:
    """Return those of the occurrences that are there, by conversation, in it by time."""
    rows = Occurrence.objects.filter(pk__in=ids).order_by("schedule__session", "look_at", "pk")
    return list(rows.values_list("pk", flat=True))


def rule_of(schedule: Schedule) -> Rule:
    """Return the rule of a stored schedule. Raises ZoneInfoNotFoundError."""
    return rule_in(ZoneInfo(schedule.time_zone), schedule)


def rule_in(zone: ZoneInfo, schedule: Schedule) -> Rule:
    """Return the rule of a stored schedule, in another time zone than its own."""
    return Rule(text=schedule.rule, start=datetime.fromisoformat(schedule.start), zone=zone)


def plan(
    schedule: Schedule,
    *,
    after: datetime,
    rule: Rule | None = None,
    not_before: datetime | None = None,
) -> Occurrence | None:
    """Store the next occurrence after a moment; end the schedule where there is none.

    Times that have an occurrence already are passed over: those that happened before a clock was
    set back. ``not_before``: when one is due whose time has passed a moment ago. Inside a
    transaction that has locked the schedule.
    """
    rule = rule or rule_of(schedule)
    moment = after
    while times := rule.after(moment):
        row = wait_for(schedule, times[0], not_before=not_before)
        if row.state == Occurrence.State.WAITING:
            return row
        moment = times[0]
    end_if_over(schedule)
    return None


def wait_for(
    schedule: Schedule,
    moment: datetime,
    *,
    snoozed: bool = False,
    not_before: datetime | None = None,
) -> Occurrence:
    """Return the occurrence of a schedule at ``moment``, stored if there is none, waiting again if
    it was withdrawn. Inside a transaction that has locked the schedule.

    One that is both a snooze and a time of the rule is that of the rule.
    """
    known = Occurrence.objects.filter(schedule=schedule, nominal_at=moment)
    due = max(moment, not_before or moment)
    new = Occurrence(schedule=schedule, nominal_at=moment, look_at=due, snoozed=snoozed)
    row, is_new = insert_or_find(new, known.first)
    if is_new:
        return row
    if row.state == Occurrence.State.WITHDRAWN:
        row.state, row.look_at, row.snoozed = Occurrence.State.WAITING, due, snoozed
        row.tries, row.was_missed = 0, False
        row.save(update_fields=["state", "look_at", "snoozed", "tries", "was_missed"])
    elif row.snoozed and not snoozed:
        row.snoozed = False
        row.save(update_fields=["snoozed"])
    return row


def end_if_over(schedule: Schedule) -> None:
    """End an active schedule of which nothing waits any more."""
    waiting = Occurrence.objects.filter(schedule=schedule, state=Occurrence.State.WAITING)
    if not waiting.exists():
        Schedule.objects.filter(pk=schedule.pk, state=Schedule.State.ACTIVE).update(
            state=Schedule.State.ENDED, why=Schedule.Why.OVER, changed_at=Now()
        )


def withdraw_waiting(schedule_ids: Sequence[int], *, also_snoozed: bool = True) -> int:
    """Withdraw the waiting occurrences of schedules; return how many. Inside a transaction."""
    waiting = Occurrence.objects.filter(schedule__in=schedule_ids, state=Occurrence.State.WAITING)
    if not also_snoozed:
        waiting = waiting.filter(snoozed=False)
    return waiting.update(state=Occurrence.State.WITHDRAWN, look_at=None)


def snooze(occurrence: Occurrence, *, until: datetime) -> Occurrence | None:
    """Let a schedule happen once more at ``until``, instead of an earlier snooze; None if it was
    paused or deleted. One that is over is active until then.
    """
    with atomic_write(joins=True):
        rows = Schedule.objects.select_for_update(no_key=True).filter(pk=occurrence.schedule_id)
        schedule = rows.first()
        if schedule is None or not may_snooze(schedule):
            return None
        waiting = Occurrence.objects.filter(schedule=schedule, state=Occurrence.State.WAITING)
        waiting.filter(snoozed=True).update(state=Occurrence.State.WITHDRAWN, look_at=None)
        moment = until.replace(microsecond=0)
        while (row := wait_for(schedule, moment, snoozed=True)).state != Occurrence.State.WAITING:
            moment += timedelta(seconds=1)  # happened before a clock was set back
        begin_if_waiting(schedule)
        acknowledge(occurrence)
    return row


def snooze_again(schedule: Schedule, *, now: datetime) -> bool:
    """Let the latest snooze of a schedule wait again that a pause withdrew; return whether there is
    one that is still to come. Inside a transaction that has locked the schedule.
    """
    row = Occurrence.objects.filter(schedule=schedule, snoozed=True).order_by("-pk").first()
    if row is None or row.state != Occurrence.State.WITHDRAWN or row.nominal_at <= now:
        return False
    wait_for(schedule, row.nominal_at, snoozed=True)
    return True


def may_snooze(schedule: Schedule) -> bool:
    """Return whether a schedule is active, or has ended because nothing was left."""
    is_over = schedule.state == Schedule.State.ENDED and schedule.why == Schedule.Why.OVER
    return schedule.state == Schedule.State.ACTIVE or is_over


def acknowledge(occurrence: Occurrence) -> bool:
    """Record that the person has seen to it; False if they had before."""
    with atomic_write(joins=True):
        rows = Occurrence.objects.filter(pk=occurrence.pk, acknowledged_at__isnull=True)
        return rows.update(acknowledged_at=Now()) == 1


def next_look(occurrence: Occurrence, *, now: datetime) -> datetime:
    """Return when to look again at a fired occurrence: the longer it has taken, the later."""
    taken = now - (occurrence.fired_at or now)
    return now + min(max(taken / 4, FIRST_LOOK), LONGEST_LOOK)


def settle(
    occurrence: Occurrence,
    *,
    state: str,
    executed_at: datetime | None,
    delivered_at: datetime | None,
    note: str = "",
) -> bool:
    """End a fired occurrence as done or failed; False if another worker has. In a transaction."""
    values = {"state": state, "look_at": None, "executed_at": executed_at}
    if note:
        values["note"] = note[:300]
    rows = Occurrence.objects.filter(pk=occurrence.pk, state=Occurrence.State.FIRED)
    return rows.update(**values, delivered_at=delivered_at) == 1


def plan_again(*, now: datetime) -> int:
    """Plan the next occurrence after ``now`` of schedules of which one was fired in the future:
    the clock was set back, and what was passed over meanwhile is still to come. Return how many.

    Fired occurrences keep their rows, so that none happens twice. Those that were left out wait
    again, and a schedule that ended because nothing was left is active again.
    """
    ahead = Occurrence.objects.filter(fired_at__gt=now + AHEAD_OF_CLOCK, fired_at__isnull=False)
    ids = sorted(set(ahead.values_list("schedule_id", flat=True)))
    number = 0
    for schedule_id in ids:
        try:
            number += plan_one_again(schedule_id, now=now)
        except DatabaseFailure:
            raise
        except Exception:
            # Its next time cannot be found, as in a time zone that this machine lacks.
            logger.exception("a schedule could not be planned again")
    return number


def plan_one_again(schedule_id: int, *, now: datetime) -> bool:
    """Plan a schedule anew after the clock was set back; return whether it has a next time."""
    with atomic_write():
        rows = Schedule.objects.select_for_update(no_key=True).filter(pk=schedule_id)
        schedule = rows.first()
        if schedule is None or not may_snooze(schedule):
            return False
        wait_again(schedule, now=now)
        planned = plan(schedule, after=now)
        begin_if_waiting(schedule)
    return planned is not None


def wait_again(schedule: Schedule, *, now: datetime) -> None:
    """Let the occurrences that were left out before their time by the clock as it is wait again."""
    rows = Occurrence.objects.filter(schedule=schedule, state=Occurrence.State.SKIPPED)
    rows.filter(fired_at__gt=now + AHEAD_OF_CLOCK, nominal_at__gt=now).update(
        state=Occurrence.State.WAITING,
        look_at=F("nominal_at"),
        fired_at=None,
        was_missed=False,
        tries=0,
    )


def begin_if_waiting(schedule: Schedule) -> None:
    """Make an ended schedule active of which something waits."""
    waiting = Occurrence.objects.filter(schedule=schedule, state=Occurrence.State.WAITING)
    if schedule.state == Schedule.State.ENDED and waiting.exists():
        schedule.state, schedule.why = Schedule.State.ACTIVE, ""
        schedule.save(update_fields=["state", "why", "changed_at"])


LOOKS = transactions.FarTimes(
    lambda: Occurrence.objects.filter(
        Q(state=Occurrence.State.FIRED) | Q(tries__gt=0), look_at__isnull=False
    ),
    "look_at",
)


def bring_near() -> None:
    """Shorten waits that end far in the future because the clock was set back."""
    LOOKS.bring_near(most=LONGEST_LOOK)

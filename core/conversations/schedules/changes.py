"""Make, change, pause and delete schedules. Callers check who may (``channels_app.schedules``)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Now
from django.utils import dateformat
from django.utils.translation import gettext, ngettext

from core.conversations.schedules import occurrences, rules, zones
from core.conversations.schedules.rule_text import ELAPSED, Parts, read, written
from core.conversations.schedules.rules import Rule
from core.conversations.schedules.rules import RuleError as RuleError
from core.database.transactions import atomic_write
from core.lib.ids import is_public_id
from core.lib.text import clean, one_line
from core.models import ChatSession, Occurrence, Schedule, User

TEXT_CHARACTERS = 4000
# A single time may have passed by so much: a minute is asked for while it runs.
PAST = timedelta(seconds=60)
# In ``made_by``, between the key and the digest of the request.
REQUEST = "#"
OPEN = (Schedule.State.ACTIVE, Schedule.State.PAUSED)


class OtherRequestError(Exception):
    """A key under which a schedule was made came with another request."""


@dataclass(frozen=True, slots=True)
class Grant:
    """By what a person may make a schedule: an identity of theirs (``sender``, ``kind``; in
    ``group``, if any), an API key, or, all empty, their own sign-in.
    """

    sender: str = ""
    kind: str = ""
    group: str = ""
    via_key: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The wanted properties of a schedule; None where a change leaves one as it is.

    The first time: ``at``, a local time in ``time_zone``, or in ``minutes``. ``rule``: an RRULE
    that counts from it; without a first time from now. "" for once.
    """

    text: str | None = None
    kind: str | None = None
    at: datetime | None = None
    minutes: float | None = None
    rule: str | None = None
    time_zone: str | None = None
    missed: str | None = None


def create(
    *,
    user: User,
    session: ChatSession | None,
    wish: Wish,
    grant: Grant,
    now: datetime,
    made_by: str | None = None,
    request: str = "",
    assistant_id: int = 0,
) -> Schedule:
    """Store a schedule of a person with its first occurrence; return it.

    ``session``: the conversation to which its occurrences go. ``made_by``: a key under which a
    repeated call finds the schedule; ``request``: the digest of the request, where the key
    may come with another one. Raises RuleError in words for the model or the person, and
    OtherRequestError.
    """
    if known := made_before(user, made_by, request):
        return known
    rule = rule_of(wish, now=now)
    row = Schedule(
        user=user,
        kind=wish.kind or Schedule.Kind.TEXT,
        text=text_of(wish.text),
        rule=rule.text,
        start=rule.start.isoformat(),
        time_zone=rule.zone.key,
        missed=wish.missed or Schedule.Missed.ONCE,
        session=session,
        account=session.account if session is not None else None,
        chat=session.chat if session is not None else "",
        thread=session.thread if session is not None else "",
        sender=grant.sender,
        sender_kind=grant.kind,
        group=grant.group,
        via_key=grant.via_key,
        assistant_id=assistant_id,
        made_by=f"{made_by}{REQUEST}{request}" if request else made_by,
    )
    check_interval(row.kind, rule)
    with atomic_write():
        # Locks the person: two calls at once must not pass the limit, nor make one twice.
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if known := made_before(user, made_by, request):
            return known
        number = Schedule.objects.filter(user=user, state__in=OPEN).count()
        if number >= settings.SCHEDULES_PER_PERSON:
            raise RuleError(
                gettext(
                    "There are {count} schedules already, the most that this gateway allows. "
                    "Delete one first."
                ).format(count=number)
            )
        row.save()
        occurrences.plan(row, rule=rule, after=before_first(wish, now), not_before=now)
    return row


def made_before(user: User, made_by: str | None, request: str) -> Schedule | None:
    """Return the schedule that an earlier call with this key has made. Raises OtherRequestError."""
    if not request:
        return Schedule.objects.filter(made_by=made_by).first() if made_by else None
    begin = f"{made_by}{REQUEST}"
    # No range: collations sort punctuation in their own ways.
    known = Schedule.objects.filter(user=user, made_by__startswith=begin).first()
    if known is not None and known.made_by != f"{begin}{request}":
        raise OtherRequestError
    return known


def change(*, schedule: Schedule, wish: Wish, now: datetime) -> Schedule:
    """Change a schedule that has not ended. Raises RuleError. A paused one stays paused.

    With another time its next occurrence is planned anew; else what is due, and a snooze, stays.
    """
    # A savepoint: a refusal undoes nothing else of the caller's transaction.
    with atomic_write():
        row = locked(schedule.pk)
        rule = rule_of(wish, now=now, before=row)
        kind = wish.kind or row.kind
        check_interval(kind, rule)
        text = row.text if wish.text is None else text_of(wish.text)
        before = (row.rule, row.start, row.time_zone)
        row.text, row.kind, row.rule = text, kind, rule.text
        row.start, row.time_zone = rule.start.isoformat(), rule.zone.key
        row.missed, row.failures = wish.missed or row.missed, 0
        row.save()
        if before == (row.rule, row.start, row.time_zone):
            return row
        occurrences.withdraw_waiting([row.pk], also_snoozed=False)
        if row.state == Schedule.State.ACTIVE:
            occurrences.plan(row, rule=rule, after=before_first(wish, now), not_before=now)
    return row


def pause(*, schedule_ids: Iterable[int], why: str) -> int:
    """Pause those of these schedules that are active; return how many. ``why``: a Schedule.Why."""
    with atomic_write():
        ids = lock_active(Schedule.objects.filter(pk__in=list(schedule_ids)))
        rows = Schedule.objects.filter(pk__in=ids)
        changed = rows.update(state=Schedule.State.PAUSED, why=why, changed_at=Now())
        occurrences.withdraw_waiting(ids)
    return changed


def resume(*, schedule: Schedule, now: datetime, by_owner: bool = False) -> Schedule:
    """Make a paused schedule active again from its next time on. Raises RuleError where nothing is
    left, and where the owner paused it, unless it is ``by_owner``.
    """
    with atomic_write():
        row = locked(schedule.pk)
        if row.state == Schedule.State.ACTIVE:
            return row
        if row.why == Schedule.Why.OWNER and not by_owner:
            raise RuleError(
                gettext("The owner of this gateway paused this. Ask the owner to resume it.")
            )
        row.state, row.why, row.failures = Schedule.State.ACTIVE, "", 0
        row.save(update_fields=["state", "why", "failures", "changed_at"])
        is_put_off = occurrences.snooze_again(row, now=now)
        if occurrences.plan(row, after=now) is None and not is_put_off:
            raise RuleError(gettext("Its time has passed. Change the time instead."))
    return row


def end(*, schedule: Schedule, why: str = Schedule.Why.PERSON) -> bool:
    """Delete a schedule for its person: it stays in the admin. False if it had ended already."""
    with atomic_write():
        rows = Schedule.objects.filter(pk=schedule.pk, state__in=OPEN)
        if not rows.update(state=Schedule.State.ENDED, why=why, changed_at=Now()):
            return False
        occurrences.withdraw_waiting([schedule.pk])
    return True


def listed(user: User, *, session: ChatSession | None = None) -> list[Schedule]:
    """Return a person's schedules that have not ended, the next one first, with ``next_at`` (None
    while paused) and ``is_put_off``. ``session``: only those of this chat (for a group, which
    others read).
    """
    waiting = Occurrence.objects.filter(schedule=OuterRef("pk"), state=Occurrence.State.WAITING)
    rows = Schedule.objects.filter(user=user, state__in=OPEN).select_related("session", "account")
    if session is not None:
        rows = rows.filter(account=session.account_id, chat=session.chat)
    due = waiting.order_by("look_at")
    found = list(
        rows.annotate(
            due_at=Subquery(due.values("look_at")[:1]), snoozed=Subquery(due.values("snoozed")[:1])
        ).order_by("pk")
    )
    for row in found:
        row.next_at, row.is_put_off = row.due_at, bool(row.snoozed)
    return sorted(found, key=lambda row: (row.next_at is None, row.next_at or row.created_at))


def own(user: User, name: str) -> Schedule | None:
    """Return a person's schedule by its public id, if it has not ended."""
    if not is_public_id(name):
        return None
    rows = Schedule.objects.filter(public_id=name, user=user, state__in=OPEN)
    return rows.select_related("session", "account").first()


def next_times(schedule: Schedule, *, now: datetime, most: int = 3) -> list[datetime]:
    """Return the next times of a schedule by its rule, or, where that has none left, the one that
    waits: it was put off, or began in this minute. None for one that is not active, or whose time
    zone this machine lacks.
    """
    if schedule.state != Schedule.State.ACTIVE or schedule.time_zone not in zones.known():
        return []
    if times := occurrences.rule_of(schedule).after(now, most=most):
        return times
    waiting = Occurrence.objects.filter(schedule=schedule, state=Occurrence.State.WAITING)
    return list(waiting.order_by("nominal_at").values_list("nominal_at", flat=True)[:most])


def text_of(text: str | None) -> str:
    """Return the text of a schedule as it is stored. Raises RuleError."""
    found = clean(text or "").strip()
    if not found:
        raise RuleError(
            gettext("The text is missing. Give the text to say, or the task to carry out.")
        )
    if len(found) > TEXT_CHARACTERS:
        raise RuleError(
            gettext("The text is too long: at most {count} characters.").format(
                count=TEXT_CHARACTERS
            )
        )
    return found


def rule_of(wish: Wish, *, now: datetime, before: Schedule | None = None) -> Rule:
    """Return the rule that a wish describes, with the parts of ``before`` that it leaves out.

    Raises RuleError, also for a single time that has passed.
    """
    zone = rules.zone_named(wish.time_zone or (before.time_zone if before is not None else ""))
    here = now.astimezone(zone).replace(tzinfo=None, second=0)
    text = text_in(wish, before, zone, now=now)
    if wish.minutes is not None:
        if not 0 < wish.minutes <= 60 * 24 * 366 * 10:
            raise RuleError("minutes must be more than 0, and at most ten years.")
        return in_minutes(text, now + timedelta(minutes=wish.minutes), zone)
    if wish.at is not None:
        rule = rules.parse(text, start=wish.at, zone=zone)
    elif before is not None and (wish.rule is None or not text):
        rule = rules.parse(text, start=datetime.fromisoformat(before.start), zone=zone)
    elif text:
        start = begin_of(text, here, zone=zone, before=before)
        rule = all_to_come(text, start=start, zone=zone, now=now)
    else:
        raise RuleError("The time is missing: give at, minutes or rule.")
    is_same_zone = before is not None and before.time_zone == zone.key
    is_new = not is_same_zone or wish.at is not None or wish.rule is not None
    if is_new and not rule.after(before_first(wish, now)):
        raise RuleError(
            gettext("That time has passed: it is {now} in {zone} now.").format(
                now=dateformat.format(here, "l, Y-m-d H:i"), zone=zone.key
            )
        )
    return rule


def text_in(wish: Wish, before: Schedule | None, zone: ZoneInfo, *, now: datetime) -> str:
    """Return the rule that a wish names, else that of ``before``; with a first time in ``zone``
    that is to come, a COUNT is the number of times that are left.
    """
    if wish.rule is not None or before is None:
        return wish.rule or ""
    since = before_first(wish, now).astimezone(zone).replace(tzinfo=None)
    if wish.minutes is None and (wish.at is None or wish.at <= since):
        return before.rule
    rule = occurrences.rule_in(zones.stored_zone(before.time_zone), before)
    return written(parts_to_come(rule, now=now))


def parts_to_come(rule: Rule, *, now: datetime) -> Parts | None:
    """Return the parts of a rule; its COUNT is the number of times after ``now``, at least 1."""
    if rule.parts is None or rule.parts.count is None:
        return rule.parts
    return replace(rule.parts, count=max(1, len(rule.after(now, most=rule.parts.count))))


def begin_of(text: str, here: datetime, *, zone: ZoneInfo, before: Schedule | None) -> datetime:
    """Return from when a rule counts that comes without a first time: from this minute (``here``).

    An hour that it names without minutes is a full one. Where it names none, it is the time of day
    of ``before``, if that has one.
    """
    parts = read(text, zone=zone)
    if parts is None or parts.frequency in ELAPSED:
        return here
    if parts.hours:
        return here.replace(minute=0)
    old = read(before.rule, zone=zone) if before is not None else None
    if before is None or (old is not None and old.frequency in ELAPSED):
        return here
    start = datetime.fromisoformat(before.start)
    hours, minutes = (old.hours, old.minutes) if old is not None else ((), ())
    if len(hours) > 1 or len(minutes) > 1:
        return here
    hour, minute = (*hours, start.hour)[0], (*minutes, start.minute)[0]
    return here.replace(hour=hour, minute=minute, second=start.second)


def all_to_come(text: str, *, start: datetime, zone: ZoneInfo, now: datetime) -> Rule:
    """Return a rule that counts from ``start``, which the person did not give: one with a COUNT
    from its first time after ``now``, so that it counts none that has passed, and one of certain
    days with an interval from the next of them: "every two weeks on Monday" begins with the next
    Monday.
    """
    parts = read(text, zone=zone)
    names_days = parts is not None and (parts.days or parts.month_days or parts.months)
    if parts is not None and names_days and parts.interval > 1:
        each = Rule(written(replace(parts, interval=1, count=None)), start, zone)
        for first in each.after(now):
            return in_minutes(text, first, zone)
    rule = rules.parse(text, start=start, zone=zone)
    first = rule.after(rules.to_utc(rule.start, rule.zone) - timedelta(seconds=1))[0]
    if rule.parts is None or rule.parts.count is None or first > now:
        return rule
    endless = replace(rule, text=written(replace(rule.parts, count=None)))
    return next((in_minutes(rule.text, each, rule.zone) for each in endless.after(now)), rule)


def in_minutes(text: str, moment: datetime, zone: ZoneInfo) -> Rule:
    """Return the rule that begins at a moment. In the second hour of an overlap, whose local times
    mean the first one, it counts in UTC.
    """
    moment += timedelta(seconds=moment.microsecond > 0)  # the rule drops what is after the second
    local = moment.astimezone(zone).replace(tzinfo=None)
    if rules.to_utc(local, zone) != moment:
        zone, local = ZoneInfo("UTC"), moment.astimezone(UTC).replace(tzinfo=None)
    return rules.parse(text, start=local, zone=zone)


def before_first(wish: Wish, now: datetime) -> datetime:
    """Return the moment after which the first occurrence is: one in this minute counts as well."""
    return now - PAST if wish.at is not None else now


def check_interval(kind: str, rule: Rule) -> None:
    """Raise RuleError for a rule whose occurrences are closer than allowed."""
    shortest = rule.shortest_interval()
    prompt = kind == Schedule.Kind.PROMPT
    minutes = settings.SCHEDULE_PROMPT_MINUTES if prompt else settings.SCHEDULE_TEXT_MINUTES
    if shortest is not None and shortest < timedelta(minutes=minutes):
        said = ngettext(
            "Texts may come every {count} minute at most, not more often.",
            "Texts may come every {count} minutes at most, not more often.",
            minutes,
        )
        if prompt:
            said = ngettext(
                "Tasks for the assistant may come every {count} minute at most, not more often.",
                "Tasks for the assistant may come every {count} minutes at most, not more often.",
                minutes,
            )
        raise RuleError(said.format(count=minutes))


def locked(schedule_id: int) -> Schedule:
    """Return a schedule with its row locked. Raises RuleError if it has ended."""
    rows = Schedule.objects.select_for_update(no_key=True).filter(pk=schedule_id, state__in=OPEN)
    row = rows.first()
    if row is None:
        raise RuleError(gettext("There is no such schedule any more."))
    return row


def lock_active(rows: QuerySet[Schedule]) -> list[int]:
    """Lock the active ones of ``rows`` in the order of their ids; return them."""
    active = rows.filter(state=Schedule.State.ACTIVE).order_by("pk")
    return list(active.select_for_update(no_key=True).values_list("pk", flat=True))


def title_of(schedule: Schedule) -> str:
    """Return the text of a schedule on one line, for lists."""
    return one_line(schedule.text, 80)

"""Fire the occurrences that are due, and record what became of those that were fired.

    due ─► schedules locked ─► grant valid? ─► missed? ─► text: a finished run and its messages
                                                  └─────► prompt: a queued run
    all of it, and the next occurrence, in one transaction; work outside it (the run, its
    deliveries) have leases and fences of their own

An occurrence that cannot be fired is tried again alone, later each time, and then fails.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import DatabaseError, OperationalError
from django.db.models import QuerySet
from django.utils.translation import gettext_noop

from allowlist import schedule_grants
from channels_app.agent_sessions import results
from channels_app.base import Capability
from channels_app.rendering.links import escaped
from channels_app.replies.outbound import put_block
from channels_app.schedules import buttons, missed, outcomes, places, rights
from channels_app.schedules.outcomes import Outcome
from channels_app.schedules.places import Place
from core.conversations import assistants, inbox, push_messages
from core.conversations.schedules import changes, occurrences
from core.database.transactions import atomic_write
from core.database.writes import Insert, Set, write_all
from core.lib.text import one_line
from core.lib.tokens import estimate
from core.models import ChatSession, Message, Occurrence, Route, Run, Schedule
from core.providers import catalogue
from core.signals import wakeups
from core.tools import languages, phrases

logger = logging.getLogger(__name__)

ORIGIN = "schedule"
# Fired in one transaction; while it lasts, their schedules and conversations are locked.
BATCH = 20
MOST_TRIES, MOST_FAILURES = 5, 3
# So many missed texts of a conversation come one by one; more are one list.
FEW_MISSED = 3
FIRST_RETRY, LONGEST_RETRY = timedelta(seconds=5), timedelta(minutes=5)
STILL_BUSY = gettext_noop("The one before it was not finished.")
BUSY = (
    "“{0}” is not finished yet, so its next time was left out. Later ones are left out in the "
    "same way, without a message."
)
BROKEN = "“{0}” could not be carried out and is paused. /reminders resumes it."
FAILED = "“{0}” failed three times in a row and is paused. /reminders resumes it."


def look(*, now: datetime) -> bool:
    """Fire what is due, and look at what was fired; return whether more may be due already."""
    ids = occurrences.due(now=now)
    if len(ids) > BATCH:
        ids = occurrences.by_conversation(ids)
    for start in range(0, len(ids), BATCH):
        take_batch(ids[start : start + BATCH], now=now)
    return len(ids) == occurrences.DUE_AT_ONCE


def take_batch(ids: Sequence[int], *, now: datetime) -> None:
    """Take care of occurrences in one transaction; of each alone where that fails."""
    try:
        with atomic_write():
            take_all(locked(ids, now=now), now=now)
    except Exception as error:
        if not isinstance(error, DatabaseError):
            logger.exception("occurrences could not be fired in one transaction; now one by one")
        for occurrence_id in ids:
            take_alone(occurrence_id, now=now)


def take_alone(occurrence_id: int, *, now: datetime) -> None:
    """Take care of one occurrence; put it off where that fails."""
    try:
        with atomic_write():
            take_all(locked([occurrence_id], now=now), now=now)
    except Exception:
        logger.exception("an occurrence could not be fired; it is tried again")
        put_off(occurrence_id, now=now)


def locked(ids: Sequence[int], *, now: datetime) -> list[Occurrence]:
    """Return those of the occurrences that are still due, with their schedules locked: the lock of
    a schedule is that of its occurrences. Those that another worker has are left out.

    By conversation, so that two workers lock conversations in one order; in it by time.
    """
    rows = Schedule.objects.filter(occurrences__in=ids).order_by("pk").values_list("pk", flat=True)
    free = Schedule.objects.filter(pk__in=list(rows)).order_by("pk")
    mine = list(free.select_for_update(skip_locked=True, no_key=True).values_list("pk", flat=True))
    found = with_all().filter(pk__in=ids, schedule__in=mine, look_at__lte=now)
    return list(found.order_by("schedule__session", "look_at", "pk"))


def with_all() -> QuerySet[Occurrence]:
    """Return the occurrences with the rows that firing reads; few runs have a pause."""
    return Occurrence.objects.defer("run__pause__messages").select_related(
        "run__pause__continued_by",
        "schedule__user__last_account",
        "schedule__account",
        "schedule__session__account",
        "schedule__session__user",
    )


def take_all(rows: Sequence[Occurrence], *, now: datetime) -> None:
    """Handle locked occurrences in order: a third failure withdraws the waiting ones."""
    taken: set[int] = set()
    rest = []
    for group in missed.groups(rows, now=now):
        if len(group) > FEW_MISSED:
            fire_as_list(group, now=now)
        else:
            rest.extend(group)
    for row in rest:
        again = with_all().filter(pk=row.pk, look_at__lte=now)
        found = again.first() if row.schedule_id in taken else row
        if found is not None:
            take(found, now=now)
        taken.add(row.schedule_id)


def take(occurrence: Occurrence, *, now: datetime) -> None:
    """Fire a waiting occurrence, or look at a fired one. Inside a transaction."""
    if occurrence.state == Occurrence.State.WAITING:
        fire(occurrence, now=now)
    elif occurrence.state == Occurrence.State.FIRED:
        follow(occurrence, now=now)


def fire(occurrence: Occurrence, *, now: datetime) -> None:
    """Let a due occurrence happen, once, and plan the next one. Inside a transaction."""
    if not may_happen(occurrence, now=now):
        return
    schedule = occurrence.schedule
    place = places.place_of(schedule)
    lines = [each for each in (place.note, missed.line(occurrence, now=now)) if each]
    run = say(occurrence, place, lines) if is_text(schedule) else carry_out(schedule, place, lines)
    record(occurrence, run, note=place.note, now=now)


def may_happen(occurrence: Occurrence, *, now: datetime) -> bool:
    """Return whether a due occurrence is to happen; withdraw or skip it otherwise, and pause a
    schedule whose grant has ended. Inside a transaction.
    """
    schedule = occurrence.schedule
    if schedule.state != Schedule.State.ACTIVE:
        occurrences.withdraw_waiting([schedule.pk])
        return False
    if not schedule_grants.is_still_valid(schedule, now=now):
        changes.pause(schedule_ids=[schedule.pk], why=Schedule.Why.GRANT)
        return False
    was_missed = missed.is_late(occurrence, now=now)
    if was_missed and (
        schedule.missed == Schedule.Missed.SKIP or missed.is_overtaken(occurrence, now=now)
    ):
        leave_out(occurrence, now=now)
        return False
    if not is_text(schedule) and outcomes.is_going_on(schedule):
        tell_still_busy(schedule)
        leave_out(occurrence, now=now, note=STILL_BUSY, was_missed=was_missed)
        return False
    return True


def fire_as_list(rows: Sequence[Occurrence], *, now: datetime) -> None:
    """Send the texts of missed occurrences of one conversation as one list, without buttons: after
    a long pause a chat gets one message, not a hundred. Inside a transaction.
    """
    found: dict[tuple[ChatSession, str, str], tuple[Place, list[Occurrence]]] = {}
    for row in rows:
        if may_happen(row, now=now):
            place, language = places.place_of(row.schedule), language_of(row.schedule)
            found.setdefault((place.session, place.note, language), (place, []))[1].append(row)
    for (_, _, language), (place, group) in found.items():
        names = rights.is_group(place.session)
        text = missed.listed(group, now=now, language=language, names=names)
        note = notes_below([place.note] if place.note else [], language)
        run = send(place, f"⏰ {text}{note}", schedule=group[0].schedule, with_buttons=False)
        for row in group:
            record(row, run, note=place.note, now=now)


def record(occurrence: Occurrence, run: Run, *, note: str, now: datetime) -> None:
    """Record that an occurrence has fired as ``run``, and plan the next one of its schedule."""
    was_missed = missed.is_late(occurrence, now=now)
    is_behind = was_missed or missed.is_held_up(occurrence, now=now)
    fired = Occurrence.objects.filter(pk=occurrence.pk, state=Occurrence.State.WAITING)
    fired.update(
        state=Occurrence.State.FIRED,
        fired_at=now,
        run=run,
        was_missed=was_missed,
        note=note,
        look_at=now + occurrences.FIRST_LOOK,
        tries=0,
    )
    occurrences.plan(occurrence.schedule, after=now if is_behind else occurrence.nominal_at)


def leave_out(
    occurrence: Occurrence, *, now: datetime, note: str = "", was_missed: bool = True
) -> None:
    """Skip an occurrence, and plan the next one. ``note``: why, if not because it was missed."""
    rows = Occurrence.objects.filter(pk=occurrence.pk, state=Occurrence.State.WAITING)
    state = Occurrence.State.SKIPPED
    rows.update(state=state, look_at=None, was_missed=was_missed, fired_at=now, note=note)
    occurrences.plan(occurrence.schedule, after=now)


def is_text(schedule: Schedule) -> bool:
    return schedule.kind == Schedule.Kind.TEXT


def say(occurrence: Occurrence, place: Place, lines: Sequence[str]) -> Run:
    """Send the text of a schedule as a finished run; return it. Inside a transaction.

    A group is told whose it is.
    """
    schedule = occurrence.schedule
    notes = notes_below(lines, language_of(schedule))
    whose = f"{escaped(str(schedule.user))}: " if rights.is_group(place.session) else ""
    return send(place, f"⏰ {whose}{schedule.text}{notes}", schedule=schedule)


def notes_below(lines: Sequence[str], language: str) -> str:
    """Return sentences of the gateway as they stand below a text."""
    return "".join(f"\n\n_{phrases.in_language(line, language)}_" for line in lines)


def send(place: Place, text: str, *, schedule: Schedule, with_buttons: bool = True) -> Run:
    """Put a text of the gateway into a conversation; return its finished run. In a transaction."""
    run = results.settled_run(
        session=place.session, text=text, origin=ORIGIN, route=route_to(place.session)
    )
    results.touch(place.session)
    if not place.session.title:
        untitled = ChatSession.objects.filter(pk=place.session.pk, title="")
        untitled.update(title=inbox.title_of(schedule.text))
    if with_buttons:
        Message.objects.filter(run=run, role="assistant").update(
            data={"reminder": run.public_id, "schedule": schedule.public_id}
        )
    if place.channel is None:
        push_messages.enqueue(user_id=run.user_id, kind="reminder", ref=run.public_id)
        return run
    blocks = place.channel.outbound.render(text)
    if with_buttons and blocks and Capability.BUTTONS in place.channel.capabilities:
        blocks[-1] = buttons.under(blocks[-1], run, language_of(schedule))
    for index, block in enumerate(blocks):
        put_block(run=run, index=index, payload=block)
    return run


def route_to(session: ChatSession) -> Route:
    """Return where the messages of a run go that answers none."""
    return {
        "account": session.account_id,
        "chat": session.chat,
        "thread": session.thread,
        "reply_to": "",
        "acks": [],
        "media": [],
    }


def carry_out(schedule: Schedule, place: Place, lines: Sequence[str]) -> Run:
    """Queue a run of a schedule's prompt; return it. Inside a transaction."""
    session = place.session
    chosen = chosen_for(schedule, session)
    language = language_of(schedule)
    run = Run(
        session=session,
        user_id=schedule.user_id,
        via_key=schedule.via_key,
        assistant_id=chosen.assistant.id,
        assistant_version=chosen.assistant.version,
        model_id=chosen.model_id,
        origin=ORIGIN,
        text=schedule.text,
        options={
            "schedule": {
                "id": schedule.public_id,
                "lines": [phrases.in_language(line, language) for line in lines],
            }
        },
        route=route_to(session),
    )
    said = Message(
        session=session,
        run=run,
        role="user",
        text=schedule.text,
        tokens=estimate(schedule.text),
        data={"schedule": schedule.public_id},
    )
    title = session.title or inbox.title_of(schedule.text)
    write_all(Insert(run), Insert(said), Set(ChatSession, session.pk, {"title": title}))
    results.touch(session)
    wakeups.run(run.pk)
    return run


def chosen_for(schedule: Schedule, session: ChatSession) -> assistants.Choice:
    """Return what answers a prompt: its assistant if still allowed, else the conversation's."""
    known = catalogue.current()
    requester = assistants.requester_in(session, key_id=schedule.via_key)
    wanted = schedule.assistant_id or session.assistant_id
    return assistants.choose(known, requester, assistant_id=wanted, model_id=session.model_id)


def language_of(schedule: Schedule) -> str:
    """Return the language of the gateway's sentences about a schedule."""
    return schedule.user.language.partition("-")[0] or languages.of_request(schedule.text)


def follow(occurrence: Occurrence, *, now: datetime) -> None:
    """Record what has become of a fired occurrence, or look again later. In a transaction."""
    found = outcomes.outcome_of(occurrence, now=now)
    if not found.is_over:
        rows = Occurrence.objects.filter(pk=occurrence.pk, state=Occurrence.State.FIRED)
        look_at = occurrences.next_look(occurrence, now=now)
        rows.update(look_at=look_at, executed_at=found.executed_at)
        return
    state = Occurrence.State.FAILED if found.failure else Occurrence.State.DONE
    settled = occurrences.settle(
        occurrence,
        state=state,
        executed_at=found.executed_at,
        delivered_at=found.delivered_at,
        note=outcomes.UNSURE if found.is_unsure else found.failure,
    )
    if settled:
        count(occurrence, found)


def count(occurrence: Occurrence, outcome: Outcome) -> None:
    """Count the failures in a row; the third pauses the schedule, and the person is told. A task
    that was stopped is neither a failure nor a success, and so is a message that may have arrived.
    """
    schedule, run = occurrence.schedule, occurrence.run
    if outcome.is_unsure or outcome.failure == outcomes.STOPPED:
        return
    if not outcome.failure:
        Schedule.objects.filter(pk=schedule.pk, failures__gt=0).update(failures=0)
        return
    schedule.failures += 1
    Schedule.objects.filter(pk=schedule.pk).update(failures=schedule.failures)
    if schedule.failures < MOST_FAILURES or schedule.state != Schedule.State.ACTIVE:
        return
    changes.pause(schedule_ids=[schedule.pk], why=Schedule.Why.FAILURES)
    was_not_delivered = outcome.executed_at is not None and run is not None
    deaf = run.session if run and was_not_delivered else None
    tell_paused(schedule, FAILED, outcome.failure, besides=deaf)


def put_off(occurrence_id: int, *, now: datetime) -> None:
    """Try an occurrence again later; after MOST_TRIES it fails, and the next one is planned."""
    try:
        with atomic_write():
            for row in locked([occurrence_id], now=now):
                tries = row.tries + 1
                wait = min(FIRST_RETRY * 2**tries, LONGEST_RETRY)
                waits = row.state == Occurrence.State.WAITING
                was_missed = missed.is_late(row, now=now) if waits else row.was_missed
                Occurrence.objects.filter(pk=row.pk).update(
                    tries=tries, look_at=now + wait, was_missed=was_missed
                )
                if tries >= MOST_TRIES:
                    give_up(row, now=now)
    except Exception:
        logger.exception("an occurrence could not be put off; it is tried again at once")


def give_up(occurrence: Occurrence, *, now: datetime) -> None:
    """End an occurrence that cannot be fired; pause its schedule if it has no next time."""
    schedule, reason = occurrence.schedule, "Something went wrong in the gateway."
    Occurrence.objects.filter(pk=occurrence.pk).update(
        state=Occurrence.State.FAILED, look_at=None, note=reason
    )
    try:
        with atomic_write():
            occurrences.plan(schedule, after=now)
    except Exception:
        logger.exception("the next time of a schedule could not be found; it is paused")
        changes.pause(schedule_ids=[schedule.pk], why=Schedule.Why.FAILURES)
        tell_paused(schedule, BROKEN, reason)
        return
    count(occurrence, Outcome(failure=reason))


def tell_paused(
    schedule: Schedule, sentence: str, reason: str, *, besides: ChatSession | None = None
) -> None:
    """Tell the person why a schedule is paused. ``besides``: a chat that takes no messages."""
    language = language_of(schedule)
    why = one_line(reason_in(language, reason), 200)
    tell(schedule, f"⏸ {sentence_about(schedule, sentence)}\n\n{why}", besides=besides)


def tell_still_busy(schedule: Schedule) -> None:
    """Tell the person, the first time, that a time is left out while the one before lasts."""
    if not Occurrence.objects.filter(schedule=schedule, note=STILL_BUSY).exists():
        tell(schedule, f"⏭ {sentence_about(schedule, BUSY)}")


def sentence_about(schedule: Schedule, sentence: str) -> str:
    """Return a sentence about a schedule, which names it, in its language."""
    words = sentence.format(one_line(schedule.text, 60))
    return phrases.in_language(words, language_of(schedule))


def tell(schedule: Schedule, text: str, *, besides: ChatSession | None = None) -> None:
    """Send a text of the gateway about a schedule; where that fails, its subject stays.

    ``besides``: a chat that takes no messages. Raises OperationalError, after which all is tried
    again.
    """
    try:
        with atomic_write():
            place = places.place_of(schedule) if besides is None else places.besides(besides)
            send(place, text, schedule=schedule, with_buttons=False)
    except OperationalError:
        raise
    except Exception:
        logger.exception("a person could not be told about a schedule")


def reason_in(language: str, reason: str) -> str:
    """Return the reason of a failure in a language; the words of a platform stay as they are."""
    error = reason.removeprefix(outcomes.NOT_DELIVERED)
    if error != reason:
        return phrases.translated(outcomes.UNDELIVERED, language).format(reason=error)
    return phrases.in_language(phrases.translated(reason, language), language)

"""Reminders and scheduled tasks of the person: make, list, change, pause, delete them.

The dates that the person sees are the gateway's (``ToolResult.shown``), not the model's.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.utils import timezone

from core.conversations.schedules import changes, dates, rules
from core.conversations.schedules.changes import Grant, RuleError, Wish
from core.database.transactions import atomic_write, in_thread
from core.lib.text import one_line
from core.models import ChatSession, Run, Schedule, User
from core.tools import languages, phrases
from core.tools.arguments import text_of
from core.tools.base import GrantOf, Tool, ToolContext, ToolError, ToolResult

ASK_ZONE = (
    "The person's time zone is not known. Ask in which city or time zone they are, then call again "
    "with time_zone (an IANA name such as Europe/Berlin)."
)
SHOWN_DATES = 3
PAUSED, DELETED = "Paused: {0}", "Deleted: {0}"
ONCE = "once"
NO_DATE = "at is a local date and time such as 2026-11-26T08:00."


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the tool: the arguments, and the person and place that it is for."""

    arguments: dict[str, Any]
    user: User
    session: ChatSession
    grant: Grant
    run: Run
    language: str
    made_by: str
    now: datetime
    grant_of: GrantOf

    def text(self, name: str) -> str:
        """Return an argument as text; empty for none."""
        return text_of(self.arguments.get(name)).strip()

    def say(self, line: str) -> str:
        """Return a line of the gateway in the person's language."""
        return phrases.in_language(line, self.language)


class ScheduleTool(Tool):
    name = "schedule"
    recorded = True  # a reminder that was made is found by the id of its call
    description = (
        "Reminders and scheduled tasks of the person: create, list, change, pause, resume, delete. "
        "kind text: text is sent as it is at that time (a reminder). kind prompt: you carry out "
        "text at that time (news, a summary, a question to ask). Once: at (local) or in_minutes. "
        "Again and again: rule, an RRULE with the time of day in it; at only if it matters when it "
        "begins. Weekdays at 7:30: FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=7;BYMINUTE=30. Sundays "
        "at 18: FREQ=WEEKLY;BYDAY=SU;BYHOUR=18;BYMINUTE=0. Last Friday of each month at 9: "
        "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0. Every 20 minutes: FREQ=MINUTELY;INTERVAL=20. "
        "Use current_time for tomorrow, next week and the like; list for an id. To change, give "
        "what is different only; another time of a repeated one is a whole new rule. The gateway "
        "shows the person the dates."
    )
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {
            "action": {
                "type": "string",
                "enum": ["create", "list", "change", "pause", "resume", "delete"],
            },
            "id": {"type": "string", "description": "Of list; to change, pause, resume, delete."},
            "kind": {"type": "string", "enum": ["text", "prompt"]},
            "text": {
                "type": "string",
                "description": "The reminder, or the task, in the person's language.",
            },
            "at": {"type": "string", "description": "Local, such as 2026-11-26T08:00."},
            "in_minutes": {"type": "number"},
            "rule": {
                "type": "string",
                "description": "An RRULE; none for once. In a change, once makes it a single one.",
            },
            "time_zone": {
                "type": "string",
                "description": "An IANA name; by default the person's own.",
            },
            "if_missed": {
                "type": "string",
                "enum": ["once", "skip"],
                "description": "If the gateway was off or busy at that time; by default once.",
            },
        },
        "required": ["action"],
        "additionalProperties": False,
    }

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Return the outcome for the model, and a line for the person. Raises ToolError."""
        action = ACTIONS.get(text_of(arguments.get("action")))
        if action is None:
            raise ToolError(f"action is one of {', '.join(ACTIONS)}.")
        return await in_thread(carry_out, action, context, arguments)


Action = Callable[[Call], ToolResult]


def carry_out(action: Action, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
    """Perform an action. Raises ToolError, also for a person who may have no schedules."""
    run = Run.objects.select_related("user", "session__account").get(pk=context.run_id)
    try:
        call = Call(
            arguments=arguments,
            user=run.user,
            session=run.session,
            grant=context.schedule_grant(),
            run=run,
            language=languages.of_request(context.request),
            made_by=f"{run.pk}:{sha256(context.tool_call_id.encode()).hexdigest()}",
            now=timezone.now(),
            grant_of=context.schedule_grant,
        )
        return action(call)
    except RuleError as error:
        raise ToolError(str(error)) from error


def create(call: Call) -> ToolResult:
    schedule = changes.create(
        user=call.user,
        session=call.session,
        wish=wish_of(call, zone=zone_for(call)),
        grant=call.grant,
        now=call.now,
        made_by=call.made_by,
        assistant_id=call.run.assistant_id,
    )
    return receipt(call, schedule)


def change(call: Call) -> ToolResult:
    schedule = wanted(call)
    zone = zone_for(call) if call.text("time_zone") else schedule.time_zone
    changed = changes.change(schedule=schedule, wish=wish_of(call, zone=zone), now=call.now)
    return receipt(call, changed)


def zone_for(call: Call) -> str:
    """Return the time zone meant; the first one named becomes the person's. Raises ToolError."""
    named = call.text("time_zone")
    if not named and not call.user.time_zone:
        raise ToolError(ASK_ZONE)
    zone = rules.zone_named(named or call.user.time_zone).key
    if not call.user.time_zone:
        with atomic_write():
            User.objects.filter(pk=call.user.pk, time_zone="").update(time_zone=zone)
    return zone


def wish_of(call: Call, *, zone: str | None) -> Wish:
    """Return the wanted properties of a schedule. Raises ToolError."""
    kind, missed = call.text("kind"), call.text("if_missed")
    if kind and kind not in Schedule.Kind.values:
        raise ToolError("kind is text or prompt.")
    if missed and missed not in Schedule.Missed.values:
        raise ToolError("if_missed is once or skip.")
    rule = call.text("rule")
    return Wish(
        text=call.text("text") or None,
        kind=kind or None,
        at=local_time(call.text("at"), zone or call.user.time_zone) if call.text("at") else None,
        minutes=minutes_of(call.arguments.get("in_minutes")),
        # Models fill in "" for what they leave out.
        rule="" if rule.lower() == ONCE else rule or None,
        time_zone=zone,
        missed=missed or None,
    )


def local_time(value: str, zone: str) -> datetime:
    """Return a local time; one with an offset is converted. Raises ToolError."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError as error:
        raise ToolError(NO_DATE) from error
    if "T" not in value.upper() and ":" not in value:
        raise ToolError("at has no time of day: ask for it, or use one such as 2026-11-26T08:00.")
    return rules.local_time(found, rules.zone_named(zone)) if found.tzinfo else found


def minutes_of(value: object) -> float | None:
    """Return a number of minutes; None for none. Raises ToolError."""
    if value in (None, "", 0):  # models fill in 0 or "" for what they leave out
        return None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            return float(value)
    raise ToolError("in_minutes is a number.")


def wanted(call: Call) -> Schedule:
    """Return the schedule that a call names; in a group only one of this chat. Raises ToolError."""
    name = call.text("id")
    found = next((row for row in shown_here(call) if row.public_id == name), None)
    if found is None:
        raise ToolError("There is no schedule with this id. Use action list to see the ids.")
    return found


def shown_here(call: Call) -> list[Schedule]:
    """Return the person's schedules; in a group, which others read, only those of this chat."""
    return changes.listed(call.user, session=call.session if call.grant.group else None)


def receipt(call: Call, schedule: Schedule) -> ToolResult:
    """Return what was stored, with the next dates in words, for the person and for the model."""
    shown = described(schedule, language=call.language, now=call.now)
    return ToolResult(
        f"Stored, id {schedule.public_id}. The person has been shown this, so do not repeat it; "
        f"confirm in a few words, and ask if it does not fit their request:\n{shown}",
        shown=shown,
    )


def described(schedule: Schedule, *, language: str, now: datetime) -> str:
    """Return the text of a schedule and its next dates in words, on two lines."""
    zone = rules.stored_zone(schedule.time_zone)
    times = changes.next_times(schedule, now=now, most=SHOWN_DATES if schedule.rule else 1)
    words = " · ".join(dates.in_words(each, zone, language) for each in times)
    if not times:
        words = phrases.in_language("paused", language)
    if schedule.rule:
        words = f"{dates.repeats(schedule.rule, language)}: {words}"
    return f"⏰ {changes.title_of(schedule)}\n{words} ({zone.key})"


def show_list(call: Call) -> ToolResult:
    lines = [listed_line(row) for row in shown_here(call)]
    return ToolResult("\n".join(lines) or "There are no schedules.")


def listed_line(row: Schedule) -> str:
    """Return a schedule on a line for the model."""
    zone = rules.stored_zone(row.time_zone)
    due = dates.in_words(row.next_at, zone, "en") if row.next_at else f"paused ({row.why})"
    how = f"{dates.repeats(row.rule, 'en')}, {row.rule}" if row.rule else "once"
    text = one_line(row.text, 200)
    return f"{row.public_id}: {row.kind} “{text}”, {due} ({zone.key}), {how}"


def pause(call: Call) -> ToolResult:
    schedule = wanted(call)
    changes.pause(schedule_ids=[schedule.pk], why=Schedule.Why.PERSON)
    return done(call, PAUSED, schedule)


def resume(call: Call) -> ToolResult:
    """Resume a schedule whose own grant is valid; the receipt shows its next dates."""
    schedule = wanted(call)
    call.grant_of(of=schedule)
    return receipt(call, changes.resume(schedule=schedule, now=call.now))


def delete(call: Call) -> ToolResult:
    schedule = wanted(call)
    changes.end(schedule=schedule)
    return done(call, DELETED, schedule)


def done(call: Call, line: str, schedule: Schedule) -> ToolResult:
    """Return that something was done, with a line for the person."""
    said = line.format(changes.title_of(schedule))
    return ToolResult(f"{said}. The person has been shown this.", shown=call.say(said))


ACTIONS: dict[str, Action] = {
    "create": create,
    "list": show_list,
    "change": change,
    "pause": pause,
    "resume": resume,
    "delete": delete,
}
TOOL = ScheduleTool()

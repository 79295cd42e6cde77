"""Schedules of all people in the admin, with their occurrences."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from allowlist import audit, schedule_grants
from core.admin.base import (
    ExtraContext,
    ReadOnlyAdmin,
    chosen,
    shown,
    shown_state,
    state_badge,
    visible_line,
)
from core.conversations.schedules import changes, dates, reports, rules
from core.conversations.schedules.changes import RuleError
from core.database.queries import only
from core.database.transactions import atomic_write
from core.lib.text import counted
from core.models import Occurrence, Schedule

MOST_OCCURRENCES = 50
MOST_REASONS = 5
COLOURS = {
    Schedule.State.ACTIVE: "approved",
    Schedule.State.PAUSED: "pending",
    Occurrence.State.DONE: "sent",
    Occurrence.State.FIRED: "running",
    Occurrence.State.SKIPPED: "pending",
}
Change = Callable[[Schedule], object]  # returns something true for a change
OWNER = Schedule.Why.OWNER


@admin.register(Schedule)
class ScheduleAdmin(ExtraContext, ReadOnlyAdmin[Schedule]):
    """Schedules; the page of one shows its newest occurrences."""

    brief = shown("text", limit=80)
    shown_text = shown("text", limit=4000)
    shown_chat = shown("chat")
    status = shown_state(colours=COLOURS)

    list_display = (
        "brief",
        "user",
        "kind",
        "repeats",
        "next_time",
        "status",
        "why",
        "failures",
        "channel",
    )
    list_filter = ("state", "why", "kind")
    list_select_related = ("user", "account")
    search_fields = ("public_id", "text", "user__username", "user__display_name")
    newest_by = F("pk")
    public_ids = ("public_id",)
    ordering = ("-id",)
    change_form_template = "dashboard/schedule.html"
    fields = (
        ("user", "kind"),
        "shown_text",
        ("repeats", "rule"),
        ("start", "time_zone"),
        ("next_time", "missed"),
        ("status", "why"),
        "failures",
        ("account", "shown_chat"),
        "session",
        ("created_at", "changed_at"),
    )
    actions = ("pause", "resume", "end")

    @admin.display(description="repeats", ordering="rule")
    def repeats(self, schedule: Schedule) -> str:
        """Show the rule in words."""
        return visible_line(dates.repeats(schedule.rule, "en"), 120)

    @admin.display(description="next time")
    def next_time(self, schedule: Schedule) -> str:
        """Show when it is due next, by the clock of the schedule's time zone."""
        if "next_at" not in vars(schedule):  # a page shows it several times
            schedule.next_at = reports.next_of([schedule.pk]).get(schedule.pk)
        due_at = schedule.next_at
        if due_at is None:
            return self.empty_value_display
        return dates.in_words(due_at, rules.stored_zone(schedule.time_zone), "en")

    @admin.display(description="channel", ordering="account")
    def channel(self, schedule: Schedule) -> str:
        """Show the account of the conversation in which it was made."""
        return visible_line(str(schedule.account), 60) if schedule.account else ""

    def listed(self, rows: list[Schedule]) -> list[Schedule]:
        """Add when each is due next, read at once."""
        found = reports.next_of([row.pk for row in rows])
        for row in rows:
            row.next_at = found.get(row.pk)
        return rows

    @admin.action(description="Pause", permissions=["act"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Pause the chosen schedules; their people see that the owner did."""
        done = carry_out(
            request, queryset, "paused", lambda row: changes.pause(schedule_ids=[row.pk], why=OWNER)
        )
        messages.info(request, f"Paused: {counted(done, 'schedule')}.")

    @admin.action(description="Resume", permissions=["act"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """Resume the chosen schedules; name the reasons of those that cannot be."""
        refused: list[str] = []
        done = carry_out(request, queryset, "resumed", lambda row: resume(row, refused))
        messages.info(request, f"Resumed: {counted(done, 'schedule')}.")
        for reason in refused[:MOST_REASONS]:
            messages.warning(request, reason)

    @admin.action(description="Delete for the person", permissions=["act"])
    def end(self, request: HttpRequest, queryset: QuerySet[Schedule]) -> None:
        """End the chosen schedules; their occurrences stay here."""
        done = carry_out(
            request, queryset, "ended", lambda row: changes.end(schedule=row, why=OWNER)
        )
        messages.info(request, f"Deleted: {counted(done, 'schedule')}.")

    def page_context(self, request: HttpRequest, row: Schedule) -> dict[str, Any]:
        """Return the newest occurrences."""
        own = Occurrence.objects.filter(only("schedule_id", row.pk))
        newest = list(own.order_by("schedule_id", "-nominal_at")[: MOST_OCCURRENCES + 1])
        shown_rows = newest[:MOST_OCCURRENCES]
        for each in shown_rows:
            each.label = label_of(each)  # type: ignore[attr-defined]
            each.badge = state_badge(  # type: ignore[attr-defined]
                COLOURS.get(Occurrence.State(each.state), each.state), label_of(each)
            )
        return {"occurrences": shown_rows, "more": len(newest) > MOST_OCCURRENCES}


def label_of(occurrence: Occurrence) -> str:
    """Return the state of an occurrence in words; its note says why, if it was not missed."""
    if occurrence.state == Occurrence.State.SKIPPED and occurrence.note:
        return "left out"
    return occurrence.get_state_display()


def carry_out(request: HttpRequest, queryset: QuerySet[Schedule], name: str, change: Change) -> int:
    """Change each schedule, and write each change to the audit; return how many changed.

    The audit names no text: its readers need not see what people plan.
    """
    done = 0
    for pk in chosen(queryset):
        with atomic_write():
            row = Schedule.objects.select_related("user", "account").filter(pk=pk).first()
            if row is None or not change(row):
                continue
            done += 1
            audit.record(
                actor=audit.actor_of(request.user),
                action=f"schedule.{name}",
                subject=f"schedule:{row.pk} of user:{row.user_id} {row.user}",
                now=timezone.now(),
            )
    return done


def resume(schedule: Schedule, refused: list[str]) -> bool:
    """Resume a paused schedule; append to ``refused`` why it cannot be."""
    if schedule.state != Schedule.State.PAUSED:
        return False
    now = timezone.now()
    reason = f"{visible_line(str(schedule.user), 60)}: "
    if not schedule_grants.is_still_valid(schedule, now=now):
        refused.append(f"{reason}the grant by which this was made has ended.")
        return False
    try:
        with atomic_write():  # a savepoint: a refused change leaves nothing
            changes.resume(schedule=schedule, now=now, by_owner=True)
    except RuleError as error:
        refused.append(f"{reason}{error}")
        return False
    return True

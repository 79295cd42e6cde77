"""Conversations in the admin: transcripts, runs with their events, messages, deliveries, files."""

from typing import Any

import orjson
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.defaultfilters import filesizeformat
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST

from core.admin.base import ExtraContext, ReadOnlyAdmin, chosen, shown, shown_state, visible_line
from core.admin.bounded import NewestValuesFilter
from core.conversations import outbox, runs
from core.database import statements
from core.database.queries import only
from core.files import storage
from core.jobs_worker import skills
from core.lib.read_once import read_once
from core.lib.text import counted, is_clean
from core.models import (
    ChatSession,
    Delivery,
    InboundMessage,
    Job,
    Message,
    Run,
    RunEvent,
    RunFailure,
    Skill,
    StoredFile,
)

MOST_LINES = 500
MOST_COUNTED = 1000
SKILL_NAME_CHARACTERS = 100
# The link to the page of the way of a message, run or delivery.
WAY_LINK = "dashboard/way_link_line.html"


@admin.register(ChatSession)
class ChatSessionAdmin(ExtraContext, ReadOnlyAdmin[ChatSession]):
    """Sessions; the page of one shows its transcript."""

    list_display = ("name", "user", "account", "lines", "last_message_at", "open")
    list_filter = (
        "account__channel",
        "last_message_at",
        ("closed_at", admin.EmptyFieldListFilter),
    )
    list_select_related = ("user", "account")
    search_fields = ("title", "public_id", "chat", "user__username", "user__display_name")
    newest_by = Coalesce("last_message_at", "created_at")
    public_ids = ("public_id",)
    ordering = (newest_by.desc(),)
    change_form_template = "dashboard/transcript.html"
    fields = ("user", "account", "chat", "thread", "created_at", "last_message_at", "closed_at")

    @admin.display(description="session", ordering="title")
    def name(self, session: ChatSession) -> str:
        return visible_line(str(session), 60)

    @admin.display(description="messages")
    def lines(self, session: ChatSession) -> str:
        """Show the number of messages, up to MOST_COUNTED."""
        count: int = getattr(session, "line_count", 0)
        return str(count) if count <= MOST_COUNTED else f"more than {MOST_COUNTED}"

    @admin.display(boolean=True)
    def open(self, session: ChatSession) -> bool:
        return session.closed_at is None

    def listed(self, rows: list[ChatSession]) -> list[ChatSession]:
        """Add the number of messages."""
        counts = statements.count_messages(
            sessions=[session.pk for session in rows], most=MOST_COUNTED + 1
        )
        for session in rows:
            session.line_count = counts.get(session.pk, 0)  # type: ignore[attr-defined]
        return rows

    def page_context(self, request: HttpRequest, row: ChatSession) -> dict[str, Any]:
        """Return the last messages, oldest first."""
        own = Message.objects.filter(only("session_id", row.pk))
        newest = own.order_by("session_id", "-id")
        lines = list(newest[: MOST_LINES + 1])
        return {"lines": lines[MOST_LINES - 1 :: -1], "more": len(lines) > MOST_LINES}


@admin.register(Run)
class RunAdmin(ExtraContext, ReadOnlyAdmin[Run]):
    """Runs; the page of one shows its events, jobs and deliveries."""

    shown_text = shown("text", limit=80)
    status = shown_state()
    pages = {"held": "held"}
    shown_error = shown("error", limit=500)

    list_display = (
        "public_id",
        "status",
        "user",
        "origin",
        "shown_text",
        "attempt",
        "created_at",
    )
    list_filter = ("state", ("origin", NewestValuesFilter), "created_at")
    list_select_related = ("user",)
    search_fields = ("public_id", "user__username", "user__display_name", "text", "error")
    newest_by = F("pk")
    public_ids = ("public_id",)
    ordering = ("-id",)
    change_form_template = "dashboard/run.html"
    change_form_before_template = WAY_LINK
    fields = (
        ("user", "session"),
        ("state", "attempt"),
        ("worker", "created_at"),
        ("started_at", "finished_at"),
        "shown_error",
        "failure_code",
        "failure_reason",
        "usage",
    )
    actions = ("cancel", "let_go")

    @admin.display(description="failure")
    def failure_code(self, run: Run) -> str:
        failure = failure_of(run)
        return failure.code if failure else ""

    @admin.display(description="the model server says")
    def failure_reason(self, run: Run) -> str:
        """Show the model server's reason, on one line."""
        failure = failure_of(run)
        return visible_line(failure.reason, 500) if failure else ""

    @admin.action(description="Cancel", permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        asked = [runs.request_cancel(run=run) for run in queryset.order_by("pk")]
        messages.info(request, f"Being cancelled: {sum(asked)} of {counted(len(asked), 'run')}.")

    @admin.action(description="Let held runs go on", permissions=["act"])
    def let_go(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Queue those of the chosen runs that are held since a restore."""
        messages.info(request, f"{counted(runs.let_go(queryset), 'run goes', 'runs go')} on.")

    @method_decorator(require_POST)
    def held_view(self, request: HttpRequest) -> HttpResponse:
        """Let all runs go on that are held since a restore (``choice=go``), or cancel them."""
        if not self.has_act_permission(request):
            raise PermissionDenied
        decide = self.let_go if request.POST.get("choice") == "go" else self.cancel
        decide(request, runs.held())
        return redirect("admin:index")

    def page_context(self, request: HttpRequest, row: Run) -> dict[str, Any]:
        """Return the event log, the jobs and the deliveries."""
        lines = [event_row(event) for event in row.events.order_by("seq")[: MOST_LINES + 1]]
        return {
            "events": lines[:MOST_LINES],
            "more": len(lines) > MOST_LINES,
            "jobs": row.jobs.order_by("id"),
            "deliveries": row.deliveries.order_by("block_index"),
        }


def failure_of(run: Run) -> RunFailure | None:
    """Return the failure of a run, read once for its page."""
    return read_once(run, "shown_failure", RunFailure.objects.filter(run=run).first)


def event_row(event: RunEvent) -> dict[str, Any]:
    """Return an event for display: its number, type and the rest as one line of JSON."""
    try:
        data = orjson.loads(event.data)
    except orjson.JSONDecodeError:
        return {"seq": event.seq, "type": "?", "rest": event.data}
    kind = data.pop("type", "?")
    return {"seq": event.seq, "type": kind, "rest": orjson.dumps(data).decode()}


@admin.register(InboundMessage)
class InboundMessageAdmin(ReadOnlyAdmin[InboundMessage]):
    """Inbound messages; raw bytes are not shown."""

    shown_text = shown("text", limit=2000)
    brief = shown("text", limit=80)
    shown_sender = shown("sender")
    shown_sender_name = shown("sender_name")
    shown_chat = shown("chat")
    shown_thread = shown("thread")
    status = shown_state()

    list_display = (
        "id",
        "status",
        "account",
        "user_or_sender",
        "brief",
        "received_at",
        "note",
    )
    list_filter = ("state", "account__channel", "received_at")
    list_select_related = ("account", "user")
    search_fields = ("sender", "sender_name", "text", "external_message_id", "user__username")
    newest_by = F("pk")
    ordering = ("-id",)
    change_form_before_template = WAY_LINK
    fields = (
        ("account", "kind"),
        ("shown_sender", "shown_sender_name"),
        ("shown_chat", "shown_thread"),
        ("state", "note"),
        ("session", "run"),
        "user",
        "shown_text",
        "received_at",
    )

    @admin.display(description="sender", ordering="sender")
    def user_or_sender(self, message: InboundMessage) -> str:
        """Show the user, or the sender's name on the platform."""
        return visible_line(str(message.user or message.sender_name or message.sender), 60)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin[Delivery]):
    """Deliveries; failed ones are retried or dismissed by hand."""

    shown_conversation = shown("conversation")
    status = shown_state()
    shown_error = shown("error", limit=500)

    list_display = (
        "id",
        "status",
        "account",
        "text_start",
        "attempt",
        "shown_error",
        "created_at",
        "sent_at",
    )
    list_filter = ("state", "account__channel", "created_at")
    list_select_related = ("account",)
    search_fields = ("dedupe_key", "conversation", "error", "run__public_id")
    newest_by = F("pk")
    public_ids = ("run__public_id",)
    ordering = ("-id",)
    change_form_before_template = WAY_LINK
    fields = (
        ("account", "session"),
        ("run", "block_index"),
        ("state", "attempt"),
        "retry_at",
        ("shown_conversation", "external_message_id"),
        "whole_text",
        "shown_error",
        ("created_at", "sent_at"),
    )
    actions = ("retry", "dismiss")

    @admin.display(description="text")
    def text_start(self, delivery: Delivery) -> str:
        return visible_line(str(delivery.payload.get("text", "")), 80)

    @admin.display(description="text")
    def whole_text(self, delivery: Delivery) -> str:
        """Show the text as far as it fits a page."""
        return visible_line(str(delivery.payload.get("text", "")), 4000)

    @admin.action(description="Send again", permissions=["act"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        """Retry dead and uncertain deliveries."""
        done = sum(outbox.retry(pk) for pk in chosen(queryset))
        messages.info(request, f"Sent again: {counted(done, 'delivery', 'deliveries')}.")

    @admin.action(description="Dismiss", permissions=["act"])
    def dismiss(self, request: HttpRequest, queryset: QuerySet[Delivery]) -> None:
        """Dismiss dead and uncertain deliveries."""
        done = sum(outbox.dismiss(pk) for pk in chosen(queryset))
        messages.info(request, f"Dismissed: {counted(done, 'delivery', 'deliveries')}.")


@admin.register(StoredFile)
class StoredFileAdmin(ReadOnlyAdmin[StoredFile]):
    """Files, without their path and content."""

    shown_name = shown("name", limit=80)

    list_display = (
        "shown_name",
        "user",
        "content_type",
        "shown_size",
        "opens",
        "created_at",
    )
    list_filter = (
        ("origin", NewestValuesFilter),
        ("revoked_at", admin.EmptyFieldListFilter),
        ("content_type", NewestValuesFilter),
        "created_at",
    )
    list_select_related = ("user",)
    newest_by = F("pk")
    public_ids = ("public_id", "session__public_id")
    search_fields = (
        "name",
        "public_id",
        "user__username",
        "user__display_name",
        "session__public_id",
    )
    ordering = ("-id",)
    actions = ("take_back",)
    fields = (
        "shown_name",
        ("content_type", "shown_size"),
        ("user", "origin"),
        ("session", "run"),
        ("revoked_at", "opens"),
        "sha256",
    )

    @admin.display(description="size", ordering="size")
    def shown_size(self, file: StoredFile) -> str:
        return filesizeformat(file.size)

    @admin.action(description="Revoke links", permissions=["act"])
    def take_back(self, request: HttpRequest, queryset: QuerySet[StoredFile]) -> None:
        """Revoke the links of the chosen files ([L4])."""
        done = sum(storage.revoke(file) for file in queryset)
        messages.info(request, f"Links revoked: those of {counted(done, 'file')}.")


@admin.register(Job)
class JobAdmin(ReadOnlyAdmin[Job]):
    """Long tasks; their events are in the log of their run."""

    shown_message = shown("message", limit=120)
    status = shown_state()
    shown_error = shown("error", limit=500)

    list_display = (
        "id",
        "status",
        "tool",
        "shown_plugin",
        "user",
        "percent",
        "shown_message",
        "attempt",
        "created_at",
        "finished_at",
    )
    list_filter = ("state", ("tool", NewestValuesFilter), "created_at")
    list_select_related = ("run__user",)
    newest_by = F("pk")
    public_ids = ("run__public_id",)
    search_fields = ("run__public_id", "run__user__username", "tool", "error")
    ordering = ("-id",)
    actions = ("cancel",)
    fields = (
        "run",
        ("tool", "shown_plugin"),
        ("state", "attempt"),
        "percent",
        "shown_message",
        "shown_error",
        ("created_at", "finished_at"),
    )

    @admin.display(description="plugin")
    def shown_plugin(self, job: Job) -> str:
        asked = job.parameters
        return visible_line(str(asked.get("plugin_id") or asked.get("skill") or ""), 60)

    @admin.display(description="user", ordering="run__user")
    def user(self, job: Job) -> str:
        return visible_line(str(job.run.user), 60)

    @admin.action(description="Cancel", permissions=["act"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Job]) -> None:
        """Cancel the runs of the chosen tasks; their files are deleted."""
        asked = [runs.request_cancel(run=job.run) for job in queryset.select_related("run")]
        messages.info(request, f"Being cancelled: {sum(asked)} of {counted(len(asked), 'task')}.")

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Return whether a person may cancel runs."""
        return request.user.has_perm("core.change_run")


@admin.register(Skill)
class SkillAdmin(ReadOnlyAdmin[Skill]):
    """The skills in ``GATEWAY_HOME/skills``; each is disabled until the owner enables it."""

    shown_name = shown("name", limit=80)

    list_display = (
        "shown_name",
        "enabled",
        "summary",
        "problem",
        "runs_a_script",
        "changed_at",
    )
    list_filter = ("enabled", "changed_at")
    search_fields = ("name",)
    ordering = ("name",)
    actions = ("switch_on", "switch_off")
    fields = list_display

    def get_queryset(self, request: HttpRequest) -> QuerySet[Skill]:
        """Create a row for each folder, broken ones too: opening the page finds new ones."""
        known = set(Skill.objects.values_list("name", flat=True))
        new = [
            Skill(name=name)
            for name in skills.looked_at()
            if name not in known and is_clean(name) and len(name) <= SKILL_NAME_CHARACTERS
        ]
        Skill.objects.bulk_create(new, ignore_conflicts=True)
        return super().get_queryset(request)

    @admin.display(description="description")
    def summary(self, skill: Skill) -> str:
        """Show the description in SKILL.md."""
        found = skills.looked_at().get(skill.name)
        if found is None:
            return "(its folder is gone)"
        return visible_line(found.description, 200) if isinstance(found, skills.Found) else ""

    @admin.display(description="problem")
    def problem(self, skill: Skill) -> str:
        """Show why it cannot be used; empty when it can."""
        return visible_line(skills.broken().get(skill.name, ""), 300)

    @admin.display(boolean=True, description="script")
    def runs_a_script(self, skill: Skill) -> bool:
        """Show whether it runs a program on this machine."""
        found = skills.every().get(skill.name)
        return found is not None and found.script is not None

    @admin.action(description="Switch on", permissions=["act"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Skill]) -> None:
        """Enable the chosen skills; a broken one stays disabled."""
        broken = skills.broken()
        for name in queryset.filter(name__in=list(broken)).values_list("name", flat=True):
            messages.error(request, f"{visible_line(name, 80)} was not switched on: {broken[name]}")
        switched = queryset.exclude(name__in=list(broken)).update(enabled=True)
        messages.info(request, f"Switched on: {counted(switched, 'skill')}.")

    @admin.action(description="Switch off", permissions=["act"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Skill]) -> None:
        switched = queryset.update(enabled=False)
        messages.info(request, f"Switched off: {counted(switched, 'skill')}.")

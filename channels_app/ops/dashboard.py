"""The first page of the admin: unknown requests, runs, failures, the last week, its messages."""

from datetime import timedelta
from typing import Any, cast

import orjson
from django.core.cache import cache
from django.db.models import Count
from django.db.models.functions import TruncDate
from django.http import HttpRequest
from django.utils import timezone

from allowlist import pending_count
from allowlist.models import UnknownRequest
from channels_app.ops import health, restored
from channels_app.ops.doctor import examination
from channels_app.owner import setup_steps, waiting_calls
from core.conversations import budgets, outbox, usage_reports
from core.conversations import runs as run_states
from core.conversations.usage_reports import Used
from core.lib import money
from core.models import Delivery, Job, Message, Run, RunFailure, User

SHOWN = 8
DAYS = 14
WEEK_DAYS = 7
CHART_CACHE_SECONDS = 60


def context(request: HttpRequest, given: dict[str, Any]) -> dict[str, Any]:
    """Add the dashboard's data to the template context; unfold's DASHBOARD_CALLBACK."""
    may = request.user.has_perm
    is_owner = isinstance(request.user, User) and request.user.is_owner
    found: dict[str, Any] = {"may_decide": is_owner}
    if is_owner:
        begun = setup_steps.has_begun()  # by the first sign-in
        found["first_steps"] = setup_steps.remaining(cast("User", request.user)) if begun else []
        found["findings"] = examination.cached(now=timezone.now())
    else:
        found["problems"] = health.problems_now() + health.model_problems()
    if may("allowlist.view_unknownrequest"):
        waiting_rows = UnknownRequest.objects.filter(state=UnknownRequest.State.PENDING)
        found["waiting"] = pending_count.count_on_page(request)
        found["requests"] = waiting_rows.select_related("account").order_by("-last_seen_at")[:SHOWN]
    if may("core.view_run"):
        # Each state by its own index: SQLite finds neither for both at once.
        runs = Run.objects.select_related("user")
        running = runs.filter(state=Run.State.RUNNING).order_by("lease_until")[:SHOWN]
        queued = runs.filter(state=Run.State.QUEUED).order_by("id")[:SHOWN]
        found["runs"] = sorted([*running, *queued], key=lambda run: run.pk)[:SHOWN]
        found["jobs"] = Job.objects.filter(state=Run.State.RUNNING).order_by("id")[:SHOWN]
    if may("core.change_run") and (made_at := restored.restored_from()):
        found["held"], found["restored_from"] = run_states.held().count(), made_at
    if may("core.view_delivery"):
        rows = Delivery.objects.filter(state__in=outbox.GIVEN_UP).select_related("account")
        found["dead"] = outbox.dead_count()
        found["deliveries"] = rows.order_by("-id")[:SHOWN]
    if may("core.view_run") and may("core.view_modelcall"):
        found["week"] = cache.get_or_set("dashboard:week", last_week, CHART_CACHE_SECONDS)
    if may("core.view_chatsession"):
        found["chart"] = cache.get_or_set("dashboard:messages", messages_a_day, CHART_CACHE_SECONDS)
    return {**given, "dashboard": found}


def has_first_steps(request: HttpRequest) -> bool:
    """Return whether steps of the first run are left for this user: the sidebar's entry."""
    return bool(setup_steps.remaining(cast("User", request.user)))


def waiting(request: HttpRequest) -> str:
    """Return the sidebar's badge: the number of pending unknown requests."""
    return str(pending_count.count_on_page(request))


def waiting_tool_calls(request: HttpRequest) -> str:
    """Return the sidebar's badge: the number of calls of tools that wait for a yes."""
    return str(waiting_calls.count_on_page(request))


def dead_letters(_: HttpRequest) -> str:
    """Return the sidebar's badge: the number of failed deliveries; empty for none."""
    return str(outbox.dead_count())


def last_week() -> dict[str, Any]:
    """Return the last seven days: failed answers, tokens, and their cost if prices are known."""
    last = budgets.day_of(timezone.now())
    first = last - timedelta(days=WEEK_DAYS - 1)
    used = usage_reports.sums((), since=first, until=last).get((), Used())
    since = timezone.now() - timedelta(days=WEEK_DAYS)
    return {
        "since": str(since),
        "first": first.isoformat(),
        "last": last.isoformat(),
        "failed": RunFailure.objects.filter(at__gte=since).count(),
        "calls": used.calls,
        "tokens": f"{used.tokens:,}",
        "cost": money.shown(used.cost) if used.cost else "",
    }


def messages_a_day() -> str:
    """Return the messages per day of two weeks, as the chart's JSON."""
    today = timezone.localdate()
    days = [today - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    since = timezone.now() - timedelta(days=DAYS)
    rows = (
        Message.objects.filter(created_at__gte=since)
        .annotate(day=TruncDate("created_at"))
        .values_list("day", "role")
        .annotate(number=Count("id"))
        .order_by()
    )
    counts = {(day, role == "user"): 0 for day in days for role in ("user", "")}
    for day, role, number in rows:
        if (day, role == "user") in counts:
            counts[day, role == "user"] += number
    return orjson.dumps(
        {
            "labels": [f"{day:%d %b}" for day in days],
            "datasets": [
                {
                    "label": label,
                    "data": [counts[day, from_user] for day in days],
                    "backgroundColor": colour,
                }
                for label, from_user, colour in (
                    ("from people", True, "var(--color-primary-600)"),
                    ("from the assistant", False, "var(--color-base-400)"),
                )
            ],
        }
    ).decode()

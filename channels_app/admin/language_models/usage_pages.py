"""Usage in the admin: plots, tables and CSV by person, assistant, model, channel and day."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from http import HTTPStatus
from typing import Any

import orjson
from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone

from channels_app.admin.language_models import usage_csv
from core.admin.base import PlainForm, ReadOnlyAdmin, shown, state_badge, visible_line
from core.conversations import budgets, usage_reports
from core.conversations.usage_reports import Report, Used
from core.lib import money
from core.models import ModelCall

DAYS = 30
MOST_DAYS = 366
RANGES = ((7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "a year"))
BARS = 10
MOST_LINES = 100
SERIES = 4  # models that a plot names; the rest is one series
OTHERS = "other models"
COLOURS = (
    "var(--color-primary-600)",
    "#3b82f6",
    "#f59e0b",
    "#a855f7",
    "var(--color-base-400)",
)
GREY = "#7b8494"  # legible on light and dark
GROUPS = {
    "person": "Person",
    "assistant": "Assistant",
    "model": "Model",
    "channel": "Channel",
    "day": "Day",
}
MEASURES = {"cost": "Cost", "tokens": "Tokens", "calls": "Calls"}
CSV_HEAD = (
    "calls",
    "failed",
    "estimated",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "reasoning_tokens",
    "dollars",
)
DAY_INPUT = forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d")


class RangeForm(PlainForm):
    """A range of days, both included."""

    first = forms.DateField(label="From", required=False, widget=DAY_INPUT)
    last = forms.DateField(label="To", required=False, widget=DAY_INPUT)
    measure = forms.ChoiceField(choices=list(MEASURES.items()), required=False, label="Show")

    def clean(self) -> dict[str, Any]:
        """Fill what is left out; refuse a range that is reversed or too long."""
        data = super().clean() or {}
        if self.errors:
            return data
        last = data["last"] = data.get("last") or max(today(), data.get("first") or date.min)
        first = data["first"] = data.get("first") or days_before(last)
        data["measure"] = data.get("measure") or "cost"
        if first > last:
            self.add_error("last", "The last day is before the first.")
        elif (last - first).days >= MOST_DAYS:
            self.add_error("first", f"Choose at most {MOST_DAYS} days.")
        return data


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table: a name, its figures as texts, and the width of its bar in percent."""

    name: str
    width: int
    cost: str
    tokens: str
    calls: str
    failed: str
    estimated: str


def row_of(name: str, total: Used, *, width: int = 0) -> Row:
    """Return the line of a sum."""
    counts = (total.tokens, total.calls, total.failed, total.estimated)
    return Row(name, width, price(total.cost), *(f"{each:,}" for each in counts))


def price(cost: int) -> str:
    """Return a cost in dollars; a dash where no price is known, or it is zero."""
    return money.shown(cost) if cost else "–"


def today() -> date:
    """Return the day in the owner's time zone."""
    return budgets.day_of(timezone.now())


def table(group: str, measure: str, report: Report) -> dict[str, Any]:
    """Return a table with bars of what is measured: the newest days, or the most. ``rows`` and
    ``more`` are shown, ``left`` is how many others there are.
    """
    found = report.groups[group]

    def amount(key: usage_reports.Key) -> int:
        return int(getattr(found[key], measure))

    keys = sorted(found, key=None if group == "day" else amount, reverse=True)
    most = max(map(amount, keys), default=0) or 1
    shown = keys[:MOST_LINES]
    names = usage_reports.labels(usage_reports.GROUPS[group], [key[0] for key in shown])
    lines = [
        row_of(visible_line(names[key[0]], 120), found[key], width=amount(key) * 100 // most)
        for key in shown
    ]
    more, left = lines[BARS:], len(found) - len(lines)
    return {"rows": lines[:BARS], "more": more, "left": left, "others": len(more) + left}


def chart(measure: str, report: Report, *, since: date, until: date) -> str:
    """Return the plot as the JSON of the admin's chart: a bar a day, a colour a model."""
    days = [since + timedelta(days=each) for each in range((until - since).days + 1)]
    models = [each.label for each in report.rows("model")]
    named = models if len(models) <= SERIES + 1 else models[:SERIES]
    cells: dict[tuple[str, date], int] = {}
    for (model, day), used in report.by_model_and_day.items():
        label = str(model or "–")
        key = (label if label in named else OTHERS, day)
        cells[key] = cells.get(key, 0) + getattr(used, measure)
    scale = money.BILLION if measure == "cost" else 1
    series = named if len(named) == len(models) else [*named, OTHERS]
    sets = [
        {
            "label": visible_line(name, 60),
            "data": [cells.get((name, day), 0) / scale for day in days],
            "backgroundColor": COLOURS[number % len(COLOURS)],
        }
        for number, name in enumerate(series)
    ]
    labels = [f"{day:%d %b}" for day in days]
    return orjson.dumps({"labels": labels, "datasets": sets}).decode()


CHART_OPTIONS = orjson.dumps(
    {
        "animation": False,
        "maintainAspectRatio": False,
        "scales": {
            "x": {"stacked": True, "ticks": {"color": GREY}},
            "y": {"stacked": True, "beginAtZero": True, "ticks": {"color": GREY}},
        },
        "plugins": {
            "legend": {
                "display": True,
                "position": "bottom",
                "labels": {"boxWidth": 10, "color": GREY},
            }
        },
    }
).decode()


@admin.register(ModelCall)
class ModelCallAdmin(ReadOnlyAdmin[ModelCall]):
    """Single calls of models; and the pages that sum them."""

    shown_model = shown("model_name", limit=80)

    list_display = (
        "created_at",
        "user",
        "shown_model",
        "purpose",
        "prompt_tokens",
        "completion_tokens",
        "price",
        "outcome",
    )
    list_filter = ("purpose", "estimated", "state", "created_at")
    list_select_related = ("user",)
    search_fields = ("model_name", "user__username", "run__public_id")
    newest_by = F("pk")
    public_ids = ("run__public_id",)
    ordering = ("-id",)
    list_before_template = "language_models/calls_above.html"
    pages = {"usage": "usage/", "csv": "usage/csv/"}
    fields = (
        ("created_at", "day"),
        ("user", "purpose"),
        ("run", "attempt"),
        "shown_model",
        ("price", "estimated"),
        ("prompt_tokens", "cached_tokens"),
        ("completion_tokens", "reasoning_tokens"),
        ("state", "failure"),
    )

    @admin.display(description="cost", ordering="cost")
    def price(self, call: ModelCall) -> str:
        return price(call.cost) + ("\u00a0(estimated)" if call.cost and call.estimated else "")

    @admin.display(description="outcome", ordering="failure")
    def outcome(self, call: ModelCall) -> Any:
        if call.state == ModelCall.State.OPEN:
            return state_badge("running", "open")
        return state_badge("failed", call.failure) if call.failure else state_badge("sent", "ok")

    def usage_view(self, request: HttpRequest) -> HttpResponseBase:
        """Show a range of days."""
        return self.page_of(request, self.range_of(request))

    def page_of(
        self, request: HttpRequest, form: RangeForm, *, status: int = HTTPStatus.OK
    ) -> HttpResponseBase:
        """Return the page of a range, or of what is wrong with it."""
        context = self.admin_site.each_context(request) | {
            "title": "Usage",
            "content_title": "Usage",
            "form": form,
            "ranges": ranges(),
        }
        if form.is_valid():
            context |= summary(form.cleaned_data)
        return TemplateResponse(request, "language_models/usage.html", context, status=status)

    def csv_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return a range of days as CSV: summed by ``by``, or by everything."""
        form = self.range_of(request)
        if not form.is_valid():
            return self.page_of(request, form, status=HTTPStatus.BAD_REQUEST)
        since, until = form.cleaned_data["first"], form.cleaned_data["last"]
        group = request.GET.get("by", "")
        rows: Iterator[tuple[object, ...]]
        if group in GROUPS:
            rows = sum_rows(group, since=since, until=until)
        else:
            group, rows = "all", usage_reports.csv_rows(since=since, until=until)
        name = f"usage-{group}-{since}-{until}.csv"
        return usage_csv.response(request, rows, name=name)

    def range_of(self, request: HttpRequest) -> RangeForm:
        """Return the range of a request. Raises PermissionDenied."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return RangeForm(request.GET)


def days_before(last: date) -> date:
    """Return the first of DAYS days; the calendar has a first one too."""
    return date.fromordinal(max(1, last.toordinal() - DAYS + 1))


def ranges() -> list[dict[str, str]]:
    """Return the ranges that one tap chooses: until today, and the current month."""
    last = today()
    found = [
        {"label": label, "first": f"{last - timedelta(days=days - 1)}", "last": f"{last}"}
        for days, label in RANGES
    ]
    return [*found, {"label": "this month", "first": f"{last.replace(day=1)}", "last": f"{last}"}]


def summary(data: dict[str, Any]) -> dict[str, Any]:
    """Return what the page of a range shows."""
    since, until, measure = data["first"], data["last"], data["measure"]
    report = usage_reports.report(since=since, until=until)
    total = report.total
    tables = []
    for group, label in GROUPS.items():
        tables.append({"by": group, "label": label, **table(group, measure, report)})
    return {
        "total": total,
        "figures": row_of("", total),
        "tables": tables,
        "measure": measure,
        "measure_label": MEASURES[measure],
        "chart": chart(measure, report, since=since, until=until),
        "chart_options": CHART_OPTIONS,
        "range": {"first": f"{data['first']}", "last": f"{data['last']}"},
    }


def sum_rows(group: str, *, since: date, until: date) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a group, with their head."""
    yield (group, *CSV_HEAD)
    for each in usage_reports.by(group, since=since, until=until):
        counts = [getattr(each.used, name) for name in CSV_HEAD[:-1]]
        yield (visible_line(each.label, 200), *counts, money.plain(each.used.cost))

"""Usage in the admin: plots, tables and CSV by person, assistant, model, channel and day."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import orjson
from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path

from channels_app.admin.language_models import money, usage_csv
from core.admin.base import ReadOnlyAdmin, shown, state_badge, visible_line
from core.conversations import usage_reports
from core.conversations.usage_reports import Part, Total
from core.models import Assistant, ChannelAccount, ModelCall, User

DAYS = 30
MOST_DAYS = 366
RANGES = ((7, "7 days"), (30, "30 days"), (90, "90 days"), (365, "a year"))
BARS = 10
SERIES = 4  # models that a plot names; the rest is one series
COLOURS = (
    "var(--color-primary-600)",
    "#3b82f6",
    "#f59e0b",
    "#a855f7",
    "var(--color-base-400)",
)
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
CALL_HEAD = ("day", "time", "person", "channel", "assistant", "model", "purpose", "failure")
INPUT = {"class": "dashboard-input"}


class RangeForm(forms.Form):
    """A range of days, both included."""

    first = forms.DateField(
        label="From",
        required=False,
        widget=forms.DateInput(attrs={**INPUT, "type": "date"}, format="%Y-%m-%d"),
    )
    last = forms.DateField(
        label="To",
        required=False,
        widget=forms.DateInput(attrs={**INPUT, "type": "date"}, format="%Y-%m-%d"),
    )
    measure = forms.ChoiceField(
        choices=list(MEASURES.items()),
        required=False,
        label="Show",
        widget=forms.Select(attrs=INPUT),
    )

    def clean(self) -> dict[str, Any]:
        """Fill what is left out; refuse a range that is reversed or too long."""
        data = super().clean() or {}
        if self.errors:
            return data
        last = data["last"] = data.get("last") or max(
            usage_reports.today(), data.get("first") or date.min
        )
        first = data["first"] = data.get("first") or last - timedelta(days=DAYS - 1)
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


def row_of(name: str, total: Total, *, width: int = 0) -> Row:
    """Return the line of a sum."""
    counts = (total.tokens, total.calls, total.failed, total.estimated)
    return Row(name, width, money.shown(total.cost), *(f"{each:,}" for each in counts))


class Names:
    """The names of people, assistants and accounts by their number."""

    def __init__(self) -> None:
        """Read those of assistants and accounts, which are few."""
        self._assistants = {row.pk: str(row) for row in Assistant.objects.all()}
        self._accounts = {row.pk: str(row) for row in ChannelAccount.objects.all()}
        self._people: dict[int, str] = {}

    def know(self, people: set[int]) -> None:
        """Read the names of people at once."""
        rows = User.objects.filter(pk__in=people - self._people.keys())
        self._people |= {row.pk: str(row) for row in rows}

    def person(self, user_id: int) -> str:
        return self._of(self._people, user_id, "deleted person")

    def assistant(self, assistant_id: int) -> str:
        return self._of(self._assistants, assistant_id, "deleted assistant")

    def channel(self, account_id: int) -> str:
        return self._of(self._accounts, account_id, "deleted account")

    def of(self, group: str, part: Part) -> str:
        """Return the name of a part in a group."""
        if group == "day":
            return part.day.isoformat()
        if group == "model":
            return visible_line(part.model_name, 120) or "unknown model"
        if group == "person":
            return self.person(part.user_id)
        if group == "assistant":
            return self.assistant(part.assistant_id)
        return self.channel(part.account_id)

    def _of(self, known: dict[int, str], number: int, gone: str) -> str:
        return visible_line(known[number], 80) if number in known else gone if number else "–"


def by(group: str, found: list[Part], names: Names) -> list[tuple[str, Total]]:
    """Return the sums of a group by name: days in order, others by cost."""
    names.know({each.user_id for each in found})
    totals = usage_reports.summed(found, lambda part: names.of(group, part))
    if group == "day":
        return sorted(totals.items())
    return sorted(totals.items(), key=lambda each: (-each[1].cost, -each[1].tokens, each[0]))


def table(sums: list[tuple[str, Total]], measure: str) -> list[Row]:
    """Return the lines of a table with bars of what is measured."""
    sums = sorted(sums, key=lambda each: -getattr(each[1], measure))
    most = max((getattr(total, measure) for _, total in sums), default=0) or 1
    return [
        row_of(name, total, width=getattr(total, measure) * 100 // most) for name, total in sums
    ]


def chart(found: list[Part], names: Names, data: dict[str, Any]) -> str:
    """Return the plot as the JSON of the admin's chart: a bar a day, a colour a model."""
    measure, first, last = data["measure"], data["first"], data["last"]
    days = [first + timedelta(days=each) for each in range((last - first).days + 1)]
    models = [name for name, _ in by("model", found, names)]
    named = models[:SERIES] if len(models) > SERIES + 1 else models
    cells: dict[tuple[str, date], int] = {}
    for part in found:
        name = names.of("model", part)
        key = (name if name in named else "other models", part.day)
        cells[key] = cells.get(key, 0) + getattr(part.total, measure)
    series = named + (["other models"] if len(named) < len(models) else [])
    scale = money.BILLION if measure == "cost" else 1
    sets = [
        {
            "label": name,
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
        "scales": {"x": {"stacked": True}, "y": {"stacked": True, "beginAtZero": True}},
        "plugins": {"legend": {"display": True, "position": "bottom", "labels": {"boxWidth": 10}}},
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
    fields = (
        ("created_at", "day", "purpose"),
        ("user", "run", "attempt"),
        ("shown_model", "price", "estimated"),
        ("prompt_tokens", "cached_tokens"),
        ("completion_tokens", "reasoning_tokens"),
        ("state", "failure"),
    )

    @admin.display(description="cost", ordering="cost")
    def price(self, call: ModelCall) -> str:
        return money.shown(call.cost) + (" (estimated)" if call.estimated else "")

    @admin.display(description="outcome", ordering="failure")
    def outcome(self, call: ModelCall) -> Any:
        if call.state == ModelCall.State.OPEN:
            return state_badge("running", "open")
        return state_badge("failed", call.failure) if call.failure else state_badge("sent", "ok")

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        return [
            path("usage/", wrap(self.usage_view), name="core_modelcall_usage"),
            path("usage/csv/", wrap(self.csv_view), name="core_modelcall_csv"),
            *super().get_urls(),
        ]

    def usage_view(self, request: HttpRequest) -> HttpResponseBase:
        """Show a range of days."""
        form = self.range_of(request)
        context = self.admin_site.each_context(request) | {
            "title": "Usage",
            "opts": self.model._meta,
            "form": form,
            "ranges": ranges(),
        }
        if form.is_valid():
            context |= summary(form.cleaned_data)
        return TemplateResponse(request, "language_models/usage.html", context)

    def csv_view(self, request: HttpRequest) -> HttpResponseBase:
        """Return a range of days as CSV: summed by ``by``, or single calls."""
        form = self.range_of(request)
        if not form.is_valid():
            return TemplateResponse(
                request,
                "language_models/usage.html",
                self.admin_site.each_context(request)
                | {"title": "Usage", "opts": self.model._meta, "form": form, "ranges": ranges()},
                status=400,
            )
        first, last = form.cleaned_data["first"], form.cleaned_data["last"]
        group = request.GET.get("by", "")
        group = group if group in GROUPS else "calls"
        rows = call_rows(first, last) if group == "calls" else sum_rows(group, first, last)
        return usage_csv.response(rows, name=f"usage-{group}-{first}-{last}.csv")

    def range_of(self, request: HttpRequest) -> RangeForm:
        """Return the range of a request. Raises PermissionDenied."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return RangeForm(
            {
                "first": request.GET.get("first", ""),
                "last": request.GET.get("last", ""),
                "measure": request.GET.get("measure", ""),
            }
        )


def ranges() -> list[dict[str, str]]:
    """Return the ranges that one tap chooses: until today, and the current month."""
    today = usage_reports.today()
    found = [
        {"label": label, "first": f"{today - timedelta(days=days - 1)}", "last": f"{today}"}
        for days, label in RANGES
    ]
    return [*found, {"label": "this month", "first": f"{today.replace(day=1)}", "last": f"{today}"}]


def summary(data: dict[str, Any]) -> dict[str, Any]:
    """Return what the page of a range shows."""
    found = usage_reports.parts(first=data["first"], last=data["last"])
    names, measure = Names(), data["measure"]
    total = usage_reports.summed(found, lambda _: "").get("", Total())
    tables = []
    for group, label in GROUPS.items():
        rows = by(group, found, names)
        lines = (
            table(rows, measure) if group != "day" else list(reversed(table_of_days(rows, measure)))
        )
        tables.append({"by": group, "label": label, "rows": lines[:BARS], "more": lines[BARS:]})
    return {
        "total": total,
        "figures": row_of("", total),
        "tables": tables,
        "measure": measure,
        "measure_label": MEASURES[measure],
        "chart": chart(found, names, data),
        "chart_options": CHART_OPTIONS,
        "range": {"first": f"{data['first']}", "last": f"{data['last']}"},
    }


def table_of_days(sums: list[tuple[str, Total]], measure: str) -> list[Row]:
    """Return the lines of the days, in their order."""
    return sorted(table(sums, measure), key=lambda row: row.name)


def figures(total: Total) -> tuple[object, ...]:
    """Return the cells of CSV_HEAD."""
    return (
        total.calls,
        total.failed,
        total.estimated,
        total.prompt_tokens,
        total.cached_tokens,
        total.completion_tokens,
        total.reasoning_tokens,
        money.plain(total.cost),
    )


def sum_rows(group: str, first: date, last: date) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a group, with their head."""
    yield (group, *CSV_HEAD)
    for name, total in by(group, usage_reports.parts(first=first, last=last), Names()):
        yield (name, *figures(total))


def call_rows(first: date, last: date) -> Iterator[tuple[object, ...]]:
    """Yield single calls, with their head."""
    yield (*CALL_HEAD, *CSV_HEAD[2:])
    names = Names()
    for call in usage_reports.calls(first=first, last=last):
        yield (
            call.day.isoformat(),
            call.created_at.isoformat(timespec="seconds"),
            visible_line(str(call.user), 80) if call.user is not None else "",
            names.channel(call.account_id),
            names.assistant(call.assistant_id),
            visible_line(call.model_name, 120),
            call.purpose,
            call.failure,
            int(call.estimated),
            call.prompt_tokens,
            call.cached_tokens,
            call.completion_tokens,
            call.reasoning_tokens,
            money.plain(call.cost),
        )

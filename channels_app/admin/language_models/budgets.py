"""Budgets in the admin: a limit, for whom, and how much of it is used."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery, Value
from django.db.models.functions import Concat
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminDecimalFieldWidget

from allowlist.admin.audited import AuditedAdmin, OnlyDeciders
from channels_app.admin.language_models import keys
from core.admin.base import ChangedFieldsOnly, ExtraContext, ModelForm, badge, visible_line
from core.conversations import budget_words, budgets
from core.lib import money
from core.lib.read_once import read_once
from core.models import Budget, BudgetPeriod, User

Unit = Budget.Unit
TARGETS = ("user", "key_id", "account", "assistant")
WHAT = ("unit", "period", "each_person", *TARGETS)
MOST = 2**63 - 1
MOST_PEOPLE = 50


class BudgetForm(ChangedFieldsOnly, ModelForm[Budget]):
    """Enter the limit in dollars for money, else as a whole number."""

    key_id = keys.KeyField(label="API key", help_text="All that is asked with it.")
    amount = forms.DecimalField(
        label="Limit",
        max_digits=24,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any", "min": "0"}),
        help_text="Dollars, tokens or messages, by the unit.",
    )

    class Meta:
        model = Budget
        fields = (*WHAT, "enabled")
        labels = {"user": "Person"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Show the stored limit in its unit."""
        super().__init__(*args, **kwargs)
        fields, row = self.fields, self.instance
        if "key_id" in fields:
            keys.fill(self, kept=row.key_id)
        if row.pk and "amount" in fields:
            is_money = row.unit == Unit.MONEY
            fields["amount"].initial = money.plain(row.limit) if is_money else row.limit
        if "each_person" in fields:
            fields["each_person"].help_text = "The limit is each person's own, not a common one."

    def clean(self) -> dict[str, Any]:
        """Accept at most one target, and a limit that the unit can have."""
        data = super().clean() or {}
        given = [name for name in TARGETS if data.get(name)]
        for name in given[1:]:
            words = "A budget has one target at most. Add another budget for this."
            self.add_error(name, words)
        if data.get("each_person") and data.get("user"):
            words = "A budget of one person is this person's already."
            self.add_error("each_person", words)
        is_new = self.instance.pk is None
        if "amount" in data and (is_new or {"amount", "unit"} & set(self.changed_data)):
            self.set_limit(data["amount"], data.get("unit") or self.instance.unit)
        return data

    def set_limit(self, amount: Decimal, unit: str) -> None:
        """Set the limit and its unit, as the page shows them beside each other."""
        limit, words = limit_of(amount, unit)
        if words:
            self.add_error("amount", words)
        else:
            self.instance.limit, self.instance.unit = limit, unit


def limit_of(amount: Decimal, unit: str) -> tuple[int, str]:
    """Return a limit as it is stored, and the error of a wrong one; empty for none."""
    if amount <= 0:
        return 0, "Enter more than zero."
    try:
        limit = money.billionths(amount) if unit == Unit.MONEY else whole(amount)
    except ValueError:
        if unit == Unit.MONEY:
            return 0, "Enter at most nine digits after the point."
        return 0, f"Enter a whole number of {Unit(unit).label}."
    return (limit, "") if limit <= MOST else (0, "This is more than can be counted.")


def whole(amount: Decimal) -> int:
    """Return a whole number. Raises ValueError for another one."""
    if amount != amount.to_integral_value():
        raise ValueError("not a whole number")
    return int(amount)


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a budget in its current period. Widths are percents of the limit, at most 100."""

    person: str
    spent: str
    reserved: str
    limit: str
    percent: int
    spent_width: int
    reserved_width: int

    @property
    def level(self) -> str:
        """Return the colour of the bar."""
        if self.percent >= 100:
            return "danger"
        return "warning" if self.percent >= 80 else "success"


def use_of(budget: Budget, period: BudgetPeriod | None, person: str = "") -> Use:
    """Return the use of a period; of one that has not begun, nothing."""
    spent, reserved = (period.spent, period.reserved) if period is not None else (0, 0)
    limit = max(budget.limit, 1)
    spent_width = min(100, spent * 100 // limit)
    return Use(
        person=person,
        spent=budget_words.amount(budget.unit, spent),
        reserved=budget_words.amount(budget.unit, reserved) if reserved else "",
        limit=budget_words.amount(budget.unit, budget.limit),
        percent=(spent + reserved) * 100 // limit,
        spent_width=spent_width,
        reserved_width=min(100 - spent_width, reserved * 100 // limit),
    )


def start_of(budget: Budget) -> date:
    """Return the first day of the current period, in the owner's time zone."""
    return budgets.start_of(budget.period, budgets.day_of(timezone.now()))


def uses(budget: Budget) -> list[Use]:
    """Return the use of the current period: one, or that of each person who used most."""
    rows = list(
        BudgetPeriod.objects.filter(
            budget=budget, start=start_of(budget), measure=budgets.measure_of(budget)
        ).order_by("-spent", "id")
    )
    if not budget.each_person:
        return [use_of(budget, next(iter(rows), None))]
    rows = rows[:MOST_PEOPLE]
    people = User.objects.in_bulk([row.person for row in rows])
    return [use_of(budget, row, name_of(row, people)) for row in rows]


def name_of(period: BudgetPeriod, people: dict[int, User]) -> str:
    """Return whose a period of a budget of each person is."""
    return visible_line(str(people.get(period.person, "deleted person")), 60)


def most_used(rows: list[Budget]) -> dict[int, Use]:
    """Return the use of each budget in its current period; of many people the one who used most.

    A fixed number of queries, however many budgets there are.
    """
    periods = dict(budgets_and_periods(rows))
    found = BudgetPeriod.objects.in_bulk(periods.values())
    people = User.objects.in_bulk([each.person for each in found.values()])
    uses_found = {}
    for row in rows:
        period = found.get(periods.get(row.pk, 0))
        person = name_of(period, people) if row.each_person and period is not None else ""
        uses_found[row.pk] = use_of(row, period, person)
    return uses_found


def budgets_and_periods(rows: list[Budget]) -> Iterator[tuple[int, int]]:
    """Yield the ids of budgets with those of their current periods in which most was used."""
    for name, first in {row.period: row for row in rows}.items():
        measure = Concat(OuterRef("unit"), Value("/"), OuterRef("period"))
        of_one = BudgetPeriod.objects.filter(
            budget=OuterRef("pk"), start=start_of(first), measure=measure
        )
        top = Subquery(of_one.order_by("-spent", "id").values("pk")[:1])
        same = Budget.objects.filter(pk__in=[row.pk for row in rows], period=name)
        yield from same.annotate(top=top).exclude(top=None).values_list("pk", "top")


@admin.register(Budget)
class BudgetAdmin(OnlyDeciders, ExtraContext, AuditedAdmin[Budget]):
    """Budgets; changed by owners. The target stays. With another unit or period it begins anew."""

    form = BudgetForm
    list_display = ("shown_limit", "target", "used", "state")
    list_filter = ("unit", "period", "enabled")
    search_fields = ("user__username", "user__display_name", "account__name", "assistant__name")
    ordering = ("id",)
    autocomplete_fields = ("user",)
    change_form_outer_before_template = "language_models/budget_above.html"

    @admin.display(description="limit")
    def shown_limit(self, row: Budget) -> str:
        name = row.get_unit_display()[: -1 if row.limit == 1 else None]
        unit = "" if row.unit == Unit.MONEY else f" {name}"
        return f"{budget_words.amount(row.unit, row.limit)}{unit} {row.get_period_display()}"

    @admin.display(description="for")
    def target(self, row: Budget) -> str:
        """Say whose it is."""
        of = row.user or row.account or row.assistant or self.key_name(row)
        name = visible_line(str(of), 80) if of else ""
        if row.each_person:
            return f"each person on {name}" if name else "each person"
        return name or "everyone, one limit"

    @admin.display(description="used now")
    def used(self, row: Budget) -> SafeString:
        """Show the current period; of many people the one who used most."""
        found: list[Use] = getattr(row, "shown_uses", [])
        return render_to_string("language_models/bar.html", {"uses": found})

    def listed(self, rows: list[Budget]) -> list[Budget]:
        """Add the uses and the names of the keys, read at once."""
        found, names = most_used(rows), keys.names_of([row.key_id for row in rows])
        for row in rows:
            vars(row)["shown_uses"] = [found[row.pk]]
            vars(row)["key_label"] = names.get(row.key_id, "")
        return rows

    @admin.display(description="state", ordering="enabled")
    def state(self, row: Budget) -> SafeString:
        return badge("enabled", "success") if row.enabled else badge("disabled")

    @admin.display(description="API key")
    def key_name(self, row: Budget) -> str:
        """Return the name of the key; a page shows it several times."""
        return read_once(row, "key_label", lambda: keys.name_of(row.key_id))

    def get_fieldsets(self, request: HttpRequest, obj: Budget | None = None) -> Any:
        """Fix whose an existing budget is."""
        if obj is None:
            top = (None, {"fields": ("amount", ("unit", "period"), "each_person", "enabled")})
            return (
                top,
                ("Only for one of these; else for everyone, one limit", {"fields": TARGETS}),
            )
        amount = "amount" if self.has_change_permission(request, obj) else "shown_limit"
        return ((None, {"fields": (amount, ("unit", "period"), "target", "enabled")}),)

    def get_readonly_fields(self, request: HttpRequest, obj: Budget | None = None) -> Any:
        return () if obj is None else ("shown_limit", "target")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Budget]:
        return super().get_queryset(request).select_related("user", "account", "assistant")

    def save_model(self, request: HttpRequest, obj: Budget, form: Any, change: Any) -> None:
        """Record the limit too, whose field has another name."""
        before = Budget.objects.filter(pk=obj.pk).values_list("limit", flat=True).first()
        super().save_model(request, obj, form, change)
        if before != obj.limit:
            self.record(request, "limit_set", obj, {"limit": [before, obj.limit]})

    def page_context(self, request: HttpRequest, row: Budget) -> dict[str, Any]:
        """Return how much is used, and since when."""
        return {
            "uses": uses(row),
            "start": start_of(row),
            "end": budgets.end_of(row.period, start_of(row)).date(),
        }

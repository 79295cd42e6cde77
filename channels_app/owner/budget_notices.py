"""Notices that a budget is nearly or wholly used: once a period, to the owners and the person."""

from datetime import date, datetime

from django.db.models import F, Q, Value
from django.db.models.functions import Concat, Now

from allowlist.models import ApiKey
from channels_app.owner import notices
from core.conversations import budget_words, budgets
from core.database.transactions import atomic_write
from core.lib.interface_language import spoken
from core.models import Budget, BudgetPeriod, User
from core.providers import catalogue

AT_ONCE = 100
# Both databases divide whole numbers without a rest: 80 %, rounded up. A multiple of the highest
# limit would be more than they can hold.
MANY = Q(spent__gte=F("budget__limit") - F("budget__limit") / 5)
# Others are of the budget before it was edited.
AS_IT_IS = Q(measure=Concat("budget__unit", Value("/"), "budget__period"))
ALL = Q(spent__gte=F("budget__limit")) | Q(refused_at__isnull=False)


def look(*, now: datetime) -> None:
    """Tell of budgets that have reached 80 % or 100 %. A chore."""
    if not catalogue.current().budgets:
        return
    day = budgets.day_of(now)
    rows = BudgetPeriod.objects.filter(
        current(day), AS_IT_IS, told_100_at=None, budget__enabled=True
    ).select_related("budget__user")
    for row in rows.filter(ALL).order_by("start")[:AT_ONCE]:
        tell(row, percent=100, end=budgets.end_of(row.budget.period, day))
    for row in rows.filter(MANY, told_80_at=None).exclude(ALL).order_by("start")[:AT_ONCE]:
        tell(row, percent=80, end=budgets.end_of(row.budget.period, day))


def current(day: date) -> Q:
    """Return the condition that ``day`` is in a period."""
    begun = Q()
    for period in Budget.Period:
        begun |= Q(budget__period=period, start=budgets.start_of(period, day))
    return begun


def tell(row: BudgetPeriod, *, percent: int, end: datetime) -> None:
    """Tell the owners and the person, unless another process does."""
    budget = row.budget
    told = {"told_80_at": Now()} if percent < 100 else {"told_80_at": Now(), "told_100_at": Now()}
    with atomic_write():
        untold = BudgetPeriod.objects.filter(pk=row.pk, told_100_at=None)
        if percent < 100:
            untold = untold.filter(told_80_at=None)
        if not untold.update(**told):
            return
        person = whose(row)
        owners = notices.owners()
        for each in [*owners, *([person] if person and person not in owners else [])]:
            other = person if person is not None and person != each else None
            with spoken(each.language):
                text = budget_words.notice(budget, other, percent=percent, spent=row.spent, end=end)
            notices.show_in_web_chats(each, {"text": text})
            notices.send(each, key=f"notice:budget:{row.pk}:{percent}:{each.pk}", text=text)


def whose(row: BudgetPeriod) -> User | None:
    """Return the person whom a budget limits; None when it is for several."""
    budget = row.budget
    if row.person:
        return User.objects.filter(pk=row.person).select_related("last_account").first()
    if budget.user_id:
        return User.objects.filter(pk=budget.user_id).select_related("last_account").first()
    if budget.key_id:
        keys = ApiKey.objects.filter(pk=budget.key_id).select_related("user__last_account")
        found = keys.first()
        return found.user if found is not None else None
    return None

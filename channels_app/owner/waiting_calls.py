"""The calls of tools that wait for an owner, and their number."""

from django.db.models import Count, Max, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from core.conversations import tool_calls
from core.lib.read_once import read_once
from core.models import ToolCall


def for_owners() -> QuerySet[ToolCall]:
    """Return the calls that an owner decides; those of others wait for their own person, who is
    asked for a sign-in, or for a yes to what is theirs.
    """
    return tool_calls.waiting().filter(Q(of_person=False) | Q(asked_of__is_owner=True))


def number_and_newest() -> tuple[int, int]:
    """Return how many calls wait, and the newest's primary key (0 for none)."""
    rows = for_owners().filter(expires_at__gt=timezone.now())
    found = rows.aggregate(number=Count("pk"), newest=Max("pk"))
    return found["number"], found["newest"] or 0


def count_on_page(request: HttpRequest) -> int:
    """Return how many calls wait, for a page of the admin, which shows it twice."""
    return read_once(request, "waiting_calls", lambda: number_and_newest()[0])

"""The number of calls of tools that wait for a yes."""

from django.db.models import Count, Max
from django.http import HttpRequest
from django.utils import timezone

from core.conversations import tool_calls
from core.lib.read_once import read_once


def number_and_newest() -> tuple[int, int]:
    """Return how many calls wait, and the newest's primary key (0 for none)."""
    rows = tool_calls.waiting().filter(expires_at__gt=timezone.now())
    found = rows.aggregate(number=Count("pk"), newest=Max("pk"))
    return found["number"], found["newest"] or 0


def count_on_page(request: HttpRequest) -> int:
    """Return how many calls wait, for a page of the admin, which shows it twice."""
    return read_once(request, "waiting_calls", lambda: number_and_newest()[0])

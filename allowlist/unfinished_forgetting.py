"""People whose forgetting has begun and has not ended, by the audit.

The steps themselves are in ``gateway_project.personal_data.forgetting``.
"""

from datetime import datetime

from allowlist.models import AuditEntry
from core.database.queries import Values
from core.models import User

BEGUN, DONE = "person.forgetting", "person.forgotten"
STEPS = Values(
    lambda: (
        AuditEntry.objects.filter(action__in=(BEGUN, DONE))
        .order_by("id")
        .values_list("action", "data", "at")
    )
)


def unfinished(*, before: datetime | None = None) -> list[int]:
    """Return the numbers of people whose forgetting has begun and not ended, oldest first.

    ``before``: only of those that began before that time.
    """
    found: dict[int, datetime] = {}
    for action, data, at in STEPS():
        if action == BEGUN:
            found.setdefault(int(data["number"]), at)
        else:
            found.pop(int(data["number"]), None)
    return [number for number, at in found.items() if before is None or at < before]


def left_behind() -> list[int]:
    """Return the numbers of people whose rows are gone, but not what they left behind."""
    begun = unfinished()
    if not begun:
        return []
    there = set(User.objects.filter(pk__in=begun).values_list("pk", flat=True))
    return [number for number in begun if number not in there]

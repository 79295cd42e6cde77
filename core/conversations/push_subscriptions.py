"""The browsers in which people have enabled notifications."""

from dataclasses import dataclass

from django.conf import settings

from core.database import transactions
from core.models import PushSubscription, User


@dataclass(frozen=True, slots=True)
class Browser:
    """A browser as its page describes it: see :class:`PushSubscription`."""

    endpoint: str
    p256dh: str
    auth: str
    name: str


def keep(*, user: User, session_key: str, browser: Browser) -> PushSubscription:
    """Store a browser of a person, who alone has it from now on; of more than
    PUSH_BROWSERS_PER_PERSON the longest unused ones are removed. A session is of one browser: its
    earlier address is replaced.
    """
    with transactions.atomic_write():
        # That of another person goes, with all that waits for them there.
        PushSubscription.objects.filter(endpoint=browser.endpoint).exclude(user=user).delete()
        earlier = PushSubscription.objects.filter(session_key=session_key)
        earlier.exclude(endpoint=browser.endpoint).delete()
        row, _ = PushSubscription.objects.update_or_create(
            endpoint=browser.endpoint,
            defaults={
                "user": user,
                "session_key": session_key,
                "p256dh": browser.p256dh,
                "auth": browser.auth,
                "browser": browser.name,
                "failures": 0,
            },
        )
        theirs = PushSubscription.objects.filter(user=user).exclude(id=row.id)
        used = sorted(theirs, key=lambda each: each.succeeded_at or each.created_at, reverse=True)
        surplus = [each.id for each in used[max(0, settings.PUSH_BROWSERS_PER_PERSON - 1) :]]
        if surplus:
            PushSubscription.objects.filter(id__in=surplus).delete()
    return row


def follow(session_key: str, new_key: str) -> None:
    """Keep the browser of a session that has got another key."""
    with transactions.atomic_write():
        PushSubscription.objects.filter(session_key=session_key).update(session_key=new_key)


def of(user: User) -> list[PushSubscription]:
    """Return the browsers of a person, the newest first."""
    return list(PushSubscription.objects.filter(user=user).order_by("-created_at", "-id"))


def forget(**which: object) -> int:
    """Remove the browsers with these values, and what waits for them; return how many.

    Inside a transaction, or in one of its own.
    """
    rows = PushSubscription.objects.filter(**which)
    if not rows.exists():
        return 0
    with transactions.atomic_write(joins=True):
        return rows.delete()[1].get("core.PushSubscription", 0)

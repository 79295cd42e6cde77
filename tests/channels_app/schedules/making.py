"""Schedules in tests: a person on the in-memory channel, and what a schedule of theirs has done."""

from datetime import UTC, datetime, timedelta
from typing import Any

from channels_app.schedules import firing
from core.conversations import inbox
from core.conversations.schedules import changes
from core.conversations.schedules.changes import Grant, Wish
from core.database.transactions import atomic_write
from core.models import ChannelAccount, ChatSession, Delivery, Occurrence, Run, Schedule, User

NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)
ONE = datetime(2026, 11, 25, 13, 0)
DAY = timedelta(days=1)
DAILY = "FREQ=DAILY"


def chat_of(user: User, account: ChannelAccount, chat: str = "c") -> ChatSession:
    """Return the conversation of a person in a chat."""
    with atomic_write():
        return inbox.open_session(user=user, account=account, chat=chat)


def made(
    session: ChatSession, *, now: datetime = NOON, grant: Grant | None = None, **wish: Any
) -> Schedule:
    """Return a new schedule of the person of a session: a text in ten minutes, unless told."""
    given = {"text": "take the pills", "time_zone": "UTC", **wish}
    if not given.keys() & {"at", "minutes", "rule"}:
        given["minutes"] = 10
    sender = session.user.identities.values_list("value", flat=True).first() or ""
    return changes.create(
        user=session.user,
        session=session,
        wish=Wish(**given),
        grant=grant or Grant(sender, "im"),
        now=now,
    )


def fire(now: datetime) -> None:
    """Fire what is due at ``now``, and look at what was fired."""
    while firing.look(now=now):
        pass


def texts() -> list[str]:
    """Return the texts in the outbox that belong to schedules, in order."""
    rows = Delivery.objects.filter(run__origin=firing.ORIGIN).order_by("id")
    return [str(row.payload.get("text")) for row in rows]


def states(schedule: Schedule) -> list[str]:
    """Return the states of the occurrences of a schedule, by time."""
    rows = Occurrence.objects.filter(schedule=schedule).order_by("nominal_at")
    return list(rows.values_list("state", flat=True))


def waiting(schedule: Schedule) -> datetime:
    """Return when a schedule is due next."""
    return Occurrence.objects.get(schedule=schedule, state="waiting").nominal_at


def arrive() -> None:
    """Let all queued messages have arrived, as the worker records it."""
    Delivery.objects.filter(state="pending").update(state="sent", sent_at=NOON)


def answer(text: str = "done", state: str = Run.State.SUCCEEDED) -> None:
    """End the queued runs, as a worker records it."""
    Run.objects.filter(state="queued").update(
        state=state, finished_at=NOON, error="" if state == "succeeded" else text
    )


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)

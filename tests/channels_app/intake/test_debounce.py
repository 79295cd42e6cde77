"""[C2] with a fake clock: the vectors, a restart in the middle, and commands, which bypass it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from channels_app.memory.channel import say
from core.conversations import inbox
from core.models import ChannelAccount, ChatSession, Run, User
from tests import load_vectors
from tests.channels_app.running import memory_account

pytestmark = pytest.mark.django_db
VECTORS = load_vectors("channels")
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
Vector = dict[str, Any]


def at(milliseconds: float) -> datetime:
    """Return the time that many milliseconds after the start."""
    return START + timedelta(milliseconds=milliseconds)


def flush_until(now: datetime) -> list[tuple[float, str]]:
    """Flush every batch when it is due, as a timer does; return (ms since start, text) of each."""
    found = []
    while (
        session := ChatSession.objects.filter(flush_at__lt=now).order_by("flush_at").first()
    ) is not None:
        moment = session.flush_at
        assert moment is not None
        run = inbox.flush_due(session_id=session.id, now=moment)
        assert run is not None
        found.append(((moment - START).total_seconds() * 1000, run.text))
    return found


@pytest.mark.parametrize("vector", VECTORS["debounce"]["vectors"], ids=lambda each: each["name"])
def test_c2_the_vectors(vector: Vector, owner: User, settings: Any) -> None:
    settings.DEBOUNCE_IDLE_MILLISECONDS = vector["delay_ms"]
    settings.DEBOUNCE_MAX_MILLISECONDS = vector["max_wait_ms"]
    account = memory_account()
    known: set[int] = set()
    flushes: list[tuple[float, str]] = []
    for number, push in enumerate(vector["pushes"]):
        flushes += flush_until(at(push["at_ms"]))
        known = set(Run.objects.values_list("id", flat=True))
        say(
            account=account,
            sender="555",
            chat=push["conversation"],
            text=push["text"],
            message_id=str(number + 1),
            now=at(push["at_ms"]),
        )
        for run in Run.objects.exclude(id__in=known):
            flushes.append((push["at_ms"], run.text))
    flushes += flush_until(at(60_000))
    assert flushes == [(each["at"], each["text"]) for each in vector["flushes"]]


def test_c2_a_restart_loses_no_batch(owner: User) -> None:
    account: ChannelAccount = memory_account()
    place: dict[str, Any] = {"account": account, "sender": "555", "chat": "c"}
    say(text="one", message_id="1", now=at(0), **place)
    # A worker that starts later finds the batch by its moment.
    assert inbox.due_sessions(now=at(499)) == []
    assert len(inbox.due_sessions(now=at(500))) == 1


def test_c8_a_command_bypasses_the_batch_that_waits(owner: User) -> None:
    account = memory_account()
    place: dict[str, Any] = {"account": account, "sender": "555", "chat": "c"}
    say(text="one", message_id="1", now=at(0), **place)
    say(text="/status", message_id="2", now=at(10), **place)
    (flushed,) = flush_until(at(9000))
    assert flushed == (500.0, "one")

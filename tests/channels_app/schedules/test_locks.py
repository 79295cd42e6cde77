"""A worker that froze while it fired holds up its own schedule, and no other ([RC8], [H10])."""

import pytest

from channels_app.schedules import firing
from core.conversations.schedules import occurrences
from core.models import ChatSession, Occurrence, Schedule
from tests.channels_app.schedules.making import NOON, fire, made, minutes, texts
from tests.core.database.test_locked_rows import frozen, in_time, is_locked

pytestmark = pytest.mark.django_db(transaction=True)
DUE = NOON + minutes(10)


def test_rc8_a_sweep_passes_over_a_schedule_whose_worker_froze(chat: ChatSession) -> None:
    """[RC8] [H10] It comes when its worker has let go of it, once and without a try counted."""
    held = made(chat, text="held")
    made(chat, text="free")
    in_time()
    with frozen(Schedule, held.pk):
        firing.look(now=DUE)
        assert texts() == (["⏰ free"] if is_locked() else ["⏰ held", "⏰ free"])
    fire(DUE + minutes(0.5))
    assert sorted(texts()) == ["⏰ free", "⏰ held"]
    assert Occurrence.objects.get(schedule=held).tries == 0


def test_rc8_a_schedule_that_is_locked_is_still_due(chat: ChatSession) -> None:
    """[RC8] Its occurrence is neither lost nor put off."""
    held = made(chat, text="held")
    in_time()
    with frozen(Schedule, held.pk):
        firing.look(now=DUE)
        due = occurrences.due(now=DUE)
        assert len(due) == (1 if is_locked() else 0)

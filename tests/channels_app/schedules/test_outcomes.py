"""The two facts of an occurrence: when it was carried out, and when it arrived ([H12])."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from channels_app.schedules import firing, outcomes, places
from core.conversations import outbox, tool_calls
from core.database.transactions import atomic_write
from core.models import ChatSession, Delivery, Occurrence, Run, Schedule, ToolCall, User
from tests.channels_app.schedules.making import (
    DAILY,
    NOON,
    answer,
    arrive,
    fire,
    made,
    minutes,
    states,
)

pytestmark = pytest.mark.django_db
DUE = NOON + minutes(10)


def only() -> Occurrence:
    """Return the occurrence that has fired."""
    return Occurrence.objects.exclude(state="waiting").get()


def message(run: Run, **values: Any) -> Delivery:
    """Return a message of a run."""
    session = run.session
    return Delivery.objects.create(
        account=session.account,
        session=session,
        run=run,
        dedupe_key=f"x{Delivery.objects.count()}",
        block_index=Delivery.objects.count(),
        conversation="c",
        **values,
    )


def ask(run: Run, person: User) -> None:
    """End a run with a question of a tool, as a turn does."""
    asked = tool_calls.Asked(call_id="c", tool="send", arguments="{}")
    with atomic_write():
        tool_calls.pause(run=run, messages=[], asked=[(asked, person.pk)])
    answer()


def test_h12_a_task_was_carried_out_when_its_run_ended_and_arrived_with_its_last_message(
    chat: ChatSession,
) -> None:
    made(chat, kind="prompt")
    fire(DUE)
    answer()
    run = Run.objects.get()
    message(run, state="sent")  # of an edit that a restore recorded
    for minute in (3, 5, 4):
        message(run, state="sent", sent_at=NOON + minutes(minute))
    fire(DUE + minutes(1))
    assert (only().state, only().executed_at) == ("done", NOON)
    assert only().delivered_at == NOON + minutes(5)


def test_h12_the_reason_of_a_failure_arrived_when_its_message_did(chat: ChatSession) -> None:
    made(chat, kind="prompt")
    fire(DUE)
    answer("no model", Run.State.FAILED)
    message(Run.objects.get(), state="sent", sent_at=NOON + minutes(12))
    fire(DUE + minutes(3))
    assert (only().state, only().note, only().executed_at) == ("failed", "no model", None)
    assert only().delivered_at == NOON + minutes(12)


def test_h12_in_the_web_chat_the_reason_of_a_failure_is_there_when_the_run_ends(
    guest: User,
) -> None:
    made(places.web_chat(guest), kind="prompt")
    fire(DUE)
    answer("no model", Run.State.FAILED)
    fire(DUE + minutes(3))
    assert (only().state, only().executed_at, only().delivered_at) == ("failed", None, NOON)


def test_h12_a_reason_that_is_still_on_its_way_has_not_arrived(chat: ChatSession) -> None:
    made(chat, kind="prompt")
    fire(DUE)
    answer("no model", Run.State.FAILED)
    message(Run.objects.get(), state="sending")
    fire(DUE + minutes(3))
    assert (only().state, only().delivered_at) == ("failed", None)


def test_h12_a_text_was_carried_out_when_it_fired_though_its_conversation_is_deleted(
    chat: ChatSession,
) -> None:
    """Whether it arrived is not known."""
    made(chat)
    fire(DUE)
    chat.delete()
    fire(DUE + minutes(1))
    assert (only().state, only().executed_at, only().delivered_at) == ("done", DUE, None)
    assert only().note == "It is not known whether it was delivered."


def test_h12_a_task_that_was_carried_out_stays_so_when_its_conversation_is_deleted(
    chat: ChatSession,
) -> None:
    made(chat, kind="prompt")
    fire(DUE)
    answer()
    message(Run.objects.get())
    fire(DUE + minutes(1))
    assert (only().state, only().executed_at) == ("fired", NOON)
    chat.delete()
    fire(DUE + minutes(9))
    assert (only().state, only().executed_at, only().delivered_at) == ("failed", NOON, None)


def test_h12_a_daily_text_is_counted_from_its_own_outcome(chat: ChatSession) -> None:
    """The text of yesterday that arrived does not hide that today's did not."""
    made(chat, rule=DAILY, at=datetime(2026, 11, 25, 12, 10))
    fire(DUE)
    arrive()
    fire(DUE + minutes(1))
    fire(DUE + timedelta(days=1))
    Delivery.objects.filter(state="pending").update(state="dead", error="blocked")
    fire(DUE + timedelta(days=1, minutes=1))
    rows = Occurrence.objects.exclude(state="waiting").order_by("nominal_at")
    assert [(row.state, row.note) for row in rows] == [
        ("done", ""),
        ("failed", "It was not delivered: blocked"),
    ]


def test_h12_a_message_of_an_unknown_outcome_is_unsure_and_counts_neither_way(
    chat: ChatSession,
) -> None:
    """As after a kill between the sending and its record: it may well have arrived."""
    schedule = made(chat, rule=DAILY, at=datetime(2026, 11, 25, 12, 10))
    Schedule.objects.filter(pk=schedule.pk).update(failures=2)
    fire(DUE)
    Delivery.objects.filter(state="pending").update(state="uncertain", error=outbox.UNKNOWN)
    fire(DUE + minutes(1))
    row = only()
    assert (row.state, row.note) == ("done", "It is not known whether it was delivered.")
    assert (row.executed_at is not None, row.delivered_at) == (True, None)
    schedule.refresh_from_db()
    assert (schedule.state, schedule.failures) == ("active", 2)


@pytest.mark.parametrize("kind", ["text", "prompt"])
def test_h12_a_look_at_a_fired_occurrence_asks_for_its_messages_alone(
    kind: str, chat: ChatSession, django_assert_num_queries: Any
) -> None:
    """Sweeps look at each occurrence, and few tasks wait for a yes."""
    made(chat, kind=kind)
    fire(DUE)
    answer()
    row = firing.with_all().exclude(state="waiting").get()
    with django_assert_num_queries(1):
        assert outcomes.outcome_of(row, now=DUE).executed_at is not None


def test_h12_a_part_that_is_lost_for_sure_is_the_outcome(chat: ChatSession) -> None:
    made(chat, kind="prompt")
    fire(DUE)
    answer()
    run = Run.objects.get()
    message(run, state="uncertain", error=outbox.UNKNOWN)
    message(run, state="dead", error="blocked")
    fire(DUE + minutes(1))
    assert (only().state, only().note) == ("failed", "It was not delivered: blocked")


def test_h12_a_task_that_waits_for_a_yes_is_carried_out_when_it_has_gone_on(
    chat: ChatSession, guest: User
) -> None:
    """Meanwhile its next times are left out: each would ask again."""
    schedule = made(chat, kind="prompt", rule=DAILY, at=datetime(2026, 11, 25, 12, 10))
    fire(DUE)
    run = Run.objects.get()
    ask(run, guest)
    fire(DUE + timedelta(days=1))
    assert states(schedule) == ["fired", "skipped", "waiting"]
    assert Occurrence.objects.get(state="fired").executed_at is None
    ToolCall.objects.update(state="allowed")
    with atomic_write():
        tool_calls.go_on([run.pk])
    fire(DUE + timedelta(days=1, minutes=6))
    assert states(schedule) == ["fired", "skipped", "waiting"]
    Run.objects.filter(state="queued").update(state="failed", error="no model", finished_at=NOON)
    fire(DUE + timedelta(days=1, minutes=12))
    row = Occurrence.objects.get(state="failed")
    assert (row.executed_at, row.note) == (None, "no model")
    fire(DUE + timedelta(days=2))
    assert states(schedule) == ["failed", "skipped", "fired", "waiting"]


def test_h12_a_task_whose_question_is_taken_back_is_stopped(chat: ChatSession, guest: User) -> None:
    """The open question of another run is none of its own."""
    schedule = made(chat, kind="prompt", rule=DAILY, at=datetime(2026, 11, 25, 12, 10))
    fire(DUE)
    ask(Run.objects.get(), guest)
    with atomic_write():
        tool_calls.withdraw(session_id=chat.pk)
    another = Run.objects.create(session=chat, user=guest, state="succeeded")
    asked = tool_calls.Asked(call_id="d", tool="send", arguments="{}")
    with atomic_write():
        tool_calls.pause(run=another, messages=[], asked=[(asked, guest.pk)])
    fire(DUE + minutes(5))
    assert (only().state, only().note) == ("failed", "The task was stopped.")
    schedule.refresh_from_db()
    assert schedule.failures == 0

"""The buttons under a reminder: whose they are, and what each press does ([H23])."""

from datetime import UTC, datetime
from typing import Any

import pytest

from channels_app.schedules import buttons
from core.models import ChatSession, Delivery, Occurrence, Run, Schedule, User
from tests.channels_app.schedules.making import (
    DAILY,
    NOON,
    ONE,
    arrive,
    fire,
    made,
    minutes,
    states,
)

pytestmark = pytest.mark.django_db
DUE = NOON + minutes(60)


def shown(chat: ChatSession, **wish: Any) -> Run:
    """Return the run that showed a reminder of 13:00, whose message has arrived."""
    made(chat, **{"at": ONE, "rule": DAILY, **wish})
    fire(DUE)
    arrive()
    run = Run.objects.get()
    message = Delivery.objects.get()
    block = buttons.under({"text": message.payload["text"]}, run, "en")
    Delivery.objects.filter(pk=message.pk).update(payload=block)
    return run


def press(run: Run, choice: str, *, by: User | None = None, now: datetime = DUE) -> str:
    """Press a button under what a run showed."""
    user = User.objects.get(pk=(by or run.session.user).pk)
    return buttons.press(user=user, choice=choice, run_id=run.public_id, now=now)


def message() -> Delivery:
    return Delivery.objects.get()


def fired() -> Occurrence:
    """Return the occurrence that was shown."""
    return Occurrence.objects.get(run__isnull=False)


def test_h23_three_buttons_name_the_run_in_the_persons_language(chat: ChatSession) -> None:
    run = shown(chat)
    block = buttons.under({"text": "x", "format": "f"}, run, "de")
    assert (block["text"], block["format"]) == ("x", "f")
    [row] = block["buttons"]
    assert [each["text"] for each in row] == ["Erledigt", "In 10 Minuten", "Morgen"]
    assert [each["data"] for each in row] == [
        f"remind:{name}:{run.public_id}" for name in ("done", "later", "tomorrow")
    ]
    assert all(len(each["data"]) <= 64 for each in row)


def test_h23_done_is_shown_instead_of_the_buttons(chat: ChatSession) -> None:
    run = shown(chat)
    assert press(run, "done") == "Done."
    assert message().payload == {"text": "⏰ take the pills\n\n✓ Done"}
    assert message().state == "pending"  # an edit
    assert fired().acknowledged_at is not None
    assert states(Schedule.objects.get()) == ["fired", "waiting"]


def test_h23_in_ten_minutes_and_tomorrow_are_said_by_the_clock_of_the_schedule(
    chat: ChatSession,
) -> None:
    run = shown(chat, at=datetime(2026, 11, 25, 14, 0), time_zone="Europe/Berlin")
    assert press(run, "later", now=DUE + minutes(1)) == "I will remind you in 10 minutes."
    assert message().payload["text"].endswith("\n\n↻ 14:11")
    assert Occurrence.objects.get(snoozed=True).nominal_at == DUE + minutes(11)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (DUE + minutes(9 * 60), "Thursday, 26 November 2026 at 13:30"),
        (DUE + minutes(10 * 60), "Friday, 27 November 2026 at 13:30"),
    ],
)
def test_h23_tomorrow_is_the_next_day_where_the_schedule_is(
    chat: ChatSession, now: datetime, words: str
) -> None:
    """Midnight of Berlin is 23:00 in UTC."""
    run = shown(chat, at=datetime(2026, 11, 25, 13, 30), time_zone="Europe/Berlin")
    assert press(run, "tomorrow", now=now) == "I will remind you tomorrow."
    assert message().payload["text"].endswith(f"\n\n↻ {words}")


def test_h2_tomorrow_at_a_time_that_the_clock_leaves_out_is_after_the_gap(
    chat: ChatSession,
) -> None:
    made(chat, at=datetime(2027, 3, 27, 2, 30), time_zone="Europe/Berlin")
    due = datetime(2027, 3, 27, 1, 30, tzinfo=UTC)
    fire(due)
    press(Run.objects.get(), "tomorrow", now=due)
    assert Occurrence.objects.get(snoozed=True).nominal_at == datetime(
        2027, 3, 28, 1, 0, tzinfo=UTC
    )


@pytest.mark.parametrize("choice", ["done", "later", "tomorrow"])
def test_h23_a_second_press_changes_nothing(chat: ChatSession, choice: str) -> None:
    run = shown(chat)
    press(run, choice)
    before = message().payload, states(Schedule.objects.get())
    for again in ("done", "later", "tomorrow"):
        assert press(run, again) == "You have answered this reminder already."
    assert (message().payload, states(Schedule.objects.get())) == before


@pytest.mark.parametrize("choice", ["done", "later", "tomorrow"])
def test_h23_somebody_else_presses_nothing(chat: ChatSession, choice: str) -> None:
    run = shown(chat)
    ben = User.objects.create(username="ben", language="de")
    before = message().payload
    assert press(run, choice, by=ben) == "Diese Erinnerung gehört jemand anderem."
    assert message().payload == before
    assert fired().acknowledged_at is None
    assert not Occurrence.objects.filter(snoozed=True).exists()


@pytest.mark.parametrize("choice", ["later", "tomorrow"])
def test_h23_one_that_is_paused_keeps_its_buttons(chat: ChatSession, choice: str) -> None:
    run = shown(chat, text="Bitte nimm die Tabletten")
    Schedule.objects.update(state="paused")
    before = message().payload
    said = press(run, choice)
    assert "pausiert oder gelöscht" in said  # in the language of the reminder
    assert message().payload == before
    assert fired().acknowledged_at is None
    assert press(run, "done") == "Erledigt."


@pytest.mark.parametrize(
    ("run_id", "choice"), [("", "done"), ("x" * 22, "done"), ("\x00", "done"), (None, "explode")]
)
def test_h23_a_press_of_nothing_is_answered(
    chat: ChatSession, run_id: str | None, choice: str
) -> None:
    run = shown(chat)
    User.objects.update(language="de")
    user = User.objects.get(pk=chat.user_id)
    name = run.public_id if run_id is None else run_id
    said = buttons.press(user=user, choice=choice, run_id=name, now=DUE)
    assert said == "Diese Erinnerung gibt es nicht mehr."
    assert fired().acknowledged_at is None


@pytest.mark.parametrize(("number", "is_longer"), [(3892, True), (3893, False)])
def test_h23_a_long_message_loses_its_buttons_and_gets_no_line(
    chat: ChatSession, number: int, is_longer: bool
) -> None:
    """3,900 units of UTF-16 with the line and what is before it."""
    run = shown(chat)
    text = "😀" * ((number - 2) // 2) + "x" * (2 + number % 2)
    Delivery.objects.update(payload=buttons.under({"text": text}, run, "en"))
    press(run, "done")
    found = message().payload
    assert "buttons" not in found
    line = "\n\n✓ Done" if is_longer else ""
    assert found["text"] == text + line


def test_h23_only_the_message_with_the_buttons_is_changed(chat: ChatSession) -> None:
    """A long reminder is two messages, and the buttons are under the second."""
    run = shown(chat)
    first = message()
    Delivery.objects.update(payload={"text": "the first part"})
    second = Delivery.objects.create(
        account=chat.account,
        session=chat,
        run=run,
        dedupe_key="x",
        block_index=7,
        conversation="c",
        state="sent",
        payload=buttons.under({"text": "the second"}, run, "en"),
    )
    press(run, "done")
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, first.payload) == ("sent", {"text": "the first part"})
    assert (second.state, second.payload) == ("pending", {"text": "the second\n\n✓ Done"})

"""Reminders on Telegram: asked for, shown with buttons, and pressed by two senders ([H23])."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from channels_app.schedules import buttons, lists
from channels_app.telegram import receive
from channels_app.telegram.channel import COMMANDS
from channels_app.worker.runner import Runner
from core.conversations.schedules.changes import Grant
from core.models import (
    ChannelAccount,
    Delivery,
    Occurrence,
    Schedule,
    User,
)
from tests.channels_app.running import until
from tests.channels_app.schedules.making import chat_of, fire, made
from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import Params, number, person

pytestmark = pytest.mark.django_db(transaction=True)
GUEST, OTHER, STRANGER, GROUP = 556, 555, 700, -100


@pytest.fixture
def zones(guest: User, owner: User) -> None:
    """Let two people be in Berlin."""
    User.objects.update(time_zone="Europe/Berlin")


def press(data: str, *, by: int, chat: int, message_id: int) -> Params:
    """Return a press of a button under a message of the bot."""
    kind = "private" if chat > 0 else "supergroup"
    return {
        "update_id": number(),
        "callback_query": {
            "id": str(number()),
            "from": person(by),
            "data": data,
            "message": {"message_id": message_id, "chat": {"id": chat, "type": kind}},
        },
    }


def last(local: Local, chat: int) -> Shown:
    return local.api.shown(local.tokens["main"], chat)[-1]


def data_of(shown: Shown) -> dict[str, str]:
    """Return the buttons of a message: label -> data, which Telegram limits to 64 bytes."""
    found = {each["text"]: each["callback_data"] for row in shown.keyboard for each in row}
    assert all(len(each.encode()) <= 64 for each in found.values())
    return found


def answers(local: Local) -> list[str]:
    """Return the lines that answered presses."""
    return [call.params["text"] for call in local.api.of("answerCallbackQuery")]


def pressed(local: Local, data: str, *, by: int, chat: int, message_id: int) -> str:
    """Press a button; return the line that answers it."""
    before = len(answers(local))
    status, _ = local.post(press(data, by=by, chat=chat, message_id=message_id))
    assert status == 200
    until(lambda: len(answers(local)) > before)
    return answers(local)[-1]


def due(user: User, *, chat: int = GUEST, group: str = "", **wish: Any) -> Schedule:
    """Make a schedule of a person that is due, and fire it; return it."""
    now = timezone.now()
    given = {"text": "take the pills", "minutes": 1, "time_zone": "Europe/Berlin", **wish}
    row = made(
        chat_of(user, ChannelAccount.objects.get(name="main"), str(chat)),
        now=now - timedelta(seconds=80),
        grant=Grant(user.identities.first().value, "im", group),  # type: ignore[union-attr]
        **given,
    )
    fire(now)
    return row


def shown_reminder(local: Local, chat: int = GUEST) -> Shown:
    until(lambda: any("pills" in each for each in local.texts(chat)))
    until(lambda: bool(last(local, chat).keyboard))
    return last(local, chat)


def waiting(schedule: Schedule) -> list[datetime]:
    rows = Occurrence.objects.filter(schedule=schedule, state="waiting")
    return [row.look_at for row in rows if row.look_at is not None]


def test_h23_asked_for_in_words_and_confirmed_with_the_dates(
    runner: Runner, local: Local, zones: None, settings: Any, tmp_path: Path
) -> None:
    rule = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=7;BYMINUTE=30"
    wish = {"action": "create", "kind": "text", "text": "take the *pills*", "rule": rule}
    path = tmp_path / "script.json"
    path.write_text(
        json.dumps(
            [
                {"match": "", "after_tool": True, "steps": [{"text": "Gern, das mache ich."}]},
                {"match": "Erinnere", "steps": [{"tool": "schedule", "arguments": wish}]},
            ]
        )
    )
    settings.LLM_SCRIPT = str(path)
    local.say("Erinnere mich bitte an die Tabletten", user=GUEST)
    until(lambda: "Gern, das mache ich." in "\n".join(local.texts(GUEST)))
    said = "\n".join(local.texts(GUEST))
    lines = said.split("\n")
    assert lines[0] == "⏰ take the pills"
    assert lines[1].startswith("montags bis freitags: ")
    assert lines[1].count(" um 07:30 Uhr") == 3
    assert lines[1].endswith("(Europe/Berlin)")
    row = Schedule.objects.get()
    assert (row.user.username, row.sender, row.chat) == ("guest", str(GUEST), str(GUEST))
    assert row.made_by


def test_h23_done_is_pressed_by_its_person_alone_and_counts_once(
    runner: Runner, local: Local, zones: None, guest: User
) -> None:
    row = due(guest)
    shown = shown_reminder(local)
    found = data_of(shown)
    assert list(found) == ["Done", "In 10 minutes", "Tomorrow"]
    at = {"chat": GUEST, "message_id": shown.id}
    assert pressed(local, found["Done"], by=OTHER, **at) == buttons.NOT_YOURS
    assert pressed(local, found["Done"], by=STRANGER, **at) == receive.NOT_LISTED
    assert Occurrence.objects.get().acknowledged_at is None
    update = press(found["Done"], by=GUEST, **at)
    for _ in range(3):
        assert local.post(update)[0] == 200
    until(lambda: last(local, GUEST).text == "⏰ take the pills\n\n✓ Done")
    assert last(local, GUEST).keyboard == []
    until(lambda: answers(local)[2:] == ["Done."])
    acknowledged = Occurrence.objects.get().acknowledged_at
    assert acknowledged is not None
    assert pressed(local, found["In 10 minutes"], by=GUEST, **at) == buttons.ALREADY
    assert Occurrence.objects.get().acknowledged_at == acknowledged
    assert waiting(row) == []
    assert len(local.texts(GUEST)) == 1


def test_h23_in_ten_minutes_it_comes_again_once(
    runner: Runner, local: Local, zones: None, guest: User
) -> None:
    row = due(guest)
    shown = shown_reminder(local)
    data = data_of(shown)["In 10 minutes"]
    at = {"chat": GUEST, "message_id": shown.id}
    assert pressed(local, data, by=OTHER, **at) == buttons.NOT_YOURS
    assert waiting(row) == []
    update = press(data, by=GUEST, **at)
    before = timezone.now()
    local.post(update)
    (again,) = waiting(row)
    assert timedelta(minutes=9.9) < again - before < timedelta(minutes=10.1)
    local.post(update)
    until(lambda: len(answers(local)) == 2)
    assert pressed(local, data, by=GUEST, **at) == buttons.ALREADY
    assert waiting(row) == [again]
    until(lambda: not last(local, GUEST).keyboard)
    line = last(local, GUEST).text.split("\n")[-1]
    assert line.startswith("↻ ")
    assert len(line) == len("↻ 08:10")
    fire(again)
    until(lambda: len(local.texts(GUEST)) == 2)
    assert last(local, GUEST).text == "⏰ take the pills"
    until(lambda: bool(last(local, GUEST).keyboard))


def test_h23_tomorrow_at_the_same_time(
    runner: Runner, local: Local, zones: None, guest: User, owner: User
) -> None:
    """In the language of the person; one that presses first and is somebody else changes none."""
    User.objects.filter(pk=guest.pk).update(language="de")
    guest.refresh_from_db()
    row = due(guest)
    shown = shown_reminder(local)
    data = data_of(shown)["Morgen"]
    at = {"chat": GUEST, "message_id": shown.id}
    assert pressed(local, data, by=OTHER, **at) == buttons.NOT_YOURS
    assert waiting(row) == []
    pressed(local, data, by=GUEST, **at)
    (again,) = waiting(row)
    nominal = Occurrence.objects.exclude(state="waiting").get().nominal_at
    assert again.time() == nominal.time() or abs(again - nominal - timedelta(days=1)) == timedelta(
        hours=1
    ), "a change of daylight saving lies between"
    until(lambda: not last(local, GUEST).keyboard)
    assert " Uhr" in last(local, GUEST).text.split("↻ ")[1]


def test_h23_a_deleted_one_is_not_snoozed(
    runner: Runner, local: Local, zones: None, guest: User
) -> None:
    row = due(guest, rule="FREQ=DAILY")
    shown = shown_reminder(local)
    Schedule.objects.update(state="ended", why="person")
    Occurrence.objects.filter(state="waiting").update(state="withdrawn", look_at=None)
    at = {"chat": GUEST, "message_id": shown.id}
    found = data_of(shown)
    assert pressed(local, found["Tomorrow"], by=GUEST, **at) == buttons.STOPPED
    assert waiting(row) == []
    assert pressed(local, found["Done"], by=GUEST, **at) == "Done."


@pytest.mark.parametrize(
    "data",
    [
        "remind:",
        "remind:done:",
        "remind:explode:x",
        "remind:done:" + "x" * 52,
        "sched:",
        "sched:p:\0:1",
    ],
)
def test_h23_data_of_no_button_is_answered_and_changes_nothing(
    runner: Runner, local: Local, zones: None, guest: User, data: str
) -> None:
    row = due(guest, rule="FREQ=DAILY")
    shown = shown_reminder(local)
    at = {"chat": GUEST, "message_id": shown.id}
    assert pressed(local, data, by=GUEST, **at) == buttons.OVER
    row.refresh_from_db()
    assert row.state == "active"
    assert Occurrence.objects.filter(acknowledged_at__isnull=False).count() == 0


def test_h23_in_a_group_another_member_gets_a_polite_line(
    runner: Runner, local: Local, zones: None, guest: User
) -> None:
    row = due(guest, chat=GROUP, group=str(GROUP))
    shown = shown_reminder(local, GROUP)
    found = data_of(shown)
    at = {"chat": GROUP, "message_id": shown.id}
    for other, line in ((OTHER, buttons.NOT_YOURS), (STRANGER, receive.NOT_LISTED)):
        for data in found.values():
            assert pressed(local, data, by=other, **at) == line
    assert Occurrence.objects.get().acknowledged_at is None
    assert waiting(row) == []
    assert last(local, GROUP).keyboard
    assert pressed(local, found["Done"], by=GUEST, **at) == "Done."


def test_h22_the_list_of_a_chat_has_buttons_that_change_it_in_place(
    runner: Runner, local: Local, zones: None, guest: User, owner: User
) -> None:
    account = ChannelAccount.objects.get(name="main")
    session = chat_of(guest, account, str(GUEST))
    now = timezone.now()
    zone = "Europe/Berlin"
    pills = made(session, now=now, rule="FREQ=DAILY", minutes=60, time_zone=zone)
    tea = made(session, now=now, text="tea", minutes=120, time_zone=zone)
    local.say("/reminders", user=GUEST)
    until(lambda: bool(local.texts(GUEST)))
    until(lambda: bool(last(local, GUEST).keyboard))
    shown = last(local, GUEST)
    assert shown.text.startswith("1. take the pills — ")
    found = data_of(shown)
    assert list(found) == ["⏸ 1", "🗑 1", "⏸ 2", "🗑 2"]
    at = {"chat": GUEST, "message_id": shown.id}
    assert pressed(local, found["⏸ 1"], by=OTHER, **at) == lists.NOT_YOURS
    assert pressed(local, found["🗑 2"], by=STRANGER, **at) == receive.NOT_LISTED
    assert set(Schedule.objects.values_list("state", flat=True)) == {"active"}

    assert pressed(local, found["⏸ 1"], by=GUEST, **at) == "Paused."
    until(lambda: "2. take the pills — ⏸ paused (every day)" in last(local, GUEST).text)
    later = data_of(last(local, GUEST))
    assert list(later) == ["⏸ 1", "🗑 1", "▶️ 2", "🗑 2"]
    update = press(found["🗑 2"], by=GUEST, **at)
    local.post(update)
    local.post(update)
    until(lambda: "tea" not in last(local, GUEST).text)
    until(lambda: answers(local)[3:] == ["Deleted."])
    tea.refresh_from_db()
    assert tea.state == "ended"
    assert pressed(local, later["▶️ 2"], by=GUEST, **at) == "Resumed."
    until(lambda: list(data_of(last(local, GUEST))) == ["⏸ 1", "🗑 1"])
    assert pressed(local, found["🗑 2"], by=GUEST, **at) == buttons.OVER
    # The press of a while ago, which Telegram repeats, does not pause it again.
    pills.refresh_from_db()
    assert pills.state == "active"
    assert pressed(local, later["🗑 1"], by=GUEST, **at) == buttons.OVER
    assert pressed(local, found["🗑 1"], by=GUEST, **at) == "Deleted."
    until(lambda: last(local, GUEST).text == lists.NONE)
    assert last(local, GUEST).keyboard == []
    assert len(local.texts(GUEST)) == 1


def test_h22_a_repeated_update_of_an_old_press_changes_nothing(
    runner: Runner, local: Local, zones: None, guest: User
) -> None:
    session = chat_of(guest, ChannelAccount.objects.get(name="main"), str(GUEST))
    row = made(session, now=timezone.now(), rule="FREQ=DAILY", minutes=60)
    local.say("/reminders", user=GUEST)
    until(lambda: bool(local.texts(GUEST)))
    shown = last(local, GUEST)
    update = press(data_of(shown)["⏸ 1"], by=GUEST, chat=GUEST, message_id=shown.id)
    local.post(update)
    until(lambda: "▶️ 1" in data_of(last(local, GUEST)))  # the list has changed in place
    local.say("/reminders resume 1", user=GUEST)
    local.post(update)
    row.refresh_from_db()
    assert row.state == "active"


def test_h22_one_whose_time_has_passed_is_refused_in_a_line(
    runner: Runner, local: Local, zones: None, guest: User
) -> None:
    session = chat_of(guest, ChannelAccount.objects.get(name="main"), str(GUEST))
    row = made(session, now=timezone.now(), minutes=60)
    Schedule.objects.update(state="paused", why="person", start="2026-01-01T08:00:00")
    Occurrence.objects.all().delete()
    local.say("/reminders", user=GUEST)
    until(lambda: bool(local.texts(GUEST)))
    shown = last(local, GUEST)
    said = pressed(local, data_of(shown)["▶️ 1"], by=GUEST, chat=GUEST, message_id=shown.id)
    assert said == "Its time has passed. Change the time instead."
    row.refresh_from_db()
    assert row.state == "paused"


def test_h22_a_foreign_message_is_not_changed(
    runner: Runner, local: Local, zones: None, guest: User, owner: User
) -> None:
    """The data names the message that the list answered: another one's is left alone."""
    account = ChannelAccount.objects.get(name="main")
    row = made(chat_of(guest, account, str(GUEST)), now=timezone.now(), rule="FREQ=DAILY")
    local.say("/status", user=GUEST)
    local.say("/reminders", user=OTHER)
    until(lambda: local.texts(GUEST) and local.texts(OTHER))
    texts = [*local.texts(GUEST), *local.texts(OTHER)]
    until(lambda: Delivery.objects.filter(state="sent").count() == 2)
    for delivery in Delivery.objects.all():
        message_id = delivery.dedupe_key.partition(":")[2]
        data = f"sched:p:{row.public_id}:{message_id}"
        pressed(local, data, by=GUEST, chat=GUEST, message_id=1)
    assert [*local.texts(GUEST), *local.texts(OTHER)] == texts
    assert not local.api.of("editMessageText")


def test_h22_telegram_offers_the_commands() -> None:
    assert {"reminders", "timezone"} <= COMMANDS.keys()

"""The tool ``schedule`` ([H20], [H21]): its arguments, and what it tells."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from channels_app.schedules import rights
from core.database import transactions
from core.models import ChannelAccount, ChatSession, InboundMessage, Occurrence, Run, Schedule, User
from core.tools import registry
from core.tools import schedule as schedule_tool
from core.tools.base import ToolContext, ToolError, ToolResult
from tests.channels_app.running import make_person, memory_account
from tests.channels_app.schedules.making import chat_of

pytestmark = pytest.mark.django_db(transaction=True)
NOON = datetime(2026, 11, 25, 12, 0, tzinfo=UTC)  # a Wednesday
WEEKDAYS = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=7;BYMINUTE=30"
LAST_FRIDAY = "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9;BYMINUTE=0"


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let it be noon, and close the threads of the database afterwards."""
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    yield
    transactions.close_pool()


@pytest.fixture
def account() -> ChannelAccount:
    return memory_account()


@pytest.fixture
def ada(account: ChannelAccount) -> User:
    del account
    user = make_person("ada", "2")
    User.objects.filter(pk=user.pk).update(time_zone="Europe/Berlin")
    return user


def call(
    user: User,
    *,
    request: str = "remind me",
    chat: str = "c",
    call_id: str = "a",
    run: Run | None = None,
    **arguments: Any,
) -> ToolResult:
    """Call the tool as a turn of a person does."""
    run = run or turn_of(user, chat_of(user, ChannelAccount.objects.get(), chat))
    context = ToolContext(
        run_id=run.pk,
        user_id=user.pk,
        session_id=run.session_id,
        tool_call_id=call_id,
        time_zone=user.time_zone,
        emit=lambda _: None,
        request=request,
        schedule_grant=partial(rights.grant_of, run),
    )
    return asyncio.run(schedule_tool.TOOL.run(context, arguments))


def turn_of(user: User, session: ChatSession) -> Run:
    """Return a run that a message of the person has started."""
    run = Run.objects.create(session=session, user=user, text="remind me", assistant_id=7)
    sender = user.identities.get().value
    InboundMessage.objects.create(
        account=session.account,
        session=session,
        user=user,
        run=run,
        sender=sender,
        kind="im",
        chat=session.chat,
        external_update_id=f"u{run.pk}",
        received_at=NOON,
    )
    return run


def test_h20_it_is_offered_with_a_schema() -> None:
    schema = registry.schema(schedule_tool.TOOL)["function"]
    assert schedule_tool.TOOL in registry.every()
    assert schema["parameters"]["required"] == ["action"]
    assert set(schema["parameters"]["properties"]["action"]["enum"]) == set(schedule_tool.ACTIONS)
    for example in (WEEKDAYS, LAST_FRIDAY):
        assert example in schema["description"]


@pytest.mark.parametrize("at", ["2026-11-26T08:00", "2026-11-26 08:00:00", "2026-11-26T07:00Z"])
def test_h20_a_text_is_stored_with_its_person_grant_and_assistant(ada: User, at: str) -> None:
    result = call(ada, action="create", text="take the pills", at=at)
    row = Schedule.objects.get()
    assert (row.user, row.kind, row.text, row.rule) == (ada, "text", "take the pills", "")
    assert (row.start, row.time_zone) == ("2026-11-26T08:00:00", "Europe/Berlin")
    assert (row.sender, row.sender_kind, row.group, row.assistant_id) == ("2", "im", "", 7)
    assert row.session == ChatSession.objects.get()
    assert Occurrence.objects.get().look_at == datetime(2026, 11, 26, 7, 0, tzinfo=UTC)
    assert result.shown == (
        "⏰ take the pills\nThursday, 26 November 2026 at 08:00 (Europe/Berlin)"
    )
    assert row.public_id in result.text
    assert "has been shown" in result.text


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("remind me of the pills", ["every weekday: Thursday, 26 November 2026 at 07:30 · Friday"]),
        (
            "Erinnere mich bitte an die Tabletten",
            ["montags bis freitags: Donnerstag, 26."],
        ),
        ("recuérdame mañana las pastillas", ["de lunes a viernes: jueves, 26 de noviembre"]),
        ("rappelle-moi les médicaments à 7 h 30", ["du lundi au vendredi: jeudi 26 novembre"]),
        ("每个工作日早上提醒我吃药", ["每个工作日: 2026年11月26日 星期四"]),
        ("平日の朝に薬を知らせて", ["月曜日から金曜日まで: 2026年11月26日"]),
    ],
)
def test_h20_the_next_three_dates_are_shown_in_the_persons_language(
    ada: User, request_: str, words: list[str]
) -> None:
    shown = call(ada, request=request_, action="create", text="pills", rule=WEEKDAYS).shown
    assert shown.startswith("⏰ pills\n")
    assert shown.endswith(" (Europe/Berlin)")
    assert shown.count(" · ") == 2
    assert all(each in shown for each in words), shown


@pytest.mark.parametrize(
    ("arguments", "due"),
    [
        ({"in_minutes": 20}, "2026-11-25T12:20"),
        ({"in_minutes": "20"}, "2026-11-25T12:20"),
        ({"in_minutes": 0.5}, "2026-11-25T12:00:30"),
        ({"rule": LAST_FRIDAY}, "2026-11-27T08:00"),
        ({"rule": f"RRULE:{LAST_FRIDAY}"}, "2026-11-27T08:00"),
        (
            {"at": "2026-11-26T08:00", "rule": "", "in_minutes": None, "time_zone": ""},
            "2026-11-26T07:00",
        ),
        ({"at": "2026-11-26T08:00", "rule": "", "in_minutes": 0}, "2026-11-26T07:00"),
        ({"at": "2026-11-26T08:00", "time_zone": "Asia/Tokyo"}, "2026-11-25T23:00"),
        ({"at": "2026-11-26T08:00", "rule": "FREQ=DAILY", "kind": "prompt"}, "2026-11-26T07:00"),
    ],
)
def test_h20_times_are_those_that_are_written(
    ada: User, arguments: dict[str, Any], due: str
) -> None:
    call(ada, action="create", text="x", **arguments)
    assert Occurrence.objects.get().look_at == datetime.fromisoformat(due).replace(tzinfo=UTC)
    assert User.objects.get().time_zone == "Europe/Berlin"


def test_h20_one_for_this_very_minute_is_shown_with_its_time(ada: User) -> None:
    made = call(ada, action="create", text="x", at="2026-11-25T13:00")
    assert made.shown == "⏰ x\nWednesday, 25 November 2026 at 13:00 (Europe/Berlin)"


NO_MINUTES: tuple[Any, ...] = (
    0,
    -5,
    "soon",
    "nan",
    "inf",
    float("nan"),
    True,
    [],
    {},
    10**400,
    1e300,
    "1" * 5000,
)
NO_IDS: tuple[Any, ...] = ("x", "\x00", 1, [], {"a": 1}, "x" * 5000)
GARBAGE: list[dict[str, Any]] = [
    {},
    {"action": "explode"},
    {"action": None},
    {"action": ["create"]},
    {"action": "create"},
    {"action": "create", "text": "x"},
    {"action": "create", "text": "", "in_minutes": 5},
    {"action": "create", "text": {"a": 1}, "in_minutes": 5},
    {"action": "create", "text": "x" * 5000, "in_minutes": 5},
    {"action": "create", "text": "x", "kind": "song", "in_minutes": 5},
    {"action": "create", "text": "x", "if_missed": "maybe", "in_minutes": 5},
    *({"action": "create", "text": "x", "in_minutes": each} for each in NO_MINUTES),
    *(
        {"action": "create", "text": "x", "at": each}
        for each in (
            "tomorrow",
            "2026-11-26",
            "20261126",
            "26.11.2026 08:00",
            "2026-02-30T08:00",
            "2020-01-01T08:00",
            "0001-01-01T00:00+14:00",
            "9999-12-31T23:59-14:00",
            "9999-12-31T23:59",
            "\x00",
            20261126,
            "8" * 5000,
        )
    ),
    *(
        {"action": "create", "text": "x", "rule": each}
        for each in (
            "weekly",
            "FREQ=SECONDLY",
            "FREQ=DAILY;BYDAY=XX",
            "FREQ=MINUTELY;INTERVAL=0",
            "\x00",
            "F" * 9000,
        )
    ),
    {"action": "create", "text": "x", "kind": "prompt", "rule": "FREQ=MINUTELY"},
    *(
        {"action": "create", "text": "x", "in_minutes": 5, "time_zone": each}
        for each in ("Berln", "x" * 5000, "../etc/passwd", "\x00", "localtime")
    ),
    *({"action": each} for each in ("change", "pause", "resume", "delete")),
    *({"action": "delete", "id": each} for each in NO_IDS),
]


@pytest.mark.parametrize("arguments", GARBAGE, ids=lambda each: str(each)[:50])
def test_h21_any_garbage_is_refused_in_words(ada: User, arguments: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as error:
        call(ada, **arguments)
    assert 10 < len(str(error.value)) < 400
    assert not Schedule.objects.exists()


def test_h20_an_unknown_time_zone_is_asked_for_once(ada: User) -> None:
    User.objects.update(time_zone="")
    with pytest.raises(ToolError, match="Ask in which city"):
        call(ada, action="create", text="x", at="2026-11-26T08:00")
    call(ada, action="create", text="x", at="2026-11-26T08:00", time_zone="asia/tokyo")
    assert User.objects.get().time_zone == "Asia/Tokyo"
    call(ada, action="create", text="y", at="2026-11-27T08:00", call_id="b")
    assert set(Schedule.objects.values_list("time_zone", flat=True)) == {"Asia/Tokyo"}


def test_h20_a_refused_wish_leaves_the_time_zone_unknown_or_right(ada: User) -> None:
    User.objects.update(time_zone="")
    with pytest.raises(ToolError, match="IANA"):
        call(ada, action="create", text="x", in_minutes=5, time_zone="Nowhere/Town")
    assert User.objects.get().time_zone == ""


def test_h20_a_repeated_attempt_of_a_run_makes_one(ada: User) -> None:
    run = turn_of(ada, chat_of(ada, ChannelAccount.objects.get()))
    wish: dict[str, Any] = {"action": "create", "text": "x", "in_minutes": 5}
    first = call(ada, run=run, **wish)
    assert call(ada, run=run, **wish).shown == first.shown
    assert Schedule.objects.count() == 1
    call(ada, run=run, call_id="b", **wish)
    assert Schedule.objects.count() == 2


def test_h20_list_change_pause_resume_and_delete(ada: User) -> None:
    call(ada, action="create", text="pills\nand water", rule=WEEKDAYS)
    row = Schedule.objects.get()
    name = row.public_id
    said = call(ada, action="list").text
    assert said == (
        f"{name}: text “pills and water”, Thursday, 26 November 2026 at 07:30 (Europe/Berlin), "
        f"every weekday, {WEEKDAYS}"
    )
    # A model that fills in empty values changes the text alone.
    empty: dict[str, Any] = {
        "rule": "",
        "at": "",
        "in_minutes": None,
        "kind": "",
        "if_missed": "",
        "time_zone": "",
    }
    changed = call(ada, action="change", id=name, text="more water", **empty)
    assert changed.shown.startswith("⏰ more water\nevery weekday: Thursday")
    row.refresh_from_db()
    assert (row.text, row.rule, row.missed) == ("more water", WEEKDAYS, "once")
    paused = call(ada, action="pause", id=name, request="bitte mach eine Pause mit der Erinnerung")
    assert paused.shown == "Pausiert: more water"
    assert not Occurrence.objects.filter(state="waiting").exists()
    assert "paused (person)" in call(ada, action="list").text
    assert "paused" in call(ada, action="change", id=name, text="tea").shown
    resumed = call(ada, action="resume", id=name)
    assert resumed.shown.startswith("⏰ tea\nevery weekday: Thursday")
    moved = call(ada, action="change", id=name, rule="once", at="2026-12-01T10:00")
    assert moved.shown == "⏰ tea\nTuesday, 1 December 2026 at 10:00 (Europe/Berlin)"
    assert call(ada, action="delete", id=name).shown == "Deleted: tea"
    assert call(ada, action="list").text == "There are no schedules."
    with pytest.raises(ToolError, match="no schedule with this id"):
        call(ada, action="resume", id=name)


def test_h14_one_whose_own_grant_has_ended_is_not_resumed(ada: User) -> None:
    """The person is let in by another address now; the one that made it is off the list."""
    call(ada, action="create", text="tea", in_minutes=5)
    schedule = Schedule.objects.get()
    schedule_id = schedule.public_id
    call(ada, action="pause", id=schedule_id)
    Schedule.objects.update(sender="9")
    with pytest.raises(ToolError, match="not valid any more"):
        call(ada, action="resume", id=schedule_id)
    schedule.refresh_from_db()
    assert (schedule.state, schedule.why) == ("paused", "person")


def test_h14_a_turn_that_goes_on_after_a_yes_has_the_grant_of_its_message(ada: User) -> None:
    """Its second run has no message of its own: without the first one's it had no grant to lose."""
    first = turn_of(ada, chat_of(ada, ChannelAccount.objects.get()))
    second = Run.objects.create(
        session=first.session, user=ada, text="remind me", options={"continues": first.pk}
    )
    third = Run.objects.create(
        session=first.session, user=ada, text="remind me", options={"continues": second.pk}
    )
    call(ada, run=third, action="create", text="x", in_minutes=5)
    row = Schedule.objects.get()
    assert (row.sender, row.sender_kind) == ("2", "im")
    ada.identities.all().delete()
    with pytest.raises(ToolError, match="owner's list"):
        call(ada, run=third, action="create", text="y", in_minutes=5, call_id="b")


def test_h20_a_changed_one_keeps_its_time_zone(ada: User) -> None:
    call(ada, action="create", text="x", at="2026-11-26T08:00", time_zone="Asia/Tokyo")
    row = Schedule.objects.get()
    call(ada, action="change", id=row.public_id, at="2026-11-26T09:00")
    row.refresh_from_db()
    assert (row.start, row.time_zone) == ("2026-11-26T09:00:00", "Asia/Tokyo")


def test_h21_those_of_another_person_are_neither_seen_nor_changed(ada: User) -> None:
    bob = make_person("bob", "3")
    User.objects.filter(pk=bob.pk).update(time_zone="UTC")
    call(ada, action="create", text="secret", in_minutes=5)
    name = Schedule.objects.get().public_id
    assert call(bob, action="list").text == "There are no schedules."
    for action in ("change", "pause", "resume", "delete"):
        with pytest.raises(ToolError, match="no schedule with this id"):
            call(bob, action=action, id=name, text="mine")
    assert Schedule.objects.get().text == "secret"


def test_h21_in_a_group_only_those_of_the_chat(ada: User, settings: Any) -> None:
    owner = make_person("owner", "1", is_owner=True)
    owner.identities.create(kind="im", value="-7")
    call(ada, action="create", text="private", in_minutes=5)
    private = Schedule.objects.get().public_id
    call(ada, action="create", text="common", in_minutes=5, chat="-7")
    assert Schedule.objects.get(text="common").group == "-7"
    said = call(ada, action="list", chat="-7").text
    assert "common" in said
    assert "private" not in said
    with pytest.raises(ToolError, match="no schedule with this id"):
        call(ada, action="delete", id=private, chat="-7")
    settings.SCHEDULES_IN_GROUPS = False
    with pytest.raises(ToolError, match="no schedules in groups"):
        call(ada, action="list", chat="-7")


def test_h21_only_listed_people_and_within_the_limit(ada: User, settings: Any) -> None:
    settings.SCHEDULES_PER_PERSON = 1
    call(ada, action="create", text="x", in_minutes=5)
    with pytest.raises(ToolError, match="Delete one first"):
        call(ada, action="create", text="y", in_minutes=5, call_id="b")
    run = turn_of(ada, ChatSession.objects.get())
    ada.identities.all().delete()
    with pytest.raises(ToolError, match="owner's list"):
        call(ada, run=run, action="list")


def test_h20_a_passed_time_names_the_present_one(ada: User) -> None:
    at = (NOON - timedelta(hours=3)).isoformat()
    with pytest.raises(ToolError, match="it is Wednesday, 2026-11-25 13:00 in Europe/Berlin now"):
        call(ada, action="create", text="x", at=at)


def test_h20_another_time_zone_in_which_the_time_has_passed_is_refused(ada: User) -> None:
    """Two in the afternoon of Berlin is over in Tokyo: the reminder stays as it was."""
    call(ada, action="create", text="x", at="2026-11-25T14:00")
    row = Schedule.objects.get()
    with pytest.raises(ToolError, match="That time has passed"):
        call(ada, action="change", id=row.public_id, time_zone="Asia/Tokyo")
    row.refresh_from_db()
    assert (row.state, row.time_zone) == ("active", "Europe/Berlin")
    changed = call(ada, action="change", id=row.public_id, time_zone="America/New_York")
    assert "25 November 2026 at 14:00 (America/New_York)" in changed.shown


@pytest.mark.parametrize(
    ("rule", "times"),
    [
        ("FREQ=MINUTELY;INTERVAL=20;COUNT=3", ["13:20", "13:40", "14:00"]),
        ("FREQ=HOURLY;COUNT=1", ["14:00"]),
        ("FREQ=DAILY;COUNT=1", ["13:00"]),
        ("FREQ=DAILY;BYHOUR=13;BYMINUTE=0;COUNT=2", ["13:00", "13:00"]),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=WE;COUNT=2", ["13:00", "13:00"]),
        ("FREQ=DAILY;BYHOUR=13,18;BYMINUTE=0;COUNT=2", ["18:00", "13:00"]),
    ],
)
def test_h20_a_count_without_a_first_time_counts_times_that_are_still_to_come(
    ada: User, rule: str, times: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for at 13:00:30: the time in this minute is over, and none of so many."""
    monkeypatch.setattr(timezone, "now", lambda: NOON + timedelta(seconds=30))
    shown = call(ada, action="create", text="x", rule=rule).shown
    assert re.findall(r"\d\d:\d\d", shown) == times
    row = Schedule.objects.get()
    assert row.state == "active"
    changed = call(ada, action="change", id=row.public_id, rule=rule).shown
    assert re.findall(r"\d\d:\d\d", changed) == times


def test_h20_a_rule_that_ends_in_this_minute_is_refused(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had one time, half a minute ago: stored, it would be over without a word."""
    monkeypatch.setattr(timezone, "now", lambda: NOON + timedelta(seconds=30))
    with pytest.raises(ToolError, match="That time has passed"):
        call(ada, action="create", text="x", rule="FREQ=DAILY;UNTIL=20261125T130000")
    assert not Schedule.objects.exists()

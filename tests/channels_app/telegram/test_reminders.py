"""Reminders in chats of Telegram, from the request to the button ([H20] to [H24])."""

import json
from pathlib import Path

import pytest

from channels_app.worker.runner import Runner
from core.models import ChannelIdentity, Delivery, Occurrence, Schedule, User
from tests.channels_app.running import until
from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import Params, number, person

pytestmark = pytest.mark.django_db(transaction=True)
SOON = 0.02  # minutes
WEEKDAYS = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=7;BYMINUTE=30"
GROUP = -100500


def call(match: str, reply: str, **arguments: object) -> list[Params]:
    """Return the rules of a model that calls the tool for a request, and then replies."""
    step = {"tool": "schedule", "arguments": {"action": "create", **arguments}}
    return [
        {"match": match, "after_tool": True, "steps": [{"text": reply}]},
        {"match": match, "steps": [step]},
    ]


SCRIPT = [
    *call("remind me", "I will.", text="take the pills", in_minutes=SOON),
    *call("Erinnere mich", "Gern.", text="Bitte nimm die Tabletten", in_minutes=SOON),
    *call("薬を", "はい。", text="薬を飲む時間です", in_minutes=SOON),
    *call("every weekday", "Done.", kind="prompt", text="the news", rule=WEEKDAYS),
    *call("in my zone", "Done.", text="x", at="2099-06-01T08:00", time_zone="Asia/Tokyo"),
    *call("nonsense", "I could not.", text="x", rule="FREQ=NEVER"),
    {"match": "", "steps": [{"text": "{input}"}]},
]


@pytest.fixture
def bot(runner: Runner, local: Local, tmp_path: Path, settings: pytest.FixtureRequest) -> Local:
    """Return the bot with a model that plays the script; its people have a time zone."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    settings.LLM_SCRIPT = str(path)  # type: ignore[attr-defined]
    User.objects.update(time_zone="Europe/Berlin")
    return local


def shown(bot: Local, chat: int) -> Shown:
    """Return the last message of a chat."""
    return bot.api.shown(bot.tokens["main"], chat)[-1]


def buttons(bot: Local, chat: int) -> dict[str, str]:
    """Return the buttons under the last message of a chat: label -> data."""
    return {
        each["text"]: each["callback_data"] for row in shown(bot, chat).keyboard for each in row
    }


def press(bot: Local, data: str, *, by: int, chat: int) -> None:
    """Press a button under the last message of a chat."""
    bot.post(
        {
            "update_id": number(),
            "callback_query": {
                "id": str(number()),
                "from": person(by),
                "data": data,
                "message": {
                    "message_id": shown(bot, chat).id,
                    "chat": {"id": chat, "type": "private" if chat > 0 else "supergroup"},
                },
            },
        }
    )


def answers(bot: Local) -> list[str]:
    """Return the lines that presses were answered with."""
    return [each.params["text"] for each in bot.api.of("answerCallbackQuery")]


@pytest.mark.parametrize(
    ("asked", "receipt", "reply", "text", "labels"),
    [
        (
            *("remind me in a second", " at ", "I will.", "⏰ take the pills"),
            ["Done", "In 10 minutes", "Tomorrow"],
        ),
        (
            *("Erinnere mich bitte gleich", " um ", "Gern.", "⏰ Bitte nimm die Tabletten"),
            ["Erledigt", "In 10 Minuten", "Morgen"],
        ),
        (
            *("薬を飲むのを教えて", "年", "はい。", "⏰ 薬を飲む時間です"),
            ["完了", "10分後", "明日"],
        ),
    ],
)  # fmt: skip
def test_h20_remind_me_in_three_languages(
    bot: Local, asked: str, receipt: str, reply: str, text: str, labels: list[str]
) -> None:
    """The receipt has the date in words, the reminder comes, with its buttons."""
    bot.say(asked, user=556)
    until(lambda: text in bot.texts(556))
    first = bot.texts(556)[0]
    assert reply in first
    assert receipt in first
    assert "(Europe/Berlin)" in first
    assert list(buttons(bot, 556)) == labels
    until(lambda: Occurrence.objects.get().state == "done")


def test_h20_every_weekday_shows_the_next_three_dates(bot: Local) -> None:
    bot.say("every weekday the news", user=556)
    until(lambda: len(bot.texts(556)) == 1)
    [said] = bot.texts(556)
    assert "every weekday: " in said
    assert said.count(" at 07:30") == 3
    assert "Saturday" not in said
    schedule = Schedule.objects.get()
    assert (schedule.kind, schedule.rule, schedule.sender) == ("prompt", WEEKDAYS, "556")


def test_h20_a_rule_that_is_none_comes_back_to_the_model_in_words(bot: Local) -> None:
    bot.say("nonsense", user=556)
    until(lambda: bot.texts(556) == ["I could not."])
    assert not Schedule.objects.exists()


def test_h21_the_time_zone_is_asked_for_once(bot: Local) -> None:
    User.objects.update(time_zone="")
    bot.say("remind me soon", user=556)
    until(lambda: bot.texts(556) == ["I will."])  # the scripted model does not ask
    assert not Schedule.objects.exists()
    bot.say("in my zone", user=556)
    until(lambda: Schedule.objects.filter(time_zone="Asia/Tokyo").exists())
    assert User.objects.get(username="guest").time_zone == "Asia/Tokyo"


def test_h21_the_command_sets_the_time_zone(bot: Local) -> None:
    for text in ("/timezone", "/timezone Tokyo", "/timezone Atlantis", "/timezone"):
        bot.say(text, user=556)
    until(lambda: len(bot.texts(556)) == 4)
    said = bot.texts(556)
    assert said[0].startswith("Your time zone is Europe/Berlin.")
    assert said[1] == "Your time zone is Asia/Tokyo now."
    assert "not the IANA name" in said[2]
    assert said[3].startswith("Your time zone is Asia/Tokyo.")


def test_h22_buttons_are_the_persons_own_and_count_once(bot: Local) -> None:
    bot.say("remind me now", user=556)
    until(lambda: "⏰ take the pills" in bot.texts(556))
    later = buttons(bot, 556)["In 10 minutes"]
    assert all(len(each.encode()) <= 64 for each in buttons(bot, 556).values())
    for intruder in (555, 700):
        press(bot, later, by=intruder, chat=556)
    until(lambda: len(answers(bot)) == 2)
    assert sorted(answers(bot)) == [
        "Only listed people have reminders.",
        "This reminder does not exist any more.",
    ]
    assert not Occurrence.objects.filter(snoozed=True).exists()
    for _ in range(2):
        press(bot, later, by=556, chat=556)
    until(lambda: bot.texts(556)[-1].endswith("↻ I will remind you in 10 minutes."))
    until(lambda: not Delivery.objects.exclude(state="sent").exists())
    assert shown(bot, 556).keyboard == []
    assert bot.texts(556)[-1].count("↻") == 1
    assert Occurrence.objects.filter(snoozed=True, state="waiting").count() == 1
    assert Schedule.objects.get().state == "active"


@pytest.mark.parametrize(("label", "sign"), [("Done", "✓ Done."), ("Tomorrow", "↻")])
def test_h22_done_and_tomorrow(bot: Local, label: str, sign: str) -> None:
    bot.say("remind me now", user=556)
    until(lambda: "⏰ take the pills" in bot.texts(556))
    press(bot, buttons(bot, 556)[label], by=556, chat=556)
    until(lambda: sign in bot.texts(556)[-1])
    assert Occurrence.objects.filter(snoozed=True).count() == (label == "Tomorrow")


def test_h23_the_list_has_buttons_that_change_it_in_place(bot: Local) -> None:
    bot.say("every weekday the news", user=556)
    until(lambda: len(bot.texts(556)) == 1)
    bot.say("/reminders", user=556)
    until(lambda: len(bot.texts(556)) == 2)
    assert bot.texts(556)[1].startswith("1. ✨ the news — ")
    assert list(buttons(bot, 556)) == ["⏸ 1", "🗑 1"]
    press(bot, buttons(bot, 556)["⏸ 1"], by=555, chat=556)  # somebody else's press
    until(lambda: answers(bot) == ["This reminder does not exist any more."])
    assert Schedule.objects.get().state == "active"
    press(bot, buttons(bot, 556)["⏸ 1"], by=556, chat=556)
    until(lambda: "⏸ paused" in bot.texts(556)[1])
    assert list(buttons(bot, 556)) == ["▶️ 1", "🗑 1"]
    press(bot, buttons(bot, 556)["▶️ 1"], by=556, chat=556)
    until(lambda: list(buttons(bot, 556)) == ["⏸ 1", "🗑 1"])
    press(bot, buttons(bot, 556)["🗑 1"], by=556, chat=556)
    until(lambda: bot.texts(556)[1].startswith("You have no reminders."))
    assert shown(bot, 556).keyboard == []
    assert Schedule.objects.get().state == "ended"


def test_h23_the_list_is_changed_by_numbers_as_well(bot: Local) -> None:
    bot.say("every weekday the news", user=556)
    until(lambda: len(bot.texts(556)) == 1)
    for text in ("/reminders pause 1", "/reminders resume 1", "/reminders pause 2", "/reminders x"):
        bot.say(text, user=556)
    bot.say("/reminders delete 1", user=556)
    until(lambda: len(bot.texts(556)) == 6)
    said = bot.texts(556)[1:]
    assert "⏸ paused" in said[0]
    assert " at 07:30" in said[1]
    assert said[2] == "There is no reminder with this number."
    assert said[3].startswith("/reminders pause 1")
    assert said[4].startswith("You have no reminders.")


def test_h24_in_a_group_it_comes_to_the_group_for_listed_people(bot: Local) -> None:
    guest = User.objects.get(username="guest")
    ChannelIdentity.objects.create(user=guest, kind="im", value=str(GROUP))
    bot.say("@bot900_bot remind me now", user=556, chat=GROUP)
    until(lambda: "⏰ take the pills" in bot.texts(GROUP))
    schedule = Schedule.objects.get()
    assert (schedule.group, schedule.chat, schedule.user) == (str(GROUP), str(GROUP), guest)
    bot.say("/reminders@bot900_bot", user=555, chat=GROUP)
    until(lambda: bot.texts(GROUP)[-1].startswith("You have no reminders."))


def test_h24_the_owner_may_forbid_them_in_groups(
    bot: Local, settings: pytest.FixtureRequest
) -> None:
    settings.SCHEDULES_IN_GROUPS = False  # type: ignore[attr-defined]
    guest = User.objects.get(username="guest")
    ChannelIdentity.objects.create(user=guest, kind="im", value=str(GROUP))
    bot.say("@bot900_bot remind me now", user=556, chat=GROUP)
    until(lambda: bot.texts(GROUP) == ["I will."])
    assert not Schedule.objects.exists()


def test_h24_an_open_list_is_no_grant(bot: Local) -> None:
    open_user = User.objects.create(username="open", only_listed=False, time_zone="UTC")
    bot.say("remind me now", user=900)
    until(lambda: bot.texts(900) == ["I will."])
    bot.say("/reminders", user=900)
    until(lambda: "listed people" in bot.texts(900)[-1])
    assert not Schedule.objects.filter(user=open_user).exists()

"""Reminders in chats of Telegram, from the request to the reminder ([H20], [H24])."""

import json
from pathlib import Path

import pytest

from channels_app.worker.runner import Runner
from core.models import ChannelIdentity, Occurrence, Schedule, User
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


def test_h20_the_time_zone_is_asked_for_once(bot: Local) -> None:
    User.objects.update(time_zone="")
    bot.say("remind me soon", user=556)
    until(lambda: bot.texts(556) == ["I will."])  # the scripted model does not ask
    assert not Schedule.objects.exists()
    bot.say("in my zone", user=556)
    until(lambda: Schedule.objects.filter(time_zone="Asia/Tokyo").exists())
    assert User.objects.get(username="guest").time_zone == "Asia/Tokyo"


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

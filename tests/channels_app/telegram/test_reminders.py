"""Reminders in chats of Telegram, from the request to the reminder ([H20], [H24])."""

from pathlib import Path

import pytest
from pytest_django import Settings

from channels_app.worker.runner import Runner
from core.models import ChannelIdentity, Schedule, User
from tests.channels_app.running import script, until
from tests.channels_app.telegram.local import Local
from tests.channels_app.telegram.people import Params

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
    *call("every weekday", "Done.", kind="prompt", text="the news", rule=WEEKDAYS),
    *call("in my zone", "Done.", text="x", at="2099-06-01T08:00", time_zone="Asia/Tokyo"),
    *call("nonsense", "I could not.", text="x", rule="FREQ=NEVER"),
    {"match": "", "steps": [{"text": "{input}"}]},
]


@pytest.fixture
def bot(runner: Runner, local: Local, tmp_path: Path, settings: Settings) -> Local:
    """Return the bot with a model that plays the script; its people have a time zone."""
    script(settings, tmp_path, *SCRIPT)
    User.objects.update(time_zone="Europe/Berlin")
    return local


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
    until(lambda: "⏰ guest: take the pills" in bot.texts(GROUP))
    schedule = Schedule.objects.get()
    assert (schedule.group, schedule.chat, schedule.user) == (str(GROUP), str(GROUP), guest)
    bot.say("/reminders@bot900_bot", user=555, chat=GROUP)
    until(lambda: bot.texts(GROUP)[-1].startswith("You have no reminders."))


def test_h24_the_owner_may_forbid_them_in_groups(bot: Local, settings: Settings) -> None:
    settings.SCHEDULES_IN_GROUPS = False
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

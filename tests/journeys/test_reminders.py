"""docs/schedules.md: "remind me" and "every weekday" on Telegram.

In three languages: the gateway answers in the language of the request.
"""

import re
from typing import Any

import pytest

from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.people import number
from tests.journeys.conftest import OWNER_ON_TELEGRAM, Installation
from tests.journeys.model import Rule
from tests.journeys.test_people import press
from tests.servers import wait_until

WEEKDAYS = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=7;BYMINUTE=30"
# The request, the text, and the words of the button.
LANGUAGES = {
    "en": ("Please remind me soon to water the plants", "Please water the plants", "Done"),
    "de": ("Bitte erinnere mich bald daran, die Blumen zu gießen", "Die Blumen gießen", "Erledigt"),
    "ja": ("もうすぐ花に水をやることを思い出させてください", "花に水をやってください", "完了"),
}


def understands(running: Installation, request: str, **arguments: Any) -> None:
    """Let the model call the tool at a request."""
    given = {"action": "create", "kind": "text", "time_zone": "Europe/Berlin", **arguments}
    rule = Rule(re.escape(request), tool="schedule", arguments=given)
    running.model.rules.insert(0, rule)
    running.model.rules.insert(0, Rule(re.escape(request), text="OK.", after_tool=True))


def fired(running: Installation, chat: int, text: str) -> list[Shown]:
    """Return the messages of a reminder: those with buttons, or with their outcome."""
    return [
        each
        for each in running.shown(chat)
        if each.text.startswith(f"⏰ {text}") and "Europe/Berlin" not in each.text
    ]


@pytest.mark.parametrize("language", LANGUAGES)
def test_remind_me_on_telegram(telegram: Installation, language: str) -> None:
    """The receipt has the date, the reminder comes once, and its button works."""
    request, words, done = LANGUAGES[language]
    request, words = f"{request} {number()}", f"{words} {number()}"
    understands(telegram, request, text=words, in_minutes=0.1)
    telegram.writes(OWNER_ON_TELEGRAM, request)
    receipt = telegram.hears(OWNER_ON_TELEGRAM, words)
    assert "(Europe/Berlin)" in receipt.history[-1]
    wait_until(lambda: fired(telegram, OWNER_ON_TELEGRAM, words), what=f"the reminder {words}")
    [reminder] = fired(telegram, OWNER_ON_TELEGRAM, words)
    assert reminder.keyboard[0][0]["text"] == done
    press(telegram, reminder, done)
    wait_until(
        lambda: f"✓ {done}" in fired(telegram, OWNER_ON_TELEGRAM, words)[0].text,
        what="the outcome under the reminder",
    )
    [reminder] = fired(telegram, OWNER_ON_TELEGRAM, words)
    assert reminder.keyboard == []


def test_every_weekday_shows_three_dates(telegram: Installation) -> None:
    request = f"Please tell me the news every weekday at half past seven {number()}"
    words = f"Tell the news {number()}"
    understands(telegram, request, text=words, kind="prompt", rule=WEEKDAYS)
    telegram.writes(OWNER_ON_TELEGRAM, request)
    receipt = telegram.hears(OWNER_ON_TELEGRAM, words)
    line = receipt.text.splitlines()[1]
    assert line.count(" · ") == 2
    assert line.count("7:30") >= 3
    assert not re.search("Saturday|Sunday", line)

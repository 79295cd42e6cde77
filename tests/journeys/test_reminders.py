"""docs/schedules.md: "remind me", "every weekday" and "my grant ended", as people do it.

In three languages: the gateway answers in the language of the request.
"""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.people import number
from tests.journeys.conftest import OWNER_ON_TELEGRAM, Installation, ask
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


@pytest.mark.parametrize("language", ["de", "ja"])
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


@pytest.mark.parametrize("language", ["en"])
def test_remind_me_in_the_web_chat(page: Page, running: Installation, language: str) -> None:
    """The receipt and the reminder are in the open page; a press leaves its line there."""
    request, words, done = LANGUAGES[language]
    request, words = f"{request} {number()}", f"{words} {number()}"
    understands(running, request, text=words, in_minutes=0.05)
    page.goto(running.url)
    ask(page, request)
    receipt = page.locator(".answer .prose", has_text=f"⏰ {words}").first
    expect(receipt).to_contain_text("(Europe/Berlin)")
    button = page.get_by_role("button", name=done, exact=True).last
    expect(button).to_be_visible(timeout=60_000)
    button.click()
    expect(page.get_by_role("button", name=done, exact=True)).to_have_count(0)
    page.goto(f"{running.url}/reminders")
    expect(page.locator("body")).to_contain_text(words)


MAKE = """
from core.models import ChannelIdentity, User
user = User.objects.create(username="fay{0}", display_name="Fay{0}")
ChannelIdentity.objects.create(user=user, kind="im", value="{0}")
"""
STATE = """
from core.models import Schedule
print(Schedule.objects.get(user__username="fay{0}").why)
"""


def test_my_grant_ended(page: Page, telegram: Installation, sender: int) -> None:
    """Switched off in the admin, a person's reminders stop the same moment; others come."""
    telegram.up.manage("shell", "-v", "0", "-c", MAKE.format(sender))
    theirs, mine = (f"{who} {number()}, please remind" for who in ("Fay", "Owner"))
    understands(telegram, theirs, text=theirs, in_minutes=0.3)
    understands(telegram, mine, text=mine, in_minutes=0.35)
    telegram.writes(sender, theirs)
    telegram.hears(sender, "(Europe/Berlin)")
    telegram.writes(OWNER_ON_TELEGRAM, mine)
    page.goto(f"{telegram.url}/admin/core/user/?q=fay{sender}")
    page.get_by_role("link", name=f"Fay{sender}").first.click()
    page.locator("[name=is_active]").uncheck()
    page.locator("[name=_save]").first.click()
    page.wait_for_url(re.compile("/admin/core/user/(?!.*change)"))
    why = telegram.up.manage("shell", "-v", "0", "-c", STATE.format(sender))
    assert why.strip() == "grant"
    wait_until(lambda: fired(telegram, OWNER_ON_TELEGRAM, mine), seconds=60, what="the owner's")
    assert fired(telegram, sender, theirs) == []

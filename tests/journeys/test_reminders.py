"""docs/schedules.md: "remind me", "every weekday", "in the group", "my grant ended", "comes late".

In three languages: the gateway answers in the language of the request.
"""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.people import number
from tests.journeys.conftest import OWNER_ON_TELEGRAM, Installation, ask
from tests.journeys.documents import says
from tests.journeys.model import Rule
from tests.journeys.test_people import press
from tests.servers import wait_until

WEEKDAYS = "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=7;BYMINUTE=30"
# The request, the text, and the words of the buttons.
LANGUAGES = {
    "en": (
        *("Please remind me soon to water the plants", "Please water the plants"),
        ["Done", "In 10 minutes", "Tomorrow"],
    ),
    "de": (
        *("Bitte erinnere mich bald daran, die Blumen zu gießen", "Die Blumen gießen"),
        ["Erledigt", "In 10 Minuten", "Morgen"],
    ),
    "ja": (
        *("もうすぐ花に水をやることを思い出させてください", "花に水をやってください"),
        ["完了", "10分後", "明日"],
    ),
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


def comes(running: Installation, chat: int, text: str) -> list[Shown]:
    """Wait for a reminder; return its messages."""
    wait_until(lambda: fired(running, chat, text), what=f"the reminder {text}")
    return fired(running, chat, text)


def has_outcome(running: Installation, chat: int, text: str, outcome: str) -> None:
    """Wait until the one message of a reminder shows what was chosen, without buttons."""

    def shown() -> Shown:
        [found] = fired(running, chat, text)
        return found

    wait_until(lambda: outcome in shown().text, what=f"{outcome} under {text}")
    assert shown().keyboard == []


def test_remind_me_on_telegram_in_three_languages(telegram: Installation) -> None:
    """The receipts have the date, each reminder comes once, and its button works."""
    wanted = {}
    for request, words, labels in LANGUAGES.values():
        said, text = f"{request} {number()}", f"{words} {number()}"
        understands(telegram, said, text=text, in_minutes=0.1)
        telegram.writes(OWNER_ON_TELEGRAM, said)
        receipt = telegram.hears(OWNER_ON_TELEGRAM, text)
        assert "(Europe/Berlin)" in receipt.history[-1]
        wanted[text] = labels
    for text, labels in wanted.items():
        [reminder] = comes(telegram, OWNER_ON_TELEGRAM, text)
        assert [each["text"] for each in reminder.keyboard[0]] == labels
        press(telegram, reminder, labels[0])
    for text, (done, *_) in wanted.items():
        has_outcome(telegram, OWNER_ON_TELEGRAM, text, f"✓ {done}")


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


def test_remind_me_in_the_web_chat_in_three_languages(page: Page, running: Installation) -> None:
    """The receipts and the reminders are in the open page; a press leaves its line there."""
    wanted = {}
    page.goto(running.url)
    for request, words, (done, *_) in LANGUAGES.values():
        said, text = f"{request} {number()}", f"{words} {number()}"
        understands(running, said, text=text, in_minutes=0.1)
        ask(page, said)
        receipt = page.locator(".answer .prose", has_text=f"⏰ {text}").first
        expect(receipt).to_contain_text("(Europe/Berlin)")
        wanted[text] = done
    for done in wanted.values():
        button = page.get_by_role("button", name=done, exact=True)
        expect(button).to_be_visible()
        button.click()
        expect(button).to_have_count(0)
    page.goto(f"{running.url}/reminders")
    for text in wanted:
        expect(page.locator("body")).to_contain_text(text)


PEOPLE = """
users:
  - name: Fay{0}
    id: fay{0}
    im: ["telegram:{0}"]
  - name: Family{0}
    id: family{0}
    im: ["telegram:-{0}"]
"""


@pytest.fixture(scope="module")
def fay(running: Installation, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Import a person and a group, whose id is hers with a minus, as docs/unknown-senders.md says;
    return her id on Telegram.
    """
    found = number()
    file = tmp_path_factory.mktemp("people") / "user.yml"
    file.write_text(PEOPLE.format(found))
    line = says("docs/unknown-senders.md", "manage.py import_users user.yml")
    running.manage(line.replace("user.yml", str(file)))
    return found


def test_in_the_group(telegram: Installation, fay: int) -> None:
    """A reminder that is made in a group comes there, once, with the name of its person, and only
    she can answer it; others see none of hers in their list.
    """
    says("docs/schedules.md", "other members of a group get a line that says so")
    group, bot = -fay, f"bot{telegram.bot.partition(':')[0]}_bot"
    request, words = f"please remind me of the keys {number()}", f"Take the keys {number()}"
    understands(telegram, request, text=words, in_minutes=0.05)
    telegram.writes(fay, f"@{bot} {request}", chat=group)
    assert "(Europe/Berlin)" in telegram.hears(group, words).text
    [reminder] = comes(telegram, group, f"Fay{fay}: {words}")
    press(telegram, reminder, "Done", by=OWNER_ON_TELEGRAM)
    telegram.writes(OWNER_ON_TELEGRAM, f"/reminders@{bot}", chat=group)
    telegram.hears(group, "You have no reminders.")
    assert "✓" not in fired(telegram, group, f"Fay{fay}: {words}")[0].text
    press(telegram, reminder, "Done", by=fay)
    has_outcome(telegram, group, f"Fay{fay}: {words}", "✓ Done")
    assert fired(telegram, fay, "") == []


def test_topics_of_a_group_keep_apart(telegram: Installation, fay: int) -> None:
    """docs/channels.md: a mention is answered in its topic; each topic is a conversation."""
    says("docs/channels.md", "Messages of one (account, chat, topic, person)")
    group, bot = -fay, f"bot{telegram.bot.partition(':')[0]}_bot"
    for topic in (7, 8):
        telegram.writes(fay, f"@{bot} what of topic {topic}?", chat=group, thread=topic)

    def said(topic: int) -> list[str]:
        return telegram.api.texts(telegram.bot, group, topic)

    wait_until(lambda: said(7) and said(8), what="an answer in each topic")
    for topic in (7, 8):
        assert [f"topic {topic}?" in each for each in said(topic)] == [True]
    asked = [each for each in telegram.model.prompts() if "what of topic" in each]
    assert not any("topic 7" in each and "topic 8" in each for each in asked)


def test_my_grant_ended(page: Page, telegram: Installation, fay: int) -> None:
    """Switched off in the admin, a person's reminders stop the same moment; others come."""
    theirs, mine = (f"{who} {number()}, please remind" for who in ("Fay", "Owner"))
    understands(telegram, theirs, text=theirs, in_minutes=0.25)
    understands(telegram, mine, text=mine, in_minutes=0.25)
    telegram.writes(fay, theirs)
    telegram.hears(fay, "(Europe/Berlin)")
    telegram.writes(OWNER_ON_TELEGRAM, mine)
    page.goto(f"{telegram.url}/admin/core/user/?q=fay{fay}")
    page.get_by_role("link", name=f"Fay{fay}").first.click()
    page.locator("[name=is_active]").uncheck()
    page.locator("[name=_save]").first.click()
    page.wait_for_url(re.compile("/admin/core/user/(?!.*change)"))
    page.goto(f"{telegram.url}/admin/core/schedule/")
    row = page.locator("#result_list tr", has_text=theirs)
    expect(row).to_contain_text("the person is not on the list any more")
    comes(telegram, OWNER_ON_TELEGRAM, mine)
    assert fired(telegram, fay, theirs) == []


def test_i_was_off(telegram: Installation) -> None:
    """docs/schedules.md, *Missed*: the gateway is stopped over a due time; started again it says
    so, once.
    """
    says("docs/schedules.md", "it comes *once*, as soon as possible, with the time at which it was")
    request, words = f"please remind me of the oven {number()}", f"Look into the oven {number()}"
    understands(telegram, request, text=words, in_minutes=0.12)
    telegram.writes(OWNER_ON_TELEGRAM, request)
    receipt = telegram.hears(OWNER_ON_TELEGRAM, words)
    due = time.monotonic() + 0.12 * 60
    telegram.up.process.stop(seconds=15)
    assert fired(telegram, OWNER_ON_TELEGRAM, words) == []
    missed = int(telegram.up.extra["SCHEDULE_MISSED_SECONDS"])
    wait_until(lambda: time.monotonic() > due + missed, what="the time at which it was missed")
    telegram.up.process.log.unlink()
    telegram.up.start()
    [reminder] = comes(telegram, OWNER_ON_TELEGRAM, words)
    found = re.search(r"This was due at (\d\d:\d\d) and comes late\.", reminder.text)
    assert found is not None, reminder.text
    assert f" at {found[1]} (Europe/Berlin)" in receipt.history[-1]
    press(telegram, reminder, "Done")
    has_outcome(telegram, OWNER_ON_TELEGRAM, words, "✓ Done")

"""Reminders in a real browser: two people, one page open and one closed ([H30] to [H33])."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Seen, ask, finished, fits, link, shell, sign_in, watch
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
OpenPage = Callable[..., tuple[Page, Seen]]
DESKTOP = {"viewport": {"width": 1400, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
SIZES = [pytest.param(DESKTOP, id="desktop"), pytest.param(PHONE, id="phone")]
# A reminder of a person in their latest web chat, that is due now.
REMIND = """
from django.utils import timezone
from channels_app.schedules import places
from core.conversations.schedules import changes
from core.conversations.schedules.changes import Grant, Wish
from core.models import User
user = User.objects.get(username="{user}")
changes.create(
    user=user, session=places.web_chat(user), grant=Grant(), now=timezone.now(),
    wish=Wish(text="{text}", kind="{kind}", minutes={minutes}, rule="{rule}",
    time_zone="Europe/Berlin"),
)
"""
WAIT = """
import time
from core.models import Occurrence
rows = Occurrence.objects.filter(schedule__text="{text}", delivered_at__isnull=False)
deadline = time.monotonic() + 60
while not rows.exists() and time.monotonic() < deadline:
    time.sleep(0.05)
print("delivered" if rows.exists() else "nothing came")
"""
BEN = """
from core.models import User
User.objects.get_or_create(username="ben", defaults={"display_name": "Ben Okri"})
"""


def remind(gateway: Gateway, text: str, **given: Any) -> None:
    """Make a reminder that is due in a moment."""
    values = {"user": "ada", "kind": "text", "minutes": 0.001, "rule": "", **given}
    shell(gateway, REMIND.format(text=text, **values))


def wait_until_delivered(gateway: Gateway, text: str) -> None:
    """Return once a reminder was delivered, which no page shows meanwhile."""
    looked = shell(gateway, WAIT.format(text=text))
    assert looked == "delivered"


def photograph(page: Page, name: str) -> None:
    """Keep what the window shows, light and dark, when the folder of the pictures is named."""
    folder = os.environ.get("TEST_PICTURES")
    for theme in ("light", "dark") if folder else ():
        page.evaluate("theme => document.documentElement.dataset.theme = theme", theme)
        path = Path(str(folder)) / f"reminders-{name}-{page.viewport_size['width']}-{theme}.png"  # type: ignore[index]
        page.screenshot(path=path, full_page=True)


@pytest.fixture
def ben(browser: Browser, gateway: Gateway) -> Iterator[Page]:
    """Yield the page of a second person, who has a chat."""
    shell(gateway, BEN)
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    page.seen = watch(page)  # type: ignore[attr-defined]
    sign_in(page, link(gateway, "ben"), "Ben Okri")
    ask(page, "Hello")
    finished(page)
    yield page
    context.close()


@pytest.mark.parametrize("size", SIZES)
def test_h32_a_reminder_comes_to_the_open_page_of_its_person_only(
    open_page: OpenPage, gateway: Gateway, ben: Page, size: dict[str, Any]
) -> None:
    """A text that is being written stays, and the press stays after a reload."""
    page, seen = open_page(gateway, **size)
    ask(page, "Remind me of the bins")
    finished(page)
    box = page.get_by_label("Message", exact=True)
    box.fill("half a sentence")
    remind(gateway, "Take the bins out", rule="FREQ=DAILY")
    expect(page.locator(".prose", has_text="⏰ Take the bins out")).to_be_visible()
    expect(page.locator("#announcer")).to_contain_text("Take the bins out")
    assert box.input_value() == "half a sentence"
    box.fill("")
    later = page.get_by_role("button", name="In 10 minutes")
    expect(later).to_be_visible()
    photograph(page, "1-conversation")
    fits(page)
    later.focus()
    page.keyboard.press("Enter")
    line = page.locator(".reminder-said")
    expect(line).to_have_text("I will remind you in 10 minutes.")
    expect(line).to_be_focused()
    photograph(page, "2-pressed")
    page.reload()
    expect(line).to_have_text("I will remind you in 10 minutes.")
    expect(page.get_by_role("button", name="Tomorrow")).to_have_count(0)
    expect(ben.locator(".prose", has_text="bins out")).to_have_count(0)
    ben.reload()
    finished(ben)
    expect(ben.locator(".prose", has_text="bins out")).to_have_count(0)
    assert seen.problems == []


def test_h32_a_reminder_that_came_while_the_page_was_closed_is_there_when_it_opens(
    open_page: OpenPage, gateway: Gateway, ben: Page
) -> None:
    address = ben.url
    ben.goto("about:blank")
    page, seen = open_page(gateway)
    ask(page, "Hello")
    finished(page)
    remind(gateway, "Feed the cat", user="ben")
    wait_until_delivered(gateway, "Feed the cat")
    ben.goto(address)
    expect(ben.locator(".prose", has_text="⏰ Feed the cat")).to_be_visible()
    ben.get_by_role("button", name="Done").click()
    expect(ben.locator(".reminder-said")).to_have_text("Done.")
    expect(page.locator(".prose", has_text="Feed the cat")).to_have_count(0)
    ben.goto(f"{gateway.base_url}/reminders")
    expect(ben.locator(".card", has_text="Feed the cat")).to_contain_text("Delivered at")
    assert seen.problems == []
    assert ben.seen.problems == []  # type: ignore[attr-defined]


def test_h32_a_connection_that_was_lost_meanwhile_brings_it_too(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "Hello")
    finished(page)
    gateway.kill("web")
    expect(page.locator("#connection")).to_be_visible()
    remind(gateway, "Call Grace")
    wait_until_delivered(gateway, "Call Grace")
    gateway.restart("web")
    expect(page.locator(".prose", has_text="⏰ Call Grace")).to_be_visible()


def test_h32_a_scheduled_prompt_shows_that_the_schedule_asked(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    ask(page, "Hello")
    finished(page)
    remind(gateway, "markdown every morning", kind="prompt")
    said = page.locator(".said", has_text="markdown every morning")
    expect(said.locator(".scheduled")).to_contain_text("⏰ Scheduled")
    finished(page, 2)
    expect(page.locator(".prose h3")).to_have_text("Title")
    expect(page.locator(".reminder-buttons")).to_have_count(0)
    photograph(page, "3-prompt")
    assert seen.problems == []


@pytest.mark.parametrize("size", SIZES)
def test_h31_the_form_names_the_mistake_and_then_the_next_times(
    open_page: OpenPage, gateway: Gateway, size: dict[str, Any]
) -> None:
    page, seen = open_page(gateway, **size, timezone_id="Europe/Berlin")
    if size is PHONE:
        page.get_by_role("button", name="Show the list of chats").click()
    page.get_by_role("link", name="Reminders").click()
    page.get_by_role("link", name="New reminder").click()
    minutes = page.get_by_label("Every how many minutes")
    expect(minutes).to_be_hidden()
    photograph(page, "4-form")
    fits(page)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("text is missing")
    expect(page.get_by_label("Text", exact=True)).to_be_focused()
    page.get_by_label("Text", exact=True).fill("Water the plants")
    page.get_by_label("Repeat").select_option("minutes")
    page.get_by_label("Ask the assistant").check()
    minutes.fill("5")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("every 15 minutes")
    expect(minutes).to_have_value("5")
    expect(page.get_by_role("alert")).to_be_focused()
    photograph(page, "5-error")
    fits(page)
    page.get_by_label("Remind me").check()
    page.get_by_label("Repeat").select_option("weekdays")
    page.get_by_label("Date and time").fill("2099-06-05T08:00")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("Friday, 5 June 2099 at 08:00")
    expect(page.get_by_role("status")).to_contain_text("Monday, 8 June 2099 at 08:00")
    assert [each for each in seen.problems if "422" not in each] == []


@pytest.mark.parametrize("size", SIZES)
def test_h30_a_person_changes_pauses_and_deletes_a_reminder(
    open_page: OpenPage, gateway: Gateway, size: dict[str, Any]
) -> None:
    name = f"Water the roses {size['viewport']['width']}"
    remind(gateway, name, rule="FREQ=DAILY", minutes=600)
    remind(gateway, "Sum up the news of the day for me", rule="FREQ=DAILY", kind="prompt")
    page, seen = open_page(gateway, "/reminders", **size)
    card = page.locator(".card", has_text=name)
    card.get_by_role("link", name="Change").click()
    page.get_by_label("Date and time").fill("2099-06-02T09:30")
    page.get_by_role("button", name="Save").click()
    expect(card.get_by_role("status")).to_contain_text("Tuesday, 2 June 2099 at")
    card.get_by_role("button", name="Pause").click()
    expect(card.locator(".when")).to_have_text("Paused")
    page.locator(".past summary", has_text="Last times").first.click()
    photograph(page, "6-list")
    fits(page)
    card.get_by_role("button", name="Resume").click()
    expect(card.locator(".when")).to_contain_text("Tuesday, 2 June 2099")
    card.locator(".confirm summary").focus()
    page.keyboard.press("Enter")
    delete = card.get_by_role("button", name="Delete it")
    expect(delete).to_be_visible()
    photograph(page, "7-delete")
    fits(page)
    delete.click()
    expect(page.get_by_role("status")).to_have_text("Deleted.")
    expect(card).to_have_count(0)
    assert seen.problems == []


def test_h33_the_browsers_time_zone_is_taken_once_and_can_be_changed(
    ben: Page, gateway: Gateway
) -> None:
    ben.goto(f"{gateway.base_url}/reminders")
    zone = ben.get_by_role("combobox", name="Time zone")
    expect(zone).to_have_value("Asia/Tokyo")
    zone.fill("são paulo")
    ben.locator(".zone-form button").click()
    expect(zone).to_have_value("America/Sao_Paulo")
    ben.goto(gateway.base_url)
    finished(ben, 0)
    ben.goto(f"{gateway.base_url}/reminders")
    expect(zone).to_have_value("America/Sao_Paulo")
    zone.fill("Atlantis")
    ben.locator(".zone-form button").click()
    expect(ben.get_by_role("alert")).to_contain_text("Atlantis")
    expect(zone).to_be_focused()

"""docs/tools.md: a guest's call waits for the owner, who decides on Telegram, in the web chat or in
the admin."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.people import number
from tests.journeys.conftest import OWNER_ON_TELEGRAM, Installation
from tests.journeys.model import Rule
from tests.journeys.test_people import owner_is_on_telegram, press
from tests.servers import wait_until

LABELS = [
    ["Allow", "Allow here for 1 h"],
    ["Always for this person and tool"],
    ["Edit", "Deny"],
]
WAITS = "I have asked the owner whether I may use “current_time”."


@pytest.fixture
def asking(page: Page, telegram: Installation) -> Iterator[Installation]:
    """Let the time of day ask each time, by a rule that the owner makes in the admin; the model
    calls it at a word."""
    telegram.model.rules.insert(
        0, Rule("^what time", tool="current_time", arguments={"time_zone": "Europe/Berlin"})
    )
    telegram.model.rules.insert(0, Rule("^what time", text="Now you know.", after_tool=True))
    page.goto(f"{telegram.url}/admin/core/toolrule/")
    if page.get_by_text("current_time").count() == 0:
        page.goto(f"{telegram.url}/admin/core/toolrule/add/")
        page.locator("[name=tool]").select_option("current_time")
        page.locator("[name=ask]").select_option("always")
        page.locator("[name=_save]").first.click()
        expect(page.locator("body")).to_contain_text("current_time")
    owner_is_on_telegram(telegram)
    yield telegram
    del telegram.model.rules[:2]


@pytest.fixture
def guest(asking: Installation, sender: int, tmp_path: Path) -> int:
    """Return the Telegram id of a person whom the owner let in before they wrote: notices of
    unknown senders are five an hour."""
    people = tmp_path / "people.yml"
    listed = f'users: [{{name: Guest, id: guest-{sender}, im: ["telegram:{sender}"]}}]'
    people.write_text(listed, encoding="utf-8")
    asking.manage(f"manage.py import_users {people}")
    asking.writes(sender, "I come in")
    asking.hears(sender, "You said: I come in")
    return sender


def question(running: Installation, guest: int) -> Shown:
    """Ask as the guest; return the question that the owner gets."""
    known = {each.id for each in running.shown(OWNER_ON_TELEGRAM)}
    running.writes(guest, f"what time is it? {number()}")
    running.hears(guest, WAITS)

    def new() -> list[Shown]:
        shown = running.shown(OWNER_ON_TELEGRAM)
        return [each for each in shown if each.id not in known and each.text.startswith("🔐")]

    wait_until(new, what="the question")
    [found] = new()
    assert "Europe/Berlin" in found.text
    # A copy: its buttons can be pressed when they are gone.
    return replace(found, keyboard=[*found.keyboard])


def outcome(running: Installation, asked: Shown, words: str) -> None:
    """Wait until the question shows its outcome, without buttons."""

    def now() -> Shown:
        return next(each for each in running.shown(OWNER_ON_TELEGRAM) if each.id == asked.id)

    wait_until(lambda: words in now().text, what=lambda: f"{words!r} in {now().text!r}")
    assert now().keyboard == []


def answers(running: Installation, guest: int) -> list[str]:
    return [each.text for each in running.shown(guest) if "Now you know." in each.text]


def test_v1_the_owner_allows_with_one_tap_on_telegram(asking: Installation, guest: int) -> None:
    asked = question(asking, guest)
    assert [[each["text"] for each in row] for row in asked.keyboard] == LABELS
    press(asking, asked, "Allow", by=guest)  # only the owner's tap counts
    assert answers(asking, guest) == []
    press(asking, asked, "Allow")
    press(asking, asked, "Deny")  # the first decision counts
    asking.hears(guest, "Now you know.")
    outcome(asking, asked, "✓ Allowed.")
    press(asking, asked, "Allow")  # replayed
    again = question(asking, guest)  # each call asks
    press(asking, again, "Deny")
    asking.hears(guest, "The owner did not allow “current_time”.")
    outcome(asking, again, "✗ Denied.")
    assert len(answers(asking, guest)) == 2


def test_v3_the_owner_edits_the_arguments_in_the_admin(
    page: Page, asking: Installation, guest: int
) -> None:
    asked = question(asking, guest)
    press(asking, asked, "Edit")
    link = asking.hears(OWNER_ON_TELEGRAM, "/sign-in?next=").text
    page.goto(re.sub(r"^\w+://[^/]+", asking.url, link.strip()))
    page.get_by_text("Edit the arguments").click()
    page.locator("textarea[name=arguments]").fill('{"time_zone": "Asia/Tokyo"}')
    page.get_by_role("button", name="Allow edited").click()
    asking.hears(guest, "Now you know.")
    outcome(asking, asked, "✓ Allowed.")
    assert "Asia/Tokyo" in asking.model.prompts()[-1]


def test_v6_stop_takes_the_question_back(asking: Installation, guest: int) -> None:
    asked = question(asking, guest)
    asking.writes(guest, "/stop")
    asking.hears(guest, "The question was taken back.")
    outcome(asking, asked, "taken back")
    press(asking, asked, "Allow")
    asking.writes(guest, "hello again")
    asking.hears(guest, "You said: hello again")
    assert answers(asking, guest) == []

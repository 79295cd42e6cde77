"""docs/tools.md: a guest's call waits for the owner, who decides on Telegram, in the web chat or in
the admin."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.channels_app.telegram.fake_api import Shown
from tests.channels_app.telegram.people import number
from tests.journeys.conftest import OWNER_ON_TELEGRAM, Installation
from tests.journeys.deciders import PLACES, REFUSED, Decider, Question, page_of, signed_in
from tests.journeys.model import Rule
from tests.journeys.test_people import owner_is_on_telegram, press
from tests.servers import wait_until

LABELS = [
    ["Allow", "Allow here for 1 h"],
    ["Always for this person and tool"],
    ["Edit", "Deny"],
]
WAITS = "I have asked the owner whether I may use “the clock”."
SECOND_OWNER, GUEST = 5551, 5552
# A second owner and a guest, both on Telegram; prints links for these and the first owner.
PEOPLE = f"""
from django.utils import timezone
from allowlist import sign_in
from core.models import ChannelIdentity, User
first = User.objects.filter(is_owner=True).order_by("pk").first()
second = User.objects.create(
    username="second", is_owner=True, is_staff=True, only_listed=True
)
guest = User.objects.create(username="guest")
for user, number in ((second, {SECOND_OWNER}), (guest, {GUEST})):
    ChannelIdentity.objects.create(user=user, kind="im", channel="telegram", value=str(number))
for user in (first, second, guest):
    print(sign_in.create(user=user, now=timezone.now()))
"""
EXPIRE = """
from django.db.models.functions import Now
from core.models import ToolCall
print(ToolCall.objects.filter(state="waiting").update(expires_at=Now()))
"""


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
    asking.hears(guest, "The owner did not allow “the clock”.")
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


@dataclass(frozen=True)
class People:
    """Two owners and a guest."""

    owner: Decider
    second: Decider
    guest: Decider


@pytest.fixture(scope="module")
def people(running: Installation) -> Iterator[People]:
    """Yield who may and who may not decide, each with a browser that is signed in."""
    links = shell(running, PEOPLE).split()[-3:]
    numbers = (OWNER_ON_TELEGRAM, SECOND_OWNER, GUEST)
    everyone = [
        Decider(running, number, signed_in(running, link))
        for number, link in zip(numbers, links, strict=True)
    ]
    yield People(*everyone)
    for each in everyone:
        each.browser.close()


def shell(running: Installation, code: str) -> str:
    """Return the output of Python code at the installation."""
    return running.up.manage("shell", "-v0", "--no-imports", "-c", code)


def asked_of(running: Installation, people: People, guest: int = GUEST) -> Question:
    """Ask as a guest; return the question with its page."""
    shown = question(running, guest)
    return Question(shown, page_of(people.owner, shown))


def has_ended(running: Installation, number: int, guest: int = GUEST) -> None:
    """Wait until so many of a guest's requests were answered."""
    wait_until(lambda: len(answers(running, guest)) == number, what=f"{number} answers")


def test_v2_a_guests_tap_and_a_repeated_one_decide_nothing_in_any_place(
    asking: Installation, people: People
) -> None:
    for place, opens in PLACES.items():
        number = len(answers(asking, GUEST)) + 1
        asked = asked_of(asking, people)
        assert REFUSED[place] in opens(people.guest, asked)("once")
        decide = opens(people.owner, asked)
        assert "Allowed." in decide("once"), place
        assert "This was decided already." in decide("once"), place
        assert "This was decided already." in decide("deny"), place
        has_ended(asking, number)
        outcome(asking, asked.shown, "✓ Allowed.")


def test_v2_of_two_owners_at_once_one_decides_in_each_place(
    asking: Installation, people: People
) -> None:
    for place, opens in PLACES.items():
        number = len(answers(asking, GUEST)) + 1
        asked = asked_of(asking, people)
        presses = [opens(people.owner, asked), opens(people.second, asked)]
        with ThreadPoolExecutor(2) as pool:
            said = [*pool.map(lambda press, choice: press(choice), presses, ("once", "deny"))]
        late = ["This was decided already." in each for each in said]
        assert sorted(late) == [False, True], (place, said)
        is_denied = late[0]
        outcome(asking, asked.shown, "✗ Denied." if is_denied else "✓ Allowed.")
        has_ended(asking, number)
        result = asking.model.asked[-1]["messages"][-1]["content"]
        assert ("permission was refused" in result) == is_denied


def test_v4_an_expired_question_is_decided_in_no_place(
    asking: Installation, people: People
) -> None:
    number = len(answers(asking, GUEST))
    asked = {place: asked_of(asking, people) for place in PLACES}
    presses = {place: opens(people.owner, asked[place]) for place, opens in PLACES.items()}
    assert int(shell(asking, EXPIRE).split()[-1]) >= 3
    for place, decide in presses.items():
        assert "Too late: the question has expired." in decide("once"), place
    for each in asked.values():
        outcome(asking, each.shown, "Too late")
    has_ended(asking, number + 3)
    told = [each.text for each in asking.shown(GUEST) if "There was no answer in time" in each.text]
    assert len(told) == 3
    for prompt in asking.model.prompts()[-3:]:
        assert "there was no answer whether it is allowed" in prompt


def test_v6_calls_of_a_revoked_person_are_allowed_in_no_place(
    page: Page, asking: Installation, people: People, guest: int
) -> None:
    """The owner deactivates the person in the admin while three questions of theirs wait."""
    asked = {place: asked_of(asking, people, guest) for place in PLACES}
    presses = {place: opens(people.owner, asked[place]) for place, opens in PLACES.items()}
    page.goto(f"{asking.url}/admin/core/user/?q=guest-{guest}")
    # Not in the banner above, which names all accounts that are open to everyone.
    page.locator("#result_list").get_by_role("link", name="Guest").first.click()
    page.locator("[name=is_active]").uncheck()
    expect(page.locator("[name=is_active]")).not_to_be_checked()
    page.locator("[name=_save]").first.click()
    expect(page.locator("body")).to_contain_text("was changed successfully")
    before = len(asking.shown(guest))
    for place, decide in presses.items():
        assert "The question was taken back." in decide("once"), place
    owner_is_on_telegram(asking)
    assert len(asking.shown(guest)) == before
    assert answers(asking, guest) == []

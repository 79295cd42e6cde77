"""From an empty folder to an own model, without a shell: as a new owner does it, on a desktop and
on a phone.

``TEST_PICTURES=docs/images python -m pytest tests/journeys/test_first_model.py`` makes the pictures
of docs/images/first-run-*.png again.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from core.providers import questions
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import message
from tests.chromium import browser
from tests.gateway_project.processes.ups import Up
from tests.journeys import model as models
from tests.journeys.model import Model, Rule
from tests.servers import Postgres, wait_until

__all__ = ["browser"]
SMALL, LARGE = "qwen3:8b", "llama3.3:70b"
KEY = "sk-own-0123456789abcdef"
BOT = f"7001:{'B' * 35}"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1180, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "device_scale_factor": 1.25,
    "has_touch": True,
    "is_mobile": True,
}
FIRST_WORDS = "Hello! What can you do for me?"
FIRST_ANSWER = (
    "Hello! I can **answer questions**, look things up and write with you.\n\n"
    "- Ask me anything\n- Drop a document here\n- Or let me make slides for you\n"
)
# The rightmost pixel of what does not scroll by itself.
WIDEST = """() => Math.max(...[...document.querySelectorAll("body *")]
  .filter((node) => !node.closest("pre, .visually-hidden, .skip"))
  .map((node) => node.getBoundingClientRect().right))"""


@dataclass
class Journey:
    """A new owner: the address that was printed, a model server of their own, and a window."""

    up: Up
    model: Model
    api: FakeBotApi
    page: Page
    name: str
    problems: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.up.state().url

    def picture(self, name: str) -> None:
        """Store a picture of the page, if pictures are wanted."""
        folder = os.environ.get("TEST_PICTURES")
        if folder:
            path = Path(folder) / f"first-run-{name}{self.name}.png"
            self.page.evaluate("scrollTo(0, 0)")
            self.page.screenshot(path=path, full_page="/first-run/" in self.page.url)

    def fits(self) -> None:
        """Check that nothing is cut off at the right."""
        size = self.page.viewport_size
        assert size is not None
        assert self.page.evaluate(WIDEST) <= size["width"] + 0.5

    def ask(self, text: str) -> None:
        """Send a message in the web chat."""
        box = self.page.get_by_label("Message", exact=True)
        box.fill(text)
        self.page.get_by_role("button", name="Send", exact=True).click()


@pytest.fixture(params=["", "-phone"])
def journey(
    request: pytest.FixtureRequest,
    browser: Browser,
    postgres: Postgres | None,
    tmp_path: Path,
) -> Iterator[Journey]:
    """Yield a new owner in front of an empty installation, started as ``make run`` does."""
    # No model is set: the embedded one is started.
    extra = {"LLM_PROVIDER": "", "NO_PROXY": "127.0.0.1", "OLLAMA_HOST": ""}
    if postgres:
        name = f"first_model{request.param.replace('-', '_')}"
        postgres.execute(f"CREATE DATABASE {name}")
        extra["DATABASE_URL"] = postgres.url(name)
    api = FakeBotApi()
    api.start()
    up = Up(tmp_path, extra=extra)
    with models.running() as model:
        model.key, model.names = KEY, [LARGE, SMALL]
        model.rules = [
            Rule(re.escape(questions.FOR_TOOL), tool=questions.TOOL),
            Rule(re.escape(FIRST_WORDS), text=FIRST_ANSWER, slow=True),
        ]
        up.start()
        context = browser.new_context(**(PHONE if request.param else DESKTOP))
        page = context.new_page()
        found = Journey(up, model, api, page, request.param)
        page.on("pageerror", lambda error: found.problems.append(str(error)))
        page.on("console", lambda line: note(found, line))
        yield found
        context.close()
        up.process.stop(seconds=15)
    api.stop()


def note(journey: Journey, line: ConsoleMessage) -> None:
    """Keep the errors and warnings of the console: also what the content policy refuses."""
    if line.type in {"error", "warning"}:
        journey.problems.append(line.text)


def test_a_new_owner_sets_a_model_gets_answers_and_a_budget_holds(journey: Journey) -> None:
    """Empty home -> model -> answer -> second model -> budget -> blocked politely."""
    choose_a_model(journey)
    say_hello(journey)
    connect_a_bot(journey)
    go_to_the_chat(journey)
    add_a_second_model(journey)
    set_a_budget(journey)
    be_blocked(journey)
    assert journey.problems == []


def choose_a_model(journey: Journey) -> None:
    """The printed address leads to the first step; an error is told beside its field."""
    page, model = journey.page, journey.model
    page.goto(journey.up.link())
    page.get_by_role("button", name="Sign in as Owner").click()
    expect(page.get_by_role("heading", name="Choose a model")).to_be_visible()
    expect(page.locator("main")).to_contain_text("very small demo model")
    page.get_by_text("Another server").click()
    page.get_by_label("Address of the server").fill(model.url)
    page.get_by_label("API key").fill("sk-wrong")
    page.get_by_role("button", name="Test and use it").click()
    wrong = page.locator("[data-error=base_url]")
    expect(wrong).to_contain_text("inside your network")
    page.get_by_label("inside my network").check()
    expect(page.locator("[data-error=key]")).to_contain_text("refuses the key")
    expect(wrong).to_be_hidden()
    page.get_by_label("API key").fill(KEY)
    page.get_by_label("API key").press("Tab")
    names = page.locator("select[name=model]")
    names.select_option(SMALL)
    journey.fits()
    journey.picture("1-model")
    page.get_by_role("button", name="Test and use it").click()


def say_hello(journey: Journey) -> None:
    """The answer of the own model is written in front of the owner."""
    page = journey.page
    expect(page.get_by_role("heading", name="Say hello")).to_be_visible()
    expect(page.locator("main")).to_contain_text(f"{SMALL} answers.")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".answer .prose")).to_contain_text("Or let me make slides for you")
    expect(page.get_by_role("button", name="Go on", exact=True)).to_be_visible()
    assert journey.model.asked[-1]["model"] == SMALL
    journey.fits()
    journey.picture("2-answer")
    page.get_by_role("button", name="Go on", exact=True).click()


def connect_a_bot(journey: Journey) -> None:
    """A bot of the owner's, tried before it is stored; it knows the owner by a code."""
    page, api = journey.page, journey.api
    expect(page.get_by_role("heading", name="Reach it from your phone")).to_be_visible()
    page.get_by_label("Bot token").fill("123:short")
    page.get_by_role("button", name="Test and connect").click()
    expect(page.locator("[data-error=token]")).to_contain_text("does not have the form")
    page.get_by_label("Bot token").fill(BOT)
    page.get_by_text("A Bot API server of your own").click()
    page.locator("#id_api_base").fill(api.base)
    page.get_by_role("button", name="Test and connect").click()
    code = page.locator("[data-code]")
    expect(code).to_contain_text("/link ")
    journey.fits()
    journey.picture("3-bot")
    with api.lock:
        api.waiting.setdefault(BOT, []).append(message(code.inner_text().strip(), user=5550))
    expect(page.locator("[data-phone-known]")).to_be_visible()
    page.get_by_role("button", name="Finish").click()
    expect(page.get_by_role("heading", name="Everything is set up")).to_be_visible()


def go_to_the_chat(journey: Journey) -> None:
    """The chat does not speak of a demo model any more, nor does the admin of first steps."""
    page = journey.page
    page.get_by_role("link", name="Open the chat").click()
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    expect(page.locator("#demo-model")).to_be_hidden()
    journey.ask("And here?")
    expect(page.locator(".answer .prose")).to_have_text("You said: And here?")


def add_a_second_model(journey: Journey) -> None:
    """A model that is added in the admin answers in the chat where it is chosen."""
    page = journey.page
    page.goto(f"{journey.url}/admin/")
    expect(page.get_by_role("region", name="First steps")).to_have_count(0)
    page.goto(f"{journey.url}/admin/core/languagemodel/add/")
    page.locator("select[name=provider]").select_option(index=1)
    page.locator("input[name=name]").fill(LARGE)
    page.locator("[name=_save]").first.click()
    expect(page.locator("#result_list")).to_contain_text(LARGE)
    page.goto(journey.url)
    page.locator("#picker-button").click()
    page.get_by_role("menuitemradio", name=re.compile(f"^{LARGE}")).click()
    journey.ask("Who are you?")
    expect(page.locator(".answer .prose")).to_have_text("You said: Who are you?")
    assert journey.model.asked[-1]["model"] == LARGE
    journey.picture("4-second-model")


def set_a_budget(journey: Journey) -> None:
    """One message a day in all."""
    page = journey.page
    page.goto(f"{journey.url}/admin/core/budget/add/")
    page.locator("input[name=amount]").fill("1")
    page.locator("select[name=unit]").select_option("messages")
    page.locator("select[name=period]").select_option("day")
    page.locator("[name=_save]").first.click()
    expect(page.locator("#result_list")).to_contain_text("1 message")
    journey.picture("5-budget")


def be_blocked(journey: Journey) -> None:
    """One message is answered; beyond it the answer names the budget and when it is free again."""
    page, model = journey.page, journey.model
    page.goto(journey.url)
    journey.ask("One more?")
    answer = page.locator(".answer").last
    expect(answer.locator(".prose")).to_have_text("You said: One more?")
    asked = len(model.asked)
    journey.ask("And another?")
    expect(page.locator(".answer").last).to_contain_text("The messages for today are used up: 1.")
    expect(page.locator(".answer").last).to_contain_text("You can go on from")
    wait_until(lambda: page.locator("[aria-busy=true]").count() == 0, what="the end of the turn")
    assert not any("And another?" in each for each in model.prompts()[asked:])
    journey.fits()
    journey.picture("6-blocked")

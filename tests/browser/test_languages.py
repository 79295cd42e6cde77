"""[W66] The pages in their languages, in a real browser: no text outside the catalogue, and the
layout holds.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import Seen, finished, started, watch
from tests.catalogues import pseudo
from tests.conftest import DatabaseMaker
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
# Every text and attribute that a person may read, of hidden parts of the page too.
READ = """(theirs) => {
  const skipped = new Set(["SCRIPT", "STYLE", "CODE", "KBD", "PRE", "DATALIST", "NOSCRIPT"]);
  const found = [];
  const walk = (node) => {
    if (node.nodeType === Node.TEXT_NODE) found.push(node.data);
    if (node.nodeType !== Node.ELEMENT_NODE || skipped.has(node.tagName)) return;
    if (node.matches(theirs) || (node.lang && node !== document.documentElement)) return;
    for (const name of ["title", "alt", "placeholder", "aria-label"]) {
      if (node.hasAttribute(name)) found.push("\\n" + node.getAttribute(name) + "\\n");
    }
    for (const child of node.childNodes) walk(child);
  };
  walk(document.documentElement);
  return found.join("");
}"""
CUT = """() => [...document.querySelectorAll("button, .button, label, legend, summary")]
  .filter((each) => each.checkVisibility() && each.clientWidth)
  .filter((each) => each.scrollWidth > each.clientWidth + 1)
  .filter((each) => !each.closest(".visually-hidden") && !each.querySelector(".visually-hidden"))
  .map((each) => each.textContent.trim())"""
# Where people's and models' own words are, and those of notices: in the account's language, not the
# browser's.
THEIRS_IN = (
    "#announcer, .prose, .bubble .plain, .notice .plain, .session, #title, title, .file-card, "
    "#link-code"
)
MARKED = re.compile("⟦[^⟦⟧]*⟧")
WORD = re.compile(r"[^\W\d_]{2,}")
# Names and words of people, of assistants and of time zones; texts of the browser; units.
THEIRS = re.compile(
    r"Latchkey|Ada Lovelace|Ada|\bAssistant\b|Europe/Berlin|UTC|Etc/UTC|API|MCP|KB|MB|ms|min|"
    r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|AM|PM|January|February|March|April|May|June|July|"
    r"August|September|October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec|at"
)


@pytest.fixture(scope="module")
def polyglot(
    new_database: DatabaseMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yield a gateway that has the pseudo-language too."""
    folder = tmp_path_factory.mktemp("locale")
    pseudo.write(folder)
    extra = {"DJANGO_SETTINGS_MODULE": pseudo.MODULE, pseudo.FOLDER: str(folder)}
    running = started(
        tmp_path_factory.mktemp("polyglot"), new_database(), ("web", "runs"), extra=extra
    )
    yield running
    running.stop()


Go = Callable[..., tuple[Page, Seen]]


@pytest.fixture
def go(browser: Browser, polyglot: Gateway) -> Iterator[Go]:
    """Return ``go(language, path, **context)``: a page of a browser with that language as Ada, or
    of somebody who is not signed in.
    """
    contexts: list[BrowserContext] = []

    def opened(language: str, path: str, *, signed_in: bool = True, **more: object) -> object:
        context = browser.new_context(
            extra_http_headers={"Accept-Language": language}, **(more or DESKTOP)
        )
        contexts.append(context)
        page = context.new_page()
        seen = watch(page)
        if signed_in:
            page.goto(polyglot.manage("sign_in_link", "--user", "ada").split()[-1])
            page.locator("button[type=submit]").click()
            page.wait_for_load_state()
        page.goto(polyglot.base_url + path)
        return page, seen

    yield opened  # type: ignore[misc]
    for context in contexts:
        context.close()


def outside(page: Page, *words: str) -> list[str]:
    """Return the words on a page that are not in the catalogue, but for ``words`` of people."""
    text = page.evaluate(READ, THEIRS_IN)
    for each in sorted(words, key=len, reverse=True):
        text = text.replace(each, "")
    while MARKED.search(text):
        text = MARKED.sub("", text)
    return WORD.findall(THEIRS.sub("", text))


def photograph(page: Page, name: str) -> None:
    """Keep what the window shows when the folder of the pictures is named."""
    if folder := os.environ.get("TEST_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png")


def test_w66_pages_for_all_show_no_text_outside_the_catalogue(go: Go) -> None:
    page, _ = go("qps", "/sign-in", signed_in=False)
    assert page.locator("html").get_attribute("lang") == "qps"
    assert outside(page) == []
    page.locator("[name=username]").fill("ada")
    page.locator("[name=password]").fill("wrong")
    page.locator("button[type=submit]").click()
    expect(page.locator("[role=alert]")).to_be_visible()
    assert outside(page) == []
    page.goto(page.url.replace("/sign-in", "/decide/forged"))
    assert outside(page) == []


def test_w66_the_web_chat_shows_no_text_outside_the_catalogue(go: Go) -> None:
    page, seen = go("qps", "/")
    expect(page.locator("#welcome")).to_be_visible()
    assert outside(page) == []
    photograph(page, "pseudo-chat")
    box = page.locator("#composer-text")
    box.fill("save it")
    box.press("Enter")
    finished(page)
    assert outside(page) == []
    page.locator("[data-open-settings]").first.click()
    expect(page.locator("#usage table")).to_be_visible()
    page.locator("#make-link-code").click()
    expect(page.locator("#link-code")).to_be_visible()
    assert outside(page) == []
    page.keyboard.press("Escape")
    box.fill("break")
    box.press("Enter")
    finished(page, 2)
    assert outside(page, "The model cannot be reached.") == []
    assert seen.problems == []


def test_w66_reminders_show_no_text_outside_the_catalogue(go: Go) -> None:
    page, _ = go("qps", "/reminders")
    assert outside(page) == []
    page.goto(f"{page.url}/new")
    assert outside(page) == []
    page.locator("[type=submit]").last.click()  # without a text
    expect(page.locator("[role=alert]")).to_be_visible()
    assert outside(page) == []
    page.locator("#id_text").fill("Call Bea")
    page.locator("#id_at").fill("2035-05-05T08:00")
    page.locator("#id_zone").fill("Europe/Berlin")
    page.locator("#id_repeat").select_option("weekdays")
    page.locator("[type=submit]").last.click()
    expect(page.locator(".told")).to_be_visible()
    assert outside(page, "Call Bea", "every weekday", "Every weekday") == []


def test_w66_the_first_run_shows_no_text_outside_the_catalogue(go: Go) -> None:
    page, _ = go("qps", "/first-run/model")
    makers = ("Ollama", "OpenAI", "Anthropic", "Google Gemini", "OpenRouter", "Mistral", "DeepSeek")
    names = (*makers, "Groq", "http://192.168.1.20:8080/v1", "scripted", "default", "Scripted")
    assert outside(page, *names) == []
    for step in ("message", "phone"):
        page.goto(re.sub(r"/\w+$", f"/{step}", page.url))
        assert outside(page, "https://api.telegram.org", "@BotFather", "ABC", *names) == []


def test_w66_errors_and_the_trace_show_no_text_outside_the_catalogue(
    go: Go, polyglot: Gateway
) -> None:
    page, _ = go("qps", "/nothing-here")
    assert outside(page) == []
    page.goto(polyglot.base_url)
    box = page.locator("#composer-text")
    box.fill("markdown")
    box.press("Enter")
    finished(page)
    run = page.locator("[data-run]").last.get_attribute("data-run")
    page.goto(f"{polyglot.base_url}/trace/{run}/view")
    # The log itself is as it was written.
    page.evaluate(
        "document.querySelectorAll('main section, main table tbody').forEach((e) => e.remove())"
    )
    assert outside(page, str(run), "web", "markdown") == []


@pytest.mark.parametrize("language", [*pseudo.languages()])
@pytest.mark.parametrize("window", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_w67_pages_fit_their_window_in_each_language(
    go: Go, language: str, window: dict[str, object]
) -> None:
    width = window["viewport"]["width"]  # type: ignore[index]
    page, seen = go(language, "/", **window)
    assert page.locator("html").get_attribute("lang") == language
    expect(page.locator("#welcome")).to_be_visible()
    fits(page, f"{language}-{width}-chat")
    page.evaluate("document.querySelector('#settings').showModal()")
    fits(page, f"{language}-{width}-settings")
    for path in ("/reminders", "/reminders/new", "/first-run/model", "/nothing-here"):
        page.goto(re.sub(r"(://[^/]+)/.*", rf"\1{path}", page.url))
        fits(page, f"{language}-{width}{path.replace('/', '-')}")
    assert [each for each in seen.problems if "404" not in each] == []


def fits(page: Page, name: str) -> None:
    """Check that nothing is wider than the window, or cut."""
    photograph(page, name)
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, name
    hidden = (
        "[...document.querySelectorAll('dialog[open]')].map((d) => d.scrollWidth - d.clientWidth)"
    )
    assert all(each <= 0 for each in page.evaluate(hidden)), name
    cut = page.evaluate(CUT)
    assert cut == [], name


def test_w68_a_person_chooses_a_language_in_the_settings(go: Go) -> None:
    page, seen = go("fr-CA,en;q=0.5", "/")
    assert page.locator("html").get_attribute("lang") == "fr"
    expect(page.get_by_role("button", name="Nouvelle discussion").first).to_be_visible()
    page.locator("[data-open-settings]").first.click()
    with page.expect_navigation():
        page.get_by_label("Langue").select_option("ja")
    assert page.locator("html").get_attribute("lang") == "ja"
    expect(page.get_by_role("button", name="新しいチャット").first).to_be_visible()
    page.locator("[data-open-settings]").first.click()
    with page.expect_navigation():
        page.get_by_label("言語").select_option("")
    assert page.locator("html").get_attribute("lang") == "fr"
    assert seen.problems == []

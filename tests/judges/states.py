"""Steps that lead a page into a state: by ids and attributes, in whatever language the page is."""

from base64 import b64decode
from typing import Any

from playwright.sync_api import Page, expect

Json = dict[str, Any]
UNFOLD = "document.querySelectorAll('details').forEach((each) => { each.open = true })"
BOX = "#composer-text"
DOT = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


def ready(page: Page) -> None:
    """Wait until the chat is connected and shows its list and its picker."""
    expect(page.locator("#sessions li.session").first).to_be_attached()
    expect(page.locator("#picker button").first).to_be_visible()
    expect(page.locator("#notices .notice").first).to_be_visible()
    expect(page.locator("#connection")).to_be_hidden()


def quiet(page: Page) -> None:
    """A new chat, with its notices dismissed."""
    ready(page)
    page.evaluate("document.querySelector('#notices').replaceChildren()")


def all_notices(page: Page) -> None:
    """All cards that wait for the owner."""
    ready(page)
    page.locator(".notices-more").click()


def unfolded(page: Page) -> None:
    """A page with everything on it that can be opened in place."""
    if page.locator("#log").count():
        ready(page)
        expect(page.locator(".answer-foot:visible").first).to_be_visible()
    page.evaluate(UNFOLD)


def list_shown(page: Page) -> None:
    """The list of chats; on a phone it lies above the chat."""
    ready(page)
    if not page.locator("#session-search").is_visible():
        page.locator("#open-sidebar").click()
    expect(page.locator("#session-search")).to_be_in_viewport()


def found_chats(page: Page) -> None:
    """A search in the list of chats that has a hit, then the box with its menu."""
    list_shown(page)
    page.locator("#session-search").fill("It is short")
    expect(page.locator("#sessions .session-excerpt").first).to_be_visible()


def picker(page: Page) -> None:
    """The menu of assistants and models."""
    ready(page)
    page.locator("#picker button").first.click()
    expect(page.locator("[role=menuitemradio]").first).to_be_visible()


def settings(page: Page) -> None:
    """The settings, with a code for another channel."""
    list_shown(page)
    page.locator("[data-open-settings]").click()
    page.locator("#make-link-code").click()
    expect(page.locator("#link-code")).to_be_visible()
    # The rows that a browser may show.
    for row in ("#install-row", "#push-row", "#push-hide-row"):
        page.locator(row).evaluate("(row) => row.hidden = false")


def shortcuts(page: Page) -> None:
    """The list of keys."""
    ready(page)
    page.keyboard.press("Control+/")
    expect(page.locator("#shortcuts")).to_be_visible()


def chat_dialog(page: Page) -> None:
    """The dialog of a chat, asked to delete it."""
    list_shown(page)
    item = page.locator("#sessions li.session").first
    item.hover()
    item.locator(".session-more").click()
    page.locator("#delete-chat").click()
    expect(page.locator("#delete-confirm")).to_be_visible()


def attached(page: Page) -> None:
    """A text and a picture in the box."""
    ready(page)
    files: list[Any] = [
        {"name": "sea.md", "mimeType": "text/markdown", "buffer": b"# Sea"},
        {"name": "dot.gif", "mimeType": "image/gif", "buffer": b64decode(DOT)},
    ]
    page.locator("#attach-file").set_input_files(files)
    expect(page.locator("#attachments li")).to_have_count(2)
    expect(page.locator("#attachments progress")).to_have_count(0)
    page.locator(BOX).fill("What is this?")


def running(page: Page) -> None:
    """An answer that is being made: thoughts, a tool, a bar and half a text."""
    ready(page)
    expect(page.locator("progress")).to_be_visible()
    page.evaluate(UNFOLD)


def waiting(page: Page) -> None:
    """A message that nothing has begun to answer."""
    ready(page)
    expect(page.locator("#stop")).to_be_visible()


def toast(page: Page) -> None:
    """A short note of the page: the box is not empty when an old message is to be edited."""
    ready(page)
    expect(page.locator(".answer-foot:visible").first).to_be_visible()
    page.locator(BOX).fill("half a sentence")
    page.get_by_role("button", name="Edit and send again").last.click()
    expect(page.locator(".toast").first).to_be_visible()


def no_connection(page: Page) -> None:
    """The gateway does not answer."""
    expect(page.locator("#connection")).to_be_visible()
    page.locator(BOX).fill("Are you there?")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".turn")).to_be_visible()


def shell(page: Page) -> None:
    """The page of the chat without a connection, as the service worker keeps it."""
    expect(page.locator("#offline-note")).to_be_visible()
    page.locator(BOX).fill("Are you there?")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".turn")).to_be_visible()


def wrong_reminder(page: Page) -> None:
    """The form of a reminder with its mistakes."""
    page.locator("#id_text").fill("Water the plants")
    page.locator("#id_repeat").select_option("minutes")
    page.locator("#id_every").fill("0")
    page.locator("main form button[type=submit]").first.click()
    expect(page.get_by_role("alert").first).to_be_visible()


def wrong_password(page: Page) -> None:
    """The sign-in after a mistake."""
    page.locator("[name=username]").fill("nobody")
    page.locator("[name=password]").fill("x")
    page.locator("button[type=submit]").click()
    expect(page.get_by_role("alert")).to_be_visible()


def admin_search(page: Page) -> None:
    """The search of the admin with what it found; on a phone it is in the menu."""
    box = page.locator("#nav-filter")
    if not box.is_visible():
        page.locator("#header-inner .material-symbols-outlined:visible").first.click()
    box.press_sequentially("run")
    expect(page.locator("#search-results a").first).to_be_visible()


def admin_filters(page: Page) -> None:
    """The filters of a list, where they do not stand beside it."""
    if not page.locator("#changelist-filter").is_visible():
        page.locator("a", has=page.get_by_text("filter_list")).first.click()
    expect(page.locator("#changelist-filter")).to_be_visible()


def wrong_form(page: Page) -> None:
    """A form of the admin with its mistakes."""
    page.locator("[name=_save]").click()
    expect(page.locator(".errornote, .errorlist, .errors").first).to_be_visible()


def wrong_model(page: Page) -> None:
    """The first step of the first run with a mistake in it."""
    page.locator("main button[value=save]").click()
    expect(page.locator("[data-error]:visible").first).to_be_visible()

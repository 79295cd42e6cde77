"""The admin in a real browser: an unknown sender is approved [A3] [A5] [A6] [A7]."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.conftest import SENT_TWICE, Seen
from tests.channels_app.client import people
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import Bots
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
OpenPage = Callable[..., tuple[Page, Seen]]
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 800}


@pytest.fixture
def api() -> Iterator[FakeBotApi]:
    """Yield a Bot API server."""
    server = FakeBotApi()
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize("width", [1400, 390])
def test_a7_an_unknown_sender_is_approved_in_the_admin_and_held_messages_are_answered(
    open_page: OpenPage, gateway: Gateway, width: int
) -> None:
    bridge = people(gateway, number=0)[-1]
    sender = f"eve-{width}@example.org"
    refused = bridge.say("May I come in?", user_id=sender)
    assert (refused.status, refused.body["error"]) == (401, "Permission denied")
    page, seen = open_page(
        gateway,
        "/admin/allowlist/unknownrequest/",
        viewport={"width": width, "height": 800},
    )
    row = page.locator("#result_list tbody tr").filter(has_text=sender)
    expect(row).to_contain_text("May I come in?")
    row.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator("body")).to_contain_text("Approved by Ada Lovelace")
    page.goto(f"{gateway.base_url}/admin/core/chatsession/?q=May+I+come+in")
    session = page.locator("#result_list tbody tr").filter(has_text="May I come in?").first
    session.get_by_role("link").first.click()
    for _ in range(20):  # the held message runs within seconds; the page does not push
        if page.get_by_text("May I come in?").count() >= 2:
            break
        page.wait_for_timeout(500)
        page.reload()
    assert page.get_by_text("May I come in?").count() >= 2  # the question, and the echo of it
    assert bridge.say("And again", user_id=sender).body["text"] == "And again"
    assert seen.problems == []


def test_a10_a_new_key_is_copied_by_its_button(open_page: OpenPage, gateway: Gateway) -> None:
    """[A10] It is shown once; the copied text is the shown one."""
    page, seen = open_page(
        gateway,
        "/admin/allowlist/apikey/add/",
        viewport=PHONE,
        permissions=["clipboard-read", "clipboard-write"],
    )
    # A second key would hide the secret of the first.
    form = page.locator("#apikey_form")
    assert form.evaluate(SENT_TWICE) == [True, False]
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    assert form.evaluate(SENT_TWICE) == [True, False]
    form.evaluate("(form) => { form.method = 'get'; }")  # as of a search for other words
    assert form.evaluate(SENT_TWICE) == [True, True]
    page.reload()
    page.locator("#id_name").fill("laptop")
    page.locator(".select2-selection").click()
    page.locator(".select2-search__field").fill("ada")
    page.get_by_role("option").filter(has_text="Ada").click()
    page.get_by_label("chat", exact=True).check()
    page.get_by_role("button", name="Save", exact=True).click()
    shown = page.locator(".dashboard-secret")
    expect(shown).to_contain_text("lk_")
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == shown.inner_text()
    photograph(page, "7-key")
    assert seen.problems == []


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_menu_filters_and_the_way_out_are_reached_by_keys(
    open_page: OpenPage, gateway: Gateway, viewport: ViewportSize
) -> None:
    """Each opens by Enter or Space with the focus in it; Escape leads back to its button."""
    page, seen = open_page(gateway, "/admin/core/user/", viewport=viewport)
    filters = page.get_by_role("button", name="Filters", exact=True)
    filters.press("Enter")
    expect(page.locator("#changelist-filter a").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#changelist-filter")).to_be_hidden()
    expect(filters).to_be_focused()
    menu = page.get_by_role("main").get_by_role("button", name="Menu", exact=True)
    menu.press("Enter")
    if viewport == DESKTOP:
        expect(page.locator("#nav-sidebar-inner")).to_be_hidden()
        menu.press("Space")
    person = page.locator("#nav-sidebar-inner").get_by_role("button", name="ada")
    expect(person).to_be_visible()
    person.press("Space")
    expect(page.get_by_role("button", name="Light", exact=True)).to_be_focused()
    expect(person).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(person).to_be_focused()
    if viewport == PHONE:
        page.locator("#nav-sidebar-inner").get_by_role("button", name="Menu").press("Enter")
        expect(page.locator("#nav-sidebar-inner")).to_be_hidden()
        expect(menu).to_be_focused()
    assert seen.problems == []


def test_the_menu_beside_a_choice_is_reached_by_keys(open_page: OpenPage, gateway: Gateway) -> None:
    """It leads to the form of a new row, in a window of its own."""
    page, seen = open_page(gateway, "/admin/core/budget/add/", viewport=DESKTOP)
    beside = page.get_by_role("button", name="Add or change", exact=True).first
    beside.press("Enter")
    expect(page.get_by_role("link", name="Add another")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="Add another")).to_be_hidden()
    expect(beside).to_be_focused()
    assert seen.problems == []


@pytest.mark.parametrize("path", ["", "core/user/", "core/user/1/change/", "core/user/add/"])
def test_a_screen_reader_reads_no_name_of_an_icon(
    open_page: OpenPage, gateway: Gateway, path: str
) -> None:
    """Icons are ligatures of a font, such as `check_small`: a tick is read as Yes."""
    page, _ = open_page(gateway, f"/admin/{path}", viewport=DESKTOP)
    icons = page.locator(".material-symbols-outlined")
    expect(icons.first).to_be_attached()
    heard = icons.locator("visible=true").and_(page.locator(":not([aria-hidden], [aria-label])"))
    expect(heard).to_have_count(0)
    expect(page.get_by_role("link", name="key", exact=True)).to_have_count(
        0
    )  # the sign beside the name
    expect(page.get_by_role("link", name="People", exact=True).first).to_be_visible()
    if path == "core/user/":
        expect(page.get_by_role("img", name="Yes", exact=True).first).to_be_visible()


NOTIFIED = """() => {
  window.told = [];
  window.Notification = class {
    static permission = "granted";
    constructor(title, options) { window.told.push([title, options.body, options.tag]); }
  };
}"""


def test_a5_a6_a7_two_windows_of_the_owner_during_an_unknown_request_on_telegram(
    open_page: OpenPage, gateway: Gateway, api: FakeBotApi
) -> None:
    """[A5] Badge, toast and notification without a reload; [A6] approved in one window, the other
    shows the decision; [A7] held messages are answered on Telegram.
    """
    bots = bots_of(gateway, api)
    dashboard, seen_in_admin = open_page(gateway, "/admin/core/user/", viewport=DESKTOP)
    chat, seen_in_chat = open_page(gateway, "/", viewport=DESKTOP)
    dashboard.evaluate(NOTIFIED)
    expect(dashboard.locator("[data-dashboard-count]")).to_have_text("0")
    photograph(dashboard, "1-before")
    dashboard.evaluate("window.sameDocument = true")
    bots.say("Hello, it is <b>grandma</b>. May I?", user=700, name="Grandma", account="bot")
    expect(dashboard.locator("[data-dashboard-count]")).to_have_text("1")
    expect(
        dashboard.locator("#nav-sidebar").get_by_role("link", name="Unknown requests")
    ).to_contain_text("1")
    toast = dashboard.locator(".dashboard-toast")
    expect(toast).to_contain_text("Unknown request from telegram: user_id=700.")
    expect(toast).to_contain_text("Grandma: Hello, it is <b>grandma</b>. May I?")
    assert dashboard.evaluate("window.told.length") == 1
    assert dashboard.title().startswith("(1) ")
    photograph(dashboard, "2-notified")
    card = chat.locator("section.notice").filter(has_text="user_id=700")
    expect(card.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    photograph(chat, "3-card")
    assert bots.texts(700, account="bot") == []
    assert dashboard.evaluate("window.sameDocument")
    toast.get_by_role("link", name="Review").click()
    expect(dashboard.locator("body")).to_contain_text("Hello, it is <b>grandma</b>. May I?")
    photograph(dashboard, "4-decide")
    dashboard.get_by_role("button", name="Approve", exact=True).click()
    expect(dashboard.locator("body")).to_contain_text("Approved by Ada Lovelace")
    expect(dashboard.locator("[data-dashboard-count]")).to_have_text("0")
    expect(card).to_contain_text("Approved by Ada Lovelace")
    expect(card.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    photograph(chat, "5-decided")
    wait_until(lambda: bots.texts(700, account="bot"), seconds=60)
    assert bots.texts(700, account="bot") == ["Hello, it is grandma. May I?"]
    dashboard.goto(f"{gateway.base_url}/admin/core/chatsession/?q=grandma")
    dashboard.locator("#result_list tbody tr").first.get_by_role("link").first.click()
    expect(dashboard.locator(".dashboard-transcript")).to_contain_text("May I?")
    photograph(dashboard, "6-answered")
    assert seen_in_admin.problems == []
    assert seen_in_chat.problems == []
    assert seen_in_admin.hosts == {gateway.base_url.removeprefix("http://")}


ON_ANDROID = """() => {
  window.Notification = class {
    static permission = "granted";
    constructor() { throw new TypeError("Illegal constructor"); }
  };
}"""
SHOWN = """async () => {
  const registration = await navigator.serviceWorker.ready;
  return (await registration.getNotifications()).map((each) => [each.title, each.body]);
}"""


def test_a5_on_android_the_service_worker_shows_the_notification(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """[A5] There a page may not."""
    page, seen = open_page(gateway, permissions=["notifications"])
    assert page.evaluate(SHOWN) == []
    page.goto(f"{gateway.base_url}/admin/core/user/")
    page.evaluate(ON_ANDROID)
    people(gateway, number=0)[-1].say("Anybody in?", user_id="zoe@example.org")
    expect(page.locator(".dashboard-toast")).to_contain_text("Anybody in?")
    wait_until(lambda: page.evaluate(SHOWN), seconds=20)
    (title, body), *more = page.evaluate(SHOWN)
    assert (title, more) == ("New unknown request", [])
    assert "Anybody in?" in body
    assert seen.problems == []


def bots_of(gateway: Gateway, api: FakeBotApi) -> Bots:
    """Return a bot of the gateway, and a guest of it."""
    bots = Bots(gateway, api)
    bots.add("bot", people=[{"name": "guest", "id": 556}])
    return bots


def photograph(page: Page, name: str) -> None:
    """Keep what the window shows, when the folder of the pictures of the documents is named."""
    folder = os.environ.get("TEST_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"owner-{name}.png")

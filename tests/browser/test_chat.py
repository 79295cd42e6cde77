"""The web chat in a real browser [D3] [M1] [C9] [A6], redteam WS5 and X3."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import SLOW, Play, Seen, ask, finished, link, shell, watch
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
# What a browser does when one pastes a picture of 3000 × 10.
PASTE = """async (box) => {
  const canvas = document.createElement("canvas");
  canvas.width = 3000;
  canvas.height = 10;
  canvas.getContext("2d").fillRect(0, 0, 3000, 10);
  const blob = await new Promise((done) => canvas.toBlob(done));
  const data = new DataTransfer();
  data.items.add(new File([blob], "sky.png", { type: "image/png" }));
  box.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, cancelable: true }));
}"""
# How far to the right anything reaches that does not scroll by itself.
WIDEST = """() => Math.max(...[...document.querySelectorAll("body *")]
  .filter((node) => !node.closest("pre, .table-scroll, .visually-hidden, dialog, .sidebar"))
  .map((node) => node.getBoundingClientRect().right))"""
Visit = Callable[..., tuple[Page, Seen]]


def test_d3_the_link_signs_in_and_the_answer_grows_and_a_reload_in_the_middle_loses_nothing(
    browser: Browser, gateway: Gateway
) -> None:
    context = browser.new_context()
    page = context.new_page()
    seen = watch(page)
    page.goto(link(gateway))
    expect(page.locator("#greeting")).to_contain_text("Ada")
    ask(page, "Say it slowly, please")
    answer = page.locator(".answer .prose")
    expect(answer).to_contain_text("word by")
    before = len(answer.inner_text())
    expect(answer).to_contain_text("reload")
    assert len(answer.inner_text()) > before
    assert re.fullmatch(r"/c/[\w-]{22}", page.evaluate("location.pathname"))
    page.reload()
    expect(page.locator(".said")).to_have_count(1)
    finished(page)
    assert answer.count() == 1
    words = " ".join(answer.inner_text().split())
    assert words == " ".join(SLOW.replace("*", "").split())
    expect(page.locator(".prose strong")).to_have_text("second paragraph")
    expect(page.locator("#announcer")).to_contain_text("finished")
    assert seen.problems == []
    context.close()


def test_d3_the_web_server_dies_in_mid_answer_and_the_page_goes_on_by_itself(
    visit: Visit, gateway: Gateway
) -> None:
    page, _ = visit(gateway)
    ask(page, "Say it slowly, please")
    expect(page.locator(".prose")).to_contain_text("comes")
    gateway.kill("web")
    expect(page.locator("#connection")).to_be_visible()
    ask(page, "And markdown after that")
    expect(page.locator(".status-words")).to_have_text(re.compile("Waiting for the connection"))
    gateway.restart("web")
    finished(page, 2)
    assert page.locator(".prose").first.inner_text().count("finished") == 1
    expect(page.locator(".said")).to_have_count(2)
    expect(page.locator(".prose h3")).to_have_text("Title")
    page.reload()
    finished(page, 2)
    expect(page.locator(".said")).to_have_count(2)


def test_t4_markdown_is_rendered_and_code_can_be_copied(visit: Visit, gateway: Gateway) -> None:
    page, seen = visit(gateway, permissions=["clipboard-read", "clipboard-write"])
    ask(page, "Some markdown")
    finished(page)
    expect(page.locator(".prose li strong")).to_have_text("one")
    page.get_by_role("button", name="Copy code").click()
    assert page.evaluate("navigator.clipboard.readText()").strip() == "print(1)"
    page.get_by_role("button", name="Copy the answer").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("## Title")
    assert seen.problems == []


def test_the_keyboard_is_enough(visit: Visit, gateway: Gateway) -> None:
    page, _ = visit(gateway)
    box = page.locator("#composer-text")
    expect(box).to_be_focused()
    page.keyboard.type("hang on")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("please")
    expect(box).to_have_value("hang on\nplease")
    page.keyboard.press("Enter")
    expect(page.locator(".bubble .plain")).to_have_text("hang on\nplease")
    expect(page.locator(".prose")).to_contain_text("Half of")
    page.keyboard.press("Escape")
    finished(page)
    expect(page.locator(".stopped")).to_be_visible()
    expect(page.locator(".prose")).to_contain_text("Half of")
    page.locator(".skip").focus()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    page.keyboard.type("markdown")
    expect(box).to_have_value("markdown")
    settings = page.locator("[data-open-settings]")
    settings.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("switch")).to_be_visible()
    page.keyboard.press("Escape")
    expect(settings).to_be_focused()


def test_a_pasted_picture_goes_with_the_message(visit: Visit, gateway: Gateway) -> None:
    page, seen = visit(gateway)
    page.locator("#composer-text").evaluate(PASTE)
    thumbnail = page.locator("#attachments img")
    expect(thumbnail).to_have_attribute("alt", "sky.png")
    page.locator("#composer-text").press("Enter")
    finished(page)
    expect(page.locator(".bubble img.attached")).to_have_attribute("alt", "sky.png")
    expect(thumbnail).to_have_count(0)
    page.reload()
    finished(page)
    expect(page.locator(".bubble img.attached")).to_have_attribute("alt", "sky.png")
    assert seen.problems == []


def test_a_draft_survives_a_reload_and_another_chat(visit: Visit, gateway: Gateway) -> None:
    page, _ = visit(gateway)
    ask(page, "Some markdown")
    finished(page)
    page.locator("#composer-text").fill("not sent yet")
    page.reload()
    expect(page.locator("#composer-text")).to_have_value("not sent yet")
    page.locator("#new-chat").click()
    expect(page.locator("#composer-text")).to_have_value("")
    page.go_back()
    expect(page.locator("#composer-text")).to_have_value("not sent yet")


def test_a_failure_is_said_and_asked_again(visit: Visit, gateway: Gateway) -> None:
    page, _ = visit(gateway)
    ask(page, "break it")
    finished(page)
    expect(page.locator(".error-block")).to_have_count(1)
    expect(page.locator(".error-block")).to_contain_text("The model cannot be reached.")
    expect(page.locator(".prose")).to_contain_text("I was about to")
    page.get_by_role("button", name="Ask again").click()
    finished(page, 2)
    expect(page.locator(".said")).to_have_count(2)


def test_a_phone_has_a_drawer_and_nothing_sticks_out(visit: Visit, gateway: Gateway) -> None:
    size = {"width": 360, "height": 740}
    page, seen = visit(gateway, viewport=size, is_mobile=True, has_touch=True)
    expect(page.locator("#sidebar")).not_to_be_in_viewport()
    ask(page, "Some markdown " + "withoutanyspace" * 30)
    finished(page)
    assert page.evaluate(WIDEST) <= size["width"]
    page.locator("#open-sidebar").click()
    expect(page.locator("#sidebar")).to_be_in_viewport()
    expect(page.locator("#new-chat")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#sidebar")).not_to_be_in_viewport()
    expect(page.locator("#open-sidebar")).to_be_focused()
    assert seen.problems == []


def test_dark_and_light_follow_the_system_until_one_chooses(visit: Visit, gateway: Gateway) -> None:
    page, _ = visit(gateway, color_scheme="dark")

    def paper() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    assert paper() == "rgb(27, 26, 24)"
    page.emulate_media(color_scheme="light")
    assert paper() == "rgb(252, 251, 249)"
    page.locator("[data-open-settings]").click()
    page.get_by_text("Dark", exact=True).click()
    assert paper() == "rgb(27, 26, 24)"
    page.reload()
    assert paper() == "rgb(27, 26, 24)"


def test_chats_are_found_renamed_and_deleted(visit: Visit, gateway: Gateway) -> None:
    page, _ = visit(gateway)
    ask(page, "markdown about giraffes")
    finished(page)
    page.locator("#session-search").fill("giraffe")
    expect(page.locator(".session")).to_have_count(1)
    page.locator(".session-more").click()
    page.get_by_label("Title", exact=True).fill("On zebras")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("On zebras")
    page.locator("#session-search").fill("zebra")
    page.locator(".session-more").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete the chat for good").click()
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator("#sessions-empty")).to_be_visible()


def test_ws5_the_page_talks_to_its_own_host_whatever_the_address_says(
    visit: Visit, gateway: Gateway
) -> None:
    page, seen = visit(gateway, "/?gatewayUrl=wss://evil.example/ws&ws=wss://evil.example")
    expect(page.locator("#connection")).to_be_hidden()
    assert seen.sockets == [gateway.ws_url]
    assert seen.hosts == {gateway.base_url.split("//")[1]}


def test_what_is_said_is_never_obeyed(visit: Visit, gateway: Gateway) -> None:
    page, seen = visit(gateway)
    evil = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>[a](javascript:hit=1)'
    ask(page, evil)
    finished(page)
    assert evil in page.locator(".bubble").inner_text()
    assert "onerror" in page.locator(".prose").inner_text()
    assert page.evaluate("window.hit") is None
    assert page.locator(".prose img, .prose script, .prose a").count() == 0
    assert seen.problems == []


def test_signing_out_in_another_tab_ends_this_one(browser: Browser, gateway: Gateway) -> None:
    context = browser.new_context()
    first, second = context.new_page(), context.new_page()
    first.goto(link(gateway))
    expect(first.locator("#greeting")).to_be_visible()
    second.goto(gateway.base_url)
    second.locator("[data-open-settings]").click()
    second.get_by_role("button", name="Sign out").click()
    expect(second).to_have_url(re.compile("/sign-in"))
    expect(first).to_have_url(re.compile("/sign-in"))
    context.close()


def test_a_message_in_one_window_is_shown_in_the_other(visit: Visit, gateway: Gateway) -> None:
    here, _ = visit(gateway)
    ask(here, "Some markdown")
    finished(here)
    there, _ = visit(gateway, here.evaluate("location.pathname"))
    finished(there)
    ask(here, "Again in markdown")
    finished(here, 2)
    finished(there, 2)
    expect(there.locator(".said").nth(1)).to_contain_text("Again in markdown")


def test_a6_the_owner_lets_somebody_in_from_a_card(visit: Visit, gateway: Gateway) -> None:
    shell(
        gateway,
        "from django.utils import timezone\nfrom allowlist import requests\n"
        "from core.models import ChannelAccount\n"
        "account = ChannelAccount.objects.create(channel='bridge', name='b')\n"
        "requests.record(account=account, kind='im', sender='4711', sender_name='<b>Eve</b>', "
        "text='Hello?', now=timezone.now())",
    )
    page, _ = visit(gateway)
    card = page.locator(".notice")
    expect(card).to_contain_text("user_id=4711")
    expect(card.locator(".stranger")).to_have_text("They say: “<b>Eve</b>: Hello?”")
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".notice")).to_contain_text("Approved by Ada Lovelace")
    expect(page.locator(".notice").get_by_role("button", name="Approve")).to_have_count(0)
    page.get_by_role("button", name="Dismiss the notice").click()
    expect(page.locator(".notice")).to_have_count(0)


def test_m1_every_message_type_has_its_place(
    visit: Visit, stage: Gateway, play: Play, tmp_path: Path
) -> None:
    go = [tmp_path / name for name in ("one", "two")]
    steps = json.loads((Path(__file__).parent / "every_type.json").read_text(encoding="utf-8"))
    play([{"wait_for": str(go[step["gate"]])} if "gate" in step else step for step in steps])
    page, seen = visit(stage)
    ask(page, "Everything")
    expect(page.locator(".status-words")).to_have_text("Searching…")
    go[0].touch()
    expect(page.locator(".status-words")).to_have_text("Reading the document…")
    expect(page.locator("progress")).to_have_attribute("value", "62")
    expect(page.locator(".tool-call summary")).to_contain_text("Using document_read")
    go[1].touch()
    finished(page)
    expect(page.locator("#settings")).to_be_visible()  # the action open_panel
    page.keyboard.press("Escape")
    everything_is_there(page)
    page.reload()
    finished(page)
    expect(page.locator(".thumbs [aria-pressed=true]")).to_have_count(1)
    everything_is_there(page)
    expect(page.locator("#settings")).to_be_hidden()  # what is past is not done again
    assert seen.problems == []
    assert seen.hosts == {stage.base_url.split("//")[1]}
    assert page.url.startswith(stage.base_url)


def everything_is_there(page: Page) -> None:
    """Every message of the stage's answer, as it should look."""
    expect(page.locator(".status-words")).to_have_count(0)
    expect(page.locator(".thinking")).not_to_have_attribute("open", "")
    expect(page.locator(".tool-call summary")).to_contain_text("Used document_read")
    page.locator(".retrieval summary").click()
    useful = page.get_by_role("button", name="Useful: A source", exact=True)
    if useful.get_attribute("aria-pressed") == "false":
        useful.click()
    expect(useful).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".source").first.locator("a")).to_have_attribute(
        "href", "https://example.org/a"
    )
    expect(page.locator(".source").nth(1).locator("a")).to_have_count(0)
    expect(page.locator(".prose strong")).to_have_text("answer")
    expect(page.locator(".media img")).to_have_count(1)
    expect(page.locator(".media img")).to_have_attribute("alt", "A dot")
    expect(page.get_by_role("link", name="Open the image: Far")).to_contain_text(
        "(tracker.example)"
    )
    expect(page.get_by_role("link", name="Open the video")).to_be_visible()
    expect(page.locator("audio")).to_have_attribute("src", re.compile("^blob:"))
    page.locator("summary", has_text="Transcript").click()
    expect(page.get_by_text("La la")).to_be_visible()
    expect(page.locator(".custom summary")).to_have_text("chart")
    expect(page.locator(".error-block")).to_contain_text("One source failed.")


def test_without_the_switch_a_long_task_says_only_that_it_works(
    visit: Visit, stage: Gateway, play: Play, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    play(
        [
            {
                "type": "event",
                "props": {"event": "progress", "message": "Secret step", "data": {"tool": "x"}},
            },
            {"wait_for": str(go)},
            {"type": "text", "message_id": "t", "props": {"content": "Done."}},
        ]
    )
    page, _ = visit(stage)
    page.locator("[data-open-settings]").click()
    with page.expect_response("**/chat/settings"):
        page.get_by_role("switch").click()
    page.keyboard.press("Escape")
    ask(page, "Something long")
    expect(page.locator(".status-words")).to_have_text("Working…")
    page.locator("[data-open-settings]").click()
    with page.expect_response("**/chat/settings"):
        page.get_by_role("switch").click()
    page.keyboard.press("Escape")
    expect(page.locator(".status-words")).to_have_text("Secret step")
    go.touch()
    finished(page)

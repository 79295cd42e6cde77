"""Files in the web chat: dropped, uploaded with a bar; finished ones as cards ([L4], [L5])."""

import io
import re
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.browser.conftest import Seen, ask, finished, hold, started
from tests.conftest import DatabaseMaker
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
OpenPage = Callable[..., tuple[Page, Seen]]
LONG = "Minutes of the meeting in May.txt"
COOKIES = "() => { try { return document.cookie } catch { return 'none' } }"


@pytest.fixture(scope="module")
def gateway(
    new_database: DatabaseMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yield a gateway."""
    folder = tmp_path_factory.mktemp("files")
    running = started(folder, new_database(), ("web", "runs"))
    yield running
    running.stop()


def drop(page: Page, *paths: Path) -> None:
    """Drag what is on the disk over the conversation, and drop it."""
    protocol = page.context.new_cdp_session(page)
    data = {"items": [], "files": [*map(str, paths)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver"):
        protocol.send("Input.dispatchDragEvent", {"type": kind, "x": 600, "y": 200, "data": data})
    expect(page.locator("body")).to_have_class(re.compile("dropping"))
    protocol.send("Input.dispatchDragEvent", {"type": "drop", "x": 600, "y": 200, "data": data})


def test_l5_a_dropped_document_is_uploaded_and_summarized(
    open_page: OpenPage, gateway: Gateway, tmp_path: Path
) -> None:
    """A folder beside it is refused in words: it cannot be read."""
    page, seen = open_page(gateway)
    expect(page.locator("#log")).to_be_attached()
    (tmp_path / "folder").mkdir()
    document = tmp_path / "sea.md"
    document.write_text("# Sea\n\nThe sea is salty.\n", encoding="utf-8")
    drop(page, tmp_path / "folder", document)
    expect(page.locator("#toasts")).to_contain_text("A folder cannot be attached.")
    item = page.locator("#attachments li.file")
    expect(item).to_contain_text("sea.md")
    expect(item.locator("progress")).to_have_count(0)
    ask(page, "Summarize this document")
    finished(page)
    expect(page.locator(".bubble .attached")).to_contain_text("sea.md")
    expect(page.locator(".answer .prose strong")).to_have_text("salty")
    expect(page.locator("#attachments li")).to_have_count(0)
    page.reload()
    finished(page)
    expect(page.locator(".bubble .plain")).to_have_text("Summarize this document")
    page.get_by_role("button", name="Ask again").click()
    finished(page, 2)
    expect(page.locator(".bubble .attached").nth(1)).to_contain_text("sea.md")
    expect(page.locator(".answer .prose strong").nth(1)).to_have_text("salty")
    page.reload()
    finished(page, 2)
    expect(page.locator(".bubble .attached a")).to_have_count(2)
    assert seen.problems == []


def test_l5_an_upload_that_failed_is_tried_again_by_a_button(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """The file need not be chosen again, also after a press on reload: the page asks before it
    goes. The buttons are in the window of a phone with letters of twice the size, too. A file that
    the gateway will never take is removed.
    """
    page, _ = open_page(gateway)
    asked = list[str]()

    def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.dismiss()

    page.route("**/files?*", lambda route: route.abort(), times=1)
    page.locator("#attach-file").set_input_files(
        {"name": LONG, "mimeType": "text/plain", "buffer": b"words"}
    )
    expect(page.locator("#toasts")).to_contain_text(f"{LONG} could not be uploaded.")
    ask(page, "Summarize the document")
    expect(page.locator(".bubble")).to_have_count(0)
    expect(page.locator("#toasts .toast")).to_have_count(2)  # why it is not sent
    again = page.get_by_role("button", name=f"Try again: {LONG}")
    page.route("**/files?*", lambda route: route.fulfill(status=503, json={}), times=1)
    again.click()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 844})
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    for button in (again, page.get_by_role("button", name=f"Remove {LONG}")):
        expect(button).to_be_in_viewport(ratio=1)
    page.once("dialog", stay)
    page.evaluate("location.reload()")
    again.click()
    expect(again).to_have_count(0)
    assert asked == ["beforeunload"]
    page.get_by_role("button", name="Send").click()
    finished(page)
    expect(page.locator(".bubble .attached")).to_contain_text(LONG)
    page.reload()  # nothing would be lost: it does not ask
    finished(page)
    page.route("**/files?*", lambda route: route.fulfill(status=413, json={}), times=1)
    page.locator("#attach-file").set_input_files(
        {"name": "b.txt", "mimeType": "text/plain", "buffer": b"words"}
    )
    expect(page.locator("#toasts")).to_contain_text("b.txt: The upload failed.")
    expect(page.locator("#attachments li")).to_have_count(0)


def test_l5_while_a_file_is_on_its_way_there_is_a_bar_and_the_message_waits(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    held = hold(page, "**/files?*")
    page.locator("#attach-file").set_input_files(
        {"name": "a.txt", "mimeType": "text/plain", "buffer": b"words"}
    )
    bar = page.locator("#attachments li.file progress")
    expect(bar).to_have_count(1)
    page.get_by_label("Message", exact=True).fill("hello")
    expect(page.locator("#send")).to_be_disabled()
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_contain_text("The files are not uploaded yet.")
    held[0].continue_()
    expect(bar).to_have_count(0)
    expect(page.locator("#send")).to_be_enabled()


LENGTH = """(player) => new Promise((done) => {
  player.addEventListener("loadedmetadata", () => done(player.duration));
  player.load();
  player.preload = "metadata";
})"""


def test_a_recording_that_was_sent_can_be_played(open_page: OpenPage, gateway: Gateway) -> None:
    """At once, and later, when the gateway knows it by its content and not by its name."""
    memo = io.BytesIO()
    with wave.open(memo, "wb") as sound:
        sound.setparams((1, 1, 8000, 4000, "NONE", ""))
        sound.writeframes(bytes([128]) * 4000)
    page, seen = open_page(gateway)
    for name in ("memo.wav", "memo"):
        page.locator("#attach-file").set_input_files(
            {"name": name, "mimeType": "", "buffer": memo.getvalue()}
        )
        expect(page.locator("#send")).to_be_enabled()
        page.locator("#send").click()
    player = page.locator(".bubble audio")
    expect(player).to_have_count(1)
    assert player.evaluate(LENGTH) == 0.5
    finished(page, 2)
    page.reload()
    expect(player).to_have_count(2)
    expect(page.locator(".bubble .attached a")).to_have_text(["memo.wav", "memo"])
    assert seen.problems == []
    page.locator("#attach-file").set_input_files(
        {"name": "no-song.mp3", "mimeType": "", "buffer": b"these are words"}
    )
    page.locator("#send").click()
    player.nth(2).evaluate("(it) => it.play().catch(() => {})")
    expect(page.locator(".bubble .facts")).to_have_text("This medium cannot be shown.")
    expect(page.get_by_role("link", name="no-song.mp3")).to_be_visible()
    expect(player).to_have_count(2)


def test_l5_a_refused_file_says_why(open_page: OpenPage, gateway: Gateway) -> None:
    page, _ = open_page(gateway)
    page.locator("#attach-file").set_input_files(
        {"name": "empty.txt", "mimeType": "text/plain", "buffer": b""}
    )
    expect(page.locator("#toasts")).to_contain_text("The file is empty.")
    expect(page.locator("#attachments li")).to_have_count(0)


def test_l4_a_finished_file_is_a_card_that_opens_in_a_sandbox(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    ask(page, "save it")
    finished(page)
    card = page.locator("a.file-card")
    expect(card).to_contain_text("The plan.html")
    expect(page.locator(".answer .prose")).to_have_text(["Here is your plan."])
    page.reload()
    finished(page)
    expect(card).to_have_count(1)
    expect(page.locator(".answer .prose")).to_have_text(["Here is your plan."])
    with page.context.expect_page() as opened:
        card.click()
    saved = opened.value
    expect(saved.locator("h1")).to_have_text("The plan")
    assert (
        saved.evaluate("() => { try { return document.cookie } catch { return 'none' } }") == "none"
    )
    assert saved.evaluate("origin") == "null"
    assert seen.problems == []


# The rendering of an answer with a file, and what is left of it above the card.
LINES = {
    "<p>It is ready:<br>\nLINK</p>": "It is ready:",
    "<p>It is ready.</p>\n<ul>\n<li>LINK</li>\n</ul>": "It is ready.",
    '<p class="plain">It is ready:\nLINK\nTell me.</p>': "It is ready:\n\nTell me.",
    "<p>It is ready.<br>\nOpen LINK to see it.</p>": "It is ready.\nOpen ADDRESS to see it.",
}
SHOWN = """async (html) => {
  const module = (name) => import(document.querySelector(`link[href*="/${name}."]`).href);
  const [{ Run }, { Turn }] = await Promise.all([module("conversation"), module("turn")]);
  const run = new Run("run", "session");
  const parts = [{ type: "text", message_id: "text", props: {}, html }];
  run.restore(parts, { text: "It is ready.", files: [{ id: "abc", name: "plan.html", size: 5 }] });
  const turn = new Turn({ said: null, on: {} });
  turn.bind(run);
  document.querySelector("#log").replaceChildren(turn.node);
  return turn.node.querySelector(".prose").innerText.trim();
}"""


def test_l4_the_address_of_a_file_with_a_card_is_left_out_where_it_is_a_line(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    address = f"{gateway.base_url}/files/out?token=abc.1"
    for html, left in LINES.items():
        rendered = html.replace("LINK", f'<a href="{address}">{address}</a>')
        assert page.evaluate(SHOWN, rendered) == left.replace("ADDRESS", address)
        expect(page.locator("a.file-card")).to_contain_text("plan.html")
    assert seen.problems == []

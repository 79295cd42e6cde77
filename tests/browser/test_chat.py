"""The web chat in a real browser [D3] [M1] [C9] [A6], RWS5 and RX3."""

import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from PIL import Image
from playwright.sync_api import Browser, Dialog, FilePayload, Page, WebSocketRoute, expect

from tests.browser.conftest import (
    SENT_TWICE,
    SLOW,
    Seen,
    ask,
    come,
    finished,
    hold,
    hold_answer,
    link,
    photograph,
    shell,
    sign_in,
    watch,
)
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
# Paste a picture of 3000 × 10 as a browser does.
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
# On which side paragraphs begin.
SIDES = """(paragraphs) => paragraphs.map((paragraph) => {
  const range = document.createRange();
  range.selectNodeContents(paragraph);
  const [text, box] = [range.getBoundingClientRect(), paragraph.getBoundingClientRect()];
  return ["left", "right"].find((side) => Math.abs(text[side] - box[side]) < 2);
})"""
# Whether the comma of a text stands to the left of its first letter.
RUNS_TO_THE_LEFT = """(node) => {
  const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (!texts.nextNode().data.includes(","));
  const left = (at) => {
    const range = document.createRange();
    range.setStart(texts.currentNode, at);
    range.setEnd(texts.currentNode, at + 1);
    return range.getBoundingClientRect().left;
  };
  const { data } = texts.currentNode;
  return left(data.indexOf(",")) < left(data.indexOf("ש"));
}"""
# The browser reads pictures only when told.
SLOW_READING = """() => {
  const now = window.createImageBitmap;
  const told = new Promise((go) => { window.read = go; });
  window.createImageBitmap = async (...given) => { await told; return now(...given); };
}"""
# Paste a text as a spreadsheet gives it.
PASTE_TEXT = """(box, text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  data.setData("text/html", "<table><tr><td>1<td>2</table>");
  data.items.add(new File(["no picture"], "image.png", { type: "image/png" }));
  const event = new ClipboardEvent("paste", { clipboardData: data, cancelable: true });
  return box.dispatchEvent(event) ? "pasted" : "refused";
}"""
# Paste a picture whose upper half is transparent and whose lower one is noise.
PASTE_TRANSPARENT = """async (box) => {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 600;
  const noise = new ImageData(600, 300);
  noise.data.set(noise.data.map((_, at) => (at % 4 < 3 ? Math.random() * 256 : 255)));
  canvas.getContext("2d").putImageData(noise, 0, 300);
  const blob = await new Promise((done) => canvas.toBlob(done));
  const data = new DataTransfer();
  data.items.add(new File([blob], "noise.png", { type: "image/png" }));
  box.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, cancelable: true }));
}"""
TOP_LEFT = """async (source) => {
  const picture = new Image();
  picture.src = source;
  await picture.decode();
  const context = document.createElement("canvas").getContext("2d");
  context.drawImage(picture, 0, 0);
  return [...context.getImageData(20, 20, 1, 1).data.slice(0, 3)];
}"""
# Full storages, and storages that the browser refuses.
FULL = "Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); };"
FORBIDDEN = """for (const name of ["localStorage", "sessionStorage"]) {
  Object.defineProperty(window, name, { get() { throw new DOMException("", "SecurityError"); } });
}"""
# The rightmost pixel of the elements that do not scroll by themselves.
WIDEST = """() => Math.max(...[...document.querySelectorAll("body *")]
  .filter((node) => !node.closest("pre, .table-scroll, .formula"))
  .filter((node) => !node.closest(".visually-hidden, dialog, .sidebar"))
  .map((node) => node.getBoundingClientRect().right))"""
OpenPage = Callable[..., tuple[Page, Seen]]


def test_a_chat_that_begins_with_a_command_is_named_after_the_first_message(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "/help")
    finished(page)
    expect(page.locator("#title")).to_have_text("New chat")
    ask(page, "markdown, please")
    finished(page, 2)
    for place in (page.locator("#title"), page.locator(".session-title").first):
        expect(place).to_have_text("markdown, please")
    ask(page, "/new")
    finished(page, 3)
    expect(page.locator("#title")).to_have_text("New chat")


def test_a_notice_that_asks_nothing_has_no_icon_of_a_person(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    notice = json.dumps({"type": "notice", "text": "The disk is nearly full."})
    page.route_web_socket(re.compile(r"/ws\?"), lambda socket: socket.send(notice))
    page.reload()
    card = page.locator(".notice")
    expect(card).to_contain_text("The disk is nearly full.")
    expect(card.locator(".icon-bell")).to_be_visible()
    expect(card.locator(".icon-request")).to_have_count(0)


def test_d3_the_link_signs_in_and_the_answer_grows_and_a_reload_in_the_middle_loses_nothing(
    browser: Browser, gateway: Gateway
) -> None:
    context = browser.new_context()
    page = context.new_page()
    seen = watch(page)
    address = link(gateway)
    page.goto(address)
    assert page.locator("form").evaluate(SENT_TWICE) == [True, False]  # the link works once
    sign_in(page, address, "Ada Lovelace")
    expect(page.locator("#greeting")).to_contain_text("Ada")
    ask(page, "Say it slowly, please")
    answer = page.locator(".answer .prose")
    expect(answer).to_contain_text("word by")
    before = len(answer.inner_text())
    expect(answer).to_contain_text("reload")
    assert re.fullmatch(r"/c/[\w-]{22}", page.evaluate("location.pathname"))
    page.reload()
    expect(page.locator(".said")).to_have_count(1)
    finished(page)
    assert answer.count() == 1
    words = " ".join(answer.inner_text().split())
    assert len(words) > before, "it was shown before it was whole"
    assert words == " ".join(SLOW.replace("*", "").split())
    expect(page.locator(".prose strong")).to_have_text("second paragraph")
    expect(page.locator("#announcer")).to_contain_text("finished")
    assert seen.problems == []
    context.close()


def cut_off(page: Page, gateway: Gateway, question: str, *, after: str) -> None:
    """Ask, and kill the web server once the answer shows ``after``; the page says so."""
    ask(page, question)
    expect(page.locator(".prose")).to_contain_text(after)
    gateway.kill("web")
    expect(page.locator("#connection")).to_be_visible()


def test_d3_the_web_server_dies_in_mid_answer_and_the_page_goes_on_by_itself(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    cut_off(page, gateway, "Say it slowly, please", after="comes")
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


def test_d3_an_answer_goes_on_where_following_it_was_refused_for_now(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "slowly please")
    expect(page.locator(".prose")).to_contain_text("word by word")
    refused: list[str] = []

    def talk(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(data: str | bytes) -> None:
            frame = json.loads(data)
            if frame["type"] == "resume" and not refused:
                refused.append(frame["run_id"])
                error = {"status": 429, "error": "Busy.", "run_id": frame["run_id"]}
                socket.send(json.dumps({"type": "error", **error}))
            else:
                server.send(data)

        socket.on_message(pass_on)

    page.route_web_socket("**/ws*", talk)
    page.reload()
    finished(page)
    expect(page.locator(".prose")).to_contain_text(SLOW[-20:])
    expect(page.locator(".error-block")).to_have_count(0)
    assert refused


def test_c9_a_stop_without_a_connection_is_sent_with_the_next_one(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    cut_off(page, gateway, "hang on", after="Half of")
    page.keyboard.press("Escape")
    expect(page.locator(".status-words")).to_have_text("Stopping…")
    gateway.restart("web")
    finished(page)
    expect(page.locator(".stopped")).to_be_visible()


def test_c9_a_message_is_stopped_before_the_gateway_has_accepted_it(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """On a slow network that is a second; without a connection it comes back into the box."""
    page, _ = open_page(gateway)
    late: list[Callable[[], None]] = []

    def talk(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def pass_on(data: str | bytes) -> None:
            if json.loads(data)["type"] == "accepted":
                late.append(lambda: socket.send(data))
            else:
                socket.send(data)

        server.on_message(pass_on)

    page.route_web_socket("**/ws*", talk)
    page.reload()
    ask(page, "hang on")
    come(page, late)
    page.get_by_role("button", name="Stop the answer").click()
    expect(page.locator(".status-words")).to_have_text("Stopping…")
    late.pop()()
    finished(page)
    expect(page.locator(".stopped")).to_be_visible()
    ask(page, "hang on")
    come(page, late)
    page.get_by_role("button", name="Stop the answer").click()
    page.locator("[data-new-chat]").first.click()  # the stop is for the chat that is left
    expect(page.locator(".bubble")).to_have_count(0)
    late.pop()()
    page.go_back()
    expect(page.locator(".stopped")).to_have_count(2)
    page.context.set_offline(True)
    expect(page.locator("#connection")).to_be_visible()
    ask(page, "written offline")
    expect(page.locator(".bubble")).to_have_count(3)
    page.keyboard.press("Escape")
    expect(page.locator(".bubble")).to_have_count(2)
    expect(page.get_by_label("Message", exact=True)).to_have_value("written offline")


def test_t4_markdown_is_rendered_and_code_can_be_copied(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway, permissions=["clipboard-read", "clipboard-write"])
    ask(page, "Some markdown")
    finished(page)
    expect(page.locator(".prose li strong")).to_have_text("one")
    expect(page.locator(".code .tok-name")).to_have_text("print")
    page.get_by_role("button", name="Copy code").click()
    assert page.evaluate("navigator.clipboard.readText()").strip() == "print(1)"
    expect(page.locator("#announcer")).to_have_text("Copied")
    answer = page.get_by_role("button", name="Copy the answer")
    answer.click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("## Title")
    # As at a plain http address.
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()) }")
    page.get_by_role("button", name="Copy the message").press("Enter")
    expect(page.get_by_role("button", name="Copy the message")).to_be_focused()
    assert page.evaluate("navigator.clipboard.readText()") == "Some markdown"
    assert page.evaluate("document.body.scrollTop + document.documentElement.scrollTop") == 0
    assert seen.problems == []


def test_an_answer_that_is_selected_and_copied_has_no_words_of_buttons(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "markdown, please")
    finished(page)
    copied = page.locator(".turn").evaluate("""(turn) => {
      getSelection().selectAllChildren(turn);
      return getSelection().toString();
    }""")
    lines = [line for line in copied.splitlines() if line]
    answer = ["Title", "one", "two", "print(1)"]
    assert lines == ["You said", "markdown, please", "The assistant answered", *answer]


def test_a_copied_part_has_the_structure_of_an_answer_and_no_colours(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """It would be light on dark in a letter, of a chat in the dark."""
    allowed = ["clipboard-read", "clipboard-write"]
    page, seen = open_page(gateway, permissions=allowed, color_scheme="dark")
    ask(page, "markdown, please")
    finished(page)

    def copied(selector: str) -> list[str]:
        page.locator(selector).evaluate("(it) => getSelection().selectAllChildren(it)")
        page.keyboard.press("Control+c")
        return list(page.evaluate(COPIED))

    html, plain = copied(".answer")
    listed = "<ul><li><strong>one</strong></li><li>two</li></ul>"
    assert html.replace("\n", "") == (
        '<h2>The assistant answered</h2><div><div dir="auto"><h3>Title</h3>'
        f"{listed}<div><pre><code><span>print</span>(<span>1</span>)</code></pre></div></div></div>"
    )
    assert plain.startswith("The assistant answered")
    assert copied(".prose ul")[0].replace("\n", "") == listed
    assert copied(".prose .tok-name") == ["<pre><code><span>print</span></code></pre>", "print"]
    assert copied(".prose li >> nth=1") == ["two", "two"]
    assert seen.problems == []


def test_t4_formulas_are_drawn_by_the_browser_and_stay_within_the_page(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway, viewport={"width": 360, "height": 740})
    ask(page, "A formula, please")
    finished(page)
    expect(page.locator(".prose math")).to_have_count(4)
    fraction = page.locator(".prose mfrac").bounding_box()
    letter = page.locator(".prose mfrac mi").last.bounding_box()
    assert fraction is not None
    assert letter is not None
    assert fraction["height"] > 1.8 * letter["height"]  # one above the other, not "frac" in words
    expect(page.locator(".prose")).to_contain_text("at 5 $ each")
    assert page.evaluate(WIDEST) <= 360
    box = page.locator(".composer").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= 740 - 8  # a finger's gesture at the edge is the phone's
    assert seen.problems == []


def test_the_keyboard_is_enough(open_page: OpenPage, gateway: Gateway) -> None:
    page, _ = open_page(gateway)
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
    expect(page.get_by_role("switch", name="Show progress")).to_be_visible()
    page.keyboard.press("Escape")
    expect(settings).to_be_focused()


def test_a_link_within_the_page_does_not_load_the_chat_again(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """The keyboard goes on meanwhile: the end of loading would take the focus."""
    page, _ = open_page(gateway)
    ask(page, "markdown")
    finished(page)
    page.wait_for_load_state("networkidle")  # a new connection looks for turns, 300 ms later
    loads: list[str] = []
    page.on("request", lambda request: loads.append(request.url))
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.wait_for_url(re.compile("#composer-text$"))
    page.evaluate("1")  # lets a request come
    assert not [each for each in loads if each.endswith("/messages")]


def test_the_focus_stays_where_it_went_while_a_chat_was_loading(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "markdown of the terns")
    finished(page)
    page.goto(gateway.base_url)  # where no other chat is loaded
    held = hold(page, "**/chat/sessions/*/messages")
    page.locator(".sessions a", has_text="markdown of the terns").click()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    come(page, held)
    page.keyboard.press("Control+k")
    search = page.get_by_role("searchbox")
    expect(search).to_be_focused()
    held.pop().continue_()
    finished(page)
    page.evaluate("1")  # lets the end of loading come
    expect(search).to_be_focused()


def test_the_caret_stays_in_the_text_while_the_open_chat_loads_anew(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """As after a long sleep, by an action of a tool, or by a tap on a notification."""
    page, _ = open_page(gateway)
    ask(page, "markdown of the sandpipers")
    finished(page)
    page.keyboard.type("half sentence")
    page.keyboard.press("Control+ArrowLeft")
    with page.expect_response("**/messages"):
        page.evaluate("""navigator.serviceWorker.dispatchEvent(new MessageEvent("message", {
          data: { type: "open", session: location.pathname.split("/")[2] } }))""")
    finished(page)
    page.keyboard.type("a ")
    expect(page.locator("#composer-text")).to_have_value("half a sentence")


def test_a_message_sent_while_a_chat_loads_stays_with_its_answer(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    ask(page, "markdown of the skuas")
    finished(page)
    held = hold_answer(page, "**/chat/sessions/*/messages")
    page.locator(".sessions a", has_text="markdown of the skuas").click()
    come(page, held)
    ask(page, "Say it slowly, please")
    expect(page.locator(".prose").last).to_contain_text("word")
    for route, answer in held:
        route.fulfill(response=answer)
    finished(page, 2)
    expect(page.locator(".said")).to_contain_text(["markdown of the skuas", "Say it slowly"])
    expect(page.locator(".prose").last).to_contain_text("its last word is finished")
    assert seen.problems == []


LONG_CHAT = """
from channels_app.asgi.builtin_accounts import builtin_account
from core.conversations import inbox
from core.models import Message, User
ada = User.objects.get(username='ada')
chat = inbox.open_session(user=ada, account=builtin_account('web'), title='Long')
Message.objects.bulk_create(
    Message(session=chat, role='assistant', text=f'Answer {number}') for number in range(45)
)
print(chat.public_id)
"""


def test_earlier_messages_come_once_when_their_button_is_pressed_twice(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway, f"/c/{shell(gateway, LONG_CHAT)}")
    answers = page.locator(".answer")
    expect(answers).to_have_count(40)
    page.get_by_role("button", name="Show earlier messages").evaluate(
        "(it) => { it.click(); it.click() }"
    )
    expect(answers.first).to_contain_text("Answer 0")
    expect(page.locator("#earlier")).to_be_hidden()
    page.evaluate("fetch('/chat/sessions')")  # as long as another answer takes
    expect(answers).to_have_count(45)


def test_the_page_keys_turn_the_conversation_from_the_message_box(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """Where the focus is after each message."""
    chat = shell(gateway, LONG_CHAT)
    page, _ = open_page(gateway, f"/c/{chat}", reduced_motion="reduce")
    expect(page.locator(".answer")).to_have_count(40)
    box = page.get_by_label("Message", exact=True)
    box.press("PageUp")
    expect(page.locator("#to-end")).to_be_visible()
    box.press("PageDown")
    expect(page.locator("#to-end")).to_be_hidden()
    box.press("Shift+PageUp")  # selects
    box.press("Control+PageUp")  # the browser's tabs
    expect(page.locator("#to-end")).to_be_hidden()
    box.fill("A line\n" * 40)
    box.press("PageUp")
    expect(page.locator("#to-end")).to_be_hidden()


def test_a_text_and_a_press_before_the_script_runs_are_carried_out_after_it(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway, service_workers="block")  # it would bring the script by itself
    ask(page, "A chat about terns")
    finished(page)
    chat, other = page.url, gateway.base_url + "/"
    box = page.get_by_label("Message", exact=True)
    held = hold(page, "**/static/latchkey/chat*.js")

    def early(path: str) -> None:
        page.goto(path, wait_until="commit")
        come(page, held)

    early(chat)
    box.fill("As quick as I am")
    box.evaluate("(box) => box.setSelectionRange(0, 0)")
    held.pop().continue_()
    expect(page.locator("#send")).to_be_enabled()
    expect(box).to_have_value("As quick as I am")
    assert box.evaluate("(box) => box.selectionStart") == 0  # nor is a word that is composed lost
    early(chat)
    box.type("Something on gulls")
    box.press("Enter")
    held.pop().continue_()
    # The draft, which was not to be seen, is not sent with it.
    expect(box).to_have_value("As quick as I am\nSomething on gulls\n")
    early(other)
    box.type("Something on gulls")
    for _ in range(2):  # nothing happened at first
        box.press("Enter")
    held.pop().continue_()
    finished(page)
    assert page.locator(".said p").text_content() == "Something on gulls"
    early(other)
    page.get_by_label("Search the chats").fill("no such chat")
    page.get_by_role("button", name="Settings").click()
    held.pop().continue_()
    expect(page.locator("#settings")).to_be_visible()
    expect(page.locator("#sessions-empty")).to_have_text("No results.")


def test_x44_a_held_question_says_that_it_waits_for_the_owner(
    open_page: OpenPage, stage: Gateway
) -> None:
    page, _ = open_page(stage)
    ask(page, "Was this answered?")
    page.wait_for_url(re.compile(r"/c/"))
    shell(stage, "from core.conversations import runs; runs.hold_open()")
    page.reload()
    expect(page.locator("#log")).to_contain_text("Waiting for the owner")


def test_the_shortcuts_and_the_list_of_them(open_page: OpenPage, gateway: Gateway) -> None:
    page, seen = open_page(gateway)
    ask(page, "Some markdown on otters")
    finished(page)
    page.keyboard.press("ArrowUp")
    box = page.locator("#composer-text")
    expect(box).to_have_value("Some markdown on otters")
    page.get_by_role("button", name="Edit and send again").click()
    expect(page.locator("#toasts")).to_contain_text("Send or clear")
    page.keyboard.press("Control+/")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#shortcuts")).to_be_hidden()
    page.keyboard.press("Control+k")
    expect(page.locator("#session-search")).to_be_focused()
    page.keyboard.press("/")  # is typed
    box.focus()
    for key, code in (("л", "KeyK"), ("ظ", "Slash")):  # of a Russian and an Arabic keyboard
        page.evaluate(
            "(keys) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown',"
            " { ...keys, ctrlKey: true, bubbles: true }))",
            {"key": key, "code": code},
        )
        if code == "KeyK":
            expect(page.locator("#session-search")).to_be_focused()
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Shift+O")
    expect(page.locator("#welcome")).to_be_visible()
    expect(box).to_have_value("")
    assert seen.problems == []


def test_a_message_is_edited_and_sent_again(open_page: OpenPage, gateway: Gateway) -> None:
    page, _ = open_page(gateway, permissions=["clipboard-read", "clipboard-write"])
    ask(page, "Some markdown on badgers")
    finished(page)
    page.get_by_role("button", name="Copy the message").click()
    assert page.evaluate("navigator.clipboard.readText()") == "Some markdown on badgers"
    page.get_by_role("button", name="Edit and send again").click()
    expect(page.locator("#composer-text")).to_have_value("Some markdown on badgers")
    page.keyboard.type(" and moles")
    page.keyboard.press("Enter")
    finished(page, 2)
    expect(page.locator(".bubble .plain").nth(1)).to_have_text("Some markdown on badgers and moles")
    time = page.locator(".said time").first
    before = time.inner_text()
    page.clock.set_fixed_time(datetime.now(UTC) + timedelta(days=1))
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # the next day
    expect(time).not_to_have_text(before)
    expect(time).to_contain_text(before)


def test_a_list_asked_for_before_the_new_title_does_not_bring_the_old_one_back(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "A chat about petrels")
    finished(page)
    more = page.get_by_role("button", name="Rename, download or delete: A chat about petrels")
    expect(more).to_be_visible()
    held = hold_answer(page, "**/chat/sessions")
    page.evaluate("window.dispatchEvent(new Event('online'))")  # connects again, and reads the list
    come(page, held)
    more.click()
    page.get_by_label("Title", exact=True).fill("Seabirds")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("Seabirds")
    for route, answer in held:
        with page.expect_response("**/chat/sessions"):
            route.fulfill(response=answer)
    expect(page.locator(".session-title").first).to_have_text("Seabirds")
    page.locator(".session a").first.click()
    expect(page.locator("#title")).to_have_text("Seabirds")


def test_a_new_chat_gives_its_title_to_no_other_that_was_opened_meanwhile(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "markdown of the murres")
    finished(page)
    expect(page.locator(".sessions a", has_text="markdown of the murres")).to_be_visible()
    page.locator("#new-chat").click()
    held = hold(page, "**/chat/sessions", times=1)
    ask(page, "markdown of the noddies")
    come(page, held)
    page.locator(".sessions a", has_text="markdown of the murres").click()
    finished(page)
    held.pop().continue_()
    expect(page.locator(".session-title").first).to_have_text("markdown of the noddies")
    expect(page.locator("#title")).to_have_text("markdown of the murres")


def test_the_list_of_chats_is_read_again_where_a_request_for_it_is_never_answered(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "A chat about gannets")
    finished(page)
    row = page.locator(".session", has_text="A chat about gannets")
    expect(row).to_be_visible()
    held = hold(page, "**/chat/sessions", times=1)
    page.clock.install()
    page.reload()
    come(page, held)
    page.clock.fast_forward(30_000)
    expect(page.locator(".toast")).to_contain_text("The gateway cannot be reached.")
    page.evaluate("window.dispatchEvent(new Event('online'))")  # connects again
    expect(row).to_be_visible()


# The list of chats is read while an answer comes in one of them; then another comes there.
ELSEWHERE = """async () => {
  const { Sidebar } = await import(document.querySelector('link[href*="/sidebar."]').href);
  let asked = 0;
  window.fetch = async () => {
    asked += 1;
    await null;
    if (asked < 30) list.activity("b", { busy: true });
    const chat = { id: "b", title: "Elsewhere", at: new Date().toISOString(), busy: asked === 1 };
    return Response.json({ sessions: [chat], has_older: false });
  };
  const list = new Sidebar({ failed: () => {} });
  const row = () => document.querySelector('[data-id="b"]');
  await list.refresh();
  const requests = asked;
  for (const busy of [false, true]) list.activity("b", { busy });
  const before = row();
  list.activity("b", { busy: true });
  const isKept = row() === before;
  list.activity("b", { busy: false });
  window.list = new Sidebar({ open: (id) => { window.opened = id; }, failed: () => {} });
  await window.list.refresh(); // as after a reload
  return { isRead: requests < 10, isKept, isUnread: row().textContent.includes("new answer") };
}"""


def test_pieces_of_an_answer_elsewhere_neither_delay_the_list_of_chats_nor_draw_it_anew(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """A press on a chat that is drawn anew meanwhile is lost. Its mark stays over a reload."""
    page, _ = open_page(gateway)
    page.wait_for_load_state("networkidle")  # the page's own list is drawn
    assert page.evaluate(ELSEWHERE) == {"isRead": True, "isKept": True, "isUnread": True}
    page.locator("[data-id=b] a").hover()
    page.mouse.down()
    page.evaluate("list.activity('b', { busy: true })")
    page.mouse.up()
    assert page.evaluate("opened") == "b"
    expect(page.locator("[data-id=b]")).to_contain_text("working")
    assert page.evaluate(ENDED)


# An answer ends while the list of chats is on its way, which was written before.
ENDED = """async () => {
  const answers = [];
  let isRead = false;
  window.fetch = () => new Promise((answered) => answers.push(answered));
  const at = new Date().toISOString();
  const give = async (busy) => {
    while (answers.length === 0 && !isRead) await new Promise((go) => setTimeout(go));
    const sessions = [{ id: "b", title: "Elsewhere", at, busy }];
    answers.shift()?.(Response.json({ sessions, has_older: false }));
  };
  const read = list.refresh().then(() => { isRead = true; });
  const given = give(true);
  list.activity("b", { busy: false });
  await given;
  await give(false);
  await read;
  return !document.querySelector('[data-id="b"]').textContent.includes("working");
}"""


def test_a_chat_under_the_pointer_does_not_look_like_the_open_one(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "markdown of the petrels")
    finished(page)
    page.locator("#new-chat").click()
    ask(page, "markdown of the fulmars")
    finished(page)
    colour = "(it) => getComputedStyle(it).backgroundColor"
    current = page.locator(".session", has_text="markdown of the fulmars")
    other = page.locator(".session", has_text="markdown of the petrels")
    other.hover()
    assert other.evaluate(colour) != current.evaluate(colour)
    person = page.locator(".person")
    before = person.evaluate(colour)
    person.hover()
    assert person.evaluate(colour) != before


def test_a_chat_is_found_by_its_answer_and_downloaded(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "A chat about herons")
    finished(page)
    row = page.locator(".session")
    row.filter(has_text="A chat about herons").locator(".session-more").click()
    page.get_by_label("Title", exact=True).fill("Birds")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("Birds")
    page.locator("#session-search").fill("about herons")
    expect(row.locator(".session-excerpt")).to_contain_text("about herons")
    expect(row).to_have_count(1)
    row.locator(".session-more").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "Birds.md"
    assert "A chat about herons" in download.value.path().read_text(encoding="utf-8")
    page.keyboard.press("Escape")
    page.locator("#session-search").fill("no such words")
    expect(page.locator("#sessions-empty")).to_have_text("No results.")
    page.route("**/chat/sessions?q=*", lambda route: route.abort())
    page.locator("#session-search").fill("words that cannot be looked for")
    problem = page.get_by_role("status").filter(has_text="The gateway cannot be reached.")
    expect(problem).to_be_visible()
    page.locator("#session-search").fill("birds")
    expect(row.filter(has_text="Birds").first).to_be_visible()  # by its title
    expect(problem).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#session-search")).to_have_value("")


def test_a_pasted_picture_goes_with_the_message(open_page: OpenPage, gateway: Gateway) -> None:
    page, seen = open_page(gateway)
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


def test_a_picture_that_is_a_line_is_seen(open_page: OpenPage, gateway: Gateway) -> None:
    page, _ = open_page(gateway)
    line = io.BytesIO()
    Image.new("RGB", (1, 8000), "red").save(line, "PNG")
    picture: FilePayload = {"name": "line.png", "mimeType": "image/png", "buffer": line.getvalue()}
    page.locator("#attach-file").set_input_files(picture)
    expect(page.locator("#attachments img")).to_be_visible()
    ask(page, "A picture")
    finished(page)
    box = page.locator(".bubble img.attached").bounding_box()
    assert box is not None
    assert box["width"] >= 16
    assert box["height"] >= 16


RESULT = """
from channels_app.agent_sessions import results, sessions
from channels_app.asgi.builtin_accounts import builtin_account
from core.models import User
ada = User.objects.get(username="ada")
agent = sessions.open_session(user=ada, account=builtin_account("http"))
results.put_text(session=agent, content="The **disk** is full.")
"""


def test_s3_a_result_of_an_agent_says_so_at_once_and_after_a_reload(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "Some markdown")
    finished(page)
    shell(gateway, RESULT)
    finished(page, 2)
    expect(page.locator("#announcer")).to_have_text("From an agent The disk is full.")
    for _ in range(2):
        result = page.get_by_role("article").last
        expect(result.get_by_role("heading")).to_have_text("An agent sent this")
        expect(result.locator(".from-agent")).to_have_text("From an agent")
        expect(page.locator(".from-agent")).to_have_count(1)
        page.reload()
        finished(page, 2)


def test_a_pasted_text_stays_a_text_and_is_not_cut(open_page: OpenPage, gateway: Gateway) -> None:
    """Copied cells of a spreadsheet come with a picture of them."""
    page, _ = open_page(gateway)
    box = page.get_by_label("Message", exact=True)
    assert box.evaluate(PASTE_TEXT, "1\t2") == "pasted"
    expect(page.locator("#attachments li")).to_have_count(0)
    assert box.evaluate(PASTE_TEXT, "1\t" * 150_000) == "refused"
    expect(page.locator(".toast")).to_have_text("The text is too long: at most 200,000 characters.")


def test_a_message_waits_for_a_picture_that_is_being_read_and_its_transparent_part_is_white(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    page.evaluate(SLOW_READING)
    page.locator("#composer-text").evaluate(PASTE_TRANSPARENT)
    page.get_by_label("Message", exact=True).fill("What is this?")
    expect(page.locator("#attachments li")).to_contain_text("noise.png")
    expect(page.locator("#send")).to_be_disabled()
    page.get_by_role("button", name="Remove noise.png").focus()
    page.evaluate("window.read()")
    expect(page.locator("#send")).to_be_enabled()
    expect(page.get_by_role("button", name="Remove noise.png")).to_be_focused()
    source = page.locator("#attachments img").get_attribute("src") or ""
    assert source.startswith("data:image/jpeg"), "as PNG it is too large"
    assert page.evaluate(TOP_LEFT, source) == [255, 255, 255]
    assert seen.problems == []


def test_a_refused_message_comes_back_with_its_files_and_into_the_chat_it_was_for(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    ask(page, "markdown of the fulmars")
    finished(page)
    refusals: list[Callable[[], None]] = []

    def refuse(socket: WebSocketRoute, data: str | bytes) -> None:
        said = json.loads(data)
        refused = {"type": "error", "status": 503, "error": "Busy."}
        if said["type"] == "message":
            frame = json.dumps({**refused, "client_id": said["client_id"]})
            refusals.append(lambda: socket.send(frame))

    page.route_web_socket(
        re.compile(r"/ws\?"), lambda socket: socket.on_message(lambda data: refuse(socket, data))
    )
    page.reload()
    finished(page)
    box = page.get_by_label("Message", exact=True)
    box.evaluate(PASTE)
    expect(page.locator("#attachments img")).to_have_count(1)
    ask(page, "What is this?")
    expect(page.locator("#attachments img")).to_have_count(0)
    refusals.pop()()
    expect(page.locator(".refused").get_by_role("alert")).to_contain_text("Busy.")
    expect(box).to_have_value("What is this?")
    expect(page.locator("#attachments img")).to_have_count(1)
    page.get_by_role("button", name="Remove sky.png").click()
    ask(page, "And the puffins?")
    page.locator("#new-chat").click()
    expect(page.locator("#welcome")).to_be_visible()
    refusals.pop()()
    expect(page.locator(".toast")).to_contain_text("Busy.")
    expect(box).to_have_value("")
    page.go_back()
    expect(box).to_have_value("And the puffins?")
    assert seen.problems == []


def test_a_message_behind_a_refused_one_of_a_new_chat_is_sent(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """It waited for the chat that the first one would have made."""
    page, _ = open_page(gateway)
    refusals: list[Callable[[], None]] = []

    def through(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def said(data: str | bytes) -> None:
            frame = json.loads(data)
            if frame["type"] != "message" or refusals:
                server.send(data)
                return
            refused = {"type": "error", "status": 503, "error": "Busy."}
            answer = json.dumps({**refused, "client_id": frame["client_id"]})
            refusals.append(lambda: socket.send(answer))

        socket.on_message(said)

    page.route_web_socket(re.compile(r"/ws\?"), through)
    page.reload()
    ask(page, "What is this?")
    come(page, refusals)
    ask(page, "markdown")
    refusals[0]()
    expect(page.locator(".refused .error-block")).to_contain_text("Busy.")
    finished(page)


def test_a_message_that_is_larger_than_a_frame_is_refused_and_holds_up_no_other(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    assert page.evaluate("document.body.dataset.maxFrameBytes") == str(1024 * 1024)
    page.evaluate("document.body.dataset.maxFrameBytes = '20000'")
    long = "漢" * 8_000
    ask(page, long)
    expect(page.locator(".refused .error-block")).to_contain_text("This message is too large.")
    box = page.get_by_label("Message", exact=True)
    expect(box).to_have_value(long)
    box.fill("markdown")
    box.press("Enter")
    finished(page)
    assert len(seen.sockets) == 1
    assert seen.problems == []


def test_a_draft_survives_a_reload_and_another_chat(open_page: OpenPage, gateway: Gateway) -> None:
    page, _ = open_page(gateway)
    ask(page, "Some markdown")
    finished(page)
    page.locator("#composer-text").fill("not sent yet")
    page.reload()
    expect(page.locator("#composer-text")).to_have_value("not sent yet")
    page.locator("#new-chat").click()
    expect(page.locator("#composer-text")).to_have_value("")
    page.go_back()
    expect(page.locator("#composer-text")).to_have_value("not sent yet")


@pytest.mark.parametrize("problem", [FULL, FORBIDDEN], ids=["full", "forbidden"])
def test_a_full_or_forbidden_storage_keeps_no_message_from_being_sent(
    open_page: OpenPage, gateway: Gateway, problem: str
) -> None:
    page, seen = open_page(gateway)
    page.add_init_script(problem)
    page.reload()
    ask(page, "Some markdown")
    finished(page)
    page.locator("#composer-text").fill("not sent yet")
    page.locator("#new-chat").click()
    expect(page.locator("#composer-text")).to_have_value("")
    page.go_back()
    expect(page.locator("#composer-text")).to_have_value("not sent yet")
    assert seen.problems == []


def test_a_failure_is_shown_and_retried(open_page: OpenPage, gateway: Gateway) -> None:
    page, _ = open_page(gateway)
    ask(page, "break it")
    finished(page)
    expect(page.locator(".error-block")).to_have_count(1)
    expect(page.locator(".error-block")).to_contain_text("The model cannot be reached.")
    # Said once: by the announcer, as all answers, and not again with the chat whenever it opens.
    expect(page.locator("#announcer")).to_contain_text("The model cannot be reached.")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator(".prose")).to_contain_text("I was about to")
    page.get_by_role("button", name="Ask again").dblclick()  # as people do who press all so
    finished(page, 2)
    expect(page.locator(".said")).to_have_count(2)


def test_text_that_runs_from_right_to_left_is_shown_so_and_code_is_not(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    box = page.get_by_label("Message", exact=True)
    box.fill("שלום, `code` ועוד.\n\nIn English.\n\n```\nprint(1)\n```")
    assert box.evaluate("(it) => getComputedStyle(it).direction") == "rtl"
    box.press("Enter")
    finished(page)
    expect(page.locator("#title")).to_have_css("direction", "rtl")
    expect(page.locator(".session-title").first).to_have_css("direction", "rtl")
    expect(page.locator(".prose")).to_have_css("direction", "rtl")
    expect(page.locator(".prose .code")).to_have_css("direction", "ltr")
    for spoken in (".prose", "#announcer"):
        expect(page.locator(spoken)).to_have_attribute("lang", "he")
    expect(page.locator(".prose .copy")).to_have_attribute("lang", re.compile("^en"))
    sides = page.locator(".prose > p").evaluate_all(SIDES)
    assert sides == ["right", "left"]
    run = page.locator(".turn").get_attribute("data-run")
    page.evaluate("localStorage.setItem('latchkey.theme', 'dark')")
    for address, words, width in (
        (f"/trace/{run}/view", "dd pre", 1280),
        ("/admin/core/inboundmessage/", "td", 1280),
        ("/admin/core/inboundmessage/", "td", 360),
    ):
        page.set_viewport_size({"width": width, "height": 740})
        page.goto(gateway.base_url + address)
        shown = page.locator(words, has_text="שלום").first
        assert shown.evaluate(RUNS_TO_THE_LEFT), address
        if address.startswith("/trace/"):
            expect(page.locator("html")).to_have_css("color-scheme", "dark")
    page.goto(gateway.base_url + "/")
    ask(page, "Python: שלום עולם\n\n- שלום")
    finished(page)
    expect(page.locator(".prose")).to_have_css("direction", "rtl")


def test_a_phone_has_a_drawer_and_nothing_sticks_out(open_page: OpenPage, gateway: Gateway) -> None:
    size = {"width": 360, "height": 740}
    page, seen = open_page(gateway, viewport=size, is_mobile=True, has_touch=True)
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


def test_dark_and_light_follow_the_system_until_one_chooses(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway, color_scheme="dark")

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


def test_the_bars_of_the_browser_have_the_colour_of_the_theme(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)

    def colours() -> list[str]:
        bars = page.locator("meta[name=theme-color]")
        return [str(each) for each in bars.evaluate_all("(all) => all.map((it) => it.content)")]

    light, dark = colours()
    page.locator("[data-open-settings]").click()
    page.get_by_text("Dark", exact=True).click()
    assert colours() == [dark, dark]
    page.reload()
    assert colours() == [dark, dark]
    page.locator("[data-open-settings]").click()
    page.get_by_text("Auto", exact=True).click()
    assert colours() == [light, dark]


def test_no_field_of_a_phone_is_so_small_that_an_iphone_enlarges_the_page(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """Safari does so below 16 pixels, and leaves the page enlarged."""
    phone = {"viewport": {"width": 375, "height": 740}, "is_mobile": True, "has_touch": True}
    others = "[type=checkbox], [type=radio], [type=file], [type=hidden]"
    fields = f"input:not({others}), select, textarea"
    sizes = f"""() => [...document.querySelectorAll("{fields}")]
      .map((each) => [each.name || each.id, parseFloat(getComputedStyle(each).fontSize)])"""
    pages = ("/", "/reminders", "/reminders/new", "/first-run/model", "/first-run/phone")
    for path in (*pages, "/sign-in", "/admin/core/user/", "/admin/core/user/add/"):
        cookies = {"storage_state": None} if path == "/sign-in" else {}
        page, _ = open_page(gateway, path, **phone, **cookies)
        found = page.evaluate(sizes)
        assert found, path
        assert [each for each in found if each[1] < 16] == [], path


# The HTML and the text on the clipboard, as Chromium gives them to a program.
COPIED = """async () => {
  const [item] = await navigator.clipboard.read({ unsanitized: ["text/html"] });
  const texts = ["text/html", "text/plain"].map(async (type) => (await item.getType(type)).text());
  return Promise.all(texts);
}"""
# Adds a table; returns how far it goes over its place.
WIDE_TABLE = """(it) => {
  const table = document.createElement("table");
  const row = table.insertRow();
  for (let cell = 0; cell < 16; cell++) row.insertCell().textContent = "some words";
  it.append(table);
  return table.offsetWidth - it.offsetWidth;
}"""


def test_a_printed_chat_is_the_whole_conversation_dark_on_white(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway, viewport={"width": 700, "height": 500}, color_scheme="dark")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    ask(page, "Some markdown\n" * 60)
    finished(page)
    page.emulate_media(media="print")
    for selector in ("#sidebar", "#composer", "#picker", ".topbar button", ".turn button"):
        expect(page.locator(f"{selector} >> visible=true")).to_have_count(0)
    expect(page.locator("#title")).to_be_visible()
    expect(page.locator("body")).to_have_css("background-color", "rgb(255, 255, 255)")
    expect(page.locator(".prose h3")).to_have_css("color", "rgb(31, 28, 24)")
    heights = "(it) => [it.scrollHeight, document.body.offsetHeight, innerHeight]"
    shown, sheet, window = page.locator("#log").evaluate(heights)
    assert sheet >= shown > window
    # Paper cannot be scrolled to the side.
    assert page.locator(".prose").evaluate(WIDE_TABLE) <= 0


def test_at_400_percent_one_can_write_beside_files_and_choose_a_chat(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """A window of 1280 by 1024 pixels, as WCAG 1.4.10 has it."""
    page, _ = open_page(gateway, viewport={"width": 320, "height": 256})
    names = [f"a rather long name, number {number}.txt" for number in range(4)]
    files: list[FilePayload] = [
        {"name": name, "mimeType": "text/plain", "buffer": b"words"} for name in names
    ]
    page.locator("#attach-file").set_input_files(files)
    expect(page.locator("#attachments li")).to_have_count(4)
    for selector in ("#composer-text", "#send", "#attach"):
        expect(page.locator(selector)).to_be_in_viewport(ratio=1)
    page.locator("#open-sidebar").click()
    assert page.locator(".chats").evaluate("(it) => it.clientHeight") >= 100


def test_a_contrast_theme_leaves_the_icons_and_the_state_of_a_switch(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """It takes all backgrounds away, and these are some."""
    page, _ = open_page(gateway, forced_colors="active")

    def fill(selector: str) -> str:
        return str(page.locator(selector).evaluate("(it) => getComputedStyle(it).backgroundColor"))

    page.locator("[data-open-settings]").click()
    paper = fill("body")
    for selector in (".icon-panel >> nth=0", ".icon-send", "#settings .icon-close"):
        assert fill(selector) != paper, selector
    assert fill("#show-progress") != fill("#push")


def test_a_dialog_closes_by_a_press_beside_it_and_by_no_other(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "markdown of the auks")
    finished(page)
    page.locator(".session-more").first.click()
    dialog = page.locator("#session-dialog")
    box = dialog.bounding_box()
    title = page.get_by_label("Title", exact=True).bounding_box()
    assert box is not None
    assert title is not None
    page.mouse.click(box["x"] + 5, box["y"] + 5)
    page.mouse.move(title["x"] + title["width"] / 2, title["y"] + title["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 20, title["y"])  # selects the text before
    page.mouse.up()
    expect(dialog).to_be_visible()
    page.mouse.click(box["x"] - 20, box["y"])
    expect(dialog).to_be_hidden()


def test_chats_are_found_renamed_and_deleted(open_page: OpenPage, gateway: Gateway) -> None:
    page, _ = open_page(gateway)
    ask(page, "markdown about giraffes")
    finished(page)
    search = page.locator("#session-search")
    search.fill("giraffe")
    expect(page.locator(".session")).to_have_count(1)
    search.dispatch_event("keydown", {"key": "Escape", "isComposing": True})  # ends a composition
    expect(search).to_have_value("giraffe")
    page.locator(".session-more").click()
    page.get_by_label("Title", exact=True).fill("On zebras")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("On zebras")
    page.locator("#session-search").fill("zebra")
    page.locator(".session-more").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete permanently").click()
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator("#sessions-empty")).to_be_visible()


def test_a_change_that_could_not_be_saved_is_neither_lost_nor_shown_as_saved(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "markdown about okapis")
    finished(page)
    row = page.locator(".session", has_text="okapis")
    page.route("**/chat/sessions/*", lambda route: route.abort(), times=1)
    row.locator(".session-more").click()
    title = page.get_by_label("Title", exact=True)
    title.fill("A long title that nobody types twice")
    title.press("Enter")
    expect(page.locator("dialog .toast")).to_contain_text("The gateway cannot be reached.")
    expect(title).to_have_value("A long title that nobody types twice")
    title.press("Enter")
    expect(title).to_be_hidden()
    expect(page.locator("#title")).to_have_text("A long title that nobody types twice")
    page.route("**/chat/settings", lambda route: route.abort(), times=1)
    page.locator("[data-open-settings]").click()
    page.get_by_label("Language").select_option("de")
    expect(page.get_by_label("Language")).to_have_value("")


def test_the_search_opens_the_chat_that_it_finds_by_keys(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """Enter opens the first chat, arrow down leads to it; a composition that ends opens none."""
    page, _ = open_page(gateway)
    ask(page, "markdown about pangolins")
    finished(page)
    chat = page.url
    page.locator("#new-chat").click()
    expect(page.locator("#welcome")).to_be_visible()
    page.keyboard.press("Control+k")
    search = page.locator("#session-search")
    search.press_sequentially("pangolin")
    expect(page.locator(".session")).to_have_count(1)
    search.dispatch_event("keydown", {"key": "ArrowDown", "isComposing": True})
    expect(search).to_be_focused()  # the key goes through the words that an input method offers
    search.press("ArrowDown")
    expect(page.locator(".session a")).to_be_focused()
    search.focus()
    search.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
    expect(page.locator("#welcome")).to_be_visible()
    search.press("Enter")
    expect(page).to_have_url(chat)
    finished(page)
    expect(page.locator("#composer-text")).to_be_focused()


def test_a_chat_that_goes_on_comes_first_in_the_list(open_page: OpenPage, gateway: Gateway) -> None:
    page, _ = open_page(gateway)
    for name in ("older", "newer"):
        page.locator("#new-chat").click()
        ask(page, f"markdown of the {name} oak")
        finished(page)
    first = page.locator(".session-title").first
    expect(first).to_have_text("markdown of the newer oak")
    page.locator(".sessions a", has_text="older oak").first.click()
    finished(page)
    ask(page, "markdown, please")
    finished(page, 2)
    expect(first).to_have_text("markdown of the older oak")


def test_the_focus_goes_to_the_chat_in_the_place_of_the_one_that_was_deleted(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    for name in ("first", "second", "third"):
        page.locator("#new-chat").click()
        ask(page, f"markdown of the {name} fern")
        finished(page)
    page.locator(".session", has_text="second fern").locator(".session-more").press("Enter")
    # Meanwhile the list changes; with the button that opened the dialog it is drawn anew later.
    other = page.context.new_page()
    other.goto(page.url)
    finished(other)
    ask(other, "markdown again")
    finished(page, 2)
    page.locator("#delete-chat").press("Enter")
    page.get_by_role("button", name="Delete permanently").press("Enter")
    expect(page.locator(".session", has_text="second fern")).to_have_count(0)
    expect(page.locator(".sessions a", has_text="first fern").first).to_be_focused()
    # One chat is a stop of the Tab key, and arrows lead to the others.
    page.keyboard.press("ArrowUp")
    expect(page.locator(".sessions a", has_text="third fern").first).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator(".session", has_text="third fern").locator("button")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Reminders")).to_be_focused()
    # The page of the same chat elsewhere has its new title.
    page.locator(".session", has_text="third fern").locator(".session-more").press("Enter")
    page.get_by_label("Title", exact=True).fill("Bracken")
    page.keyboard.press("Enter")
    expect(other.locator("#title")).to_have_text("Bracken", timeout=10_000)


def test_one_goes_on_writing_after_a_press_on_send_stop_or_remove(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """The button that was pressed is disabled or gone then. The second half of a double click, and
    a key that is held, meet another one in its place, and do not press that.
    """
    page, _ = open_page(gateway)
    box = page.get_by_label("Message", exact=True)
    box.fill("Some markdown")
    page.get_by_role("button", name="Send", exact=True).press("Enter")
    expect(box).to_be_focused()
    finished(page)
    box.fill("Let it hang")
    page.get_by_role("button", name="Send", exact=True).dblclick()
    expect(box).to_be_focused()
    expect(page.locator(".prose").last).to_contain_text("Half of")
    expect(page.locator(".stopped")).to_have_count(0)
    page.get_by_role("button", name="Stop the answer").press("Enter")
    finished(page, 2)
    expect(box).to_be_focused()
    page.locator("#attach-file").set_input_files(
        {"name": "sea.md", "mimeType": "text/markdown", "buffer": b"# Sea"}
    )
    box.fill("Not yet")
    page.get_by_role("button", name="Remove sea.md").focus()
    for _ in range(3):
        page.keyboard.down("Enter")  # held: it goes on in the box
    page.keyboard.up("Enter")
    expect(box).to_be_focused()
    expect(box).to_have_value("Not yet")
    expect(page.locator(".bubble")).to_have_count(2)
    held = hold(page, "**/files?name=land*")
    files: list[FilePayload] = [
        {"name": f"{name}.md", "mimeType": "text/markdown", "buffer": b"#"}
        for name in ("land", "air")
    ]
    page.locator("#attach-file").set_input_files(files)
    remove = page.get_by_role("button", name="Remove air.md")
    remove.focus()
    come(page, held)
    held.pop().abort()
    expect(page.get_by_role("button", name="Try again: land.md")).to_be_visible()
    expect(remove).to_be_focused()


def test_the_keyboard_of_a_phone_stays_when_a_message_is_sent(
    open_page: OpenPage, gateway: Gateway
) -> None:
    phone = {"viewport": {"width": 375, "height": 740}, "is_mobile": True, "has_touch": True}
    page, _ = open_page(gateway, **phone)
    box = page.get_by_label("Message", exact=True)
    box.tap()
    box.fill("Some markdown")
    expect(box).to_have_accessible_description("")  # of keys
    box.press("Enter")  # no other key of a phone begins a new line
    box.press_sequentially("please")
    expect(box).to_have_value("Some markdown\nplease")
    key = page.locator(".send-key")  # of a keyboard beside it, in the list of shortcuts
    assert key.evaluate("(it) => getComputedStyle(it, '::before').content") == '"Ctrl + "'
    page.get_by_role("button", name="Send", exact=True).tap()
    finished(page)
    expect(box).to_be_focused()


def test_under_the_drawer_of_a_phone_nothing_takes_the_focus(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway, viewport={"width": 360, "height": 740})
    page.locator("#open-sidebar").click()
    page.locator("[data-open-settings]").focus()
    page.keyboard.press("Tab")
    expect(page.locator(".main :focus")).to_have_count(0)
    page.locator("#scrim").click(position={"x": 350, "y": 400})
    expect(page.locator("#open-sidebar")).to_be_focused()


def test_a_list_of_chats_that_was_hidden_stays_so_when_the_window_is_turned(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    page.get_by_role("button", name="Hide the list of chats").click()
    for width, is_phone in ((360, True), (1200, False)):
        page.set_viewport_size({"width": width, "height": 740})
        page.wait_for_function(
            "(it) => matchMedia('(max-width: 48rem)').matches === it", arg=is_phone
        )
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(page.locator("#sidebar")).to_have_attribute("inert", "")


def test_rws5_the_page_talks_to_its_own_host_whatever_the_address_says(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway, "/?gatewayUrl=wss://evil.example/ws&ws=wss://evil.example")
    expect(page.locator("#connection")).to_be_hidden()
    person = page.evaluate("document.body.dataset.person")
    assert seen.sockets == [f"{gateway.ws_url}?person={person}"]
    assert seen.hosts == {gateway.base_url.split("//")[1]}


def test_message_text_is_never_executed(open_page: OpenPage, gateway: Gateway) -> None:
    page, seen = open_page(gateway)
    evil = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>[a](javascript:hit=1)'
    ask(page, evil)
    finished(page)
    assert evil in page.locator(".bubble").inner_text()
    assert "onerror" in page.locator(".prose").inner_text()
    assert page.evaluate("window.hit") is None
    assert page.locator(".prose img, .prose script, .prose a").count() == 0
    assert seen.problems == []


def test_a_chat_and_the_list_that_could_not_be_loaded_come_with_the_next_connection(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """A proxy has no gateway behind it for a moment; an empty list would look like lost chats."""
    page, _ = open_page(gateway)
    ask(page, "markdown of the kittiwakes")
    finished(page)
    calls = re.compile(r"/chat/sessions(/[\w-]+/messages)?$")
    page.route(calls, lambda route: route.fulfill(status=502))
    page.reload()
    expect(page.locator("#log")).to_contain_text("HTTP 502")
    expect(page.locator("#sessions-empty")).to_have_text("The list of chats could not be loaded.")
    ask(page, "markdown of the razorbills")
    page.unroute(calls)
    page.evaluate("dispatchEvent(new Event('online'))")
    finished(page, 2)
    expect(page.locator(".said")).to_have_count(2)
    expect(page.locator(".sessions a", has_text="markdown of the kittiwakes")).to_be_visible()


def test_a_chat_that_is_deleted_while_it_could_not_be_loaded_is_left(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """In another browser; it was asked for again and again."""
    page, _ = open_page(gateway)
    ask(page, "markdown of the kingfishers")
    finished(page)
    calls = re.compile(r"/chat/sessions/[\w-]+/messages$")
    page.route(calls, lambda route: route.fulfill(status=502))
    page.reload()
    expect(page.locator("#log")).to_contain_text("HTTP 502")
    other, _ = open_page(gateway)
    row = other.locator(".session", has_text="markdown of the kingfishers")
    row.locator(".session-more").click()
    other.locator("#delete-chat").click()
    other.locator("#delete-confirm button").first.click()
    expect(row).to_have_count(0)
    page.unroute(calls)
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(page.locator(".toast")).to_have_text("This chat no longer exists.")
    expect(page).to_have_url(f"{gateway.base_url}/")


def test_words_for_a_chat_that_was_deleted_elsewhere_are_kept_for_a_new_one(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "markdown of the gulls")
    finished(page)
    deleted = page.evaluate(
        """() => fetch(`/chat/sessions/${location.pathname.slice(3)}`, {
        method: "POST", body: '{"action": "delete"}', headers: {"Content-Type": "application/json",
        "X-CSRFToken": document.querySelector("[name=csrfmiddlewaretoken]").value}})
        .then((answer) => answer.status)"""
    )
    assert deleted == 200
    box = page.get_by_label("Message", exact=True)
    box.fill("Again in markdown")
    # A draft before the refusal comes.
    box.evaluate(
        """(box) => { document.querySelector("#send").click(); box.value = "And more";
        box.dispatchEvent(new Event("input")); }"""
    )
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator("#toasts")).to_contain_text("This chat does not exist.")
    expect(page.locator(".session", has_text="markdown of the gulls")).to_have_count(0)
    expect(box).to_have_value("Again in markdown\nAnd more")
    page.keyboard.press("Control+Enter")
    finished(page)


REFUSED_SOCKETS = """window.WebSocket = class {
  readyState = 3;
  constructor() { setTimeout(() => this.onclose({ code: 1006 })); }
  close() {}
};"""


def test_where_pages_come_and_no_socket_opens_the_chat_names_the_likely_reason(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    page.add_init_script(REFUSED_SOCKETS)
    page.reload()
    expect(page.locator("#connection")).to_contain_text("no WebSocket opens")


def test_a_connection_that_is_back_in_a_moment_is_not_spoken_of(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """As each page begins by connecting, the words would flicker at each."""
    page, _ = open_page(gateway)
    sockets: list[WebSocketRoute] = []

    def refuse(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.close()

    page.route_web_socket(re.compile(r"/ws\?"), refuse)
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    page.reload()
    come(page, sockets)
    expect(page.locator("#connection")).to_be_hidden()
    page.clock.run_for(2000)
    expect(page.locator("#connection")).to_be_visible()


def test_a_message_of_the_page_is_seen_over_an_open_dialog(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway, viewport={"width": 390, "height": 844})
    page.route("**/chat/link-code", lambda route: route.fulfill(status=500))
    page.locator("#open-sidebar").click()
    page.locator("[data-open-settings]").click()
    page.get_by_role("button", name="Create a code").click()
    toast = page.locator("#settings").get_by_role("alert")
    expect(toast).to_contain_text("HTTP 500")
    assert toast.evaluate("""(node) => {
      const { x, y, width, height } = node.getBoundingClientRect();
      return document.elementFromPoint(x + width / 2, y + height / 2) === node;
    }""")
    page.keyboard.press("Escape")
    expect(page.locator("body > #toasts")).to_contain_text("HTTP 500")


AT_END = """() => {
  const { scrollHeight, scrollTop, clientHeight } = document.querySelector("#scroll");
  return scrollHeight > clientHeight && scrollHeight - scrollTop - clientHeight < 2;
}"""


def test_the_newest_message_stays_in_view_when_a_keyboard_comes(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway, viewport={"width": 390, "height": 600})
    for count in (1, 2):
        ask(page, "markdown, please")
        finished(page, count)
    page.wait_for_function(AT_END)
    page.set_viewport_size({"width": 390, "height": 320})
    page.wait_for_function(AT_END)


def test_a_heading_that_is_scrolled_to_moves_the_conversation_and_not_the_page(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """A heading that only readers of screens hear, or a word that the browser finds: the page
    itself cannot be scrolled back."""
    page, _ = open_page(gateway, viewport={"width": 700, "height": 500})
    ask(page, "Some markdown\n" * 60)
    finished(page)
    for heading in page.locator(".turn h2").all():
        assert heading.evaluate(
            "(it) => { it.scrollIntoView(); return it.getBoundingClientRect().top }"
        ) == pytest.approx(250, abs=250)
        expect(page.locator(".topbar")).to_be_in_viewport(ratio=1)
    expect(page.locator("#composer")).to_be_in_viewport(ratio=1)


def test_the_button_to_the_end_lies_over_the_conversation_and_not_over_a_long_text(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway, viewport={"width": 390, "height": 600})
    for count in (1, 2, 3):
        ask(page, "markdown, please")
        finished(page, count)
    page.get_by_label("Message", exact=True).fill("A line\n" * 12)
    page.locator("#scroll").evaluate("(node) => { node.scrollTop = 0; }")
    button, box = page.locator("#to-end"), page.locator("#composer")
    expect(button).to_be_visible()
    places = [each.bounding_box() for each in (button, box)]
    assert places[0] is not None
    assert places[1] is not None
    assert places[0]["y"] + places[0]["height"] <= places[1]["y"]
    button.click()
    page.wait_for_function(AT_END)


def test_the_button_to_the_end_goes_there_at_once_where_no_motion_is_wanted(
    open_page: OpenPage, gateway: Gateway
) -> None:
    size = {"width": 390, "height": 400}
    page, _ = open_page(gateway, viewport=size, reduced_motion="reduce")
    for count in (1, 2, 3):
        ask(page, "markdown, please")
        finished(page, count)
    page.locator("#scroll").evaluate("(node) => { node.scrollTop = 0; }")
    expect(page.locator("#to-end")).to_be_visible()
    page.locator("#to-end").evaluate("(button) => button.click()")
    assert page.evaluate(AT_END)


def test_a_chat_that_is_open_already_is_one_step_of_the_back_button(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, _ = open_page(gateway)
    ask(page, "markdown of the dunlins")
    finished(page)
    steps = page.evaluate("history.length")
    for _ in range(3):
        page.locator(".sessions a", has_text="markdown of the dunlins").click()
        finished(page)
    assert page.evaluate("history.length") == steps


def test_files_attached_in_one_chat_do_not_go_with_the_message_of_another(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    ask(page, "markdown of the knots")
    finished(page)
    page.get_by_label("Message", exact=True).evaluate(PASTE)
    pictures = page.locator("#attachments img")
    expect(pictures).to_have_count(1)
    page.locator("#new-chat").click()
    expect(pictures).to_have_count(0)
    ask(page, "markdown, please")
    finished(page)
    expect(page.locator(".said img")).to_have_count(0)
    page.locator(".sessions a", has_text="markdown of the knots").click()
    expect(pictures).to_have_count(1)
    page.get_by_role("button", name="Remove sky.png").click()
    expect(pictures).to_have_count(0)
    assert seen.problems == []


def test_attached_files_survive_a_reload_and_are_gone_once_sent(
    open_page: OpenPage, gateway: Gateway
) -> None:
    page, seen = open_page(gateway)
    page.get_by_label("Message", exact=True).evaluate(PASTE)
    expect(page.locator("#attachments img")).to_have_count(1)
    page.locator("#attach-file").set_input_files(
        {"name": "sea.md", "mimeType": "text/markdown", "buffer": b"# Sea"}
    )
    expect(page.locator("#send")).to_be_enabled()
    page.reload()
    expect(page.locator("#attachments li")).to_have_count(2)
    ask(page, "markdown of both")
    finished(page)
    expect(page.locator(".said img")).to_have_count(1)
    expect(page.locator(".said p.attached")).to_have_text("sea.md")
    page.reload()
    finished(page)
    expect(page.locator("#attachments li")).to_have_count(0)
    assert seen.problems == []


# Drop a link of another page on the conversation.
DROP_LINK = r"""() => {
  const data = new DataTransfer();
  data.setData("text/uri-list", "# a page\r\nhttps://example.com/sky");
  const given = { dataTransfer: data, bubbles: true, cancelable: true };
  const scroll = document.querySelector("#scroll");
  return ["dragover", "drop"].map((name) => scroll.dispatchEvent(new DragEvent(name, given)));
}"""


def test_a_link_that_is_dropped_beside_the_box_is_written_into_it(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """The browser would leave the chat for it."""
    page, _ = open_page(gateway)
    assert page.evaluate(DROP_LINK) == [False, False]
    expect(page.get_by_label("Message", exact=True)).to_have_value("https://example.com/sky")


def test_signing_out_asks_once_about_a_file_and_ends_the_other_tabs(
    browser: Browser, gateway: Gateway
) -> None:
    context = browser.new_context()
    first, second = context.new_page(), context.new_page()
    sign_in(first, link(gateway), "Ada Lovelace")
    expect(first.locator("#greeting")).to_be_visible()
    second.goto(gateway.base_url)
    second.route("**/files?*", lambda route: route.fulfill(status=503, json={}))
    second.locator("#attach-file").set_input_files(
        {"name": "a.txt", "mimeType": "text/plain", "buffer": b"words"}
    )
    expect(second.get_by_role("button", name="Try again")).to_be_visible()
    second.evaluate("localStorage.setItem('latchkey.push', 'kept')")
    asked: list[str] = []

    def answer(dialog: Dialog) -> None:
        asked.append(dialog.type)
        (dialog.accept if len(asked) > 1 else dialog.dismiss)()

    second.on("dialog", answer)
    second.locator("[data-open-settings]").click()
    second.evaluate("document.querySelector('#sign-out').requestSubmit()")
    come(second, asked)
    assert second.evaluate("localStorage.getItem('latchkey.push')") == "kept"  # they stayed
    second.get_by_role("button", name="Sign out").click()
    expect(second).to_have_url(re.compile("/sign-in"))
    expect(first).to_have_url(re.compile("/sign-in"))
    assert second.evaluate("localStorage.getItem('latchkey.push')") is None
    assert asked == ["beforeunload"] * 2  # once a time
    sign_in(second, link(gateway), "Ada Lovelace")
    second.evaluate("localStorage.setItem('latchkey.push', 'kept')")
    second.locator("[data-open-settings]").click()
    second.get_by_role("button", name="Sign out").focus()
    slow = {"offline": False, "latency": 1000, "downloadThroughput": -1, "uploadThroughput": -1}
    context.new_cdp_session(second).send("Network.emulateNetworkConditions", slow)
    for _ in range(3):
        second.keyboard.down("Enter")  # held for long, while the gateway takes its time
    second.mouse.click(5, 5)
    expect(second).to_have_url(re.compile("/sign-in"))
    assert second.evaluate("localStorage.getItem('latchkey.push')") is None
    context.close()


def test_a_message_in_one_window_is_shown_in_the_other(
    open_page: OpenPage, gateway: Gateway
) -> None:
    here, _ = open_page(gateway)
    ask(here, "Some markdown")
    finished(here)
    there, _ = open_page(gateway, here.evaluate("location.pathname"))
    finished(there)
    ask(here, "Again in markdown")
    finished(here, 2)
    finished(there, 2)
    expect(there.locator(".said").nth(1)).to_contain_text("Again in markdown")


def test_a6_the_owner_approves_from_a_card(open_page: OpenPage, gateway: Gateway) -> None:
    shell(
        gateway,
        "from django.utils import timezone\nfrom allowlist import unknown_requests\n"
        "from core.models import ChannelAccount\n"
        "account = ChannelAccount.objects.create(channel='bridge', name='b')\n"
        "denied = unknown_requests.DeniedMessage(account, 'im', '4711', "
        "sender_name='<b>Eve</b>', text='Hello?')\n"
        "unknown_requests.record(denied, now=timezone.now())",
    )
    page, _ = open_page(gateway)
    card = page.locator(".notice")
    expect(card).to_contain_text("user_id=4711")
    expect(card.locator(".sender-quote")).to_have_text("They say: “<b>Eve</b>: Hello?”")
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".notice")).to_contain_text("Approved by Ada Lovelace")
    expect(page.locator(".notice").get_by_role("button", name="Approve")).to_have_count(0)
    page.get_by_role("button", name="Dismiss the notice").click()
    expect(page.locator(".notice")).to_have_count(0)


def test_a6_a_card_whose_decision_was_refused_can_be_decided_otherwise(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """[A6] As where the id of a sender is no phone number, so that only a no is left."""
    card = {"type": "notice", "request": "r" * 22, "text": "Unknown request from sms."}
    refused = {"type": "error", "status": 422, "error": "No phone number.", "field": "request"}

    def talk(socket: WebSocketRoute) -> None:
        socket.on_message(
            lambda data: socket.send(json.dumps(refused)) if "verdict" in data else None
        )
        socket.send(json.dumps(card))

    page, _ = open_page(gateway)
    page.route_web_socket(re.compile(r"/ws\?"), talk)
    page.reload()
    page.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".toast")).to_have_text("No phone number.")
    expect(page.get_by_role("button", name="Block")).to_be_enabled()


def test_a6_a_dismissed_card_does_not_come_back_with_the_next_connection(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """[A6] Unless it says something new. One that is open stays as it is, and can be decided where
    the connection was lost before the answer; the page asks what became of it."""
    cards = [{"type": "notice", "request": "r" * 22, "text": "Unknown request.", "quote": "Hi"}]
    page, _ = open_page(gateway)

    told: list[list[str]] = []

    def show(socket: WebSocketRoute) -> None:
        def hear(data: str | bytes) -> None:
            if "cards" in (frame := json.loads(data)):
                told.append(frame["cards"])
                older = {"type": "error", "status": 400, "field": "type", "error": "Unknown."}
                socket.send(json.dumps(older))

        socket.on_message(hear)
        for each in cards:
            socket.send(json.dumps(each))

    page.route_web_socket(re.compile(r"/ws\?"), show)
    page.reload()
    approve = page.get_by_role("button", name="Approve", exact=True)
    approve.press("Enter")
    expect(approve).to_be_disabled()
    page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(approve).to_be_enabled()
    approve.focus()
    cards.append({**cards[0], "request": "s" * 22})
    page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(page.locator(".notice")).to_have_count(2)
    expect(approve).to_be_focused()
    expect(page.locator(".notice:visible")).to_have_attribute("data-request", "r" * 22)
    page.get_by_role("button", name="Dismiss the notice").click()
    cards.append({**cards[0], "request": "t" * 22})
    page.evaluate("window.dispatchEvent(new Event('online'))")  # connects again
    expect(page.locator(".notice")).to_have_count(2)
    while len(told) < 3:
        page.evaluate("1")  # lets frames come
    assert told == [["r" * 22], ["r" * 22], ["s" * 22]]
    assert page.locator(".toast").count() == 0
    cards[0]["quote"] = "It is me, Eve"
    page.evaluate("window.dispatchEvent(new Event('online'))")
    expect(page.locator(".notice")).to_have_count(3)


def test_the_focus_stays_with_the_cards_until_the_last_is_dismissed(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """[A6] By keys alone: decided, dismissed, and back in the message box. A double click on the
    button of one dismisses no other.
    """
    cards = [
        {"type": "notice", "request": name * 22, "text": f"Unknown request from {name}."}
        for name in "abc"
    ]

    def decide(socket: WebSocketRoute, given: str) -> None:
        request = json.loads(given).get("request")
        if request:
            card = {"type": "notice", "request": request, "text": "Approved.", "decided": True}
            socket.send(json.dumps(card))

    def talk(socket: WebSocketRoute) -> None:
        socket.on_message(lambda data: decide(socket, str(data)))
        for each in cards:
            socket.send(json.dumps(each))

    page, _ = open_page(gateway)
    page.route_web_socket(re.compile(r"/ws\?"), talk)
    page.reload()
    shown = page.locator(".notice:visible")
    expect(shown).to_contain_text("Unknown request from c.")
    expect(page.get_by_role("button", name="2 more")).to_be_visible()
    shown.get_by_role("button", name="Dismiss the notice").dblclick()
    expect(shown).to_contain_text("Unknown request from b.")
    shown.get_by_role("button", name="Approve", exact=True).press("Enter")
    expect(shown).to_contain_text("Approved.")
    expect(shown.get_by_role("button", name="Dismiss the notice")).to_be_focused()
    page.keyboard.press("Enter")
    expect(shown).to_contain_text("Unknown request from a.")
    expect(shown.get_by_role("button", name="Dismiss the notice")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()


def test_a_sign_in_link_on_a_foreign_page_asks_before_switching_users(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """The owner's browser opens a sign-in link of another user."""
    shell(
        gateway,
        "from core.models import User; User.objects.create_user('bob', display_name='Bob B')",
    )
    page, seen = open_page(gateway)
    expect(page.locator("#greeting")).to_contain_text("Ada")
    address = link(gateway, "bob")
    page.goto(address)
    expect(page.get_by_role("alert")).to_contain_text("you are signed in as Ada Lovelace")
    expect(page.get_by_role("button")).to_have_text("Sign in as Bob B")
    photograph(page, "sign-in-link")
    page.goto(gateway.base_url)
    expect(page.locator("#greeting")).to_contain_text("Ada")
    assert seen.problems == []


KNOCKS = """
from django.utils import timezone
from channels_app.intake.inbound import receive_sender
from core.conversations.inbox import Draft
from core.models import ChannelAccount
account, _ = ChannelAccount.objects.get_or_create(channel='bridge', name='{name}')
for number in range(3):
    text = 'Could you please let me in? I have a question about the invoice of last week. ' * 3
    draft = Draft(account=account, sender=f'stranger-{{number}}@example.org', sender_name='Eve',
                  chat='x', text=text)
    receive_sender(draft=draft, now=timezone.now())
"""
SHAPES = {"desktop": (1280, 800), "phone": (390, 844), "phone on its side": (844, 390)}


@pytest.mark.parametrize("shape", SHAPES)
def test_a5_cards_of_unknown_requests_leave_the_last_answer_and_the_composer_in_view(
    open_page: OpenPage, gateway: Gateway, shape: str
) -> None:
    """[A5] Three at once, in the middle of a conversation: one card, the others behind a button."""
    width, height = SHAPES[shape]
    shell(gateway, "from allowlist.models import UnknownRequest as U; U.objects.all().delete()")
    page, seen = open_page(gateway, viewport={"width": width, "height": height})
    for number in range(1, 4):
        ask(page, f"Some markdown, time {number}")
        finished(page, number)
    shell(gateway, KNOCKS.format(name=shape))
    expect(page.locator(".notice")).to_have_count(3)
    expect(page.locator(".notice:visible")).to_have_count(1)
    expect(page.locator(".notice:visible")).to_contain_text("stranger-2@")
    expect(page.locator(".answer").last).to_be_in_viewport()
    expect(page.get_by_label("Message", exact=True)).to_be_in_viewport(ratio=1)
    photograph(page, f"notices-{shape}")
    assert in_view(page) >= 0.2, "the conversation has at least a fifth of the window"
    more = page.get_by_role("button", name="2 more")
    more.scroll_into_view_if_needed()
    more.click()
    expect(page.locator(".notice:visible")).to_have_count(3)
    assert in_view(page) >= 0.2
    photograph(page, f"notices-{shape}-open")
    page.get_by_role("button", name="Show one").click()
    expect(page.locator(".notice:visible")).to_have_count(1)
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(page.locator(".notice:visible")).to_contain_text("Denied by Ada Lovelace")
    page.get_by_role("button", name="Dismiss the notice").first.click()
    expect(page.locator(".notice:visible")).to_contain_text("stranger-1@")
    expect(page.get_by_role("button", name="1 more")).to_be_visible()
    assert seen.problems == []


def in_view(page: Page) -> float:
    """Return the part of the window that shows the conversation."""
    return float(
        page.evaluate("document.querySelector('#scroll').clientHeight / window.innerHeight")
    )


def test_a_table_without_headings_begins_with_its_first_row(
    open_page: OpenPage, gateway: Gateway
) -> None:
    """Markdown requires a head; an empty one was a grey bar."""
    page, seen = open_page(gateway)
    ask(page, "| | |\n|---|---|\n| coast | rain |")  # the model repeats it
    finished(page)
    expect(page.locator(".prose td").first).to_be_visible()
    expect(page.locator(".prose thead")).to_be_hidden()
    ask(page, "| place | |\n|---|---|\n| coast | rain |")
    finished(page, 2)
    expect(page.locator(".prose thead").last).to_be_visible()
    assert seen.problems == []

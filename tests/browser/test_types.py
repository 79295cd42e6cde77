"""Every message type in a real browser, played by an actor on a stage [D3] [M1] [D2]."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Play, Seen, ask, finished
from tests.gateways import Gateway

pytestmark = pytest.mark.slow
# The focus is on a call of a tool that ends, then within it, while another one ends.
TOOL_ENDS = """async () => {
  const module = (name) => import(document.querySelector(`link[href*="/${name}."]`).href);
  const [{ Run }, { Turn }] = await Promise.all([module("conversation"), module("turn")]);
  const run = new Run("run", "session");
  const props = { id: "1", name: "web_fetch", arguments: "{}" };
  run.take({ seq: 1, after: 0, type: "tool_call", message_id: "t", props });
  const turn = new Turn({ said: null, on: { showProgress: () => true } });
  document.querySelector("#log").append(turn.node);
  turn.bind(run);
  turn.node.querySelector("summary").focus();
  run.tools.set("1", "done");
  turn.showTools();
  const said = [document.activeElement.textContent];
  document.activeElement.click();
  turn.node.querySelector("pre").focus();
  turn.showTools();
  return [...said, document.activeElement.textContent];
}"""
OpenPage = Callable[..., tuple[Page, Seen]]


def test_m1_every_message_type_has_its_place(
    open_page: OpenPage, stage: Gateway, play: Play, tmp_path: Path
) -> None:
    go = [tmp_path / name for name in ("one", "two")]
    steps = json.loads((Path(__file__).parent / "every_type.json").read_text(encoding="utf-8"))
    play([{"wait_for": str(go[step["gate"]])} if "gate" in step else step for step in steps])
    page, seen = open_page(stage)
    ask(page, "Everything")
    expect(page.locator(".status-words")).to_have_text("Searching…")
    go[0].touch()
    expect(page.locator(".status-words")).to_have_text("Reading the document…")
    expect(page.locator("progress")).to_have_attribute("value", "62")
    expect(page.locator(".tool-call summary")).to_contain_text("Using a document")
    go[1].touch()
    finished(page)
    expect(page.locator("#settings")).to_be_visible()  # the action open_panel
    page.keyboard.press("Escape")
    everything_is_there(page)
    page.reload()
    finished(page)
    expect(page.locator(".thumbs [aria-pressed=true]")).to_have_count(1)
    everything_is_there(page)
    expect(page.locator("#settings")).to_be_hidden()  # past actions are not repeated
    assert seen.problems == []
    assert seen.hosts == {stage.base_url.split("//")[1]}
    assert page.url.startswith(stage.base_url)


def everything_is_there(page: Page) -> None:
    """Check every message of the stage's answer."""
    expect(page.locator(".status-words")).to_have_count(0)
    expect(page.locator(".thinking")).not_to_have_attribute("open", "")
    expect(page.locator(".tool-call summary")).to_contain_text("Used a document")
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
    assert page.evaluate(TOOL_ENDS) == ["Used a web page", "{}"]


def test_without_the_switch_a_long_task_says_only_that_it_works(
    open_page: OpenPage, stage: Gateway, play: Play, tmp_path: Path
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
    page, _ = open_page(stage)
    page.locator("[data-open-settings]").click()
    with page.expect_response("**/chat/settings"):
        page.get_by_role("switch", name="Show progress").click()
    page.keyboard.press("Escape")
    ask(page, "Something long")
    expect(page.locator(".status-words")).to_have_text("Working…")
    page.locator("[data-open-settings]").click()
    with page.expect_response("**/chat/settings"):
        page.get_by_role("switch", name="Show progress").click()
    page.keyboard.press("Escape")
    expect(page.locator(".status-words")).to_have_text("Secret step")
    go.touch()
    finished(page)


def test_m1_an_action_is_carried_out_once_though_the_open_run_is_read_again(
    open_page: OpenPage, stage: Gateway, play: Play, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    panel = {"name": "open_panel", "payload": {"panel_id": "settings"}}
    play(
        [
            {"type": "action", "message_id": "a", "props": {"name": "refresh_view"}},
            {"type": "action", "message_id": "b", "props": panel},
            {"wait_for": str(go)},
            {"type": "text", "message_id": "t", "props": {"content": "Done."}},
        ]
    )
    page, seen = open_page(stage)
    loads: list[str] = []
    page.on("request", lambda request: loads.append(request.url))
    ask(page, "Refresh it")
    expect(page.locator("#settings")).to_be_visible()
    page.reload()
    go.touch()
    finished(page)
    expect(page.locator("#settings")).to_be_hidden()
    assert len([each for each in loads if each.endswith("/messages")]) < 5
    assert seen.problems == []


SELECT = """(code) => {
  const range = document.createRange();
  range.selectNodeContents(code);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}"""


def test_code_that_is_selected_while_it_comes_stays_so(
    open_page: OpenPage, stage: Gateway, play: Play, tmp_path: Path
) -> None:
    def part(text: str) -> dict[str, object]:
        """Return the event of the next words."""
        props = {"content": text}
        return {"type": "text", "message_id": "t", "delta": True, "props": props}

    go = [tmp_path / name for name in ("one", "two")]
    parts = [part("Look:\n\n```python\nfirst = 1"), part("\nsecond = 2"), part("\n```\n\nDone.")]
    play([parts[0], {"wait_for": str(go[0])}, parts[1], {"wait_for": str(go[1])}, parts[2]])
    page, seen = open_page(stage)
    ask(page, "Show me some code")
    code = page.locator(".prose code")
    expect(code).to_have_text("first = 1")
    code.evaluate(SELECT)
    go[0].touch()
    expect(code).to_contain_text("second = 2")
    assert page.evaluate("getSelection().toString()").startswith("first = 1")
    go[1].touch()
    finished(page)
    expect(page.locator(".prose")).to_contain_text("Done.")
    assert page.evaluate("getSelection().toString()").startswith("first = 1")
    copy = page.get_by_role("button", name="Copy code")
    expect(copy).to_have_count(0)
    page.evaluate("getSelection().removeAllRanges()")
    expect(copy).to_be_visible()
    assert seen.problems == []


def test_a_part_unfolded_at_the_end_is_shown_from_its_beginning(
    open_page: OpenPage, stage: Gateway, play: Play
) -> None:
    thoughts = {"type": "thinking", "message_id": "h", "props": {"content": "A thought.\n" * 200}}
    play([thoughts, {"type": "text", "message_id": "t", "props": {"content": "The answer."}}])
    page, _ = open_page(stage, viewport={"width": 1000, "height": 700})
    ask(page, "Think")
    finished(page)
    summary = page.locator(".thinking summary")
    before = summary.bounding_box()
    summary.click()
    expect(page.locator(".thinking-text")).to_be_visible()
    page.evaluate("() => new Promise((then) => requestAnimationFrame(() => setTimeout(then)))")
    assert summary.bounding_box() == before
    expect(page.locator("#to-end")).to_be_visible()


PASTE_FILE = """(box) => {
  const data = new DataTransfer();
  data.items.add(new File(["a"], `${"scan".repeat(40)}.txt`, { type: "text/plain" }));
  box.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, cancelable: true }));
}"""


FITS = """() => {
  const { scrollWidth, clientWidth } = document.querySelector("#scroll");
  return scrollWidth <= clientWidth;
}"""


def test_names_without_a_place_to_break_stay_within_a_phone(
    open_page: OpenPage, stage: Gateway, play: Play, tmp_path: Path
) -> None:
    go, word = tmp_path / "go", "gesellschaft" * 10
    source = {"id": "s", "type": "kb", "title": word, "content": word}
    play(
        [
            {"type": "event", "props": {"event": "progress", "message": word, "data": {}}},
            {"wait_for": str(go)},
            {"type": "tool_call", "message_id": "c", "props": {"id": "1", "name": word[:64]}},
            {
                "type": "retrieval",
                "message_id": "r",
                "props": {"query": word, "sources": [source], "provider": word},
            },
            {"type": "error", "message_id": "e", "props": {"message": word}},
            {"type": "chart" + "s" * 50, "message_id": "x", "props": {}},
            {"type": "text", "message_id": "t", "props": {"content": "Done."}},
        ]
    )
    page, _ = open_page(stage, viewport={"width": 320, "height": 640})
    page.get_by_label("Message", exact=True).evaluate(PASTE_FILE)
    expect(page.locator("#attachments li")).to_have_count(1)
    expect(page.locator("#send")).to_be_enabled()
    ask(page, "Read this")
    expect(page.locator(".status-words")).to_contain_text("gesellschaft")
    assert page.evaluate(FITS)
    go.touch()
    finished(page)
    for fold in page.locator(".parts summary").all():
        fold.click()
    assert page.evaluate(FITS)

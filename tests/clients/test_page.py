"""A page with assistant-ui in Chromium that talks to ``/ui/chat`` of a running gateway."""

import shutil
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.channels_app.client_api.asking_tools import asking, effects, keys
from tests.chromium import browser
from tests.clients.conftest import HERE
from tests.gateways import Gateway
from tests.npm import Packages

__all__ = ["asking", "browser", "keys"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("packages", ["page"], indirect=True, ids=["assistant-ui"]),
]
HTML = """<!doctype html><meta charset="utf-8"><title>Chat</title><div id="page"></div>
<script>window.key = "{key}"</script><script src="/a-page/page.js"></script>"""


@pytest.fixture
def page(
    browser: Browser, packages: Packages, asking: Gateway, keys: dict[str, str]
) -> Iterator[Page]:
    """Yield the page, at the gateway's own address: browsers send keys nowhere else unasked."""
    source = shutil.copy(HERE / "page" / "page.jsx", packages.folder / "page.jsx")
    program = packages.folder / "node_modules" / "esbuild" / "bin" / "esbuild"
    command = [packages.node, str(program), str(source), "--bundle", "--jsx=automatic"]
    defined = '--define:process.env.NODE_ENV="production"'
    script = subprocess.run([*command, defined], check=True, capture_output=True, timeout=120)

    def serve(route: Route) -> None:
        if route.request.url.endswith(".js"):
            route.fulfill(body=script.stdout, content_type="text/javascript")
        else:
            html = HTML.replace("{key}", keys["member"])
            route.fulfill(body=html, content_type="text/html")

    made = browser.new_page()
    made.set_default_timeout(60_000)
    made.route(f"{asking.base_url}/a-page/**", serve)
    made.goto(f"{asking.base_url}/a-page/")
    yield made
    made.close()


def says(page: Page, text: str) -> None:
    """Send a message."""
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def test_w53_assistant_ui_shows_answers_and_asks_the_person(page: Page, asking: Gateway) -> None:
    """An answer; a call after the person's yes, none after a no; the message goes on."""
    says(page, "hello there")
    last = page.locator(".message").last
    expect(last).to_contain_text("I heard: hello there", timeout=60_000)
    before = effects(asking)
    says(page, "diary")
    page.get_by_role("button", name="Allow").click()
    expect(last).to_contain_text("The diary: done.", timeout=60_000)
    assert effects(asking) == [*before, "read_diary Ada"]
    says(page, "diary")
    page.get_by_role("button", name="Deny").click()
    expect(last).to_contain_text("did not allow", timeout=60_000)
    assert effects(asking) == [*before, "read_diary Ada"]

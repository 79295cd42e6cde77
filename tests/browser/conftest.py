"""A real Chromium in front of a real gateway.

No asyncio tests may stand here: Playwright's sync API has its own loop.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    APIResponse,
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Route,
    expect,
)

from gateway_project.home import BASE_DIR
from tests import templates
from tests.browser.slow_network import slow_network
from tests.chromium import browser
from tests.conftest import DatabaseMaker
from tests.gateways import Gateway

__all__ = ["browser", "slow_network"]
expect.set_options(timeout=100_000)

SLOW = (
    "This answer comes word by word so that one can reload the page in the middle of it.\n\n"
    "It has a **second paragraph** and its last word is finished."
)
PLAN = {"title": "The plan", "content": "## Steps\n\n1. Sow\n2. Wait\n3. Reap"}
# Whether a form is sent by a press, and by a second one while the gateway takes its time.
SENT_TWICE = """(form) => [1, 2].map(() =>
  form.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true })))"""
FORMULAS = (
    "The roots of $ax^2 + bx + c = 0$ are\n\n"
    r"\[ x_{1,2} = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a} \]"
    "\n\nand with \\(n\\) of them, at 5 $ each,\n\n"
    r"$$\sum_{i=1}^{n} x_i = \int_0^1 f(t)\,dt + \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix} +"
    r" \left( \alpha + \beta + \gamma + \delta + \varepsilon + \zeta + \eta + \theta \right)^2$$"
)
SCRIPT = [
    {"match": "", "after_tool": True, "steps": [{"text": "Here is your plan."}]},
    {"match": "^save", "steps": [{"tool": "save_result_page", "arguments": PLAN}]},
    {"match": "Summarize the document", "steps": [{"text": "The sea is **salty** (section Sea)."}]},
    {"match": "slowly", "steps": [{"text": SLOW, "tokens_per_second": 12}]},
    {"match": "hang", "steps": [{"text": "Half of "}, {"hang": True}]},
    {
        "match": "break",
        "steps": [
            {"text": "I was about to"},
            {"error": "unreachable", "message": "The model cannot be reached."},
        ],
    },
    {"match": "formula", "steps": [{"text": FORMULAS}]},
    {
        "match": "markdown",
        "steps": [{"text": "## Title\n\n- **one**\n- two\n\n```python\nprint(1)\n```\n"}],
    },
]


@dataclass
class Seen:
    """Observations of a page: problems, hosts asked, sockets opened."""

    problems: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)
    sockets: list[str] = field(default_factory=list)


def started(
    folder: Path,
    database_url: str,
    roles: tuple[str, ...],
    extra: Mapping[str, str] | None = None,
) -> Gateway:
    """Start a gateway with its static files, its owner Ada and a script."""
    (folder / "home").mkdir(parents=True)
    script = folder / "script.json"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    gateway = Gateway(
        folder=folder,
        database_url=database_url,
        extra={
            "LLM_SCRIPT": str(script),
            "LLM_IS_EMBEDDED": "1",
            "RUN_LEASE_SECONDS": "4",
            **(extra or {}),
        },
        roles=roles,
    )
    templates.collect_static(gateway)
    shell(
        gateway,
        "from core.models import User; User.objects.create_user('ada', password='correct horse', "
        "display_name='Ada Lovelace', is_owner=True, is_staff=True, is_superuser=True)",
    )
    gateway.start()
    return gateway


def shell(gateway: Gateway, code: str) -> str:
    """Run Python in the gateway's own environment; return its output."""
    return gateway.manage("shell", "--verbosity", "0", "-c", code).strip()


@pytest.fixture(scope="module")
def gateway(
    new_database: DatabaseMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yield a gateway with the scripted model."""
    running = started(tmp_path_factory.mktemp("browser"), new_database(), ("web", "runs"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def stage(
    new_database: DatabaseMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yield a gateway without a worker: an actor plays the answers."""
    running = started(tmp_path_factory.mktemp("stage"), new_database(), ("web",))
    yield running
    running.stop()


Play = Callable[[list[dict[str, Any]]], "subprocess.Popen[bytes]"]


@pytest.fixture
def play(stage: Gateway, tmp_path: Path) -> Iterator[Play]:
    """Return ``play(steps)``: it answers the next message on the stage with these steps."""
    actors: list[subprocess.Popen[bytes]] = []

    def begin(steps: list[dict[str, Any]]) -> "subprocess.Popen[bytes]":
        file = tmp_path / f"{len(actors)}.json"
        file.write_text(json.dumps(steps), encoding="utf-8")
        command = [sys.executable, "-m", "tests.channels_app.webchat.actor", str(file)]
        env = {**stage.env, "DJANGO_SETTINGS_MODULE": "gateway_project.settings"}
        actors.append(subprocess.Popen(command, cwd=BASE_DIR, env=env))
        return actors[-1]

    yield begin
    for actor in actors:
        actor.kill()
        actor.wait()


def link(gateway: Gateway, user: str = "ada") -> str:
    """Create a one-time sign-in address."""
    return gateway.manage("sign_in_link", "--user", user).split()[-1]


def sign_in(page: Page, address: str, name: str) -> None:
    """Open a sign-in link and press its button."""
    page.goto(address)
    page.get_by_role("button", name=f"Sign in as {name}").click()
    page.wait_for_url(re.compile(r"^[^?]*/$"))


@pytest.fixture(scope="module")
def signed_in(browser: Browser) -> Callable[[Gateway], Any]:
    """Return the cookies of Ada's browser, made once a gateway."""
    known: dict[str, Any] = {}

    def state(gateway: Gateway) -> Any:
        if gateway.base_url not in known:
            context = browser.new_context()
            sign_in(context.new_page(), link(gateway), "Ada Lovelace")
            known[gateway.base_url] = context.storage_state()
            context.close()
        return known[gateway.base_url]

    return state


@pytest.fixture
def open_page(
    browser: Browser, signed_in: Callable[[Gateway], Any]
) -> Iterator[Callable[..., tuple[Page, Seen]]]:
    """Return ``open_page(gateway, path, **context)``: it opens a page as Ada and collects console
    errors and requests."""
    contexts: list[BrowserContext] = []

    def go(gateway: Gateway, path: str = "/", **options: Any) -> tuple[Page, Seen]:
        context = browser.new_context(**{"storage_state": signed_in(gateway), **options})
        contexts.append(context)
        page = context.new_page()
        seen = watch(page)
        page.goto(gateway.base_url + path)
        return page, seen

    yield go
    for context in contexts:
        context.close()


def watch(page: Page) -> Seen:
    """Collect errors, refused loads, hosts asked and sockets opened."""
    seen = Seen()

    def said(line: ConsoleMessage) -> None:
        if line.type == "error":
            seen.problems.append(line.text)

    def asked(request: Request) -> None:
        if request.url.startswith("http"):
            seen.hosts.add(request.url.split("/")[2])

    page.on("pageerror", lambda error: seen.problems.append(str(error)))
    page.on("console", said)
    page.on("request", asked)
    page.on("websocket", lambda socket: seen.sockets.append(socket.url))
    return seen


def ask(page: Page, text: str) -> None:
    """Type a message and send it, on a phone, too."""
    box = page.get_by_label("Message", exact=True)
    box.fill(text)
    box.press("Control+Enter")


def finished(page: Page, count: int = 1) -> None:
    """Wait until ``count`` answers are complete."""
    expect(page.locator(".answer-foot:visible")).to_have_count(count)
    expect(page.locator("[aria-busy]")).to_have_count(0)


def hold(page: Page, address: str, *, times: int | None = None) -> list[Route]:
    """Hold the requests of a page to an address; return them as they come."""
    held: list[Route] = []

    def keep(route: Route) -> None:
        held.append(route)

    page.route(address, keep, times=times)
    return held


def hold_answer(page: Page, address: str) -> list[tuple[Route, APIResponse]]:
    """Hold the answer to the next request of a page to an address; return both once it is there."""
    held: list[tuple[Route, APIResponse]] = []

    def keep(route: Route) -> None:
        held.append((route, route.fetch()))

    page.route(address, keep, times=1)
    return held


def come(page: Page, held: Sequence[object]) -> None:
    """Wait until something is held."""
    while not held:
        page.evaluate("1")  # lets requests come


def fits(page: Page) -> None:
    """Check that a page is not wider than the window."""
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0, (page.url, wide)


def photograph(page: Page, name: str) -> None:
    """Keep what the window shows, when a folder is named."""
    folder = os.environ.get("TEST_PICTURES")
    if folder:
        page.screenshot(path=Path(folder) / f"{name.replace(' ', '-')}.png")

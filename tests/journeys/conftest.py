"""One gateway as ``make run`` starts it, its owner, a model, and Telegram: for all journeys.

A journey follows a document, as a user does: with a browser, a shell, or a client. It fails when a
sentence that it follows is wrong. Journeys share the installation, so each uses objects of its own.
The owner gets notices of five unknown senders an hour: journeys that need a notice come before
those that only need an unknown sender.
"""

import itertools
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from gateway_project.home import BASE_DIR
from gateway_project.processes import listener
from tests.channels_app.telegram.fake_api import FakeBotApi, Shown
from tests.channels_app.telegram.people import Params, message
from tests.chromium import browser
from tests.gateway_project.processes.ups import Up
from tests.journeys import model as models
from tests.journeys.documents import block, command
from tests.servers import Postgres, wait_until

__all__ = ["browser"]
expect.set_options(timeout=100_000)
TOKEN = re.compile(r"lk_\w{12}_[\w-]{43}")
OWNER_ON_TELEGRAM = 5550
_people = itertools.count(7000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all journeys as slow: each starts processes."""
    for item in items:
        if "/journeys/" in str(item.path):
            item.add_marker(pytest.mark.slow)


@dataclass
class Installation:
    """A running gateway, and what its owner has at hand."""

    up: Up
    model: models.Model
    api: FakeBotApi
    keys: dict[str, str] = field(default_factory=dict)
    bot: str = f"7001:{'B' * 35}"
    has_bot: bool = False

    @property
    def url(self) -> str:
        """Return the address of the installation."""
        return self.up.state().url

    def manage(self, line: str) -> str:
        """Return a ``manage.py`` command as documents write it."""
        words = shlex.split(line.partition("#")[0])
        assert "manage.py" in words[0] or words[1].endswith("manage.py"), line
        return self.up.manage(*words[words.index("manage.py") + 1 :])

    def shell(self, line: str, **environment: str) -> str:
        """Return a command of a document, in a shell in the clone; its output. A failure raises."""
        if "http://127.0.0.1:8000" in line:
            line = line.replace("http://127.0.0.1:8000", self.url)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", line],
            cwd=BASE_DIR,
            env={**self.up.env, "GATEWAY_HOME": str(self.up.home), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def key(self, name: str, user: str = "owner", *scopes: str) -> str:
        """Return a user's key, made by the command of the README."""
        if name not in self.keys:
            line = command("README.md", "create_key").replace("laptop", name)
            line = line.replace("--user owner", f"--user {user}")
            if scopes:
                line = line.partition(" --scope")[0] + "".join(
                    f" --scope {each}" for each in scopes
                )
            found = TOKEN.search(self.shell(line))
            assert found is not None
            self.keys[name] = found[0]
        return self.keys[name]

    def writes(self, sender: int, text: str, **more: Any) -> int:
        """Send a message to the bot; return its id."""
        return self.happens(message(text, user=sender, **more))

    def happens(self, update: Params) -> int:
        """Give the bot an update; return the id of its message, if it has one."""
        with self.api.lock:
            self.api.waiting.setdefault(self.bot, []).append(update)
        return int(update.get("message", {}).get("message_id", 0))

    def shown(self, chat: int) -> list[Shown]:
        """Return the messages of the bot in a chat."""
        return self.api.shown(self.bot, chat)

    def hears(self, chat: int, words: str) -> Shown:
        """Wait for a message of the bot with ``words``; return the last such one."""

        def found() -> list[Shown]:
            return [each for each in self.shown(chat) if words in each.text]

        wait_until(found, what=lambda: f"{words!r} in {self.api.texts(self.bot, chat)}")
        return found()[-1]


@pytest.fixture(scope="session")
def model() -> Iterator[models.Model]:
    """Yield the owner's model server."""
    with models.running() as found:
        yield found


@pytest.fixture(scope="session")
def running(
    model: models.Model, postgres: Postgres | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """Yield the installation: a fresh GATEWAY_HOME, started as ``make run`` does after
    installing."""
    extra = {**environment(model), "SCHEDULE_MISSED_SECONDS": "10"}  # the shortest there is
    extra["PYTHONPATH"] = installed_plugin(tmp_path_factory.mktemp("packages"))
    up = Up(tmp_path_factory.mktemp("journeys"), extra=extra)
    if postgres:
        postgres.execute("CREATE DATABASE journeys")
        up.extra["DATABASE_URL"] = postgres.url("journeys")
    up = Up(up.folder, extra=up.extra)
    api = FakeBotApi()
    api.start()
    up.start()
    yield Installation(up, model, api)
    up.process.stop(seconds=15)
    api.stop()


def installed_plugin(folder: Path) -> str:
    """Install the plugin of docs/plugins.md as pip does; return the PYTHONPATH."""
    line = block("docs/plugins.md", "latchkey_example_plugin:PLUGIN", "toml").splitlines()[-1]
    points = "[latchkey.plugins]\n" + line.replace('"', "")
    info = folder / "latchkey_example_plugin-1.0.dist-info"
    info.mkdir()
    names = "Metadata-Version: 2.1\nName: latchkey-example-plugin\nVersion: 1.0\n"
    (info / "METADATA").write_text(names)
    (info / "entry_points.txt").write_text(f"{points}\n")
    shutil.copy(BASE_DIR / "docs/example_plugin/latchkey_example_plugin.py", folder)
    return str(folder)


def environment(model: models.Model) -> dict[str, str]:
    """Return the owner's exports before ``make run``, and a free port."""
    return {
        "LLM_PROVIDER": "",
        "GATEWAY_MODEL_URL": model.url,
        "GATEWAY_MODEL_KEY": "a-key",
        "GATEWAY_MODEL": "a-model",
        "TRANSCRIPTION_MODEL": "ears",
        "GATEWAY_PORT": str(listener.free_port()),
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture(scope="session")
def owner_state() -> dict[str, Any]:
    """Return the cookies of the owner's browser, once signed in."""
    return {}


@pytest.fixture
def page(browser: Browser, running: Installation, owner_state: dict[str, Any]) -> Iterator[Page]:
    """Yield a window of the owner, signed in, at the web chat."""
    if "state" not in owner_state:
        context = browser.new_context()
        sign_in(context.new_page(), running.manage("manage.py sign_in_link").split()[-1])
        owner_state["state"] = context.storage_state()
        context.close()
    context = browser.new_context(storage_state=owner_state["state"])
    found = context.new_page()
    found.goto(running.url)
    expect(found.locator("#greeting, #log .said").first).to_be_attached()
    yield found
    context.close()


def sign_in(page: Page, link: str) -> None:
    """Open a sign-in address and press the one button of its page."""
    page.goto(link)
    page.locator("form[method=post] button").click()
    expect(page.get_by_label("Message", exact=True)).to_be_visible()


def ask(page: Page, text: str) -> None:
    """Type a message into the web chat and send it, once its script runs."""
    box = page.get_by_label("Message", exact=True)
    box.fill(text)
    expect(page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    box.press("Enter")


@pytest.fixture
def sender() -> int:
    """Return a new Telegram id."""
    return next(_people)


@pytest.fixture
def telegram(page: Page, running: Installation) -> Installation:
    """Return the installation once its owner has a bot (docs/channels.md) and is linked on Telegram
    (docs/unknown-senders.md, *The same person elsewhere*)."""
    if not running.has_bot:
        add_bot(page, running)
        link_owner(page, running)
        running.has_bot = True
    return running


def add_bot(page: Page, running: Installation) -> None:
    """Add the bot as docs/channels.md says: admin, Accounts, Add, Telegram, the token, save."""
    page.goto(f"{running.url}/admin/core/channelaccount/add/")
    page.get_by_role("link", name="Telegram", exact=True).click()
    page.wait_for_url("**channel=telegram**")  # and its load: the form takes the focus then
    page.locator("[name=name]").fill("bot")
    page.locator("[name=field_token]").fill(running.bot)
    page.locator("[name=field_mode]").select_option("polling")
    page.locator("[name=field_api_base]").fill(running.api.base)
    page.locator("[name=_continue], [name=_save]").first.click()
    expect(page.locator("body")).to_contain_text("A worker asks the platform within seconds")
    wait_until(lambda: running.api.polls.get(running.bot), what="the first poll")


def link_owner(page: Page, running: Installation) -> None:
    """Link the owner: a code from the settings of the web chat, typed to the bot."""
    page.goto(running.url)
    page.locator("[data-open-settings]").click()
    page.locator("#make-link-code").click()
    code = page.locator("#link-code")
    expect(code).not_to_have_text("")
    typed = code.inner_text().strip().removeprefix("/link").strip()
    before = len(running.shown(OWNER_ON_TELEGRAM))
    running.writes(OWNER_ON_TELEGRAM, f"/link {typed}")
    wait_until(lambda: len(running.shown(OWNER_ON_TELEGRAM)) > before, what="what became of it")
    running.writes(OWNER_ON_TELEGRAM, "it is me")
    running.hears(OWNER_ON_TELEGRAM, "You said: it is me")
    page.goto(running.url)  # without the dialog

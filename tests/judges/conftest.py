"""A gateway with something on every page, and the programs of the judges."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, StorageState

from gateway_project.home import BASE_DIR
from tests import templates
from tests.chromium import browser
from tests.conftest import DatabaseMaker
from tests.gateways import Gateway
from tests.judges.states import Json
from tests.npm import Packages, installed

__all__ = ["browser"]
HERE = Path(__file__).parent
PASSWORD = "correct horse battery"
FILL_SECONDS = 240
MOST_SECONDS = 1800  # every page in both schemes and widths, beside other tests
SIGN_IN = "/sign-in"


@dataclass(frozen=True)
class Filled:
    """A running gateway and the addresses of what ``tests.judges.fill`` made in it."""

    gateway: Gateway
    made: Json


@pytest.fixture(scope="session")
def judges(pytestconfig: pytest.Config) -> Packages:
    """Return the packages of the judges from npm."""
    return installed(pytestconfig, HERE)


@pytest.fixture(scope="module")
def filled(
    judges: Packages, new_database: DatabaseMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Filled]:
    """Yield a filled gateway without a worker: waiting runs go on waiting."""
    del judges  # without its packages the test is skipped before a gateway starts
    folder = tmp_path_factory.mktemp("judges")
    (folder / "home").mkdir()
    gateway = Gateway(folder, new_database(), {"LLM_IS_EMBEDDED": "1"}, roles=("web",))
    templates.collect_static(gateway)
    gateway.broker.start()  # for the signals of writes
    filling = subprocess.run(
        [sys.executable, "-m", "tests.judges.fill"],
        cwd=BASE_DIR,
        env={**gateway.env, "DJANGO_SETTINGS_MODULE": "gateway_project.settings"},
        capture_output=True,
        text=True,
        timeout=FILL_SECONDS,
        check=False,
    )
    assert filling.returncode == 0, filling.stderr[-4000:]
    gateway.launch("web")
    gateway.wait_ready("web")
    yield Filled(gateway, json.loads(filling.stdout.splitlines()[-1]))
    gateway.stop()


def signed_in(browser: Browser, base: str, name: str) -> StorageState:
    """Return the cookies of a person's browser after the sign-in with a password."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(base + SIGN_IN)
    page.locator("[name=username]").fill(name)
    page.locator("[name=password]").fill(PASSWORD)
    page.locator("[type=submit]").click()
    page.wait_for_url(lambda address: not address.endswith(SIGN_IN))
    state = context.storage_state()
    context.close()
    return state

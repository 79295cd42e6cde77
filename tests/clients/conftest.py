"""A gateway with every kind of message, and the JavaScript clients of the lock file."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import people
from tests.gateways import Gateway
from tests.npm import Packages, installed

HERE = Path(__file__).parent
SCRIPT_SECONDS = 180
Json = dict[str, Any]
Script = Callable[..., Json]


@pytest.fixture(scope="module")
def scripted(
    module_gateways: Callable[..., Gateway], tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """Return a gateway that plays ``people.SCRIPT``."""
    folder: Path = tmp_path_factory.mktemp("script")
    return module_gateways(LLM_SCRIPT=people.script(folder), RATE_PER_MINUTE_USER="0")


@pytest.fixture(scope="module")
def token(scripted: Gateway) -> str:
    """Return the owner's key."""
    return people.make(scripted)["owner"]


@pytest.fixture(scope="session", params=["."])
def packages(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Packages:
    """Return the packages of a package-lock.json of this folder.

    The parameter names the folder of the lock file: the newest major versions are here, those
    before them in ``previous``.
    """
    return installed(pytestconfig, HERE / request.param)


@pytest.fixture
def run_script(packages: Packages, scripted: Gateway, token: str) -> Script:
    """Return a function that runs a script of this folder under Node and parses its output as
    JSON."""

    return partial(run_node, packages, scripted, token)


def run_node(packages: Packages, gateway: Gateway, key: str, name: str, *arguments: str) -> Json:
    """Run a script of this folder under Node with the address and a key of a gateway; parse its
    output as JSON."""
    script = Path(shutil.copy(HERE / name, packages.folder / name))
    done = subprocess.run(
        [packages.node, str(script), *arguments],
        env={**os.environ, "GATEWAY": gateway.base_url, "KEY": key, "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=SCRIPT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    found: Json = json.loads(done.stdout)
    return found

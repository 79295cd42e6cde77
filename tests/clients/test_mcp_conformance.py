"""The client of MCP servers in the official conformance suite, for each protocol version."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_project.home import BASE_DIR
from tests.clients.conftest import HERE
from tests.clients.key_proxy import with_key
from tests.clients.test_mcp import MAKE
from tests.gateways import OURS, Gateway
from tests.npm import installed
from tests.servers import Process, wait_until

pytestmark = pytest.mark.slow

SUITE = HERE / "conformance"
SCENARIO_SECONDS, SECONDS = 240, 900
# How many scenarios may fail, by the files of the suite: these numbers only fall. It fails itself
# for an entry that passes.
EXPECTED = {"2025-11-25": (1, 26), "2026-07-28": (1, 37)}  # as a client, as a server


@pytest.fixture(scope="module")
def key(scripted: Gateway) -> str:
    """Return the key of an agent."""
    return scripted.manage("shell", "-v", "0", "-c", MAKE).strip()


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the socket of the process that forks the clients."""
    folder = tmp_path_factory.mktemp("clients")
    (folder / "home").mkdir()
    # With a database of its own: the one of the tests may not even be running.
    inherited = {name: each for name, each in os.environ.items() if not name.startswith(OURS)}
    process = Process(
        command=[sys.executable, str(SUITE / "client.py"), str(folder / "s")],
        log=folder / "log",
        env={
            **inherited,
            "DJANGO_SETTINGS_MODULE": "gateway_project.settings",
            "GATEWAY_HOME": str(folder / "home"),
            "PYTHONPATH": str(BASE_DIR),
            "SECRET_KEY": "key-of-a-test",
            "NO_PROXY": "localhost,127.0.0.1",
        },
    )
    process.start()
    wait_until((folder / "s").exists, seconds=180, what="the client's process")
    yield folder / "s"
    process.stop()


def named(version: str, role: str) -> list[str]:
    """Return the scenarios that may fail in a role."""
    found: dict[str, list[str]] = {}
    for line in (SUITE / f"{version}.yml").read_text().splitlines():
        if line.endswith(":") and not line.startswith((" ", "#")):
            found[line[:-1]] = last = []
        elif line.startswith("  - "):
            last.append(line[4:])
    return found.get(role, [])


def run(config: pytest.Config, folder: Path, version: str, *arguments: str) -> None:
    """Run the scored scenarios of a version."""
    packages = installed(config, SUITE)
    program = packages.folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    done = subprocess.run(
        [
            *(packages.node, str(program), *arguments, "--requirements", version),
            *("--expected-failures", str(SUITE / f"{version}.yml")),
            *("--output-dir", str(folder)),
        ],
        cwd=folder,
        env={**os.environ, "NO_PROXY": "localhost,127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("version", EXPECTED)
def test_v35_the_client_passes_the_conformance_suite(
    version: str, pytestconfig: pytest.Config, tmp_path: Path, clients: Path
) -> None:
    """[V35] All scored scenarios of a version besides those that the file names."""
    assert len(named(version, "client")) == EXPECTED[version][0]
    command = f"{sys.executable} -I -S {SUITE / 'connect.py'} {clients}"
    limit = str(SCENARIO_SECONDS * 1000)
    run(pytestconfig, tmp_path, version, "client", "--command", command, "--timeout", limit)


@pytest.mark.parametrize("version", EXPECTED)
def test_d7_the_server_passes_the_conformance_suite(
    version: str, pytestconfig: pytest.Config, tmp_path: Path, scripted: Gateway, key: str
) -> None:
    """[D7] All scored scenarios besides those that need what the server does not have."""
    assert len(named(version, "server")) == EXPECTED[version][1]
    with with_key(scripted.base_url, key) as base:
        run(pytestconfig, tmp_path, version, "server", "--url", f"{base}/mcp")

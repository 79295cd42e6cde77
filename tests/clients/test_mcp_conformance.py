"""The client of MCP servers in the official conformance suite, for each protocol version."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway_project.home import BASE_DIR
from tests.clients.conftest import HERE
from tests.npm import installed

pytestmark = pytest.mark.slow

SUITE = HERE / "conformance"
SCENARIO_SECONDS, SECONDS = 240, 900
# How many scenarios may fail, by the files of the suite: these numbers only fall. It fails itself
# for an entry that passes.
EXPECTED = {"2025-11-25": 15, "2026-07-28": 26}


@pytest.mark.parametrize("version", EXPECTED)
def test_v35_the_client_passes_the_conformance_suite(
    version: str, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    """[V35] All scored scenarios of a version besides those that the file names."""
    expected = SUITE / f"{version}.yml"
    failing = [each for each in expected.read_text().splitlines() if each.startswith("  - ")]
    assert len(failing) == EXPECTED[version]
    packages = installed(pytestconfig, SUITE)
    program = packages.folder / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
    done = subprocess.run(
        [
            *(packages.node, str(program), "client", "--requirements", version),
            *("--command", f"{sys.executable} {SUITE / 'client.py'}"),
            *("--expected-failures", str(expected)),
            *("--timeout", str(SCENARIO_SECONDS * 1000), "--output-dir", str(tmp_path)),
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "gateway_project.settings",
            "GATEWAY_HOME": str(tmp_path / "home"),
            "PYTHONPATH": str(BASE_DIR),
            "NO_PROXY": "localhost,127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

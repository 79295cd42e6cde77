"""Claude Code changes a toy repository through a running gateway, with nothing but loopback."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import people
from tests.channels_app.client import query
from tests.gateways import Gateway
from tests.npm import Packages, installed

pytestmark = pytest.mark.slow
SOURCE = Path(__file__).parent / "claude_code"
PROGRAM = "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
SECONDS = 180
WRONG = "def add(a, b):\n    return a - b\n"
RIGHT = "def add(a, b):\n    return a + b\n"
# Anything that it wants from elsewhere fails at once.
NOWHERE = "http://127.0.0.1:9"
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}


@pytest.fixture(scope="module")
def packages(pytestconfig: pytest.Config) -> Packages:
    """Return the installed program; it is large, so it has a lock file of its own."""
    found = installed(pytestconfig, SOURCE)
    if not (found.folder / PROGRAM).exists():
        pytest.skip("there is no build of Claude Code for this machine")
    return found


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with a mistake."""
    folder: Path = tmp_path_factory.mktemp("toy")
    (folder / "calc.py").write_text(WRONG)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "A mistake"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def gateway(
    module_gateways: Callable[..., Gateway],
    tmp_path_factory: pytest.TempPathFactory,
    repository: Path,
) -> Gateway:
    """Return a gateway whose model reads the file, corrects it, and says so."""
    path = str(repository / "calc.py")
    edit = {"file_path": path, "old_string": "a - b", "new_string": "a + b"}
    rules = [
        {"match": "", "after_tool": "Read", "steps": [{"tool": "Edit", "arguments": edit}]},
        {"match": "", "after_tool": "Edit", "steps": [{"text": "add adds now."}]},
        {"match": "Correct add", "steps": [{"tool": "Read", "arguments": {"file_path": path}}]},
    ]
    script = tmp_path_factory.mktemp("script") / "script.json"
    script.write_text(json.dumps(rules))
    return module_gateways(
        LLM_SCRIPT=str(script), GATEWAY_MODEL="toy-model", RATE_PER_MINUTE_USER="0"
    )


def test_w35_claude_code_changes_a_repository(
    packages: Packages, repository: Path, gateway: Gateway, tmp_path: Path
) -> None:
    """[W35] With the address and the key alone: it reads a file, edits it, and tells the end."""
    token = people.make(gateway)["member"]
    done = subprocess.run(
        [
            str(packages.folder / PROGRAM),
            *("-p", "Correct add in calc.py."),
            *("--output-format", "json", "--permission-mode", "acceptEdits"),
        ],
        cwd=repository,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "ANTHROPIC_BASE_URL": gateway.base_url,
            "ANTHROPIC_AUTH_TOKEN": token,
            "ANTHROPIC_MODEL": "toy-model",
            "ANTHROPIC_SMALL_FAST_MODEL": "toy-model",
            "HTTPS_PROXY": NOWHERE,
            "HTTP_PROXY": NOWHERE,
            "NO_PROXY": "127.0.0.1",
            **QUIET,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:] + gateway.log("web")
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["is_error"] is False
    assert found["result"] == "add adds now."
    assert (repository / "calc.py").read_text() == RIGHT
    check = "import calc; assert calc.add(2, 3) == 5"
    subprocess.run([sys.executable, "-c", check], cwd=repository, check=True)
    # One run for each answer of the model, of the person of the key.
    rows = query(gateway, "SELECT state FROM core_run")
    assert [state for (state,) in rows] == ["succeeded"] * found["num_turns"]

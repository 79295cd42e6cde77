"""Codex, the coding agent, makes a change in a repository through the gateway."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import people
from tests.gateways import Gateway
from tests.npm import Packages, installed

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
PACKAGE = Path("node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
CODEX_SECONDS = 120
BUG, FIXED = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
COMMAND = "sed -i 's/a - b/a + b/' calc.py && cat calc.py"
SCRIPT = [
    {
        "match": "^Fix the bug",
        "after_tool": True,
        "steps": [{"thinking": "It works."}, {"text": "I have corrected the sign in calc.py."}],
    },
    {
        "match": "^Fix the bug",
        "steps": [
            {"thinking": "The sign is wrong."},
            {"text": "I look at calc.py."},
            {"tool": "exec_command", "arguments": {"cmd": COMMAND}},
        ],
    },
    {"match": "^And now", "steps": [{"text": "Nothing is left to do."}]},
]
CONFIG = """\
model = "default"
model_provider = "latchkey"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.latchkey]
name = "Latchkey"
base_url = "{gateway}/v1"
env_key = "LATCHKEY_KEY"
wire_api = "responses"
"""
MAKE = """
from allowlist import keys
from core.models import User
owner = User.objects.get(username="owner")
print(keys.create(name="codex", user=owner, scopes=["chat"], model_only=True)[1])
"""


@pytest.fixture(scope="module")
def gateway(
    module_gateways: Callable[..., Gateway], tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """Return a gateway whose model plays a coding agent."""
    script: Path = tmp_path_factory.mktemp("codex") / "script.json"
    script.write_text(json.dumps(SCRIPT))
    return module_gateways(LLM_SCRIPT=str(script), RATE_PER_MINUTE_USER="0")


@pytest.fixture(scope="module")
def codex(pytestconfig: pytest.Config) -> Path:
    """Return the program. Skips the test where npm has none for this machine."""
    packages: Packages = installed(pytestconfig, HERE / "codex")
    program = packages.folder / PACKAGE
    if not program.exists():
        pytest.skip("there is no Codex for this machine")
    return program


@pytest.fixture
def run(codex: Path, gateway: Gateway, tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Return a function that runs ``codex exec`` in a toy repository; it returns its events."""
    people.make(gateway)
    key = gateway.manage("shell", "-v", "0", "-c", MAKE).strip()
    home, repository = tmp_path / "home", tmp_path / "toy"
    home.mkdir()
    repository.mkdir()
    (home / "config.toml").write_text(CONFIG.format(gateway=gateway.base_url))
    (repository / "calc.py").write_text(BUG)
    subprocess.run(["git", "init", "-q", "."], cwd=repository, check=True)
    env = {**os.environ, "CODEX_HOME": str(home), "LATCHKEY_KEY": key, "NO_PROXY": "127.0.0.1"}

    def start(*arguments: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [codex, "exec", *arguments],
            cwd=repository,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=CODEX_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return start


def test_w20_codex_makes_a_change_in_a_repository(
    run: Callable[..., list[dict[str, Any]]], gateway: Gateway, tmp_path: Path
) -> None:
    """[W20] It calls its own tool, sends the result, and shows the answer; a second turn goes on
    with the whole conversation.
    """
    first = run("--json", "Fix the bug in calc.py")
    assert (tmp_path / "toy" / "calc.py").read_text() == FIXED
    items = [each["item"] for each in first if each["type"] == "item.completed"]
    [command] = [each for each in items if each["type"] == "command_execution"]
    assert (command["exit_code"], "a + b" in command["aggregated_output"]) == (0, True)
    said = [each["text"] for each in items if each["type"] == "agent_message"]
    assert said == ["I look at calc.py.", "I have corrected the sign in calc.py."]
    assert "The sign is wrong." in [each["text"] for each in items if each["type"] == "reasoning"]
    assert first[-1]["type"] == "turn.completed"
    assert first[-1]["usage"]["output_tokens"] > 0
    second = run("resume", "--last", "--json", "And now?")
    said = [each["item"]["text"] for each in second if each.get("item", {}).get("text")]
    assert said[-1] == "Nothing is left to do."
    assert gateway.is_healthy()

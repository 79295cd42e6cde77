"""Codex, as ``codex exec``."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import agents
import common

HOME = Path("codex-home").absolute()
CONFIG = """\
model_provider = "latchkey"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
"""
PROVIDER = """
[model_providers.latchkey]
name = "Latchkey"
base_url = "{base}/v1"
env_key = "LATCHKEY_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 1
"""


def start(
    text: str,
    *,
    key: str = common.KEY,
    base: str = common.GATEWAY,
    model: str = "default",
    resumes: bool = False,
    picture: Path | None = None,
) -> tuple[list[str], Mapping[str, str]]:
    HOME.mkdir(exist_ok=True)
    (HOME / "config.toml").write_text(f'model = "{model}"\n' + CONFIG + PROVIDER.format(base=base))
    command = [os.environ["PROGRAM"], "exec"]
    command += ["resume", "--last"] if resumes else []
    command += ["--json", "--skip-git-repo-check"]
    command += ["-i", str(picture), "--"] if picture else []
    return [*command, text], {"CODEX_HOME": str(HOME), "LATCHKEY_KEY": key}


def answer(output: str) -> str:
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    items = [each["item"] for each in events if each["type"] == "item.completed"]
    return str([each["text"] for each in items if each["type"] == "agent_message"][-1])


agents.journeys(start, answer, "Fix the greeting.")

"""Claude Code, as ``claude -p``."""

import json
import os
from collections.abc import Mapping
from typing import Any

import agents
import common

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "HTTP_PROXY": "http://127.0.0.1:9",
}


def start(
    text: str,
    *,
    key: str = common.KEY,
    base: str = common.GATEWAY,
    model: str = "large",
    resumes: bool = False,
) -> tuple[list[str], Mapping[str, str]]:
    command = [os.environ["PROGRAM"], "-p", *(["-c"] if resumes else [])]
    command += [text, "--output-format", "json", "--allowedTools", "Bash"]
    named = {"ANTHROPIC_MODEL": model, "ANTHROPIC_SMALL_FAST_MODEL": model}
    return command, {**QUIET, **named, "ANTHROPIC_BASE_URL": base, "ANTHROPIC_AUTH_TOKEN": key}


def answer(output: str) -> str:
    found: Any = json.loads(output)
    if found["is_error"]:
        raise RuntimeError(found["result"])
    return str(found["result"])


agents.journeys(start, answer, "Correct the greeting.", takes_pictures=False)

"""The command ``llm``."""

import base64
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import common

HOME = Path(os.environ["LLM_USER_PATH"])
LLM = Path(sys.executable).parent / "llm"
FUNCTION = """
def get_weather(city: str) -> str:
    "Return the weather of a city."
    return f"It is sunny in {city}."
"""
MODEL = """\
- model_id: {name}
  model_name: {model}
  api_base: {base}/v1
  api_key_name: {name}
  vision: true
  supports_tools: true
"""


def llm(*arguments: str, key: str = common.KEY) -> str:
    command = [str(LLM), *arguments, "--key", key]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout.strip()


def prepare() -> None:
    models = (
        ("gateway", "default", common.GATEWAY),
        ("down", "down", common.GATEWAY),
        ("cut", "default", common.CUT),
    )
    text = "".join(MODEL.format(name=name, model=m, base=base) for name, m, base in models)
    (HOME / "extra-openai-models.yaml").write_text(text)
    (HOME / "pixel.png").write_bytes(base64.b64decode(common.PIXEL.partition(",")[2]))


def popen(*arguments: str) -> Any:
    command = [str(LLM), *arguments, "--key", common.KEY]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )


def stream() -> list[str]:
    process = popen("-m", "gateway", common.COUNT)
    found = []
    while piece := os.read(process.stdout.fileno(), 1000):
        found.append(piece.decode())
    process.wait()
    return found


def stop() -> str:
    process = popen("-m", "gateway", common.HANG)
    seen = os.read(process.stdout.fileno(), 1000).decode()
    process.send_signal(signal.SIGINT)
    process.wait()
    return seen


def remember() -> str:
    llm("-m", "gateway", common.MY_NAME)
    return llm("-c", common.WHAT_NAME)


def cut() -> dict[str, str]:
    with suppress(RuntimeError):
        llm("-m", "cut", common.COUNT)
    return {"again": llm("-m", "cut", common.COUNT)}


prepare()
common.main(
    {
        "first": lambda: llm("-m", "gateway", "--no-stream", common.HELLO),
        "stream": stream,
        "tool": lambda: llm("-m", "gateway", "--functions", FUNCTION, common.WEATHER),
        "image": lambda: llm("-m", "gateway", "-a", str(HOME / "pixel.png"), common.PICTURE),
        "remember": remember,
        "stop": stop,
        "cut": cut,
        "revoked": lambda: llm("-m", "gateway", common.HELLO, key=common.REVOKED),
        "budget": lambda: llm("-m", "gateway", common.HELLO, key=common.POOR),
        "down": lambda: llm("-m", "down", common.HELLO),
    }
)

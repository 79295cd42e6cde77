"""A coding agent in a terminal, started again for each journey."""

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import common

PICTURE = Path("pixel.png")
FIXED = Path("greeting.txt")
Start = Callable[..., tuple[list[str], Mapping[str, str]]]
Answer = Callable[[str], str]


def journeys(start: Start, answer: Answer, fix: str, *, takes_pictures: bool = True) -> None:
    """Do the journeys. ``start(text, key, base, model, …)``: command and environment of one turn;
    ``answer``: the answer in its output; ``fix``: a request to change a file; ``takes_pictures``:
    a turn may have some.
    """
    PICTURE.write_bytes(base64.b64decode(common.PIXEL.partition(",")[2]))

    def ask(text: str, **options: Any) -> str:
        command, env = start(text, **options)
        done = subprocess.run(
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        sys.stderr.write(done.stderr[-3000:] + done.stdout[-3000:])
        if done.returncode != 0:
            raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])
        return answer(done.stdout)

    def tool() -> str:
        ask(fix)
        return FIXED.read_text()

    def remember() -> str:
        ask(common.MY_NAME)
        return ask(common.WHAT_NAME, resumes=True)

    def stop() -> str:
        command, env = start(common.HANG)
        process = subprocess.Popen(
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(6)  # it does not say when it has asked
        process.send_signal(signal.SIGINT)
        return str(process.wait(60))

    pictures = {"image": lambda: ask(common.PICTURE, picture=PICTURE)} if takes_pictures else {}
    common.main(
        {
            "first": lambda: ask(common.HELLO),
            "tool": tool,
            "remember": remember,
            "stop": stop,
            "cut": lambda: {"again": ask(common.COUNT, base=common.CUT)},
            "revoked": lambda: ask(common.HELLO, key=common.REVOKED),
            "budget": lambda: ask(common.HELLO, key=common.POOR),
            "down": lambda: ask(common.HELLO, model=common.DOWN),
            **pictures,
        }
    )

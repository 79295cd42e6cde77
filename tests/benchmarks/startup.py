"""How long `up` takes to its first page, how it stops, and what it weighs when idle."""

import signal
import tempfile
import time
from pathlib import Path

from tests.gateway_project.processes.ups import LINK, Up

ROUNDS = 3
SETTLE_SECONDS = 5.0


def measure() -> str:
    """Return a report in plain text: wall clock seconds of a first start and of later ones, and
    MB."""
    with tempfile.TemporaryDirectory(prefix="latchkey-bench-") as folder:
        up = Up(folder=Path(folder), extra={"LLM_PROVIDER": ""})
        names = ["first", *["later"] * (ROUNDS - 1)]
        lines = [*(one_round(up, name=name) for name in names), weigh(up)]
    return "\n".join(lines) + "\n"


def one_round(up: Up, *, name: str) -> str:
    """Start, ask for a page, wait for all processes, stop."""
    up.process.log.unlink(missing_ok=True)
    began = time.monotonic()
    up.process.start()
    up.process.wait_ready(lambda: LINK.search(up.output()), seconds=120)
    address = time.monotonic() - began
    up.get("/healthz")
    page = time.monotonic() - began
    up.wait_all_ready()
    everything = time.monotonic() - began
    began = time.monotonic()
    up.process.send(signal.SIGTERM)
    up.process.wait(seconds=15)
    stopped = time.monotonic() - began
    return (
        f"{name:<6} start: address {address:5.1f} s, page {page:5.1f} s, "
        f"all processes {everything:5.1f} s; stopped in {stopped:4.1f} s"
    )


def weigh(up: Up) -> str:
    """Return the footprint of an idle gateway that has served one page, with the embedded model."""
    up.process.log.unlink(missing_ok=True)
    up.start()
    up.get("/healthz")
    time.sleep(SETTLE_SECONDS)
    table = up.manage("footprint")
    up.process.stop(seconds=15)
    return "\n" + table

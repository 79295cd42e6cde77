"""The stored state of a running `up`, for `footprint`."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

from gateway_project.processes.preflight import run_folder


@dataclass
class ProcessState:
    """One child: its pid (0 when it does not run), its state, its number of restarts."""

    pid: int = 0
    state: str = "waiting"
    restarts: int = 0


@dataclass
class State:
    pid: int
    url: str
    processes: dict[str, ProcessState] = field(default_factory=dict)


def path(home: Path) -> Path:
    return run_folder(home) / "state.json"


def write(*, home: Path, state: State) -> None:
    scratch = path(home).with_suffix(".new")
    scratch.write_text(json.dumps(asdict(state)), encoding="utf-8")
    scratch.replace(path(home))


def remove(*, home: Path) -> None:
    path(home).unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Return whether a process of ours exists."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def read(home: Path) -> State | None:
    """Return the state of the gateway that runs on ``home``; ``None`` when none does."""
    try:
        data = json.loads(path(home).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not is_alive(data["pid"]):
        return None
    processes = {name: ProcessState(**entry) for name, entry in data["processes"].items()}
    return State(pid=data["pid"], url=data["url"], processes=processes)

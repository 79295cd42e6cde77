"""Workers let the web process go first (docs/decisions/159)."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gateway_project.processes.priority import NICENESS, SESSION
from tests.gateways import Gateway

STEP_BACK = (
    "import os; from gateway_project.processes import priority; priority.step_back(3); "
    "s = priority.SESSION; print(os.nice(0), s.read_text() if s.exists() else '')"
)


def session_of(pid: int) -> str:
    """How nice the session of a process is; empty where Linux does not weigh sessions."""
    path = Path(f"/proc/{pid}/autogroup")
    return path.read_text().split()[-1] if path.exists() else ""


def test_workers_are_nicer_than_the_web_process_that_takes_messages(gateway: Gateway) -> None:
    """And a task that takes minutes is nicer than one who answers."""
    mine = os.nice(0)
    for name, by in (("web", 0), *NICENESS.items()):
        process = psutil.Process(gateway.pid(name))
        for each in (process, *process.children(recursive=True)):
            assert each.nice() == mine + by, name
        if SESSION.exists():
            assert session_of(process.pid) == str(by), name


@pytest.mark.parametrize("is_own", [True, False])
def test_a_session_that_others_share_is_left_as_it_is(is_own: bool) -> None:
    """As when somebody starts a worker by hand, beside other things."""
    done = subprocess.run(
        [sys.executable, "-c", STEP_BACK],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        start_new_session=is_own,
    )
    niceness, *session = done.stdout.split()
    assert int(niceness) == os.nice(0) + 3
    if session:
        assert session[-1] == ("3" if is_own else session_of(os.getpid()))

"""Forked processes of tests behave as started ones."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from gateway_project.processes import ready
from tests import fork_server
from tests.servers import Process, python, wait_until

pytestmark = pytest.mark.unmeasured  # where coverage is measured, nothing is forked
HERE = "tests.gateway_project.processes.test_fork_server"


def forked(log: Path, *arguments: str, **env: str) -> Process:
    """Return this module as a process, started."""
    process = Process(
        command=python(HERE, *arguments),
        log=log,
        forked=(HERE, *arguments),
        env={**os.environ, **env},
    )
    process.start(reports_ready=True)
    return process


def test_it_has_its_own_environment_output_session_and_exit_code(tmp_path: Path) -> None:
    process = forked(tmp_path / "log", "3", PETS="bees")
    assert process.wait() == 3
    assert process.log.read_text().split() == ["bees", str(process.pid), HERE, "3"]
    assert process.said_ready()


def test_a_signal_is_its_exit_code_and_it_ends_with_the_server(tmp_path: Path) -> None:
    first, second = (forked(tmp_path / name, "stay") for name in ("a", "b"))
    wait_until(lambda: first.said_ready() and second.said_ready())
    assert psutil.Process(first.pid).parent() == psutil.Process(second.pid).parent()
    first.send(signal.SIGKILL)
    assert (first.wait(), first.is_running(), second.is_running()) == (-9, False, True)
    second.stop()
    assert second.wait() == -signal.SIGTERM


def test_a_program_gets_its_input_and_its_output_is_returned() -> None:
    done = fork_server.run(
        ["-m", HERE, "read"], env={**os.environ, "PETS": "x"}, stdin="honey", seconds=60
    )
    assert (done.returncode, done.stdout.split()[-1]) == (0, "honey")


@pytest.mark.parametrize(
    "name", ["TZ", "PYTHONHASHSEED", "COVERAGE_PROCESS_START", "OTEL_TRACES_EXPORTER"]
)
def test_a_variable_that_a_program_reads_at_its_start_needs_one(name: str) -> None:
    env = {each: value for each, value in os.environ.items() if "COV" not in each}
    assert not fork_server.can_fork({**env, name: "1"})


def main() -> int:
    """Do in the child what the test asks for."""
    print(os.environ.get("PETS"), os.getsid(0), HERE, flush=True)
    ready.report()
    word = sys.argv[1]
    if word == "stay":
        signal.pause()
    if word == "read":
        print(sys.stdin.read())
        return 0
    print(word)
    return int(word)


if __name__ == "__main__":
    raise SystemExit(main())

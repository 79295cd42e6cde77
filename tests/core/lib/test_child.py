"""Children end with their parent, whatever ends it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from core.lib import child
from gateway_project.processes import ready
from tests.gateway_project.processes.ups import living
from tests.servers import wait_until

SLEEP = "import time; time.sleep(60)"


def parent_of(code: str) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """Return a Python process that runs ``code``, and the one child that it prints the pid of."""
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path.cwd(), bufsize=0
    )
    assert parent.stdout is not None
    with parent.stdout as output:
        return parent, psutil.Process(int(output.readline()))


def test_the_kernel_ends_a_child_with_its_killed_parent() -> None:
    """``kill -9`` of the parent; the command had become the child itself."""
    parent, process = parent_of(
        "import subprocess, sys; from core.lib import child; "
        f"p = subprocess.Popen(child.command(sys.executable, '-c', {SLEEP!r})); "
        "print(p.pid, flush=True); p.wait()"
    )
    wait_until(lambda: process.cmdline()[1:] == ["-c", SLEEP], what="the command")
    parent.kill()
    parent.wait()
    wait_until(lambda: not living([process]), what="the end of the child")


def test_elsewhere_the_wrapper_watches_and_kills() -> None:
    """The way of systems without PR_SET_PDEATHSIG, here with the parent that is already gone."""
    process = subprocess.Popen([sys.executable, "-c", SLEEP])
    child.watch_parent(parent=-1, process=process)
    assert process.wait(timeout=200) == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_elsewhere_a_signal_reaches_the_command_and_its_end_comes_back(number: int) -> None:
    """A signal to the wrapper ends the command; the wrapper returns its exit code."""
    wrapper, process = parent_of(
        "import os, sys; from core.lib import child; "
        f"code = 'import os, signal, sys; signal.signal({int(number)}, lambda *_: sys.exit(7)); "
        "print(os.getpid(), flush=True); signal.pause()'; "
        "sys.exit(child.stay_and_watch(parent=os.getppid(), "
        "arguments=[sys.executable, '-c', code], fds=[]))"
    )
    assert process.pid != wrapper.pid
    wrapper.send_signal(number)
    assert wrapper.wait(timeout=200) == 7
    assert not living([process])


def test_a_child_of_an_ended_parent_does_not_start() -> None:
    """The parent died between fork and prctl: the command never runs."""
    wrapper = [sys.executable, "-I", "-S", child.__file__, "1", "/bin/echo", "started"]
    done = subprocess.run(wrapper, capture_output=True, check=False, timeout=200)
    assert done.returncode == 1
    assert done.stdout == b""


def test_it_becomes_the_command() -> None:
    """The same process, with the command's output and exit code."""
    code = (
        "import os, sys; from core.lib import child; "
        "print(os.getpid(), flush=True); "
        "child.main([str(os.getppid()), sys.executable, '-c', "
        "'import os, sys; print(os.getpid()); sys.exit(3)'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=200, cwd=Path.cwd()
    )
    before, after = done.stdout.split()
    assert before == after
    assert done.returncode == 3


def test_where_the_kernel_cannot_the_wrapper_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """On another system the command is a child of the wrapper."""
    monkeypatch.setattr(sys, "platform", "darwin")
    saved = {each: signal.getsignal(each) for each in (*STAYING, signal.SIGPIPE)}
    try:
        assert child.main([str(os.getppid()), sys.executable, "-c", "raise SystemExit(4)"]) == 4
    finally:
        for number, handler in saved.items():
            signal.signal(number, handler)


STAYING = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


def test_fds_that_were_passed_on_purpose_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrapper that stays passes them on."""
    monkeypatch.setenv("GATEWAY_READY_FD", "5")
    monkeypatch.delenv("GATEWAY_LISTEN_FD", raising=False)
    assert child.inherited_fds() == [5]


def test_readiness_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte, then the pipe is closed; a second call and one without supervisor do nothing."""
    read, write = os.pipe()
    monkeypatch.setenv(ready.READY_FD, str(write))
    ready.report()
    ready.report()
    assert os.read(read, 10) == b"1"
    assert os.read(read, 10) == b""
    os.close(read)


def test_the_wrapper_costs_little() -> None:
    """It loads neither site-packages nor our packages."""
    began = time.process_time()
    done = subprocess.run(
        child.command(
            sys.executable, "-I", "-S", "-c", "import sys; print('django' in sys.modules)"
        ),
        capture_output=True,
        check=True,
        timeout=200,
    )
    assert done.stdout == b"False\n"
    assert time.process_time() - began < 5


# A worker is killed just after it has forked; its child writes before and after it is bound.
ORPHAN = """
import os, time
from core.lib import child
reads, writes = os.pipe()
if os.fork() == 0:
    worker = os.getpid()
    if os.fork() == 0:
        while os.getppid() == worker:
            time.sleep(0.001)
        os.write(writes, b"alone")
        child.die_with_parent(parent=worker)
        os.write(writes, b", and stays")
    os._exit(0)
os.close(writes)
with os.fdopen(reads) as said:
    print(said.read())
"""


def test_a_child_whose_parent_was_killed_before_it_was_bound_ends() -> None:
    found = subprocess.run(
        [sys.executable, "-c", ORPHAN], capture_output=True, text=True, timeout=60, check=True
    )
    assert found.stdout == "alone\n", found.stderr

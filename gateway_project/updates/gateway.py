"""The gateway that runs while it is updated: stop it, let it go on, and see whether it works."""

import json
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from django.contrib.admin.models import LogEntry
from django.db import DatabaseError, connections
from django.db.models import Max, Model

from allowlist import audit
from allowlist.models import AuditEntry
from core.conversations import runs
from core.models import (
    Delivery,
    InboundMessage,
    JobStep,
    Message,
    ModelCall,
    PushMessage,
    Run,
    Schedule,
    StoredFile,
    ToolCall,
    WorkerHeartbeat,
)
from gateway_project import command_line, home
from gateway_project.backups import restoring
from gateway_project.processes import holding, plan, preflight, state
from gateway_project.updates.clone import UpdateError, last_lines

Errors = list[tuple[str, str]]  # of the doctor: id and text

HOLD_SECONDS = 30
START_SECONDS = 180
MANAGE_SECONDS = 3600
LOOK_SECONDS = 0.2
# A row more, or a later time, when something was accepted or changed, or begun for somebody.
WORK: tuple[type[Model], ...] = (
    *(InboundMessage, Message, Run, ModelCall, ToolCall, JobStep),
    *(StoredFile, Schedule, LogEntry),
)
BEGUN: tuple[tuple[type[Model], str], ...] = (
    (Run, "started_at"),
    (Delivery, "claimed_at"),
    (PushMessage, "sent_at"),
)
# In the audit, and no work: an owner who looks at the new version, and a rule of retention.
NO_WORK = ("sign_in", "sign_in.refused", "file.opened", audit.BLANKED)
MOST_RESTARTS = 4  # about eight seconds of failures


@contextmanager
def stopped(folder: Path) -> Iterator[int]:
    """Hold the running gateway, or keep one from starting; yield the pid of its supervisor, 0 for
    none.

    The caller has the lock of updates; the gateway goes on when that is released. Raises
    UpdateError.
    """
    try:
        home_lock = preflight.lock(folder)
    except preflight.StartError:
        running = state.read(folder)
    else:
        with home_lock:
            yield 0
        return
    if running is None:
        raise UpdateError("The gateway is starting or stopping: try again in a moment.")
    hold(folder, running.pid)
    yield running.pid


def hold(folder: Path, pid: int) -> None:
    """Stop the processes of a gateway; its supervisor waits. Raises UpdateError."""
    if not catches(pid, holding.HOLD):
        raise UpdateError("The gateway runs older code than what is here: start it again first.")
    holding.held_mark(folder).unlink(missing_ok=True)  # of before a power cut, perhaps with its pid
    try:
        os.kill(pid, holding.HOLD)
    except ProcessLookupError as error:
        raise UpdateError("The gateway has just ended: try again in a moment.") from error
    if not comes(lambda: held_by(folder) == pid, seconds=HOLD_SECONDS):
        raise UpdateError("The gateway did not stop in time.")
    connections.close_all()


def catches(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal; True where the system does not say."""
    with suppress(OSError, ValueError, IndexError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        caught = int(status.split("SigCgt:")[1].split()[0], 16)  # proc(5)
        return bool(caught >> (number - 1) & 1)
    return True


def held_by(folder: Path) -> int:
    """Return the pid of the supervisor that waits; 0 for none."""
    try:
        return int(holding.held_mark(folder).read_text(encoding="utf-8") or 0)
    except (FileNotFoundError, ValueError):
        return 0


def comes(condition: Callable[[], object], *, seconds: float) -> bool:
    """Return whether ``condition()`` becomes true in time."""
    deadline = time.monotonic() + seconds
    while not (found := bool(condition())) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return found


def is_ready(folder: Path) -> bool:
    """Return whether all processes that people need have reported that they work."""
    running = state.read(folder)
    if running is None:
        return False
    needed = [each for name, each in running.processes.items() if name not in plan.LATER]
    return bool(needed) and all(each.state == "ready" for each in needed)


def is_failing(folder: Path, pid: int) -> bool:
    """Return whether the gateway has ended, or a needed process ends again and again."""
    running = state.read(folder)
    if running is None:
        return not state.is_alive(pid)
    needed = [each for name, each in running.processes.items() if name not in plan.LATER]
    return any(each.restarts >= MOST_RESTARTS for each in needed)


def is_settled(folder: Path, pid: int) -> bool:
    """Wait until a gateway that starts can be stopped, or has ended; return whether it did in time.

    Until its processes start it has the lock of its home only now and then, and would end if an
    update took that meanwhile. ``pid``: of its supervisor; a service may have started another one.
    """

    def can_be_stopped() -> bool:
        return state.read(folder) is not None or not (state.is_alive(pid) or is_locked(folder))

    return comes(can_be_stopped, seconds=START_SECONDS)


def is_locked(folder: Path) -> bool:
    """Return whether a gateway has the lock of its home."""
    try:
        preflight.lock(folder).close()
    except preflight.StartError:
        return True
    return False


def of_other_machines() -> list[str]:
    """Return the live workers that are not of this machine. Raises DatabaseError."""
    here = socket.gethostname()
    return [each.name for each in runs.heard() if host_and_pid(each)[0] != here]


def without_up(folder: Path) -> list[str]:
    """Return this machine's workers that no supervisor of this home stops. Raises DatabaseError."""
    if is_locked(folder):
        return []
    here = socket.gethostname()
    found = ((each.name, *host_and_pid(each)) for each in runs.heard())
    return [name for name, host, pid in found if host == here and pid and state.is_alive(pid)]


def host_and_pid(worker: WorkerHeartbeat) -> tuple[str, int]:
    """Return the machine and the pid in a worker's name: ``HOST:PID:STARTED`` of ``runs``,
    ``long:HOST:PID``, or ``web HOST``, whose pid is 0.
    """
    name = worker.name.removeprefix({"long": "long:", "web": "web "}.get(worker.queue, ""))
    host, _, rest = name.partition(":")
    pid = rest.partition(":")[0]
    return host, int(pid) if pid.isdigit() else 0


def errors(python: Path, folder: Path, env: dict[str, str], *, running: bool) -> Errors:
    """Return the errors (id and text) that the doctor of the code in ``folder`` finds.

    Raises UpdateError when it finds no words.
    """
    done = manage(python, folder, env, "doctor", "--json")
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        said = last_lines(done.stderr or done.stdout)
        raise UpdateError(f"its doctor failed: {said}") from error
    chosen = found if running else restoring.errors(found)
    return [(each["id"], each["what"]) for each in chosen if each["level"] == "error"]


def new_errors(found: Errors, before: Errors) -> list[str]:
    """Return the texts of ``found`` under ids that it has more often than ``before``, new texts
    first: accounts share an id, and a text changes with time.
    """
    more = Counter(id_ for id_, _ in found) - Counter(id_ for id_, _ in before)
    new = sorted((each in before, each) for each in found if each[0] in more)
    return [what for _, (_, what) in new]


def manage(
    python: Path, folder: Path, env: dict[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a management command of the code in ``folder``; ``env``: additions to the environment."""
    _, *rest = command_line.command(*arguments)
    return subprocess.run(
        [str(python), *rest],
        cwd=folder,
        env={**os.environ, "GATEWAY_HOME": str(home.directory()), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=MANAGE_SECONDS,
        check=False,
        close_fds=False,  # the lock of updates
    )


def newest() -> dict[str, object]:
    """Return how far the work for people is: the newest rows and times of what they send, change
    and decide, and of what is done for them. Raises UpdateError when the database does not answer.
    """
    try:
        found = {model.__name__: newest_of(model, "pk") for model in WORK}
        found |= {f"{model.__name__}.{name}": newest_of(model, name) for model, name in BEGUN}
        decided = AuditEntry.objects.exclude(action__in=NO_WORK)
        found["AuditEntry"] = decided.aggregate(newest=Max("pk"))["newest"]
    except DatabaseError as error:
        raise UpdateError(f"the database does not answer: {error}") from error
    finally:
        connections.close_all()
    return found


def newest_of(model: type[Model], field: str) -> object:
    return model._default_manager.aggregate(newest=Max(field))["newest"]

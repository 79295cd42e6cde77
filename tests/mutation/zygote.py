"""A pytest plugin: one warm test process that forks, and each fork runs the tests on one mutant.

``MUTATION_WORK`` names a folder with ``work.json``, a list of jobs; ``outcomes.json`` becomes the
list of their outcomes in the same order. Shared state (collection, broker, migrated database) is
started before the first fork. No other test runs there: a fork would lose its threads. Every fork
has a database of its own.
"""

import gc
import json
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import TypedDict

import pytest
import redis
from asgiref.sync import SyncToAsync
from django.conf import settings
from django.db import connection, connections

from tests.mutation import indoors
from tests.mutation.swap import Living, NoModuleError, living, put, put_constant

# A mutant may wait or loop for ever. Many times what a test took, for machines are busy; and what
# all of them took, for a loop that no signal ends.
PATIENCE = 10.0
LEAST_SECONDS = 20.0
BASELINE_SECONDS = 1200.0
# Exit codes: of a fork that could not do its work, and of one whose test took too long.
FAULT, TOO_LONG = 2, 3
SURVIVED, KILLED, TIMED_OUT = "survived", "killed", "timed out"


class Job(TypedDict):
    """A mutant: the file, the qualified name of a function and its changed text; or the name of
    a constant and the changed text of its module."""

    path: str
    function: str
    source: str
    is_constant: bool


class Known(TypedDict):
    """Of the tests without a mutant: which functions each calls, and its seconds."""

    calls: dict[str, list[str]]
    seconds: dict[str, float]


class Baseline:
    """Watches the tests on the code as it is."""

    def __init__(self, files: set[str]) -> None:
        """``files``: whose functions are of interest."""
        self.files = files
        self.calls: dict[str, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = defaultdict(float)
        self.now = ""

    def watch(self, frame: FrameType, event: str, argument: object) -> None:
        """Record the called functions: a profile function (see ``sys.setprofile``)."""
        del argument
        if event == "call" and frame.f_code.co_filename in self.files:
            self.calls[self.now].add(frame.f_code.co_qualname)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Start the clock of a test."""
        self.now = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the seconds of a phase of a test."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            (Path(os.environ["MUTATION_WORK"]) / "failed").write_text(
                f"{report.nodeid}\n{report.longreprtext}"
            )
            os._exit(1)

    def known(self) -> Known:
        """Return the record."""
        calls = {name: sorted(called) for name, called in self.calls.items()}
        return {"calls": calls, "seconds": self.seconds}


class FirstFailure:
    """Ends the fork at once: the mutant is dead."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Exit when a phase of a test has failed."""
        if report.failed:
            os._exit(TOO_LONG if "from pytest-timeout" in report.longreprtext else 1)


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Run the jobs, in place of pytest's own loop."""
    folder = Path(os.environ["MUTATION_WORK"])
    jobs: list[Job] = json.loads((folder / "work.json").read_text())
    # The order of the collection is that of ``make test``, by the length of its files.
    warm, *items = sorted(session.items, key=lambda item: item.path.name != "warm.py")
    warm.config.hook.pytest_runtest_protocol(item=warm, nextitem=items[0])
    connections.close_all()
    gc.unfreeze()  # loaded code: else it is not among the objects
    functions = living({job["path"] for job in jobs})
    gc.freeze()
    if watched(folder, items, {job["path"] for job in jobs}) != SURVIVED:
        raise pytest.UsageError("these tests fail unmutated: " + (folder / "failed").read_text())
    known: Known = json.loads((folder / "known.json").read_text())
    outcomes = []
    for job in jobs:
        outcomes.append(outcome(folder, items, job, known, functions))
        (folder / "outcomes.json").write_text(json.dumps(outcomes))
    return True


def watched(folder: Path, items: Sequence[pytest.Item], files: set[str]) -> str:
    """Run all tests without a mutant; ``known.json`` has what was seen."""
    baseline = Baseline(files)

    def work() -> None:
        items[0].config.pluginmanager.register(baseline)
        threading.setprofile(baseline.watch)
        sys.setprofile(baseline.watch)
        run(items, items[0])
        sys.setprofile(None)
        (folder / "known.json").write_text(json.dumps(baseline.known()))

    return fork(work, folder=folder, seconds=BASELINE_SECONDS)


def outcome(
    folder: Path, items: Sequence[pytest.Item], job: Job, known: Known, functions: Living
) -> str:
    """Return the outcome of a mutant: first run the tests that call its function, the fastest
    first.

    Only when they all pass, run the others: a cache may hide a call from the baseline.
    """
    calls = known["calls"]
    near = [item for item in items if job["function"] in calls.get(item.nodeid, ())]
    near.sort(key=lambda item: known["seconds"][item.nodeid])
    far = [item for item in items if item not in near]

    def work() -> None:
        items[0].config.pluginmanager.register(FirstFailure())
        try:
            apply(job, functions)
        except NoModuleError:
            os._exit(1)
        for each in items:
            most = max(LEAST_SECONDS, PATIENCE * known["seconds"][each.nodeid])
            each.add_marker(pytest.mark.timeout(most), append=False)
        run(near + far, items[0])

    total = sum(known["seconds"].values())
    return fork(work, folder=folder, seconds=max(LEAST_SECONDS, PATIENCE * total))


def apply(job: Job, functions: Living) -> None:
    """Change this process's code."""
    if job["is_constant"]:
        put_constant(path=job["path"], name=job["function"], source=job["source"])
    else:
        into = functions[job["path"], job["function"]]
        put(path=job["path"], source=job["source"], into=into)


def run(items: Sequence[pytest.Item], last: pytest.Item) -> None:
    """Run ``items``; ``last`` follows, so that what belongs to the session is left alone."""
    for item, following in zip(items, [*items[1:], last], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def fork(work: Callable[[], None], *, folder: Path, seconds: float) -> str:
    """Do ``work`` in a fork with a database of its own, for at most ``seconds``."""
    own = folder / "fork"
    own.mkdir()
    child = os.fork()
    if child == 0:
        try:
            begin(own)
            work()
        except BaseException:  # noqa: BLE001 - beyond here, pytest would end the shared session
            (folder / "failed").write_text(traceback.format_exc())
            os._exit(FAULT)
        os._exit(0)
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended and os.waitstatus_to_exitcode(status) == FAULT:
                raise pytest.UsageError("a fork failed: " + (folder / "failed").read_text())
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return {0: SURVIVED, TOO_LONG: TIMED_OUT}.get(code, KILLED)
            time.sleep(0.01)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return TIMED_OUT
    finally:
        shutil.rmtree(own)


def begin(own: Path) -> None:
    """Make this fork independent of its parent: group, output, broker's memory, database."""
    os.setpgid(0, 0)
    indoors.stay()
    gc.disable()  # a collection would copy the memory that we share
    # The thread of the ORM's asynchronous methods is the parent's.
    SyncToAsync.single_thread_executor = ThreadPoolExecutor(max_workers=1)
    silence = os.open(own / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    redis.from_url(settings.REDIS_URL).flushall()
    database = own / "test.sqlite3"
    shutil.copy(str(connection.settings_dict["NAME"]), database)
    connection.settings_dict["NAME"] = str(database)

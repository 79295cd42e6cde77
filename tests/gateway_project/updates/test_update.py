"""[X15] to [X19] `update` of a clone with a running gateway: to a good version, and to others."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest

from core import VERSION
from core.lib import child
from gateway_project.processes import holding, state
from tests.channels_app.client import query_url
from tests.gateway_project.backups.pairs import programs
from tests.gateway_project.processes.ups import Up
from tests.gateway_project.updates.origins import TABLE, Origin, git
from tests.servers import Process, wait_until
from tests.settings import TEST_DATABASE

pytestmark = pytest.mark.slow
ON_SQLITE = TEST_DATABASE == "sqlite"
FAIL = "if not on_a_copy: raise RuntimeError('it fails here')"
FAIL_ALWAYS = "raise RuntimeError('it fails everywhere')"
# Waits in the real database until the test lets it go on.
WAIT = """
    while not on_a_copy and not Path(os.environ["GO_ON"]).exists():
        home.directory().joinpath("waits").touch()
        time.sleep(0.05)
"""
# Workers that end when the test lets them.
NO_WORK = """
import os
import time
from pathlib import Path

while not Path(os.environ["GO_ON"]).exists():
    time.sleep(0.05)
raise SystemExit("no work")
"""
NO_WEB = "raise SystemExit('no web today')"
# The doctor of a version that finds an error more.
FINDS = """

examined = examine


def examine(*, now):
    return [*examined(now=now), error("new-error", "This is new.", "Nothing helps.")]
"""
OTHER_MACHINE = (
    "from core.conversations import runs; "
    "runs.heard_from(worker='elsewhere:1:2', queue='runs', problem='')"
)
GONE = (
    "from core.models import WorkerHeartbeat as W; "
    "W.objects.filter(name__startswith='elsewhere').delete()"
)


class Installation:
    """A clone with a running gateway, and a key of its owner."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.origin = Origin.made(folder / "origin")
        self.code = self.origin.clone(folder / "clone")
        self.go_on = folder / "go-on"
        path = f"{programs()}:{os.environ['PATH']}"
        extra = {"DATABASE_URL": database_url, "GO_ON": str(self.go_on), "PATH": path}
        self.database_url = database_url
        self.up = Up(folder=folder / "up", extra=extra, code=self.code)
        self.up.start()
        self.key = self.up.make_key()
        self.said = 0

    def update(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `update` to its end."""
        return subprocess.run(
            [sys.executable, "manage.py", "update", *arguments],
            cwd=self.code, env=self.up.env, text=True, check=False, timeout=600,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def began(self, *arguments: str) -> Process:
        """Begin an update."""
        command = child.command(sys.executable, "manage.py", "update", *arguments)
        log = self.up.folder / "update.log"
        process = Process(command=command, log=log, cwd=self.code, env=self.up.env)
        process.start()
        return process

    def version(self) -> str:
        return self.up.manage("version").split()[-1]

    def pids(self) -> dict[str, int]:
        """Return the pids of the processes, by name."""
        return {name: each.pid for name, each in self.up.state().processes.items()}

    def works(self) -> None:
        """Wait until all processes are ready, and say something: it and all before it are there."""
        self.up.wait_all_ready()
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx.Client(base_url=self.up.state().url, headers=headers, timeout=120) as client:
            self.said += 1
            answer = client.post("/inbound", json={"text": f"message {self.said}"})
            assert answer.status_code == 200, answer.text
        rows = query_url(self.database_url, "SELECT text FROM core_message WHERE role = 'user'")
        assert sorted(text for (text,) in rows) == sorted(
            f"message {number + 1}" for number in range(self.said)
        )

    def has_new_table(self) -> bool:
        """Return whether the migration of the new version is applied."""
        asked = "SELECT count(*) FROM django_migrations WHERE name LIKE '%_of_the_update'"
        return bool(query_url(self.database_url, asked)[0][0])

    def is_old(self) -> None:
        """Assert that the old version runs with its database, and nothing is left of an update."""
        self.works()
        assert self.version() == VERSION
        assert not self.has_new_table()
        assert git(self.code, "status", "--porcelain", "--untracked-files=no") == ""
        assert git(self.code, "rev-parse", "--abbrev-ref", "HEAD") == "main"
        assert not holding.way_back(self.up.home).exists()
        assert not (self.up.home / "run" / "new-code").exists()


@pytest.fixture(scope="module")
def installed(
    tmp_path_factory: pytest.TempPathFactory, new_database: Callable[[], str]
) -> Iterator[Installation]:
    """Start a gateway; each test leaves the old version running, but for the last."""
    it = Installation(tmp_path_factory.mktemp("update"), new_database())
    it.works()
    yield it
    it.up.process.stop(seconds=15)


def test_x15_the_newest_version_and_the_changes_that_would_come(installed: Installation) -> None:
    """[X15] Without a change of anything."""
    assert "This is the newest version." in installed.update().stdout
    installed.origin.add("good", TABLE)
    said = installed.update("--check", "--to", "origin/good").stdout
    assert "Version 0.2.0:\n  New in good" in said
    installed.is_old()


@pytest.mark.on("postgres")
def test_x16_a_version_that_fails_on_a_copy_changes_nothing(installed: Installation) -> None:
    """[X16] The gateway is not even stopped; PostgreSQL has no copy, so it comes back."""
    installed.origin.add("fails", TABLE, FAIL_ALWAYS)
    before = installed.pids()
    done = installed.update("--to", "origin/fails")
    assert done.returncode == 1
    assert "it fails everywhere" in done.stdout
    assert ("Nothing was changed" in done.stdout) is ON_SQLITE, done.stdout
    installed.is_old()
    assert (installed.pids() == before) is ON_SQLITE


@pytest.mark.on("sqlite")
def test_x17_a_version_whose_migration_fails_leaves_the_old_one(installed: Installation) -> None:
    """[X17] With the database of before, although one migration had succeeded."""
    installed.origin.add("fails-later", TABLE, FAIL)
    supervisor = installed.up.state().pid
    done = installed.update("--to", "origin/fails-later")
    assert done.returncode == 1
    assert "The old version is back" in done.stdout
    assert "it fails here" in done.stdout
    installed.is_old()
    assert installed.up.state().pid == supervisor


@pytest.mark.on("postgres")
def test_x17_a_version_whose_doctor_finds_a_new_error_is_not_kept(
    installed: Installation,
) -> None:
    """[X17] [X16]"""
    installed.origin.add("ill", TABLE, more={"channels_app/ops/doctor/examination.py": FINDS})
    done = installed.update("--to", "origin/ill")
    assert done.returncode == 1
    assert "its doctor says: This is new." in done.stdout
    installed.is_old()


@pytest.mark.on("sqlite")
def test_x17_a_version_that_does_not_get_ready_leaves_the_old_one(installed: Installation) -> None:
    """[X17] Its web server ends again and again: that is not waited for until the end."""
    installed.origin.add("not-ready", TABLE, gateway_project__processes__web=NO_WEB)
    done = installed.update("--to", "origin/not-ready", "--wait", "600")
    assert done.returncode == 1
    assert "The old version is back: 0.2.0 did not get ready" in done.stdout
    assert "no web today" in installed.up.output()
    installed.is_old()


@pytest.mark.on("sqlite")
def test_x17_a_version_that_still_starts_is_not_cut_off(installed: Installation) -> None:
    """[X17] The time is over before the gateway has the lock of its home: it is stopped only after
    it has started, and goes on with the old version."""
    installed.origin.add("not-ready", TABLE, gateway_project__processes__web=NO_WEB)
    supervisor = installed.up.state().pid
    done = installed.update("--to", "origin/not-ready", "--wait", "0")
    assert done.returncode == 1
    assert "The old version is back: 0.2.0 did not get ready" in done.stdout
    installed.is_old()
    assert installed.up.state().pid == supervisor


def test_x18_an_update_that_is_killed_leaves_the_old_version(installed: Installation) -> None:
    """[X18] Kill -9 while the database is migrated: its commands end first, then the old version
    comes back and goes on by itself; the next update succeeds."""
    installed.origin.add("waits", TABLE, WAIT)
    updater = installed.began("--to", "origin/waits")
    wait_until((installed.up.home / "waits").exists, seconds=120)
    assert "latchkey" in (installed.code / "pyproject.toml").read_text()
    os.kill(updater.pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(updater.pid) or updater.wait(seconds=5) is not None)
    assert holding.way_back(installed.up.home).exists()
    installed.go_on.touch()
    wait_until(lambda: not holding.way_back(installed.up.home).exists(), seconds=60)
    installed.is_old()


def test_x18_a_killed_update_without_a_gateway_is_mended_at_the_next_start(
    installed: Installation,
) -> None:
    """[X18] Everything is killed, as by a loss of power."""
    installed.go_on.unlink(missing_ok=True)
    (installed.up.home / "waits").unlink(missing_ok=True)
    updater = installed.began("--to", "origin/waits")
    wait_until((installed.up.home / "waits").exists, seconds=120)
    for each in [*installed.up.family(), *family(updater.pid)]:
        each.kill()
    updater.wait(seconds=10)
    installed.up.process.wait(seconds=10)
    assert holding.way_back(installed.up.home).exists()
    installed.up.start()
    installed.is_old()


def family(pid: int) -> list[psutil.Process]:
    """Return a process and everything below it."""
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def test_x19_a_changed_clone_is_not_updated(installed: Installation) -> None:
    """[X19]"""
    path = installed.code / "manage.py"
    before = path.read_text()
    path.write_text(f"{before}\n# mine\n")
    try:
        done = installed.update("--to", "origin/good")
    finally:
        path.write_text(before)
    assert done.returncode == 1
    assert "Files of the clone were changed: M manage.py" in done.stdout
    installed.is_old()


def test_x19_workers_of_another_machine_stop_an_update(installed: Installation) -> None:
    """[X19] They would write between the copy of the database and its migration."""
    installed.origin.add("fine", TABLE)
    installed.up.manage("shell", "--no-imports", "-c", OTHER_MACHINE)
    done = installed.update("--to", "origin/fine")
    installed.up.manage("shell", "--no-imports", "-c", GONE)
    assert done.returncode == 1
    assert "Nothing was changed: Workers of other machines use this database" in done.stdout
    installed.is_old()


def test_x19_another_user_than_the_owner_of_the_home_is_refused(installed: Installation) -> None:
    """[X19] The superuser would leave files that the gateway cannot write."""
    if os.getuid() == 0:
        os.chown(installed.up.home, 12345, -1)
        try:
            done = installed.update("--to", "origin/fine")
        finally:
            os.chown(installed.up.home, 0, -1)
        assert f"Run this as the user that owns {installed.up.home}" in done.stdout
        assert done.returncode == 1
    installed.is_old()


@pytest.mark.on("postgres")
def test_x17_a_version_that_people_have_written_to_stays_and_can_be_undone(
    installed: Installation,
) -> None:
    """[X17] Its worker does not start, and its web server accepts a message: nothing is undone by
    itself. The script that is named brings the old version back, without that message."""
    installed.go_on.unlink(missing_ok=True)
    installed.origin.add("half-ready", TABLE, gateway_project__processes__workers=NO_WORK)
    updater = installed.began("--to", "origin/half-ready", "--wait", "600")
    headers = {"Authorization": f"Bearer {installed.key}"}

    def is_accepted() -> bool:
        known = state.read(installed.up.home)
        if known is None or installed.version() == VERSION:
            return False
        body = {"text": "written to the new one", "async": True}
        with suppress(httpx.TransportError):
            return httpx.post(f"{known.url}/inbound", json=body, headers=headers).status_code == 202
        return False

    wait_until(is_accepted, seconds=120)
    installed.go_on.touch()
    updater.wait(seconds=120)
    script = installed.up.home / "run" / "undo-update.sh"
    assert f"`sh {script}` brings the old version back" in " ".join(updater.tail().split())
    assert installed.version() == "0.2.0"
    installed.up.process.stop(seconds=15)
    command, env = ["/bin/sh", str(script)], installed.up.env
    said = subprocess.run(command, check=True, env=env, timeout=120, stdout=subprocess.PIPE)
    assert said.stdout.decode() == f"Latchkey {VERSION} is back. Start the gateway.\n"
    installed.up.start()
    installed.is_old()


@pytest.mark.on("sqlite")
def test_x15_a_good_version_takes_over(installed: Installation) -> None:
    """[X15] The same supervisor goes on with the new code, the new tables and all messages."""
    installed.origin.add("better", TABLE)
    installed.origin.publish("better")
    supervisor, before = installed.up.state().pid, installed.pids()
    done = installed.update()
    assert done.returncode == 0, done.stdout
    assert "the gateway works again" in done.stdout
    installed.works()
    assert installed.version() == "0.2.0"
    assert installed.has_new_table()
    assert installed.up.state().pid == supervisor
    assert not set(before.values()) & set(installed.pids().values())
    assert git(installed.code, "rev-parse", "--abbrev-ref", "HEAD") == "main"
    assert "This is the newest version." in installed.update().stdout

"""Which version this is, which one the database belongs to, and what starts on what."""

import os
import resource
import signal
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

from core import VERSION
from core.database import schema_version
from core.files import storage
from core.lib import child, safe_fetch
from core.models import Installation, User
from gateway_project import command_line, environment, home, installation
from gateway_project.home import BASE_DIR
from gateway_project.management.commands.up import Command as Up
from gateway_project.processes import begin, plan
from gateway_project.processes.preflight import StartError
from tests.gateways import Gateway
from tests.redteam.test_versions import NEWER, migrated_by_newer_code
from tests.servers import wait_until

START = {
    "up": ("manage.py", "up"),
    "migrate": ("manage.py", "migrate"),
    "web": ("-m", "gateway_project.processes.web"),
    "runs": ("-m", "gateway_project.processes.workers", "runs"),
    "long": ("-m", "gateway_project.processes.workers", "long"),
}


def test_there_is_one_version() -> None:
    """The running code and the package have the same one, towards owners and foreign servers."""
    packed = tomllib.loads((BASE_DIR / "pyproject.toml").read_text())["project"]["version"]
    assert packed == VERSION
    assert f"Latchkey/{VERSION}" == safe_fetch.AGENT
    assert Up().get_version() == f"Latchkey {VERSION}"


@pytest.mark.parametrize("words", [("--version",), ("version",), ("up", "--version")])
def test_the_command_line_says_the_version(words: tuple[str, ...], tmp_path: Path) -> None:
    """Before anything is set up, so also where nothing works."""
    said = started("manage.py", *words, env={"GATEWAY_HOME": str(tmp_path)})
    assert (said.returncode, said.stdout.strip()) == (0, f"Latchkey {VERSION}")


def test_ctrl_c_is_one_line_also_where_another_error_hides_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other errors stay as they are."""

    def cut_off() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise OSError("Bad file descriptor")

    monkeypatch.setattr(command_line, "run", cut_off)
    with pytest.raises(SystemExit) as end:
        command_line.main()
    assert (end.value.code, capsys.readouterr().out) == (130, "Stopped.\n")
    monkeypatch.setattr(command_line, "run", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        command_line.main()


LOSING = """
import os
import weakref
from gateway_project import command_line, home

class Model: pass

def busy():
    os.write(1, b"busy\\n")  # print() may still hold the output when this is read
    while True: pass

def ensure():
    weakref.finalize(Model(), busy)  # called at once; Python ignores what it raises

home.ensure = ensure
command_line.main()
"""


def starting(script: str, home: Path, command: str = "up") -> subprocess.Popen[str]:
    """Begin a command in a script; its output is buffered."""
    return subprocess.Popen(
        [sys.executable, "-c", script, command],
        cwd=BASE_DIR,
        env={**os.environ, "GATEWAY_HOME": str(home), "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("command", ["up", "migrate"])
def test_ctrl_c_ends_a_start_also_where_python_would_ignore_it(
    command: str, tmp_path: Path
) -> None:
    """Migrations make and forget many models: the first Ctrl-C of a first start was lost there."""
    with starting(LOSING, tmp_path, command) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "busy\n"
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == "Stopped.\n"
    assert running.returncode == command_line.INTERRUPTED


def test_ctrl_c_ends_a_command_while_its_modules_load(tmp_path: Path) -> None:
    """There was a traceback."""
    slow = 'import os\nos.write(1, b"busy\\n")\nwhile True: pass\n'
    (tmp_path / "secrets.py").write_text(slow)  # instead of Python's
    with subprocess.Popen(
        [sys.executable, "manage.py", "doctor"],
        cwd=BASE_DIR,
        env={**os.environ, "GATEWAY_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "busy\n"
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == ""
    assert running.returncode == -signal.SIGINT


def test_a_command_makes_a_database_that_others_cannot_read(tmp_path: Path) -> None:
    """Also in a home that was made for all to look at, and before `up` was there."""
    tmp_path.chmod(0o755)
    started("manage.py", "sign_in_link", env={"GATEWAY_HOME": str(tmp_path)})
    made = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert "gateway.sqlite3" in made
    assert [name for name, mode in made.items() if mode & 0o077] == []


WRITING = """
from gateway_project import command_line, home
from gateway_project.processes import console

home.ensure = lambda: console.write("busy" * 1_000_000)
command_line.main()
"""


def test_ctrl_c_ends_a_start_while_it_writes_a_line(tmp_path: Path) -> None:
    """Python refuses to write another one then: there was a traceback."""
    with starting(WRITING, tmp_path) as running:
        assert running.stdout is not None
        assert running.stdout.read(1) == "b"  # the line is longer than the pipe
        running.send_signal(signal.SIGINT)
        assert "Traceback" not in running.stdout.read()
    assert running.returncode == command_line.INTERRUPTED


def test_paths_are_those_of_the_folder_where_a_command_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes that it starts work where the code is."""
    (tmp_path / "key").write_text("secret")
    given = {"GATEWAY_HOME": "data", "BACKUP_FOLDER": "../backups", "SECRET_KEY_FILE": "key"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LOG_FILE", "-")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["latchkey", "up"])
    monkeypatch.setattr(
        "django.core.management.execute_from_command_line", lambda _: os.chdir(BASE_DIR)
    )
    command_line.run()
    assert home.directory() == tmp_path / "data"
    assert environment.text("SECRET_KEY") == "secret"
    assert Path(environment.text("BACKUP_FOLDER")).resolve() == tmp_path.parent / "backups"
    assert os.environ["LOG_FILE"] == "-"


@pytest.mark.slow
@pytest.mark.parametrize("process", START)
def test_no_process_starts_on_a_database_of_newer_code(
    process: str, newer_database: Gateway
) -> None:
    """It ends at once with one sentence that names the version the database belongs to."""
    refused = started(*START[process], env=newer_database.env)
    assert refused.returncode == 1, refused.stdout
    assert "newer code of version 7.7.7 (core 9999" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert "ready" not in refused.stdout


@pytest.fixture(scope="module")
def newer_database(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """Return the environment of an installation that version 7.7.7 has migrated."""
    found = Gateway(folder=tmp_path_factory.mktemp("newer"), database_url=new_database())
    record = (
        "from django.db import connection as c; "
        "from django.db.migrations.recorder import MigrationRecorder as R; "
        f"R(c).record_applied('core', '{NEWER}'); "
        "from core.models import Installation, User; Installation.objects.update(version='7.7.7')"
    )
    found.manage("shell", "-v0", "-c", record)
    return found


def started(*command: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run one of our programs to its end; output and errors in ``stdout``."""
    return subprocess.run(
        child.command(sys.executable, *command),
        cwd=BASE_DIR,
        env={"PATH": "/usr/bin:/bin", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.mark.django_db
def test_migrate_notes_the_version_and_a_refusal_names_it() -> None:
    """The row is made where there is none, and kept up to date where there is one."""
    Installation.objects.all().delete()
    schema_version.note_version()
    assert Installation.objects.get().version == VERSION
    Installation.objects.update(version="7.7.7")
    with migrated_by_newer_code():
        assert "newer code of version 7.7.7" in schema_version.newer()
        assert schema_version.older() == ""
        with pytest.raises(StartError, match=r"7\.7\.7"):
            installation.migrate()
        with pytest.raises(CommandError, match=r"7\.7\.7"):
            call_command("migrate", verbosity=0)
    schema_version.note_version()
    assert Installation.objects.get().version == VERSION


@pytest.mark.django_db
def test_a_history_that_is_not_ours_is_one_sentence() -> None:
    """Migrations that were renumbered since: the first is missing, later ones are there."""
    recorder = MigrationRecorder(connection)
    recorder.record_unapplied("core", "0001_initial")
    with pytest.raises(CommandError, match="cannot upgrade") as error:
        call_command("migrate", verbosity=0)
    assert "Go on with the code that made it" in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(StartError, match="cannot upgrade"):
        installation.migrate()


@pytest.mark.django_db(transaction=True)
def test_a_failed_migration_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The true cause, and neither the server nor DATABASE_URL."""
    recorder = MigrationRecorder(connection)
    # Its change, a new table, was made: making it again fails on both databases.
    newest = max(name for app, name in recorder.applied_migrations() if app == "channels_app")
    recorder.record_unapplied("channels_app", newest)
    try:
        with pytest.raises(StartError) as error:
            installation.migrate()
    finally:
        recorder.record_applied("channels_app", newest)
    said = str(error.value)
    assert f"The migration channels_app.{newest} failed" in said
    causes = ("already exists", "duplicate column", "no such index")
    assert any(cause in said for cause in causes)
    assert "DATABASE_URL" not in said


@pytest.mark.django_db
def test_the_admin_shows_the_version_and_the_remains_of_a_deletion(client: Client) -> None:
    """In the foot of its pages; and before a user is deleted, which data stays for how long."""
    owner, _ = installation.ensure_owner()
    assert owner is not None
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    assert f"Latchkey {VERSION}" in client.get("/admin/").content.decode()
    ada = User.objects.create(username="ada")
    page = client.get(f"/admin/core/user/{ada.pk}/delete/").content.decode()
    assert "Their files leave the disk within 25 hours" in page


@pytest.mark.slow
def test_each_process_logs_its_description_at_the_start(gateway: Gateway) -> None:
    """Version, process, database, broker and address, and no secret among them."""
    for name, words in (("web", "process web"), ("runs", "queue runs and long")):
        wait_until(lambda name=name: "starts:" in gateway.log(name), what="the first line")  # type: ignore[misc]
        line = next(each for each in gateway.log(name).splitlines() if "starts:" in each)
        for said in (VERSION, words, "database ", "broker 127.0.0.1:", gateway.base_url):
            assert said in line
        assert gateway.broker.password not in line


@pytest.mark.django_db
def test_a_database_that_does_not_answer_stops_no_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine starts before its database does; the process says so and waits."""

    def fails() -> str:
        raise DatabaseError("gone")

    monkeypatch.setattr(schema_version, "newer", fails)
    monkeypatch.setattr(connection, "close", lambda: None)
    monkeypatch.setattr("django.setup", lambda: None)
    begin.begin("web")
    assert "The database does not answer" in caplog.text


@pytest.mark.django_db
def test_a_process_may_open_as_many_files_as_the_machine_permits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A shell and systemd give 1,024: fewer than a worker has answers, or a web process chats."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr("django.setup", lambda: None)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        begin.begin("web")
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(before[1], 65_536)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.django_db
def test_a_link_that_signs_in_goes_only_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A journal is kept, and read by others."""
    monkeypatch.setattr(installation, "collect_static", lambda: False)
    monkeypatch.delenv(plan.TOKEN, raising=False)
    Up().prepare()
    assert plan.TOKEN not in os.environ
    plan.announce(url="http://127.0.0.1:1", services=[])
    said = capsys.readouterr().out
    assert "/sign-in/" not in said
    assert "A link that signs you in: .venv/bin/python manage.py sign_in_link" in said


@pytest.mark.django_db
def test_files_of_another_machine_or_database_are_noticed(
    tmp_path: Path, settings: pytest.FixtureRequest
) -> None:
    """The first folder is marked; another one, and an empty one, is said to be the wrong one."""
    first, second = tmp_path / "one", tmp_path / "two"
    Installation.objects.all().delete()
    settings.GATEWAY_HOME = str(first)  # type: ignore[attr-defined]
    assert storage.misplaced() == ""
    assert storage.misplaced() == ""
    settings.GATEWAY_HOME = str(second)  # type: ignore[attr-defined]
    assert "not those of this database" in storage.misplaced()
    storage.adopt_folder()
    assert storage.misplaced() == ""
    settings.GATEWAY_HOME = str(first)  # type: ignore[attr-defined]
    assert "not those of this database" in storage.misplaced()

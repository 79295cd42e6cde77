"""Each obstacle to a start is named, with a fix, before anything is started."""

import errno
import io
import json
import os
import platform
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http.request import split_domain_port, validate_host

from channels_app.ops.doctor import configuration
from gateway_project import command_line, environment, home
from gateway_project.processes import (
    broker,
    console,
    listener,
    model_files,
    model_server,
    plan,
    ports,
    preflight,
    state,
)
from tests.gateway_project.processes.ups import manage


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    """Yield a listening socket on a free port."""
    with listener.listen(host="127.0.0.1", port=0) as listening:
        yield listening


def command_env(**extra: str) -> dict[str, str]:
    """Return the environment of a `manage.py` that reads only what the test gives."""
    return {"PATH": os.environ["PATH"], "GATEWAY_PORT": "0", **extra}


def test_a_home_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Here a file is where the folder should be; one line, no traceback."""
    (tmp_path / "file").write_text("")
    home = tmp_path / "file" / "home"
    refused = manage("up", env=command_env(GATEWAY_HOME=str(home)))
    assert refused.returncode == 1
    assert f"GATEWAY_HOME ({home}) cannot be used" in refused.stdout
    assert "set GATEWAY_HOME to another folder" in refused.stdout
    assert "Traceback" not in refused.stdout
    with pytest.raises(preflight.StartError, match="cannot be used"):
        preflight.check_home(home)


def test_the_folder_of_a_running_gateway_is_of_its_user_alone(tmp_path: Path) -> None:
    """Whatever the umask, and the mode of a home that somebody has made: the next start runs the
    script that an update left there."""
    mask = os.umask(0)
    try:
        preflight.check_home(tmp_path)
    finally:
        os.umask(mask)
    folder = preflight.run_folder(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    preflight.check_home(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_home_on_a_share_without_modes_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(Path, "chmod", refuse)
    preflight.check_home(tmp_path)


def test_a_terminal_of_another_encoding_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of an unknown sender, or a line of a log, has signs that it has not."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="iso-8859-1"))
    console.settle()
    console.write("für … \N{REPLACEMENT CHARACTER}")
    assert raw.getvalue() == b"f\xfcr \\u2026 \\ufffd\n"


def test_a_command_before_the_first_start_names_the_one_that_helps(tmp_path: Path) -> None:
    """In one line: there are no tables yet."""
    env = command_env(GATEWAY_HOME=str(tmp_path))
    refused = manage("sign_in_link", env=env)
    assert refused.returncode == 1
    assert refused.stdout.startswith("The database does not answer as it should: no such table")
    assert f"It is {tmp_path}/gateway.sqlite3: if your gateway has another one" in refused.stdout
    assert "`.venv/bin/python manage.py migrate` first" in refused.stdout
    assert refused.stdout.count("\n") == 1
    assert "Traceback" in manage("sign_in_link", "--traceback", env=env).stdout


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than 200 MB free."""
    monkeypatch.setattr(preflight, "MINIMUM_FREE_BYTES", 2**62)
    with pytest.raises(preflight.StartError, match="Free some space"):
        preflight.check_home(tmp_path)


def test_a_missing_folder_for_temporary_files_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration failed with "disk I/O error"."""

    def none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    with pytest.raises(preflight.StartError, match="name another one in TMPDIR"):
        preflight.check_home(tmp_path)


@pytest.mark.parametrize("arguments", [("doctor",), ("migrate", "--plan"), ("help",)])
def test_a_command_whose_reader_has_gone_ends_quietly(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """As of ``| head``: a traceback, or a migration that was said to have failed."""
    reads, writes = os.pipe()
    os.close(reads)
    env = command_env(GATEWAY_HOME=str(tmp_path), DJANGO_SETTINGS_MODULE="gateway_project.settings")
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        stdout=writes,
        stderr=subprocess.PIPE,
        env=env,
        cwd=home.BASE_DIR,
        timeout=200,
        check=False,
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (command_line.UNREAD, b"")


def test_a_command_that_says_nothing_needs_no_output(tmp_path: Path) -> None:
    """As a scheduler starts one whose output is closed."""
    env = command_env(GATEWAY_HOME=str(tmp_path), DJANGO_SETTINGS_MODULE="gateway_project.settings")
    command = [sys.executable, "manage.py", "shell", "-v0", "-c", "pass"]
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    done = subprocess.run(
        closed, stderr=subprocess.PIPE, env=env, cwd=home.BASE_DIR, timeout=200, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("GATEWAY_SERVER", "apache", "must be one of daphne, uvicorn"),
        ("LOG_LEVEL", "verbose", "must be one of CRITICAL, DEBUG, ERROR"),
        ("TIME_ZONE", "Berlin", "must be the name of a time zone, like Europe/Berlin"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    """The variable and what it may be."""
    env = command_env(GATEWAY_HOME=str(tmp_path), **{name: value})
    refused = manage("up", env=env)
    assert refused.returncode == 1
    assert f"{name} {words}" in refused.stdout
    assert "Traceback" not in refused.stdout


def test_a_database_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """With what to look at; the password is not repeated."""
    url = f"postgres://someone:secret-word@127.0.0.1:{listener.free_port()}/nothing"
    refused = manage("up", env=command_env(GATEWAY_HOME=str(tmp_path), DATABASE_URL=url))
    assert refused.returncode == 1
    assert "the database could not be prepared" in refused.stdout
    assert "`manage.py migrate --traceback` shows the whole error" in refused.stdout
    assert "Check DATABASE_URL" in refused.stdout
    assert "secret-word" not in refused.stdout


def test_a_file_of_another_user_is_named(tmp_path: Path) -> None:
    """As after a copy of the home by root; folders are not opened as such a file is not."""
    (tmp_path / "gateway.sqlite3").mkdir()
    env = command_env(GATEWAY_HOME=str(tmp_path))
    for command in ("up", "sign_in_link"):
        refused = manage(command, env=env)
        assert refused.returncode == 1
        assert "unable to open database file" in refused.stdout
        assert f"this user may write {tmp_path}/gateway.sqlite3" in refused.stdout
        assert "server runs" not in refused.stdout
    (tmp_path / "secrets" / "secret_key").unlink()
    (tmp_path / "secrets" / "secret_key").mkdir()
    refused = manage("sign_in_link", env=env)
    assert refused.stdout.startswith(f"GATEWAY_HOME ({tmp_path}) cannot be used: Is a directory")
    assert f"({tmp_path}/secrets/secret_key). Run this as the user who owns it" in refused.stdout


def test_a_failing_migration_is_named(tmp_path: Path) -> None:
    """A table that is in the way."""
    env = command_env(GATEWAY_HOME=str(tmp_path))
    made = manage("shell", "-c", BLOCK_A_TABLE, env=env)
    assert made.returncode == 0, made.stdout
    refused = manage("up", env=env)
    assert refused.returncode == 1
    assert "The migration core.0001_initial failed" in refused.stdout
    assert "already exists" in refused.stdout


BLOCK_A_TABLE = (
    "from django.db import connection; "
    "connection.cursor().execute('CREATE TABLE core_user (id integer)')"
)


def test_one_home_has_one_gateway(tmp_path: Path) -> None:
    """The second holder is refused with the pid of the first; afterwards it is free again."""
    preflight.check_home(tmp_path)
    refused = pytest.raises(preflight.StartError, match=f"pid {os.getpid()}")
    with preflight.lock(tmp_path), refused:
        preflight.lock(tmp_path)
    preflight.lock(tmp_path).close()


def test_a_home_in_which_another_user_has_started_a_gateway_is_named(tmp_path: Path) -> None:
    """As root by mistake: the lock cannot be opened any more."""
    preflight.check_home(tmp_path)
    preflight.lock_file(tmp_path).mkdir()
    with pytest.raises(preflight.StartError, match=r"up\.lock cannot be opened .*chown -R"):
        preflight.lock(tmp_path)


def test_a_taken_port_is_named(listening: socket.socket) -> None:
    """With the port to try instead."""
    port = listening.getsockname()[1]
    with pytest.raises(preflight.StartError, match=f"port {port} .*GATEWAY_PORT={port + 1}"):
        listener.listen(host="127.0.0.1", port=port)


@pytest.mark.parametrize(
    ("number", "words"), [(13, "Choose one above 1023"), (99, "Check GATEWAY_HOST")]
)
def test_other_reasons_not_to_listen_are_named(number: int, words: str) -> None:
    """No right to a low port; an address that is not ours."""
    error = OSError(number, os.strerror(number))
    assert words in listener.explain(error=error, host="192.0.2.1", port=80)


def test_ports_are_chosen_once_and_kept_while_they_are_free(
    tmp_path: Path, listening: socket.socket
) -> None:
    """A broker that is started again comes back where it was; a stolen port is replaced."""
    preflight.check_home(tmp_path)
    first = ports.choose(home=tmp_path, names=("broker", "model"))
    assert set(first.values()) < set(listener.OWN_PORTS), "no connection takes them"
    assert ports.choose(home=tmp_path, names=("broker", "model")) == first
    stolen = listening.getsockname()[1]
    ports.path(tmp_path).write_text(json.dumps(first | {"broker": stolen}))
    again = ports.choose(home=tmp_path, names=("broker", "model"))
    assert again["broker"] != stolen
    assert again["model"] == first["model"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"broker": "x"}'])
def test_a_damaged_ports_file_is_replaced(tmp_path: Path, content: str) -> None:
    """It is a convenience, not a truth."""
    preflight.check_home(tmp_path)
    ports.path(tmp_path).write_text(content)
    assert ports.choose(home=tmp_path, names=("broker",)) == ports.read(tmp_path)


def test_a_state_of_a_gateway_that_is_gone_is_no_state(tmp_path: Path) -> None:
    """No process has that pid, or the file is damaged."""
    preflight.check_home(tmp_path)
    assert state.read(tmp_path) is None
    known = state.State(pid=os.getpid(), url="http://x", processes={"web": state.ProcessState()})
    state.write(home=tmp_path, state=known)
    assert state.read(tmp_path) == known
    known.pid = 2**22 + 1
    state.write(home=tmp_path, state=known)
    assert state.read(tmp_path) is None


def test_without_the_models_wheel_the_rest_runs_with_a_hint(
    tmp_path: Path,
    listening: socket.socket,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Another processor or system: no embedded model, and how to name another one."""
    preflight.check_home(tmp_path)
    monkeypatch.delenv("REDIS_URL")
    monkeypatch.setattr(model_files, "package_folder", lambda _package: None)
    names = [
        each.name for each in plan.services(folder=tmp_path, url="http://x", listening=listening)
    ]
    assert names == ["broker", "web", "worker"]
    said = capsys.readouterr().out
    assert "no embedded model server for this system" in said
    assert "set GATEWAY_MODEL_URL" in said


def test_without_the_weights_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server alone answers nothing."""
    monkeypatch.setattr(
        model_files, "package_folder", lambda name: Path("/") if name == "xllamacpp" else None
    )
    assert "weights" in model_files.missing_parts()


def test_a_model_that_never_answers_is_not_ready(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port is open, the first completion hangs: the server gives up and is started again."""
    monkeypatch.setattr(model_server, "LOAD_SECONDS", 0.3)
    assert not model_server.wait_for_completion(port=listening.getsockname()[1], key="x")


def test_a_model_server_without_weights_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its last words are what the supervisor shows."""
    monkeypatch.setenv("GATEWAY_MODEL_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("GATEWAY_MODEL_KEY", "x")
    monkeypatch.setattr(model_files, "weights", lambda: None)
    monkeypatch.setattr(model_files, "missing_parts", lambda: "the weights are missing")
    assert model_server.main() == 1
    assert "the weights are missing" in capsys.readouterr().err


def test_the_parts_of_the_embedded_model_are_here() -> None:
    """On the machines that we test on, nothing is missing."""
    assert model_files.missing_parts() == ""
    assert model_files.package_folder("no_such_package") is None


def test_without_the_brokers_binary_it_says_how_to_name_one(
    tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no gateway without a broker: the start ends here."""
    preflight.check_home(tmp_path)
    monkeypatch.delenv("REDIS_URL")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(preflight.StartError, match="set REDIS_URL"):
        plan.services(folder=tmp_path, url="http://x", listening=listening)


def test_a_named_broker_and_model_are_used_instead_of_ours(
    tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``REDIS_URL`` and ``GATEWAY_MODEL_URL`` reach the children as they are."""
    preflight.check_home(tmp_path)
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere:6379/0")
    monkeypatch.setenv("GATEWAY_MODEL_URL", "http://elsewhere/v1")
    children = {
        each.name: each
        for each in plan.services(folder=tmp_path, url="http://x", listening=listening)
    }
    assert list(children) == ["web", "worker"]
    assert children["worker"].env["REDIS_URL"] == "redis://elsewhere:6379/0"
    assert children["worker"].env["GATEWAY_MODEL_URL"] == "http://elsewhere/v1"
    assert children["web"].fds == (listening.fileno(),)


def test_the_embedded_model_is_made_known_to_the_workers(
    tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Address, key, name and window; no secret is an argument of any process."""
    preflight.check_home(tmp_path)
    monkeypatch.setattr(home, "read_secret", lambda name: f"secret-{name}")
    monkeypatch.delenv("REDIS_URL")
    children = {
        each.name: each
        for each in plan.services(folder=tmp_path, url="http://x", listening=listening)
    }
    env = children["worker"].env
    assert env["GATEWAY_MODEL_URL"].startswith("http://127.0.0.1:")
    assert env["GATEWAY_MODEL_KEY"] == "secret-model_key"
    assert env["GATEWAY_MODEL"] == "smollm2-135m-instruct"
    assert env["LLM_IS_EMBEDDED"] == "1"
    assert env["REDIS_URL"].startswith("redis://:secret-broker_password@127.0.0.1:")
    assert not any("secret-" in part for each in children.values() for part in each.arguments)


def test_our_address_is_this_machine_unless_the_owner_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``GATEWAY_URL`` wins; the port is the one that was bound. A socket of IPv6 takes no IPv4."""
    monkeypatch.delenv("GATEWAY_URL", raising=False)
    assert plan.url(port=8123) == "http://127.0.0.1:8123"
    for host in ("::1", "::"):
        monkeypatch.setenv("GATEWAY_HOST", host)
        assert plan.url(port=8123) == "http://[::1]:8123"
    bound = {"0.0.0.0": "127.0.0.1", "10.0.0.5": "10.0.0.5", "fd00::5": "[fd00::5]"}
    for host, here in bound.items():
        monkeypatch.setenv("GATEWAY_HOST", host)
        assert plan.url(port=8123) == f"http://{here}:8123", "nothing listens elsewhere"
    monkeypatch.setenv("GATEWAY_URL", "https://chat.example.org/")
    assert plan.url(port=8123) == "https://chat.example.org"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("HTTPS://Chat.Example.org/", "https://chat.example.org"),
        ("https://chat.example.org:443", "https://chat.example.org"),
        ("https://chat.example.org:8443", "https://chat.example.org:8443"),
        ("http://chat.example.org:80", "http://chat.example.org"),
        ("http://chat.example.org:443", "http://chat.example.org:443"),
        ("http://[2001:DB8::1]:8000", "http://[2001:db8::1]:8000"),
        ("https://straße.example", "https://xn--strae-oqa.example"),
    ],
)
def test_our_address_is_written_as_browsers_write_it(
    monkeypatch: pytest.MonkeyPatch, given: str, found: str
) -> None:
    """Origins are compared with it, and ``https`` makes cookies Secure."""
    monkeypatch.setenv("GATEWAY_URL", given)
    assert environment.origin("GATEWAY_URL", "") == found


@pytest.mark.parametrize("given", ["proxy", "127.0.0.1:8000", "*, 10.0.0"])
def test_a_proxy_without_an_address_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """It is compared with addresses: with a name all pages would redirect for ever."""
    monkeypatch.setenv("GATEWAY_TRUSTED_PROXIES", given)
    with pytest.raises(ImproperlyConfigured, match=r"GATEWAY_TRUSTED_PROXIES must be addresses"):
        environment.proxies("GATEWAY_TRUSTED_PROXIES")
    monkeypatch.setenv("GATEWAY_TRUSTED_PROXIES", "10.0.0.5/8, ::1, *")
    assert environment.proxies("GATEWAY_TRUSTED_PROXIES") == ["10.0.0.0/8", "::1", "*"]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("localhost:11434/v1", "like http://127.0.0.1:11434/v1"),
        ('"http://10.0.0.5/v1"', "like http://127.0.0.1:11434/v1"),  # Docker keeps the quotes
        ("http://10.0.0.5:99999/v1", "like http://127.0.0.1:11434/v1"),
        ("https://llm.example/v1/chat/completions", "without /chat/completions"),
    ],
)
def test_a_model_server_without_an_address_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, given: str, wrong: str
) -> None:
    """Each turn failed, without the word that would have helped. The error names the variable that
    is set: the old one may be there for other programs.
    """
    for name in ("GATEWAY_MODEL_URL", "LLM_BASE_URL"):
        with monkeypatch.context() as patch:
            patch.setenv(name, given)
            with pytest.raises(ImproperlyConfigured, match=f"^{name} must .*{wrong}"):
                environment.server("GATEWAY_MODEL_URL")
    monkeypatch.setenv("GATEWAY_MODEL_URL", " https://llm.example/v1/ ")
    assert environment.server("GATEWAY_MODEL_URL") == "https://llm.example/v1"
    monkeypatch.setenv("GATEWAY_MODEL_URL", "")
    assert environment.server("GATEWAY_MODEL_URL") == ""


def test_a_port_that_is_none_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_PORT", "65536")
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_PORT must be at most 65535"):
        environment.port("GATEWAY_PORT", 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OCCURRENCE_DAYS", "999999"),
        ("HELD_MESSAGE_HOURS", "99999999"),
        ("QUEUE_ALERT_MINUTES", "9999999999"),
        ("UNDELIVERED_SECONDS", "99999999999"),
        ("DEBOUNCE_MAX_MILLISECONDS", "99999999999999999999"),
    ],
)
def test_a_time_for_ever_is_a_century(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """No date is so far away: each look for what is older would fail later, in the workers."""
    monkeypatch.setenv(name, value)
    unit = {f"{name.rpartition('_')[2].lower()}": environment.number(name, 1)}
    assert timedelta(**unit) == timedelta(days=36_500)


def test_a_time_zone_that_the_system_does_not_know_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python finds it in its own package; Django would end with a traceback."""
    monkeypatch.setattr(environment, "SYSTEM_ZONES", tmp_path)
    (tmp_path / "Europe").mkdir()
    (tmp_path / "Europe" / "Berlin").touch()
    monkeypatch.setenv("TIME_ZONE", "Europe/Berlin")
    assert environment.zone("TIME_ZONE", "UTC") == "Europe/Berlin"
    monkeypatch.setenv("TIME_ZONE", "Europe/Paris")
    with pytest.raises(ImproperlyConfigured, match="TIME_ZONE must be the name of a time zone"):
        environment.zone("TIME_ZONE", "UTC")


def test_a_secret_in_a_file_that_is_no_text_stops_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_bytes(b"\xff\xfe")
    monkeypatch.setenv("SECRET_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(ImproperlyConfigured, match=r"SECRET_KEY_FILE names a file .*no text"):
        environment.text("SECRET_KEY")


@pytest.mark.parametrize(
    ("address", "asked"),
    [
        ("http://[2001:db8::1]:8000", "[2001:db8::1]:8000"),
        ("https://Chat.example.org", "chat.example.org"),
    ],
)
def test_the_host_of_our_address_is_allowed_as_requests_name_it(address: str, asked: str) -> None:
    domain, _ = split_domain_port(asked)
    assert validate_host(domain, [environment.host_of(address)])


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("chat.example.org:8443", "chat.example.org:8443"),
        ("https://Chat.Example.org/", "chat.example.org"),
        ("[::1]:8000", "[::1]:8000"),
        ("2001:DB8::1", "[2001:db8::1]:8000"),
        ("10.0.0.5:8000", "10.0.0.5:8000"),
        ("straße.example", "xn--strae-oqa.example"),
        ("nas.local.", "nas.local"),
        (".example.org:8000", "chat.example.org:8000"),
        ("*.example.org", "chat.example.org"),
        ("*", "any.example"),
    ],
)
def test_an_allowed_host_is_taken_as_it_is_meant(
    monkeypatch: pytest.MonkeyPatch, given: str, asked: str
) -> None:
    """With its port no request had it: each was answered that this host is not allowed."""
    monkeypatch.setenv("ALLOWED_HOSTS", f"nas, {given}")
    domain, _ = split_domain_port(asked)
    allowed = environment.hosts("ALLOWED_HOSTS", "localhost")
    assert validate_host(domain, allowed)
    assert validate_host("nas", allowed)
    assert given == "*" or not validate_host("other.example", allowed)


@pytest.mark.parametrize("given", ["chat.example.org/app", "chat.example.org:port", "[::1", "a@b"])
def test_an_allowed_host_that_is_none_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", given)
    with pytest.raises(ImproperlyConfigured, match="ALLOWED_HOSTS must be names like"):
        environment.hosts("ALLOWED_HOSTS", "localhost")


def test_a_secret_may_be_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``REDIS_URL_FILE`` names one; the supervisor reads it as the settings do."""
    (tmp_path / "url").write_text("redis://file:6379/0\n")
    monkeypatch.delenv("REDIS_URL")
    monkeypatch.setenv("REDIS_URL_FILE", str(tmp_path / "url"))
    assert environment.text("REDIS_URL") == "redis://file:6379/0"


def test_blanks_around_a_value_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of Kubernetes that ``echo`` wrote ends with a line, and Docker keeps what follows a
    value in its file: the metrics were refused, and no page had an allowed host.
    """
    given = {
        "METRICS_TOKEN": "a-token\n",
        "GATEWAY_URL": "https://a.example ",
        "GATEWAY_HOME": " /a ",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    command_line.settle_paths()
    assert home.directory() == Path("/a")
    assert environment.text("METRICS_TOKEN") == "a-token"
    assert environment.origin("GATEWAY_URL", "") == "https://a.example"


def test_variables_of_other_programs_stop_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a shell of root's whose user was changed: a path that is hidden, and no path."""
    given = {"TOOL_CONFIG_FILE": "/root/.toolrc", "CERTIFICATE_FILE": "M" * 5000}
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    def hidden(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    command_line.settle_paths()
    monkeypatch.setattr(Path, "is_file", hidden)
    command_line.settle_paths()
    assert {name: os.environ[name] for name in given} == given


def test_blanks_around_a_key_stay_a_part_of_it(tmp_path: Path) -> None:
    """Sessions and credentials of an installation were signed and encrypted with them."""
    keys = {"SECRET_KEY": f" {'k' * 50}\n", "BACKUP_PASSPHRASE": "a phrase "}
    code = "from gateway_project import settings as s; print([s.SECRET_KEY, s.BACKUP_PASSPHRASE])"
    env = {**os.environ, **keys, "GATEWAY_HOME": str(tmp_path)}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    assert found.stdout.decode().strip() == str(list(keys.values()))


@pytest.mark.parametrize("given", ["localhost:6379", "'redis://localhost/0'", "http://broker:6379"])
def test_an_address_that_is_no_brokers_stops_the_start(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """Celery took it for one of RabbitMQ, and looked for that for ever."""
    monkeypatch.setenv("REDIS_URL", given)
    with pytest.raises(ImproperlyConfigured, match="REDIS_URL must be like redis://:"):
        environment.broker("REDIS_URL", str, in_production=False)


@pytest.mark.parametrize(
    "password", [*(f"secret-word{sign}x" for sign in "#/?["), "12#secret-word", "12/secret-word"]
)
def test_a_broker_whose_address_cannot_be_read_is_refused_without_its_secret(
    monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    """A password of random characters: each process ended with a traceback."""
    monkeypatch.setenv("REDIS_URL", f"redis://:{password}@broker:6379/0")
    with pytest.raises(ImproperlyConfigured, match="REDIS_URL must be like redis://:") as caught:
        environment.broker("REDIS_URL", str, in_production=True)
    assert "secret-word" not in str(caught.value)


def test_an_address_of_the_gateway_that_cannot_be_read_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GATEWAY_URL", "http://[2001:db8::1:8000")
    with pytest.raises(ImproperlyConfigured, match="GATEWAY_URL must be like"):
        environment.origin("GATEWAY_URL", "")
    monkeypatch.setenv("GATEWAY_URL", "https://ü..example")
    with pytest.raises(ImproperlyConfigured, match="cannot be the name of a host"):
        environment.origin("GATEWAY_URL", "")


def test_a_broker_that_is_not_there_or_not_ours_does_not_answer(listening: socket.socket) -> None:
    """The port is closed; the server is silent."""
    assert not broker.answers(port=listener.free_port(), password="x")
    assert not broker.answers(port=listening.getsockname()[1], password="x")


def test_the_models_old_settings_are_read_and_named(
    tmp_path: Path, listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``LLM_MODEL`` breaks the ``llm`` command in the same shell; ours has a name of its own."""
    preflight.check_home(tmp_path)
    monkeypatch.setenv("LLM_BASE_URL", "http://elsewhere/v1")
    monkeypatch.setenv("LLM_MODEL", "old")
    assert environment.renamed("GATEWAY_MODEL") == "old"
    assert environment.old_names() == {
        "LLM_MODEL": "GATEWAY_MODEL",
        "LLM_BASE_URL": "GATEWAY_MODEL_URL",
    }
    assert plan.uses_own_model()
    monkeypatch.setenv("GATEWAY_MODEL", "new")
    assert environment.renamed("GATEWAY_MODEL") == "new"
    assert "LLM_MODEL" not in environment.old_names()
    monkeypatch.setattr(settings, "GATEWAY_OLD_NAMES", environment.old_names(), raising=False)
    [finding] = configuration.names()
    assert "LLM_BASE_URL is now called GATEWAY_MODEL_URL" in finding.what

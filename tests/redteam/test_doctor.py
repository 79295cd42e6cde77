"""``manage.py doctor`` and the dashboard report problems, and none on a safe installation."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from channels_app.ops.doctor import configuration, examination, machine, versions, work
from core.conversations import outbox
from core.database import transactions
from core.database.transactions import atomic_write
from core.lib import encryption
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, Message, User
from gateway_project.home import BASE_DIR
from tests.servers import open_broker

GOOD = "T3st-key_of-48-bytes-that-nobody-would-ever-guess-0123456789"
SAFE = {
    "DEBUG": False,
    "SECRET_KEY": GOOD,
    "GATEWAY_ENCRYPTION_KEYS": [GOOD[::-1]],
    "GATEWAY_HOST": "127.0.0.1",
    "GATEWAY_URL": "https://chat.example.org",
    "GATEWAY_HTTPS": True,
    "GATEWAY_TRUSTED_PROXIES": ["127.0.0.1"],
    "GATEWAY_SERVER": "uvicorn",
    "ALLOWED_HOSTS": ["chat.example.org"],
    "RATE_PER_MINUTE_USER": 100,
    "RATE_PER_MINUTE_KEY": 600,
    "RATE_PER_MINUTE_ADDRESS": 1200,
}


@pytest.fixture
def safe(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set safe values for all settings."""
    monkeypatch.setattr(configuration, "database_file", lambda: None)
    for name, value in SAFE.items():
        setattr(settings, name, value)
    tmp_path.chmod(0o700)
    (tmp_path / "secrets").mkdir(mode=0o700)
    (tmp_path / "secrets" / "secret_key").touch(mode=0o600)
    settings.GATEWAY_HOME = tmp_path
    return settings


def ids(found: Any) -> set[tuple[str, str]]:
    """Return level and id of the findings; check that each has a text and a fix, and none holds a
    key."""
    every = list(found)
    for each in every:
        assert each.what.endswith((".", ")")) or ":" in each.what, each
        assert each.fix
        assert GOOD not in each.what + each.fix
    return {(each.level, each.id) for each in every}


def test_a_safe_configuration_has_no_finding(safe: Any) -> None:
    assert ids(configuration.examine()) == set()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("DEBUG", True, ("error", "debug")),
        ("SECRET_KEY", "short", ("error", "secret-key")),
        ("SECRET_KEY", "django-insecure-" + GOOD, ("error", "secret-key")),
        ("SECRET_KEY", "a" * 60, ("error", "secret-key")),
        ("GATEWAY_ENCRYPTION_KEYS", [GOOD], ("warning", "encryption-key")),
        ("GATEWAY_ENCRYPTION_KEYS", [GOOD[::-1], "changeme"], ("error", "encryption-key")),
        ("METRICS_TOKEN", "m", ("warning", "metrics-token")),
        ("ALLOWED_HOSTS", ["*"], ("error", "hosts")),
        ("ALLOWED_HOSTS", [".example.org"], ("warning", "hosts")),
        ("GATEWAY_HOST", "0.0.0.0", ("warning", "public-bind")),
        ("GATEWAY_HOST", "::", ("warning", "public-bind")),
        ("GATEWAY_TRUSTED_PROXIES", [], ("error", "proxy")),
        ("GATEWAY_TRUSTED_PROXIES", ["*"], ("error", "proxy")),
        ("GATEWAY_HTTPS", False, ("error", "plain-http")),
        ("RATE_PER_MINUTE_USER", 0, ("warning", "rate-limit")),
        ("RATE_PER_MINUTE_KEY", 0, ("warning", "rate-limit")),
        ("RATE_PER_MINUTE_ADDRESS", 0, ("warning", "rate-limit")),
    ],
)
def test_each_unsafe_setting_is_one_finding(
    name: str, value: object, expected: tuple[str, str], safe: Any
) -> None:
    setattr(safe, name, value)
    assert ids(configuration.examine()) == {expected}


def test_plain_http_on_this_machine_alone_is_fine_and_on_a_public_port_is_not(safe: Any) -> None:
    safe.GATEWAY_HTTPS, safe.GATEWAY_URL = False, "http://127.0.0.1:8000"
    assert ids(configuration.examine()) == set()
    safe.GATEWAY_HOST = "192.0.2.1"
    assert ids(configuration.examine()) == {("error", "plain-http")}
    safe.GATEWAY_SERVER = "daphne"
    assert ("warning", "daphne") in ids(configuration.examine())


def test_rc3_a_broker_that_answers_without_password_is_an_error(safe: Any, tmp_path: Path) -> None:
    """[RC3]"""
    with open_broker(tmp_path / "open") as port:
        safe.REDIS_URL = f"redis://:useless@127.0.0.1:{port}/0"
        assert ids(configuration.examine()) == {("error", "broker-password")}


@pytest.mark.parametrize(("host", "level"), [("127.0.0.1", "warning"), ("192.0.2.1", "error")])
def test_rc3_an_address_without_a_password_is_named(
    host: str, level: str, safe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RC3]"""
    monkeypatch.setattr(configuration, "answers_without_password", lambda *_: False)
    safe.REDIS_URL = f"redis://{host}:6379/0"
    assert ids(configuration.examine()) == {(level, "broker-password")}


def test_the_broker_of_another_program_is_none_of_ours(
    safe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first start, as after a restore: the advice was to give that one a password."""
    monkeypatch.setattr(configuration, "answers_without_password", lambda *_: True)
    safe.REDIS_URL = "redis://127.0.0.1:6379/0"
    safe.REDIS_IS_EMBEDDED = True
    assert ids(configuration.examine()) == set()


def test_rc3_in_production_a_start_with_an_open_broker_elsewhere_is_refused(tmp_path: Path) -> None:
    """[RC3]"""
    env = {
        "PATH": os.environ["PATH"],
        "GATEWAY_HOME": str(tmp_path),
        "GATEWAY_URL": "https://chat.example.org",
        "REDIS_URL": "redis://redis.example.org:6379/0",
    }
    done = manage(env, "up")
    assert done.returncode != 0
    assert "REDIS_URL names a broker on another machine without a password" in done.stderr
    assert "Traceback" not in done.stderr


def manage(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``manage.py`` in an environment of its own."""
    command = [sys.executable, str(BASE_DIR / "manage.py"), *arguments]
    return subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, timeout=200
    )


def test_files_that_others_may_open_are_named_with_the_command_that_closes_them(safe: Any) -> None:
    home: Path = safe.GATEWAY_HOME
    (home / "secrets" / "secret_key").chmod(0o644)
    home.chmod(0o755)
    found = list(configuration.modes())
    assert ids(found) == {("warning", "file-mode"), ("error", "file-mode")}
    assert f"chmod go-rwx {home / 'secrets' / 'secret_key'}" in {each.fix for each in found}
    database = home / "gateway.sqlite3"
    database.touch(mode=0o644)
    assert ids(configuration.readable_database(database)) == {("error", "file-mode")}
    home.chmod(0o700)
    assert ids(configuration.readable_database(database)) == set()


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        (10 * 2**30, set()),
        (500 * 2**20, {("warning", "disk")}),
        (10 * 2**20, {("error", "disk")}),
    ],
)
def test_little_disk_is_a_warning_and_none_is_an_error(
    free: int, expected: set[tuple[str, str]], safe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert ids(machine.disk()) == expected


def test_a_home_that_is_gone_is_named(safe: Any) -> None:
    safe.GATEWAY_HOME = Path("/nowhere/at/all")
    assert ids(machine.disk()) == {("error", "home")}


def test_a_package_below_its_floor_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids(versions.examine()) == set()
    monkeypatch.setattr(versions, "installed", lambda name: "5.2.9" if name == "django" else "")
    assert ids(versions.examine()) == {("error", "version")}


@pytest.mark.parametrize(
    ("version", "floor", "below"),
    [
        ("5.2.13", "5.2.14", True),
        ("5.2.14", "5.2.14", False),
        ("5.10", "5.9.9", False),
        ("6", "6.0.0", False),
        ("6.0.0rc1", "6", False),
        ("1.22.99", "1.23", True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, floor: str, *, below: bool) -> None:
    assert versions.is_below(version, floor) is below


def test_the_lock_file_and_the_requirements_stand_above_every_floor() -> None:
    """A version that is locked below its floor fails the build, whatever an audit says."""
    locked: dict[str, str] = {}
    name = ""
    for line in (BASE_DIR / "uv.lock").read_text().splitlines():
        key, _, value = line.partition(" = ")
        if key == "name":
            name = value.strip('"')
        elif key == "version":
            locked[name] = value.strip('"')
    assert locked["django"]
    for package, floor in versions.FLOORS.items():
        if package in locked:
            assert not versions.is_below(locked[package], floor), package


@pytest.mark.django_db
class TestDatabase:
    """Findings about the rows of the tables."""

    @pytest.fixture(autouse=True)
    def owner(self) -> User:
        """Return an owner."""
        return User.objects.create(username="owner", is_owner=True, is_staff=True)

    def test_a_well_kept_installation_has_no_finding(self) -> None:
        assert ids(work.people()) == ids(work.channels()) == ids(work.deliveries()) == set()
        assert ids(work.migrations()) == ids(machine.clock()) == set()

    def test_a1_an_open_list_and_a_missing_owner_are_found(self, owner: User) -> None:
        User.objects.create(username="guest", only_listed=False)
        found = list(work.people())
        assert ids(found) == {("warning", "open-list")}
        assert "guest" in found[0].what
        owner.is_active = False
        owner.save()
        assert ("error", "no-owner") in ids(work.people())

    def test_a_failing_webhook_and_locked_or_old_credentials_are_found(self, settings: Any) -> None:
        settings.GATEWAY_ENCRYPTION_KEYS = ["old"]
        row = ChannelAccount.objects.create(
            channel="telegram", name="bot", secrets=encryption.encrypt({"token": "t"})
        )
        assert ids(work.channels()) == set()
        settings.GATEWAY_ENCRYPTION_KEYS = ["new", "old"]
        assert ids(work.channels()) == {("warning", "sealed")}
        settings.GATEWAY_ENCRYPTION_KEYS = ["new"]
        assert ids(work.channels()) == {("error", "sealed")}
        settings.GATEWAY_ENCRYPTION_KEYS = ["old"]
        row.status, row.status_text = "error", "Telegram cannot deliver: 502 (3 wait)."
        row.save()
        found = list(work.channels())
        assert ids(found) == {("error", "channel")}
        assert "Telegram cannot deliver: 502" in found[0].what

    def test_dead_and_doubtful_deliveries_and_unread_messages_are_counted(self) -> None:
        row = ChannelAccount.objects.create(channel="telegram", name="bot")
        for number, state in enumerate(("dead", "dead", "uncertain")):
            with atomic_write():
                made = outbox.enqueue(
                    key=str(number),
                    account_id=row.id,
                    conversation="c",
                    target={},
                    payload={},
                )
            Delivery.objects.filter(pk=made.pk).update(state=state)
        InboundMessage.objects.create(
            account=row, sender="", chat="", state="quarantined", received_at=timezone.now()
        )
        found = list(work.deliveries())
        assert ids(found) == {
            ("error", "dead-deliveries"),
            ("warning", "uncertain-deliveries"),
            ("warning", "quarantined"),
        }
        assert [each.what for each in found] == [
            "2 messages could not be delivered.",
            "It is unknown whether 1 message arrived.",
            "1 incoming message could not be read.",
        ]

    def test_clocks_that_disagree_are_found(
        self, owner: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = timezone.now()
        monkeypatch.setattr(transactions, "now", lambda: now + timedelta(seconds=60))
        assert ids(machine.clock()) == {("error", "clock")}
        monkeypatch.undo()
        begun = now - timedelta(seconds=60)  # of checks that took that long: on a busy machine
        assert ("error", "clock") not in ids(examination.examine(now=begun))
        account = ChannelAccount.objects.create(channel="web")
        session = ChatSession.objects.create(user=owner, account=account, chat="c")
        Message.objects.create(session=session, role="user", text="hi")
        Message.objects.update(created_at=now + timedelta(hours=1))
        assert ids(machine.clock()) == {("error", "clock")}

    def test_problems_of_readyz_are_findings(self) -> None:
        assert ("error", "not-ready") in ids(work.running())  # no worker runs in this test

    def test_messages_that_wait_for_a_platform_need_no_process_to_be_started(self) -> None:
        account = ChannelAccount.objects.create(channel="telegram", deliveries_held="Unauthorized")
        since = timezone.now() - timedelta(days=1)
        Delivery.objects.create(
            account=account, dedupe_key="a", conversation="a", tries=3, queued_at=since
        )
        (found,) = (each for each in work.running() if "1 message has not been" in each.what)
        assert "Unauthorized" in found.what
        assert found.fix.startswith("Admin, Accounts: “Test the connection”")

    def test_the_dashboard_shows_findings_to_owners_and_not_to_other_staff(
        self, owner: User, client: Client, settings: Any
    ) -> None:
        cache.clear()
        settings.RATE_PER_MINUTE_USER = 0
        client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
        page = client.get("/admin/").content.decode()
        assert "RATE_PER_MINUTE_USER is 0" in page
        assert "Unset RATE_PER_MINUTE_USER" in page
        sam = User.objects.create(username="sam", is_staff=True)
        client.force_login(sam, backend="django.contrib.auth.backends.ModelBackend")
        assert "RATE_PER_MINUTE_USER is 0" not in client.get("/admin/").content.decode()
        cache.clear()


SERVER = SimpleNamespace(close=lambda: None, vendor="postgresql")


def test_a_database_that_does_not_answer_is_one_finding(
    safe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django.db import OperationalError

    def fail() -> None:
        raise OperationalError("secret-password-in-a-message")

    monkeypatch.setattr(work, "migrations", fail)
    monkeypatch.setattr(examination, "connection", SERVER)
    found = examination.examine(now=timezone.now())
    assert ids(found) == {("error", "database")}
    assert "secret-password" not in found[0].what


def test_the_command_has_an_exit_code_and_json_for_scripts(
    new_database: Callable[[], str], tmp_path: Path
) -> None:
    env = {"PATH": os.environ["PATH"], "GATEWAY_HOME": str(tmp_path / "home")}
    env |= {"DATABASE_URL": new_database(), "DEBUG": "1"}
    done = manage(env, "doctor", "--json")
    found = {each["id"]: each for each in json.loads(done.stdout)}
    assert done.returncode == 2
    assert {"debug", "no-owner", "not-ready"} <= set(found)
    told = manage(env, "doctor")
    assert told.returncode == 2
    assert f"error: {found['debug']['what']}\n  fix: {found['debug']['fix']}" in told.stdout

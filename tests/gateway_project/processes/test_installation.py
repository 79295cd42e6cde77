"""The first start of an installation, and later starts that leave it alone."""

import errno
import os
import threading
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from core.models import RetentionRule, User
from gateway_project import home, installation
from gateway_project.processes import broker


@pytest.mark.django_db
def test_the_owner_is_created_once() -> None:
    """A second start finds the first one's; a renamed one stays."""
    first, is_new = installation.ensure_owner()
    assert is_new
    User.objects.update(username="anna")
    second, is_new = installation.ensure_owner()
    assert not is_new
    assert second == first
    assert User.objects.count() == 1


@pytest.mark.django_db
def test_the_owner_has_all_permissions_and_no_open_list() -> None:
    """[A1] Owner, staff, superuser, only listed, no password."""
    owner, _ = installation.ensure_owner()
    assert owner is not None
    assert owner.is_owner
    assert owner.is_staff
    assert owner.is_superuser
    assert owner.only_listed
    assert not owner.has_usable_password()
    assert not owner.check_password("!")


@pytest.mark.django_db
def test_an_up_to_date_database_is_left_alone() -> None:
    """Nothing to apply; the signals that follow a migration are saved as well."""
    assert installation.migrate() == 0


@pytest.mark.django_db(transaction=True)
def test_missing_migrations_are_applied() -> None:
    """And counted."""
    call_command("migrate", "sessions", "zero", verbosity=0)
    assert installation.migrate() == 1
    assert installation.migrate() == 0


@pytest.mark.django_db(transaction=True)
def test_no_new_row_gets_the_number_of_one_deleted_before_a_migration() -> None:
    """SQLite numbers a table that a migration rebuilds from the highest row that is left: a new API
    key had the assistants and budgets of a deleted one, which name its number. Here a rule of
    retention, of which the audit names the number.
    """
    rule = RetentionRule.objects.create(kind="events", days=9)
    deleted = rule.pk
    rule.delete()
    call_command("migrate", "core", "0030", verbosity=0)
    assert installation.migrate() > 0
    assert RetentionRule.objects.create(kind="events", days=9).pk > deleted


def test_static_files_are_collected_when_they_change(tmp_path: Path, settings: Settings) -> None:
    """A changed file is collected at the next start, an unchanged one costs only a look. So is one
    that a power cut has left empty.
    """
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.txt").write_text("one")
    settings.STATIC_ROOT = tmp_path / "static"
    settings.STATIC_ROOT.mkdir()
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    settings.STATICFILES_DIRS = [source]
    assert installation.collect_static()
    assert not installation.collect_static()
    (settings.STATIC_ROOT / "a.txt").write_text("")
    assert installation.collect_static()
    assert (settings.STATIC_ROOT / "a.txt").read_text() == "one"
    assert not installation.collect_static()
    (source / "a.txt").write_text("another")
    assert installation.collect_static()
    assert (settings.STATIC_ROOT / "a.txt").read_text() == "another"


def test_two_starters_prepare_one_after_the_other(tmp_path: Path, settings: Settings) -> None:
    """The second waits until the first is done."""
    settings.GATEWAY_HOME = tmp_path
    order: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.set()
        with installation.one_at_a_time():
            order.append("second")

    waiting = threading.Thread(target=second)
    with installation.one_at_a_time():
        waiting.start()
        assert entered.wait(timeout=200)
        waiting.join(timeout=0.2)
        order.append("first")
    waiting.join(timeout=200)
    assert order == ["first", "second"]


def test_commands_beside_a_gateway_find_its_embedded_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``manage.py mcp`` in another terminal wakes the workers of ``make run`` ([D7])."""
    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path))
    usual = "redis://127.0.0.1:6379/0"
    assert broker.embedded() == usual
    home.ensure()
    assert broker.embedded() == usual
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ports.json").write_text('{"broker": 4567}')
    password = home.read_secret("broker_password")
    assert broker.embedded() == f"redis://:{password}@127.0.0.1:4567/0"
    (tmp_path / "run" / "ports.json").write_text("{")
    assert broker.embedded() == usual


def test_the_doctor_is_asked_on_a_disk_that_is_full_or_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each command makes the folder and the secrets that are missing: here none is."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path / "home"))
    home.ensure()
    monkeypatch.setattr(os, "open", full)
    home.ensure()
    home.secret_path("model_key").unlink()
    with pytest.raises(OSError, match="No space left"):
        home.ensure()


def test_keys_are_on_the_disk_before_something_is_encrypted_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their names, too: a power cut would bring the old keys back, which open nothing any more."""
    synced: list[Path] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        sync(descriptor)
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path))
    monkeypatch.setattr(os, "fsync", noting)
    home.ensure()
    assert synced[-1] == tmp_path / "secrets"
    synced.clear()
    home.replace_keys("encryption_key", ["new", "old"])
    assert [each.name for each in synced] == [f".encryption_key.{os.getpid()}", "secrets"]

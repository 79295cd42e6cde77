"""Backups of a running gateway that need no shell [X48] [X49] [X50] [X51]."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_project.backups import manifest
from tests import templates
from tests.channels_app.client import people, query
from tests.conftest import DatabaseMaker
from tests.gateway_project.backups.pairs import programs
from tests.gateways import Gateway
from tests.models_chaos.owner import Owner, signed_in
from tests.servers import wait_until

pytestmark = pytest.mark.slow
SCHEDULE = "/admin/core/backupschedule/1/change/"


@pytest.fixture
def gateway(new_database: DatabaseMaker, tmp_path: Path) -> Iterator[Gateway]:
    (tmp_path / "home").mkdir()
    extra = {"PATH": programs(), "BACKUP_FOLDER": str(tmp_path / "backups"), "BACKUP_KEEP": "2"}
    extra |= {"BACKUP_KEEP_WEEKS": "0"}
    made = Gateway(tmp_path, new_database(), extra=extra, roles=("web", "runs"))
    templates.collect_static(made)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def owner(gateway: Gateway) -> Iterator[Owner]:
    with signed_in(gateway) as found:
        yield found


def states(gateway: Gateway) -> list[str]:
    return [row[0] for row in query(gateway, "SELECT state FROM core_backup ORDER BY id")]


def made(gateway: Gateway, expected: list[str]) -> list[Path]:
    """Wait until backups are in these states; return the whole ones, the newest first."""
    wait_until(lambda: states(gateway) == expected, seconds=120, what=lambda: str(states(gateway)))
    return manifest.all_in(gateway.folder / "backups")


def let_pass(gateway: Gateway, model: str, column: str) -> None:
    """Set a time that is waited for to a past one, as soon as it is there."""
    sql = f"SELECT 1 FROM core_{model.lower()} WHERE {column} IS NOT NULL"
    wait_until(lambda: query(gateway, sql))
    code = f"from core.models import {model} as M; M.objects.update({column}='2026-01-01T00:00Z')"
    gateway.manage("shell", "-v0", "-c", code)


def back_up(owner: Owner) -> None:
    assert owner.post("/admin/core/backup/make", {}) == "/admin/core/backup/"


def test_x51_an_owner_backs_up_in_the_browser_and_old_ones_go(
    gateway: Gateway, owner: Owner
) -> None:
    """[X48] By the button, then by the clock: the time that is due is set, not waited for."""
    (ada, _) = people(gateway, number=1)
    assert ada.say("Hello").status == 200
    back_up(owner)
    (first,) = made(gateway, ["good"])
    assert first.name in owner.get("/admin/core/backup/")
    owner.submit(SCHEDULE, form="backupschedule_form", is_on="on", day=0, at="03:00")
    for number in (2, 3):
        let_pass(gateway, "BackupSchedule", "next_at")
        names = made(gateway, ["removed"] * (number - 2) + ["good"] * 2)
    assert first not in names
    gateway.manage("backup", "--verify", str(names[0]))


def test_x50_an_owner_is_told_why_no_backup_is_made(gateway: Gateway, owner: Owner) -> None:
    """The folder's place is taken by a file."""
    place = gateway.folder / "backups"
    place.write_text("taken")
    back_up(owner)
    wait_until(lambda: states(gateway) == ["failed"], seconds=120)
    assert "cannot be used" in owner.get("/admin/core/backup/")
    place.unlink()
    back_up(owner)
    made(gateway, ["failed", "good"])


def test_x49_a_backup_is_made_though_its_worker_is_killed(gateway: Gateway, owner: Owner) -> None:
    back_up(owner)
    root = gateway.folder / "backups"
    wait_until(lambda: any(root.glob(f"{manifest.PARTIAL}2*")), seconds=60)
    gateway.kill("runs", signal.SIGKILL)
    assert states(gateway) == ["running"]
    let_pass(gateway, "Backup", "lease_until")
    gateway.launch("runs")
    (backup,) = made(gateway, ["good"])
    assert not list(root.glob(f"{manifest.PARTIAL}*"))
    gateway.manage("backup", "--verify", str(backup))

"""kill -9 of ``manage.py backup`` at each of its steps: nothing half is listed or restored, and the
next one is whole [X54].
"""

import signal
from pathlib import Path

import pytest

from core.files import storage
from gateway_project.backups import manifest
from gateway_project.home import BASE_DIR
from tests.channels_app.client import query
from tests.conftest import DatabaseMaker
from tests.gateway_project.backups.killed import POINTS
from tests.gateway_project.backups.pairs import PASSPHRASE, programs
from tests.gateways import MANAGE_SECONDS, Gateway
from tests.run import of_this_turn
from tests.servers import Process, python

pytestmark = pytest.mark.slow
KILLED = "tests.gateway_project.backups.killed"


def listed(gateway: Gateway) -> list[str]:
    """Return the names of the backups that the admin shows as there."""
    return [row[0] for row in query(gateway, "SELECT name FROM core_backup WHERE state = 'good'")]


def kept(root: Path) -> list[str]:
    """Return the names of all that is in the folder of the backups but the contents of files."""
    return sorted(each.name for each in root.iterdir() if each.name not in {"files", ".lock"})


def killed(gateway: Gateway, *arguments: str) -> int:
    """Run ``killed.py`` with these arguments; return its exit code."""
    command = (KILLED, *arguments)
    log = gateway.folder / "killed.log"
    env = gateway.env
    process = Process(python(*command), log, forked=command, env=env, cwd=BASE_DIR)
    process.start()
    return process.wait(seconds=MANAGE_SECONDS)


@pytest.fixture
def gateway(new_database: DatabaseMaker, tmp_path: Path) -> Gateway:
    """Return a gateway that is not started; of its backups one is kept."""
    (tmp_path / "home" / "files" / "aa").mkdir(parents=True)
    extra = {"PATH": programs(), "BACKUP_PASSPHRASE": PASSPHRASE}
    extra |= {"BACKUP_KEEP": "1", "BACKUP_KEEP_WEEKS": "0"}
    return Gateway(folder=tmp_path, database_url=new_database(), extra=extra)


def test_x54_a_backup_that_is_killed_at_any_step_is_whole_or_none(
    gateway: Gateway, tmp_path: Path
) -> None:
    """Each of them gets further than the one before, over what that one left; ``make test`` kills
    at every second step, another day at the others."""
    root, file = tmp_path / "backups", tmp_path / "home" / "files" / "aa" / "file"
    gateway.manage("backup", "--to", str(root))
    for number, point in of_this_turn(enumerate(POINTS), parts=2):
        file.write_text(f"content {number}")  # of the ones before, nothing is left in the end
        before = manifest.all_in(root)
        assert killed(gateway, point, "backup", "--to", str(root)) == -signal.SIGKILL, point
        new = [each for each in manifest.all_in(root) if each not in before]
        assert bool(new) is (number >= list(POINTS).index("after its name")), point
        assert set(listed(gateway)) <= {each.name for each in manifest.all_in(root)}, point
        for each in new:
            gateway.manage("backup", "--verify", str(each))
        if point == "at the end of the check":
            (unfinished,) = root.glob(f"{manifest.PARTIAL}2*")
            for way in (("backup", "--verify"), ("restore",)):
                with pytest.raises(AssertionError, match="was not finished and checked"):
                    gateway.manage(*way, str(unfinished))
    gateway.manage("backup", "--to", str(root))
    (newest,) = manifest.all_in(root)
    assert kept(root) == [newest.name] == listed(gateway)
    contents = {each.name for each in (root / manifest.CONTENTS).glob("??/*")}
    assert contents == {each.sha256 for each in manifest.read(newest).files}
    assert storage.digest_of(file) in contents

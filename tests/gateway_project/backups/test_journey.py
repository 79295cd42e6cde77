"""A backup beside a running gateway, and its restore, as an operator does it [X40] [X47]."""

import hashlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway_project.backups import manifest
from gateway_project.home import BASE_DIR
from tests.channels_app.client import Client, people, query
from tests.conftest import DatabaseMaker
from tests.gateway_project.backups.pairs import PASSPHRASE, empty_url, gateway
from tests.gateways import Gateway
from tests.models_chaos.owner import signed_in
from tests.servers import Postgres, wait_until

pytestmark = pytest.mark.slow
NOTES = b"Milk, bread, eggs."
# The answer is on its way when the backup is made, however long that takes.
HANGS = [{"text": "Half of "}, {"hang": True}]
SCRIPTS = {
    name: [{"match": "slowly", "steps": steps}, {"match": "", "steps": [{"text": "Fine."}]}]
    for name, steps in {"old": HANGS, "new": [{"text": "The answer."}]}.items()
}


@dataclass
class Places:
    """The gateway that is backed up, the one that is restored, and where backups are."""

    old: Gateway
    new: Gateway
    root: Path
    ada: Client


@pytest.fixture
def places(
    new_database: DatabaseMaker, postgres: Postgres | None, tmp_path: Path
) -> Iterator[Places]:
    root = tmp_path / "backups"
    urls = {"old": new_database(), "new": empty_url(tmp_path / "new", postgres)}
    old, new = (
        gateway(tmp_path / name, url, script=SCRIPTS[name], BACKUP_PASSPHRASE=PASSPHRASE)
        for name, url in urls.items()
    )
    old.start()
    (ada, _) = people(old, number=1)
    yield Places(old, new, root, ada)
    old.stop()
    new.stop()


def states(gateway: Gateway) -> list[str]:
    return [row[0] for row in query(gateway, "SELECT state FROM core_run ORDER BY id")]


def answers(gateway: Gateway) -> list[str]:
    rows = query(gateway, "SELECT text FROM core_message WHERE role = 'assistant' ORDER BY id")
    return [row[0] for row in rows]


def uploaded(client: Client) -> str:
    """Upload a file; return its address."""
    answer = client.call("POST", "/files?name=notes.txt", NOTES)
    assert answer.status == 201, answer.raw
    return f"/files/{answer.body['id']}"


def test_x47_a_restored_gateway_answers_nothing_a_second_time(places: Places) -> None:
    """[X40] [X47] It is not known whether the question was answered after the backup."""
    old, new, ada = places.old, places.new, places.ada
    assert ada.say("Hello").body["text"] == "Fine."
    file = uploaded(ada)
    asked = ada.start("slowly, please")
    wait_until(lambda: states(old)[-1] == "running")
    said = old.manage("backup", "--to", str(places.root))
    assert "with keys" in said
    (backup,) = manifest.all_in(places.root)
    old.stop()

    said = new.manage("restore", str(backup))
    assert "1 question and" in said
    new.manage("collectstatic", "--noinput", "--verbosity", "0")
    new.start()
    client = Client(new, ada.token)
    assert client.say("Are you there?").body["text"] == "Fine."
    assert client.get(file).raw == NOTES
    assert sorted(states(new)) == ["held", "succeeded", "succeeded"]
    assert answers(new) == ["Fine.", "Fine."]
    with signed_in(new) as owner:
        assert "Held since the restore" in owner.get("/admin/")
        owner.post("/admin/core/run/held", {"choice": "go"})
        assert "Held since the restore" not in owner.get("/admin/")
    wait_until(lambda: set(states(new)) == {"succeeded"})
    assert client.result(asked).body["text"] == "The answer."
    assert len(answers(new)) == 3
    with pytest.raises(AssertionError, match=r"there already|not empty"):
        new.manage("restore", str(backup))


def test_x47_a_home_whose_restore_was_interrupted_does_not_start(places: Places) -> None:
    """A content of the backup is gone; that is found at its check too."""
    old, new = places.old, places.new
    uploaded(places.ada)
    old.manage("backup", "--to", str(places.root))
    (backup,) = manifest.all_in(places.root)
    manifest.content(places.root, hashlib.sha256(NOTES).hexdigest()).unlink()
    with pytest.raises(AssertionError, match="is missing"):
        old.manage("backup", "--verify", str(backup))
    with pytest.raises(AssertionError, match="is missing"):
        new.manage("restore", str(backup))
    for command in (["up"], ["restore", str(backup)]):
        with pytest.raises(AssertionError, match="was not finished"):
            new.manage(*command)
    for name in new.roles:
        new.launch(name)
        assert new.processes[name].wait() == 1
        assert "was not finished" in new.processes[name].tail()


def test_x40_a_backup_that_is_killed_leaves_none_and_the_next_one_is_whole(places: Places) -> None:
    old, ada = places.old, places.ada
    command = [sys.executable, str(BASE_DIR / "manage.py"), "backup", "--to", str(places.root)]
    killed = subprocess.Popen(command, env=old.env, stdout=subprocess.DEVNULL)
    wait_until(lambda: any(places.root.glob(f"{manifest.PARTIAL}2*")) or killed.poll() is not None)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    known = len(manifest.all_in(places.root))  # it may have been quick
    asked = [ada.start(f"question {number}") for number in range(20)]
    old.manage("backup", "--to", str(places.root))
    found = manifest.all_in(places.root)
    assert len(found) == known + 1
    assert not list(places.root.glob(f"{manifest.PARTIAL}*"))
    if rows := manifest.read(found[0]).rows:
        assert rows["core_run"] >= len(asked)
    old.manage("backup", "--verify", str(found[0]))
    with (found[0] / manifest.DATABASE).open("r+b") as file:
        file.seek(5000)
        file.write(b"rubbish")
    with pytest.raises(AssertionError, match="has changed"):
        old.manage("backup", "--verify", str(found[0]))
    shutil.rmtree(places.root)

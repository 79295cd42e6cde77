"""A backup of a database of an earlier version is restored by today's code [X57]."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import VERSION
from gateway_project.backups import manifest
from tests import settings
from tests.channels_app.client import Client, query
from tests.gateway_project.backups import pairs
from tests.gateways import Gateway
from tests.models_chaos.owner import signed_in
from tests.servers import Postgres, wait_until
from tests.upgrades import test_upgrades as upgrades

pytestmark = pytest.mark.slow
# Without the row that ``manage.py backup`` writes in the end: its table is newer.
MAKE = """
from pathlib import Path
from django.utils import timezone
from gateway_project.backups import making, restoring
root = Path({root!r})
with making.one_at_a_time(root):
    partial = making.make(root, passphrase="", now=timezone.now())
    restoring.verify(partial)
    making.finish(partial)
"""


@pytest.fixture
def new(request: pytest.FixtureRequest, tmp_path: Path, postgres: Postgres | None) -> Gateway:
    """Return an empty gateway with the keys of the old one."""
    return pairs.gateway(
        tmp_path / "new",
        pairs.empty_url(tmp_path / "new", postgres),
        script=[],
        **keys(request.node.callspec.params["commit"]),
    )


@pytest.fixture(autouse=True)
def stopped(new: Gateway) -> Iterator[None]:
    yield
    new.stop()


def keys(commit: str) -> dict[str, str]:
    return {name: value.format(commit) for name, value in upgrades.KEYS.items()}


@pytest.mark.parametrize("commit", upgrades.COMMITS)
def test_x57_a_backup_of_an_earlier_version_is_restored_and_goes_on(
    commit: str, new: Gateway, tmp_path: Path, postgres: Postgres | None
) -> None:
    """Its keys are valid, its conversation goes on with its history, reminders come; an open
    question waits for the owner."""
    known = json.loads((upgrades.HERE / f"{commit}.json").read_text())[settings.TEST_DATABASE]
    url = upgrades.loaded(commit, folder=tmp_path, postgres=postgres)
    old = pairs.gateway(tmp_path / "old", url, script=[], **keys(commit))
    old.manage("shell", "-v0", "-c", MAKE.format(root=str(tmp_path / "backups")))
    (backup,) = manifest.all_in(tmp_path / "backups")
    old.manage("backup", "--verify", str(backup))
    assert "core" in manifest.read(backup).migrations
    assert "1 question and" in pairs.restored(new, backup)
    new.start()
    ada = Client(new, known["token"])
    answer = ada.say("And now?", session_id=known["session"])
    assert (answer.status, answer.body["session_id"]) == (200, known["session"])
    page = ada.get(f"/api/sessions/{known['session']}/messages").raw.decode()
    assert page.index("And now?") < page.index("three years") < page.index("Minka")
    upgrades.is_reminded(ada)
    assert ada.result(known["waiting_run"]).status != 200
    with signed_in(new) as owner:
        pairs.decide(owner, go=True)
    wait_until(lambda: ada.result(known["waiting_run"]).status == 200, what="the old answer")
    assert ada.result(known["waiting_run"]).body["text"] == "This one waits for a worker."
    assert query(new, "SELECT version FROM core_installation") == [(VERSION,)]

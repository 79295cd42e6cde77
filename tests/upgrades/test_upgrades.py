"""Databases of earlier versions, each filled by its own code, under today's code.

``<commit>.<kind>.sql.gz`` is such a database as SQL; ``<commit>.json`` says what is in it. Each
release adds one: fill a gateway, stop it, ``.dump`` or ``pg_dump --inserts``.
"""

import gzip
import json
import secrets
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from core import VERSION
from tests import settings
from tests.channels_app.client import Client, query
from tests.gateways import Gateway
from tests.servers import Postgres, wait_until

pytestmark = pytest.mark.slow
HERE = Path(__file__).parent
COMMITS = sorted(each.stem for each in HERE.glob("*.json"))
# The settings of the old gateway.
KEYS = {
    "SECRET_KEY": "ssssssssssfixture-of-commit-{}-not-a-secret-of-anybody",
    "GATEWAY_ENCRYPTION_KEYS": "fixture-of-commit-{}-encryption-key",
}


def loaded(commit: str, *, folder: Path, postgres: Postgres | None) -> str:
    """Load the database of ``commit``; return its URL."""
    kind = "postgres" if postgres else "sqlite"
    sql = gzip.decompress((HERE / f"{commit}.{kind}.sql.gz").read_bytes()).decode()
    if postgres is None:
        path = folder / "old.sqlite3"
        with closing(sqlite3.connect(path)) as database:
            database.executescript(sql)
            database.executescript("UPDATE sqlite_sequence SET seq = seq + 1000")  # deleted since
        return f"sqlite:///{path}"
    name = f"old_{commit}_{secrets.token_hex(4)}"  # several tests load it
    postgres.execute(f'CREATE DATABASE "{name}"')
    with psycopg.connect(postgres.url(name), autocommit=True) as database:
        database.execute(sql.encode())
    return postgres.url(name)


@pytest.mark.parametrize("commit", COMMITS)
def test_a_database_of_an_earlier_version_is_upgraded_and_goes_on(
    commit: str, tmp_path: Path, postgres: Postgres | None
) -> None:
    """Its keys are valid, its conversation continues with its history, its pending messages are
    answered, its secrets are decrypted, a reminder comes, it records the current version, and no
    new row gets the number of a deleted one."""
    known = json.loads((HERE / f"{commit}.json").read_text())[settings.TEST_DATABASE]
    extra = {name: value.format(commit) for name, value in KEYS.items()}
    url = loaded(commit, folder=tmp_path, postgres=postgres)
    (tmp_path / "home").mkdir()
    gateway = Gateway(folder=tmp_path, database_url=url, extra=extra)
    numbers = "SELECT name, seq FROM sqlite_sequence" if postgres is None else "SELECT 1, 1"
    before = dict(query(gateway, numbers))
    gateway.manage("migrate", "-v0")
    after = dict(query(gateway, numbers))
    assert {name: number for name, number in before.items() if after[name] < number} == {}
    gateway.start()
    try:
        ada = Client(gateway, known["token"])
        wait_until(lambda: ada.result(known["waiting_run"]).status == 200, what="the old answer")
        assert ada.result(known["waiting_run"]).body["text"] == "This one waits for a worker."
        answer = ada.say("And now?", session_id=known["session"])
        assert (answer.status, answer.body["session_id"]) == (200, known["session"])
        page = ada.get(f"/api/sessions/{known['session']}/messages").raw.decode()
        assert page.index("And now?") < page.index("three years") < page.index("Minka")
        is_reminded(ada)
        bridge = Client(gateway, known["bridge"])
        again = bridge.post("/inbound", {"user_id": "stranger-1", "text": "me again"})
        assert again.status == 401
        asked = "SELECT sender, count FROM allowlist_unknownrequest"
        assert query(gateway, asked) == [("stranger-1", 2)]
        opened = (
            "from core.models import ChannelAccount as C; "
            "print(C.objects.get(channel='bridge').open_secrets())"
        )
        assert "a-secret-of-this-bridge" in gateway.manage("shell", "-v0", "-c", opened)
        assert query(gateway, "SELECT version FROM core_installation") == [(VERSION,)]
    finally:
        gateway.stop()


def is_reminded(person: Client) -> None:
    """Check that a schedule, whose tables are new, is carried out and delivered."""
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"
    wish = {"text": "Stretch.", "at": now, "time_zone": "UTC"}
    made = person.post("/api/schedules", wish)
    assert made.status == 201, made.raw
    rows = f"/api/schedules/{made.body['id']}/occurrences"
    wait_until(lambda: person.get(rows).body["results"][0]["state"] == "done", what="a reminder")
    (done,) = person.get(rows).body["results"]
    assert done["executed_at"]
    assert done["delivered_at"]

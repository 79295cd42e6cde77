"""An installation moves from SQLite to PostgreSQL and back, as an operator does it [X52]."""

import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests import settings, templates
from tests.channels_app.client import Client, people, query
from tests.gateways import Gateway
from tests.servers import Postgres

pytestmark = pytest.mark.slow
Start = Callable[[str], Gateway]
# In one home: files and keys stay where they are.
MORE = """
from django.utils import timezone
from allowlist import audit
from core.models import Skill
for name in ("été", "Zebra", "apple", "中文"):
    Skill.objects.create(name=name)
for number in range(700):
    data = {"n": number, "b": 1.0, "a": "é"}
    audit.record(actor="test", action="row", data=data, now=timezone.now())
"""
# The number of a new person, who is deleted.
NUMBER = """
from core.models import User
print(number := User.objects.create(username="new").pk)
User.objects.filter(pk=number).delete()
"""
# Workers are known for half a minute after their end.
FORGET = "from core.models import WorkerHeartbeat as W; W.objects.all().delete()"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts the gateway of one home with another database."""
    made: list[Gateway] = []
    (tmp_path / "home").mkdir()

    def prepare(database_url: str) -> Gateway:
        made.append(Gateway(tmp_path, database_url, roles=("web", "runs")))
        return made[-1]

    yield prepare
    for each in made:
        each.stop()


def rows(gateway: Gateway) -> dict[str, int]:
    tables = ("message", "run", "inboundmessage", "storedfile", "user", "skill", "runevent")
    return {each: query(gateway, f"SELECT count(*) FROM core_{each}")[0][0] for each in tables}


def test_x52_an_installation_moves_to_postgresql_and_back(
    start: Start, postgres: Postgres | None, tmp_path: Path
) -> None:
    assert postgres is not None, "on PostgreSQL only"
    name = f"moved_{secrets.token_hex(4)}"
    postgres.execute(f"CREATE DATABASE {name}")
    urls = [
        f"sqlite:///{tmp_path}/a.sqlite3",
        postgres.url(name),
        f"sqlite:///{tmp_path}/b.sqlite3",
    ]
    shutil.copy(templates.sqlite(templates.shared() or settings.TEST_HOME), tmp_path / "a.sqlite3")
    old = start(urls[0])
    (ada, _) = people(old, number=1, more=MORE)
    old.start()
    upload = ada.call("POST", "/files?name=notes.txt", b"Milk, bread.")
    assert ada.say("Where is the aardvark?").status == 200
    with pytest.raises(AssertionError, match=r"stop the gateway first|another gateway"):
        start(urls[1]).manage("migrate_database", "--from", urls[0])
    number = int(old.manage("shell", "-v0", "-c", NUMBER))
    for source, target in pairwise(urls):
        old.stop()
        old.manage("shell", "-v0", "-c", FORGET)
        new = start(target)
        said = new.manage("migrate_database", "--from", source)
        assert "the audit is whole" in said
        assert rows(new) == rows(old)
        with pytest.raises(AssertionError, match="is in use"):
            new.manage("migrate_database", "--from", source)
        assert int(new.manage("shell", "-v0", "-c", NUMBER)) == (number := number + 1)
        assert "intact" in new.manage("audit_verify")
        new.start()
        client = Client(new, ada.token)
        assert client.say("And now?").status == 200
        assert client.get(f"/files/{upload.body['id']}").raw == b"Milk, bread."
        [session] = client.get("/api/sessions").body["results"]
        lines = client.get(f"/api/sessions/{session['id']}/messages").body["results"]
        assert "aardvark" in json.dumps(lines)
        old = new


def test_x52_a_move_into_the_same_database_or_from_none_is_refused(
    start: Start, tmp_path: Path
) -> None:
    own = f"sqlite:///{tmp_path}/a.sqlite3"
    gateway = start(own)
    for source, said in {
        own: "still names",
        f"sqlite:///{tmp_path}/none.sqlite3": "holds no installation",
        "mysql://x": "must start with",
    }.items():
        with pytest.raises(AssertionError, match=said):
            gateway.manage("migrate_database", "--from", source)
    assert not (tmp_path / "none.sqlite3").exists()

"""Backups at random moments of a busy gateway, restored and compared [X56].

DRILLS: how many; questions and the moments of backups are drawn from DRILLS_SEED.
"""

import hashlib
import os
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.channels_app.client import Client, people, query
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import SHORT_LEASES, Bots
from tests.conftest import DatabaseMaker
from tests.gateway_project.backups import pairs
from tests.gateway_project.backups.traffic import SCRIPT, Traffic, Upload, wanted
from tests.gateways import Gateway
from tests.models_chaos.owner import signed_in
from tests.servers import Postgres, wait_until

DRILLS = int(os.environ.get("DRILLS", "2"))
SEED = int(os.environ.get("DRILLS_SEED", "20261126"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 120 * DRILLS)]
CHATS = [5001, 5002, 5003]
# Rows that would be half of something.
HALVES = {
    "a run without its message": """
        SELECT id FROM core_run r WHERE NOT EXISTS
        (SELECT 1 FROM core_inboundmessage m WHERE m.run_id = r.id)""",
    "a message that nothing will answer": """
        SELECT id FROM core_inboundmessage WHERE run_id IS NULL""",
    "an answer without its question": """
        SELECT id FROM core_message a WHERE role = 'assistant' AND NOT EXISTS
        (SELECT 1 FROM core_message q WHERE q.run_id = a.run_id AND q.role = 'user')""",
    "an answered question without its answer": """
        SELECT id FROM core_run r WHERE state = 'succeeded' AND NOT EXISTS
        (SELECT 1 FROM core_message a WHERE a.run_id = r.id AND a.role = 'assistant')""",
    "a run in a state of a running gateway": """
        SELECT id FROM core_run WHERE state NOT IN ('succeeded', 'held')""",
    "a message on its way": """
        SELECT id FROM core_delivery WHERE state NOT IN ('sent', 'uncertain', 'dismissed')
        AND external_message_id = ''""",
}
OPEN = """
    SELECT id FROM core_run WHERE finished_at IS NULL
    UNION ALL SELECT id FROM core_delivery WHERE state NOT IN ('sent', 'dismissed')
"""
STATES = """
    SELECT m.text, r.state FROM core_inboundmessage m LEFT JOIN core_run r ON r.id = m.run_id
"""
UNCERTAIN = "SELECT payload FROM core_delivery WHERE state = 'uncertain'"


@dataclass
class Drill:
    """One backup, the traffic around it, and what was known when it began."""

    traffic: Traffic
    backup: Path
    acknowledged: set[str]
    answered: set[str]
    files: list[Upload]


@pytest.fixture
def old(new_database: DatabaseMaker, api: FakeBotApi, tmp_path: Path) -> Iterator[Bots]:
    """Start the gateway that is backed up, with a person in each chat."""
    made = Bots(pairs.gateway(tmp_path / "old", new_database(), script=SCRIPT, **SHORT_LEASES), api)
    made.add("main", people=[{"name": f"p{each}", "id": each} for each in CHATS])
    made.gateway.start()
    yield made
    made.gateway.stop()


def at_rest(gateway: Gateway) -> None:
    """Wait until a gateway has ended all that it was asked."""
    wait_until(lambda: not query(gateway, OPEN), seconds=20, what=lambda: str(query(gateway, OPEN)))


def back_up(old: Bots, clients: list[Client], root: Path, number: int) -> Drill:
    """Make a backup at a random moment of the traffic; return when all of that was answered."""
    traffic = Traffic(old, clients, CHATS, f"{SEED}-{number}")
    most = random.Random(traffic.seed).randint(1, 25)
    with traffic.flowing():
        wait_until(lambda: len(traffic.acknowledged) >= most or traffic.failures)
        known = set(traffic.acknowledged), set(traffic.answered), list(traffic.files)
        backup = pairs.backed_up(old.gateway, root)
    at_rest(old.gateway)
    return Drill(traffic, backup, *known)


def compare(drill: Drill, new: Gateway) -> dict[str, str]:
    """Compare a restored database, in which nothing runs yet, with what was promised before the
    backup; return text -> state of this drill's questions."""
    for what, sql in HALVES.items():
        assert query(new, sql) == [], what
    if new.database_url.startswith("sqlite"):
        assert query(new, "PRAGMA foreign_key_check") == []
    rows = query(new, "SELECT path, sha256 FROM core_storedfile WHERE purged_at IS NULL")
    for path, digest in rows:
        content = (new.folder / "home" / "files" / path).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
    states = {str(text): str(state) for text, state in query(new, STATES)}
    assert drill.acknowledged <= set(states), "lost"
    early = {each for each in drill.answered if not each.startswith("stream ")}
    assert {states[each] for each in early} <= {"succeeded"}, "answered, and held"
    # A message that came during the backup is there or not; one that is lost came after its begin.
    lost = set(drill.traffic.acknowledged) - set(states)
    print(drill.traffic.seed, f"{len(drill.acknowledged)} before, {len(lost)} lost:", sorted(lost))
    return {text: state for text, state in states.items() if text in drill.traffic.acknowledged}


def go_on(drill: Drill, new: Bots, states: dict[str, str], *, go: bool) -> Counter[str]:
    """Start a restored gateway, ask it, and decide as the owner over what is held; return what is
    shown again."""
    traffic, gateway = drill.traffic, new.gateway
    once = traffic.shown()
    uncertain = [str(payload) for (payload,) in query(gateway, UNCERTAIN)]
    gateway.start()
    traffic.bots = new
    for chat in CHATS:
        traffic.write(chat, f"short {traffic.seed} again {chat}")
        once[chat, wanted(f"short {traffic.seed} again {chat}")] += 1
    for client in traffic.clients:
        there = Client(gateway, client.token)
        assert there.say(f"short {traffic.seed} again").status == 200
    for token, address, content in drill.files:
        assert Client(gateway, token).get(address).raw == content
    assert traffic.shown() == once, "shown again before the owner has decided"
    with signed_in(gateway) as owner:
        pairs.decide(owner, go=go)
    at_rest(gateway)
    again = traffic.shown() - once
    assert not once - traffic.shown(), f"{once - traffic.shown()} was taken back for {again}"
    held = [wanted(text) for text, state in states.items() if state == "held"]
    for (_, text), times in again.items():
        if not go:  # of an answer that had begun, what was said before the backup
            assert "⏹" in text, (text, "is shown, and the owner has dropped it")
            assert again.total() <= len(held)
            continue
        assert times == 1, text
        assert text in held or any(text in each for each in uncertain), text
    return Counter(text for _, text in again)


def test_x56_a_backup_at_any_moment_brings_back_all_that_was_promised(
    old: Bots, postgres: Postgres | None, tmp_path: Path
) -> None:
    *clients, _ = people(old.gateway, number=2)
    for number in range(DRILLS):
        drill = back_up(old, clients, tmp_path / "backups", number)
        folder = tmp_path / f"new-{number}"
        url = pairs.empty_url(folder, postgres)
        gateway = pairs.gateway(folder, url, script=SCRIPT, **SHORT_LEASES)
        print(pairs.restored(gateway, drill.backup).splitlines()[0])
        states = compare(drill, gateway)
        try:
            new = Bots(gateway, old.api, old.tokens)
            print("again:", dict(go_on(drill, new, states, go=number % 2 == 0)))
        finally:
            gateway.stop()

"""Many turns of a clone's gateway, with kills, backups, updates and restores among them.

SOAK_TURNS: how many turns at least; their order is drawn from SOAK_SEED. People talk all the time,
but for the looks at memory, and repeat what was not answered with its key. No file of ``make
test``: ``make soak`` runs it on both databases.
"""

import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest

from gateway_project.processes import listener
from tests.channels_app.client import query
from tests.conftest import DatabaseMaker
from tests.gateway_project.backups.pairs import PASSPHRASE, backed_up, empty_url, programs
from tests.gateway_project.processes.ups import Up
from tests.gateway_project.updates.origins import Origin
from tests.models_chaos.owner import signed_in
from tests.servers import Postgres, wait_until

TURNS = int(os.environ.get("SOAK_TURNS", "120"))
SEED = int(os.environ.get("SOAK_SEED", "20261127"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + TURNS)]
PEOPLE, PAUSE_SECONDS = 6, 0.1
# One change of each kind, and so many for so many turns: mostly kills.
TURNS_A_CHANGE = 250
SHARES = {"kill": 6, "backup": 2, "update": 1, "restore": 1}
KILLED = ("web", "worker", "broker")
# A part of the turns is without changes: a quarter of it warms up, then memory is looked at.
CALM = 0.4
# Fewer turns than these warm up only: they say nothing of memory.
LEAST_FOR_MEMORY = 2000
MOST_GROWTH = 1.05
OPEN = """
    SELECT id FROM core_run WHERE finished_at IS NULL
    UNION ALL SELECT id FROM core_inboundmessage WHERE run_id IS NULL
"""
SAID = "SELECT role, text FROM core_message WHERE text LIKE 'person%'"


@dataclass
class Installation:
    """A clone and its gateway, which moves to another home with each restore and keeps its port."""

    folder: Path
    database_url: str
    postgres: Postgres | None
    port: int = field(default_factory=listener.free_port)
    homes: int = 0
    versions: int = 0
    up: Up = field(init=False)

    def __post_init__(self) -> None:
        self.origin = Origin.made(self.folder / "origin")
        self.code = self.origin.clone(self.folder / "clone")
        self.backups = self.folder / "backups"
        self.up = self.gateway()
        self.up.start()

    def gateway(self) -> Up:
        """Return the gateway of a new home, not started."""
        self.homes += 1
        extra = {
            "DATABASE_URL": self.database_url,
            "GATEWAY_PORT": str(self.port),
            "BACKUP_PASSPHRASE": PASSPHRASE,
            "PATH": f"{programs()}:{os.environ['PATH']}",
        } | {f"RATE_PER_MINUTE_{of}": "0" for of in ("USER", "KEY", "ADDRESS")}
        return Up(folder=self.folder / f"up-{self.homes}", extra=extra, code=self.code)

    def update(self) -> None:
        """Publish a version with a new table, and update to it."""
        self.versions += 1
        name = f"v{self.versions}"
        self.origin.add(name, f"schema_editor.execute('CREATE TABLE soak_{name} (id integer)')")
        self.origin.publish(name)
        self.up.manage("update")
        self.up.wait_all_ready()

    def restore(self, backup: Path) -> None:
        """Stop, and go on with a backup in a new home; the owner lets held questions go on."""
        self.up.process.stop(seconds=60)
        old = self.up.home
        self.database_url = empty_url(self.folder / f"up-{self.homes + 1}", self.postgres)
        self.up = self.gateway()
        self.up.manage("restore", str(backup))
        shutil.rmtree(old)
        self.up.start()
        with signed_in(self.up) as owner:
            owner.post("/admin/core/run/held", {"choice": "go"})

    def cost(self) -> tuple[int, int]:
        """Return the memory in bytes that is the processes' own, and their file descriptors."""
        own = [psutil.Process(each.pid) for each in self.up.state().processes.values()]
        return sum(each.memory_full_info().uss for each in own), sum(each.num_fds() for each in own)


@dataclass
class Person:
    """Says one message after the other, each until it is answered, while ``may_talk`` is set."""

    name: str
    url: str
    key: str
    may_talk: threading.Event
    over: threading.Event
    answered: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)

    def talk(self) -> None:
        headers = {"Authorization": f"Bearer {self.key}"}
        with httpx.Client(
            base_url=self.url, headers=headers, timeout=120, trust_env=False
        ) as client:
            while not self.over.is_set():
                if self.may_talk.wait(1):
                    self.say(client, f"{self.name} {len(self.answered) + 1}")

    def say(self, client: httpx.Client, text: str) -> None:
        """Send one message until it is answered; the repeats have its key."""
        key = {"Idempotency-Key": text.replace(" ", "-")}
        body = {"text": text, "user_id": self.name}
        while True:
            try:
                answer = client.post("/inbound", json=body, headers=key)
            except httpx.TransportError as error:
                self.refused[type(error).__name__] += 1
            else:
                if answer.status_code == 200:
                    assert answer.json()["text"] == text, answer.text
                    self.answered.append(text)
                    self.over.wait(PAUSE_SECONDS)
                    return
                assert answer.status_code in {500, 502, 503}, (answer.status_code, answer.text)
                self.refused[str(answer.status_code)] += 1
            self.over.wait(0.1)


@dataclass
class Conversation:
    """The talks of all people, in threads."""

    people: list[Person]
    talks: list[Future[None]]
    may_talk: threading.Event

    @property
    def answered(self) -> list[str]:
        return [text for each in self.people for text in [*each.answered]]

    def wait_for(self, turns: int) -> None:
        """Wait until so many turns are answered in all."""

        def are_there() -> bool:
            for each in self.talks:
                if each.done():
                    each.result()  # raises
            return len(self.answered) >= turns

        wait_until(are_there, seconds=120 + turns, what=f"{turns} turns")

    def pause(self, it: Installation) -> None:
        """Stop the talks, and wait until everything is answered."""
        self.may_talk.clear()
        wait_until(lambda: not query(it.up, OPEN), seconds=60, what=lambda: str(query(it.up, OPEN)))

    def go_on(self) -> None:
        self.may_talk.set()


@pytest.fixture
def installation(
    tmp_path: Path, new_database: DatabaseMaker, postgres: Postgres | None
) -> Iterator[Installation]:
    made = Installation(tmp_path, new_database(), postgres)
    yield made
    made.up.process.stop(seconds=15)


@contextmanager
def talking(it: Installation) -> Iterator[Conversation]:
    """Let people talk during the block."""
    url, key = it.up.base_url, it.up.make_key()
    may_talk, over = threading.Event(), threading.Event()
    people = [Person(f"person{each}", url, key, may_talk, over) for each in range(PEOPLE)]
    may_talk.set()
    with ThreadPoolExecutor(PEOPLE) as pool:
        talks = [pool.submit(each.talk) for each in people]
        try:
            yield Conversation(people, talks, may_talk)
        finally:
            over.set()
        for each in talks:
            each.result()


def changes(number: int, order: random.Random) -> list[str]:
    """Return the kinds of so many changes: each at least once, the others by their shares."""
    more = order.choices([*SHARES], weights=[*SHARES.values()], k=max(0, number - len(SHARES)))
    found = [*SHARES, *more]
    order.shuffle(found)
    return found


def change(
    it: Installation, kind: str, conversation: Conversation, order: random.Random
) -> set[str]:
    """Do one of these; return the answers that a restore may have lost: those given since the
    backup began.
    """
    if kind == "kill":
        it.up.kill(order.choice(KILLED))
    elif kind == "backup":
        backed_up(it.up, it.backups)
    elif kind == "update":
        it.update()
    else:
        before = set(conversation.answered)
        backup = backed_up(it.up, it.backups)
        it.restore(backup)
        return set(conversation.answered) - before
    return set()


def test_turns_among_kills_backups_updates_and_restores_are_answered_once(
    installation: Installation,
) -> None:
    """No message is lost but those that came between a backup and its restore, none is
    answered twice; memory and file descriptors are flat."""
    it, order = installation, random.Random(SEED)
    kinds = changes(TURNS // TURNS_A_CHANGE, order)
    between: set[str] = set()
    with talking(it) as conversation:
        for number, kind in enumerate(kinds, 1):
            between |= change(it, kind, conversation, order)
            conversation.wait_for(round(TURNS * (1 - CALM) * number / len(kinds)))
        calm = max(TURNS - len(conversation.answered), round(TURNS * CALM))
        conversation.wait_for(len(conversation.answered) + calm // 4)
        conversation.pause(it)
        memory, files = it.cost()
        conversation.go_on()
        conversation.wait_for(len(conversation.answered) + calm * 3 // 4)
        conversation.pause(it)
        memory_later, files_later = it.cost()
    said, rows = conversation.answered, Counter(query(it.up, SAID))
    print(Counter(kinds), f"{len(said)} answers, {len(between)} between backup and restore")
    print(f"{memory} to {memory_later} bytes, {files} to {files_later} descriptors")
    print({each.name: (len(each.answered), dict(each.refused)) for each in conversation.people})
    assert len(said) == len(set(said)) >= TURNS
    twice = [each for each, times in rows.items() if times > 1]
    assert twice == []
    lost = [(role, text) for text in said for role in ("user", "assistant") if not rows[role, text]]
    assert {text for _, text in lost} <= between, "lost"
    assert {text for _, text in rows} <= set(said)
    assert files_later <= files * MOST_GROWTH, "a thread of the pool more has a few"
    if TURNS >= LEAST_FOR_MEMORY:
        assert memory_later <= memory * MOST_GROWTH

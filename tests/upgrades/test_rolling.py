"""The processes of the last release and of this code on one database, as in a rolling restart.

``<commit>.code.tar.xz``: the code of a release (``git archive`` of its packages, ``xz``).
"""

import json
import signal
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest

from tests import settings
from tests.channels_app.client import Client, query
from tests.gateways import Gateway
from tests.servers import Postgres, wait_until
from tests.upgrades.test_upgrades import COMMITS, HERE, KEYS, loaded

pytestmark = pytest.mark.slow
LAST = COMMITS[-1]
PEOPLE = 4
UNLIMITED = {f"RATE_PER_MINUTE_{of}": "0" for of in ("USER", "KEY", "ADDRESS")}
# So many messages of each person are answered in each phase, at least.
EACH = 3


@pytest.fixture
def both(tmp_path: Path, postgres: Postgres | None) -> Iterator[tuple[Gateway, Gateway]]:
    """Start the last release on a database of its own; yield it, and this code for the same
    database, broker and files, that is not started.
    """
    with tarfile.open(HERE / f"{LAST}.code.tar.xz") as archive:
        archive.extractall(tmp_path / "code", filter="data")
    extra = {name: value.format(LAST) for name, value in KEYS.items()} | UNLIMITED
    url = loaded(LAST, folder=tmp_path, postgres=postgres)
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old = Gateway(
        folder=tmp_path / "old",
        database_url=url,
        extra=extra,
        roles=("web", "runs", "long"),
        tree=tmp_path / "code",
    )
    (old.folder / "home").mkdir()
    new = Gateway(
        folder=tmp_path / "new",
        database_url=url,
        extra={**extra, "REDIS_URL": old.broker.url, "GATEWAY_HOME": str(old.folder / "home")},
    )
    old.start()
    yield old, new
    new.stop()
    old.stop()


class Person:
    """Talks without a pause, through whichever process answers, as behind a proxy."""

    def __init__(self, name: str, ways: list[Client], over: threading.Event) -> None:
        self.name, self.ways, self.over = name, ways, over
        self.answered: list[str] = []
        self.refused: Counter[str] = Counter()

    def talk(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            self.say(f"{self.name} {number}")

    def say(self, text: str) -> None:
        """Send one message until it is answered; the repeats have its key."""
        for attempt in range(10_000):
            way = self.ways[(len(self.answered) + attempt) % len(self.ways)]
            try:
                answer = way.post(
                    "/inbound",
                    {"text": text, "user_id": self.name},
                    Idempotency_Key=text.replace(" ", "-"),
                )
            except (OSError, HTTPException):
                self.refused["no connection"] += 1
                self.over.wait(0.05)
                continue
            if answer.status == 200:
                assert answer.body["text"] == text, answer.raw
                self.answered.append(text)
                return
            assert answer.status in {500, 503}, answer.raw
            self.refused[str(answer.status)] += 1
            self.over.wait(0.05)
        raise AssertionError(f"{text} was never answered: {self.refused}")


def going_on(people: list[Person], talks: list[Future[None]]) -> None:
    """Wait until each of them has got some more answers."""
    before = [len(each.answered) for each in people]

    def all_have() -> bool:
        for each in talks:
            if each.done():
                each.result()  # raises
        had = zip(people, before, strict=True)
        return all(len(each.answered) >= number + EACH for each, number in had)

    wait_until(all_have, seconds=60)


def test_x38_the_last_release_and_this_code_answer_each_message_once(
    both: tuple[Gateway, Gateway],
) -> None:
    """[X38] While the database is migrated under it, beside the new code, and until it ends."""
    old, new = both
    known = json.loads((HERE / f"{LAST}.json").read_text())[settings.TEST_DATABASE]
    over = threading.Event()
    ways = [Client(each, known["token"]) for each in both]
    people = [Person(f"person{number}", ways, over) for number in range(PEOPLE)]
    with ThreadPoolExecutor(PEOPLE) as pool:
        talks = [pool.submit(each.talk) for each in people]
        try:
            going_on(people, talks)
            new.manage("migrate", "-v0")
            for name in new.roles:
                new.launch(name)
            for name in new.roles:
                new.wait_ready(name)
            going_on(people, talks)
            for name in ("runs", "long", "web"):
                old.kill(name, signal.SIGTERM)
                going_on(people, talks)
        finally:
            over.set()
        for each in talks:
            each.result()
    asked = "SELECT role, text FROM core_message WHERE text LIKE 'person%'"
    said = [text for each in people for text in each.answered]
    rows = Counter(query(new, asked))
    assert rows == {(role, text): 1 for role in ("user", "assistant") for text in said}
    print({each.name: (len(each.answered), dict(each.refused)) for each in people})

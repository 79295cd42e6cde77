"""A worker that is suspended (SIGSTOP) past its leases and resumed after another one took over.

Its earlier work must not reach the platform any more ([RC8]): neither an edit with outdated
content, nor a message that waited for the rate limit. FREEZES: how many times.
"""

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tests.channels_app.client import query
from tests.channels_app.telegram.fake_api import Call, FakeBotApi
from tests.channels_app.telegram.people import Bots, Params, message, start_scripted
from tests.gateways import ROLES, Gateway
from tests.servers import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TIMES = int(os.environ.get("FREEZES", "2"))
SEED = 20261125
PER_TIME = 6
WORDS = " ".join(f"part{number:02d}" for number in range(40))
LONG = "\n\n".join(f"Paragraph {number}. " + "x" * 900 for number in range(10))
SCRIPT: list[dict[str, Any]] = [
    {"match": "^stream", "steps": [{"text": f"{WORDS} to {{input}}", "tokens_per_second": 14}]},
    {"match": "^long", "steps": [{"text": f"{LONG} to {{input}}"}]},
    {"match": "^short", "steps": [{"text": "ok, {input}"}]},
]
ANSWERS = {"stream": WORDS, "long": LONG}


@pytest.fixture(scope="module")
def bots(
    new_database: Callable[[], str], api: FakeBotApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bots]:
    """Start a gateway that can have a second ``runs`` worker."""
    found = start_scripted(
        folder=tmp_path_factory.mktemp("frozen"),
        api=api,
        database_url=new_database(),
        script=SCRIPT,
        chats=range(7001, 7001 + TIMES * (2 * PER_TIME + 1) + 1),
        modules={"second": ROLES["runs"]},
        DELIVERY_LEASE_SECONDS="3",
        RUN_LEASE_SECONDS="2",
    )
    gateway = found.gateway
    yield found
    with_all(gateway.pid("runs"), signal.SIGCONT)
    gateway.stop()


def with_all(pid: int, number: int) -> None:
    """Send a signal to a process and its children."""
    process = psutil.Process(pid)
    for each in [process, *process.children(recursive=True)]:
        each.send_signal(number)


def may_write(gateway: Gateway) -> bool:
    """Return whether no frozen process holds the lock of SQLite's writer."""
    if not gateway.database_url.startswith("sqlite"):
        return True
    with closing(sqlite3.connect(urlsplit(gateway.database_url).path, timeout=2)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True


class Freezer:
    """Suspends the worker some time after the bot's ``at``-th call that shows something."""

    def __init__(self, gateway: Gateway, *, at: int, delay: float) -> None:
        self.gateway, self.left, self.delay = gateway, at, delay
        self.pid = gateway.pid("runs")
        self.frozen = threading.Event()
        self.lock = threading.Lock()

    def __call__(self, method: str, params: Params, phase: str) -> None:
        if phase != "after" or method not in {"sendMessage", "editMessageText"}:
            return
        with self.lock:
            self.left -= 1
            if self.left == 0:
                threading.Timer(self.delay, self.freeze).start()

    def freeze(self) -> None:
        """Suspend the worker now; on SQLite while it writes nothing, for all would wait for it."""
        with_all(self.pid, signal.SIGSTOP)
        while not may_write(self.gateway):
            with_all(self.pid, signal.SIGCONT)
            time.sleep(0.02)
            with_all(self.pid, signal.SIGSTOP)
        self.frozen.set()


def open_rows(bots: Bots) -> list[Any]:
    """Return the deliveries that are not finished."""
    ended = {"delivery": "sent", "run": "succeeded", "inboundmessage": "answered"}
    return [
        (table, row)
        for table, state in ended.items()
        for row in query(bots.gateway, f"SELECT id FROM core_{table} WHERE state <> '{state}'")
    ]


def finished(bots: Bots, what: str) -> None:
    """Wait until all deliveries are finished."""
    wait_until(
        lambda: not open_rows(bots) and not bots.api.reactions,
        seconds=90,
        what=lambda: f"the end {what}: {open_rows(bots)}",
    )


def showing(bots: Bots, since: int, chats: set[int]) -> list[Call]:
    """Return the calls from the ``since``-th on that show something in ``chats``."""
    shows = {"sendMessage", "editMessageText", "deleteMessage"}
    return [
        each
        for each in bots.api.calls[since:]
        if each.method in shows and int(each.params["chat_id"]) in chats
    ]


def text_of(bots: Bots, chat: int) -> str:
    """Return the text of a chat."""
    return "\n\n".join(bots.texts(chat))


def test_rc8_a_worker_that_was_frozen_past_its_leases_shows_nothing_old(bots: Bots) -> None:
    dice, chat, waiting = random.Random(SEED), 7000, 0
    gateway = bots.gateway
    for number in range(TIMES):
        asked = {}
        freezer = Freezer(gateway, at=dice.randint(8, 20), delay=dice.choice([0.0, 0.05, 0.3, 0.7]))
        bots.api.hook = freezer
        for kind in ANSWERS:
            for _ in range(PER_TIME):
                chat += 1
                asked[chat] = (kind, f"{kind} {number}")
                bots.bring(message(asked[chat][1], user=chat), seconds=30)
        assert freezer.frozen.wait(30)
        bots.api.hook = None
        waiting += len(open_rows(bots))
        gateway.launch("second")
        gateway.wait_ready("second")
        finished(bots, "by the second worker")
        wanted = {each: f"{ANSWERS[kind]} to {text}" for each, (kind, text) in asked.items()}
        assert {each: text_of(bots, each) for each in asked} == wanted
        # The second one is stopped: all later calls are of the first.
        gateway.kill("second")
        since = len(bots.api.calls)
        with_all(gateway.pid("runs"), signal.SIGCONT)
        chat += 1
        bots.bring(message(f"stream after {number}", user=chat), seconds=30)
        finished(bots, "by the worker that goes on")
        assert showing(bots, since, {chat}), "the worker that was frozen answers again"
        old = showing(bots, since, set(asked))
        assert not [each for each in old if each.method != "editMessageText"], old
        assert {each: text_of(bots, each) for each in asked} == wanted
        assert all(each.params["text"] in bots.texts(int(each.params["chat_id"])) for each in old)
        print(f"freeze {number}: {len(old)} calls afterwards for what was asked before")
    print(f"{TIMES} freezes, {waiting} messages, runs and deliveries were open, none was shown old")
    assert waiting

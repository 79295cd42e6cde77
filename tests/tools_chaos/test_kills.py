"""kill -9 between request, decision, call and result ([V10]).

TOOL_KILLS: how many; the order is drawn from KILLS_SEED. People ask on Telegram for an effect that
must not happen twice, and the owner presses the buttons, some of them twice.
"""

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests import ROOT
from tests.channels_app.client import query
from tests.channels_app.telegram.fake_api import FakeBotApi, Shown
from tests.channels_app.telegram.people import Bots, message, number, person, start_scripted
from tests.servers import wait_until
from tests.tools_chaos import effect

KILLS = int(os.environ.get("TOOL_KILLS", "10"))
SEED = int(os.environ.get("KILLS_SEED", "20261125"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 10 * KILLS)]
OWNER = 8000
GUESTS = range(8001, 8005)
# Questions that may be open at a time in each chat, so that kills meet each step.
OPEN_AT_ONCE = 2
SCRIPT: list[dict[str, Any]] = [
    {"match": "", "after_tool": True, "steps": [{"text": "After the tool: {input}"}]},
    {"match": "^do ", "steps": [{"tool": "effect"}]},
    {"match": ".", "steps": [{"text": "Hello."}]},
]
STATES = "SELECT state, edited FROM core_toolcall"
OPEN_RUNS = "SELECT public_id FROM core_run WHERE state NOT IN ('succeeded', 'failed', 'cancelled')"
# The open rows, for the message of a failure.
OPEN = {
    "run": "SELECT id, session_id, state, attempt, worker, lease_until, options FROM core_run"
    " WHERE state NOT IN ('succeeded', 'failed', 'cancelled') ORDER BY id",
    "call": "SELECT id, run_id, state, attempt, carried_out_in_id, started_at FROM core_toolcall"
    " WHERE state IN ('waiting', 'allowed', 'started') ORDER BY id",
    "pause": "SELECT run_id FROM core_runpause WHERE continued_by_id IS NULL ORDER BY run_id",
    "message": "SELECT id, session_id, run_id, state, text FROM core_inboundmessage"
    " WHERE state <> 'answered' ORDER BY id",
    "delivery": "SELECT id, conversation, state, attempt, tries, external_message_id, doubt_chat,"
    " after_id, retry_at, lease_until, error FROM core_delivery WHERE state <> 'sent' ORDER BY id",
}


@pytest.fixture
def bots(
    new_database: Callable[[], str], api: FakeBotApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bots]:
    """Start a gateway with two ``runs`` workers that are forked again when they die."""
    folder: Path = tmp_path_factory.mktemp("tools")
    packages = folder / "packages"
    packages.mkdir()
    effect.install(packages)
    found = start_scripted(
        folder=folder,
        api=api,
        database_url=new_database(),
        script=SCRIPT,
        chats=GUESTS,
        modules={"runs": ("tests.tools_chaos.worker", "runs")},
        PYTHONPATH=f"{packages}{os.pathsep}{ROOT}",
        DELIVERY_LEASE_SECONDS="2",
        RUN_LEASE_SECONDS="1",
        CHAOS_FOLDER=str(folder),
        KILLS_SEED=str(SEED),
        LOG_LEVEL="WARNING",
    )
    found.gateway.manage("shell", "-v0", "--no-imports", "-c", OWNERS)
    found.say("hello", user=OWNER)
    yield found
    found.gateway.stop()


OWNERS = f"""
from core.models import ChannelIdentity, User
owner = User.objects.create(username="owner-of-all", is_owner=True)
ChannelIdentity.objects.create(user=owner, kind="im", channel="telegram", value="{OWNER}")
"""


class Killer(threading.Thread):
    """Kills random processes at random moments, KILLS times; each is started again.

    Stays until ``over``: processes that a thread has started end with it.
    """

    def __init__(self, bots: Bots) -> None:
        super().__init__(daemon=True)
        self.done, self.over = threading.Event(), threading.Event()
        self.bots, self.dice = bots, random.Random(SEED)
        self.killed: Counter[str] = Counter()
        self.error: Exception | None = None

    def run(self) -> None:
        gateway = self.bots.gateway
        try:
            while self.killed.total() + len(deaths(self.bots)) < KILLS:
                time.sleep(self.dice.uniform(0.2, 1.5))
                name = self.dice.choices(("runs", "broker", "web"), (8, 1, 1))[0]
                if name == "runs":
                    for worker in psutil.Process(gateway.pid("runs")).children()[:1]:
                        with suppress(psutil.NoSuchProcess):  # it was faster
                            worker.kill()
                else:
                    gateway.kill(name)
                    gateway.restart(name)
                self.killed[name] += 1
        except (AssertionError, OSError, psutil.Error) as error:
            self.error = error
        (gateway.folder / "calm").touch()
        self.done.set()
        self.over.wait()


def deaths(bots: Bots) -> list[str]:
    """Return the steps at which workers killed themselves."""
    path = bots.gateway.folder / "deaths"
    return path.read_text().splitlines() if path.exists() else []


class Owner:
    """Presses the buttons under the questions, each question once; some buttons twice, and others
    afterwards.
    """

    def __init__(self, bots: Bots) -> None:
        self.bots, self.dice = bots, random.Random(f"owner {SEED}")
        self.asked: dict[str, str] = {}

    def questions(self) -> list[Shown]:
        """Return the questions that have buttons."""
        shown = self.bots.api.shown(self.bots.tokens["main"], OWNER)
        return [each for each in shown if each.keyboard]

    def answer(self) -> None:
        """Press a button of each new question."""
        for question in self.questions():
            buttons = [each for row in question.keyboard for each in row]
            call = buttons[0]["callback_data"].split(":")[2]
            if call in self.asked:
                continue
            label = self.dice.choice(("Allow", "Allow", "Allow", "Deny"))
            self.asked[call] = label
            presses = [label] * self.dice.choice((1, 1, 2))
            presses += self.dice.choice(([], ["Deny"], ["Allow"]))
            for each in presses:
                self.press(question, next(b for b in buttons if b["text"] == each))

    def press(self, question: Shown, button: dict[str, Any]) -> None:
        body = {"message_id": question.id, "date": 1, "chat": {"id": OWNER, "type": "private"}}
        press = {
            "id": str(number()),
            "from": person(OWNER),
            "chat_instance": "1",
            "data": button["callback_data"],
            "message": body,
        }
        self.bots.bring({"update_id": number(), "callback_query": press}, seconds=30)


def effects(bots: Bots) -> Counter[str]:
    """Return the requests that were carried out, and how often."""
    path = bots.gateway.folder / "effects"
    return Counter(path.read_text().splitlines() if path.exists() else [])


def ends(bots: Bots, chat: int) -> list[str]:
    """Return the answers after a question, in a chat."""
    return [each for each in bots.texts(chat) if "After the tool" in each]


def test_v10_kill_9_repeats_no_call_and_loses_no_answer(bots: Bots) -> None:
    killer, owner = Killer(bots), Owner(bots)
    said: dict[int, list[str]] = {chat: [] for chat in GUESTS}
    killer.start()
    while not killer.done.is_set():
        for chat in GUESTS:
            if len(said[chat]) - len(ends(bots, chat)) < OPEN_AT_ONCE:
                text = f"do {chat}-{len(said[chat])}"
                said[chat].append(text)
                bots.bring(message(text, user=chat), seconds=30)
        owner.answer()
        time.sleep(0.1)
    assert killer.error is None, killer.error

    def is_over() -> bool:
        owner.answer()
        return all(len(ends(bots, chat)) >= len(said[chat]) for chat in GUESTS)

    wait_until(is_over, seconds=60, what=lambda: unanswered(bots, said))
    check(bots, owner, said, killer)
    killer.over.set()


def unanswered(bots: Bots, said: dict[int, list[str]]) -> str:
    """Return what is open: requests and answers of each chat, and the rows that are not at an
    end."""
    lines = [f"{chat}: {len(said[chat])} asked, {len(ends(bots, chat))} ended" for chat in GUESTS]
    for title, sql in OPEN.items():
        lines += [f"{title}: {row}" for row in query(bots.gateway, sql)]
    return "\n".join(lines)


def check(bots: Bots, owner: Owner, said: dict[int, list[str]], killer: Killer) -> None:
    """Check effects, answers and questions against what was asked and decided."""
    done = effects(bots)
    number_of_requests = sum(map(len, said.values()))
    assert max(done.values()) == 1
    assert set(done) <= {text for texts in said.values() for text in texts}
    rows = query(bots.gateway, STATES)
    states = Counter(row[0] for row in rows)
    decided = Counter(owner.asked.values())
    assert states["denied"] == decided["Deny"]
    assert states["done"] + states["unsure"] == decided["Allow"]
    assert states["done"] <= done.total() <= decided["Allow"]
    assert states.total() == number_of_requests == len(owner.asked)
    for chat in GUESTS:
        # Each person gets one answer to each request, and no question of another.
        assert len(ends(bots, chat)) == len(said[chat])
        assert not [each for each in bots.texts(chat) if each.startswith("🔐")]
    shown = [each for each in bots.texts(OWNER) if each.startswith("🔐")]
    assert len(shown) == number_of_requests
    assert query(bots.gateway, OPEN_RUNS) == []
    at = dict(Counter(deaths(bots)))
    print(f"killed: {dict(killer.killed)}, at steps: {at}, {number_of_requests} requests, {states}")

"""kill -9 of the worker around its calls of the Bot API: the visible messages, counted from
outside.

At each boundary (before the request is carried out, after its effect and before its reply, after
the reply and before the commit) of each call that shows something. A second kill may come while the
first one is recovered from. TELEGRAM_KILLS: how many; the order is drawn from KILLS_SEED.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.channels_app.client import query
from tests.channels_app.telegram.fake_api import FakeBotApi, Refusal
from tests.channels_app.telegram.people import Bots, Params, message, start_scripted
from tests.servers import wait_until

KILLS = int(os.environ.get("TELEGRAM_KILLS", "4"))
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 60 * KILLS)]
SEED = int(os.environ.get("KILLS_SEED", "20261124"))
MOST_ROUNDS = KILLS * 4 + 10  # not every round reaches its boundary
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
WORDS = " ".join(f"part{number:02d}" for number in range(20))
LONG = "\n\n".join(f"Paragraph {number}. " + "x" * 900 for number in range(6))
HEADED = f"# Title\n\n{LONG}\n\n- item"
SCRIPT: list[dict[str, Any]] = [
    {"match": "^short", "steps": [{"text": "ok, {input}"}]},
    {
        "match": "^(stream|draft)",
        "steps": [{"text": f"{WORDS} to {{input}}", "tokens_per_second": 14}],
    },
    {"match": "^long", "steps": [{"text": f"{LONG} to {{input}}"}]},
    {
        "match": "^rich",
        "steps": [{"text": f"# Title\n\n{WORDS} to {{input}}", "tokens_per_second": 14}],
    },
    {"match": "^refused", "steps": [{"text": f"{HEADED} to {{input}}"}]},
    {
        "match": "^draw",
        "steps": [
            {"native": {"type": "image", "props": {"url": PIXEL, "alt": "A pixel"}}},
            {"text": "Here it is, {input}."},
        ],
    },
]
# Message -> the calls at which the worker is killed.
CALLS = {
    "short": ("sendMessage",),
    "stream": ("sendMessage", "editMessageText"),
    "draft": ("sendMessageDraft", "sendMessage"),
    "long": ("sendMessage",),
    "rich": ("sendRichMessage", "editMessageText"),
    "refused": ("sendRichMessage", "sendMessage"),
    "draw": ("sendMessage", "sendPhoto"),
}
# The bots of kinds of messages; others go to "main". One has drafts, one sends rich messages.
BOTS = {"draft": "drafts", "rich": "rich", "refused": "rich"}
BOUNDARIES = ("before", "effect", "reply")
AFTER_REPLY_SECONDS = (0.0, 0.001, 0.003, 0.008)


class Killer:
    """Kills the worker at a call of the bot: once, or twice when ``again`` is given."""

    def __init__(
        self, kill: Callable[[], None], method: str, boundary: str, *, dice: random.Random
    ) -> None:
        self.kill, self.method, self.boundary = kill, method, boundary
        self.left, self.kills = dice.randint(1, 2), 0
        self.delay, self.again = dice.choice(AFTER_REPLY_SECONDS), dice.random() < 0.3
        self.lock = threading.Lock()

    def __call__(self, method: str, params: Params, phase: str) -> None:
        with self.lock:
            if not self.is_it(method, phase):
                return
            self.left -= 1
            if self.left > 0 or self.kills > int(self.again):
                return
            self.kills += 1
        if self.boundary == "reply":
            threading.Timer(self.delay, self.kill).start()
            return
        self.kill()
        if self.boundary == "before":
            raise Refusal(500, "the request was not carried out")

    def is_it(self, method: str, phase: str) -> bool:
        """Return whether this is the boundary; after the first kill, any call that shows something
        is.
        """
        shows = method.startswith(("send", "edit")) and method != "sendChatAction"
        same = method == self.method or (self.kills > 0 and shows)
        return same and phase == ("before" if self.boundary == "before" else "after")


@pytest.fixture(scope="module")
def bots(
    new_database: Callable[[], str], api: FakeBotApi, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bots]:
    """Start a gateway whose worker is forked again when it dies."""
    folder: Path = tmp_path_factory.mktemp("kills")
    found = start_scripted(
        folder=folder,
        api=api,
        database_url=new_database(),
        script=SCRIPT,
        chats=range(5001, 5001 + MOST_ROUNDS * 2 + 1),
        modules={"runs": ("tests.chaos.worker", "runs")},
        DELIVERY_LEASE_SECONDS="2",
        RUN_LEASE_SECONDS="1",
        CHAOS_FOLDER=str(folder),
    )
    found.add("drafts")
    api.with_drafts.add(found.tokens["drafts"])
    found.add("rich", answers="rich", growing="edits")
    api.with_rich.add(found.tokens["rich"])
    api.refused_word = "refused"
    yield found
    found.gateway.stop()


def bot_of(kind: str) -> str:
    """Return the bot that gets messages of a kind."""
    return BOTS.get(kind, "main")


def kill_worker(bots: Bots) -> None:
    """Send kill -9 to the worker that was forked last."""
    for worker in psutil.Process(bots.gateway.pid("runs")).children():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)


def wanted(kind: str, text: str) -> list[str]:
    """Return the expected contents of a chat, without the photo."""
    return {
        "short": [f"ok, {text}"],
        "stream": [f"{WORDS} to {text}"],
        "draft": [f"{WORDS} to {text}"],
        "long": [f"{LONG} to {text}"],
        "rich": [f"Title\n{WORDS} to {text}"],
        "refused": [f"Title\n{LONG}\n\n• item to {text}"],
        "draw": [f"Here it is, {text}."],
    }[kind]


def open_rows(bots: Bots) -> list[Any]:
    """Return the deliveries that are not finished."""
    ended = {"delivery": "sent", "run": "succeeded", "inboundmessage": "answered"}
    return [
        row
        for table, state in ended.items()
        for row in query(bots.gateway, f"SELECT id FROM core_{table} WHERE state <> '{state}'")
    ]


def test_rc8_nothing_is_shown_twice_or_left_half_wherever_the_worker_is_killed(bots: Bots) -> None:
    dice = random.Random(SEED)
    asked: dict[int, tuple[str, str]] = {}
    kills: dict[str, int] = {}
    cases = [
        (kind, call, at) for kind, calls in CALLS.items() for call in calls for at in BOUNDARIES
    ]
    plan = dice.sample(cases, len(cases))
    chat = 5000
    for number in range(MOST_ROUNDS):
        if sum(kills.values()) >= KILLS:
            break
        kind, call, boundary = plan[number % len(plan)]
        killer = Killer(lambda: kill_worker(bots), call, boundary, dice=dice)
        bots.api.hook = killer
        round_of = [kind, dice.choice(list(CALLS))]
        for each in round_of:
            chat += 1
            asked[chat] = (each, f"{each} {number}")
            update = message(asked[chat][1], user=chat)
            bots.bring(update, seconds=30, account=bot_of(each))
        began = time.monotonic()
        finish(bots, killer, kind, call, boundary)
        print(round_of, call, boundary, killer.kills, round(time.monotonic() - began, 1))
        if killer.kills:
            name = f"{call}, {boundary}"
            kills[name] = kills.get(name, 0) + killer.kills
    assert sum(kills.values()) >= KILLS
    judge(bots, asked, kills)


def finish(bots: Bots, killer: Killer, *what: str) -> None:
    """Wait until all deliveries are finished."""
    wait_until(
        lambda: not open_rows(bots) and not bots.api.reactions,
        seconds=60,
        what=lambda: f"the end of {what}, {open_rows(bots)}\n{bots.gateway.log('runs')[-3000:]}",
    )
    bots.api.hook = None


def judge(bots: Bots, asked: dict[int, tuple[str, str]], kills: dict[str, int]) -> None:
    """Count the visible messages."""
    twice, halves, missing = 0, 0, 0
    for chat, (kind, text) in asked.items():
        shown = bots.api.shown(bots.tokens[bot_of(kind)], chat)
        texts = [each.text for each in shown if each.kind == "text"]
        photos = [each for each in shown if each.kind == "photo"]
        whole = "\n\n".join(texts)
        (answer,) = wanted(kind, text)
        parts = 2 if kind in {"long", "refused"} else 1
        missing += int(answer not in whole) + int(kind == "draw" and not photos)
        twice += max(0, whole.count(answer[-40:]) - 1) + max(0, len(photos) - 1)
        halves += max(0, len(texts) - parts)
        if whole != answer or len(photos) != int(kind == "draw"):
            print(chat, kind, [each[-60:] for each in texts], len(photos))
    total = sum(kills.values())
    doubts = len(query(bots.gateway, "SELECT id FROM core_delivery WHERE doubt_chat <> ''"))
    marked = len(query(bots.gateway, "SELECT id FROM core_delivery WHERE error <> ''"))
    print(
        f"{total} kills: {missing} missing, {twice} twice, {halves} too many, "
        f"{doubts} in doubt, {marked} marked as perhaps repeated; {kills}"
    )
    assert (missing, twice, halves, doubts) == (0, 0, 0, 0)
    assert not bots.api.lost_words, "a person's message was deleted"

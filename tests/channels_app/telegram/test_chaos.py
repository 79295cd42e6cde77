"""kill -9 at ten points, ten updates in flight at each: answered exactly once in the chat.

The comparison is external: the updates that Telegram sent with the messages in its chats. A first
part of an answer that was sent twice is counted as an orphan; it is no second answer, and it is
printed.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.channels_app.telegram.conftest import FAST
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import Bots, Params, message
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
CHATS = range(600, 610)
WORDS = " ".join(f"part{number:02d}" for number in range(24))
CALM_SECONDS = 6.0


def answer_to(text: str) -> str:
    """Return the answer of the scripted model."""
    return f"{WORDS} to {text}"


@pytest.fixture(scope="module")
def bots(
    module_gateways: Callable[..., Gateway],
    api: FakeBotApi,
    tmp_path_factory: pytest.TempPathFactory,
) -> Bots:
    """Start a gateway that streams an answer of about two seconds."""
    script: Path = tmp_path_factory.mktemp("script") / "script.json"
    script.write_text(
        json.dumps(
            [
                {
                    "match": "",
                    "steps": [{"text": f"{WORDS} to {{input}}", "tokens_per_second": 14}],
                }
            ]
        )
    )
    gateway = module_gateways(
        **FAST, LLM_SCRIPT=str(script), RUN_LEASE_SECONDS="2", RUN_MAX_ATTEMPTS="50"
    )
    found = Bots(gateway, api)
    found.add("main", people=[{"name": f"p{each}", "id": each} for each in CHATS])
    return found


class Killer:
    """Kills a process of the gateway at the first matching call."""

    def __init__(self, bots: Bots, role: str, is_it: Callable[[str, Params, str], bool]) -> None:
        """Take ``is_it``, which gets each call of the bot, before and after its effect."""
        self.bots, self.role, self.is_it = bots, role, is_it
        self.done = threading.Event()

    def __call__(self, method: str, params: Params, phase: str) -> None:
        if not self.done.is_set() and self.is_it(method, params, phase):
            self.done.set()
            os.kill(self.bots.gateway.pid(self.role), signal.SIGKILL)


def on(method: str, phase: str, **having: Any) -> Callable[[str, Params, str], bool]:
    """Match a call of ``method``, before or after its effect, with these parameters."""

    def is_it(called: str, params: Params, at: str) -> bool:
        same = all(params.get(name) == value for name, value in having.items())
        return called == method and at == phase and same

    return is_it


POINTS: dict[str, tuple[str, Callable[[str, Params, str], bool] | float]] = {
    "web, while updates come": ("web", 0.0),
    "web, just after the first 200": ("web", 0.05),
    "runs, while messages wait to be joined": ("runs", 0.2),
    "runs, at the first reaction": ("runs", on("setMessageReaction", "before")),
    "runs, at the first typing": ("runs", on("sendChatAction", "after")),
    "runs, before the first message": ("runs", on("sendMessage", "before")),
    "runs, after the first message, before its answer": ("runs", on("sendMessage", "after")),
    "runs, before an edit": ("runs", on("editMessageText", "before")),
    "runs, after an edit, before its answer": ("runs", on("editMessageText", "after")),
    "runs, after the reaction is removed": (
        "runs",
        on("setMessageReaction", "after", reaction=None),
    ),
}


@pytest.mark.parametrize("point", POINTS)
def test_kill_9_leaves_each_update_answered_exactly_once(bots: Bots, point: str) -> None:
    role, moment = POINTS[point]
    updates = {chat: message(f"question {point[:8]} {chat}", user=chat) for chat in CHATS}
    known = {chat: len(bots.texts(chat)) for chat in CHATS}
    killer = None
    if callable(moment):
        killer = bots.api.hook = Killer(bots, role, moment)
    with ThreadPoolExecutor(len(CHATS)) as pool:
        sent = [pool.submit(bots.bring, update, seconds=60.0) for update in updates.values()]
        if isinstance(moment, float):
            time.sleep(moment)  # this case needs a point in time
            bots.gateway.kill(role)
        elif killer is not None:
            assert killer.done.wait(30)
        bots.api.hook = None
        bots.gateway.restart(role)
        for each in sent:
            each.result(timeout=90)

    def answers(chat: int) -> list[str]:
        return bots.texts(chat)[known[chat] :]

    wanted = {chat: answer_to(updates[chat]["message"]["text"]) for chat in CHATS}
    wait_until(lambda: all(wanted[chat] in answers(chat) for chat in CHATS), seconds=90, what=point)
    wait_until(lambda: not bots.api.reactions, seconds=30, what="the reactions to be removed")
    quiet_since = time.monotonic()
    wait_until(
        lambda: time.monotonic() - max(quiet_since, last_typing(bots)) > CALM_SECONDS, seconds=60
    )
    twice = [chat for chat in CHATS if answers(chat).count(wanted[chat]) != 1]
    orphans = sum(len(answers(chat)) - 1 for chat in CHATS)
    print(f"{point}: {orphans} orphaned first parts of {len(CHATS)}")
    assert not twice, [answers(chat) for chat in twice]


def last_typing(bots: Bots) -> float:
    """Return when the last typing was shown."""
    return max((call.at for call in bots.api.of("sendChatAction")), default=0.0)

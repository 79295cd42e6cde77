"""More is asked than the gateway can do, at four endpoints at once, through a real gateway.

Accepted messages are answered, refusals say when to try again, sockets stay open, and a
person with many requests does not hold others back. ``OVERLOAD_ROUNDS``: how often.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.channels_app.client import Answer, Client, people, query
from tests.channels_app.conftest import QUICK
from tests.channels_app.socket_client import Socket
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ROUNDS = int(os.environ.get("OVERLOAD_ROUNDS", "1"))
PLACES, CROWD, OTHERS = 2, 30, 6
TEXT = "It took a while."
SCRIPT = [{"match": "", "steps": [{"sleep": 0.2}, {"text": TEXT}]}]


@pytest.fixture(scope="module")
def gateway(
    module_gateways: Callable[..., Gateway], tmp_path_factory: pytest.TempPathFactory
) -> Gateway:
    """Start a gateway with two places and a model that takes its time."""
    path: Path = tmp_path_factory.mktemp("script") / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return module_gateways(
        LLM_SCRIPT=str(path),
        RUNS_PER_WORKER=str(PLACES),
        MAX_QUEUE_SECONDS="1",
        MAX_STREAMS_PER_USER="100",
        **QUICK,
    )


@dataclass(frozen=True)
class Ask:
    """One request: how to make it, and where its text is."""

    send: Callable[[Client], Answer]

    def __call__(self, client: Client) -> Answer:
        return self.send(client)


CHAT: dict[str, Any] = {"model": "default", "messages": [{"role": "user", "content": "hello"}]}
UI = {"id": "", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "x"}]}]}
ASKS: list[Callable[[Client, int], Answer]] = [
    lambda client, number: client.say("hello"),
    lambda client, number: client.say("hello", stream=True),
    lambda client, number: client.post("/v1/chat/completions", {**CHAT, "stream": number % 2 > 0}),
    lambda client, number: client.post("/ui/chat", {**UI, "id": f"chat-{number}"}),
]


def said(answer: Answer) -> str:
    """Return what is left of an accepted answer without its form: its text must be in it."""
    assert answer.status == 200, answer.raw
    found = answer.raw.decode()
    deltas = [
        line.removeprefix("data: ") for line in found.splitlines() if line.startswith("data: {")
    ]
    if not deltas:
        return found
    pieces = []
    for each in map(json.loads, deltas):
        choices = each.get("choices") or [{}]
        pieces.append(each.get("text") or each.get("delta") or "")
        pieces.append((choices[0].get("delta") or {}).get("content") or "")
    return "".join(piece for piece in pieces if isinstance(piece, str))


def check(answer: Answer) -> str:
    """Check one answer; return ``accepted`` or ``refused``."""
    if answer.status in {429, 503}:
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert b"usy" in answer.raw, answer.raw
        return "refused"
    assert TEXT in said(answer)
    return "accepted"


class Chat:
    """A socket that speaks and counts; ``outcomes`` of its messages by client id."""

    def __init__(self, client: Client) -> None:
        self.socket = Socket(client.gateway, client.token)
        self.socket.connect()
        self.outcomes: dict[str, str] = {}

    def speak(self, number: int) -> Counter[str]:
        """Send messages and read until each has its end; return how they ended."""
        runs: dict[str, str] = {}
        names = [f"m-{time.monotonic_ns()}-{each}" for each in range(number)]
        for name in names:
            self.socket.send({"type": "message", "text": "hello", "client_id": name})
        outcomes: dict[str, str] = {}
        while len(outcomes) < number:
            frame = self.socket.receive()
            if frame["type"] == "error":
                assert (frame["code"], frame["status"]) == ("busy", 503), frame
                assert frame["place"] > 0
                assert frame["retry_after"] > 0
                outcomes[frame["client_id"]] = "refused"
            elif frame["type"] == "accepted":
                runs[frame["run_id"]] = frame["client_id"]
            elif frame["type"] == "final":
                assert (frame["ok"], frame["text"]) == (True, TEXT)
                outcomes[runs[frame["run_id"]]] = "accepted"
        return Counter(outcomes.values())

    def is_open(self) -> bool:
        """Return whether the socket answers a ping."""
        self.socket.send({"type": "ping"})
        while self.socket.receive()["type"] != "pong":
            pass
        return True


def test_beyond_capacity_messages_are_refused_at_once_and_accepted_ones_are_answered(
    gateway: Gateway,
) -> None:
    """One person with thirty requests at four endpoints and five at a socket; six with one each."""
    crowd, *others = people(gateway, number=1 + OTHERS)[:-1]
    assert crowd.say("warm up").status == 200
    chat, other_chat = Chat(crowd), Chat(others[-1])
    before = runs_of(gateway)
    outcomes: Counter[str] = Counter()
    for _ in range(ROUNDS):
        with ThreadPoolExecutor(CROWD + OTHERS + 2) as threads:
            many = [
                threads.submit(ASKS[number % len(ASKS)], crowd, number) for number in range(CROWD)
            ]
            spoken = threads.submit(chat.speak, 5)
            wait_until(partial(refused, many), seconds=60, what="a refusal")
            single = [
                threads.submit(ASKS[number % len(ASKS)], client, number)
                for number, client in enumerate(others[:-1])
            ]
            theirs = threads.submit(other_chat.speak, 1)
            assert [check(each.result()) for each in single] == ["accepted"] * (OTHERS - 1)
            assert theirs.result() == {"accepted": 1}
            round_of = Counter(check(each.result()) for each in many) + spoken.result()
        assert round_of["refused"] > 0
        assert round_of["accepted"] >= 10, "as many as may always wait"
        outcomes += round_of
        outcomes["accepted"] += OTHERS
        assert chat.is_open()
        assert other_chat.is_open()
    after = runs_of(gateway)
    assert after == {"succeeded": before["succeeded"] + outcomes["accepted"]}, "none is lost"


def refused(many: list[Future[Answer]]) -> bool:
    """Return whether one of the requests was refused already, while others wait."""
    return any(each.done() and each.result().status != 200 for each in many)


def runs_of(gateway: Gateway) -> dict[str, int]:
    """Return how many runs there are, by state."""
    return dict(query(gateway, "SELECT state, count(*) FROM core_run GROUP BY state"))

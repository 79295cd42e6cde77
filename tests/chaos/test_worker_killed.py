"""``kill -9`` of the ``runs`` worker at eight points of a run: nothing lost, nothing twice."""

import os
from contextlib import suppress
from functools import partial

import psutil
import pytest

from tests.channels_app.client import query
from tests.chaos.conftest import Arena, MakeArena, wait_final
from tests.chaos.worker_points import POINTS
from tests.servers import wait_until

pytestmark = pytest.mark.slow
TIMES = int(os.environ.get("CHAOS_TIMES", "2"))
# How often a point is passed by one batch: the moment of death is drawn from it.
PASSES = {
    "between tokens": 30,
    "after flush": 2,
    "before delivery": 2,
    "between send and record": 2,
}
WORDS = "the quick brown fox jumps over the lazy dog again and again"


def has_died(arena: Arena, times: int) -> bool:
    """Return whether the worker died so often."""
    return len(arena.deaths()) >= times


def test_rc8_every_accepted_message_has_one_answer_wherever_the_worker_dies(
    arena: MakeArena,
) -> None:
    it = arena()
    runs: dict[str, str] = {}
    chats: dict[str, list[str]] = {}
    rounds = [point for point in POINTS for _ in range(TIMES)]
    it.dice.shuffle(rounds)
    for number, point in enumerate(rounds):
        at = it.dice.randint(1, PASSES.get(point, 3))
        while not gives_order(it, point, at):
            pass
        feed(it, number, runs, chats)
        wait_until(partial(has_died, it, number + 1), seconds=30, what=f"a death {point}")
    assert sorted(set(it.deaths())) == sorted(POINTS)
    wait_final(it, list(runs))
    wait_until(lambda: not left(it), seconds=60, what=lambda: f"the end of {left(it)}")
    judge(it, runs, chats)


def gives_order(arena: Arena, point: str, at: int) -> bool:
    """Let the next worker die at ``point``; return whether it lives: it may have taken the order in
    the moment in which it was ended as one that was forked before.
    """
    arena.order(point, at)
    wait_until(partial(children, arena), seconds=10, what="a worker")
    ended = end_children(arena)
    wait_until(arena.taken, seconds=30, what=f"a worker that is to die {point}")
    return arena.taker() not in ended


def end_children(arena: Arena) -> list[int]:
    """End the worker that was forked before the order, unless the order is taken; return its
    pid.
    """
    ended = []
    for worker in children(arena):
        if not arena.taken():
            ended.append(worker.pid)
            with suppress(psutil.NoSuchProcess):
                worker.kill()
    return ended


def children(arena: Arena) -> list[psutil.Process]:
    """Return the workers that were forked and live."""
    return psutil.Process(arena.gateway.pid("runs")).children()


def feed(arena: Arena, number: int, runs: dict[str, str], chats: dict[str, list[str]]) -> None:
    """Send three messages over HTTP, two in one session; two chats of a platform, two in each."""
    session = ""
    for each in range(3):
        text = f"{number}/{each} {WORDS}"
        more = {"session_id": session} if session and each == 2 else {"user_id": f"{number}/{each}"}
        answer = arena.ada.say(text, **{"async": True, **more})
        assert answer.status == 202
        session = answer.body["session_id"]
        runs[answer.body["run_id"]] = text
    for chat in (f"chat-{2 * number}", f"chat-{2 * number + 1}"):
        chats[chat] = [f"{number}:a {WORDS}", f"{number}:b"]
        for text in chats[chat]:
            arena.webhook.say(chat, text)


def left(arena: Arena) -> list[str]:
    """Return the unfinished rows: a chat that shows one answer may have the next one to come."""
    return [
        f"{table} {row}"
        for table, ended in (
            ("inboundmessage", "answered"),
            ("run", "succeeded"),
            ("delivery", "sent"),
        )
        for row in query(
            arena.gateway,
            f"SELECT id, state FROM core_{table} WHERE state <> '{ended}' ORDER BY id",
        )
    ]


def judge(arena: Arena, runs: dict[str, str], chats: dict[str, list[str]]) -> None:
    """Check from outside: HTTP answers, event streams, and the chats of the platform."""
    for run, text in runs.items():
        result = arena.ada.result(run)
        assert (result.status, result.body["text"]) == (200, text)
        done = [event for event in arena.ada.follow(run) if event.data["event"] == "done"]
        assert [event.data["text"] for event in done] == [text]
    for chat, texts in chats.items():
        # Late messages are answered with the next batch; none twice, in order.
        assert "\n".join(arena.platform.texts(chat)) == "\n".join(texts)
    twice = query(
        arena.gateway,
        "SELECT run_id, count(*) FROM core_message WHERE role = 'assistant' "
        "GROUP BY run_id HAVING count(*) <> 1",
    )
    assert twice == []
    check_logs(arena)


def check_logs(arena: Arena) -> None:
    """[M2] Check that each log has one start and one end, the end last."""
    rows = query(arena.gateway, "SELECT run_id, data FROM core_runevent ORDER BY run_id, seq")
    logs: dict[int, list[str]] = {}
    for run, data in rows:
        logs.setdefault(run, []).append(data)
    for log in logs.values():
        assert [number for number, data in enumerate(log) if '"stream_start"' in data] == [0]
        assert [number for number, data in enumerate(log) if '"stream_end"' in data] == [
            len(log) - 1
        ]

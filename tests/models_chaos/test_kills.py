"""Every process killed in the middle of a provider's bad day: no turn is lost, half or twice."""

import itertools
import random
import threading

import pytest

from tests.models_chaos.conftest import Arena, MakeArena
from tests.models_chaos.test_failover import DAY, TURNS
from tests.models_chaos.turns import ask_all, is_whole, without_note

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
PACE = {"CHUNK_MS": "40"}
SEED = 20261125
KILLED = ("runs", "web", "broker")


def test_kill_9_of_any_process_costs_no_turn(arena: MakeArena) -> None:
    it = arena(each=1)
    it.provider.fail(main=DAY)
    over = threading.Event()
    killer = Killer(it, over)
    killer.start()
    try:
        turns = ask_all(it.people, each=max(4, TURNS // 10))
    finally:
        over.set()
        killer.join()
    restarts = sum(turn.restarts for turn in turns)
    print(f"{len(turns)} turns, killed: {killer.killed}, {restarts} restarts at /v1")
    assert [turn for turn in turns if not turn.is_whole] == []
    assert set(killer.killed) == set(KILLED)
    check_chats(it, [turn.question for turn in turns if turn.channel == "telegram"])


class Killer(threading.Thread):
    """Kills one process after the other at seeded moments and starts it again, until ``over``; each
    at least once."""

    def __init__(self, arena: Arena, over: threading.Event) -> None:
        super().__init__()
        self.arena, self.over = arena, over
        self.killed: list[str] = []

    def run(self) -> None:
        dice = random.Random(SEED)
        for name in itertools.cycle(KILLED):
            if self.over.wait(dice.uniform(0.2, 1.5)) and len(self.killed) >= len(KILLED):
                return
            self.arena.gateway.kill(name)
            self.killed.append(name)
            self.arena.gateway.restart(name)


def check_chats(arena: Arena, questions: list[str]) -> None:
    """Check that each answer is once in its chat. A first part whose process was killed before it
    noted it may stand beside it."""
    for person in arena.people:
        if person.channel == "telegram":
            said = [without_note(each)[0] for each in arena.bots.texts(person.chat)]
            whole = {each: [text for text in said if is_whole(text, each)] for each in questions}
            assert {each: len(texts) for each, texts in whole.items()} == dict.fromkeys(
                questions, 1
            )
            print(f"{len(said) - len(questions)} orphaned first parts of {len(questions)}")

"""A provider's bad day: every turn is answered, once and whole, whichever channel asks."""

import os
from collections import Counter

import pytest

from tests.models_chaos.conftest import CHANNELS, Arena, MakeArena
from tests.models_chaos.turns import Turn, ask_all, without_note
from tests.servers import Process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TURNS = int(os.environ.get("MODEL_TURNS", "40"))
FIRST_SECONDS = 2.0
# Three of ten calls fail; the kinds follow each other, at other places of the ten.
DAY = [
    *("429", "", "", "500", "", "", "cut", "", "", ""),
    *("", "garbage", "", "", "silence", "", "", "pause", "", ""),
    *("", "", "malformed", "", "", "cut", "", "", "500", ""),
]


def test_a_day_of_failures_costs_no_turn(arena: MakeArena) -> None:
    """Equality is checked: a text twice or half is another one."""
    it = arena(each=2)
    calm = ask_all(it.people, each=1, name="qcold")  # work that a process does once
    calm = calm + ask_all(it.people, each=1, name="qcalm")
    it.provider.fail(main=DAY)
    turns = ask_all(it.people, each=-(-TURNS // len(it.people)))
    print(report(turns))
    asked = it.provider.asked(model="main")
    openings, _ = it.circuit()
    print(f"main was asked {len(asked)} times, its circuit was opened {openings} times")
    failed = sum(each.fault != "" for each in asked)
    assert failed > 0
    assert openings <= failed / 3
    assert [turn for turn in turns if not turn.is_whole] == []
    assert {turn.channel for turn in turns} == set(CHANNELS)
    check_chats(it, calm + turns)
    # Beyond the time-out: the time of a calm turn on this machine, and a second.
    most = FIRST_SECONDS + 1 + max(turn.first for turn in calm if "calm" in turn.question)
    assert [turn for turn in turns if turn.first > most] == []


def test_a_circuit_opens_after_three_failures_and_one_request_at_a_time_tries_it(
    arena: MakeArena,
) -> None:
    """Two workers, and each opening is counted once."""
    it = arena(each=2)
    talkers = [each for each in it.people if each.channel != "telegram"]
    second = second_worker(it)
    try:
        it.provider.fail(main=["500"])
        for number in range(3):
            assert talkers[0].ask(f"qa{number}").is_whole
        assert it.circuit() == (1, True)
        assert len(it.provider.asked(model="main")) == 3
        # Skipped: it is not asked while it is open.
        assert all(turn.is_whole for turn in ask_all(talkers, each=2, name="qb"))
        assert len(it.provider.asked(model="main")) == 3
        # Due: one of many tries it, and it stays open.
        make_due(it)
        assert all(turn.is_whole for turn in ask_all(talkers, each=2, name="qc"))
        assert len(it.provider.asked(model="main")) == 4
        assert it.circuit() == (1, True)
        # It answers again: closed, in both workers.
        it.provider.fail(main=[""])
        make_due(it)
        turns = ask_all(talkers, each=4, name="qd")
        assert all(turn.is_whole for turn in turns)
        assert turns[-1].text.startswith("main")
        assert it.circuit() == (1, False)
        it.provider.fail(main=["429"])
        for number in range(3):
            assert talkers[0].ask(f"qe{number}").is_whole
        assert it.circuit() == (2, True)
    finally:
        second.stop()


def test_a_refused_key_opens_the_circuit_at_once(arena: MakeArena) -> None:
    it = arena(each=2)
    it.provider.fail(main=["401"])
    turns = ask_all(it.people[:1], each=3, name="qkey")
    assert [turn.text.startswith("spare") and turn.is_whole for turn in turns] == [True] * 3
    assert len(it.provider.asked(model="main")) == 1
    assert it.circuit() == (1, True)


def test_when_every_circuit_is_open_the_first_model_is_asked_all_the_same(arena: MakeArena) -> None:
    it = arena(each=2)
    it.provider.fail(main=["401", ""], spare=["401", ""])
    person = it.people[0]
    assert person.ask("qall1").text == ""
    assert it.circuit("main") == it.circuit("spare") == (1, True)
    assert person.ask("qall2").is_whole
    assert it.circuit("main") == (1, False)


def second_worker(arena: Arena) -> Process:
    """Start another ``runs`` worker."""
    first = arena.gateway.processes["runs"]
    second = Process(
        command=first.command, log=arena.gateway.folder / "second.log", env=arena.gateway.env
    )
    second.start(reports_ready=True)
    second.wait_ready(second.said_ready)
    return second


def make_due(arena: Arena) -> None:
    """Let the time pass until an open circuit is tried again."""
    code = """
from django.utils import timezone
from core.models import ModelCircuit
from core.providers import catalogue
ModelCircuit.objects.update(probe_at=timezone.now())
catalogue.changed()
"""
    arena.gateway.manage("shell", "-v0", "--no-imports", "-c", code)


def check_chats(arena: Arena, turns: list[Turn]) -> None:
    """Check that Telegram shows nothing but the answers, and names a substitute once in a row."""
    for person in arena.people:
        if person.channel == "telegram":
            said = [without_note(each) for each in arena.bots.texts(person.chat)]
            asked = [turn.text for turn in turns if turn.text in [text for text, _ in said]]
            assert [text for text, _ in said] == asked
            by_spare = [text.startswith("spare") for text in asked]
            before = [False, *by_spare]
            named = [now and not last for now, last in zip(by_spare, before, strict=False)]
            assert [noted for _, noted in said] == named


def report(turns: list[Turn]) -> str:
    """Return what happened, for the reader of the output."""
    first = sorted(turn.first for turn in turns if turn.first >= 0)
    by_channel = Counter(turn.channel for turn in turns)
    restarts = sum(turn.restarts for turn in turns)
    return f"{dict(by_channel)}, first token: {first[-1]:.2f} s at most, {restarts} restarts at /v1"

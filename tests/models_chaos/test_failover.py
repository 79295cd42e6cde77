"""A provider's bad day: every turn is answered, once and whole, whichever channel asks."""

import os
from collections import Counter

import pytest

from tests.models_chaos.conftest import CHANNELS, Arena, MakeArena
from tests.models_chaos.turns import Turn, ask_all, without_note

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
    calm = ask_all(it.people, each=1, name="qcalm")
    it.provider.fail(main=DAY)
    turns = ask_all(it.people, each=max(1, TURNS // len(it.people)))
    print(report(calm))
    print(report(turns))
    assert [turn for turn in turns if not turn.is_whole] == []
    assert {turn.channel for turn in turns} == set(CHANNELS)
    check_chats(it, calm + turns)
    # Beyond the time-out: what a turn takes on this machine, and a second.
    most = FIRST_SECONDS + 1 + max(turn.first for turn in calm)
    assert [turn for turn in turns if turn.first > most] == []


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
    print([round(each, 2) for each in first])
    by_channel = Counter(turn.channel for turn in turns)
    restarts = sum(turn.restarts for turn in turns)
    return f"{dict(by_channel)}, first token: {first[-1]:.2f} s at most, {restarts} restarts at /v1"

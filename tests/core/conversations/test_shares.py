"""Places go to the person who holds fewest, then by order."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.conversations import shares
from core.conversations.shares import Served, in_turn, rank_of

PEOPLE = st.integers(0, 5)


def test_one_person_with_fifty_does_not_hold_ten_others_back() -> None:
    crowd = [(number, 1) for number in range(50)]
    others = [(50 + number, 10 + number) for number in range(10)]
    turns = in_turn([*crowd, *others], {}, most=60)
    assert turns[:11] == [0, *(number for number, _ in others)]
    assert turns[11:] == list(range(1, 50))


def test_a_person_with_places_comes_after_one_without() -> None:
    assert in_turn([(1, 1), (2, 2), (3, 2)], {1: 4}, most=2) == [2, 3]


def test_of_people_with_as_many_places_the_one_without_a_turn_for_longest_comes_first() -> None:
    """Else the one with the oldest work would get every place that it has just given back."""
    served = Served()
    waiting = [(1, 1), (2, 1), (3, 2), (4, 3)]
    assert in_turn(waiting, {}, served, most=1) == [1]
    served.note(1)
    assert in_turn(waiting[1:], {}, served, most=3) == [3, 4, 2]
    served.note(2)
    assert in_turn([(2, 1), (4, 3), (5, 2)], {}, served, most=3) == [4, 2, 5]


def test_of_many_people_the_earliest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "MOST_REMEMBERED", 2)
    served = Served()
    for person in (1, 2, 1, 3):
        served.note(person)
    assert [served.turn(person) for person in (1, 2, 3)] == [3, 0, 4]


def test_the_place_in_the_queue_counts_the_work_before() -> None:
    waiting = Counter({1: 49})
    assert rank_of(2, waiting, {1: 1}) == 1, "one with nothing comes before one who holds a place"
    assert rank_of(2, waiting, {}) == 2
    assert rank_of(1, waiting, {1: 1}) == 50


@given(st.lists(PEOPLE, max_size=30), st.dictionaries(PEOPLE, st.integers(1, 5)), PEOPLE)
def test_the_place_in_the_queue_is_where_the_order_puts_it(
    people: list[int], held: dict[int, int], person: int
) -> None:
    waiting = list(enumerate(people))
    turns = in_turn([*waiting, (len(people), person)], held, most=len(people) + 1)
    assert sorted(turns) == list(range(len(people) + 1)), "each once"
    assert turns.index(len(people)) + 1 == rank_of(person, Counter(people), held)

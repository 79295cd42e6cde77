"""Places are shared by person first, then by order: pure functions.

The next free place goes to the person who holds fewest; of those who hold as many, to who has not
had one for longest, then to the oldest piece of work. Without the second rule a person with fifty
pieces would get every other place of a worker with two: theirs are the oldest.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

MOST_REMEMBERED = 10_000


class Served:
    """The order in which people got places, in this process; the earliest are forgotten."""

    def __init__(self) -> None:
        self._turns: dict[int, int] = {}
        self._number = 0

    def note(self, person: int) -> None:
        """Remember that ``person`` got a place now."""
        self._number += 1
        self._turns.pop(person, None)
        self._turns[person] = self._number
        if len(self._turns) > MOST_REMEMBERED:
            del self._turns[next(iter(self._turns))]

    def turn(self, person: int) -> int:
        """Return a number that is higher for who got a place later; 0 for who got none."""
        return self._turns.get(person, 0)


def in_turn(
    waiting: Iterable[tuple[int, int]],
    held: Mapping[int, int],
    served: Served | None = None,
    *,
    most: int,
) -> list[int]:
    """Return the ids of the next ``most`` pieces of work.

    ``waiting``: (id, person), the oldest first. ``held``: person -> places in use.
    """
    shares = Counter(held)
    ranked: list[tuple[int, int, int]] = []
    for number, person in waiting:
        shares[person] += 1
        ranked.append((shares[person], served.turn(person) if served else 0, number))
    return [number for _, _, number in sorted(ranked)[:most]]


def rank_of(person: int, waiting: Mapping[int, int], held: Mapping[int, int]) -> int:
    """Return the place in the queue that a new piece of work of ``person`` would have, from 1, by
    what people hold.

    ``waiting`` and ``held``: person -> pieces of work that wait, and that have a place.
    """
    share = held.get(person, 0) + waiting.get(person, 0) + 1
    before = sum(
        min(max(share - held.get(other, 0), 0), number)
        for other, number in waiting.items()
        if other != person
    )
    return waiting.get(person, 0) + before + 1

"""Places are shared by person first, then by order: pure functions.

The next free place goes to the person who holds fewest; of those who hold as many, to the oldest
piece of work. So a new piece of work comes ``n``-th of its person, with ``n`` counting what the
person holds and what waits before it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping


def in_turn(waiting: Iterable[tuple[int, int]], held: Mapping[int, int], *, most: int) -> list[int]:
    """Return the ids of the next ``most`` pieces of work.

    ``waiting``: (id, person), the oldest first. ``held``: person -> places in use.
    """
    shares = Counter(held)
    ranked: list[tuple[int, int]] = []
    for number, person in waiting:
        shares[person] += 1
        ranked.append((shares[person], number))
    return [number for _, number in sorted(ranked)[:most]]


def place_of(person: int, waiting: Mapping[int, int], held: Mapping[int, int]) -> int:
    """Return the place in the queue that a new piece of work of ``person`` would have, from 1.

    ``waiting`` and ``held``: person -> pieces of work that wait, and that have a place.
    """
    share = held.get(person, 0) + waiting.get(person, 0) + 1
    before = sum(
        min(max(share - held.get(other, 0), 0), number)
        for other, number in waiting.items()
        if other != person
    )
    return waiting.get(person, 0) + before + 1

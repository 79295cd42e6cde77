"""Counts that may only fall, by kind and place: tests/architecture/ceilings.toml.

``python -m tests.architecture.ceilings`` lowers each ceiling to the current count; a count above
its ceiling is an error unless ``--raise`` is given. The ceilings of calls need a running gateway:
``python -m tests.architecture`` writes these too.
"""

import sys
import tomllib
from collections.abc import Mapping

from tests import ROOT
from tests.architecture import measures

FILE = ROOT / "tests" / "architecture" / "ceilings.toml"
HEAD = "# Counts that may only fall. `python -m tests.architecture.ceilings` lowers them.\n"

Counts = Mapping[str, Mapping[str, int]]


def load() -> dict[str, dict[str, int]]:
    """Return the ceilings: kind -> place -> number. A place without one has the ceiling 0."""
    found: dict[str, dict[str, int]] = tomllib.loads(FILE.read_text())
    return found


def dump(counts: Counts) -> str:
    """Return the ceilings as TOML, sorted, without zeros."""
    lines = [HEAD]
    for kind in counts:
        lines.append(f"[{kind}]")
        lines += [f'"{place}" = {number}' for place, number in sorted(counts[kind].items())]
        lines.append("")
    return "\n".join(lines)


def above(counts: Counts, ceilings: Counts) -> list[str]:
    """Return the counts above their ceiling, a line each."""
    return [
        f"{kind}: {place}: {number}, at most {limit}"
        for kind, counted in counts.items()
        for place, number in counted.items()
        if number > (limit := ceilings.get(kind, {}).get(place, 0))
    ]


def write(kind: str, counted: Mapping[str, int], *, may_raise: bool) -> None:
    """Set the ceilings of ``kind`` for the places in ``counted``; a lower one stays unless
    ``may_raise``.
    """
    ceilings = load()
    known = ceilings.get(kind, {})
    found = {
        place: number if may_raise else min(number, known.get(place, number))
        for place, number in counted.items()
    }
    FILE.write_text(dump({**ceilings, kind: {**known, **found}}))


def main(arguments: list[str]) -> int:
    """Write the current counts as the new ceilings; refuse to raise one unless told to."""
    counts, ceilings = measures.counts(), load()
    higher = above(counts, ceilings)
    if higher and "--raise" not in arguments:
        sys.stderr.write("\n".join([*higher, "Nothing written; --raise raises them.", ""]))
        return 1
    FILE.write_text(dump({**ceilings, **counts}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

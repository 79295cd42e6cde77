"""Delta paths: `content`, `meta.state`, `items[1].name`; relative to props.

A path that starts with `props.` means the same path without it; `props` alone and the empty path
mean the whole props.
"""

import re
from functools import lru_cache

Path = tuple[str | int, ...]

# Four digits: a delta must not be able to ask for a list of a thousand million holes.
_STEP = re.compile(r"([^.\[\]]+)((?:\[[0-9]{1,4}\])*)(?:\.(?=.)|\Z)", re.DOTALL)
_INDEX = re.compile(r"[0-9]{1,4}")


@lru_cache(maxsize=1024)
def parse_path(path: str) -> Path | None:
    """Return the steps of a path: names, and numbers for `[n]`; None when it is malformed."""
    path = "" if path == "props" else path.removeprefix("props.")
    steps: list[str | int] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return None
        steps.append(match[1])
        steps.extend(int(index) for index in _INDEX.findall(match[2]))
        position = match.end()
    return tuple(steps)


def list_index(step: str | int) -> int | None:
    """Return the step as a list index (`[3]` and `.3` both are one), or None."""
    if isinstance(step, int):
        return step
    return int(step) if _INDEX.fullmatch(step) else None

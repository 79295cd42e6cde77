"""Strict JSON from outside: bounded depth, no duplicate key, and only values that both databases
can store. One place, so that no endpoint can forget a check.
"""

import json
import math
from typing import Any, NoReturn

from core.lib.text import is_clean, visible

# The limit of PostgreSQL's columns, orjson and most clients' languages.
LOWEST, HIGHEST = -(2**63), 2**64 - 1
SHOWN_OF_A_KEY = 40

# A part of the JSON: its parent, the key or index in it, its value.
Place = tuple["Place | None", str, Any]


class BadJSONError(ValueError):
    """The bytes are not acceptable JSON; the text says why, without echoing them.

    ``field`` is the path of the value that is not acceptable, for example ``tools[0].type``; empty
    when the whole text is no JSON.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        """Take the reason as ``message``, which follows the name of the field, where there is
        one.
        """
        super().__init__(message)
        self.field = field

    @property
    def sentence(self) -> str:
        """Return the reason as a sentence for the client."""
        return f"{self.field} {self}." if self.field else f"Bad JSON: {self}."


def parse(data: bytes, *, max_depth: int, storable: bool = True) -> Any:
    """Parse ``data``: UTF-8 without BOM, no NaN, no duplicate key, at most ``max_depth`` deep.

    Unless ``storable`` is off (for bytes that are kept as they came, and cleaned later), a text or
    a key with NUL or a lone surrogate, and a whole number beyond 64 bits, are refused too: SQLite
    takes them, PostgreSQL does not. Raises BadJSONError.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=unique,
            parse_constant=refuse_constant,
            parse_float=finite,
        )
    except UnicodeDecodeError as error:
        raise BadJSONError("the body is not valid UTF-8") from error
    except RecursionError as error:
        raise BadJSONError("the JSON is nested too deeply") from error
    except BadJSONError:
        raise
    except ValueError as error:
        raise BadJSONError("the body is not valid JSON") from error
    if depth_over(value, max_depth):
        raise BadJSONError("the JSON is nested too deeply")
    if storable:
        check_storable(value)
    return value


def check_storable(value: Any) -> None:
    """Raise BadJSONError that names the first part of ``value`` which some database cannot
    store.
    """
    waiting: list[Place] = [(None, "", value)]
    while waiting:
        place = waiting.pop()
        node = place[2]
        if isinstance(node, dict):
            waiting += [(place, f".{key}", each) for key, each in node.items()]
            if not all(is_clean(key) for key in node):
                raise BadJSONError("holds a key that is not text", field=path_of(place))
        elif isinstance(node, list):
            waiting += [(place, f"[{number}]", each) for number, each in enumerate(node)]
        elif isinstance(node, str) and not is_clean(node):
            raise BadJSONError("holds characters that are not text", field=path_of(place))
        elif isinstance(node, int) and not LOWEST <= node <= HIGHEST:
            raise BadJSONError("is a number beyond 64 bits", field=path_of(place))


def path_of(place: Place | None) -> str:
    """Return the path of a part, for example ``tools[0].type``; ``body`` for the whole."""
    steps: list[str] = []
    while place is not None:
        steps.append(visible(place[1][:SHOWN_OF_A_KEY]))
        place = place[0]
    return "".join(reversed(steps)).removeprefix(".") or "body"


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of ``pairs``; a duplicate key is refused, since parsers disagree on it."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadJSONError("an object has the same key twice")
    return found


def finite(digits: str) -> float:
    """Return a number that JSON can represent: ``1e999`` would become Infinity."""
    value = float(digits)
    if not math.isfinite(value):
        raise BadJSONError("a number is too large")
    return value


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and Infinity, which are not JSON."""
    raise BadJSONError(f"{name} is not JSON")


def depth_over(value: Any, limit: int) -> bool:
    """Return whether ``value`` is nested more than ``limit`` deep; without recursion."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return False
    return any(isinstance(node, (dict, list)) for node in level)

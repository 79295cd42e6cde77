"""Strict JSON from outside: bounded depth, no duplicate key, and only values that both databases
can store. One place, so that no endpoint can forget a check.
"""

import codecs
import json
import math
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from core.lib.text import is_clean, visible

# The limit of PostgreSQL's columns, orjson and most clients' languages.
LOWEST, HIGHEST = -(2**63), 2**64 - 1
SHOWN_OF_A_KEY = 40
CONTAINERS = (dict, list)


class BadJSONError(ValueError):
    """The bytes are not acceptable JSON; the text says why, without echoing them.

    ``field`` is the path of the value that is not acceptable, for example ``tools[0].type``; empty
    when the whole text is no JSON.
    """

    def __init__(self, message: str, *, field: str = "") -> None:
        """Take the reason, which follows the field's name, if any."""
        super().__init__(message)
        self.field = field

    @property
    def sentence(self) -> str:
        """Return the reason as a sentence for the client."""
        return f"{self.field} {self}." if self.field else f"Bad JSON: {self}."


def parse(data: bytes, *, max_depth: int, storable: bool = True) -> Any:
    """Parse ``data``: UTF-8, no NaN, no duplicate key, at most ``max_depth`` deep.

    A byte order mark is ignored (RFC 8259, section 8.1): files of Windows begin with one.

    Unless ``storable`` is off (for bytes that are kept as they came, and cleaned later), a text or
    a key with NUL or a lone surrogate, and a whole number beyond 64 bits, are refused too: SQLite
    takes them, PostgreSQL does not. Raises BadJSONError.
    """
    try:
        value = json.loads(
            data.removeprefix(codecs.BOM_UTF8).decode("utf-8"),
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

    Remembers nothing but the way to the part it is at: a body may have millions of parts.
    """
    steps: list[str | int] = []
    parts: list[Iterator[tuple[str | int, Any]]] = [enumerate([value])]
    while parts:
        for step, node in parts[-1]:
            if fault := fault_of(node):
                raise BadJSONError(fault, field=path_of([*steps, step][1:]))
            if node and isinstance(node, CONTAINERS):
                steps.append(step)
                parts.append(iter(node.items()) if isinstance(node, dict) else enumerate(node))
                break
        else:
            parts.pop()
            del steps[-1:]


def fault_of(node: Any) -> str:
    """Return why some database cannot store ``node`` itself (not its parts), or an empty string."""
    if isinstance(node, str):
        return "" if is_clean(node) else "holds characters that are not text"
    if isinstance(node, int):
        return "" if LOWEST <= node <= HIGHEST else "is a number beyond 64 bits"
    if isinstance(node, dict) and not all(map(is_clean, node)):
        return "holds a key that is not text"
    return ""


def path_of(steps: Iterable[str | int]) -> str:
    """Return the path of a part, for example ``tools[0].type``; ``body`` for the whole."""
    shown = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in steps)
    return visible("".join(each[:SHOWN_OF_A_KEY] for each in shown)).removeprefix(".") or "body"


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
    level = [each for each in [value] if isinstance(each, CONTAINERS)]
    for _ in range(limit):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, CONTAINERS)
        ]
    return bool(level)

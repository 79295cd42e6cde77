"""JSON from strangers: strict, bounded in depth, no key twice."""

import json
import math
from typing import Any, NoReturn


class BadJSONError(ValueError):
    """The bytes are not acceptable JSON; the text says why, without echoing them."""


def parse(data: bytes, *, max_depth: int) -> Any:
    """The value in ``data``: UTF-8 without BOM, no NaN, no key twice, at most ``max_depth`` deep.

    Raises BadJSONError.
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
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of ``pairs``; a key that stands twice is refused, since readers disagree on it."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise BadJSONError("an object has the same key twice")
    return found


def finite(digits: str) -> float:
    """A number that JSON can hold again: ``1e999`` would become Infinity."""
    value = float(digits)
    if not math.isfinite(value):
        raise BadJSONError("a number is too large")
    return value


def refuse_constant(name: str) -> NoReturn:
    """NaN and Infinity are not JSON."""
    raise BadJSONError(f"{name} is not JSON")


def depth_over(value: Any, limit: int) -> bool:
    """Whether ``value`` is nested more than ``limit`` deep; without recursion."""
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

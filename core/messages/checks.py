"""Type checks of each prop of a built-in type, by its declaration in `props.py`.

A check gets the value and the path of its field, and raises `MessageError` naming that path.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal, get_args, get_origin, get_type_hints

from core.messages.props import ContentPart, RetrievalSource
from core.messages.types import CLASSES, MessageError, Metadata

Check = Callable[[object, str], None]

# The type of a custom message becomes part of addresses and of `data-*` names.
TYPE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", re.ASCII)


def string(value: object, field: str) -> None:
    """Require a text, possibly empty."""
    if not isinstance(value, str):
        raise MessageError(field, f"must be a string, not {_kind(value)}")


def integer(value: object, field: str) -> None:
    """Require a whole number, not negative."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MessageError(field, "must be a whole number, not negative")


def number(value: object, field: str) -> None:
    """Require a number; booleans are none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise MessageError(field, f"must be a number, not {_kind(value)}")


def boolean(value: object, field: str) -> None:
    if not isinstance(value, bool):
        raise MessageError(field, f"must be true or false, not {_kind(value)}")


def mapping(value: object, field: str) -> None:
    """Require a JSON object."""
    if not isinstance(value, dict):
        raise MessageError(field, f"must be an object, not {_kind(value)}")


def one_of(*allowed: str) -> Check:
    """Return a check for a closed set of words."""

    def check(value: object, field: str) -> None:
        if value not in allowed:
            raise MessageError(field, f"must be one of {', '.join(allowed)}")

    return check


def user_content(value: object, field: str) -> None:
    """Require a text, or a list of content parts with their types."""
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        raise MessageError(field, f"must be a string or a list of parts, not {_kind(value)}")
    for index, part in enumerate(value):
        if part is None:
            continue  # a hole left by a delta that addresses a later part
        mapping(part, f"{field}[{index}]")
        string(part.get("type", ""), f"{field}[{index}].type")


def sources(value: object, field: str) -> None:
    """Require a list of retrieval sources."""
    if not isinstance(value, list):
        raise MessageError(field, f"must be a list, not {_kind(value)}")
    for index, source in enumerate(value):
        if source is None:
            continue  # a hole, as above
        mapping(source, f"{field}[{index}]")
        present(source, SOURCE_FIELDS, f"{field}[{index}]")


# The check of each type that a prop is declared with; a `Literal` is checked by its words.
_CHECKS: dict[object, Check] = {
    str: string,
    int: integer,
    float: number,
    bool: boolean,
    Mapping[str, object]: mapping,
    Metadata: mapping,
    str | list[ContentPart]: user_content,
    list[RetrievalSource]: sources,
}


def fields_of(declared: type) -> dict[str, Check]:
    """Return the check of each field of a `TypedDict`, in its order."""
    return {
        name: one_of(*get_args(hint)) if get_origin(hint) is Literal else _CHECKS[hint]
        for name, hint in get_type_hints(declared).items()
    }


FIELDS = {name: fields_of(get_type_hints(each)["props"]) for name, each in CLASSES.items()}
SOURCE_FIELDS = fields_of(RetrievalSource)


def present(values: Mapping[str, object], fields: Mapping[str, Check], prefix: str) -> None:
    """Check the known fields that are present; null and unknown fields are skipped."""
    for name, value in values.items():
        check = fields.get(name)
        if check is not None and value is not None:
            check(value, f"{prefix}.{name}")


def _kind(value: object) -> str:
    """Return the JSON name of a value's type, for error texts."""
    names = {bool: "boolean", int: "number", float: "number", list: "list", dict: "object"}
    return "null" if value is None else names.get(type(value), type(value).__name__)

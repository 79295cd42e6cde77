"""Objects that other packages add by an entry point; the others work without a broken one."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

import jsonschema

from core.lib.text import one_line

logger = logging.getLogger(__name__)

T = TypeVar("T")
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # as vendors take the name of a tool
NAME_RULE = "has letters, digits, - and _, at most 64 of them."
LONGEST_ERROR = 300


@dataclass(frozen=True, slots=True)
class Installed(Generic[T]):
    """The objects of other packages by name, and by entry point the error of each broken one."""

    found: dict[str, T] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)


class BrokenError(Exception):
    """Why an object of another package cannot be used; the text is for the owner."""


def read(
    group: str, kind: str, load: Callable[[EntryPoint, Mapping[str, T]], tuple[str, T]]
) -> Installed[T]:
    """Return the objects of a group of entry points. An error is logged with the ``kind``.

    ``load`` returns the name and the object of an entry point, given those before it. Raises
    BrokenError, and any error of the object's module.
    """
    installed: Installed[T] = Installed()
    for point in sorted(entry_points(group=group), key=lambda each: (each.name, each.value)):
        try:
            name, each = load(point, installed.found)
        except Exception as error:
            logger.exception("the %s %s cannot be loaded", kind, point.name)
            prefix = "" if isinstance(error, BrokenError) else f"{type(error).__name__}: "
            installed.broken[point.name] = one_line(f"{prefix}{error}", LONGEST_ERROR)
        else:
            installed.found[name] = each
    return installed


def is_name(value: object) -> bool:
    """Return whether this is a name that models can be told."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None


def problem_of(schema: object) -> str:
    """Return why these are no parameters of a call, after "its"; empty when nothing is wrong."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "parameters are no JSON schema of an object."
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"JSON schema is not valid: {error.message}"
    return ""

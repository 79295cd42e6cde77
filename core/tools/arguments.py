"""Check what a model hands to a tool against a JSON schema, and say what is wrong. Pure."""

import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import jsonschema

from core.lib.text import counted, one_line

LONGEST = 300  # characters of a sentence
LONGEST_VALUE = 80
MOST_DEPTH = 50  # of lists and objects within each other
WHOLE = re.compile(r"\s*-?\d{1,300}\s*", re.ASCII)
NUMBER = re.compile(r"\s*-?\d{1,300}(\.\d{1,300})?\s*", re.ASCII)
TRUTH = {"true": True, "false": False}
KINDS = {
    "integer": "a whole number",
    "array": "a list",
    "boolean": "true or false",
    "object": "an object",
}
SIZES = {
    "minLength": ("at least", "character", "characters"),
    "maxLength": ("at most", "character", "characters"),
    "minItems": ("at least", "entry", "entries"),
    "maxItems": ("at most", "entry", "entries"),
}
as_json = partial(json.dumps, ensure_ascii=False, separators=(",", ":"), default=str)


def coerced(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return ``value`` as the type of its schema, where that is lossless ("7" as 7)."""
    wanted = schema.get("type")
    if wanted == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if wanted == "array" and isinstance(value, str):
        return [value]
    if wanted == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return read(value, wanted)
    return value


def read(text: str, wanted: str | None) -> Any:
    """Return the number, truth value or object that a text writes; other texts as they are."""
    if wanted == "integer" and WHOLE.fullmatch(text):
        return int(text)
    if wanted == "number" and NUMBER.fullmatch(text):
        return float(text) if "." in text else int(text)
    if wanted == "boolean":
        return TRUTH.get(text.strip().lower(), text)
    if wanted == "object":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def all_coerced(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return ``value`` with its parts coerced, too. Parts that may be left out and are null, or
    empty where the empty text is no value, are left out: so models fill in forms.
    """
    if not schema:
        return value
    value = coerced(value, schema)
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [all_coerced(each, schema["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    known, needed = schema.get("properties", {}), schema.get("required", ())
    others = schema.get("additionalProperties")
    other = others if isinstance(others, Mapping) else {}
    return {
        name: all_coerced(each, known.get(name, other))
        for name, each in value.items()
        if name not in known or name in needed or not is_left_out(each, known[name])
    }


def is_left_out(value: Any, schema: Mapping[str, Any]) -> bool:
    """Return whether a value stands for none."""
    if value is None:
        return True
    return value == "" and (schema.get("type") != "string" or "enum" in schema)


def text_of(value: object) -> str:
    """Return an argument that should be a text; empty for a list, an object or nothing."""
    return str(value) if isinstance(value, str | int | float) else ""


def is_too_deep(value: object, most: int = MOST_DEPTH) -> bool:
    """Return whether lists and objects are within each other more than ``most`` levels deep, which
    neither JSON columns nor error messages are made for.
    """
    level = [value]
    for _ in range(most):
        level = [inner for each in level for inner in parts_of(each)]
        if not level:
            return False
    return True


def parts_of(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def problem(validator: jsonschema.protocols.Validator, value: Any, *within: str) -> str:
    """Return what is wrong with a value, in a sentence for the model; empty when nothing is.

    ``within``: the names of the objects in which the value was.
    """
    if is_too_deep(value):
        return f"{'.'.join(within) or 'The value'} must not be nested so deeply."
    errors = sorted(validator.iter_errors(value), key=lambda error: [*map(str, error.path)])
    if not errors:
        return ""
    path = [*within, *map(str, errors[0].absolute_path)]
    return one_line(described(errors[0], path), LONGEST)


def described(error: jsonschema.ValidationError, path: list[str]) -> str:
    """Return what is wrong with the value at ``path``."""
    schema: Any = error.schema
    if error.validator == "required":
        missing = next((name for name in error.validator_value if name not in error.instance), "")
        return f"{'.'.join([*path, missing])} is missing."
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = schema.get("properties", {})
        unknown = next((name for name in error.instance if name not in known), "")
        names = f"known are: {', '.join(known)}" if known else "nothing is taken here"
        return f"{'.'.join([*path, one_line(unknown, LONGEST_VALUE)])} is not known; {names}."
    field = ".".join(path) or "The value"
    was = as_json(error.instance)[:LONGEST_VALUE]
    if schema.get("enum"):
        return f"{field} must be one of {', '.join(map(str, schema['enum']))}; it was {was}."
    if error.validator in {"type", "minimum", "maximum"}:
        return f"{field} must be {kind_of(schema)}; it was {was}."
    if error.validator in SIZES:
        bound, one, several = SIZES[error.validator]
        return f"{field} must have {bound} {counted(error.validator_value, one, several)}."
    return f"{field}: {error.message}"


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return which values a schema of a simple type takes, in words."""
    low, high = schema.get("minimum"), schema.get("maximum")
    span = ""
    if low is not None and high is not None:
        span = f" from {low} to {high}"
    elif low is not None or high is not None:
        span = f" of {low} or more" if low is not None else f" of {high} or less"
    kind = str(schema.get("type"))
    return f"{KINDS.get(kind, f'a {kind}')}{span}"

"""A tool as its MCP server describes it: bounded, without invisible characters, with its hash."""

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from core.lib.text import UNSEEN, clean, is_clean

MOST_NAME = 128  # characters; the specification's own limit
MOST_TITLE = 200
MOST_DESCRIPTION = 8_000
MOST_SCHEMA_BYTES = 32_000
MOST_DEPTH = 32
MOST_CALL_NAME = 64  # of OpenAI's API, and of most others
DIGEST = 8
# Joiners are parts of scripts and of emoji; tags and bidirectional controls hide text from readers.
JOINERS = "\u200c\u200d"
PROSE = ("description", "title")
ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool as its server describes it. ``problem``: why it cannot be used; empty for nothing."""

    name: str
    title: str = ""
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False
    idempotent: bool = False
    problem: str = ""

    def digest(self) -> str:
        """Return the hash of all that a model or the owner is told about the tool."""
        return hashlib.sha256(orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)).hexdigest()

    def stored(self) -> dict[str, Any]:
        """Return it as JSON, for the row."""
        return asdict(self)


def offer(
    name: str,
    *,
    title: str = "",
    description: str = "",
    schema: Mapping[str, Any],
    hints: Mapping[str, Any] | None = None,
) -> Offer:
    """Return a server's description, as far as it can be used. ``hints``: its annotations."""
    given = hints or {}
    read_only = given.get("readOnlyHint") is True
    idempotent = read_only or given.get("idempotentHint") is True
    found, problem = schema_of(schema)
    if len(description) > MOST_DESCRIPTION:
        problem = f"Its description is longer than {MOST_DESCRIPTION} characters."
    return Offer(
        name=name,
        title=seen(title)[:MOST_TITLE],
        description=seen(description[:MOST_DESCRIPTION]),
        schema=found,
        read_only=read_only,
        idempotent=idempotent,
        problem=problem,
    )


def name_problem(name: str) -> str:
    """Return why a tool's name cannot be used; empty for nothing."""
    if not name or len(name) > MOST_NAME or not name.isprintable() or not is_clean(name):
        return "A name is empty, too long, or has invisible characters."
    return ""


def schema_of(given: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return a schema of arguments with readable prose, and why it cannot be used."""
    if depth_of(given, MOST_DEPTH) > MOST_DEPTH:
        return {}, f"The description of its arguments is nested deeper than {MOST_DEPTH} levels."
    try:
        packed = orjson.dumps(given)
    except TypeError:
        return {}, "The description of its arguments has numbers or texts that no JSON can hold."
    if len(packed) > MOST_SCHEMA_BYTES:
        return {}, f"The description of its arguments is larger than {MOST_SCHEMA_BYTES} bytes."
    schema = readable(orjson.loads(packed))
    if schema.get("type", "object") != "object":
        return {}, "Its arguments are no object."
    return {"type": "object", **schema}, ""


def depth_of(value: Any, most: int) -> int:
    """Return how deep ``value`` is nested; ``most`` + 1 for anything deeper than ``most``."""
    level, depth = [value], 0
    while level and depth <= most:
        depth += 1
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def readable(value: Any) -> Any:
    """Return a schema that can be stored, with its prose as a reader sees it."""
    if isinstance(value, dict):
        return {
            clean(key): seen(inner) if key in PROSE and isinstance(inner, str) else readable(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [readable(each) for each in value]
    return clean(value) if isinstance(value, str) else value


def seen(text: str) -> str:
    """Return ``text`` without invisible characters: a model reads the same text as the owner."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each
        for each in clean(text)
        if each in "\n\t" or each in JOINERS or unicodedata.category(each) not in UNSEEN
    )


def call_name(slug: str, name: str) -> str:
    """Return the name of a server's tool for models: ``mcp_<slug>_<name>``, at most 64 characters
    of those that all vendors accept; a changed name ends with its hash.
    """
    plain = f"mcp_{slug}_" + "".join(each if each in ALLOWED else "_" for each in name)
    if plain == f"mcp_{slug}_{name}" and len(plain) <= MOST_CALL_NAME:
        return plain
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:DIGEST]
    return f"{plain[: MOST_CALL_NAME - DIGEST - 1]}_{digest}"

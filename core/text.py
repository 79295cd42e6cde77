"""Texts that every database and every channel can hold."""

import re

# NUL is refused by PostgreSQL; lone surrogates cannot be encoded.
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean(text: str) -> str:
    """``text`` without NUL and with lone surrogates replaced by U+FFFD."""
    return UNSTORABLE.sub(lambda match: "" if match[0] == "\x00" else "\ufffd", text)


def is_clean(text: str) -> bool:
    """Whether :func:`clean` would change nothing."""
    return UNSTORABLE.search(text) is None


def one_line(text: str, limit: int) -> str:
    """``text`` on one line, control characters dropped, at most ``limit`` characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in clean(text)).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"

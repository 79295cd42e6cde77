"""Classify the format of an answer (requirement 1, section 1.1)."""

import re
from typing import Literal

from .document import read
from .looks import PLAIN

Classification = Literal["plain", "markdown", "link"]

LINK_LIMIT = 600  # characters; a longer text is more than a link with a few words
_ADDRESS = re.compile(r"https?://[^\s]|/files/out\b", re.IGNORECASE)


def is_markdown(source: str) -> bool:
    """Return whether the parser finds any Markdown."""
    return read(source, PLAIN).marked


def classify(source: str) -> Classification:
    if is_markdown(source):
        return "markdown"
    if len(source) <= LINK_LIMIT and _ADDRESS.search(source):
        return "link"
    return "plain"

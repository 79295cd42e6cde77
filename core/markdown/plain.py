"""Markdown without its markers, for text-only channels."""

from .document import read
from .looks import PLAIN
from .quotes import quoted


def render(source: str) -> str:
    """Return plain text: ``text (url)``, ``- item``, code and non-Markdown text unchanged."""
    document = read(source, PLAIN)
    if not document.marked:
        return source
    return quoted(document.text, document.spans, nested=True)[0]

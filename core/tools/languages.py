"""Detect the language of a request. Pure."""

from core.lib.languages import detect
from core.plugins.slides import asked


def language_of(text: str) -> str:
    """Return the language of a text ("de", "zh"); English when undetermined."""
    return detect(text).tag[:2]


def of_request(text: str) -> str:
    """Return the language of the request itself: the caption of a file, not the file's content."""
    return language_of(asked.lines_of(text) or text)

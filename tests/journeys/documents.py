"""The commands and examples of README.md and docs/, read out of them."""

import re
from pathlib import Path

from gateway_project.home import BASE_DIR

FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def text(document: str) -> str:
    """Return a document."""
    return Path(BASE_DIR / document).read_text(encoding="utf-8")


def blocks(document: str, language: str | None = None) -> list[str]:
    """Return the fenced blocks of a document, all or those of a language."""
    found = FENCE.finditer(text(document))
    return [each["text"] for each in found if language in (None, each["language"])]


def block(document: str, having: str, language: str | None = None) -> str:
    """Return the one fenced block that holds ``having``."""
    found = [each for each in blocks(document, language) if having in each]
    assert len(found) == 1, f"{document} has {len(found)} blocks with {having!r}"
    return found[0]


def command(document: str, having: str) -> str:
    """Return the one shell command that holds ``having``, with its continued lines, without its
    remark."""
    lines = "\n".join(blocks(document)).replace("\\\n", " ").splitlines()
    found = [line.partition("   #")[0].strip() for line in lines if having in line]
    assert len(found) == 1, f"{document} has {len(found)} commands with {having!r}"
    return found[0]


def says(document: str, words: str) -> str:
    """Return ``words``; check that the document has them, whatever its line breaks."""
    plain = " ".join(text(document).split())
    assert words in plain, f"{document} does not say {words!r} any more"
    return words

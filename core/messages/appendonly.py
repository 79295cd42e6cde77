"""A text that may be rewritten, told to a client that can only append.

When a worker dies in the middle of an answer, the next attempt empties the message and begins
again. A client of an append-only wire already shows the first attempt: what the second one repeats
is not sent again, and where it goes another way the client is told so in one line and gets the
new text from the start of the paragraph in which the two part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.MULTILINE)


@dataclass(slots=True)
class AppendOnly:
    """What the client was sent of the current version of one text.

    `notice` is the line that says that the answer starts anew.
    """

    notice: str
    sent: str = ""
    behind: bool = False
    restarts: int = 0

    def advance(self, text: str) -> str:
        """What to append now that the message's text is `text`; empty when nothing is due.

        `behind` says that a new attempt is still repeating what the client has.
        """
        self.behind = len(text) < len(self.sent) and self.sent.startswith(text)
        if self.behind:
            return ""
        if not text.startswith(self.sent):
            return self._restart(text)
        piece = text[len(self.sent) :]
        self.sent = text
        return piece

    def settle(self, text: str) -> str:
        """As `advance`, for the final text: shorter than what was sent counts as another way."""
        piece = self.advance(text)
        return self._restart(text) if self.behind and text else piece

    def _restart(self, text: str) -> str:
        start = _paragraph_start(text, _common_length(self.sent, text))
        close = "\n" + self.sent[slice(*fence)] if (fence := _open_fence(self.sent)) else ""
        self.sent = text
        self.behind = False
        self.restarts += 1
        return f"{close}\n\n{self.notice}\n\n{text[start:]}"


@dataclass(slots=True)
class Telling:
    """All the texts of a run as one append-only client has them.

    When one of them goes another way, the later ones of the lost attempt stand above it: they are
    told again in full, below it, and without another notice.
    """

    notice: str
    _told: dict[str, AppendOnly] = field(default_factory=dict)

    def tell(self, key: str, text: str, *, settled: bool) -> str:
        """What to append for the text with this key; without a key it shares no history."""
        if not key:
            return text
        told = self._told.setdefault(key, AppendOnly(self.notice))
        before = told.restarts
        piece = told.settle(text) if settled else told.advance(text)
        if told.restarts > before:
            for other in self._told.values():
                if other.behind:
                    other.sent, other.behind = "", False
        return piece


def _common_length(first: str, second: str) -> int:
    """How many characters two texts have in common at their start."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


def _paragraph_start(text: str, position: int) -> int:
    """Where the paragraph (or the code block) around a position begins."""
    before = text[:position]
    start = before.rfind("\n\n") + 2 if "\n\n" in before else before.rfind("\n") + 1
    fence = _open_fence(text[:start])
    return fence[0] if fence else start


def _open_fence(text: str) -> tuple[int, int] | None:
    """Where the marker of a code fence that is not closed yet stands."""
    opened: re.Match[str] | None = None
    for marker in _FENCE.finditer(text):
        if opened is None:
            opened = marker
        elif marker[1].startswith(opened[1]):
            opened = None
    return opened.span(1) if opened else None

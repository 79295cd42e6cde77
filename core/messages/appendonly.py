"""Convert rewritable texts for clients that can only append.

When a worker dies in the middle of an answer, the next attempt empties the message and begins
again. A client of an append-only format already shows the first attempt: text that the second one
repeats is not sent again, and where it differs the client gets one line about it and the new text
from the start of the paragraph with the difference.
"""

import re
from dataclasses import dataclass, field

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)", re.MULTILINE)


@dataclass(slots=True)
class AppendOnly:
    """The sent part of the current version of one text.

    `notice` is the line that announces the new start.
    """

    notice: str
    sent: str = ""
    behind: bool = False
    restarts: int = 0

    def advance(self, text: str) -> str:
        """Return the text to append now that the message's text is `text`; empty for none.

        `behind`: a new attempt is still repeating the sent part.
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
        """Do as `advance` for the final text: a text shorter than the sent part differs."""
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
class AppendOnlyTexts:
    """All the texts of a run for one append-only client.

    When one of them differs, the later ones of the lost attempt stand above it: they are sent again
    in full, below it, without another notice.
    """

    notice: str
    _texts: dict[str, AppendOnly] = field(default_factory=dict)

    def advance(self, key: str, text: str, *, settled: bool) -> str:
        """Return the text to append for this key; a text without a key has no history."""
        if not key:
            return text
        known = self._texts.setdefault(key, AppendOnly(self.notice))
        before = known.restarts
        piece = known.settle(text) if settled else known.advance(text)
        if known.restarts > before:
            for other in self._texts.values():
                if other.behind:
                    other.sent, other.behind = "", False
        return piece


def _common_length(first: str, second: str) -> int:
    """Return the length of the common prefix of two texts."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(first), len(second)))


def _paragraph_start(text: str, position: int) -> int:
    """Return the start of the paragraph (or of the code block) around a position."""
    before = text[:position]
    start = before.rfind("\n\n") + 2 if "\n\n" in before else before.rfind("\n") + 1
    fence = _open_fence(text[:start])
    return fence[0] if fence else start


def _open_fence(text: str) -> tuple[int, int] | None:
    """Return the position of the marker of an unclosed code fence."""
    opened: re.Match[str] | None = None
    for marker in _FENCE.finditer(text):
        if opened is None:
            opened = marker
        elif marker[1].startswith(opened[1]):
            opened = None
    return opened.span(1) if opened else None

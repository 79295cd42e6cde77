"""The text of an HTML document, in lines as a browser shows it: no scripts, no styles."""

from collections.abc import Iterator
from typing import Any

from lxml import etree

from core.documents.word import RAISED_NUMBER

HEADINGS = frozenset({"h1", "h2", "h3"})
SKIPPED = ("script", "style", "title", "head", "template", "noscript", etree.Comment, etree.PI)
# Elements that begin and end a line; all others are words within one.
BLOCK_NAMES = (
    "address article aside blockquote body br button caption center dd details dialog div dl dt "
    "fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr html legend li main nav ol "
    "optgroup option p pre section select summary table tbody tfoot thead tr ul"
)
BLOCKS = frozenset(BLOCK_NAMES.split())
CELLS = frozenset({"td", "th"})
BETWEEN = " | "
HEADING_CHARACTERS = 100
ROW_CHARACTERS = 4_000  # a longer row of a table goes on in another line


class Lines:
    """The lines of a document so far, and the words of the one that is being written."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._words: list[str] = []
        self._rows: list[int] = []  # where each table row that is open began
        self._plain = 0  # elements around in which spaces count

    def add(self, text: str | None) -> None:
        if text and self._plain:
            first, *others = text.split("\n")
            self._words.append(first)
            for line in others:
                self.end()
                self._words.append(line)
        elif text:
            self._words.append(text)

    def end(self) -> None:
        """End the line, if it holds a word."""
        line, self._words = "".join(self._words), []
        line = line.rstrip() if self._plain else " ".join(line.split())
        if line.strip(" |"):
            self.done.append(line)

    def open(self, element: Any) -> None:
        """Enter an element."""
        tag = element.tag
        if tag in BLOCKS:
            self.end()
        if tag == "tr":
            self._rows.append(len(self.done))
        elif tag == "pre":
            self._plain += 1
        elif tag in CELLS and element.getprevious() is not None:
            self._next_cell()
        elif tag == "sup" and RAISED_NUMBER.fullmatch((element.text or "").strip()):
            self._words.append("^")  # else 10 to the sixth is 106
        self.add(element.text)

    def close(self, element: Any) -> None:
        """Leave an element, and go on behind it."""
        tag = element.tag
        if tag in BLOCKS:
            self.end()
        if tag == "tr" and self._rows:
            self._rows.pop()
        elif tag == "pre":
            self._plain -= 1
        self.add(element.tail)

    def take(self) -> list[str]:
        """Return the lines, and begin with none."""
        self.end()
        taken, self.done = self.done, []
        self._rows = [0 for _ in self._rows]
        return taken

    def _next_cell(self) -> None:
        """Go on in the line of the cell before."""
        is_begun = any(words.strip() for words in self._words)
        has_line = bool(self._rows) and len(self.done) > self._rows[-1]
        if not is_begun and has_line and len(self.done[-1]) < ROW_CHARACTERS:
            self._words = [self.done.pop()]
        self._words.append(BETWEEN)


def sections(root: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield the headings of a document with the lines under them; first those under none."""
    etree.strip_elements(root, *SKIPPED, with_tail=False)
    heading, lines = "", Lines()
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "start" and element.tag in HEADINGS:
            yield heading, lines.take()
            heading = " ".join(element.text_content().split())[:HEADING_CHARACTERS]
        (lines.open if event == "start" else lines.close)(element)
    yield heading, lines.take()

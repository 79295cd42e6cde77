"""Tables as text: an aligned grid, or where that is too wide for a chat a list or bare rows."""

from typing import Literal

from wcwidth import wcswidth

from .spans import Span, shifted

# The text of a cell, and its links.
Cell = tuple[str, list[Span]]
Shape = Literal["grid", "list", "rows"]

MAX_COLUMNS = 60  # display columns of a grid, contracts [T3]
_MAX_LINES = 8  # more lines for each row of a table are no list any more
REPEATED_HEADER = 40  # a longer header is written for the first row only


def width(text: str) -> int:
    """Return the display columns of a line: CJK and most emoji take two, combining marks none."""
    if text.isascii():
        return len(text)
    columns = wcswidth(text)
    return columns if columns >= 0 else len(text)


def _pad(cell: str, room: int, align: str) -> str:
    spare = room - width(cell)
    if align[0] == ":" == align[-1] and len(align) > 1:
        return f"{' ' * (spare // 2)}{cell}{' ' * (spare - spare // 2)}"
    if align[-1] == ":":
        return f"{' ' * spare}{cell}"
    return f"{cell}{' ' * spare}"


def shape(rows: list[list[str]]) -> Shape:
    """Return how to draw a table, by its cells as they are written."""
    rooms = _column_widths(rows)
    if sum(rooms) + 3 * (len(rooms) - 1) <= MAX_COLUMNS:
        return "grid"
    return "list" if len(rooms) <= _MAX_LINES else "rows"


def _column_widths(rows: list[list[str]]) -> list[int]:
    # Not by columns (`zip_longest`): many short rows below a wide one would take quadratic time.
    rooms = [0] * len(rows[0])
    for row in rows:
        for column, cell in enumerate(row):
            rooms[column] = max(rooms[column], width(cell))
    return rooms


def grid(rows: list[list[str]], aligns: list[str]) -> str:
    """Return the rows as aligned lines with a rule under the first.

    ``aligns`` has the cells of Markdown's alignment row (``:--``, ``:-:``, ``--:``, ``---``).
    """
    rooms = _column_widths(rows)
    lines = []
    for row in rows:
        cells = [*row, *[""] * (len(rooms) - len(row))]
        lines.append(" | ".join(map(_pad, cells, rooms, aligns)).rstrip())
    rule = "-+-".join("-" * room for room in rooms)
    return "\n".join([lines[0], rule, *lines[1:]])


def joined(cells: list[Cell], separator: str) -> Cell:
    """Return cells as one line, with their spans."""
    texts, spans, at = [], [], 0
    for text, found in cells:
        texts.append(text)
        spans += shifted(found, at)
        at += len(text) + len(separator)
    return separator.join(texts), spans

"""Tables as text: an aligned grid, or a list where the grid would be too wide for a chat."""

from __future__ import annotations

from wcwidth import wcswidth

MAX_COLUMNS = 60  # display columns of a grid, contracts [T3]
_REPEATED_HEADER = 40  # a longer header is written for the first row only


def width(text: str) -> int:
    """Display columns of a line: CJK and most emoji take two, combining marks none."""
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


def grid(rows: list[list[str]], aligns: list[str]) -> str | None:
    """The rows as aligned lines with a rule under the first; None if wider than ``MAX_COLUMNS``.

    ``aligns`` has the cells of Markdown's alignment row (``:--``, ``:-:``, ``--:``, ``---``).
    """
    count = len(aligns)
    if count * 4 - 3 > MAX_COLUMNS:
        return None
    rooms = [
        max((width(row[column]) for row in rows if column < len(row)), default=0)
        for column in range(count)
    ]
    if sum(rooms) + 3 * (count - 1) > MAX_COLUMNS:
        return None
    lines = []
    for row in rows:
        cells = [*row, *[""] * (count - len(row))]
        padded = map(_pad, cells, rooms, aligns)
        lines.append(" | ".join(padded).rstrip())
    rule = "-+-".join("-" * room for room in rooms)
    return "\n".join([lines[0], rule, *lines[1:]])


def cards(rows: list[list[str]], bullet: str) -> list[tuple[str, int, int]]:
    """The same as a list of ``header: value`` lines, a bullet for every row.

    Each line is given as (what precedes the value, row, column); the value follows. A row without
    columns of its own in the body (a table of only a header) is a line of its cells.
    """
    header = rows[0]
    lines = []
    for number, row in enumerate(rows[1:], 1):
        lead = f"{bullet} "
        for column, cell in enumerate(row):
            if not cell:
                continue
            name = header[column]
            if number > 1 and len(name) > _REPEATED_HEADER:
                name = ""
            lines.append((f"{lead}{name}: " if name else lead, number, column))
            lead = " " * len(lead)
    return lines

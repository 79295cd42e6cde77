"""Fit tables: column widths by content, rows on as many pages as needed."""

from collections.abc import Sequence

from core.plugins.slides.figures import number
from core.plugins.slides.measure import clip, pitch, width, wrap
from core.plugins.slides.page import Grid
from core.plugins.slides.theme import INNER, MARGIN
from core.plugins.slides.words import table_alt

PAD_X, PAD_Y = 10.0, 6.0
SIZES = (17, 16, 15, 14, 13, 12)
LEAST_WIDTH = 70.0
MOST_LINES = 3
MOST_ROW = 44.0


def grids(
    header: Sequence[str], rows: Sequence[Sequence[str]], title: str, *, top: float, room: float
) -> list[Grid]:
    """Return the table on one page at the largest size that fits, else on more at the smallest."""
    numeric = [all(number(row[column]) for row in rows) for column in range(len(header))]
    for size in SIZES:
        widths = columns([header, *rows], size)
        clipped = [cut(row, widths, size) for row in (header, *rows)]
        heights = [row_height(row, widths, size) for row in clipped]
        if sum(heights) <= room or size == SIZES[-1]:
            break
    named = any(cell for cell in header)
    line = pitch("".join("".join(row) for row in clipped), size)
    made: list[Grid] = []
    for group in groups(heights, room):
        chosen = ([0] if named else []) + group
        some = [clipped[at] for at in chosen]
        tall = airy([heights[at] for at in chosen], room)
        alt = table_alt(title, header, len(rows))
        made.append(Grid(MARGIN, top, widths, tall, some, numeric, size, line, alt, named))
    return made


def groups(heights: Sequence[float], room: float) -> list[list[int]]:
    """Return the rows (from 1) of each page; the header stands on every one."""
    found: list[list[int]] = [[]]
    used = heights[0]
    for at in range(1, len(heights)):
        if found[-1] and used + heights[at] > room:
            found.append([])
            used = heights[0]
        found[-1].append(at)
        used += heights[at]
    return found


def airy(heights: Sequence[float], room: float) -> list[float]:
    """Distribute spare height in points over ``heights``, up to a maximum per row."""
    more = max(0.0, room - sum(heights)) / len(heights)
    return [max(height, min(MOST_ROW, height + more)) for height in heights]


def columns(rows: Sequence[Sequence[str]], size: float) -> list[float]:
    """Return widths that share the page by the widest cell of each column."""
    count = len(rows[0])
    wanted = [
        max(LEAST_WIDTH, *(min(width(row[at], size, bold=True), INNER / 2) for row in rows))
        + 2 * PAD_X
        for at in range(count)
    ]
    total = sum(wanted)
    least = LEAST_WIDTH + 2 * PAD_X
    if total <= INNER:
        return [wide + (INNER - total) / count for wide in wanted]
    spare = INNER - least * count
    over = sum(wide - least for wide in wanted)
    return [least + (wide - least) * spare / over for wide in wanted]


def cut(row: Sequence[str], widths: Sequence[float], size: float) -> list[str]:
    """Return the cells, each at most three lines."""
    return [
        clip(cell, size, wide - 2 * PAD_X, MOST_LINES, bold=True)
        for cell, wide in zip(row, widths, strict=True)
    ]


def row_height(row: Sequence[str], widths: Sequence[float], size: float) -> float:
    """Return how high a row is with its padding."""
    lines = max(
        len(wrap(cell, size, wide - 2 * PAD_X, bold=True))
        for cell, wide in zip(row, widths, strict=True)
    )
    return max(1, lines) * pitch("".join(row), size) + 2 * PAD_Y

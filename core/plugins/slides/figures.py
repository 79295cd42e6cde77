"""Figures of the source: its tables, lists of values and series of years. Never the model's."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from core.lib.languages import SAMPLE, decimal_sign
from core.plugins.slides.deck import Chart, ChartKind, Series
from core.plugins.slides.texts import plain, sentences, terms, title, writable

# Characters of a source that are searched: enough for a deck.
SEARCHED = 200_000
CELL_LIMIT = 80
LONGEST_LINE = 1500
MOST_COLUMNS = 6
MOST_ROWS = 24
MOST_CATEGORIES = 12
MOST_SERIES = 4
MOST_SLICES = 6
NUMBER = re.compile(
    r"(?P<before>[$€£¥]?)\s*(?P<number>[-−+]?\d{1,3}(?:[ ,.'\u00a0\u202f]\d{3})+(?:[.,]\d+)?"
    r"|[-−+]?\d+(?:[.,]\d+)?)"
    r"\s*(?P<after>%|％|٪|‰|[^\W\d_]{1,12}(?:/[^\W\d_]{1,6})?|[€$£¥])?"
)
YEAR = re.compile(r"(?:1[89]|20|21)\d\d")
RULE = re.compile(r"\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?")
LISTED = re.compile(
    r"^\s*(?:[-*•+]\s+)?(?P<label>[^:：=|\d][^:：=|]{0,60}?)\s*[:：=]\s*(?P<value>[^:：]{1,30})$"
)
INLINE = re.compile(
    r"(?P<label>[^\W\d_][\w &/'’-]{1,30}?)\s*(?:[:：(]|at|mit|con|avec|占|为|為)?\s*"
    r"(?P<value>\d+(?:[.,]\d+)?\s*[%％])"
)
BY_YEAR = re.compile(
    r"(?P<label>(?:19|20)\d\d)\D{1,24}?(?P<value>\d+(?:[.,]\d+)?\s*(?:%|[^\W\d_]{1,10}))"
)
OTHER = {",": ".", ".": ","}
NAMED_PART = re.compile(r"(?:^|, )(?:section (?P<section>.+)|sheet (?P<sheet>.+) rows \d+-\d+)$")
USUAL_SHEET = re.compile(r"[^\W\d]+ ?\d+")  # Sheet1, Tabelle1, Лист1
AND = re.compile(r"^(?:and|und|et|y|e|en)\s+", re.IGNORECASE)
DIGITS = str.maketrans("٠١٢٣٤٥٦٧٨٩۰۱۲۳۴۵۶۷۸۹０１２３４５６７８９٫", "0123456789" * 3 + ".")


@dataclass(frozen=True, slots=True)
class Figure:
    """A table of the source, the text around it, and a chart if its numbers suit one."""

    heading: str
    context: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    chart: Chart | None = None


def number(cell: str, *, point: str = "") -> tuple[float, str] | None:
    """Return the value and the unit of "1,234.5 TWh", "12 %", "$3.4"; ``None`` for what is none.

    ``point``: the decimal sign of the table, where it shows one.
    """
    match = NUMBER.fullmatch(cell.translate(DIGITS).strip())
    if match is None:
        return None
    digits = re.sub(r"[ '\u00a0\u202f]", "", match["number"].replace("−", "-"))
    unit = (match["before"] or match["after"] or "").replace("％", "%").replace("٪", "%")
    return float(decimal(digits, point)), unit


def decimal(digits: str, point: str) -> str:
    """Return ``digits`` with a decimal point, whichever of "," and "." groups the thousands."""
    last = max(digits.rfind(","), digits.rfind("."))
    if last < 0:
        return digits
    whole, part = re.sub(r"[,.]", "", digits[:last]), digits[last + 1 :]
    is_point = digits[last] == point and digits.count(point) == 1
    if is_point or len(part) != 3 or whole.lstrip("+-") in {"", "0"}:
        return f"{whole}.{part}"
    return whole + part


def point_of(cells: Iterable[str]) -> str:
    """Return a table's decimal sign, if it shows itself: 1.085 may be a thousand."""
    shown: set[str] = set()
    for cell in cells:
        digits = re.sub(r"[^\d,.]", "", cell.translate(DIGITS)).strip(",.")
        signs = re.sub(r"\d", "", digits)
        whole, _, part = digits.rpartition(signs[-1:] or " ")
        if len(set(signs)) == 2:
            shown.add(signs[-1])
        elif len(signs) > 1:
            shown.add(OTHER[signs[-1]])
        elif signs and (len(part) != 3 or whole == "0"):
            shown.add(signs)
    return shown.pop() if len(shown) == 1 else ""


def find(parts: Sequence[tuple[str, str]]) -> list[Figure]:
    """Return the figures of a source's first characters, in order, without repeats."""
    found: list[Figure] = []
    most = SEARCHED
    usual = decimal_sign("\n".join(text[:SAMPLE] for _reference, text in parts[:20]))
    for reference, whole in parts:
        if most <= 0:
            break
        text = writable(whole[:most])
        most -= len(whole)
        # Rows and entries are short; longer lines are skipped to save time.
        lines = [line if len(line) <= LONGEST_LINE else "" for line in text.split("\n")]
        named = NAMED_PART.search(reference)
        sign = "." if named and named["sheet"] else usual  # as the reader of workbooks writes it
        for figure in (*tables(lines, reference), *lists(lines, reference), *runs(text)):
            if all(figure.rows != other.rows for other in found):
                found.append(replace(figure, chart=chart_of(figure.header, figure.rows, sign)))
    return found


def tables(lines: Sequence[str], reference: str) -> Iterator[Figure]:
    """Find Markdown's tables, with or without a rule under the header, and lines of tabs."""
    start = 0
    while start < len(lines):
        rows: list[list[str]] = []
        at = start
        while at < len(lines) and (row := cells(lines[at])) is not None:
            if row:
                rows.append(row)
            at += 1
        if len(rows) >= 3 and len(rows[0]) >= 2:
            yield from figure_of(
                rows, heading_above(lines, start, reference), near(lines, start, at)
            )
        start = max(at, start + 1)


def cells(line: str) -> list[str] | None:
    """Return the cells of a row; none for a rule, ``None`` for a line that is no row."""
    if line.count("|") >= 2 or (line.count("|") == 1 and not line.strip().startswith("|")):
        if RULE.fullmatch(line.strip()):
            return []
        parts = line.strip().removeprefix("|").removesuffix("|").split("|")
    elif line.count("\t") >= 1:
        parts = line.split("\t")
    else:
        return None
    return [plain(part)[:CELL_LIMIT] for part in parts]


def heading_above(lines: Sequence[str], at: int, reference: str) -> str:
    """Return the heading or short line above, else the section's or sheet's name, or ""."""
    for line in reversed(lines[max(0, at - 8) : at]):
        says = line.strip()
        if says.startswith("#"):
            return title(says)
        ends = says.endswith(tuple(".!?。！？"))
        if says and len(says) <= 90 and not ends and cells(line) is None and not LISTED.match(line):
            return title(says)
    named = NAMED_PART.search(reference)
    name = (named["section"] or named["sheet"]) if named else ""
    return "" if USUAL_SHEET.fullmatch(name) else title(name)


def near(lines: Sequence[str], start: int, end: int) -> str:
    """Return the text around a table."""
    return "\n".join((*lines[max(0, start - 6) : start], *lines[end : end + 6]))


def lists(lines: Sequence[str], reference: str) -> Iterator[Figure]:
    """Return consecutive lines of "label: value", at least three."""
    rows: list[list[str]] = []
    for at, line in enumerate((*lines, "")):
        match = LISTED.match(line) if len(line) <= 160 else None
        if match and number(match["value"]):
            rows.append([plain(match["label"])[:CELL_LIMIT], match["value"].strip()])
            continue
        if len(rows) >= 3:
            start = at - len(rows)
            yield from figure_of(
                [["", ""], *rows], heading_above(lines, start, reference), near(lines, start, at)
            )
        rows = []


def runs(text: str) -> Iterator[Figure]:
    """Return sentences with three values or more of one unit: shares, or a series of years."""
    for sentence in sentences(text):
        for pattern in (BY_YEAR, INLINE):
            rows = [
                [AND.sub("", match["label"].strip()), match["value"].strip()]
                for match in pattern.finditer(sentence)
            ]
            labels = {label for label, _value in rows}
            units = {found[1] for _label, value in rows if (found := number(value))}
            if len(rows) >= 3 and len(labels) == len(rows) and len(units) == 1:
                yield from figure_of([["", ""], *rows], "", sentence)
                break


def figure_of(rows: list[list[str]], heading: str, context: str) -> Iterator[Figure]:
    """Return a figure of rows (header first), made rectangular; None for too little data."""
    columns = min(len(rows[0]), MOST_COLUMNS)
    square = [(row + [""] * columns)[:columns] for row in rows[: MOST_ROWS + 1]]
    body = [row for row in square[1:] if any(row)]
    if columns >= 2 and body:
        yield Figure(heading, context, square[0], body)


def chart_of(header: Sequence[str], rows: Sequence[Sequence[str]], usual: str) -> Chart | None:
    """Return the chart of a table: its first column against those that are all numbers of one
    unit. ``usual``: the decimal sign of the text around it ("" for an unknown one).
    """
    if not 3 <= len(rows) <= MOST_CATEGORIES:
        return None
    cells = [cell for row in rows for cell in row[1:] if number(cell)]
    point = point_of(cells) or usual
    series: list[Series] = []
    unit: str | None = None
    for column in range(1, len(header)):
        values = [number(row[column], point=point) for row in rows]
        units = {value[1] for value in values if value}
        if None in values or len(units) != 1 or (unit is not None and units != {unit}):
            continue
        unit = units.pop()
        series.append(Series(header[column], [value[0] for value in values if value]))
    if not series:
        return None
    categories = [row[0] for row in rows]
    return Chart(
        kind_of(categories, series, unit or ""), categories, series[:MOST_SERIES], unit or ""
    )


def kind_of(categories: Sequence[str], series: Sequence[Series], unit: str) -> ChartKind:
    """Choose the chart: years a line, parts of a hundred a pie, long names bars, others columns."""
    values = series[0].values
    if len(categories) >= 4 and all(YEAR.search(category) for category in categories):
        return "line"
    whole = unit == "%" and 98 <= sum(values) <= 102 and min(values) > 0
    if len(series) == 1 and whole and len(categories) <= MOST_SLICES:
        return "pie"
    return "bar" if max(len(category) for category in categories) > 14 else "column"


def quote(text: str) -> tuple[str, str] | None:
    """Return the first suitable quotation in ``text``, and its author (may be "")."""
    marked = re.compile(
        r"[“„«\"「『](?P<words>(?:(?!\n\s*\n)[^“”„«»\"「」『』]){25,240})[”“»\"」』](?P<rest>[^\n]{0,80})"
    )
    for match in marked.finditer(writable(text[:SEARCHED])):
        words = plain(match["words"])
        if len(terms(words)) >= 6:
            said = re.match(
                r"\s*[,，]?\s*(?:[—–-]+|said|says|sagt[e]?|dit|dijo)\s*(?P<by>[^.,;:。，]{3,50})",
                match["rest"],
            )
            return words, plain(said["by"]) if said else ""
    return None

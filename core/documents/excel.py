"""The cells of a workbook as its reader sees them: percentages, currencies, and the formula of a
cell whose value no program has computed. ECMA-376 part 1, chapter 18.
"""

import re
import zipfile
from collections.abc import Iterator
from datetime import datetime, time
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any

SHEET = re.compile(r"xl/worksheets/[^/]+\.xml")
# A formula without a value, as other programs than Excel write it. One of a text has an empty text
# for its value: =IF(A1>9,"much","").
UNCOMPUTED = re.compile(
    rb'<c(?=[\s>])(?![^<>]*\st="str")[^<>]*>\s*<f[^<>]*(?:/>|>[^<]*</f>)\s*'
    rb"(?:<v(?:\s*/>|>\s*</v>)\s*)?</c>"
)
BLOCK_BYTES, OVERLAP_BYTES = 1024 * 1024, 64 * 1024  # a formula has up to 8192 characters
LITERAL = re.compile(r'\\[^$€£¥₹₩₽₺%]|_.|\*.|\[\$-[^\[\]]*\]|"[^"$€£¥₹₩₽₺%]*"')
CURRENCY = re.compile(r"\[\$([^\]-]+)|([$€£¥₹₩₽₺])")


def has_uncomputed(path: Path) -> bool:
    """Return whether a workbook has formulas without values."""
    with zipfile.ZipFile(path) as archive:
        return any(
            UNCOMPUTED.search(block)
            for name in archive.namelist()
            if SHEET.fullmatch(name)
            for block in blocks(archive, name)
        )


def blocks(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Yield the content of an entry in blocks that overlap."""
    with archive.open(name) as file:
        kept = b""
        while block := file.read(BLOCK_BYTES):
            yield kept + block
            kept = block[-OVERLAP_BYTES:]


def rows_of(sheet: Any, source: Any) -> Iterator[list[str]]:
    """Yield the rows of a sheet; ``source``: the same sheet with formulas, if they are needed."""
    sheet.reset_dimensions()  # some programs write one cell, whatever there is
    others: Iterator[Any] = repeat(())
    if source is not None:
        source.reset_dimensions()
        others = source.iter_rows(values_only=True)
    for row, formulas in zip(sheet.iter_rows(), others, strict=False):
        yield (
            [text_of(cell) for cell in row]
            if not formulas
            else [
                text_of(cell) or ("" if cell.data_type == "str" else formula(other))
                for cell, other in zip(row, formulas, strict=False)
            ]
        )


def text_of(cell: Any) -> str:
    """Return the value of a cell with the sign of its format."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, datetime) and value.time() == time():
        return str(value.date())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    is_share, currency = signs_of(cell.number_format)
    if is_share:
        return f"{value * 100:.15g}%"
    # Excel itself keeps 15 digits.
    number = f"{value:.15g}" if isinstance(value, float) else str(value)
    return f"{number} {currency}" if currency else number


@cache
def signs_of(form: str) -> tuple[bool, str]:
    """Return whether a format shows percent, and the currency that it shows."""
    shown = LITERAL.sub("", form.partition(";")[0])
    found = CURRENCY.search(shown)
    return "%" in shown, (found[1] or found[2]).strip() if found else ""


def formula(value: object) -> str:
    """Return a formula; "" for a cell without one."""
    text = getattr(value, "text", value)  # of an array
    return text if isinstance(text, str) and text.startswith("=") else ""

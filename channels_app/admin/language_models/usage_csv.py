"""Usage as CSV: streamed, and without formulas that a spreadsheet would run."""

import csv
from collections.abc import AsyncIterator, Iterable, Iterator
from itertools import chain
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse

# A cell that begins with one of these is a formula to spreadsheets (OWASP, "CSV Injection").
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
LINES_AT_ONCE = 500


class Line:
    """A file that returns what is written to it."""

    def write(self, text: str) -> str:
        return text


def cell(value: object) -> object:
    """Return a value as a cell: a text that would be a formula begins with an apostrophe."""
    if isinstance(value, str) and value.lstrip(" ").startswith(FORMULA):
        return f"'{value}"
    return value


def lines(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Yield CSV (RFC 4180), some hundred rows at once."""
    writer: Any = csv.writer(Line())
    block: list[str] = []
    for row in rows:
        block.append(writer.writerow([cell(each) for each in row]))
        if len(block) >= LINES_AT_ONCE:
            yield "".join(block)
            block.clear()
    if block:
        yield "".join(block)


async def one_by_one(parts: Iterator[str]) -> AsyncIterator[str]:
    """Yield parts as they are sent: Django would collect those of a plain iterator first."""
    following = sync_to_async(lambda: next(parts, ""))
    while (part := await following()) != "":
        yield part


def response(
    request: HttpRequest, rows: Iterable[Iterable[object]], *, name: str
) -> StreamingHttpResponse:
    """Return a download of rows. The mark at its beginning tells spreadsheets that it is UTF-8."""
    parts = chain(["\ufeff"], lines(rows))
    streamed = one_by_one(parts) if isinstance(request, ASGIRequest) else parts
    answer = StreamingHttpResponse(streamed, content_type="text/csv; charset=utf-8")
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    answer.headers["Cache-Control"] = "no-store"
    return answer

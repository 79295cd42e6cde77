"""Read a document in a subprocess: (reference, text) pairs, or a clear error.

The subprocess has little memory, little time and no secrets in its environment: a decompression
bomb ends it, not the worker.
"""

import asyncio
from pathlib import Path

import orjson

from core.documents.formats import (
    BROKEN,
    OLD,
    TOO_BIG_INSIDE,
    UNKNOWN,
    ZIP,
    is_of_old_office,
    kind_of,
)
from core.lib.processes import TooMuchOutputError, output_of_module

SECONDS = 60.0
MOST_CHARACTERS = 20_000_000
MEGABYTE = 1024 * 1024
TOO_SLOW = "The document took too long to read."
EMPTY = "There is no text in the document. Scanned pages need OCR first."


class DocumentError(Exception):
    """The document could not be read; the text is for the user."""


async def parts(
    path: Path, *, name: str, most_megabytes: int, seconds: float = SECONDS
) -> list[tuple[str, str]]:
    """Return (reference, text) pairs in reading order: ("page 3", "…"). Raises DocumentError."""
    size, beginning = await asyncio.to_thread(looked_at, path)
    if size > most_megabytes * MEGABYTE:
        raise DocumentError(
            f"The document has {size / MEGABYTE:.0f} MB; at most {most_megabytes} MB can be read."
        )
    kind = kind_of(name, beginning)
    if not kind and not beginning.startswith(ZIP):
        raise DocumentError(OLD if is_of_old_office(name, beginning) else UNKNOWN)
    found = await in_a_process(path, kind=kind or "archive", seconds=seconds)
    if not any(text.strip() for _, text in found):
        raise DocumentError(EMPTY)
    return found


def looked_at(path: Path) -> tuple[int, bytes]:
    """Return the size of a file and its beginning."""
    with path.open("rb") as file:
        return path.stat().st_size, file.read(4096)


async def in_a_process(path: Path, *, kind: str, seconds: float) -> list[tuple[str, str]]:
    """Run ``core.documents.reader``. Raises DocumentError."""
    try:
        command = ("core.documents.reader", kind, str(path))
        output, code = await output_of_module(
            *command, seconds=seconds, most_bytes=MOST_CHARACTERS * 2
        )
    except TimeoutError as error:
        raise DocumentError(TOO_SLOW) from error
    except TooMuchOutputError as error:
        raise DocumentError(TOO_BIG_INSIDE) from error
    return understood(output.splitlines(), code)


def understood(lines: list[bytes], code: int) -> list[tuple[str, str]]:
    """Parse the reader's pairs; its last line reports the result. Raises DocumentError."""
    if not lines or code < 0 or not lines[-1].startswith(b'{"'):
        raise DocumentError(TOO_BIG_INSIDE if code < 0 else BROKEN)
    try:
        end = orjson.loads(lines[-1])
        pairs = [orjson.loads(line) for line in lines[:-1]]
    except orjson.JSONDecodeError as error:
        raise DocumentError(BROKEN) from error
    if end.get("error"):
        raise DocumentError(str(end["error"]))
    return [(str(reference), str(text)) for reference, text in pairs]

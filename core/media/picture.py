"""Prepare a picture for a model: upright, limited in pixels and bytes, as a data URL."""

import base64
from pathlib import Path

from core.documents.sniffing import media_type
from core.lib.processes import TooMuchOutputError, output_of_module

SECONDS = 30.0
MOST_BYTES = 4 * 1024 * 1024


async def data_url(path: Path, *, square: int = 0) -> str:
    """Return :func:`scaled` as a data URL; "" when it cannot be read."""
    return url_of(await scaled(path, square=square))


async def scaled(path: Path, *, square: int = 0) -> bytes:
    """Return the picture in the file at ``path``; nothing when it cannot be read.

    ``square``: the side, in pixels, of the square that is cut from its middle; 0 for the whole.
    """
    side = (str(square),) if square else ()
    try:
        found, code = await output_of_module(
            "core.media.scaler", str(path), *side, seconds=SECONDS, most_bytes=MOST_BYTES
        )
    except (TimeoutError, TooMuchOutputError):
        return b""
    return found if code == 0 else b""


def url_of(content: bytes) -> str:
    """Return a picture's bytes as a data URL; "" for anything else."""
    kind = media_type(content[:64])
    return f"data:{kind};base64,{base64.b64encode(content).decode()}" if kind else ""

"""Prepare a picture for a model: upright, limited in pixels and bytes, as a data URL."""

import asyncio
import base64
import os
import sys
from pathlib import Path

from core.documents.sniffing import media_type

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 30.0
MOST_BYTES = 4 * 1024 * 1024


async def data_url(path: Path) -> str:
    """Return the picture in the file at ``path``; "" when it cannot be read."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "core.media.scaler", str(path)),
        cwd=ROOT,
        env={"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(SECONDS):
            found, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return url_of(found) if process.returncode == 0 and len(found) <= MOST_BYTES else ""


def url_of(content: bytes) -> str:
    """Return a picture's bytes as a data URL; "" for anything else."""
    kind = media_type(content[:64])
    return f"data:{kind};base64,{base64.b64encode(content).decode()}" if kind else ""

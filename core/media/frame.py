"""Extract one picture of a video with ffmpeg, if installed."""

import os
import shutil
from pathlib import Path

from core.lib.processes import TooMuchOutputError, output_of

SECONDS = 30.0
MOST_BYTES = 5 * 1024 * 1024


def command(path: Path, *, program: str, at: float) -> list[str]:
    """Return ffmpeg's arguments: a JPEG of at most 1024 pixels to stdout; no network."""
    return [
        program,
        *("-nostdin", "-v", "error", "-protocol_whitelist", "file,pipe"),
        *("-ss", str(at), "-i", str(path), "-frames:v", "1"),
        *("-vf", "scale='min(1024,iw)':-2", "-f", "image2pipe", "-c:v", "mjpeg", "-"),
    ]


async def of_video(path: Path, *, duration: int | None) -> bytes | None:
    """Return a JPEG from the first third of a video; None without ffmpeg, or a picture."""
    program = shutil.which("ffmpeg")
    if program is None:
        return None
    at = min((duration or 0) / 3, 10.0)
    # It opens what anybody sends, and has many decoders: it sees no secrets.
    env = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    words = command(path, program=program, at=at)
    try:
        picture, _ = await output_of(*words, seconds=SECONDS, most_bytes=MOST_BYTES, env=env)
    except (TimeoutError, TooMuchOutputError):
        return None
    return picture or None

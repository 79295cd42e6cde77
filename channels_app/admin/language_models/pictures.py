"""The picture of an assistant: checked, scaled in a process of its own, kept as a data URL."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from django.core.files.uploadedfile import UploadedFile

from core.documents.sniffing import media_type
from core.media import picture

SIDE = 128
MOST_BYTES = 2 * 1024 * 1024
TYPES = {"image/png", "image/jpeg", "image/webp"}


class PictureError(Exception):
    """The file cannot be a picture of an assistant; the text is for the owner."""


def scaled(given: "UploadedFile[Any]") -> str:
    """Return an uploaded picture as the data URL of a square. Raises PictureError."""
    if (given.size or 0) > MOST_BYTES:
        raise PictureError("The picture is larger than 2 MB.")
    content = given.read(MOST_BYTES + 1)
    if media_type(content[:512]) not in TYPES:
        raise PictureError("Choose a PNG, JPEG or WebP picture.")
    with tempfile.NamedTemporaryFile(prefix="picture-") as file:
        file.write(content)
        file.flush()
        found = asyncio.run(picture.data_url(Path(file.name), square=SIDE))
    if not found:
        raise PictureError("The picture cannot be read. Is the file damaged?")
    return found

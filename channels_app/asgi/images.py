"""Pictures that a client sends: data URLs with checked content, or guarded fetches."""

import base64
import binascii
from collections.abc import Awaitable, Callable

from channels_app.asgi.http import RefusedError
from core.lib.safe_fetch import FETCHER, Fetched, FetchError

MAX_BYTES = 10 * 1024 * 1024
# First bytes of the formats that models read. No SVG: it is a document with scripts.
BEGINNINGS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}

Get = Callable[[str], Awaitable[Fetched]]


def check(url: str, *, field: str) -> str:
    """Return the address of a picture: http(s), or a valid data URL. Raises RefusedError."""
    if url.startswith("data:"):
        return checked_data_url(url, field=field)
    if not url.startswith(("http://", "https://")):
        raise RefusedError(400, f"{field} must be a data URL or an http(s) address.", field=field)
    return url


def checked_data_url(url: str, *, field: str) -> str:
    """Return a data URL that is base64 of a picture, with the type of its first bytes. Raises
    RefusedError.

    Clients name the type by the file's extension. Anthropic and Google refuse a wrong one.
    """
    head, comma, data = url.partition(",")
    if not comma or not head.endswith(";base64"):
        raise RefusedError(400, f"{field} must be a base64 data URL.", field=field)
    if len(data) > MAX_BYTES * 4 // 3 + 4:
        raise RefusedError(413, f"{field} holds more than {MAX_BYTES} bytes.", field=field)
    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RefusedError(400, f"{field} holds broken base64.", field=field) from error
    found = kind_of(content)
    if not found:
        raise RefusedError(400, f"{field} must be a PNG, JPEG, GIF or WebP picture.", field=field)
    return f"data:{found};base64,{data}"


def kind_of(content: bytes) -> str:
    """Return the type of a picture by its first bytes; empty for anything else."""
    for kind, beginnings in BEGINNINGS.items():
        if content.startswith(beginnings) and (kind != "image/webp" or content[8:12] == b"WEBP"):
            return kind
    return ""


async def as_data_url(url: str, *, field: str, get: Get = FETCHER.get) -> str:
    """Return ``url`` if it is a data URL, else its content as one. Raises RefusedError 400."""
    if url.startswith("data:"):
        return url
    try:
        found = await get(url)
    except FetchError as error:
        raise RefusedError(400, f"{field} was not fetched: {error}.", field=field) from error
    kind = kind_of(found.body)
    if not kind or len(found.body) > MAX_BYTES:
        raise RefusedError(400, f"{field} is not a picture that can be read.", field=field)
    return f"data:{kind};base64,{base64.b64encode(found.body).decode()}"

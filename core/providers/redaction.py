"""Keys are left out of errors: some servers repeat the key that they refuse."""

from html import escape
from urllib.parse import quote

from core.providers.base import ProviderError

SHORTEST_KEY = 4  # shorter ones are no secret: "none", as servers without keys want it
PIECE = 8  # characters of a key that are hidden wherever they stand
SHORTEST_END = 4  # characters of a key that are hidden where a text was cut
HIDDEN = "[key]"


def without_key(error: ProviderError, key: str) -> ProviderError:
    """Return the same error without the key. It has no cause: that may hold the server's words."""
    return ProviderError(
        hide(str(error), key),
        code=error.code,
        retry_after=error.retry_after,
        reason=hide(error.reason, key),
    )


def hide(text: str, key: str) -> str:
    """Return ``text`` with ``[key]`` in place of ``key``: as it is, as in addresses and in HTML,
    pieces of it, and its beginning where the text was cut within it.
    """
    if len(key) < SHORTEST_KEY:
        return text
    for form in dict.fromkeys((key, quote(key, safe=""), quote(key), escape(key))):
        text = text.replace(form, HIDDEN)
    text = without_pieces(text, key)
    bare = text.removesuffix("…")
    for length in range(min(len(key) - 1, len(bare)), SHORTEST_END - 1, -1):
        if bare.endswith(key[:length]):
            return f"{bare[:-length]}{HIDDEN}…"
    return text


def without_pieces(text: str, key: str) -> str:
    """Return ``text`` without what is left of a longer key, of which other rules hid a part."""
    if len(key) < 2 * PIECE:
        return text
    made: list[str] = []
    start = 0
    while start < len(text):
        end = start
        if text[start : start + PIECE] in key and start + PIECE <= len(text):
            end = start + PIECE
            while end < len(text) and text[start : end + 1] in key:
                end += 1
        made.append(HIDDEN if end > start else text[start])
        start = max(end, start + 1)
    return "".join(made).replace(HIDDEN * 2, HIDDEN)

"""Addresses: their end in a text, and whether a channel can link them."""

import re
import unicodedata
from functools import lru_cache
from html.entities import html5
from urllib.parse import quote

_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
REFERENCE = re.compile(r"&(?:#[xX][0-9a-fA-F]{1,6}|#[0-9]{1,7}|[a-zA-Z][a-zA-Z0-9]{1,31});")

# Where a bare address may end: brackets must balance (one level, as addresses have it), and
# punctuation at the end belongs to the sentence.
_BARE = re.compile(
    r"(?:https?|ftp)://"
    r"(?:[^\s<>()\[\]{}\"'|\u0000-\u001f\u007f\uff5c]|'(?=\w)"
    r"|\([^\s<>()\[\]]*+\)|\[[^\s<>()\[\]]*+\]|\{[^\s<>{}]*+\})++",
    re.IGNORECASE,
)
_SCHEME_BEFORE = re.compile(r"(?:\A|[^a-z0-9.+-])(https?|ftp)\Z", re.IGNORECASE)
_TRAILING = ".,;:!?*_~'\"-"

# TDLib's link check, read off its behaviour: it accepts http(s) and a host with a dot.
_HOST = r"(?:[A-Za-z0-9._~!$&'()*,;=+-]|[^\x00-\x7f]|%[0-9A-Fa-f]{2})+"
_WEB = re.compile(
    rf"https?://(?:[A-Za-z0-9._~-]+(?::[A-Za-z0-9._~-]*)?@)?(?P<host>{_HOST})"
    r"(?::0*(?P<port>[1-9][0-9]{0,4}))?(?:[/?#].*)?\Z",
    re.IGNORECASE | re.DOTALL,
)
_TELEGRAM = re.compile(r"tg://[A-Za-z0-9_-]+(?:[/?#].*)?\Z", re.IGNORECASE | re.DOTALL)
# Telegram adds the missing slash to such an address.
_BARE_HOST = re.compile(r"https?://[^/?#]+[?#]", re.IGNORECASE)
_PATH = re.compile(r"[/:.@?=]")
_UNSAFE = re.compile(
    r"(?:javascript|vbscript|file|data(?!:image/(?:gif|png|jpeg|webp);)):", re.IGNORECASE
)
_SAFE = ";/?:@&=+$,-_.!~*'()#%"
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028-\u202f\ufeff]")


def unescape(text: str) -> str:
    """Resolve the backslash escapes and character references of an address or an info string."""
    if "\\" in text:
        text = _ESCAPED.sub(r"\1", text)
    if "&" in text:
        text = REFERENCE.sub(lambda found: character(found.group()), text)
    return text


@lru_cache(maxsize=1024)
def character(reference: str) -> str:
    """Return the text of a character reference (``&amp;``, ``&#x41;``); unknown ones stay."""
    if not reference.startswith("&#"):
        return html5.get(reference[1:], reference)
    digits = reference[2:-1]
    code = int(digits[1:], 16) if digits[0] in "xX" else int(digits)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return "\ufffd"
    found = chr(code)
    # As markdown-it has it: control characters show nothing, and platforms refuse some.
    return "\ufffd" if unicodedata.category(found) == "Cc" and found not in "\t\n\f\r" else found


def bare_address(src: str, slashes: int) -> tuple[int, int] | None:
    """Return the address around the ``://`` at ``slashes``, or None."""
    before = _SCHEME_BEFORE.search(src, max(0, slashes - 6), slashes)
    if before is None:
        return None
    found = _BARE.match(src, before.start(1))
    if found is None:
        return None
    end = found.end()
    while end > slashes + 3 and src[end - 1] in _TRAILING:
        end -= 1
    return (before.start(1), end) if end > slashes + 3 else None


def allowed(url: str) -> bool:
    """Return whether an address may be one at all; scripts and inline data never are."""
    return not _UNSAFE.match(url.strip())


def encoded(url: str) -> str:
    """Return the address as it was written; percent-encoded only if white space would end it."""
    return quote(url, safe=_SAFE) if _UNPRINTABLE.search(url) else url


def telegram_address(url: str) -> str | None:
    """Return the address as Telegram accepts it in a link, or None where it would refuse it."""
    if url[:4].lower() == "www.":
        url = f"http://{url}"
    url = encoded(url)
    web = _WEB.match(url)
    if web is None:
        return url if _TELEGRAM.match(url) else None
    if "." not in web["host"] or int(web["port"] or 0) > 65535:
        return None
    return url


def rewritten(url: str) -> bool:
    """Return whether Telegram changes an address that it accepts, so that it is written out too."""
    return bool(_BARE_HOST.match(url))


def written_address(url: str, *, ticks: bool = True) -> str:
    """Return an address for the reader: without ``mailto:``; empty where it is of no use to one.

    That are anchors, inline data, mere words. Without ``ticks``, backticks in it are encoded.
    """
    if url.startswith("#") or url[:5].lower() == "data:" or not _PATH.search(url):
        return ""
    if url[:7].lower() == "mailto:":
        return url[7:]
    return encoded(url) if ticks or "`" not in url else quote(url, safe=_SAFE)

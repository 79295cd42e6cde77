"""Markdown as a document of (text, spans), and its renderings for the channels.

Public functions, all total: they take anything (``None`` is ``""``, bytes are decoded), never
raise, and need time linear in the text. docs/markdown.md describes them.

The renderers are total over ``str`` as far as fuzzing can tell. Should one raise nevertheless, the
traceback is logged here and the text is returned unchanged ([T1]).
"""

import logging
from collections.abc import Callable
from typing import TypeVar

from . import plain, whatsapp, wrapper
from .classify import Classification, classify, is_markdown
from .document import read
from .growing import live_view as growing_text
from .looks import TELEGRAM, TELEGRAM_GROWING, Look
from .rich import RichBlock as RichBlock
from .rich import rich_blocks
from .split import ENTITY_LIMIT as ENTITY_LIMIT
from .split import MESSAGE_LIMIT as MESSAGE_LIMIT
from .split import TRUNCATED as TRUNCATED
from .split import is_blank, split_message, truncate_message
from .telegram import TelegramText as TelegramText
from .telegram import compose
from .telegram import utf16_length as utf16_length

logger = logging.getLogger(__name__)

# A longer text is no chat message; it is passed on as plain text instead of holding a worker.
_MAX_CHARACTERS = 1 << 18

_Result = TypeVar("_Result")


def _text(value: object) -> str:
    """Return any value as text that can be encoded: bytes decoded, lone surrogates replaced."""
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    text = value if isinstance(value, str) else str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _guarded(
    value: object, function: Callable[[str], _Result], otherwise: Callable[[str], _Result]
) -> _Result:
    """Return ``function`` of the value's text; ``otherwise`` of it when that fails."""
    text = ""
    try:
        text = _text(value)
        if len(text) <= _MAX_CHARACTERS:
            return function(text)
    except Exception:
        logger.exception("Markdown could not be read; its text is passed on as it is")
    return otherwise(text)


def _unchanged(text: str) -> str:
    return text


def _shown(value: object, render: Callable[[str], str]) -> str:
    """Return the value's text as ``render`` writes it.

    Markdown that shows nothing (a comment, an empty fence) is shown unchanged: an answer must never
    be an empty message.
    """

    def visible(text: str) -> str:
        shown = render(text)
        return text if is_blank(shown) else shown

    return _guarded(value, visible, _unchanged)


def looks_like_markdown(text: object) -> bool:
    """Return whether the text has any Markdown that a reader would miss ([T2]).

    Decided by the parser, not by its characters: ``2 * 3``, ``snake_case``, ``*.py``, ``2*3*4`` and
    a bare URL are not; lists, headings, links, emphasis, code, quotes, tables, rules, escapes are.
    """
    return _guarded(text, is_markdown, lambda _: False)


def classify_outbound_format(text: object) -> Classification:
    """Return ``markdown``, ``link`` (short, with an address, no Markdown) or ``plain`` ([T4])."""
    return _guarded(text, classify, lambda _: "plain")


def markdown_to_plain(text: object) -> str:
    """Return the text without Markdown's markers ([T3]); text that is no Markdown unchanged."""
    return _shown(text, plain.render)


def markdown_to_whatsapp(text: object) -> str:
    """Return the text with the markers of WhatsApp, Signal and most messengers ([T3]).

    Text that is no Markdown stays as it is, byte for byte ([T2]).
    """
    return _shown(text, whatsapp.render)


def markdown_to_channel(text: object, format: str) -> str:  # noqa: A002 - requirement 1's name
    """Return the text as ``whatsapp`` or ``plain``; unchanged for ``none`` and unknown formats."""
    if format == "whatsapp":
        return markdown_to_whatsapp(text)
    if format == "plain":
        return markdown_to_plain(text)
    return text if isinstance(text, str) else _guarded(text, _unchanged, _unchanged)


def to_telegram(text: object) -> TelegramText:
    """Convert to text and entities for Telegram ([T5]), also as ``.markdown_v2()`` and ``.html()``.

    The text may be longer than one message: see ``split``.
    """
    if isinstance(text, TelegramText):
        return text
    return _guarded(text, _to_telegram, TelegramText)


def _to_telegram(source: str, look: Look = TELEGRAM) -> TelegramText:
    source = source.replace("\0", "")  # ends a text for Telegram's parser
    document = read(source, look)
    if not document.marked or is_blank(document.text):
        return TelegramText(source)
    return compose(document.text, document.spans)


def split(text: object, *, limit: int = MESSAGE_LIMIT, growing: bool = False) -> list[TelegramText]:
    """Split the text (or a ``TelegramText``) into messages of at most ``limit`` UTF-16 units
    ([T6]).

    Empty for an invisible text. ``growing``: more text will follow, and full messages do not
    change.
    """
    if growing and not isinstance(text, TelegramText):
        text = _guarded(text, lambda source: _to_telegram(source, TELEGRAM_GROWING), TelegramText)
    return split_message(to_telegram(text), limit=max(1, limit), growing=growing)


def to_rich(text: object, *, is_long: bool = False) -> list[RichBlock] | None:
    """Return the text as the blocks of one rich message of the Bot API, as JSON has them.

    None where ``split`` shows as much, or the text is over a limit of rich messages. ``is_long``:
    ``split`` has several messages.
    """
    return _guarded(text, lambda source: rich_blocks(source, is_long=is_long), lambda _: None)


def live_view(text: object) -> str:
    """Return the displayable Markdown of an unfinished text ([C5])."""
    return _guarded(text, growing_text, _unchanged)


def truncate(text: object, *, limit: int = MESSAGE_LIMIT) -> TelegramText:
    """Return the text as one message; a longer one ends with ``… (truncated)`` ([S3])."""
    return truncate_message(to_telegram(text), limit=limit)


def strip_outer_fence(text: object) -> str:
    """Return the text without a code fence around all of it ([S2]); other text unchanged."""
    return _guarded(text, wrapper.strip, _unchanged)

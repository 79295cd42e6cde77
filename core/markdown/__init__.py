"""Markdown as a document of (text, spans), and its renderings for the channels.

Public functions, all total: they take anything (``None`` is ``""``, bytes are decoded), never
raise, and need time linear in the text. docs/markdown.md describes them.

* ``looks_like_markdown``, ``classify_outbound_format``: the format of a text;
* ``markdown_to_plain``, ``markdown_to_whatsapp``, ``markdown_to_channel``: text for text-only
  channels;
* ``to_telegram`` (text + entities), ``to_markdown_v2``, ``to_html``: Telegram, from one parse;
* ``split``, ``split_markdown_v2``, ``split_html``, ``truncate``: Telegram's length limit;
* ``live_view``: the displayable part of an unfinished text;
* ``strip_outer_fence``: removes the fence that models add around a whole answer;
* ``preview``: a preview for the terminal.
"""

from .api import (
    FORMATS,
    classify_outbound_format,
    live_view,
    looks_like_markdown,
    markdown_to_channel,
    markdown_to_plain,
    markdown_to_whatsapp,
    preview,
    split,
    split_html,
    split_markdown_v2,
    strip_outer_fence,
    to_html,
    to_markdown_v2,
    to_telegram,
    truncate,
)
from .classify import Classification
from .split import ENTITY_LIMIT, MESSAGE_LIMIT, TRUNCATED
from .telegram import MessageEntity, TelegramText

__all__ = [
    "ENTITY_LIMIT",
    "FORMATS",
    "MESSAGE_LIMIT",
    "TRUNCATED",
    "Classification",
    "MessageEntity",
    "TelegramText",
    "classify_outbound_format",
    "live_view",
    "looks_like_markdown",
    "markdown_to_channel",
    "markdown_to_plain",
    "markdown_to_whatsapp",
    "preview",
    "split",
    "split_html",
    "split_markdown_v2",
    "strip_outer_fence",
    "to_html",
    "to_markdown_v2",
    "to_telegram",
    "truncate",
]

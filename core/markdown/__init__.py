"""Markdown as a document of (text, spans), and its renderings for the channels."""

from .document import TELEGRAM, read
from .telegram import TelegramText, compose


def to_telegram(text: str) -> TelegramText:
    document = read(text, TELEGRAM)
    if not document.marked:
        return TelegramText(text)
    return compose(document.text, document.spans)


def to_markdown_v2(text: str) -> str:
    return to_telegram(text).markdown_v2()


def to_html(text: str) -> str:
    return to_telegram(text).html()


def ent(text): return to_telegram(text)


from .plain import render as markdown_to_plain
from .whatsapp import render as markdown_to_whatsapp

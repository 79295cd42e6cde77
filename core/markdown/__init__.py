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
from .split import split as _split


def split(text):
    return _split(to_telegram(text))


def split_v2(text):
    return [p.markdown_v2() for p in split(text)]


def split_html(text):
    return [p.html() for p in split(text)]

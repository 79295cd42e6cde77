"""Markdown as the blocks of a rich message of the Bot API 10.2 (``InputRichMessage.blocks``).

A text in them is a JSON string, a list of texts, or ``{"type": style, "text": text}``: never
markup, so Telegram parses nothing. Names and limits:
https://core.telegram.org/bots/api#rich-messages
"""

import re
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

from . import document
from .blocks import Definitions, Leaf, read_blocks
from .document import Options, Writer
from .looks import TELEGRAM_GROWING
from .spans import Inline, Span
from .split import is_blank
from .tags import read_block
from .telegram import compose, utf16_length

RichText = str | list[Any] | dict[str, Any]
RichBlock = dict[str, Any]

# Of one message: characters, blocks with items and rows, nested blocks and styles, columns.
MOST_CHARACTERS = 32_768
MOST_BLOCKS = 500
MOST_LEVELS = 16
MOST_COLUMNS = 20

_OTHER_NAMES = {"strike": "strikethrough"}
_DETAILS = re.compile(r"(<details\b[^<>]*+>|</details\s*+>)", re.IGNORECASE)
_SUMMARY = re.compile(
    r"<summary\b[^<>]*+>((?:(?!<summary).)*?)</summary\s*+>", re.IGNORECASE | re.DOTALL
)
_NO_SUMMARY = "…"

Container = Literal["list", "item", "quote", "details"]


class _UnfitError(Exception):
    """The text is no single rich message: it is over a limit, or its blocks are not nested."""


@dataclass(slots=True)
class _Open:
    """A container that is being filled; ``blocks`` are those inside it."""

    kind: Container
    block: RichBlock
    blocks: list[RichBlock]
    number: int | None = None  # of the next item of an ordered list


class _Builder:
    """Builds the blocks of one document; ``is_structured``: some are more than paragraphs."""

    def __init__(self, definitions: Definitions, options: Options) -> None:
        self.reader = Writer(TELEGRAM_GROWING, definitions, options)
        self.blocks: list[RichBlock] = []
        self.open: list[_Open] = []
        self.characters = 0
        self.count = 0
        self.is_structured = False

    def build(self, tokens: list[Leaf]) -> None:
        """Add the leaves and containers of a token stream. Raises _UnfitError."""
        for token in tokens:
            getattr(self, token.type)(token)
        self._count(0)

    # -- leaves --------------------------------------------------------------------

    def paragraph(self, token: Leaf) -> None:
        content = token.content
        within = self.open[-1] if self.open else None
        end = document.DETAILS_END
        ends_details = content[-len(end) :].lower() == end and self._is_in_details()
        if ends_details:
            content = content[: -len(end)].rstrip()
        is_first = within is not None and not within.blocks
        if is_first and within is not None and within.kind == "item":
            task = document.TASK.match(content)
            if task:
                within.block |= {"has_checkbox": True, "is_checked": task[1] != " "}
                content = content[task.end() :]
        is_alert = is_first and within is not None and within.kind == "quote"
        alert = document.ALERT.match(content) if is_alert else None
        self._add_paragraph(self.reader.alert(alert) if alert else self.reader.inline(content))
        if ends_details:
            self._close("details")

    def heading(self, token: Leaf) -> None:
        inline = self.reader.inline(token.content)
        self._add({"type": "heading", "text": self._text(inline), "size": token.size})

    def fence(self, token: Leaf) -> None:
        self._add_code(token.content, document.language_of(token))

    def code_block(self, token: Leaf) -> None:
        self._add_code(token.content, "")

    def table(self, token: Leaf) -> None:
        columns = len(token.rows[0])
        if columns > MOST_COLUMNS:
            raise _UnfitError
        self._count(len(token.rows))
        aligns = [_alignment(each) for each in token.aligns]
        cells = []
        for number, row in enumerate(token.rows):
            texts = [*row, *[""] * (columns - len(row))]
            cells.append(
                [
                    self._cell(source, align=align, is_header=number == 0)
                    for source, align in zip(texts, aligns, strict=True)
                ]
            )
        self._add({"type": "table", "cells": cells, "is_bordered": True})

    def html_block(self, token: Leaf) -> None:
        """Add an HTML block as its text; ``<details>`` contains what follows, to its end."""
        for part in _DETAILS.split(token.content):
            if not part.startswith("<") or not _DETAILS.fullmatch(part):
                self._add_html(part)
            elif part.startswith("</"):
                self._close("details")
            else:
                block: RichBlock = {"type": "details", "summary": _NO_SUMMARY, "blocks": []}
                self._enter("details", block)

    def hr(self, _token: Leaf) -> None:
        self._add({"type": "divider"})

    # -- containers ------------------------------------------------------------------

    def blockquote_open(self, _token: Leaf) -> None:
        block: RichBlock = {"type": "blockquote", "blocks": []}
        self._enter("quote", block)

    def blockquote_close(self, _token: Leaf) -> None:
        self._close("quote")

    def bullet_list_open(self, _token: Leaf) -> None:
        self._open_list(None)

    def ordered_list_open(self, token: Leaf) -> None:
        self._open_list(int(token.attrs.get("start", 1)))

    def bullet_list_close(self, _token: Leaf) -> None:
        self._close("list")

    ordered_list_close = bullet_list_close

    def list_item_open(self, _token: Leaf) -> None:
        around = self.open[-1]
        item: RichBlock = {"blocks": []}
        if around.number is not None:
            item |= {"value": around.number, "type": "1"}
            around.number += 1
        self._count(1)
        around.block["items"].append(item)
        self.open.append(_Open("item", item, item["blocks"]))

    def list_item_close(self, _token: Leaf) -> None:
        self._close("item")

    # -- parts -----------------------------------------------------------------------

    def _enter(self, kind: Container, block: RichBlock, number: int | None = None) -> None:
        """Add a block that contains those that follow."""
        self._add(block)
        self.open.append(_Open(kind, block, block.get("blocks", []), number))

    def _open_list(self, start: int | None) -> None:
        self._enter("list", {"type": "list", "items": []}, start)

    def _close(self, kind: Container) -> None:
        if not self.open or self.open[-1].kind != kind:
            raise _UnfitError  # a tag of HTML that ends in another container
        closed = self.open.pop()
        if kind != "list" and not closed.blocks:
            raise _UnfitError  # Telegram requires content

    def _is_in_details(self) -> bool:
        return bool(self.open) and self.open[-1].kind == "details"

    def _add(self, block: RichBlock) -> None:
        self._count(1)
        is_plain = block["type"] in ("paragraph", "pre", "blockquote")
        self.is_structured = self.is_structured or not is_plain
        (self.open[-1].blocks if self.open else self.blocks).append(block)

    def _add_paragraph(self, inline: Inline) -> None:
        if not is_blank(inline.text) or inline.spans:
            self._add({"type": "paragraph", "text": self._text(inline)})

    def _add_code(self, content: str, language: str) -> None:
        content = content.removesuffix("\n")
        if not content.strip():
            return
        self.characters += utf16_length(content)
        block: RichBlock = {"type": "pre", "text": content}
        self._add(block | {"language": language} if language else block)

    def _add_html(self, source: str) -> None:
        found = _SUMMARY.search(source)
        if found and self._is_in_details():
            text, spans = read_block(found[1])
            if text:
                self.open[-1].block["summary"] = self._text(_of_html(text, spans))
            source = source[: found.start()] + source[found.end() :]
        text, spans = read_block(source)
        if text:
            self._add_paragraph(_of_html(text, spans))

    def _cell(self, source: str, *, align: str, is_header: bool) -> RichBlock:
        """Return a cell; one without a text is empty."""
        cell: RichBlock = {"align": align, "valign": "top"}
        if is_header:
            cell["is_header"] = True
        inline = self.reader.inline(source)
        return cell if is_blank(inline.text) else cell | {"text": self._text(inline)}

    def _text(self, inline: Inline) -> RichText:
        """Return a text with its styles and links."""
        text, spans = inline.text, inline.spans
        if inline.linked:
            text, spans = self.reader.addresses.apply(inline)
        self.characters += utf16_length(text)
        nested = compose(text, spans).spans
        if len(self.open) + 1 + _depth(nested) > MOST_LEVELS:
            raise _UnfitError
        return _styled(text, 0, len(text), deque(nested))

    def _count(self, more: int) -> None:
        self.count += more
        if self.count > MOST_BLOCKS or self.characters > MOST_CHARACTERS:
            raise _UnfitError


def _of_html(text: str, spans: list[Span]) -> Inline:
    return Inline(text, spans, marked=True, linked=True)


def _alignment(of: str) -> str:
    """Return the alignment of a column from a cell of Markdown's alignment row."""
    if of[-1] != ":":
        return "left"
    return "center" if of[0] == ":" and len(of) > 1 else "right"


def _depth(spans: tuple[Span, ...]) -> int:
    """Return how many of the nested spans are open at most."""
    ends: list[int] = []
    deepest = 0
    for span in spans:
        while ends and ends[-1] <= span.start:
            ends.pop()
        ends.append(span.end)
        deepest = max(deepest, len(ends))
    return deepest


def _styled(text: str, start: int, end: int, spans: deque[Span]) -> RichText:
    """Return ``text[start:end]``; ``spans`` are nested, outer before inner, and are taken."""
    parts: list[RichText] = []
    at = start
    while spans and spans[0].start < end:
        span = spans.popleft()
        if span.start > at:
            parts.append(text[at : span.start])
        inner = _styled(text, span.start, span.end, spans)
        if span.kind == "link":
            parts.append({"type": "url", "text": inner, "url": span.value})
        else:
            style = _OTHER_NAMES.get(span.kind, span.kind)
            parts.append({"type": style, "text": inner})
        at = span.end
    if at < end or not parts:
        parts.append(text[at:end])
    return parts[0] if len(parts) == 1 else parts


def rich_blocks(source: str, *, is_long: bool) -> list[RichBlock] | None:
    """Return the blocks of a text; None where one rich message cannot show it, or shows no more
    than text with entities does. ``is_long``: the text needs several messages of that form.
    """
    source = document.LINE_BREAKS.sub("\n", source.replace("\0", ""))
    tokens, definitions = read_blocks(source)
    try:
        found = _Builder(definitions, Options())
        found.build(tokens)
        if found.reader.html and found.reader.others:  # as in `document.read`
            found = _Builder(definitions, Options(tags_as_text=True))
            found.build(tokens)
    except _UnfitError:
        return None
    is_wanted = found.is_structured or (is_long and found.reader.marked)
    return found.blocks if is_wanted and found.characters else None

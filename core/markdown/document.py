"""A Markdown text as a document: one text, its spans, its blocks.

The text already has the layout that a chat shows (bullets, numbers, indentation, drawn tables);
what differs between channels is a :class:`Look`. Offsets are code points.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from markdown_it.token import Token

from . import links, tables
from .blocks import Definitions, read_blocks
from .inline import Inline, Scanner, has_markup
from .spans import Span, insert, shifted
from .tags import read_block

BlockKind = Literal["paragraph", "heading", "code", "table", "rule", "html"]

_TASK = re.compile(r"\[([ xX])\](?:[ \t\u00a0\n]|\Z)")
_LANGUAGE = re.compile(r"[^\s`\\]++")
_LINE_BREAKS = re.compile(r"\r\n?")
_RULE = "———"
_MOSTLY_BOLD = 0.28  # share of code in a heading up to which it is seen as one
_INDENT = "  "
# Without one of these a text has no Markdown, and most short answers have none of them.
_HINT = re.compile(r"[*_`~#\[\]|&<>\\]")
_LINE_HINT = re.compile(r"^(?:[ \t]*(?:[-+=]|[0-9]{1,9}[.)])| {4}|\t)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Look:
    """How a channel draws what is not text."""

    bullet: str
    todo: str
    done: str
    image: str  # in front of an image's description
    links_as_text: bool  # the address is written behind the text
    code_beside_bullet: bool  # an item's code may begin on the bullet's line
    code_indent: str = ""  # in front of every line of an indented code block
    fenced: bool = False  # code is written with its fence
    bold_code: bool = True  # code can be bold
    boxes: bool = False  # code is drawn in a box, which needs no blank line around it


TELEGRAM = Look(
    "•", "☐", "☑", "🖼", links_as_text=False, code_beside_bullet=True, bold_code=False, boxes=True
)
WHATSAPP = Look("•", "☐", "☑", "", links_as_text=True, code_beside_bullet=False, fenced=True)
PLAIN = Look(
    "-", "- [ ]", "- [x]", "", links_as_text=True, code_beside_bullet=False, code_indent="    "
)


# A leaf of the document: what it is, and from where to where it stands in the text.
Block = tuple[BlockKind, int, int]


@dataclass(slots=True)
class Document:
    """``text`` with ``spans`` and ``blocks``; ``marked``: whether the source was Markdown."""

    text: str
    spans: list[Span]
    blocks: list[Block] = field(default_factory=list)
    marked: bool = True


Cell = tuple[str, list[Span]]


class _Options(NamedTuple):
    """What is known about a whole text only after reading it."""

    wide_tables: bool  # some table is too wide for a grid
    tags_as_text: bool = False
    in_notes: bool = False  # addresses go to numbered notes at the end


@dataclass(slots=True)
class _Quote:
    start: int = -1


def _place(token: Token) -> list[int]:
    """The first source line of a leaf and the one behind its last; every leaf has them."""
    return token.map or [0, 0]


class _Writer:
    """Lays the leaves of a token stream out as one text."""

    def __init__(self, look: Look, definitions: Definitions, options: _Options) -> None:
        self.look = look
        self.definitions = definitions
        self.wide_tables, self.tags_as_text, self.in_notes = options
        self.html = self.others = False  # whether tags of HTML were taken out, others seen
        self.addresses = 0  # written out
        self.interruptions = 0  # those before more text on their line
        self.notes: dict[str, int] = {}
        self.parts: list[str] = []
        self.length = 0
        self.spans: list[Span] = []
        self.blocks: list[Block] = []
        self.marked = False
        self.boxed = False  # whether the last leaf was drawn in a box
        self.indent = ""
        self.line = 0  # the source line behind the last leaf
        self.marker = ""  # of the list item that no leaf has begun yet
        self.task = False  # whether a task's box may come next
        self.lists: list[int | None] = []
        self.quotes: list[_Quote] = []

    def begin(self, line: int, *, flush: bool = False) -> None:
        """Start a leaf: a new line, its indentation, and the marker of an item that waits."""
        lead = ""
        if self.length:
            boxed = self.boxed and self.look.boxes
            lead = "\n\n" if line > self.line and not boxed else "\n"
            if flush and self.look.boxes:
                lead = "\n"
        self.boxed = flush
        for quote in self.quotes:
            if quote.start < 0:
                quote.start = self.length + len(lead)
        if self.marker:
            lead = f"{lead}{self.indent[: -len(_INDENT)]}{self.marker} "
            self.marker = ""
            self.marked = True
        elif self.indent and not flush:
            lead += self.indent
        if lead:
            self.parts.append(lead)
            self.length += len(lead)

    def leaf(self, kind: BlockKind, inline: Inline, lines: list[int]) -> None:
        """Write a leaf whose text continues under its indentation."""
        self.begin(lines[0])
        text, spans = self.linked(inline) if inline.linked else (inline.text, inline.spans)
        if self.indent and "\n" in text:
            breaks = [(at + 1, self.indent) for at, char in enumerate(text) if char == "\n"]
            text, spans = insert(text, spans, breaks)
        self.put(kind, text, spans, lines)

    def put(self, kind: BlockKind, text: str, spans: list[Span], lines: list[int]) -> None:
        """Write text at the current place."""
        start = self.length
        if spans:
            for span in spans:
                span.start += start
                span.end += start
            self.spans += spans
        self.parts.append(text)
        self.length = end = start + len(text)
        self.blocks.append((kind, start, end))
        self.line = lines[1]

    def inline(self, source: str) -> Inline:
        if not has_markup(source):
            return Inline(source, [], marked=False)
        scanner = Scanner(source, self.definitions, tags_as_text=self.tags_as_text)
        inline = scanner.read()
        if scanner.tags_of_html:
            self.html = True
        if scanner.tags_of_others:
            self.others = True
        if inline.marked:
            self.marked = True
        return inline

    def document(self, tokens: list[Token]) -> Document:
        """Write all the blocks."""
        self.marked = bool(self.definitions)
        for token in tokens:
            _HANDLERS[token.type](self, token)
        if self.notes:
            notes = (f"[{number}] {address}" for address, number in self.notes.items())
            self.begin(self.line + 1)
            self.put("paragraph", "\n".join(notes), [], [self.line, self.line])
        return Document("".join(self.parts), self.spans, self.blocks, marked=self.marked)

    # -- links ---------------------------------------------------------------

    def linked(self, inline: Inline) -> tuple[str, list[Span]]:
        """The inline text with the addresses of its links and images where this look has them."""
        pieces: list[tuple[int, str]] = []
        spans: list[Span] = []
        until = 0  # end of the last link: an image inside it shows the link's address only
        for span in sorted(inline.spans, key=_link_first):
            if span.kind in ("link", "anchor"):
                until = max(until, span.end)
                self._link(inline.text, span, spans, pieces)
            elif span.kind == "image":
                inside = span.end <= until and until > 0
                self._image(inline.text, span, spans, pieces, inside=inside)
            else:
                spans.append(span)
        pieces.sort(key=_offset)
        return insert(inline.text, spans, pieces)

    def _link(
        self, text: str, span: Span, spans: list[Span], pieces: list[tuple[int, str]]
    ) -> None:
        address = None if self.look.links_as_text else links.telegram_address(span.value)
        if address is not None:
            spans.append(Span("link", span.start, span.end, address))
            if not links.rewritten(address) or text[span.start : span.end] in address:
                return
        written = self._address(span.value)
        if span.kind == "anchor":
            return
        if not self.look.links_as_text and "//" not in span.value and "@" not in written:
            return  # a relative address leads nowhere from a chat
        if written and not _same_address(text[span.start : span.end], written):
            pieces.append((span.end, self._written(text, span.end, written)))

    def _address(self, url: str) -> str:
        return links.written_address(url, ticks=not self.look.fenced)

    def _written(self, text: str, end: int, address: str) -> str:
        """An address behind the text that it belongs to, or the number of a note that has it."""
        self.addresses += 1
        if text[end : end + 1].strip("\n"):
            self.interruptions += 1
        if not self.in_notes:
            return f" ({address})"
        return f" [{self.notes.setdefault(address, len(self.notes) + 1)}]"

    def _image(
        self,
        text: str,
        span: Span,
        spans: list[Span],
        pieces: list[tuple[int, str]],
        *,
        inside: bool,
    ) -> None:
        look = self.look
        written = "" if inside else self._address(span.value)
        address = links.telegram_address(written) if written else None
        if look.image:
            pieces.append((span.start, look.image))
        if span.end == span.start:
            pieces.append((span.end, f" {written}" if look.image and written else written))
        elif look.links_as_text and written:
            pieces.append((span.end, self._written(text, span.end, written)))
        elif address is not None:
            spans.append(Span("link", span.start, span.end, address))

    # -- the tokens ------------------------------------------------------------

    def paragraph(self, token: Token) -> None:
        """A paragraph; the first one of an item may be a task."""
        content = token.content
        if self.task and self.marker:
            found = _TASK.match(content)
            if found:
                self._box(done=found[1] != " ")
                content = content[found.end() :]
        self.task = False
        inline = self.inline(content)
        if inline.text.strip() or inline.spans or self.marker:
            self.leaf("paragraph", inline, _place(token))

    def _box(self, *, done: bool) -> None:
        box = self.look.done if done else self.look.todo
        if self.lists[-1] is None:
            self.marker = box
        elif box.startswith(self.look.bullet):
            self.marker += box.removeprefix(self.look.bullet)
        else:
            self.marker = f"{box} {self.marker}"

    def heading(self, token: Token) -> None:
        """A heading is bold."""
        inline = self.inline(token.content)
        if not self.look.bold_code:
            _show_heading(inline)
        inline.spans.append(Span("bold", 0, len(inline.text)))
        self.leaf("heading", inline, _place(token))
        self.marked = True
        self.boxed = True  # bold is enough to set it off

    def fence(self, token: Token) -> None:
        """A fenced code block keeps its language, and its fence where a channel draws one."""
        content = token.content
        found = _LANGUAGE.match(links.unescape(token.info.strip()))
        if self.look.fenced:
            # A fence that nothing closes runs to the end of the text, also while it is streamed.
            closed = token.level > 0 or (
                (not content or content.endswith("\n"))
                and _place(token)[1] - _place(token)[0] - 2 == content.count("\n")
            )
            content = _fenced(content, token.markup + token.info.rstrip(), closed=closed)
        self.code(token, content, found.group() if found else "")

    def code_block(self, token: Token) -> None:
        """An indented code block."""
        content = token.content
        if self.look.fenced:
            content = _fenced(content, "```", closed=True)
        elif self.look.code_indent:
            content = "".join(
                f"{self.look.code_indent}{line}" if line.strip() else line
                for line in content.splitlines(keepends=True)
            )
        self.code(token, content, "")

    def code(self, token: Token, content: str, language: str) -> None:
        """Code is written without any indentation of ours, so that it can be copied."""
        self.marked = True
        if not token.content.strip():
            self.line = _place(token)[1]
            return
        content = content.removesuffix("\n")
        if self.marker and not self.look.code_beside_bullet:
            self.flush_marker(_place(token)[0])
        self.begin(_place(token)[0], flush=True)
        self.put("code", content, [Span("pre", 0, len(content), language)], _place(token))

    def table(self, token: Token) -> None:
        """A table is a monospaced grid, or a list where a table of the text is too wide for one."""
        self.marked = True
        rows = [[self.cell(source) for source in row] for row in token.meta["rows"]]
        if self.marker:
            self.flush_marker(_place(token)[0])
        if self.wide_tables and len(rows) > 1:
            self._cards(rows, _place(token))
            return
        linked = any(spans for row in rows for _, spans in row)
        if linked or tables.shape(token.meta["rows"]) == "rows":
            self._plain_rows(rows, _place(token))
            return
        drawn = tables.grid([[text for text, _ in row] for row in rows], token.meta["aligns"])
        if self.look.fenced:
            drawn = _fenced(drawn, "```", closed=True)
        self.begin(_place(token)[0], flush=True)
        self.put("table", drawn, [Span("pre", 0, len(drawn))], _place(token))

    def cell(self, source: str) -> Cell:
        """One line of text and its links; no other style survives in a table."""
        inline = self.inline(source)
        text, spans = self.linked(inline) if inline.linked else (inline.text, [])
        return text.replace("\n", " "), [span for span in spans if span.kind == "link"]

    def _plain_rows(self, rows: list[list[Cell]], lines: list[int]) -> None:
        """A line for each row: links do not work in monospaced text."""
        start = lines[0]
        for row in rows:
            self.begin(start)
            text, spans = _joined(row, " | ")
            self.put("table", text, spans, [start, lines[1]])
            start = lines[1]

    def _cards(self, rows: list[list[Cell]], lines: list[int]) -> None:
        header, start = rows[0], lines[0]
        for number, row in enumerate(rows[1:]):
            lead = f"{self.look.bullet} "
            for name, cell in zip(header, row, strict=False):
                if not cell[0]:
                    continue
                self.begin(start)
                parts = [(lead, []), name, (": ", []), cell]
                if not name[0] or (number and len(name[0]) > tables.REPEATED_HEADER):
                    parts = [(lead, []), cell]
                text, spans = _joined(parts, "")
                self.put("table", text, spans, [start, lines[1]])
                start, lead = lines[1], ""

    def html_block(self, token: Token) -> None:
        """An HTML block shows its text."""
        text, spans = read_block(token.content)
        self.marked = self.marked or text != token.content.strip()
        if text:
            self.leaf("html", Inline(text, spans, marked=True, linked=True), _place(token))

    def hr(self, token: Token) -> None:
        """A thematic break."""
        self.marked = True
        self.begin(_place(token)[0])
        self.put("rule", _RULE, [], _place(token))

    # -- containers --------------------------------------------------------------

    def flush_marker(self, line: int) -> None:
        """Give an item's marker a line of its own."""
        marked = self.marked
        self.begin(line)
        self.marked = marked  # a dash with nothing behind it is a dash
        self.parts[-1] = self.parts[-1].rstrip(" ")
        self.length -= 1
        self.line = line + 1

    def blockquote_open(self, _token: Token) -> None:
        self.marked = True
        self.quotes.append(_Quote())

    def blockquote_close(self, _token: Token) -> None:
        start = self.quotes.pop().start
        if start >= 0:
            self.spans.append(Span("quote", start, self.length))

    def bullet_list_open(self, _token: Token) -> None:
        self.lists.append(None)

    def ordered_list_open(self, token: Token) -> None:
        self.lists.append(int(token.attrs.get("start", 1)))

    def list_close(self, _token: Token) -> None:
        self.lists.pop()

    def list_item_open(self, token: Token) -> None:
        if self.marker:
            self.flush_marker(_place(token)[0])
        number = self.lists[-1]
        self.marker = self.look.bullet if number is None else f"{number}{token.markup}"
        if number is not None:
            self.lists[-1] = number + 1
        self.indent += _INDENT
        self.task = True

    def list_item_close(self, _token: Token) -> None:
        if self.marker:
            self.flush_marker(self.line)
        self.indent = self.indent[: -len(_INDENT)]


def _show_heading(inline: Inline) -> None:
    """Give up code in a heading that would hardly be bold with it; one that is all code stays."""
    code = "".join(inline.text[s.start : s.end] for s in inline.spans if s.kind == "code")
    share = len("".join(code.split())) / max(1, len("".join(inline.text.split())))
    if _MOSTLY_BOLD < share < 1:
        inline.spans = [span for span in inline.spans if span.kind != "code"]


def _fenced(content: str, fence: str, *, closed: bool) -> str:
    """Code in the fence that messengers draw: three backticks, no language.

    Content that holds such a fence keeps the longer one of the source; tildes mean nothing to them.
    """
    if "```" not in content:
        fence = "```"
    elif fence[0] == "~":
        return content
    end = content if content.endswith("\n") or not content else f"{content}\n"
    ticks = fence[: len(fence) - len(fence.lstrip("`"))]
    return f"{fence}\n{end}{ticks}" if closed else f"{fence}\n{content}"


def _joined(cells: list[Cell], separator: str) -> Cell:
    """Cells as one line, with their spans."""
    texts, spans, at = [], [], 0
    for text, found in cells:
        texts.append(text)
        spans += shifted(found, at)
        at += len(text) + len(separator)
    return separator.join(texts), spans


def _offset(piece: tuple[int, str]) -> int:
    return piece[0]


def _link_first(span: Span) -> tuple[int, bool, int]:
    return span.start, span.kind not in ("link", "anchor"), -span.end


def _same_address(text: str, address: str) -> bool:
    """Whether a link's text is its own address, give or take a slash."""
    return text.strip().rstrip("/") == address.rstrip("/")


_HANDLERS: dict[str, Callable[[_Writer, Token], None]] = {
    "paragraph": _Writer.paragraph,
    "heading": _Writer.heading,
    "fence": _Writer.fence,
    "code_block": _Writer.code_block,
    "table": _Writer.table,
    "html_block": _Writer.html_block,
    "hr": _Writer.hr,
    "blockquote_open": _Writer.blockquote_open,
    "blockquote_close": _Writer.blockquote_close,
    "bullet_list_open": _Writer.bullet_list_open,
    "bullet_list_close": _Writer.list_close,
    "ordered_list_open": _Writer.ordered_list_open,
    "ordered_list_close": _Writer.list_close,
    "list_item_open": _Writer.list_item_open,
    "list_item_close": _Writer.list_item_close,
}


def read(source: str, look: Look) -> Document:
    """Parse Markdown (any ``str``) and lay it out for a channel."""
    if not _HINT.search(source) and not _LINE_HINT.search(source):
        return Document(source, [], marked=False)
    tokens, definitions = read_blocks(_LINE_BREAKS.sub("\n", source) if "\r" in source else source)
    # One table in a form of its own would read as another kind of thing: all or none are lists.
    shapes = {tables.shape(token.meta["rows"]) for token in tokens if token.type == "table"}
    wide = "list" in shapes
    writer = _Writer(look, definitions, _Options(wide_tables=wide))
    document = writer.document(tokens)
    # Who writes `<T>` writes about code: then `<b>` is no markup either. And a text with addresses
    # amid its sentences is hard to read.
    options = _Options(
        wide_tables=wide,
        tags_as_text=writer.html and writer.others,
        in_notes=writer.interruptions > 1 or (writer.interruptions == 1 and writer.addresses > 3),
    )
    if options.tags_as_text or options.in_notes:
        document = _Writer(look, definitions, options).document(tokens)
    return document

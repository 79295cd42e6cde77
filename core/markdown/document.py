"""A Markdown text as a document: one text and its spans.

The text already has the layout that a chat shows (bullets, numbers, indentation, drawn tables); a
:class:`Look` holds the differences between channels. Offsets are code points.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from . import links, tables
from .addresses import Addresses
from .blocks import Definitions, Leaf, read_blocks
from .inline import Scanner, has_markup
from .looks import Look, fenced
from .spans import LONG, Inline, Span, insert, shifted
from .tags import read_block

TASK = re.compile(r"\[([ xX])\](?:[ \t\u00a0\n]|\Z)")
ALERT = re.compile(r"\[!(note|tip|important|warning|caution)\][ \t]*(\n|\Z)?", re.IGNORECASE)
_DETAILS = re.compile(r"<(/?)details\b", re.IGNORECASE)
DETAILS_END = "</details>"
_LANGUAGE = re.compile(r"[^\s`\\]++")
LINE_BREAKS = re.compile(r"\r\n?")
_RULE = "———"
_INDENT = "  "
# Without one of these a text has no Markdown, and most short answers have none of them.
_HINT = re.compile(r"[*_`~#\[\]|&<>\\]")
_LINE_HINT = re.compile(r"^(?:[ \t]*(?:[-+=]|[0-9]{1,9}[.)])| {0,3}\t| {4})", re.MULTILINE)


@dataclass(slots=True)
class Document:
    """``text`` with ``spans``; ``marked``: whether the source is Markdown at all."""

    text: str
    spans: list[Span]
    marked: bool


class Options(NamedTuple):
    """Properties of the whole text, known only after reading it."""

    tags_as_text: bool = False
    in_notes: bool = False  # addresses go to numbered notes at the end


@dataclass(slots=True)
class _Quote:
    start: int = -1


class Writer:
    """Lays the leaves of a token stream out as one text."""

    def __init__(self, look: Look, definitions: Definitions, options: Options) -> None:
        self.look = look
        self.definitions = definitions
        self.tags_as_text = options.tags_as_text
        self.wide_tables = False  # whether a table so far was too wide for a grid
        self.html = self.others = False  # whether tags of HTML were taken out, others seen
        self.addresses = Addresses(look, in_notes=options.in_notes)
        self.parts: list[str] = []
        self.length = 0
        self.spans: list[Span] = []
        self.marked = False
        self.boxed = False  # whether the last leaf was drawn in a box
        self.indent = ""
        self.line = 0  # the source line behind the last leaf
        self.marker = ""  # of the list item that no leaf has begun yet
        self.task = False  # whether a task's box may come next
        self.lists: list[int | None] = []
        self.quotes: list[_Quote] = []
        self.details: list[_Quote] = []

    def begin(self, line: int, *, flush: bool = False) -> None:
        """Start a leaf: a new line, its indentation, and the marker of an item that waits."""
        lead = ""
        if self.length:
            boxed = self.boxed and self.look.boxes
            lead = "\n\n" if line > self.line and not boxed else "\n"
            if flush and self.look.boxes:
                lead = "\n"
        self.boxed = flush
        for quote in (*self.quotes, *self.details):
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

    def leaf(self, inline: Inline, lines: list[int]) -> None:
        """Write a leaf whose text continues under its indentation."""
        self.begin(lines[0])
        text, spans = self.addresses.apply(inline) if inline.linked else (inline.text, inline.spans)
        if self.indent and "\n" in text:
            breaks = [(at + 1, self.indent) for at, char in enumerate(text) if char == "\n"]
            text, spans = insert(text, spans, breaks)
        self.put(text, spans, lines[1])

    def put(self, text: str, spans: list[Span], line: int) -> None:
        """Write text at the current position; ``line`` of the source is the one behind it."""
        self.spans += shifted(spans, self.length)
        self.parts.append(text)
        self.length += len(text)
        self.line = line

    def inline(self, source: str) -> Inline:
        if not has_markup(source):
            return Inline(source, [], marked=False)
        scanner = Scanner(
            source,
            self.definitions,
            tags_as_text=self.tags_as_text,
            drawn_formulas=self.look.formulas,
        )
        inline = scanner.read()
        self.html |= scanner.tags_of_html
        self.others |= scanner.tags_of_others
        self.marked |= inline.marked
        return inline

    def document(self, tokens: list[Leaf]) -> Document:
        self.marked = bool(self.definitions)
        for token in tokens:
            _HANDLERS[token.type](self, token)
        notes = self.addresses.notes()
        if notes:
            self.begin(self.line + 1)
            self.put(notes, [], self.line)
        return Document("".join(self.parts), self.spans, marked=self.marked)

    # -- the tokens ------------------------------------------------------------

    def paragraph(self, token: Leaf) -> None:
        """Add a paragraph; the first one of an item may be a task."""
        content = token.content
        ends_details = bool(self.details) and content[-len(DETAILS_END) :].lower() == DETAILS_END
        if ends_details:
            content = content[: -len(DETAILS_END)].rstrip()
        if self.task and self.marker:
            found = TASK.match(content)
            if found:
                self._box(done=found[1] != " ")
                content = content[found.end() :]
        self.task = False
        alert = ALERT.match(content) if self.quotes and self.quotes[-1].start < 0 else None
        inline = self.alert(alert) if alert else self.inline(content)
        if inline.text.strip() or inline.spans or self.marker:
            self.leaf(inline, token.map)
        if ends_details:
            self._end_details()

    def alert(self, alert: re.Match[str]) -> Inline:
        """Return the first paragraph of a quote that begins ``[!NOTE]``."""
        inline = self.inline(alert.string[alert.end() :])
        name = f"{alert[1].capitalize()}:"
        lead = name if not inline.text else f"{name}{' ' if alert[2] is None else alert[2]}"
        spans = [Span("bold", 0, len(name)), *shifted(inline.spans, len(lead))]
        return Inline(f"{lead}{inline.text}", spans, marked=True, linked=inline.linked)

    def _box(self, *, done: bool) -> None:
        box = self.look.done if done else self.look.todo
        if self.lists[-1] is None:
            self.marker = box
        elif box.startswith(self.look.bullet):
            self.marker += box.removeprefix(self.look.bullet)
        else:
            self.marker = f"{box} {self.marker}"

    def heading(self, token: Leaf) -> None:
        inline = self.inline(token.content)
        inline.spans.append(Span("bold", 0, len(inline.text)))
        self.leaf(inline, token.map)
        self.marked = True
        self.boxed = True  # bold is enough to set it off

    def fence(self, token: Leaf) -> None:
        """Write a fenced code block with its language, and its fence where the look has it."""
        content = token.content
        language = language_of(token)
        if self.look.fenced:
            # A fence that nothing closes runs to the end of the text, also while it is streamed.
            closed = token.level > 0 or (
                (not content or content.endswith("\n"))
                and token.map[1] - token.map[0] - 2 == content.count("\n")
            )
            content = fenced(content, token.markup + token.info.rstrip(), closed=closed)
        self.code(token, content, language)

    def code_block(self, token: Leaf) -> None:
        content = token.content
        if self.look.fenced:
            content = fenced(content, "```", closed=True)
        elif self.look.code_indent:
            content = "".join(
                f"{self.look.code_indent}{line}" if line.strip() else line
                for line in content.splitlines(keepends=True)
            )
        self.code(token, content, "")

    def code(self, token: Leaf, content: str, language: str) -> None:
        """Write code without added indentation, so that it can be copied."""
        self.marked = True
        if not token.content.strip():
            self.line = token.map[1]
            return
        content = content.removesuffix("\n")
        if self.marker and not self.look.code_beside_bullet:
            self.flush_marker(token.map[0])
        self.begin(token.map[0], flush=True)
        self.put(content, [Span("pre", 0, len(content), language)], token.map[1])

    def table(self, token: Leaf) -> None:
        """Add a table: a monospaced grid, or a list where a table is too wide for one."""
        self.marked = True
        rows = [[self.cell(source) for source in row] for row in token.rows]
        if self.marker:
            self.flush_marker(token.map[0])
        # A grid below a list would read as another kind of thing. Those above stay: a reader of an
        # answer that is being written has seen them.
        shape = tables.shape(token.rows)
        self.wide_tables = self.wide_tables or shape == "list"
        if self.wide_tables and len(rows) > 1:
            self._cards(rows, token.map)
            return
        linked = any(spans for row in rows for _, spans in row)
        if linked or shape == "rows":
            self._plain_rows(rows, token.map)
            return
        drawn = tables.grid([[text for text, _ in row] for row in rows], token.aligns)
        if self.look.fenced:
            drawn = fenced(drawn, "```", closed=True)
        self.begin(token.map[0], flush=True)
        self.put(drawn, [Span("pre", 0, len(drawn))], token.map[1])

    def cell(self, source: str) -> tables.Cell:
        """Return one line of text and its links; no other style survives in a table."""
        inline = self.inline(source)
        text, spans = self.addresses.apply(inline) if inline.linked else (inline.text, [])
        return text.replace("\n", " "), [span for span in spans if span.kind == "link"]

    def _plain_rows(self, rows: list[list[tables.Cell]], lines: list[int]) -> None:
        """Add a line for each row: links do not work in monospaced text."""
        start = lines[0]
        for row in rows:
            self.begin(start)
            text, spans = tables.joined(row, " | ")
            self.put(text, spans, lines[1])
            start = lines[1]

    def _cards(self, rows: list[list[tables.Cell]], lines: list[int]) -> None:
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
                text, spans = tables.joined(parts, "")
                self.put(text, spans, lines[1])
                start, lead = lines[1], ""

    def html_block(self, token: Leaf) -> None:
        """Add an HTML block as its text."""
        text, spans = read_block(token.content)
        self.marked = self.marked or text != token.content.strip()
        tags = _DETAILS.findall(token.content)
        self.details += [_Quote() for tag in tags if not tag]
        if text:
            self.leaf(Inline(text, spans, marked=True, linked=True), token.map)
        for tag in tags:
            if tag and self.details:
                self._end_details()

    def _end_details(self) -> None:
        details = self.details.pop()
        if self.look.folds:
            self._end_quote(details, LONG)

    def _end_quote(self, quote: _Quote, value: str = "") -> None:
        if quote.start >= 0:
            self.spans.append(Span("quote", quote.start, self.length, value))

    def hr(self, token: Leaf) -> None:
        self.marked = True
        self.begin(token.map[0])
        self.put(_RULE, [], token.map[1])

    # -- containers --------------------------------------------------------------

    def flush_marker(self, line: int) -> None:
        """Give an item's marker a line of its own."""
        marked = self.marked
        self.begin(line)
        self.marked = marked  # a dash at the end of a line is a dash
        self.parts[-1] = self.parts[-1].rstrip(" ")
        self.length -= 1
        self.line = line + 1

    def blockquote_open(self, _token: Leaf) -> None:
        self.marked = True
        self.quotes.append(_Quote())

    def blockquote_close(self, _token: Leaf) -> None:
        self._end_quote(self.quotes.pop())

    def bullet_list_open(self, _token: Leaf) -> None:
        self.lists.append(None)

    def ordered_list_open(self, token: Leaf) -> None:
        self.lists.append(int(token.attrs.get("start", 1)))

    def list_close(self, _token: Leaf) -> None:
        self.lists.pop()

    def list_item_open(self, token: Leaf) -> None:
        if self.marker:
            self.flush_marker(token.map[0])
        number = self.lists[-1]
        self.marker = self.look.bullet if number is None else f"{number}{token.markup}"
        if number is not None:
            self.lists[-1] = number + 1
        self.indent += _INDENT
        self.task = True

    def list_item_close(self, _token: Leaf) -> None:
        if self.marker:
            self.flush_marker(self.line)
        self.indent = self.indent[: -len(_INDENT)]


def language_of(fence: Leaf) -> str:
    """Return the first word behind the opening fence; empty without any."""
    found = _LANGUAGE.match(links.unescape(fence.info.strip()))
    return found.group() if found else ""


_HANDLERS: dict[str, Callable[[Writer, Leaf], None]] = {
    "paragraph": Writer.paragraph,
    "heading": Writer.heading,
    "fence": Writer.fence,
    "code_block": Writer.code_block,
    "table": Writer.table,
    "html_block": Writer.html_block,
    "hr": Writer.hr,
    "blockquote_open": Writer.blockquote_open,
    "blockquote_close": Writer.blockquote_close,
    "bullet_list_open": Writer.bullet_list_open,
    "bullet_list_close": Writer.list_close,
    "ordered_list_open": Writer.ordered_list_open,
    "ordered_list_close": Writer.list_close,
    "list_item_open": Writer.list_item_open,
    "list_item_close": Writer.list_item_close,
}


def read(source: str, look: Look) -> Document:
    """Parse Markdown (any ``str``) and lay it out for a channel."""
    if not _HINT.search(source) and not _LINE_HINT.search(source):
        return Document(source, [], marked=False)
    tokens, definitions = read_blocks(LINE_BREAKS.sub("\n", source) if "\r" in source else source)
    writer = Writer(look, definitions, Options())
    document = writer.document(tokens)
    # A text with `<T>` is about code: then `<b>` is no markup either. And a text with addresses
    # amid its sentences is hard to read.
    options = Options(
        tags_as_text=writer.html and writer.others,
        in_notes=look.notes and writer.addresses.too_many(),
    )
    if options.tags_as_text or options.in_notes:
        document = Writer(look, definitions, options).document(tokens)
    return document

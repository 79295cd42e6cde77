"""One parse -> text and spans -> Telegram's entities, MarkdownV2 or HTML.

Unsupported combinations are resolved here once, so that all three forms agree: ``pre`` and ``code``
hold nothing, code on a link is the link, quotes do not nest, and crossing styles are cut.
"""

import re
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from .spans import LONG, ORDER, Kind, Span

# fmt: off
EntityType = Literal[
    "bold", "underline", "italic", "strikethrough", "spoiler", "code", "pre", "text_link",
    "blockquote", "expandable_blockquote",
]
# fmt: on

_TYPES: dict[str, EntityType] = {
    "bold": "bold",
    "underline": "underline",
    "italic": "italic",
    "strike": "strikethrough",
    "spoiler": "spoiler",
    "code": "code",
    "pre": "pre",
    "link": "text_link",
    "quote": "blockquote",
}
# Replacements in order: the character that begins an escape comes first.
Escapes = tuple[tuple[str, str], ...]
_ESCAPES: Escapes = tuple((char, f"\\{char}") for char in "\\_*[]()~`>#+-=|{}.!")
_CODE_ESCAPES: Escapes = tuple((char, f"\\{char}") for char in "\\`")
_URL_ESCAPES: Escapes = tuple((char, f"\\{char}") for char in "\\)")
_HTML_ESCAPES: Escapes = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))
_ATTRIBUTE_ESCAPES: Escapes = (*_HTML_ESCAPES, ('"', "&quot;"))
_MARKERS = {
    "bold": "*", "underline": "__", "italic": "_", "strike": "~", "spoiler": "||", "code": "`",
}  # fmt: skip
_TAGS = {
    "bold": "b", "underline": "u", "italic": "i", "strike": "s", "spoiler": "tg-spoiler",
    "code": "code",
}  # fmt: skip
_LONG_QUOTE = 600  # characters, or
_LONG_LINES = 9  # lines: more than Telegram shows of a folded quote
# Between an underscore that ends and two that follow, for Telegram's parser takes two first.
_NOTHING = "**"
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class MessageEntity:
    """A Bot API ``MessageEntity``; ``offset`` and ``length`` count UTF-16 code units."""

    type: EntityType
    offset: int
    length: int
    url: str | None = None
    language: str | None = None

    def to_dict(self) -> dict[str, str | int]:
        """Return the entity as the Bot API's JSON has it."""
        found: dict[str, str | int] = {
            "type": self.type, "offset": self.offset, "length": self.length
        }  # fmt: skip
        if self.url is not None:
            found["url"] = self.url
        if self.language is not None:
            found["language"] = self.language
        return found


@dataclass(frozen=True, slots=True)
class TelegramText:
    """A message: ``text`` and its styles, in nested order (``spans``, offsets in code points)."""

    text: str
    spans: tuple[Span, ...] = ()

    @property
    def entities(self) -> list[MessageEntity]:
        """Return the arguments for ``sendMessage`` with ``entities`` and no ``parse_mode``."""
        offset = utf16_offsets(self.text)
        return [
            MessageEntity(
                "expandable_blockquote"
                if (span.kind, span.value) == ("quote", LONG)
                else _TYPES[span.kind],
                offset(span.start),
                offset(span.end) - offset(span.start),
                span.value if span.kind == "link" else None,
                (span.value or None) if span.kind == "pre" else None,
            )
            for span in self.spans
        ]

    def markdown_v2(self) -> str:
        """Return the text for ``parse_mode=MarkdownV2``."""
        return _MarkdownV2(self).write()

    def html(self) -> str:
        """Return the text for ``parse_mode=HTML``."""
        return _Html(self).write()


def utf16_length(text: str) -> int:
    """Return the length as Telegram counts it."""
    return len(text) if text.isascii() else len(text) + len(_ASTRAL.findall(text))


def utf16_offsets(text: str) -> Callable[[int], int]:
    """Return a function from offsets in code points to offsets in UTF-16 units."""
    spots = [found.start() for found in _ASTRAL.finditer(text)]
    return lambda at: at + bisect_left(spots, at)


# -- combinations ------------------------------------------------------------------


def compose(text: str, spans: list[Span]) -> TelegramText:
    """Resolve combinations that Telegram cannot nest; spans come out nested, outer before inner."""
    quotes = _quotes(text, spans)
    done: list[Span] = []
    cluster: list[Span] = []
    end = -1
    # Styles that do not touch each other need no settling, and most do not.
    for span in sorted(spans, key=_outside_first):
        if span.end <= span.start or span.kind in ("quote", "image"):
            continue
        if span.start > end and cluster:
            done += cluster if len(cluster) == 1 else _settled(cluster)
            cluster = []
        cluster.append(span)
        end = max(end, span.end)
    done += cluster if len(cluster) == 1 else _settled(cluster)
    if quotes:
        done = sorted(quotes + done, key=_outside_first)
    return TelegramText(text, tuple(done))


def _outside_first(span: Span) -> tuple[int, int, int]:
    return span.start, -span.end, ORDER[span.kind]


def _quotes(text: str, spans: list[Span]) -> list[Span]:
    """Return the quotes, flat, up to the start of the next line, as Telegram's parser has them."""
    quotes = [span for span in spans if span.kind == "quote" and span.end > span.start]
    quotes.sort(key=_outside_first)
    flat: list[Span] = []
    for quote in quotes:
        end = quote.end + (text[quote.end : quote.end + 1] == "\n")
        if flat and quote.start <= flat[-1].end:
            flat[-1].end = max(flat[-1].end, end)
            flat[-1].value = flat[-1].value or quote.value
        else:
            flat.append(Span("quote", quote.start, end, quote.value))
    for quote in flat:
        lines = text.count("\n", quote.start, quote.end)
        if quote.end - quote.start >= _LONG_QUOTE or lines >= _LONG_LINES:
            quote.value = LONG
    return flat


def _settled(cluster: list[Span]) -> list[Span]:
    """Return overlapping or touching styles as Telegram can show them."""
    edges: dict[int, list[tuple[int, Span]]] = {}
    for number, span in enumerate(_united(cluster)):
        edges.setdefault(span.start, []).append((number, span))
        edges.setdefault(span.end, []).append((number, span))
    active: dict[int, Span] = {}
    stack: list[Span] = []
    done: list[Span] = []
    for at in sorted(edges):
        for number, span in edges[at]:
            if span.start == at:
                active[number] = span
            else:
                del active[number]
        _restack(stack, _shown(active), at, done)
    done.sort(key=_outside_first)
    return done


def _united(cluster: list[Span]) -> list[Span]:
    """Return the spans (sorted by their start) with overlapping and touching ones of a kind as one.

    So at most one of a kind is open at any place, however deep the source nests them.
    """
    united: list[Span] = []
    last: dict[tuple[Kind, str], Span] = {}
    for span in cluster:
        key = (span.kind, span.value if span.kind in ("link", "anchor", "pre") else "")
        earlier = last.get(key)
        if earlier is not None and span.start <= earlier.end:
            earlier.end = max(earlier.end, span.end)
        else:
            last[key] = Span(span.kind, span.start, span.end, key[1])
            united.append(last[key])
    return united


def _shown(active: dict[int, Span]) -> dict[tuple[Kind, str], int]:
    """Return the styles to show where these spans are active, with the end of each."""
    kinds: dict[tuple[Kind, str], int] = {}
    names: set[Kind] = set()
    for span in active.values():
        kinds[span.kind, span.value] = span.end
        names.add(span.kind)
    keep: set[Kind]
    if "pre" in names:
        keep = {"pre"}
    elif "link" in names:
        keep = names - {"code"}
    elif "code" in names:
        keep = {"code"}
    else:
        return kinds
    return {key: end for key, end in kinds.items() if key[0] in keep}


def _restack(
    stack: list[Span], shown: dict[tuple[Kind, str], int], at: int, done: list[Span]
) -> None:
    """Close the spans that are no longer shown (and those inside), open the new ones."""
    keep = 0
    while keep < len(stack) and (stack[keep].kind, stack[keep].value) in shown:
        del shown[stack[keep].kind, stack[keep].value]
        keep += 1
    while len(stack) > keep:
        span = stack.pop()
        span.end = at
        done.append(span)
    missing = sorted(shown.items(), key=lambda item: (-item[1], ORDER[item[0][0]]))  # outer first
    stack += [Span(kind, at, at, value) for (kind, value), _ in missing]


# -- markup ----------------------------------------------------------------------


def _escaped(text: str, escapes: Escapes) -> str:
    """Return ``text`` with each character replaced: a quarter of the time of ``str.translate``."""
    for char, instead in escapes:
        if char in text:
            text = text.replace(char, instead)
    return text


class _Writer:
    """Writes a message as markup: its text escaped, a marker where a span begins and ends."""

    escapes: Escapes
    code_escapes: Escapes
    markers: dict[str, tuple[str, str]]  # of the kinds that need to know no more

    def __init__(self, message: TelegramText) -> None:
        self.message = message
        self.out: list[str] = []
        self.last = 0
        self.table = self.escapes
        self.quote_end = -1

    def write(self) -> str:
        markers = self.markers
        stack: list[Span] = []
        for span in self.message.spans:
            while stack and stack[-1].end <= span.start:
                self.close(stack.pop())
            if span.start > self.last:
                self.text(span.start)
            marker = markers.get(span.kind)
            self.mark(marker[0] if marker else self.opening(span))
            if span.kind in ("code", "pre"):
                self.table = self.code_escapes
            stack.append(span)
        while stack:
            self.close(stack.pop())
        self.text(len(self.message.text))
        return "".join(self.out)

    def close(self, span: Span) -> None:
        if span.end > self.last:
            self.text(span.end)
        marker = self.markers.get(span.kind)
        self.mark(marker[1] if marker else self.closing(span))
        self.table = self.escapes

    def mark(self, marker: str) -> None:
        self.out.append(marker)

    def text(self, end: int) -> None:
        """Add the text up to ``end``."""
        self.out.append(_escaped(self.message.text[self.last : end], self.table))
        self.last = end

    def opening(self, span: Span) -> str:
        """Return the marker in front of a link, a code block or a quote."""
        raise NotImplementedError

    def closing(self, span: Span) -> str:
        """Return the marker behind it."""
        raise NotImplementedError


class _MarkdownV2(_Writer):
    folds = False  # whether the quote that is open can be folded
    escapes = _ESCAPES
    code_escapes = _CODE_ESCAPES
    markers = {kind: (marker, marker) for kind, marker in _MARKERS.items()}

    def text(self, end: int) -> None:
        text = self.message.text[self.last : end]
        self.last = end
        escaped = _escaped(text, self.table)
        if end <= self.quote_end and self.table is _ESCAPES:
            # Each line of a quote has its own marker; its last line break belongs to it.
            escaped = escaped.replace("\n", "\n>")
            if end == self.quote_end and text.endswith("\n"):
                self.out.append(escaped[:-2])
                self.fold()
                escaped = "\n"
        self.out.append(escaped)

    def fold(self) -> None:
        """End a quote; the mark of one that can be folded stands on its last line."""
        if self.folds:
            last = next((piece for piece in reversed(self.out[-3:]) if piece), "")
            self.out.append(f"{_NOTHING}||" if last == "||" else "||")
            self.folds = False

    def mark(self, marker: str) -> None:
        last = self.out[-1] if self.out else ""
        if (last == "_" and marker == "__") or (last == marker == "||"):
            self.out.append(_NOTHING)
        self.out.append(marker)

    def opening(self, span: Span) -> str:
        if span.kind == "quote":
            self.quote_end, self.folds = span.end, bool(span.value)
            return ">"
        return "[" if span.kind == "link" else f"```{span.value}\n"

    def closing(self, span: Span) -> str:
        if span.kind == "quote":
            self.quote_end = -1
            self.fold()
            return ""
        if span.kind == "link":
            return f"]({_escaped(span.value, _URL_ESCAPES)})"
        return "```"  # a line break before it would be code


class _Html(_Writer):
    escapes = code_escapes = _HTML_ESCAPES
    markers = {kind: (f"<{tag}>", f"</{tag}>") for kind, tag in _TAGS.items()}

    def opening(self, span: Span) -> str:
        value = _escaped(span.value, _ATTRIBUTE_ESCAPES)
        if span.kind == "link":
            return f'<a href="{value}">'
        if span.kind == "quote":
            return "<blockquote expandable>" if span.value else "<blockquote>"
        return f'<pre><code class="language-{value}">' if value else "<pre>"

    def closing(self, span: Span) -> str:
        if span.kind in ("link", "quote"):
            return "</a>" if span.kind == "link" else "</blockquote>"
        return "</code></pre>" if span.value else "</pre>"

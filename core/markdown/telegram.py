"""One parse -> text and spans -> Telegram's entities, MarkdownV2 or HTML.

What Telegram cannot show together is settled here once, so that all three forms say the same:
``pre`` and ``code`` hold nothing, code on a link is the link, quotes do not nest, and styles that
cross are cut where they would.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .spans import ORDER, Kind, Span

EntityType = Literal[
    "bold", "italic", "strikethrough", "spoiler", "code", "pre", "text_link", "blockquote"
]

_TYPES: dict[str, EntityType] = {
    "bold": "bold",
    "italic": "italic",
    "strike": "strikethrough",
    "spoiler": "spoiler",
    "code": "code",
    "pre": "pre",
    "link": "text_link",
    "quote": "blockquote",
}
_ESCAPES = str.maketrans({char: f"\\{char}" for char in "_*[]()~`>#+-=|{}.!\\"})
_CODE_ESCAPES = str.maketrans({char: f"\\{char}" for char in "`\\"})
_URL_ESCAPES = str.maketrans({char: f"\\{char}" for char in ")\\"})
_HTML_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_ATTRIBUTE_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})
_MARKERS = {"bold": "*", "italic": "_", "strike": "~", "spoiler": "||", "code": "`"}
_TAGS = {"bold": "b", "italic": "i", "strike": "s", "spoiler": "tg-spoiler", "code": "code",
         "quote": "blockquote"}  # fmt: skip
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
        """The entity as the Bot API's JSON has it."""
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
        """For ``sendMessage`` with ``entities`` and no ``parse_mode``."""
        offset = utf16_offsets(self.text)
        return [
            MessageEntity(
                _TYPES[span.kind],
                offset(span.start),
                offset(span.end) - offset(span.start),
                span.value if span.kind == "link" else None,
                (span.value or None) if span.kind == "pre" else None,
            )
            for span in self.spans
        ]

    def markdown_v2(self) -> str:
        """For ``parse_mode=MarkdownV2``."""
        return "".join(_markdown_v2(self))

    def html(self) -> str:
        """For ``parse_mode=HTML``."""
        return "".join(_html(self))


def utf16_length(text: str) -> int:
    """The length as Telegram counts it."""
    return len(text) if text.isascii() else len(text) + len(_ASTRAL.findall(text))


class _Offsets:
    """Code point offsets -> UTF-16 offsets."""

    __slots__ = ("_spots",)

    def __init__(self, text: str) -> None:
        self._spots = [found.start() for found in _ASTRAL.finditer(text)]

    def __call__(self, at: int) -> int:
        return at + bisect_left(self._spots, at)


def utf16_offsets(text: str) -> _Offsets:
    """A function from offsets in code points to offsets in UTF-16 units."""
    return _Offsets(text)


# -- what can stand together -------------------------------------------------------


def compose(text: str, spans: list[Span]) -> TelegramText:
    """Settle what Telegram cannot nest; the spans come out nested, outer before inner."""
    wanted = _with_whole_quotes(text, spans)
    if not wanted:
        return TelegramText(text)
    edges: dict[int, list[tuple[int, Span]]] = {}
    for number, span in enumerate(wanted):
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
    done.sort(key=_nesting)
    return TelegramText(text, tuple(done))


def _with_whole_quotes(text: str, spans: list[Span]) -> list[Span]:
    """Quotes reach to the start of the next line, as Telegram's own parser has them."""
    size = len(text)
    wanted = []
    for span in spans:
        if span.end <= span.start or span.kind == "image":
            continue
        if span.kind == "quote" and span.end < size and text[span.end] == "\n":
            wanted.append(Span("quote", span.start, span.end + 1))
        else:
            wanted.append(span)
    return wanted


def _shown(active: dict[int, Span]) -> dict[tuple[Kind, str], int]:
    """The styles to show where these spans are active, with the end of each."""
    kinds: dict[tuple[Kind, str], int] = {}
    for span in active.values():
        key = (span.kind, span.value if span.kind in ("link", "pre") else "")
        kinds[key] = max(span.end, kinds.get(key, 0))
    names = {kind for kind, _ in kinds}
    if "pre" in names:
        keep = {"quote", "pre"}
    elif "link" in names:
        keep = names - {"code"}
    elif "code" in names:
        keep = {"quote", "code"}
    else:
        return kinds
    return {key: end for key, end in kinds.items() if key[0] in keep}


def _restack(
    stack: list[Span], shown: dict[tuple[Kind, str], int], at: int, done: list[Span]
) -> None:
    """Close what is not shown any more (and what stands inside it), open what is new."""
    keep = 0
    while keep < len(stack) and (stack[keep].kind, stack[keep].value) in shown:
        del shown[stack[keep].kind, stack[keep].value]
        keep += 1
    while len(stack) > keep:
        span = stack.pop()
        span.end = at
        done.append(span)
    missing = sorted(shown.items(), key=_outer_first)
    stack += [Span(kind, at, at, value) for (kind, value), _ in missing]


def _outer_first(item: tuple[tuple[Kind, str], int]) -> tuple[int, int]:
    (kind, _), end = item
    return -end, ORDER[kind]


def _nesting(span: Span) -> tuple[int, int, int]:
    return span.start, -span.end, ORDER[span.kind]


# -- markup ----------------------------------------------------------------------


def _steps(message: TelegramText) -> Iterator[tuple[str, Span | None, bool]]:
    """The text between edges, and the edges: (text, None, _) | ("", span, opens)."""
    text, last = message.text, 0
    open_spans: list[Span] = []
    for span in message.spans:
        while open_spans and open_spans[-1].end <= span.start:
            closing = open_spans.pop()
            yield text[last : closing.end], None, False
            last = closing.end
            yield "", closing, False
        yield text[last : span.start], None, False
        last = span.start
        yield "", span, True
        open_spans.append(span)
    while open_spans:
        closing = open_spans.pop()
        yield text[last : closing.end], None, False
        last = closing.end
        yield "", closing, False
    yield text[last:], None, False


def _markdown_v2(message: TelegramText) -> Iterator[str]:
    quote_end, code, at = -1, False, 0
    for text, span, opens in _steps(message):
        if span is None:
            at += len(text)
            escaped = text.translate(_CODE_ESCAPES if code else _ESCAPES)
            if at <= quote_end and not code:  # each line of a quote has its own marker
                escaped = escaped.replace("\n", "\n>")
                if at == quote_end and text.endswith("\n"):
                    escaped = escaped[:-1]
            yield escaped
        elif span.kind == "quote":
            quote_end = span.end if opens else -1
            yield ">" if opens else ""
        elif span.kind == "link":
            yield "[" if opens else f"]({span.value.translate(_URL_ESCAPES)})"
        elif span.kind == "pre":
            code = opens
            yield _fence_v2(message, span, opens=opens)
        else:
            code = opens and span.kind == "code"
            yield _MARKERS[span.kind]


def _fence_v2(message: TelegramText, span: Span, *, opens: bool) -> str:
    if opens:
        return f"```{span.value}\n"
    # Telegram takes a line break before the fence as code, but trims the end of a message.
    return "\n```" if span.end == len(message.text) else "```"


def _html(message: TelegramText) -> Iterator[str]:
    for text, span, opens in _steps(message):
        if span is None:
            yield text.translate(_HTML_ESCAPES)
        elif span.kind == "link":
            yield f'<a href="{span.value.translate(_ATTRIBUTE_ESCAPES)}">' if opens else "</a>"
        elif span.kind == "pre":
            yield _pre_html(span, opens=opens)
        else:
            yield f"<{'' if opens else '/'}{_TAGS[span.kind]}>"


def _pre_html(span: Span, *, opens: bool) -> str:
    if not span.value:
        return "<pre>" if opens else "</pre>"
    language = span.value.translate(_ATTRIBUTE_ESCAPES)
    return f'<pre><code class="language-{language}">' if opens else "</code></pre>"

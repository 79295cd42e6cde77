"""Raw HTML in Markdown: detect markup, and extract the text of a whole HTML block.

No chat channel renders HTML, so known tags are removed and their text stays; text that only looks
like a tag (``List<String>``, ``<MyComponent />``) is kept.
"""

import html
import re
from dataclasses import dataclass
from typing import Literal

from .links import unescape
from .scripts import shifted_letters, signs
from .spans import Kind, Span
from .words import names

INLINE_NAMES = names(
    "a abbr acronym b bdi bdo big button cite code data del dfn em font i ins kbd label mark q s "
    "samp small span strike strong sub sup time tt tg-spoiler u var"
)
_BLOCK_NAMES = names(
    "address article aside audio blockquote body caption center colgroup dd details dialog dir div "
    "dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header "
    "html iframe legend li main menu nav ol optgroup option p picture pre section select summary "
    "svg table tbody td template textarea tfoot th thead title tr ul video"
)
LINE_NAMES = names("dd div dt li p summary tr")
_VOID_NAMES = names("br col hr img input link meta source wbr")
_HIDDEN_NAMES = names("script style")
_KNOWN = INLINE_NAMES | _BLOCK_NAMES | _VOID_NAMES | _HIDDEN_NAMES

STYLES: dict[str, Kind] = {
    "b": "bold", "strong": "bold", "i": "italic", "em": "italic", "u": "underline",
    "ins": "underline", "s": "strike", "strike": "strike", "del": "strike", "code": "code",
    "tt": "code", "samp": "code", "summary": "bold",
}  # fmt: skip
SCRIPTS = ("sub", "sup")
TICKS = {"code": "`"}  # the value of a style's span


_ATTRIBUTE = (
    r"\s++[a-zA-Z_:][a-zA-Z0-9:._-]*+"
    r"(?:\s*+=\s*+(?:[^\"'=<>`\x00-\x20]++|'[^']*+'|\"[^\"]*+\"))?"
)
_OPEN = re.compile(rf"<([A-Za-z][A-Za-z0-9-]*+)((?:{_ATTRIBUTE})*+)\s*+/?>")
_CLOSE = re.compile(r"</([A-Za-z][A-Za-z0-9-]*+)\s*+>")
_VALUE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9:._-]*+)\s*+=\s*+(?:\"([^\"]*+)\"|'([^']*+)'|([^\s\"'=<>`]++))"
)
# Each special form ends with its own terminator.
_FORMS = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">"))

Role = Literal["open", "close", "image", "break", "hidden", "text"]


@dataclass(slots=True)
class Tag:
    """A tag at ``source``: ``role`` is its meaning without HTML."""

    name: str
    role: Role
    source: str
    end: int
    value: str = ""
    address: str = ""
    spoiler: bool = False


def attributes(source: str) -> dict[str, str]:
    """Return the attributes of an opening tag, names in lower case, values resolved."""
    found: dict[str, str] = {}
    for name, *values in _VALUE.findall(source):
        found.setdefault(name.lower(), html.unescape("".join(values)))
    return found


def read_tag(src: str, at: int, missing: set[str]) -> Tag | None:
    """Return the tag, comment or declaration that begins at ``src[at] == "<"``, or None.

    ``missing`` remembers the terminators that ``src`` does not hold any more, so that a row of
    unterminated openers costs no search to the end for each.
    """
    following = src[at + 1 : at + 2]
    if following in ("!", "?"):
        return _special(src, at, missing)
    if following == "/":
        found = _CLOSE.match(src, at)
        if found is None:
            return None
        name = found[1].lower()
        role: Role = "close" if name in _KNOWN else "text"
        return Tag(name, "hidden" if name in _HIDDEN_NAMES else role, found.group(), found.end())
    found = _OPEN.match(src, at)
    return _opening(found) if found else None


def _opening(found: re.Match[str]) -> Tag:
    name = found[1].lower()
    tag = Tag(name, "text", found.group(), found.end())
    if name not in _KNOWN:
        return tag
    if name in _HIDDEN_NAMES or name in _VOID_NAMES:
        tag.role = "break" if name == "br" else "hidden"
    else:
        tag.role = "open"
    if name == "img":
        tag.role, tag.value = "image", attributes(found[2]).get("alt", "")
    elif name == "a":
        # Kept for channels that link text; not meant for display.
        tag.address = attributes(found[2]).get("href", "")
    elif name == "tg-spoiler" or (name == "span" and "tg-spoiler" in found[2]):
        tag.spoiler = True
    return tag


def _special(src: str, at: int, missing: set[str]) -> Tag | None:
    form = next((form for form in _FORMS if src.startswith(form[0], at)), None)
    if form is None:
        return None
    opening, closing = form
    if src.startswith(("<!-->", "<!--->"), at):
        end = src.index(">", at)
    elif closing in missing or (opening == "<!" and not src[at + 2 : at + 3].isalpha()):
        return None
    else:
        end = src.find(closing, at + len(opening))
    if end < 0:
        missing.add(closing)
        return None
    end = src.index(">", end) + 1
    return Tag("", "hidden", src[at:end], end)


_PIECE = re.compile(r"<(?=[A-Za-z/!?])")
_HIDDEN_BLOCK = re.compile(
    r"<(script|style|head|title|template|noscript|svg)\b[^>]*+>.*?(?:</\1\s*+>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_INDENT = re.compile(r"[ \t]*\n[ \t\n]*")


class _Page:
    """Writes the visible text of an HTML block."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.length = 0
        self.spans: list[Span] = []
        self.anchors: list[tuple[int, str]] = []
        self.styles: dict[str, list[tuple[int, int]]] = {}  # length and number of parts at each tag
        self.numbers: list[int] = []

    def write(self, text: str) -> None:
        if text:
            self.parts.append(text)
            self.length += len(text)

    def newline(self) -> None:
        if self.parts and not self.parts[-1].endswith("\n"):
            self.write("\n")

    def text(self, source: str) -> None:
        text = _INDENT.sub("\n", unescape(source))
        if not self.parts or self.parts[-1].endswith("\n"):
            text = text.lstrip()
        self.write(text)

    def tag(self, tag: Tag) -> None:
        if tag.role == "text":
            self.write(tag.source)
        elif tag.role == "image":
            self.spans.append(Span("image", self.length, self.length + len(tag.value)))
            self.write(tag.value)
        elif tag.name == "a":
            self._anchor(tag)
        elif (tag.name in STYLES or tag.name in SCRIPTS) and tag.name not in _BLOCK_NAMES:
            self._style(tag)
        elif tag.name in ("td", "th"):
            if tag.role == "open" and self.parts and not self.parts[-1].endswith("\n"):
                self.write(" ")
        elif tag.name in _BLOCK_NAMES or tag.name in ("br", "hr"):
            self._block(tag)

    def _anchor(self, tag: Tag) -> None:
        if tag.role == "open":
            self.anchors.append((self.length, tag.address))
        elif self.anchors:
            start, address = self.anchors.pop()
            if address and self.length > start:
                self.spans.append(Span("anchor", start, self.length, address))

    def _style(self, tag: Tag) -> None:
        opened = self.styles.setdefault(tag.name, [])
        if tag.role == "open":
            opened.append((self.length, len(self.parts)))
            return
        if not opened:
            return
        start, first = opened.pop()
        if tag.name in STYLES:
            if self.length > start:
                kind = STYLES[tag.name]
                self.spans.append(Span(kind, start, self.length, TICKS.get(kind, "")))
            return
        text = "".join(self.parts[first:])
        shifted = shifted_letters(text, tag.name)
        if shifted is not None:
            self.parts[first:] = [shifted]
        elif text:
            before, after = signs(
                text, tag.name, "".join(self.parts[max(0, first - 1) : first])[-1:]
            )
            self.parts.insert(first, before)
            self.length += len(before)
            self.write(after)

    def _block(self, tag: Tag) -> None:
        if tag.role == "close" and tag.name in STYLES:
            self._style(tag)
        self.newline()
        if tag.role == "open" and tag.name in STYLES:
            self._style(tag)
        if tag.name in ("ol", "ul"):
            if tag.role == "open":
                self.numbers.append(1 if tag.name == "ol" else 0)
            elif self.numbers:
                self.numbers.pop()
        elif tag.name == "li" and tag.role == "open":
            number = self.numbers[-1] if self.numbers else 0
            self.write(f"{number}. " if number else "• ")
            if number:
                self.numbers[-1] += 1


def read_block(source: str) -> tuple[str, list[Span]]:
    """Return the text that an HTML block shows, without its outer white space, and its links."""
    source = _HIDDEN_BLOCK.sub("", source)
    page, missing, pos = _Page(), set[str](), 0
    for found in _PIECE.finditer(source):
        if found.start() < pos:
            continue
        tag = read_tag(source, found.start(), missing)
        if tag is not None:
            page.text(source[pos : found.start()])
            page.tag(tag)
            pos = tag.end
    page.text(source[pos:])
    text = "".join(page.parts)
    kept = text.rstrip()
    spans = [Span(s.kind, s.start, min(s.end, len(kept)), s.value) for s in page.spans]
    return kept, [s for s in spans if s.start < s.end or s.kind == "image"]

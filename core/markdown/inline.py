"""One paragraph of Markdown -> its text and its spans, in one pass over the special characters.

markdown-it-py finds the blocks; its inline rules make a token object of every piece of text and try
twelve rules at every special character, which alone costs more than this whole package may. This
scanner reads the same grammar (CommonMark, strikethrough, autolinks) straight into (text, spans).
Every construct is either matched from its first character with a bounded look-ahead or resolved at
its closing bracket, so the time is linear in the text. Differences to CommonMark, all deliberate:
emphasis next to CJK text, LaTeX kept as it is, ``||spoilers||``, tags that are no HTML kept.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate

from . import formulas, latex, links
from .blocks import Definitions
from .destinations import destination
from .emphasis import Mark, Run, Runs
from .scripts import shifted_letters, signs
from .spans import Inline, Kind, Span
from .tags import INLINE_NAMES, LINE_NAMES, SCRIPTS, STYLES, TICKS, Tag, read_tag
from .words import Literals, apostrophe, end_of_run, index_end

_SPECIAL = re.compile(r"[\n\\`*_~\[\]<&$|]")
_SPECIAL_OR_COLON = re.compile(r"[\n\\`*_~\[\]<&$|:]")  # where there are bare addresses
_BLANKS = re.compile(r"[ \t]*+")
_TICKS = re.compile(r"`++")
_CODE = re.compile(r"`([^`]++)`(?!`)")
_AUTOLINK = re.compile(r"<([a-zA-Z][a-zA-Z0-9+.\-]{1,31}):([^<>\x00-\x20]*+)>")
_EMAIL = re.compile(
    r"<([a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
    r"(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?){0,8})>"
)
_LABEL = re.compile(r"\[((?:[^\[\]\\]|\\.){0,999}+)\]", re.DOTALL)
_ESCAPABLE = re.compile(r"[!-/:-@\[-`{-~]")
_MARKUP_ESCAPES = frozenset("*_`~#[]|<>&")
_LABEL_LIMIT = 999


@dataclass(slots=True)
class _Bracket:
    """An opening ``[`` or ``![`` that may become a link."""

    fragment: int
    start: int
    bottom: Run | None
    marks: int
    image: bool


def has_markup(src: str) -> bool:
    """Return whether a text has any special character at all; without one it is its own result."""
    return _SPECIAL.search(src) is not None


class Scanner:
    """Reads one inline text; use it once."""

    # Made on first use: most texts need none of it.
    marked = linked = False
    tags_of_html = tags_of_others = False
    runs: Runs | None = None
    ticks: dict[int, list[int]] | None = None
    tags: dict[str, list[tuple[int, Tag]]] | None = None
    missing: set[str] | None = None
    literals: Literals | None = None
    blocks: set[int] | None = None  # fragments at which a block of HTML begins or has ended
    last_close: int | None = None
    dead = 0

    def __init__(
        self,
        src: str,
        definitions: Definitions,
        *,
        tags_as_text: bool = False,
        drawn_formulas: bool = False,
    ) -> None:
        self.src = src
        self.definitions = definitions
        self.tags_as_text, self.drawn_formulas = tags_as_text, drawn_formulas
        self.fragments: list[str] = []
        self.marks: list[Mark] = []
        self.brackets: list[_Bracket] = []

    def read(self) -> Inline:
        """Return the text and spans of the whole source."""
        self._scan()
        if self.runs is not None:
            self.runs.pair(None, self.fragments)
            self.marked = self.marked or self.runs.paired
        return self._assemble()

    def closers(self, far: int) -> str:
        """Return the markers and tags that close open constructs, not ``far`` from the end."""
        self._scan()
        found = [
            (number, f"</{name}>")
            for name, opened in (self.tags or {}).items()
            for number, tag in opened
            if tag.role == "open" and name in INLINE_NAMES
        ]
        if self.runs is not None:
            earliest = len(self.src) - far
            found += [
                (run.fragment, run.marker * run.count)
                for run in self.runs.unpaired(self.fragments)
                if run.start >= earliest
            ]
        return "".join(closer for _, closer in sorted(found, reverse=True))

    def _scan(self) -> None:
        src, handlers = self.src, _HANDLERS
        search = (_SPECIAL_OR_COLON if "://" in src else _SPECIAL).search
        pos, size = 0, len(src)
        while pos < size:
            found = search(src, pos)
            if found is None:
                self.fragments.append(src[pos:])
                break
            at = found.start()
            pos = handlers[src[at]](self, pos, at)

    def _assemble(self) -> Inline:
        if self.blocks is not None:
            self._break_lines(self.blocks)
        if not self.marks:
            return Inline("".join(self.fragments), [], marked=self.marked)
        offsets = list(accumulate(map(len, self.fragments), initial=0))
        spans = [
            Span(kind, offsets[first], offsets[end], value)
            for kind, first, end, value in self.marks
            if offsets[end] > offsets[first] or kind == "image"
        ]
        return Inline("".join(self.fragments), spans, marked=self.marked, linked=self.linked)

    def _break_lines(self, blocks: Collection[int]) -> None:
        """Let blocks begin and end a line, as in the cell of a table."""
        is_begun, slot = False, -1
        for at, piece in enumerate(self.fragments):
            if at in blocks and slot < 0:
                slot = at
            if piece.endswith("\n"):
                is_begun, slot = False, -1
            elif piece.strip():
                if is_begun and slot >= 0:
                    self.fragments[slot] = f"\n{self.fragments[slot]}"
                is_begun, slot = at not in blocks, -1

    # Each handler gets the position up to which all is written and that of a special character;
    # it writes what it takes and returns the position behind it.

    def _text(self, pos: int, end: int) -> int:
        if end > pos:
            self.fragments.append(self.src[pos:end])
        return end

    def newline(self, pos: int, at: int) -> int:
        """Parse a line break; blanks on both sides of it go."""
        line = self.src[pos:at].rstrip(" ")
        # A hard break may leave blanks in the fragment before, never more than the one.
        self.fragments += (line, "\n") if line else ("\n",)
        found = _BLANKS.match(self.src, at + 1)
        return found.end() if found else at + 1

    def escape(self, pos: int, at: int) -> int:
        """Parse a backslash: an escaped character, a hard break, or the start of a formula."""
        following = self.src[at + 1 : at + 2]
        if following == "\n":
            self._text(pos, at)
            return self.newline(at + 1, at + 1)
        if following and following in "([":
            end = formulas.bracketed_end(self.src, at)
            if end:
                self._text(pos, at)
                self.marked = True
                raw = f"{self.src[at + 1 : end - 2]}{self.src[end - 1]}"
                self.fragments.append(self._drawn(at + 2, end - 2) or raw)
                return end
        if not following or not _ESCAPABLE.match(following):
            return self._text(pos, at + 1)
        end = self._literals().backslash_end(at)
        if end:
            return self._text(pos, end)
        self._text(pos, at)
        self.fragments.append(following)
        if following in _MARKUP_ESCAPES or (
            following in "-+" and (at == 0 or self.src[at - 1] == "\n")
        ):
            self.marked = True
        return at + 2

    def dollar(self, pos: int, at: int) -> int:
        """Parse a formula in dollars: drawn, or unchanged with its stars and underscores."""
        src, end = self.src, formulas.dollar_end(self.src, at)
        if not end:
            return self._text(pos, at + 1)
        width = 2 if src.startswith("$$", at) else 1
        apart = not ((at and src[at - 1].isalnum()) or src[end : end + 1].isalnum())
        drawn = self._drawn(at + width, end - width) if apart else None
        if drawn is None:
            return self._text(pos, end)
        self._text(pos, at)
        self.fragments.append(drawn)
        self.marked = True
        return end

    def _drawn(self, start: int, end: int) -> str | None:
        """Return the formula between these positions in characters of Unicode, if it can be."""
        return latex.in_unicode(self.src[start:end]) if self.drawn_formulas else None

    def _literals(self) -> Literals:
        if self.literals is None:
            self.literals = Literals(self.src)
        return self.literals

    def backticks(self, pos: int, at: int) -> int:
        """Parse a code span, an apostrophe (``can`t``), or backticks that nothing closes."""
        if apostrophe(self.src, at):
            return self._text(pos, at + 1)
        found = _CODE.match(self.src, at)
        if found:
            self._text(pos, at)
            return self._code(found[1], "`", found.end())
        if self.ticks is None:
            self.ticks = {}
            for run in _TICKS.finditer(self.src, at):
                self.ticks.setdefault(run.end() - run.start(), []).append(run.start())
            for starts in self.ticks.values():
                starts.reverse()
        found = _TICKS.match(self.src, at)
        start = found.end() if found else at + 1
        closers = self.ticks.get(start - at, [])
        while closers and closers[-1] < start:
            closers.pop()
        if not closers:
            return self._text(pos, start)
        self._text(pos, at)
        end = closers.pop()
        return self._code(self.src[start:end], "`" * (start - at), end + start - at)

    def _code(self, code: str, ticks: str, end: int) -> int:
        code = code.replace("\n", " ")
        if code[0] == " " == code[-1] and code.strip(" "):
            code = code[1:-1]
        number = len(self.fragments)
        self.marks.append(("code", number, number + 1, ticks))
        self.fragments.append(code)
        self.marked = True
        return end

    def star(self, pos: int, at: int) -> int:
        """Parse a run of stars or underscores."""
        end = self._literals().marker_end(at)
        return self._text(pos, end) if end else self._run(pos, at, end_of_run(self.src, at))

    def pair(self, pos: int, at: int) -> int:
        """Parse two or more tildes, or exactly two pipes."""
        end = end_of_run(self.src, at)
        if end - at < 2 or (self.src[at] == "|" and end - at > 2):
            return self._text(pos, end)
        return self._run(pos, at, end)

    def _run(self, pos: int, at: int, end: int) -> int:
        src = self.src
        run = Run(src[at], at, end, src)
        if not (run.opens or run.closes) or run.multiplies:
            return self._text(pos, end)
        self._text(pos, at)
        if self.runs is None:
            self.runs = Runs(self.marks, src)
        self.runs.push(run, len(self.fragments))
        self.fragments.append(src[at:end])
        return end

    def colon(self, pos: int, at: int) -> int:
        """Parse ``://``: it may stand in a bare address, which no rule may touch."""
        if self.src.startswith("://", at):
            found = links.bare_address(self.src, at)
            if found and found[0] >= pos:
                return self._text(pos, found[1])
        return self._text(pos, at + 1)

    def entity(self, pos: int, at: int) -> int:
        """Parse a character reference."""
        found = links.REFERENCE.match(self.src, at)
        if not found:
            return self._text(pos, at + 1)
        shown = links.character(found.group())
        self._text(pos, at)
        self.fragments.append(shown)
        self.marked = self.marked or shown != found.group()
        return found.end()

    def angle(self, pos: int, at: int) -> int:
        """Parse an autolink, a tag, or a less-than sign."""
        found = _AUTOLINK.match(self.src, at) or _EMAIL.match(self.src, at)
        if found and links.allowed(found.group()[1:]):
            self._text(pos, at)
            self.fragments.append(found.group()[1:-1])
            self.marked = True
            return found.end()
        if self.missing is None:
            self.missing = set()
        tag = read_tag(self.src, at, self.missing)
        if tag is None:
            return self._text(pos, at + 1)
        self._text(pos, at)
        self._tag(tag)
        return tag.end

    def _tag(self, tag: Tag) -> None:
        number = len(self.fragments)
        if tag.role == "text" or (self.tags_as_text and tag.role in ("open", "close")):
            self.fragments.append(tag.source)
            self.tags_of_others = True
            return
        if tag.role == "image":
            self.fragments.append(tag.value)
            self.marks.append(("image", number, number + 1, ""))
            self.linked = True
        elif tag.role in ("break", "hidden"):
            self.fragments.append("\n" if tag.role == "break" else "")
        else:
            self.fragments.append(tag.source)
            if self.tags is None:
                self.tags = {}
            opened = self.tags.setdefault(tag.name, [])
            if tag.role == "open":
                opened.append((number, tag))
                return
            if not opened:
                return
            self._close_tag(*opened.pop(), number)
            self.tags_of_html = True
        self.marked = True

    def _close_tag(self, first: int, opening: Tag, number: int) -> None:
        self.fragments[first] = self.fragments[number] = ""
        if opening.name in LINE_NAMES:
            self.fragments[first] = "• " if opening.name == "li" else ""
            self.blocks = self.blocks or set()
            self.blocks |= {first, number}
        if opening.address:
            self.marks.append(("anchor", first + 1, number, opening.address))
            self.linked = True
        elif opening.spoiler:
            self.marks.append(("spoiler", first + 1, number, ""))
        elif opening.name in STYLES:
            kind = STYLES[opening.name]
            self.marks.append((kind, first + 1, number, TICKS.get(kind, "")))
        elif opening.name in SCRIPTS:
            self._script(first, number, opening.name)

    def _script(self, first: int, number: int, kind: str) -> None:
        """Raise or lower the fragments between two tags, or say so with a sign."""
        inner = self.fragments[first + 1 : number]
        shifted = [shifted_letters(piece, kind) for piece in inner]
        last = self.runs.last if self.runs is not None else None
        if None not in shifted and (last is None or last.fragment < first):
            self.fragments[first + 1 : number] = [piece or "" for piece in shifted]
        elif text := "".join(inner):
            before = next(
                (piece for piece in reversed(self.fragments[max(0, first - 8) : first]) if piece),
                "",
            )[-1:]
            self.fragments[first], self.fragments[number] = signs(text, kind, before)

    def open_bracket(self, pos: int, at: int) -> int:
        """Parse ``[`` or ``![``: perhaps a link or an image; its closing bracket decides."""
        if self.last_close is None:
            self.last_close = self.src.rfind("]")
        if at > self.last_close:
            return self._text(pos, at + 1)
        if end := index_end(self.src, at):
            return self._text(pos, end)
        image = at > pos and self.src[at - 1] == "!"
        self._text(pos, at - image)
        bottom = self.runs.last if self.runs is not None else None
        self.brackets.append(
            _Bracket(len(self.fragments), at + 1, bottom, len(self.marks), image=image)
        )
        self.fragments.append("![" if image else "[")
        return at + 1

    def close_bracket(self, pos: int, at: int) -> int:
        """Parse ``]``: end a link or an image if an address follows or a definition exists."""
        if not self.brackets:
            return self._text(pos, at + 1)
        bracket = self.brackets.pop()
        depth = len(self.brackets)
        dead = depth < self.dead and not bracket.image
        self.dead = min(self.dead, depth)
        if dead:
            return self._text(pos, at + 1)
        target = destination(self.src, at + 1) or self._definition(bracket, at)
        if target is None:
            return self._text(pos, at + 1)
        self._text(pos, at)
        address, end = target
        if self.runs is not None:
            self.runs.pair(bracket.bottom, self.fragments)
        self.fragments[bracket.fragment] = ""
        if bracket.image:
            del self.marks[bracket.marks :]
        else:
            self.dead = len(self.brackets)  # a link holds no link: no earlier "[" may open one
        self._link(bracket, address)
        self.marked = True
        return end

    def _link(self, bracket: _Bracket, address: str) -> None:
        first = bracket.fragment + 1
        if not bracket.image and not any(self.fragments[first:]):
            before = self.fragments[bracket.fragment - 1][-1:] if bracket.fragment else ""
            beside = before.isalnum() or len(self.marks) > bracket.marks  # or an image's address
            self.fragments.append(f"{' ' * beside}{links.written_address(address)}")
            return
        kind: Kind = "image" if bracket.image else "link"
        self.marks.append((kind, first, len(self.fragments), address))
        self.linked = True

    def _definition(self, bracket: _Bracket, at: int) -> tuple[str, int] | None:
        found = _LABEL.match(self.src, at + 1)
        label = found.group(1) if found else ""
        if not label:
            if at - bracket.start > _LABEL_LIMIT:
                return None
            label = self.src[bracket.start : at]
        address = self.definitions.find(label)
        return None if address is None else (address, found.end() if found else at + 1)


_HANDLERS: Mapping[str, Callable[[Scanner, int, int], int]] = {
    "\n": Scanner.newline,
    "\\": Scanner.escape,
    "`": Scanner.backticks,
    "*": Scanner.star,
    "_": Scanner.star,
    "~": Scanner.pair,
    "|": Scanner.pair,
    "[": Scanner.open_bracket,
    "]": Scanner.close_bracket,
    "<": Scanner.angle,
    "&": Scanner.entity,
    "$": Scanner.dollar,
    ":": Scanner.colon,
}

"""The text of Rich Text Format, which WordPad and TextEdit write (specification 1.9.1). Pure.

striprtf 0.0.35 decodes all bytes by the code page of the document, not by that of their font:
Russian and Chinese of older programs are unreadable then.
"""

import re
from dataclasses import dataclass, replace

from core.documents.encodings import paired

TOKEN = re.compile(
    r"\\(?P<word>[a-zA-Z]{1,32})(?P<number>-?\d{1,10})? ?|\\'(?P<code>[0-9a-fA-F]{2})"
    r"|\\(?P<sign>[^a-zA-Z])|(?P<brace>[{}])|(?P<end>[\r\n]+)|(?P<text>[^\\{}\r\n]+)",
    re.DOTALL,
)
# Groups that hold no text of the document.
HIDDEN_NAMES = (
    "fonttbl colortbl stylesheet info pict object fldinst themedata colorschememapping datastore "
    "latentstyles listtable listoverridetable rsidtbl revtbl filetbl xmlnstbl generator nonshppict "
    "ftnsep ftnsepc aftnsep aftnsepc"
)
HIDDEN = frozenset(HIDDEN_NAMES.split())
SHOWN = {
    "par": "\n", "line": "\n", "sect": "\n", "page": "\n", "row": "\n", "tab": "\t", "cell": " | ",
    "nestcell": " | ", "nestrow": "\n", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’",
    "ldblquote": "“", "rdblquote": "”", "bullet": "•", "emspace": " ", "enspace": " ",
}  # fmt: skip
SIGNS = {"~": "\u00a0", "_": "-", "{": "{", "}": "}", "\\": "\\", "\n": "\n", "\r": "\n"}
CHARSETS = {128: "cp932", 129: "cp949", 134: "gb18030", 136: "big5", 161: "cp1253", 162: "cp1254",
            163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251",
            222: "cp874", 238: "cp1250"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class State:
    """The settings of a group. ``fallback``: how many characters follow one of Unicode, for
    programs that know none. ``is_deleted``: a tracked change has taken it out.
    """

    is_hidden: bool = False
    is_deleted: bool = False
    fallback: int = 1
    codec: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether text here belongs to the document."""
        return not (self.is_hidden or self.is_deleted)


class Reader:
    """One pass over a document."""

    def __init__(self) -> None:
        self._state, self._outer = State(), list[State]()
        self._usual, self._fonts, self._font = "cp1252", dict[int, str](), 0
        self._found: list[str] = []
        self._codes = bytearray()
        self._skipped = 0  # characters that are still to come for other programs

    def read(self, text: str) -> str:
        """Return the text of a document, whose bytes are characters here."""
        at = 0
        while match := TOKEN.match(text, at):
            at = match.end()
            kind = match.lastgroup
            if kind != "code":
                self._decode()
            if kind == "code":
                self._byte(int(match["code"], 16))
            elif kind in {"word", "number"}:
                number = int(match["number"] or 0)
                if match["word"] == "bin":
                    at += max(0, number)
                self._word(match["word"], number, has_number=match["number"] is not None)
            elif kind == "brace":
                self._brace(match["brace"])
            elif kind == "sign":
                self._sign(match["sign"])
            elif kind == "text":
                self._text(match["text"])
        self._decode()
        return "".join(self._found)

    def _brace(self, brace: str) -> None:
        self._skipped = 0
        if brace == "{":
            self._outer.append(self._state)
        elif self._outer:
            self._state = self._outer.pop()

    def _word(self, word: str, number: int, *, has_number: bool) -> None:
        if word in HIDDEN:
            self._state = replace(self._state, is_hidden=True)
        if word == "u":
            self._say(chr(number % 0x10000))
            self._skipped = self._state.fallback
        elif word == "uc":
            self._state = replace(self._state, fallback=number)
        elif word in ("deleted", "plain"):
            is_deleted = word == "deleted" and (number != 0 or not has_number)
            self._state = replace(self._state, is_deleted=is_deleted)
        elif word == "ansicpg":
            self._usual = f"cp{number}" if has_number and number != 65001 else "utf-8"
        elif word == "f":
            self._font = number
            self._state = replace(self._state, codec=self._fonts.get(number, ""))
        elif word == "fcharset":
            self._fonts[self._font] = CHARSETS.get(number, "")
        elif word in SHOWN:
            self._say(SHOWN[word])

    def _sign(self, sign: str) -> None:
        if sign == "*":
            self._state = replace(self._state, is_hidden=True)
        elif self._skipped:
            self._skipped -= 1
        else:
            self._say(SIGNS.get(sign, ""))

    def _byte(self, code: int) -> None:
        if self._skipped:
            self._skipped -= 1
        elif self._state.is_shown:
            self._codes.append(code)

    def _text(self, text: str) -> None:
        kept = text[self._skipped :]
        self._skipped = max(0, self._skipped - len(text))
        self._say(kept)

    def _say(self, text: str) -> None:
        if self._state.is_shown:
            self._found.append(text)

    def _decode(self) -> None:
        """Add the bytes so far: in East Asia two make a character."""
        if self._codes:
            try:
                text = self._codes.decode(self._state.codec or self._usual, "replace")
            except LookupError:
                text = self._codes.decode("cp1252", "replace")
            self._found.append(text)
            self._codes.clear()


def text_of(content: bytes) -> str:
    """Return the text of a document. Total over bytes."""
    return paired(Reader().read(content.decode("latin-1")))

"""Words that contain Markdown's markers literally: globs, paths, names, faces.

A word is the text between white space. Each function costs no more than its word, once.
"""

import re
import unicodedata
from dataclasses import dataclass

from .emphasis import inside_word, is_face, is_unspaced


def names(text: str) -> frozenset[str]:
    """Return the set of the names in ``text``, which white space separates."""
    return frozenset(text.split())


_SPACE = re.compile(r"\s")
_CLUSTER = re.compile(r"[*_]++")
# `src/**/*.ts`, `a/*/b`; `**/node_modules/**`; `*.py`; `*.test.*`; `test_*.py`, `lib*.so`.
_GLOB = re.compile(
    r"[^\s]*?[/\\]\*{1,2}[/\\.]"
    r"|[(\"'\[!]*\*{1,2}/\S*/\*"
    r"|[(\"'\[!]*\*\.[\w{][^*]*\Z"
    r"|[(\"'\[!]*\*\.[\w.-]*\.\*"
    r"|[^\s*_][^\s*]*(?<!\*)\*\.\w"
)
_WINDOWS_PATH = re.compile(r"[(\"'\[*_]*(?:[A-Za-z]:\\(?!\\))|\S*\w\\\*\.\w")
_SHRUG = re.compile(r"\\_\([^\s()]{1,3}\)_/¯")
_DUNDER = re.compile(r"__([a-zA-Z][a-zA-Z0-9]*(?:_[a-zA-Z0-9]+)*)__(?![\w*])")
_ATTRIBUTE = re.compile(r"\.\w|[(\[]")
# `fns[0](e.data)`: a name, an index, and arguments that hold no address.
_TERM = r"[\w.'\"]{1,40}+(?:\[\w{1,40}\])?"
_INDEX = re.compile(
    rf"(?<=[A-Za-z0-9_\]])\[({_TERM}(?: ?[-+*%] ?{_TERM}){{0,4}})\](?=\((?!www\.|[^\s()]*[/:#@]))"
)
# Names that Python and similar tools write `__so__`; others in such underscores are bold.
_DUNDERS = names(
    "abs add aenter aexit aiter all annotations anext author await bases bool bytes cached "
    "call ceil class code complex contains context copy copyright debug deepcopy defaults del "
    "delattr delete delitem dict dir dirname divmod doc enter eq exit file filename float floor "
    "floordiv format fspath func future ge get getattr getattribute getitem getnewargs getstate "
    "globals gt hash iadd iand idiv import index init init_subclass instancecheck int inv "
    "invert ior isub iter itruediv ixor kwdefaults le len length_hint license line loader "
    "lshift lt main matmul members missing mocks mod module mro mul name ne neg new next "
    "package path pos post_init pow prepare proto pycache qualname radd rand rdiv reduce "
    "reduce_ex repr reversed rmul ror round rsub rtruediv self set set_name setattr setitem "
    "setstate sizeof slots snapshots spec str sub subclasscheck subclasses subclasshook tests "
    "traceback truediv trunc type typename version weakref wrapped xor"
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word: where it is, and what its stars and backslashes are."""

    start: int
    end: int
    is_glob: bool = False
    is_windows_path: bool = False


def word_at(src: str, at: int, earliest: int) -> Word:
    """Return the word around ``src[at]``, which begins at ``earliest`` or later."""
    start = at
    while start > earliest and not src[start - 1].isspace():
        start -= 1
    found = _SPACE.search(src, at)
    end = found.start() if found else len(src)
    word = src[start:end]
    stars, slashes = "*" in word, "\\" in word
    return Word(
        start,
        max(end, at + 1),
        is_glob=stars and _GLOB.match(word) is not None,
        is_windows_path=slashes and _WINDOWS_PATH.match(word) is not None,
    )


def shrug_end(src: str, at: int) -> int:
    r"""Return the end of the shrug whose backslash is at ``at``, or 0: ``¯\_(ツ)_/¯``."""
    found = _SHRUG.match(src, at) if at and src[at - 1] == "¯" else None
    return found.end() if found else 0


def index_end(src: str, at: int) -> int:
    """Return the end of the index that begins at the bracket ``at``, or 0: ``fns[0](x)``."""
    found = _INDEX.match(src, at)
    return found.end() if found else 0


def dunder_end(src: str, at: int) -> int:
    """Return the end of the name ``__init__`` that begins at ``at``, or 0."""
    if not src.startswith("__", at) or (at and (src[at - 1] == "_" or src[at - 1].isalnum())):
        return 0
    found = _DUNDER.match(src, at)
    if found is None:
        return 0
    known = found[1] in _DUNDERS
    member = (at and src[at - 1] == ".") or _ATTRIBUTE.match(src, found.end())
    return found.end() if known or member else 0


def apostrophe(src: str, at: int) -> bool:
    """Return whether the backtick at ``at`` stands between two letters of a word."""
    before, after = src[at - 1] if at else "", src[at + 1 : at + 2]
    return bool(before) and _is_letter(before) and bool(after) and _is_letter(after)


def _is_letter(char: str) -> bool:
    return unicodedata.category(char)[0] == "L" and not is_unspaced(char)


class Literals:
    """Finds the special characters of one text that are no Markdown, whatever CommonMark says.

    Linear when it is asked from left to right; every other order is right too.
    """

    __slots__ = ("_cluster", "_word", "src")

    def __init__(self, src: str) -> None:
        self.src = src
        self._word: Word | None = None
        # Where markers were looked at, and whether they stand inside a word.
        self._cluster = (0, 0, False)

    def marker_end(self, at: int) -> int:
        """Return the end of the literal stars or underscores at ``at``, or 0."""
        src = self.src
        name_end = dunder_end(src, at)
        if name_end:
            return name_end
        end = end_of_run(src, at)
        alone = src[at] == "_" and end == at + 1
        is_mouth = alone and is_face(src[at - 1] if at else "", src[end : end + 1])
        return end if is_mouth or self._inside_word(at) or self.word(at).is_glob else 0

    def backslash_end(self, at: int) -> int:
        """Return the end of the literal text at the backslash ``at``, or 0."""
        return at + 1 if self.word(at).is_windows_path else shrug_end(self.src, at)

    def word(self, at: int) -> Word:
        """Return the text between white space around this position."""
        known = self._word
        if known is None or not known.start <= at < known.end:
            earliest = known.end if known is not None and at >= known.end else 0
            known = self._word = word_at(self.src, at, earliest)
        return known

    def _inside_word(self, at: int) -> bool:
        start, end, inside = self._cluster
        if not start <= at < end:
            found = _CLUSTER.match(self.src, at)
            end = found.end() if found else at + 1
            before, after = self.src[at - 1] if at else "", self.src[end : end + 1]
            inside = inside_word(before, after)
            self._cluster = (at, end, inside)
        return inside


def end_of_run(src: str, at: int) -> int:
    """Return the end of the run of the character at ``at``."""
    end, marker = at + 1, src[at]
    while src[end : end + 1] == marker:
        end += 1
    return end

"""Text for slides: cleaned, cut, split. Total over any string."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

from core.lib.text import clean

# Characters that XML 1.0 forbids (https://www.w3.org/TR/xml/#charsets) or that reorder text.
UNWRITABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff\ufeff\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
# Days of German and Scandinavian dates and centuries look like numbers of a list.
DATED = (
    r"(?:jan(?:uar|\.)|feb(?:ruar|\.)|märz|mars|marts|apr(?:il|\.)|mai|maj|juni?|juli?|aug(?:ust|\.)|"
    r"sep(?:tember|t?\.)|okt(?:ober|\.)|nov(?:ember|\.)|de[zcs](?:ember|\.)|jahrhunderts?|"
    r"århundre(?:de|t)?)(?!\w)"
)
EMPHASIS = re.compile(r"(?<![A-Za-z0-9])(\*\*|__|~~)(?=\S)([^\n]{1,300}?)(?<=\S)\1")
# Not between two signs of a word, as in 2**10; "> 50 %" and "+ 5 °C" begin with no mark.
MARKERS = re.compile(
    r"(?<![A-Za-z0-9])(?:\*\*|__|~~)(?=\S)|(?<=\S)(?:\*\*|__|~~)(?![A-Za-z0-9])|`+"
    r"|^[^\S\n]*(?:#{1,6}|[>+](?![^\S\n]+\d)|[-*•▪‣◦]"
    rf"|\d{{1,2}}[.)](?![^\S\n]+{DATED}))[^\S\n]+",
    re.MULTILINE | re.IGNORECASE,
)
LINK = re.compile(r"!?\[([^\]\n]{0,200})\]\([^)\s]{1,500}\)")
SENTENCE_END = re.compile(r"(?<=[.!?؟۔।])[\"”’»)]?\s+|(?<=[。！？])|\n+")
LABELLED_NUMBER = re.compile(r"[^.:：]{1,60}[:：]\s*[^\s\w]?\s*\d[\d.,]*\s*\S{0,8}")
# With the marks of letters, which are no letters to Python: accents, vowel signs of India.
WORD = re.compile(r"[\w\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0963\u0966-\u0dff]+")
QUOTES = '"“”„«»'
MOST_MARKS = 3
# Scripts whose sentences have no spaces between words: compared by pairs of characters.
UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)


def writable(text: str) -> str:
    """Return ``text`` without characters that XML or a reader can't bear; line ends stay."""
    return "".join(few_marks(UNWRITABLE.sub(" ", clean(text).replace("\r", "\n"))))


def few_marks(text: str) -> Iterator[str]:
    """Return ``text`` with at most three combining marks per character: more leave the box."""
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in {"Mn", "Me"} else 0
        if marks <= MOST_MARKS:
            yield character


def plain(text: str) -> str:
    """Return ``text`` without Markdown's marks, on one line."""
    unmarked = MARKERS.sub("", EMPHASIS.sub(r"\2", LINK.sub(r"\1", writable(text))))
    return " ".join(unmarked.split())


def tidy(text: object, limit: int) -> str:
    """Return ``text`` as one line of at most ``limit`` characters, cut at a sentence or word."""
    line = plain(text[: limit * 20] if isinstance(text, str) else "")
    return line if len(line) <= limit else cut(line, limit)


def cut(line: str, limit: int) -> str:
    """Return the start of ``line``: whole sentences if they fill half of ``limit``, else words."""
    head = line[:limit]
    ends = [match.end() for match in re.finditer(r"[.!?。！？؟](?=\s|$)|[。！？]", head)]
    if ends and ends[-1] >= limit // 2:
        return head[: ends[-1]].strip()
    head = line[: limit - 1]
    space = head.rfind(" ")
    return (head[:space] if space >= limit // 2 else head).rstrip(" ,;:-–—、，") + "…"


def title(text: object, limit: int = 90) -> str:
    """Return ``text`` as a heading: no full stop, no quotes around it."""
    line = unquoted(unended(tidy(text, limit)))
    return unended(line)


def unended(line: str) -> str:
    return line.removesuffix(".").removesuffix("。").rstrip(" :：")


def unquoted(line: str) -> str:
    """Return a line without the quotes around it; one of several that are quoted keeps its own."""
    found = [sign for sign in line if sign in QUOTES]
    around = len(found) == 2 and line[0] in QUOTES and line[-1] in QUOTES
    if around or len(found) == 1:
        return line.strip(QUOTES + " ")
    single = line.count("'") == 2 and line[0] == line[-1] == "'"
    return line.strip("' ") if single else line


def sentences(text: str) -> list[str]:
    """Return the sentences of ``text``, without headings, rows of tables and short pieces."""
    found: list[str] = []
    for raw in SENTENCE_END.split(writable(text)):
        is_row = raw.count("|") > 1 or " | " in raw or raw.count("\t") > 1
        if is_row or raw.lstrip().startswith(("#", "|")):
            continue
        if LABELLED_NUMBER.fullmatch(raw.strip()):
            continue
        sentence = plain(raw)
        if len(terms(sentence)) >= 2:
            found.append(sentence)
    return found


@lru_cache(maxsize=2048)
def terms(text: str) -> frozenset[str]:
    """Return a text's words for comparing, or pairs of signs where words are not separated."""
    found: set[str] = set()
    for word in WORD.findall(text.casefold()):
        if UNSPACED.search(word):
            found.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif len(word) > 2 or word.isdecimal():
            found.add(word)
    return frozenset(found)


def likeness(one: str, other: str) -> float:
    """Return how much two texts share, 0 to 1 (of the shorter one's terms)."""
    first, second = terms(one), terms(other)
    if not first or not second:
        return float(one.strip() == other.strip())
    return len(first & second) / min(len(first), len(second))


def is_repeat(text: str, earlier: Iterable[str], limit: float = 0.8) -> bool:
    return any(likeness(text, other) >= limit for other in earlier)


def is_stutter(text: str) -> bool:
    """Return whether ``text`` repeats the same few words, as weak models do."""
    words = WORD.findall(text.casefold())
    return len(words) >= 8 and len(set(words)) < len(words) * 0.4

"""What is wanted: the topic, the language, how many slides, and the source to hold on to."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from core.plugins.base import Source
from core.plugins.slides.language import Language, detect, named
from core.plugins.slides.texts import UNSPACED, plain, sentences, terms, title

FEWEST, USUAL, MOST = 3, 10, 40
THIN = 240
PIECE = 900
# Room of a prompt for its own words, and of an answer, in tokens.
RESERVED = 1200
MOST_SOURCE = 9000
# Fallback sentences and figures are looked for in so much of a source: enough for a deck.
SEARCHED = 200_000
THING = (
    r"(?:ppt|power ?point|presentation|slide ?show|slides?|deck|folien|präsentation|vortrag|"
    r"presentaci[oó]n|diapositivas|présentation|diaporama|presentazione|apresentação|презентаци\w+|"
    r"عرض\S*(?: تقديمي\S*)?)"
)
ABOUT = r"(?:about|on|regarding|for|of|über|zum|zur|zu|sobre|acerca de|sur|su|de|о|об|про|عن|حول)"
TOPICS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{THING}\s+{ABOUT}\s+(?P<topic>.+)",
        r"(?:关于|關於|有关|介绍|介紹)(?P<topic>.+?)(?:的|$)",
        r"(?P<topic>.+?)(?:について|に関する)",
        r"(?P<topic>.+?)에 (?:대한|관한)",
        rf"^(?P<topic>(?!.*\b(?:make|create|generate|mach)\b).+?)\s+{THING}$",
    )
)
COUNT = re.compile(
    r"(?P<count>\d{1,2})[\s-]*(?:slides?|pages?|folien|seiten|diapositivas|diapos\w*|slide|страниц\w*|"
    r"слайд\w*|页|頁|张|張|枚|ページ|장|شرائح|شريحة)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Brief:
    """One order. ``count`` pages in all; ``text``: all parts; ``thin``: it is only a topic."""

    topic: str
    language: Language
    count: int
    audience: str
    parts: Sequence[tuple[str, str]]
    text: str
    thin: bool
    room: int


def read(parameters: Mapping[str, Any], source: Source, context_tokens: int) -> Brief:
    """The order that a request's parameters and its source make."""
    request = words(parameters, "request") or words(parameters, "source")
    text = source.text
    thin = len(text) <= THIN
    parts = source.parts if text.strip() else [("", source.title or request)]
    asked = request if len(request) <= THIN else ""
    language = named(words(parameters, "language")) or detect(
        asked if asked.strip() else text or source.title
    )
    topic = topic_of(asked or text if thin else source.title or asked)
    return Brief(
        topic=topic or title(source.title) or title(text, 60) or "—",
        language=language,
        count=count_of(parameters.get("slides"), f"{asked} {text if thin else ''}"),
        audience=plain(words(parameters, "audience"))[:120],
        parts=parts,
        text="\n\n".join(part for _reference, part in parts),
        thin=thin,
        room=room_of(context_tokens, text),
    )


def words(parameters: Mapping[str, Any], name: str) -> str:
    """A parameter that is text; "" where it is missing or something else."""
    value = parameters.get(name)
    return value if isinstance(value, str) else ""


def count_of(value: object, request: str) -> int:
    """How many slides: as asked for, within what a deck may have."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        value = ""
    match = re.fullmatch(r"\d{1,4}(?:\.0+)?", str(value).strip()) if value != "" else None
    found = COUNT.search(request)
    count = int(float(match[0])) if match else int(found["count"]) if found else USUAL
    return max(FEWEST, min(MOST, count))


def topic_of(request: str) -> str:
    """The topic of "make slides about …"; the text itself where it asks for nothing."""
    line = plain(request).rstrip(".!?。！？ ")
    for pattern in TOPICS:
        if match := pattern.search(line):
            return capital(title(match["topic"]))
    return capital(title(line))


def capital(text: str) -> str:
    """``text`` with a capital first letter."""
    return text[:1].upper() + text[1:]


def room_of(context_tokens: int, text: str) -> int:
    """How many characters of the source fit a prompt: 2.5 a token, fewer where each is a word."""
    share = 0.8 if UNSPACED.search(text) else 2.5
    return max(300, min(MOST_SOURCE, int((context_tokens - RESERVED) * share)))


def pieces(brief: Brief) -> list[str]:
    """The source in pieces of about 900 characters, cut between paragraphs or lines."""
    found: list[str] = []
    for _reference, text in brief.parts:
        piece = ""
        for line in text.split("\n"):
            if piece and len(piece) + len(line) > PIECE:
                found.append(piece)
                piece = ""
            piece += line[: PIECE * 2] + "\n"
        found.append(piece)
    return [piece for piece in found if piece.strip()]


def relevant(brief: Brief, query: str) -> str:
    """What of the source is nearest to ``query``, in its own order, as much as fits a prompt."""
    parts = pieces(brief)
    wanted = terms(query)
    order = sorted(range(len(parts)), key=lambda at: (-len(wanted & terms(parts[at])), at))
    chosen: list[int] = []
    used = 0
    for at in order:
        if used + len(parts[at]) <= brief.room or not chosen:
            chosen.append(at)
            used += len(parts[at])
    return "\n".join(parts[at] for at in sorted(chosen))[: brief.room]


def digest(brief: Brief) -> str:
    """The first sentences of evenly spread pieces: what the whole source is about."""
    parts = pieces(brief)
    step = max(1, len(parts) * 260 // brief.room)
    return "\n".join(piece.strip()[:260] for piece in parts[::step])[: brief.room]


@lru_cache(maxsize=2)
def source_sentences(text: str) -> tuple[str, ...]:
    """The sentences of the first 200,000 characters of a source."""
    return tuple(sentences(text[:SEARCHED]))


def nearest_sentences(brief: Brief, query: str) -> list[str]:
    """The source's own sentences, the nearest to ``query`` first."""
    wanted = terms(query)
    found = source_sentences(brief.text)
    order = sorted(range(len(found)), key=lambda at: (-len(wanted & terms(found[at])), at))
    return [found[at] for at in order]

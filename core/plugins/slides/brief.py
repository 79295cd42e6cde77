"""The order of a deck: topic, language, number of slides, and source."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from core.lib.languages import Language, detect, named
from core.plugins.base import Source
from core.plugins.slides import asked
from core.plugins.slides.asked import Asked
from core.plugins.slides.figures import SEARCHED
from core.plugins.slides.texts import UNSPACED, plain, sentences, terms, title

FEWEST, USUAL, MOST = 3, 10, 40
THIN = 240
TITLE_MOST = 120
PIECE = 900
# Tokens reserved for the prompt's own text, and for the answer.
RESERVED = 1200
MOST_SOURCE = 9000
HEADED = "section "  # so begins the reference of a part that has a heading
HEADING = re.compile(r"^#{1,3}\s+(?P<title>.{3,120})$", re.MULTILINE)
# A role of the conversation ("user: …") before its words.
ROLE = re.compile(r"^(?:user|assistant): ")


@dataclass(frozen=True, slots=True)
class Brief:
    """One order. ``count`` pages in all; ``text``: all parts; ``thin``: it is only a topic.

    ``title``: the requested one ("" otherwise).
    """

    topic: str
    title: str
    language: Language
    count: int
    audience: str
    parts: Sequence[tuple[str, str]]
    text: str
    thin: bool
    room: int


def read(parameters: Mapping[str, Any], source: Source, context_tokens: int) -> Brief:
    """Return the order from a call's parameters, its source and the request, in this order.

    The call's parameters win; the request only fills in missing ones.
    """
    request = words(parameters, "request")
    said = asked.read(request)
    text = source.text
    thin = source.kind == "topic" or (source.kind == "text" and len(text) <= THIN)
    about = words(parameters, "topic")
    about = "" if asked.refers(about, is_order=False) else about
    given = about or (text if thin else "")
    topic, in_topic = topic_of(given, said)
    named = plain(words(parameters, "title")) or in_topic.title or said.title
    parts = source.parts if text.strip() else [("", source.title or request)]
    return Brief(
        topic=topic or named or subject_of(source) or said.topic or "—",
        title=named[:TITLE_MOST],
        language=language_of(parameters, in_topic, said, request or given, text or source.title),
        count=count_of(parameters.get("slides"), in_topic.count or said.count),
        audience=plain(words(parameters, "audience"))[:120] or in_topic.audience or said.audience,
        parts=parts,
        text="\n\n".join(part for _reference, part in parts),
        thin=thin,
        room=characters_left(context_tokens, text),
    )


def topic_of(given: str, said: Asked) -> tuple[str, Asked]:
    """Return the topic of a call, without words of an order, and the other parsed parts."""
    found = asked.read(given)
    same_language = found.language is not None and found.language == said.language
    if found.is_order or same_language:
        return found.topic, found
    return asked.capital(title(plain(given))), Asked("")


def subject_of(source: Source) -> str:
    """Return the subject of a document or a conversation: its heading, first question, or name."""
    if source.kind == "conversation":
        first = next((line for line in source.text.splitlines() if line.strip()), "")
        return asked.read(ROLE.sub("", first)).topic
    if heading := HEADING.search(source.text[:SEARCHED]):
        return title(heading["title"])
    if source.kind == "document":
        first = next((reference for reference, text in source.parts if text.strip()), "")
        if first.startswith(HEADED):
            return title(first.removeprefix(HEADED))
        name = re.sub(r"\.[a-z0-9]{1,5}$", "", source.title, flags=re.IGNORECASE)
        return asked.capital(title(re.sub(r"[_\s]+|(?<=[a-z])-(?=\w)", " ", name)))
    return title(source.title) or title(source.text, 60)


def language_of(
    parameters: Mapping[str, Any], in_topic: Asked, said: Asked, request: str, text: str
) -> Language:
    """Return the language of the slides: the call's, a named one, or the request's own."""
    return (
        named(words(parameters, "language"))
        or in_topic.language
        or said.language
        or detect(asked.lines_of(request) or text)
    )


def words(parameters: Mapping[str, Any], name: str) -> str:
    """Return a parameter that is text; "" where it is missing or something else."""
    value = parameters.get(name)
    return value if isinstance(value, str) else ""


def count_of(value: object, count: int) -> int:
    """Return the number of slides: the call's, else ``count``, within the allowed range."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        value = ""
    match = re.fullmatch(r"\d{1,4}(?:\.0+)?", str(value).strip()) if value != "" else None
    wanted = int(float(match[0])) if match else count or USUAL
    return max(FEWEST, min(MOST, wanted))


def characters_left(context_tokens: int, text: str) -> int:
    """Return the source's characters that fit a prompt: 2.5 per token, fewer without spaces."""
    share = 0.8 if UNSPACED.search(text) else 2.5
    return max(300, min(MOST_SOURCE, int((context_tokens - RESERVED) * share)))


def pieces(brief: Brief) -> list[str]:
    """Return the source in pieces of about 900 characters, cut between paragraphs or lines."""
    found: list[str] = []
    for _reference, text in brief.parts:
        piece = ""
        for line in lines_of(text):
            if piece and len(piece) + len(line) > PIECE:
                found.append(piece)
                piece = ""
            piece += line + "\n"
        found.append(piece)
    return [piece for piece in found if piece.strip()]


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text; a long one, as of a transcript, in several."""
    for line in text.split("\n"):
        for at in range(0, len(line) or 1, PIECE * 2):
            yield line[at : at + PIECE * 2]


def nearest(texts: Sequence[str], query: str) -> list[int]:
    """Return the places of ``texts``, those that share most words with ``query`` first."""
    wanted = terms(query)
    return sorted(range(len(texts)), key=lambda at: -len(wanted & terms(texts[at])))


def relevant(brief: Brief, query: str) -> str:
    """Return the parts of the source nearest to ``query``, in order, as much as fits a prompt."""
    parts = pieces(brief)
    chosen: list[int] = []
    used = 0
    for at in nearest(parts, query):
        if used + len(parts[at]) <= brief.room or not chosen:
            chosen.append(at)
            used += len(parts[at])
    return "\n".join(parts[at] for at in sorted(chosen))[: brief.room]


def digest(brief: Brief) -> str:
    """Return the first sentences of evenly spread pieces: an overview of the source."""
    parts = pieces(brief)
    step = max(1, len(parts) * 260 // brief.room)
    return "\n".join(piece.strip()[:260] for piece in parts[::step])[: brief.room]


@lru_cache(maxsize=2)
def source_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of the first 200,000 characters of a source."""
    return tuple(sentences(text[:SEARCHED]))


def nearest_sentences(brief: Brief, query: str) -> list[str]:
    """Return the source's own sentences, the nearest to ``query`` first."""
    found = source_sentences(brief.text)
    return [found[at] for at in nearest(found, query)]

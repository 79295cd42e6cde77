"""Compose a deck from a source: outline first, then each slide, then the figures."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from core.plugins.base import PluginError, PluginHost
from core.plugins.slides import content, exact, figures
from core.plugins.slides import deck as d
from core.plugins.slides.brief import Brief, source_sentences
from core.plugins.slides.content import Written
from core.plugins.slides.deck import Body, Deck, Slide, points_of
from core.plugins.slides.figures import Figure
from core.plugins.slides.fit import whole
from core.plugins.slides.layout import table_pages
from core.plugins.slides.outline import Outline, plan
from core.plugins.slides.texts import likeness

WITH_CONTENTS, WITH_SECTIONS, WITH_QUOTE = 8, 12, 8
NOTHING = "There is nothing to make slides of: give a topic, a text or a document."


@dataclass(frozen=True, slots=True)
class Made:
    """A deck, and the number of slides with source text in place of the model's."""

    deck: Deck
    own: int


@dataclass(frozen=True, slots=True)
class Budget:
    figures: Sequence[Figure]
    quote: tuple[str, str] | None
    contents: bool
    dividers: int
    slides: int


def budget(brief: Brief) -> Budget:
    """Distribute the pages: title and closing first, a third for figures, the rest for content.

    Reads the whole source: seconds for a book, so call it outside an event loop.
    """
    source_sentences(brief.text)
    left = brief.count - 2
    found = [] if brief.thin else figures.find(brief.parts)
    chosen: list[Figure] = []
    room = max(1, left // 3) if left >= 2 else 0
    for candidate in sorted(found, key=lambda figure: figure.chart is None):
        pages = 1 if candidate.chart else page_count(candidate)
        if pages <= room:
            chosen.append(candidate)
            room -= pages
            left -= pages
    quote = figures.quote(brief.text) if brief.count >= WITH_QUOTE and not brief.thin else None
    contents = brief.count >= WITH_CONTENTS
    dividers = 3 if brief.count >= WITH_SECTIONS else 0
    left -= bool(quote) + contents + dividers
    return Budget(chosen, quote, contents, dividers, max(1, left))


def page_count(figure: Figure) -> int:
    return len(list(table_pages(d.TableSlide("", figure.header, figure.rows))))


async def make(brief: Brief, host: PluginHost) -> Made:
    """Return the deck. Raises PluginError without any content, Cancelled at any step."""
    if not any(letter.isalnum() for letter in brief.text):
        raise PluginError(NOTHING)
    await host.progress("Planning the slides", 3)
    shares = await asyncio.to_thread(budget, brief)
    outline = await plan(brief, shares.slides, host)
    titles = [(name, section.title) for section in outline.sections for name in section.slides]
    steps = len(titles) + len(shares.figures) + 1
    written = Written()
    bodies: list[Body] = []
    for at, (name, section) in enumerate(titles, start=1):
        await host.progress(f"Writing slide {at} of {steps}", percent(at, steps))
        made = await content.slide(name, section, brief, written, host)
        if made is not None:
            bodies.append(made)
    for at, figure in enumerate(shares.figures, start=len(titles) + 1):
        await host.progress(f"Writing slide {at} of {steps}", percent(at, steps))
        before, section = home(figure, bodies)
        bodies.insert(before, await content.figure(figure, section, brief, host))
    is_topic = brief.thin and len(source_sentences(brief.text)) < 2
    said_one_thing = len(bodies) < 2 <= len(titles) == written.own  # such as that it refuses
    if not bodies or (is_topic and said_one_thing):
        raise PluginError(
            "The model gave nothing that could stand on a slide. Try again, or give it a text."
        )
    await host.progress(f"Writing slide {steps} of {steps}", percent(steps, steps))
    first = [found[0] for body in bodies if (found := points_of(body))]
    last = await content.closing(brief, first, host)
    slides = ordered(outline, shares, bodies, brief, last)
    deck = Deck(outline.title, brief.language.tag, slides)
    return Made(await asyncio.to_thread(exact.of, deck, brief.count), written.own)


def percent(at: int, of: int) -> float:
    """Return the progress while slides are written: 8 to 90."""
    return round(8 + 82 * (at - 1) / max(1, of), 1)


def home(figure: Figure, bodies: Sequence[Body]) -> tuple[int, str]:
    """Return the place of a figure: after the nearest slide, and its section."""
    about = f"{figure.heading} {figure.context}"
    best, score = len(bodies), 0.0
    for at, body in enumerate(bodies, start=1):
        if isinstance(body, d.BulletsSlide | d.ColumnsSlide):
            near = likeness(f"{body.title} {' '.join(map(whole, points_of(body)))}", about)
            if near > score:
                best, score = at, near
    return best, bodies[best - 1].section if bodies else ""


def ordered(
    outline: Outline, shares: Budget, bodies: Sequence[Body], brief: Brief, last: d.ClosingSlide
) -> list[Slide]:
    """Return all slides in order: title, contents, sections, quote, closing."""
    names = list(dict.fromkeys(body.section for body in bodies if body.section))
    slides: list[Slide] = [d.TitleSlide(outline.title, outline.subtitle, outline.subtitle)]
    if shares.contents and len(names) >= 2:
        slides.append(d.ContentsSlide(brief.language.contents, names))
    divided = 2 <= len(names) <= shares.dividers
    current = ""
    for body in bodies:
        if divided and body.section and body.section != current:
            current = body.section
            slides.append(d.SectionSlide(current, names.index(current) + 1))
        slides.append(body)
    if shares.quote is not None:
        slides.append(d.QuoteSlide(*shares.quote))
    return [*slides, last]

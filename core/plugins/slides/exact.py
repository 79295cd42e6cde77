"""Adjust a deck to the requested number of pages, as far as its content allows."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from core.plugins.slides import deck as d
from core.plugins.slides.deck import Body, Deck, Slide, points_of
from core.plugins.slides.layout import drafts_of

LEAST_POINTS = 2
Change = Callable[[list[Slide]], list[Slide] | None]


def of(deck: Deck, count: int) -> Deck:
    """Return ``deck`` with ``count`` pages; fewer when nothing is left to divide."""
    slides = list(deck.slides)
    for change, is_due in ((less, -1), (more, 1)):
        while (pages_of(slides) < count) - (pages_of(slides) > count) == is_due:
            changed = change(slides)
            if changed is None:
                break
            slides = changed
    return replace(deck, slides=slides)


def pages_of(slides: Sequence[Slide]) -> int:
    return sum(len(drafts_of(slide)) for slide in slides)


def less(slides: list[Slide]) -> list[Slide] | None:
    """Return the slides with a page less: redundant ones first. None: not possible."""
    for kind in (d.QuoteSlide, d.ContentsSlide, d.SectionSlide):
        if any(isinstance(slide, kind) for slide in slides):
            return [slide for slide in slides if not isinstance(slide, kind)]
    for at in reversed(range(len(slides))):
        shorter = shortened(slides[at])
        if shorter is not None:
            return [*slides[:at], shorter, *slides[at + 1 :]]
    bodies = [at for at, slide in enumerate(slides) if isinstance(slide, Body)]
    plain = [at for at in bodies if isinstance(slides[at], d.BulletsSlide)]
    if len(bodies) < LEAST_POINTS:
        return None
    out = (plain or bodies)[-1]
    return [*slides[:out], *slides[out + 1 :]]


def shortened(slide: Slide) -> Slide | None:
    """Return a slide of several pages with its last point left out; None for any other."""
    if not isinstance(slide, d.BulletsSlide | d.ClosingSlide) or len(slide.points) < LEAST_POINTS:
        return None
    return replace(slide, points=slide.points[:-1]) if len(drafts_of(slide)) > 1 else None


def more(slides: list[Slide]) -> list[Slide] | None:
    """Return the slides with the one of the most points divided. None: none has two points."""
    kinds = d.BulletsSlide | d.ColumnsSlide
    candidates = [at for at, slide in enumerate(slides) if isinstance(slide, kinds)]
    if not candidates:
        return None
    longest = max(candidates, key=lambda at: len(points_of(slides[at])))
    halves = divided(slides[longest])
    return halves and [*slides[:longest], *halves, *slides[longest + 1 :]]


def divided(slide: Slide) -> list[Slide] | None:
    """Return a slide as two, each with half of its points; None where it has only one."""
    if isinstance(slide, d.ColumnsSlide):
        sides = zip(slide.headings, slide.columns, strict=True)
        return [
            d.BulletsSlide(f"{slide.title}: {name}", points, slide.section, slide.notes)
            for name, points in sides
        ]
    if not isinstance(slide, d.BulletsSlide) or len(slide.points) < LEAST_POINTS:
        return None
    half = (len(slide.points) + 1) // 2
    first, last = slide.points[:half], slide.points[half:]
    return [
        replace(slide, points=first),
        replace(slide, title=title_of_rest(slide, last[0].lead), points=last),
    ]


def title_of_rest(slide: d.BulletsSlide, lead: str) -> str:
    """Return the title of the second half: its first point's lead says what it is about."""
    return f"{slide.title}: {lead}" if lead and len(slide.title) + len(lead) < 70 else slide.title

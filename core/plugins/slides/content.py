"""The content of each slide: the model's points, repaired, or the source's own sentences."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from core.plugins.base import PluginError, PluginHost
from core.plugins.slides.answers import (
    LABEL_MOST,
    SENTENCE_MOST,
    array,
    ask,
    heading_of,
    invented,
    lead_of,
    numbers_of_source,
    points_of,
    record,
    string,
    text_of,
    texts_of,
)
from core.plugins.slides.brief import Brief, nearest_sentences, relevant
from core.plugins.slides.deck import (
    BulletsSlide,
    ChartSlide,
    ClosingSlide,
    ColumnsSlide,
    Point,
    TableSlide,
)
from core.plugins.slides.figures import Figure
from core.plugins.slides.fit import whole
from core.plugins.slides.outline import system
from core.plugins.slides.texts import cut, is_repeat, sentences, tidy

FEWEST, MOST = 2, 5
NOTES_LIMIT = 900
SENTENCE, LABEL = string(SENTENCE_MOST), string(LABEL_MOST)
SLIDE = record(
    points=array(record(label=LABEL, text=SENTENCE), 3, MOST),
    notes=string(420),
    layout={"enum": ["list", "comparison"]},
    left=LABEL,
    right=LABEL,
)
FIGURE = record(title=string(70), points=array(SENTENCE, 1, 2))
CLOSING = record(points=array(SENTENCE, 3, 3))


@dataclass
class Written:
    """The points so far, and the number of slides with source text in place of the model's."""

    said: list[str] = field(default_factory=list)
    own: int = 0

    def add(self, points: Sequence[Point]) -> None:
        """Record ``points``, so that no later slide repeats them."""
        self.said += [whole(point) for point in points]


async def slide(
    name: str, section: str, brief: Brief, written: Written, host: PluginHost
) -> BulletsSlide | ColumnsSlide | None:
    """Return one slide; ``None`` when neither the model nor the source has content for it."""
    source = "" if brief.thin else f"\n\nSource:\n{relevant(brief, f'{name} {section}')}"
    prompt = (
        f"Presentation: {brief.topic}\nSlide: {name}\n"
        f"Write this slide in {brief.language.name}: 3 to {MOST} points, each with a label of one "
        "to three words and one short sentence with a fact; then what the speaker says. "
        'Layout "comparison" only where two sides face each other: "left" and "right" name them, '
        f"the first half of the points is the left one's.{source}"
    )
    answer = await ask(host, prompt, SLIDE, system=system(brief), max_tokens=900)
    numbers = None if brief.thin else numbers_of_source(brief.text)
    points = points_of(answer.get("points"), heading=name, earlier=written.said, numbers=numbers)[
        :MOST
    ]
    if len(points) < FEWEST:
        written.own += 1
        points = await topped_up(points, name, brief, written, host)
    if not points:
        return None
    written.add(points)
    notes = text_of(answer.get("notes"), NOTES_LIMIT) or " ".join(map(whole, points))
    left, right = (lead_of(answer.get(side), "", [name]) for side in ("left", "right"))
    sides = (left, lead_of(right, "", [left]))
    named = all(sides)
    compared = answer.get("layout") == "comparison" and named
    if compared and len(points) >= 4:
        half = (len(points) + 1) // 2
        return ColumnsSlide(name, sides, (points[:half], points[half:]), section, notes)
    return BulletsSlide(name, points, section, notes)


async def topped_up(
    points: list[Point], name: str, brief: Brief, written: Written, host: PluginHost
) -> list[Point]:
    """Add the source's sentences to too few points; for a mere topic ask a simpler question."""
    lines = (
        nearest_sentences(brief, name) if not brief.thin else await plain_facts(name, brief, host)
    )
    said = [*written.said, *map(whole, points)]
    for line in lines:
        if len(points) >= FEWEST + 1:
            break
        if not is_repeat(line, said):
            said.append(line)
            points.append(Point(tidy(line, 200)))
    return points


async def plain_facts(name: str, brief: Brief, host: PluginHost) -> list[str]:
    """Ask for a few sentences about a topic, without a schema."""
    prompt = f"Write three short sentences in {brief.language.name} about: {name} ({brief.topic})."
    try:
        answer = await host.ask(prompt, system=system(brief), max_tokens=220)
    except PluginError:
        return []
    found = [text_of(line, 200) for line in sentences(answer)]
    return [line for line in found if line][: FEWEST + 1]


async def figure(
    figure: Figure, section: str, brief: Brief, host: PluginHost
) -> ChartSlide | TableSlide:
    """Return a chart or table of the source, with a title and its key message."""
    rows = "\n".join(" | ".join(row) for row in (figure.header, *figure.rows[:12]))
    prompt = (
        f"Presentation: {brief.topic}\nNumbers on this slide:\n{rows}\n{figure.context[:600]}\n"
        f"Give, in {brief.language.name}, a short title for the slide and one or two sentences "
        "about what the numbers show."
    )
    answer = await ask(host, prompt, FIGURE, system=system(brief), max_tokens=300)
    known = numbers_of_source(brief.text)
    lines = texts_of(answer.get("points"), 2)
    points = points_of(lines, heading=figure.heading, earlier=(), numbers=known)
    first = next(iter(sentences(figure.context)), "")
    named = heading_of(answer.get("title"), 70)
    if invented(named, known):
        named = ""
    name = figure.heading or named or cut(first, 70) or section or brief.topic
    notes = " ".join(map(whole, points)) or first
    if figure.chart is not None:
        return ChartSlide(name, figure.chart, points, section, notes)
    return TableSlide(name, figure.header, figure.rows, section, notes)


async def closing(brief: Brief, points: Sequence[Point], host: PluginHost) -> ClosingSlide:
    """Return the conclusions: the model's three sentences, else the first points of the deck."""
    said = "\n".join(cut(whole(point), 160) for point in points[:12])
    prompt = (
        f"Presentation: {brief.topic}\nIt said:\n{said}\n"
        f"Write, in {brief.language.name}, the three sentences that the audience should remember."
    )
    answer = await ask(host, prompt, CLOSING, system=system(brief), max_tokens=300)
    numbers = None if brief.thin else numbers_of_source(brief.text)
    lines = texts_of(answer.get("points"), 3)
    found = points_of(lines, heading=brief.topic, earlier=(), numbers=numbers)
    chosen = found if len(found) >= FEWEST else list(points[:3])
    return ClosingSlide(brief.language.in_short, chosen, " ".join(map(whole, chosen)))

"""Lists of points that fit a box: the largest size that does, or more boxes."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.plugins.slides.deck import Point
from core.plugins.slides.measure import clip, height, pitch, wrap


@dataclass(frozen=True, slots=True)
class Fitted:
    """Points with the size (points), pitch and gap at which they fit."""

    points: Sequence[Point]
    size: float
    pitch: float
    gap: float


def fitted(points: Sequence[Point], size: float) -> Fitted:
    """Return ``points`` at a size that fits."""
    line = pitch_of(points, size)
    return Fitted(points, size, line, gap_of(line))


def whole(point: Point) -> str:
    return " ".join(filter(None, (point.lead, point.text)))


def pitch_of(points: Sequence[Point], size: float) -> float:
    """Return one pitch for all lines of a box: the tallest script's."""
    return pitch("".join(whole(point) for point in points), size)


def points_height(points: Sequence[Point], size: float, limit: float) -> float:
    """Return how high ``points`` are in lines of ``limit`` points, with gaps of half a line."""
    line = pitch_of(points, size)
    lines = sum(len(wrap(whole(point), size, limit, bold=bool(point.lead))) for point in points)
    return lines * line + gap_of(line) * max(0, len(points) - 1)


def gap_of(line: float) -> float:
    return round(line * 0.5, 1)


def fit(
    points: Sequence[Point], width: float, room: float, sizes: Sequence[float]
) -> Fitted | None:
    """Return ``points`` at the first of ``sizes`` that fits; ``None`` where none does."""
    for size in sizes:
        if points_height(points, size, width) <= room:
            return fitted(points, size)
    return None


def spread(
    points: Sequence[Point], width: float, room: float, sizes: Sequence[float]
) -> list[Fitted]:
    """Return ``points`` in as many boxes as they need; at least one."""
    if (found := fit(points, width, room, sizes)) is not None:
        return [found]
    smallest = sizes[-1]
    groups: list[list[Point]] = [[]]
    for point in points:
        for piece in pieces(point, width, room, smallest):
            if groups[-1] and points_height([*groups[-1], piece], smallest, width) > room:
                groups.append([])
            groups[-1].append(piece)
    return [
        fit(group, width, room, sizes) or clipped(group, width, room, smallest) for group in groups
    ]


def pieces(point: Point, width: float, room: float, size: float) -> list[Point]:
    """Return ``point``, cut at lines where it is higher than a whole box."""
    if points_height([point], size, width) <= room:
        return [point]
    most = max(1, int(room * 0.9 // pitch_of([point], size)))
    lines = wrap(whole(point), size, width, bold=True)
    return [Point(joined(lines[at : at + most])) for at in range(0, len(lines), most)]


def joined(lines: Sequence[str]) -> str:
    """Return wrapped lines as one text again."""
    return " ".join(lines) if any(" " in line for line in lines) else "".join(lines)


def clipped(points: Sequence[Point], width: float, room: float, size: float) -> Fitted:
    """Return the last resort: ``points`` cut to the box."""
    line = pitch_of(points, size)
    most = max(1, int(room // (line + gap_of(line))) // max(1, len(points)))
    kept = [Point(clip(whole(point), size, width, most, bold=True)) for point in points]
    return fitted(kept, size)


def heading(
    text: str, width: float, room: float, sizes: Sequence[float]
) -> tuple[str, float, float]:
    """Fit a bold heading into a box in points; return its text (cut if need be), size and pitch."""
    for size in sizes:
        if height(text, size, width, bold=True) <= room:
            return text, size, pitch(text, size)
    size = sizes[-1]
    lines = max(1, int(room // pitch(text, size)))
    return clip(text, size, width, lines, bold=True), size, pitch(text, size)

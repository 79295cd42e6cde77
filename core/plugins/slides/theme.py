"""The look: a grid of 960 × 540 points, colours, and the decorative tiles."""

from dataclasses import dataclass, replace
from typing import Literal

WIDTH, HEIGHT = 960.0, 540.0
MARGIN = 60.0
INNER = WIDTH - 2 * MARGIN
TILE = 135.0

# Names of theme colours (the slots of a .pptx theme) and their values.
COLOURS = {
    "ink": "1B2430",
    "white": "FFFFFF",
    "night": "123340",
    "paper": "F8F5EF",
    "coral": "E2583E",
    "teal": "1F7A8C",
    "mustard": "F0B23C",
    "sage": "7FA88B",
    "plum": "7D4E74",
    "mist": "B9D3D8",
    "muted": "5C6672",
    "line": "DDD7CB",
}
CHART_COLOURS = ("teal", "coral", "mustard", "plum", "sage", "mist")
# White numbers stand on the parts of a pie.
PIE_COLOURS = ("teal", "coral", "plum", "night", "sage", "mustard")
LATIN = "Arial"
EAST_ASIAN = {
    "ja": "Yu Gothic",
    "ko": "Malgun Gothic",
    "zh-TW": "Microsoft JhengHei",
    "zh": "Microsoft YaHei",
}

Layout = Literal["title", "contents", "section", "content", "figure", "quote", "closing"]
LAYOUTS: tuple[Layout, ...] = (
    "title",
    "contents",
    "section",
    "content",
    "figure",
    "quote",
    "closing",
)
# The placeholder that a layout has beside its title.
BODIES: dict[Layout, str] = {
    "title": "subTitle",
    "contents": "body",
    "content": "body",
    "quote": "body",
    "closing": "body",
}
DARK: frozenset[Layout] = frozenset({"title", "section", "quote", "closing"})


@dataclass(frozen=True, slots=True)
class Shape:
    """A decorative shape. ``quarter``: a quarter of a disc, its corner turned clockwise from the
    bottom right by ``turn`` × 90°.
    """

    form: Literal["rect", "disc", "quarter"]
    x: float
    y: float
    w: float
    h: float
    colour: str
    turn: int = 0


def mirror_shape(shape: Shape) -> Shape:
    """Return ``shape`` on the other side of the page, for scripts from right to left."""
    turn = shape.turn ^ 1 if shape.form == "quarter" else shape.turn
    return replace(shape, x=WIDTH - shape.x - shape.w, turn=turn)


@dataclass(frozen=True, slots=True)
class Foot:
    """Where the footer and the page number stand; no footer where ``w`` is 0."""

    x: float
    w: float
    number_x: float
    colour: str


FOOT_Y, FOOT_HEIGHT, FOOT_SIZE, NUMBER_WIDTH = 503.0, 16.0, 10.0, 50.0


def foot(layout: Layout) -> Foot | None:
    """Return the foot of a layout; the title has none."""
    match layout:
        case "title":
            return None
        case "section" | "closing":
            return Foot(MARGIN + NUMBER_WIDTH, 560, MARGIN, "mist")
        case "contents":
            return Foot(360, 400, WIDTH - MARGIN - NUMBER_WIDTH, "muted")
        case "quote":
            return Foot(92, 560, WIDTH - MARGIN - NUMBER_WIDTH, "mist")
    return Foot(MARGIN, 560, WIDTH - MARGIN - NUMBER_WIDTH, "muted")


def background(layout: Layout) -> str:
    """Return the name of the colour behind everything."""
    if layout == "section":
        return "teal"
    return "night" if layout in DARK else "paper"


def decor(layout: Layout) -> list[Shape]:
    """Return the decoration of a layout, from the back to the front."""
    match layout:
        case "title":
            return tiles(TITLE_TILES, WIDTH - 3 * TILE)
        case "section":
            return tiles(SECTION_TILES, WIDTH - TILE)
        case "closing":
            return tiles(CLOSING_TILES, WIDTH - TILE)
        case "contents":
            return [Shape("rect", 0, 0, 300, HEIGHT, "night"), *corner(0, HEIGHT - 2 * TILE / 1.5)]
        case "quote":
            return [Shape("rect", 0, 0, 12, HEIGHT, "coral")]
    return [Shape("rect", MARGIN, 0, 56, 9, "coral")]


def corner(x: float, y: float) -> list[Shape]:
    """Return a small group of tiles in the corner of a dark panel."""
    side = TILE / 1.5
    return [
        Shape("quarter", x, y + side, side, side, "mustard", 1),
        Shape("quarter", x + side, y + side, side, side, "coral", 0),
        Shape("disc", x, y, side, side, "teal"),
    ]


# Rows from above, one letter a tile: form, colour, turn. ".." is an empty one.
Tile = tuple[Literal["rect", "disc", "quarter"], str, int] | None
TITLE_TILES: tuple[tuple[Tile, ...], ...] = (
    (None, ("quarter", "teal", 0), ("disc", "mustard", 0)),
    (("quarter", "mist", 1), ("rect", "coral", 0), ("quarter", "sage", 2)),
    (None, ("disc", "mist", 0), ("quarter", "coral", 3)),
    (("quarter", "mustard", 3), ("quarter", "plum", 1), ("rect", "teal", 0)),
)
SECTION_TILES: tuple[tuple[Tile, ...], ...] = (
    (("quarter", "night", 0),),
    (("disc", "mustard", 0),),
    (("quarter", "coral", 2),),
    (("rect", "night", 0),),
)
CLOSING_TILES: tuple[tuple[Tile, ...], ...] = (
    (("rect", "teal", 0),),
    (("quarter", "coral", 1),),
    (("quarter", "mustard", 3),),
    (("disc", "mist", 0),),
)


def tiles(rows: tuple[tuple[Tile, ...], ...], left: float) -> list[Shape]:
    """Return the shapes of a grid of tiles whose left edge is ``left``. A disc stands on a
    square.
    """
    shapes: list[Shape] = []
    for down, row in enumerate(rows):
        for across, tile in enumerate(row):
            if tile is not None:
                form, colour, turn = tile
                x, y = left + across * TILE, down * TILE
                shapes.append(Shape(form, x, y, TILE, TILE, colour, turn))
    return shapes


def east_asian(language: str) -> str:
    """Return the face for East Asian signs in a deck of ``language``."""
    return EAST_ASIAN.get(language) or EAST_ASIAN.get(language[:2], EAST_ASIAN["zh"])

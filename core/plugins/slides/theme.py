"""The look: a grid of 960 × 540 points, colours, and the decorative tiles."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

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
# The usual faces of Windows, macOS and Linux.
EAST_ASIAN = {
    "ja": ("Yu Gothic", "Hiragino Sans", "Noto Sans CJK JP"),
    "ko": ("Malgun Gothic", "Apple SD Gothic Neo", "Noto Sans CJK KR"),
    "zh-TW": ("Microsoft JhengHei", "PingFang TC", "Noto Sans CJK TC"),
    "zh": ("Microsoft YaHei", "PingFang SC", "Noto Sans CJK SC"),
}

Layout = Literal["title", "contents", "section", "content", "figure", "quote", "closing"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
Box = tuple[float, float, float, float]
# The boxes (x, y, width, height) of a layout's title and of its body.
BOXES: dict[Layout, tuple[Box, ...]] = {
    "title": ((MARGIN, 96, 465, 240), (MARGIN, 356, 465, 88)),
    "contents": ((44, 96, 224, 170), (360, 70, 500, 404)),
    "section": ((MARGIN, 240, 705, 160),),
    "content": ((MARGIN, 52, INNER, 74), (MARGIN, 138, INNER, 338)),
    "figure": ((MARGIN, 52, INNER, 74),),
    "quote": ((92, 126, 744, 280), (92, 424, 744, 32)),
    "closing": ((MARGIN, 84, 705, 104), (MARGIN, 206, 705, 256)),
}
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
    """A decorative shape. ``quarter``: of a disc, turned clockwise by ``turn`` × 90°."""

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
    """Where the footer (of width ``w``) and the page number stand."""

    x: float
    w: float
    number_x: float
    colour: str


FOOT_Y, FOOT_HEIGHT, FOOT_SIZE, NUMBER_WIDTH = 503.0, 16.0, 10.0, 50.0


def foot(layout: Layout) -> Foot | None:
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


# Rows of tiles from above: form, colour, turn; None is an empty one.
Tile = tuple[Literal["rect", "disc", "quarter"], str, int] | None
TILES: dict[Layout, tuple[tuple[Tile, ...], ...]] = {
    "title": (
        (None, ("quarter", "teal", 0), ("disc", "mustard", 0)),
        (("quarter", "mist", 1), ("rect", "coral", 0), ("quarter", "sage", 2)),
        (None, ("disc", "mist", 0), ("quarter", "coral", 3)),
        (("quarter", "mustard", 3), ("quarter", "plum", 1), ("rect", "teal", 0)),
    ),
    "section": (
        (("quarter", "night", 0),),
        (("disc", "mustard", 0),),
        (("quarter", "coral", 2),),
        (("rect", "night", 0),),
    ),
    "closing": (
        (("rect", "teal", 0),),
        (("quarter", "coral", 1),),
        (("quarter", "mustard", 3),),
        (("disc", "mist", 0),),
    ),
}


def decor(layout: Layout, *, rtl: bool) -> list[Shape]:
    """Return the decoration of a layout, from the back to the front."""
    match layout:
        case "title" | "section" | "closing":
            shapes = tiles(TILES[layout])
        case "contents":
            shapes = [
                Shape("rect", 0, 0, 300, HEIGHT, "night"),
                *corner(),
            ]
        case "quote":
            shapes = [Shape("rect", 0, 0, 12, HEIGHT, "coral")]
        case _:
            shapes = [Shape("rect", MARGIN, 0, 56, 9, "coral")]
    return [mirror_shape(shape) for shape in shapes] if rtl else shapes


def corner() -> list[Shape]:
    """Return a small group of tiles in the lower left corner."""
    side = TILE / 1.5
    top = HEIGHT - 2 * side
    return [
        Shape("quarter", 0, top + side, side, side, "mustard", 1),
        Shape("quarter", side, top + side, side, side, "coral", 0),
        Shape("disc", 0, top, side, side, "teal"),
    ]


def tiles(rows: tuple[tuple[Tile, ...], ...]) -> list[Shape]:
    """Return the shapes of a grid of tiles on the right edge of a page."""
    shapes: list[Shape] = []
    for down, row in enumerate(rows):
        for across, tile in enumerate(row):
            if tile is not None:
                form, colour, turn = tile
                x, y = WIDTH - (len(row) - across) * TILE, down * TILE
                shapes.append(Shape(form, x, y, TILE, TILE, colour, turn))
    return shapes


def east_asian(language: str) -> tuple[str, ...]:
    """Return the faces for East Asian signs in a deck of ``language``, the preferred one first."""
    return EAST_ASIAN.get(language) or EAST_ASIAN.get(language[:2], EAST_ASIAN["zh"])

"""Pages as one HTML file without external requests; its one script is allowed by its hash."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from core.plugins import slide_show
from core.plugins.html_slides.drawing import svg
from core.plugins.slides.deck import Point
from core.plugins.slides.page import Element, Grid, Page, Plot, Text, foot_texts
from core.plugins.slides.texts import writable
from core.plugins.slides.theme import COLOURS, Shape, background, decor, east_asian

ANCHORS = {"top": "flex-start", "middle": "center", "bottom": "flex-end"}
CORNERS = ("100% 0 0 0", "0 100% 0 0", "0 0 100% 0", "0 0 0 100%")
LATIN = 'Arial,"Helvetica Neue","Liberation Sans"'


def document(pages: Sequence[Page], *, title: str, language: str) -> str:
    """Return the whole file. It scrolls without its script; with it, it is a slide show."""
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    rtl = any(page.rtl for page in pages)
    body = "\n".join(section(page, len(pages)) for page in pages)
    return f"""<!doctype html>
<html lang="{language}" dir="{"rtl" if rtl else "ltr"}">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{slide_show.policy()}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{words(title)}</title>
<style>:root{{--faces:{faces(language, rtl=rtl)}}}
{style}</style>
<main>
{body}
</main>
<nav hidden><button type="button" data-go="-1" aria-label="Previous slide">‹</button>
<output aria-live="polite"></output>
<button type="button" data-go="1" aria-label="Next slide">›</button></nav>
<script>{slide_show.script()}</script>
</html>
"""


def faces(language: str, *, rtl: bool) -> str:
    """Return the fonts to try: Latin ones first, then those of the deck's own script."""
    own = ",".join(f'"{face}"' for face in east_asian(language))
    right = '"Noto Sans Arabic",' if rtl else ""
    return f'{LATIN},{right}"DejaVu Sans",{own},sans-serif'


def words(text: str) -> str:
    """Return text that HTML can read as nothing but text."""
    return escape(writable(text).replace("\n", " "))


def section(page: Page, count: int) -> str:
    drawn = "".join(shape_html(shape) for shape in decor(page.layout, rtl=page.rtl))
    drawn += "".join(element_html(element, page) for element in page.elements)
    notes = f'<aside class="notes">{words(page.notes)}</aside>' if page.notes else ""
    return (
        f'<section class="slide" aria-roledescription="slide" '
        f'aria-label="{page.number} / {count}: {words(page.title)}">'
        f'<div class="page" style="background:#{COLOURS[background(page.layout)]}">'
        f"{drawn}{foot_html(page)}</div>{notes}</section>"
    )


def position(x: float, y: float, w: float, h: float) -> str:
    """Return the position of a box, in units of the page."""
    return f"left:{unit(x)};top:{unit(y)};width:{unit(w)};height:{unit(h)}"


def unit(points: float) -> str:
    """Return a length that grows with the page."""
    return f"calc({points:g}*var(--u))"


def shape_html(shape: Shape) -> str:
    """Return a decorative shape, hidden from screen readers."""
    corners = {"rect": "0", "disc": "50%", "quarter": CORNERS[shape.turn]}[shape.form]
    return (
        f'<i aria-hidden="true" style="{position(shape.x, shape.y, shape.w, shape.h)};'
        f'background:#{COLOURS[shape.colour]};border-radius:{corners}"></i>'
    )


def element_html(element: Element, page: Page) -> str:
    match element:
        case Text():
            return text_html(element, page)
        case Shape():
            return shape_html(element)
        case Plot():
            where = position(element.x, element.y, element.w, element.h)
            return f'<figure style="{where}">{svg(element, rtl=page.rtl)}</figure>'
    return grid_html(element)


def text_html(text: Text, page: Page) -> str:
    """Return a box of text as the element it is: a heading, a list, a paragraph."""
    style = f"{style_of(text)};justify-content:{ANCHORS[text.anchor]}"
    if text.mark:
        tag, start = "ul", ""
        if text.mark == "number":
            tag, start = "ol", f' start="{text.first}"'
            style += f";counter-reset:point {text.first - 1}"
        gaps = f"--gap:{unit(text.gap)};--indent:{unit(text.indent)}"
        items = "".join(f"<li>{point_html(point)}</li>" for point in text.paragraphs)
        return f'<{tag}{start} class="t" style="{style};{gaps}">{items}</{tag}>'
    tag = "p"
    if text.role == "title":
        tag = "h1" if page.layout == "title" else "h2"
    inner = " ".join(point_html(point) for point in text.paragraphs)
    return f'<{tag} class="t" style="{style}"><span>{inner}</span></{tag}>'


def style_of(text: Text) -> str:
    """Return the place and the look of a box of text."""
    return (
        f"{position(text.x, text.y, text.w, text.h)};font-size:{unit(text.size)};"
        f"line-height:{unit(text.pitch)};color:#{COLOURS[text.colour]};text-align:{text.align}"
        f"{';font-weight:700' if text.bold else ''}"
    )


def point_html(point: Point) -> str:
    lead = f"<b>{words(point.lead)}</b>" if point.lead else ""
    return " ".join(filter(None, (lead, words(point.text))))


def grid_html(grid: Grid) -> str:
    rows = "".join(
        row_html(row, grid, at, high)
        for at, (row, high) in enumerate(zip(grid.rows, grid.heights, strict=True))
    )
    columns = "".join(f'<col style="width:{unit(wide)}">' for wide in grid.widths)
    where = position(grid.x, grid.y, sum(grid.widths), sum(grid.heights))
    return (
        f'<table aria-label="{words(grid.alt)}" style="{where};font-size:{unit(grid.size)};'
        f'line-height:{unit(grid.pitch)}"><colgroup>{columns}</colgroup>{rows}</table>'
    )


def row_html(row: Sequence[str], grid: Grid, at: int, high: float) -> str:
    """Return one row; the first is a header where the table has one."""
    header = grid.named and at == 0
    tag = "th" if header else "td"
    cells = ""
    for cell, numeric in zip(row, grid.numeric, strict=True):
        # A number runs from left to right in every script, its sign in front.
        is_number = numeric and not header
        inner = f'<bdi dir="ltr">{words(cell)}</bdi>' if is_number else words(cell)
        cells += f"<{tag}{' class=n' if numeric else ''}>{inner}</{tag}>"
    return f'<tr style="height:{unit(high)}">{cells}</tr>'


def foot_html(page: Page) -> str:
    texts = foot_texts(page.layout, page.footer, str(page.number), rtl=page.rtl)
    return "".join(
        f'<small style="{style_of(text)}">{words(text.paragraphs[0].text)}</small>'
        for text in texts
    )

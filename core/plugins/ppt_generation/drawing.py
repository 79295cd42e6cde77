"""Shapes and text of a page as DrawingML (ECMA-376 part 1, chapters 19 to 21)."""

from xml.sax.saxutils import escape, quoteattr

from pptx.util import Emu, Length

from core.plugins.slides.deck import Point
from core.plugins.slides.page import Text
from core.plugins.slides.texts import writable
from core.plugins.slides.theme import COLOURS, Shape

NAMESPACES = (
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main"'
)
EMU = 12700
SLOTS = {
    "ink": "tx1",
    "white": "bg1",
    "night": "tx2",
    "paper": "bg2",
    "coral": "accent1",
    "teal": "accent2",
    "mustard": "accent3",
    "plum": "accent4",
    "sage": "accent5",
    "mist": "accent6",
}
SQUARE = (
    '<a:buClr><a:schemeClr val="accent1"/></a:buClr><a:buSzPct val="80000"/>'
    '<a:buFont typeface="Arial"/><a:buChar char="■"/>'
)
FORMS = {"rect": "rect", "disc": "ellipse", "quarter": "pieWedge"}
DECORATIVE = (
    '<a:extLst><a:ext uri="{C183D7F6-B498-43B3-948B-1728B52AA6E4}"><adec:decorative '
    'xmlns:adec="http://schemas.microsoft.com/office/drawing/2017/decorative" val="1"/>'
    "</a:ext></a:extLst>"
)


def emu(points: float) -> Length:
    """Convert points to English Metric Units, the unit of DrawingML."""
    return Emu(round(points * EMU))


def fill(colour: str) -> str:
    """Return a solid fill with a colour of the theme."""
    if colour in SLOTS:
        return f'<a:solidFill><a:schemeClr val="{SLOTS[colour]}"/></a:solidFill>'
    return f'<a:solidFill><a:srgbClr val="{COLOURS[colour]}"/></a:solidFill>'


def frame(x: float, y: float, w: float, h: float, turn: int = 0) -> str:
    """Return a shape's position and size in DrawingML; ``turn`` is in quarter turns."""
    turned = f' rot="{turn * 5400000}"' if turn else ""
    return (
        f'<a:xfrm{turned}><a:off x="{emu(x)}" y="{emu(y)}"/>'
        f'<a:ext cx="{emu(w)}" cy="{emu(h)}"/></a:xfrm>'
    )


def shape_xml(shape: Shape, number: int) -> str:
    """Return a decorative shape, marked as such for screen readers."""
    return (
        f'<p:sp {NAMESPACES}><p:nvSpPr><p:cNvPr id="{number}" name="Decor {number}" descr="">'
        f'{DECORATIVE}</p:cNvPr><p:cNvSpPr/><p:nvPr userDrawn="1"/></p:nvSpPr><p:spPr>'
        f"{frame(shape.x, shape.y, shape.w, shape.h, shape.turn)}"
        f'<a:prstGeom prst="{FORMS[shape.form]}"><a:avLst/></a:prstGeom>{fill(shape.colour)}'
        "<a:ln><a:noFill/></a:ln></p:spPr></p:sp>"
    )


def placeholder(kind: str, index: int | None = None) -> str:
    """Return the mark that makes a box the slide's title, body, footer or number."""
    at = "" if index is None else f' idx="{index}"'
    return f'<p:ph type="{kind}"{at}/>'


def text_xml(text: Text, number: int, *, name: str, ph: str, language: str, rtl: bool) -> str:
    """Return a box of text. ``ph`` is :func:`placeholder` or "" for a plain box."""
    body = "".join(paragraph(point, text, language, rtl=rtl) for point in text.paragraphs)
    look = '<a:prstGeom prst="rect"><a:avLst/></a:prstGeom><a:noFill/>'
    return box_xml(text, number, name=name, ph=ph, look=look, body=body)


def box_xml(text: Text, number: int, *, name: str, ph: str, look: str, body: str) -> str:
    """Return a box without insets that never changes its text's size: it was measured."""
    kind = "" if ph else ' txBox="1"'
    anchor = {"top": "t", "middle": "ctr", "bottom": "b"}[text.anchor]
    return (
        f'<p:sp {NAMESPACES}><p:nvSpPr><p:cNvPr id="{number}" name={quoteattr(name)}/>'
        f"<p:cNvSpPr{kind}/><p:nvPr>{ph}</p:nvPr></p:nvSpPr>"
        f"<p:spPr>{frame(text.x, text.y, text.w, text.h)}{look}</p:spPr>"
        f'<p:txBody><a:bodyPr wrap="square" lIns="0" tIns="0" rIns="0" bIns="0" anchor="{anchor}" '
        f'rtlCol="0"><a:noAutofit/></a:bodyPr><a:lstStyle/>{body}</p:txBody></p:sp>'
    )


def paragraph(point: Point, text: Text, language: str, *, rtl: bool) -> str:
    """Return one paragraph of a box; its lead is bold."""
    after = text.gap if point is not text.paragraphs[-1] else 0
    runs = ""
    if point.lead:
        tail = " " if point.text else ""
        runs = run(point.lead + tail, text, language, bold=True)
    if point.text:
        runs += run(point.text, text, language, bold=text.bold)
    line = f'<a:lnSpc><a:spcPts val="{round(text.pitch * 100)}"/></a:lnSpc>'
    return (
        f'<a:p><a:pPr {alignment(text.align, rtl=rtl)} marL="{emu(text.indent)}" '
        f'indent="{-emu(text.indent)}">{line}'
        f'<a:spcBef><a:spcPts val="0"/></a:spcBef><a:spcAft><a:spcPts val="{round(after * 100)}"/>'
        f"</a:spcAft>{mark(text)}</a:pPr>{runs}</a:p>"
    )


def alignment(align: str, *, rtl: bool, number: bool = False) -> str:
    """Return the attributes of the side that lines begin at; left and right are the page's own in
    DrawingML.

    A ``number`` runs from left to right in every script: its sign stands in front of it.
    """
    side = {"start": "r" if rtl else "l", "end": "l" if rtl else "r", "center": "ctr"}[align]
    return f'algn="{side}" rtl="{int(rtl and not number)}"'


def mark(text: Text) -> str:
    match text.mark:
        case "square":
            return SQUARE
        case "number":
            return (
                '<a:buClr><a:schemeClr val="accent1"/></a:buClr><a:buFont typeface="Arial"/>'
                f'<a:buAutoNum type="arabicPlain" startAt="{text.first}"/>'
            )
    return "<a:buNone/>"


def run(words: str, text: Text, language: str, *, bold: bool) -> str:
    content = escape(writable(words).replace("\n", " "))
    return (
        f'<a:r><a:rPr lang="{language}" sz="{round(text.size * 100)}" b="{int(bold)}" i="0" '
        f'dirty="0">{fill(text.colour)}<a:latin typeface="+mn-lt"/><a:ea typeface="+mn-ea"/>'
        f'<a:cs typeface="+mn-cs"/></a:rPr><a:t>{content}</a:t></a:r>'
    )


def field_xml(text: Text, number: int, kind: str, language: str, *, rtl: bool) -> str:
    """Return the footer of a slide (``kind`` "ftr") or its page number ("sldNum")."""
    words = run(text.paragraphs[0].text, text, language, bold=text.bold)
    name, index = f"Footer {number}", 11
    if kind == "sldNum":
        inner = words.removeprefix("<a:r>").removesuffix("</a:r>")
        words = (
            f'<a:fld id="{{B6F15528-21DE-4FAA-801E-634DDDAF4B2B}}" type="slidenum">{inner}</a:fld>'
        )
        name, index = f"Page number {number}", 12
    ph = f'<p:ph type="{kind}" sz="quarter" idx="{index}"/>'
    side = alignment(text.align, rtl=rtl)
    body = f"<a:p><a:pPr {side}><a:buNone/></a:pPr>{words}</a:p>"
    return box_xml(text, number, name=name, ph=ph, look="", body=body)

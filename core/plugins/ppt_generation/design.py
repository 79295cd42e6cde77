"""The theme, master and layouts that replace python-pptx's empty ones."""

import re

from pptx import Presentation
from pptx.opc.constants import RELATIONSHIP_TYPE
from pptx.oxml import parse_xml
from pptx.oxml.ns import qn
from pptx.presentation import Presentation as PresentationFile
from pptx.slide import SlideLayout, SlideMaster

from core.plugins.ppt_generation.drawing import (
    NAMESPACES,
    SLOTS,
    SQUARE,
    emu,
    field_xml,
    fill,
    placeholder,
    shape_xml,
    text_xml,
)
from core.plugins.slides.deck import Point
from core.plugins.slides.page import Anchor, Text, foot_texts
from core.plugins.slides.theme import (
    BOXES,
    COLOURS,
    DARK,
    HEIGHT,
    LATIN,
    LAYOUTS,
    WIDTH,
    Box,
    Layout,
    background,
    decor,
    east_asian,
)

NAME = "Latchkey"
SCHEME = {
    "dk1": "ink",
    "lt1": "white",
    "dk2": "night",
    "lt2": "paper",
    **{slot: name for name, slot in SLOTS.items() if slot.startswith("accent")},
    "hlink": "teal",
    "folHlink": "plum",
}
TITLE_SIZES: dict[Layout, float] = {"title": 44, "section": 44, "quote": 32, "closing": 40}
ANCHORS: dict[Layout, Anchor] = {"title": "bottom", "quote": "middle"}
NAMES: dict[Layout, str] = {
    "title": "Title",
    "contents": "Contents",
    "section": "Section",
    "content": "Title and text",
    "figure": "Title and figure",
    "quote": "Quote",
    "closing": "Closing",
}


def new_file(*, language: str, rtl: bool) -> PresentationFile:
    """Return an empty 16:9 presentation with our theme and layouts, in the order of ``LAYOUTS``."""
    file = Presentation()
    file.slide_width, file.slide_height = emu(WIDTH), emu(HEIGHT)
    forget_template(file)
    master = file.slide_master
    set_theme(master, language)
    for layout in list(master.slide_layouts)[len(LAYOUTS) :]:
        master.slide_layouts.remove(layout)
    fill_master(master, rtl=rtl)
    for name, layout in zip(LAYOUTS, master.slide_layouts, strict=True):
        fill_layout(layout, name, rtl=rtl)
    return file


def forget_template(file: PresentationFile) -> None:
    """Remove the metadata of python-pptx's own template: its picture, its printer, 4:3."""
    file.element.find(qn("p:sldSz")).attrib.pop("type", None)
    for holder, kind in (
        (file.part.package, RELATIONSHIP_TYPE.THUMBNAIL),
        (file.part, RELATIONSHIP_TYPE.PRINTER_SETTINGS),
    ):
        holder.drop_rel(holder.relate_to(holder.part_related_by(kind), kind))


def set_theme(master: SlideMaster, language: str) -> None:
    """Write colours and fonts into the theme part."""
    part = master.part.part_related_by(RELATIONSHIP_TYPE.THEME)
    theme = part.blob.decode()
    colours = "".join(
        f'<a:{slot}><a:srgbClr val="{COLOURS[name]}"/></a:{slot}>' for slot, name in SCHEME.items()
    )
    faces = (
        f'<a:latin typeface="{LATIN}"/><a:ea typeface="{east_asian(language)[0]}"/>'
        f'<a:cs typeface="{LATIN}"/>'
    )
    theme = replaced("clrScheme", theme, colours)
    theme = replaced(
        "fontScheme",
        theme,
        f"<a:majorFont>{faces}</a:majorFont><a:minorFont>{faces}</a:minorFont>",
    )
    part.blob = re.sub(r'(<a:theme [^>]*name=")[^"]*', rf"\g<1>{NAME}", theme).encode()


def replaced(tag: str, theme: str, inner: str) -> str:
    """Return ``theme`` with the content of its one element ``tag`` replaced."""
    made = f'<a:{tag} name="{NAME}">{inner}</a:{tag}>'
    return re.sub(rf"<a:{tag} .*?</a:{tag}>", lambda _match: made, theme, count=1, flags=re.DOTALL)


def fill_master(master: SlideMaster, *, rtl: bool) -> None:
    """Fill the master: paper, a title, a body, a footer, a number, and the styles they inherit."""
    boxes = BOXES["content"]
    shapes = [
        prompt(boxes[0], 2, "title", None, rtl=rtl, layout="content"),
        prompt(boxes[1], 3, "body", 1, rtl=rtl, layout="content"),
        *foot_xml("content", 4, "", rtl=rtl),
    ]
    redraw(master, "paper", shapes)
    root = master.element
    for old in root.xpath("./p:txStyles"):
        root.remove(old)
    root.append(parse_xml(styles(rtl=rtl)))


def styles(*, rtl: bool) -> str:
    """Return the text styles of the master, which new boxes inherit."""
    side = f'algn="{"r" if rtl else "l"}" rtl="{int(rtl)}"'
    faces = '<a:latin typeface="+mn-lt"/><a:ea typeface="+mn-ea"/><a:cs typeface="+mn-cs"/>'
    levels = "".join(
        f'<a:lvl{level}pPr marL="{emu(26 * level)}" indent="{-emu(26)}" {side}>'
        f'<a:spcBef><a:spcPts val="800"/></a:spcBef>{SQUARE}'
        f'<a:defRPr sz="{2200 - 200 * level}">{fill("ink")}{faces}</a:defRPr></a:lvl{level}pPr>'
        for level in range(1, 6)
    )
    other = f'<a:lvl1pPr {side}><a:defRPr sz="1800">{fill("ink")}{faces}</a:defRPr></a:lvl1pPr>'
    return (
        f"<p:txStyles {NAMESPACES}><p:titleStyle><a:lvl1pPr {side}><a:buNone/>"
        f'<a:defRPr sz="3000" b="1">{fill("ink")}{faces}</a:defRPr></a:lvl1pPr></p:titleStyle>'
        f"<p:bodyStyle>{levels}</p:bodyStyle><p:otherStyle>{other}</p:otherStyle></p:txStyles>"
    )


def fill_layout(layout: SlideLayout, name: Layout, *, rtl: bool) -> None:
    """Fill one layout: its background, decoration, boxes and footer."""
    adorn = enumerate(decor(name, rtl=rtl), start=20)
    shapes = [shape_xml(shape, number) for number, shape in adorn]
    kinds = (("title", None), ("subTitle" if name == "title" else "body", 1))
    for number, (box, (kind, index)) in enumerate(zip(BOXES[name], kinds, strict=False), start=2):
        shapes.append(prompt(box, number, kind, index, rtl=rtl, layout=name))
    shapes += foot_xml(name, 10, "", rtl=rtl)
    redraw(layout, background(name), shapes)
    layout.element.cSld.set("name", NAMES[name])
    layout.element.attrib.pop("type", None)


def prompt(
    box: Box, number: int, kind: str, index: int | None, *, rtl: bool, layout: Layout
) -> str:
    """Return a placeholder of a layout with its prompt text."""
    x, y, w, h = box
    words = "Title" if kind == "title" else "Text"
    size = TITLE_SIZES.get(layout, 30.0) if kind == "title" else 20.0
    text = Text(
        "title", WIDTH - x - w if rtl else x, y, w, h, (Point(words),), size, size * 1.24,
        colour="white" if layout in DARK or (layout, kind) == ("contents", "title") else "ink",
        bold=kind == "title" and layout != "quote",
        anchor=ANCHORS.get(layout, "top") if index is None else "top",
    )  # fmt: skip
    ph = placeholder(kind, index)
    return text_xml(text, number, name=f"{words} {number}", ph=ph, language="en-US", rtl=rtl)


def foot_xml(
    name: Layout, number: int, footer: str, *, rtl: bool, language: str = "en-US"
) -> list[str]:
    """Return the footer and the page number as placeholders."""
    texts = foot_texts(name, footer, "‹#›", rtl=rtl)
    return [
        field_xml(text, at, kind, language, rtl=rtl)
        for at, text, kind in zip((number, number + 1), texts, ("ftr", "sldNum"), strict=False)
    ]


def redraw(part: SlideMaster | SlideLayout, colour: str, shapes: list[str]) -> None:
    """Replace everything that a master or a layout draws."""
    sheet = part.element.cSld
    for old in sheet.xpath("./p:bg"):
        sheet.remove(old)
    ground = parse_xml(f"<p:bg {NAMESPACES}><p:bgPr>{fill(colour)}<a:effectLst/></p:bgPr></p:bg>")
    sheet.insert(0, ground)
    tree = sheet.spTree
    for old in tree.xpath("./p:sp | ./p:pic | ./p:grpSp | ./p:graphicFrame | ./p:cxnSp"):
        tree.remove(old)
    for shape in shapes:
        tree.append(parse_xml(shape))

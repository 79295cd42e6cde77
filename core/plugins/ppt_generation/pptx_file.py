"""Pages as a .pptx file: placeholders, native charts and tables, notes, page numbers, alt text."""

from collections.abc import Sequence
from pathlib import Path

from pptx.oxml import parse_xml
from pptx.slide import Slide

from core.plugins.ppt_generation.charts import add_chart, add_table
from core.plugins.ppt_generation.design import foot_xml, new_file
from core.plugins.ppt_generation.drawing import placeholder, shape_xml, text_xml
from core.plugins.slides.page import Element, Grid, Page, Plot, Text
from core.plugins.slides.texts import writable
from core.plugins.slides.theme import BODIES, LAYOUTS, Shape

NOTES_LIMIT = 6000
FIRST_ID = 2


def save(pages: Sequence[Page], *, title: str, language: str, path: Path) -> None:
    """Write ``pages`` to ``path``; they share one direction of script."""
    file = new_file(language=language, rtl=any(page.rtl for page in pages))
    for page in pages:
        layout = file.slide_layouts[LAYOUTS.index(page.layout)]
        slide = file.slides.add_slide(layout)
        draw(slide, page, language)
        if page.notes:
            frame = slide.notes_slide.notes_text_frame
            if frame is not None:
                frame.text = writable(page.notes)[:NOTES_LIMIT]
    properties = file.core_properties
    properties.title, properties.language = writable(title)[:200], language
    properties.author = properties.last_modified_by = "Latchkey"
    file.save(str(path))


def draw(slide: Slide, page: Page, language: str) -> None:
    tree = slide.shapes.element
    for old in tree.xpath("./p:sp"):
        tree.remove(old)
    free = {"title": placeholder("title")}
    if (kind := BODIES.get(page.layout)) is not None:
        free["body"] = free["subtitle"] = placeholder(kind, 1)
    for number, element in enumerate(page.elements, start=FIRST_ID):
        add(slide, element, number, free, page, language)
    for shape in foot_xml(page.layout, 500, page.footer, rtl=page.rtl, language=language):
        tree.append(parse_xml(shape))


def add(
    slide: Slide, element: Element, number: int, free: dict[str, str], page: Page, language: str
) -> None:
    """Add one element; the first text of a role takes the layout's placeholder for it."""
    match element:
        case Text():
            ph = free.pop(element.role, "")
            name = f"{element.role.capitalize()} {number}"
            made = text_xml(element, number, name=name, ph=ph, language=language, rtl=page.rtl)
            slide.shapes.element.append(parse_xml(made))
        case Shape():
            slide.shapes.element.append(parse_xml(shape_xml(element, number)))
        case Plot():
            add_chart(slide, element, rtl=page.rtl)
        case Grid():
            add_table(slide, element, named=element.named, language=language, rtl=page.rtl)

"""The plugin ``ppt-generation``: a .pptx from a topic, a text, a document or a result page."""

from collections.abc import Sequence
from pathlib import Path

from core.plugins.slides.deck import Deck
from core.plugins.slides.maker import SlidesPlugin
from core.plugins.slides.page import Page


def write(pages: Sequence[Page], deck: Deck, path: Path) -> None:
    from core.plugins.ppt_generation import pptx_file  # noqa: PLC0415 - 30 MB that `runs` never uses

    pptx_file.save(pages, title=deck.title, language=deck.language, path=path)


PLUGIN = SlidesPlugin(
    id="ppt-generation",
    name="Presentation",
    what="Make a PowerPoint presentation (.pptx) about a topic, or from a text or a document.",
    suffix=".pptx",
    mime="application/vnd.openxmlformats-officedocument.presentationml.presentation",
    write=write,
)

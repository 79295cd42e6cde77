"""The plugin ``html-slides``: a slide show in one HTML file."""

from collections.abc import Sequence
from pathlib import Path

from core.plugins.html_slides.html_file import document
from core.plugins.slides.deck import Deck
from core.plugins.slides.maker import SlidesPlugin
from core.plugins.slides.page import Page


def write(pages: Sequence[Page], deck: Deck, path: Path) -> None:
    html = document(pages, title=deck.title, language=deck.language)
    path.write_text(html, encoding="utf-8")


PLUGIN = SlidesPlugin(
    id="html-slides",
    name="HTML slides",
    what="Make a slide show in one HTML file about a topic, or from a text or a document.",
    suffix=".html",
    mime="text/html",
    write=write,
)

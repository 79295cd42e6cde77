"""Shared steps of both presentation makers: read the order, make the deck, lay it out, write it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from core.lib.text import is_of_file_name
from core.plugins.base import Artifact, Capability, PluginError, PluginHost, PluginResult, Source
from core.plugins.slides import brief, compose, layout
from core.plugins.slides.deck import Deck
from core.plugins.slides.page import Page
from core.plugins.slides.texts import writable

CREATE = "create_from_source"
NAME_LIMIT = 60
TOO_THIN = "The source holds no more than that; {} slides were asked for."
PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "source": {
            "type": "string",
            "description": "What to make the slides of: a topic in a few words, a text, a web "
            "address, or the handle of a file (/files/…).",
        },
        "files": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Handles (/files/…) of several documents, instead of source.",
        },
        "title": {
            "type": "string",
            "description": "The title of the deck, where the user named one.",
        },
        "slides": {
            "type": "integer",
            "minimum": brief.FEWEST,
            "maximum": brief.MOST,
            "description": f"How many slides, title and closing included ({brief.USUAL}).",
        },
        "language": {
            "type": "string",
            "description": 'The language of the slides ("de", "Spanish"); else the request\'s.',
        },
        "audience": {"type": "string", "description": "Who will see them."},
    },
    "required": ["source"],
}
Write = Callable[[Sequence[Page], Deck, Path], None]


@dataclass(frozen=True)
class SlidesPlugin:
    """A maker of one file format. ``write`` runs in a thread."""

    id: str
    name: str
    what: str
    suffix: str
    mime: str
    write: Write

    @cached_property
    def capabilities(self) -> Mapping[str, Capability]:
        """Return ``create_from_source``: see PARAMETERS."""
        return {CREATE: Capability(self.what, PARAMETERS)}

    async def run(
        self, capability_id: str, parameters: Mapping[str, Any], source: Source, host: PluginHost
    ) -> PluginResult:
        """Make the file in ``host.folder``. Raises PluginError with a text for the user."""
        if capability_id != CREATE:
            raise PluginError(f"{self.name} can only do {CREATE}.")
        order = brief.read(parameters, source, host.context_tokens)
        made = await compose.make(order, host)
        await host.progress("Drawing the slides", 93)
        path = host.folder / f"slides{self.suffix}"
        pages = await asyncio.to_thread(self.finish, made.deck, path)
        name = file_name(made.deck.title) + self.suffix
        note = TOO_THIN.format(order.count) if pages < order.count else ""
        return PluginResult(told(made, pages), [Artifact(path, name, self.mime)], note=note)

    def finish(self, deck: Deck, path: Path) -> int:
        """Lay ``deck`` out and write it; return the number of its pages."""
        pages = layout.pages(deck)
        self.write(pages, deck, path)
        return len(pages)


def told(made: compose.Made, pages: int) -> str:
    """Return the text for the model and the user, including shortcomings."""
    text = f'The presentation "{made.deck.title}" is ready: {pages} slides.'
    if made.own:
        slides = "slide" if made.own == 1 else "slides"
        text += f" For {made.own} {slides} the model gave too little to use as it was."
    return text


def file_name(title: str) -> str:
    """Return a file name: the title's letters, with their marks, and digits."""
    kept = "".join(filter(is_of_file_name, writable(title)))
    name = " ".join(kept.split())[:NAME_LIMIT].strip(" .-_")
    return name or "presentation"

"""Plugins that make small files, for tests of everything around presentations."""

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.plugins.base import (
    Artifact,
    Capability,
    PluginError,
    PluginHost,
    PluginResult,
    Source,
)
from core.plugins.slides.maker import PARAMETERS

# The real schema: fields that the real plugins require are required here as well.
CAPABILITY = Capability(description="Makes slides.", parameters=PARAMETERS)


@dataclass
class Slides:
    """Writes its topic into a file; ``made`` counts. The topic decides the outcome; one that
    lingers ends when ``go_on`` is set.
    """

    id: str
    name: str
    extension: str
    mime: str
    made: list[str] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    capabilities: Mapping[str, Capability] = field(
        default_factory=lambda: {"create_from_source": CAPABILITY}
    )

    async def run(
        self, capability_id: str, parameters: Mapping[str, Any], source: Source, host: PluginHost
    ) -> PluginResult:
        self.made.append(source.title)
        await host.progress("Writing slide 1 of 2", 50)
        (host.folder / "scratch.tmp").write_text("scratch")
        if "hang" in source.title:
            (host.folder / "half.bin").write_text("half")
            while True:
                await host.progress("Writing slide 2 of 2", 60)
                await asyncio.sleep(0.05)
        if "greedy" in source.title:
            bytearray(2 * 1024**3)
        while "linger" in source.title and not self.go_on.is_set():
            await asyncio.sleep(0.05)
        if "fail" in source.title:
            raise PluginError("The slides could not be made: no paper.")
        if "crash" in source.title:
            raise ValueError("a secret detail")
        if "escape" in source.title:
            return PluginResult("x", [Artifact(host.folder / ".." / ".." / "x", "x", "text/plain")])
        path = host.folder / "out" / f"slides.{self.extension}"
        path.parent.mkdir()
        path.write_text(f"{source.title} {parameters['language']}")
        name = f"{source.title}.{self.extension}"
        return PluginResult("Your presentation is ready:", [Artifact(path, name, self.mime)])


PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
SLIDES = Slides("ppt-generation", "presentation", "pptx", PPTX)
HTML_SLIDES = Slides("html-slides", "HTML slides", "html", "text/html")
PLUGIN, HTML_PLUGIN = SLIDES, HTML_SLIDES

# ruff: noqa: INP001 - a package of its own; its writes are small
"""An example plugin of another package; it imports ``core.plugins.base`` and ``core.messages``.

It draws the numbers of a text: a picture, its sources, and a message of a custom type.
"""

import re
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from core.messages import action_message, custom_message, retrieval_message
from core.plugins.base import (
    Artifact,
    Capability,
    PluginError,
    PluginHost,
    PluginResult,
    Source,
)

WIDE, HIGH = 320, 160
NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Bars:
    """``bars``: the numbers of a source as a bar chart."""

    id = "example-bars"
    name = "bar chart"
    capabilities: Mapping[str, Capability] = {
        "draw": Capability(
            "Draws the numbers of a text or a document as a bar chart.",
            {
                "type": "object",
                "properties": {
                    "source": {"type": "string", "description": "A text or a file (/files/…)."},
                    "title": {"type": "string", "description": "What the chart shows."},
                },
                "required": ["source", "title"],
            },
        )
    }

    async def run(
        self, capability_id: str, parameters: Mapping[str, Any], source: Source, host: PluginHost
    ) -> PluginResult:
        """Return the chart as a PNG. Raises PluginError if the source has no number."""
        del capability_id
        numbers = [float(found) for found in NUMBER.findall(source.text)][:20]
        if not numbers:
            raise PluginError("There is no number in it.")
        title = str(parameters["title"])
        await host.progress("Drawing…", 50)
        await host.send(
            retrieval_message(
                title,
                [{"id": "1", "type": "file", "title": source.title, "content": source.text[:200]}],
            )
        )
        await host.send(custom_message("chart", {"title": title, "data": numbers}))
        await host.send(action_message("open_panel", {"panel_id": "charts"}))
        path = host.folder / "chart.png"
        path.write_bytes(picture(numbers))
        return PluginResult(
            f"{title}: {len(numbers)} bars.", [Artifact(path, "chart.png", "image/png")]
        )


def picture(numbers: list[float]) -> bytes:
    """Return the bars as a grey PNG, without a library."""
    most = max(numbers) or 1
    heights = [int(number / most * HIGH) for number in numbers]
    rows = b""
    for y in range(HIGH):
        bars = (heights[x * len(heights) // WIDE] >= HIGH - y for x in range(WIDE))
        rows += b"\x00" + bytes(40 if bar else 250 for bar in bars)
    size = struct.pack(">IIBBBBB", WIDE, HIGH, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", size), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )


PLUGIN = Bars()

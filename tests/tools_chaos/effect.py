"""A tool with an effect that can be counted from outside, installed as another package would be."""

import os
from pathlib import Path

from core.tools.base import Tool, ToolContext, ToolResult

FOLDER = Path(os.environ.get("CHAOS_FOLDER", "."))
EFFECTS = FOLDER / "effects"


class Effect(Tool):
    """Add a line to a file: twice is visible, and so is never."""

    name = "effect"
    description = "Does what is asked for."
    parameters = {"type": "object", "properties": {}, "additionalProperties": False}
    ask = "always"
    idempotent = False

    async def run(self, context: ToolContext, arguments: dict[str, object]) -> ToolResult:
        """Do what the person asked for."""
        carry_out(context.request)
        return ToolResult(f"carried out: {context.request}")


def carry_out(request: str) -> None:
    """Add a line, whole, and on the disk when this returns."""
    number = os.open(EFFECTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(number, f"{request}\n".encode())
    os.fsync(number)
    os.close(number)


TOOL = Effect()


def install(folder: Path) -> None:
    """Put a package's metadata with the entry point of the tool into a folder of PYTHONPATH."""
    info = folder / "latchkey_effect-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: latchkey-effect\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[latchkey.tools]\neffect = tests.tools_chaos.effect:TOOL\n"
    )

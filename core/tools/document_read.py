"""Read a document that the user sent: all of a short one, some pages of a long one."""

from typing import Any

from django.conf import settings

from core.database.transactions import in_thread
from core.documents import read as documents
from core.files import storage
from core.jobs_worker.sources import file_named
from core.lib.tokens import estimate
from core.messages import RetrievalMessage, retrieval_message
from core.models import StoredFile
from core.plugins.summarize import source_of
from core.tools.base import Tool, ToolContext, ToolError, ToolResult

# A longer result would be cut by the agent, and with it the hint where to go on.
MOST_CHARACTERS = 45_000


class DocumentRead(Tool):
    """Return the text of a document, with the references that answers should cite."""

    name = "document_read"
    description = (
        "Reads a document that the user sent (PDF, Word, PowerPoint, Excel, HTML, CSV, text). Give "
        "its handle (/files/…). A long document comes in parts: ask for the next with from_part. "
        "To summarize a long one, use route_to_plugin instead."
    )
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {
            "file": {"type": "string", "description": "The handle, /files/…, or the file's name."},
            "from_part": {"type": "integer", "minimum": 1, "description": "Default 1."},
        },
        "required": ["file"],
        "additionalProperties": False,
    }

    def progress(self, arguments: dict[str, Any]) -> str:
        return "Reading the document…"

    async def run(self, context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        """Return the parts that fit a third of the model's window. Raises ToolError."""
        name, user_id, session_id = arguments.get("file", ""), context.user_id, context.session_id
        file = await in_thread(file_named, str(name), user_id=user_id, session_id=session_id)
        if file is None:
            raise ToolError("This document does not exist. The handle looks like /files/….")
        first = arguments.get("from_part", 1)
        try:
            found = await documents.parts(
                storage.path_of(file), name=file.name, most_megabytes=settings.DOCUMENT_MEGABYTES
            )
        except documents.DocumentError as error:
            raise ToolError(str(error)) from error
        except OSError as error:
            raise ToolError("The document no longer exists.") from error
        first = max(1, first if isinstance(first, int) else 1)
        text, shown = cut(file.name, found, first=first, most=context.context_tokens // 3)
        context.send(retrieved(file, found[first - 1 : first - 1 + shown], context))
        return ToolResult(text)


def retrieved(
    file: StoredFile, parts: list[tuple[str, str]], context: ToolContext
) -> RetrievalMessage:
    """Return the places of a document that the model was given, as sources of its answer."""
    source = source_of(file.name, parts)
    source["file_id"] = file.public_id
    name = f"retrieval-{context.tool_call_id}"
    return retrieval_message(file.name, [source], message_id=name)


def cut(
    name: str,
    found: list[tuple[str, str]],
    *,
    first: int,
    most: int,
    tool: str = "document_read",
) -> tuple[str, int]:
    """Return the parts from number ``first`` on, as many as ``most`` tokens and MOST_CHARACTERS
    hold, with a hint for the rest, which ``tool`` reads; and their number.
    """
    left = min(most, MOST_CHARACTERS // 4)
    lines = [f"{name}: {len(found)} parts."]
    number = first - 1
    for number, (reference, text) in enumerate(found[first - 1 :], first):
        if number > first and len(text) > left * 4:  # whole in the next call
            lines.append(f"(More follows: call {tool} again with from_part {number}.)")
            return "\n\n".join(lines), number - first
        shown = text[: left * 4]
        lines.append(f"[{reference or f'part {number}'}]\n{shown}")
        left -= estimate(shown)
        if left <= 0 and number < len(found):
            lines.append(f"(More follows: call {tool} again with from_part {number + 1}.)")
            break
    return "\n\n".join(lines), number - first + 1


TOOL = DocumentRead()

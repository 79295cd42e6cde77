"""Pictures in the results of MCP tools: stored as files of the person's run, and shown to them."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from core.documents.sniffing import media_type
from core.files import storage
from core.messages import Message, image_message
from core.models import User
from core.tools.base import ToolContext

MOST_PICTURES = 4
MOST_BYTES = 2 * 1024 * 1024  # of one


def pictures_of(blocks: Sequence[Any]) -> dict[int, bytes]:
    """Return the first pictures of a result by their place in it: those of a type that browsers
    show, by their first bytes and not by what the server says.
    """
    found: dict[int, bytes] = {}
    for place, block in enumerate(blocks):
        if block.type != "image" or len(found) == MOST_PICTURES:
            continue
        content = decoded(block.data)
        if content and media_type(content[:512], declared="") in storage.PICTURES:
            found[place] = content
    return found


def decoded(data: str) -> bytes:
    """Return the bytes of base64, or of a data URL; empty for anything else, and for too many."""
    data = "".join(data.rpartition(",")[2].split())  # `base64` breaks its lines
    if len(data) > MOST_BYTES * 4 // 3 + 4:
        return b""
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return b""


def store_pictures(context: ToolContext, pictures: Sequence[bytes], *, tool: str) -> list[Message]:
    """Store the pictures of a call; return the messages that show them. May block."""
    user = User.objects.get(pk=context.user_id)
    made: list[Message] = []
    for number, content in enumerate(pictures, 1):
        kind = media_type(content[:512], declared="")
        name = f"{tool}-{number}.{storage.PICTURES[str(kind)]}"
        file = storage.keep(
            user=user,
            name=name,
            content=content,
            session_id=context.session_id,
            run_id=context.run_id,
            origin=storage.MADE,
        )
        # The same name in each attempt of the run: it is shown once.
        message_id = f"picture-{context.tool_call_id}-{number}"
        made.append(image_message(storage.link(file), file.name, message_id=message_id))
    return made

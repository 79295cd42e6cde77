"""An event as the log keeps it: JSON that every database can hold, neighbours made one."""

import time
from typing import Any

import orjson

from core.lib.text import clean
from core.messages import MessageDict

MERGED_CHARACTERS = 16_000


def storable(event: MessageDict) -> MessageDict:
    """``event`` with texts that every database can hold, however deep they are, and with the time
    in milliseconds since 1970 at which it happened."""
    event["props"] = cleaned(event["props"])
    event["metadata"] = {"timestamp": time.time_ns() // 1_000_000, **event.get("metadata", {})}
    return event


def cleaned(value: Any) -> Any:
    """``value`` (JSON) with every text in it cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(each) for each in value]
    return value


def joined(previous: MessageDict, event: MessageDict) -> bool:
    """Add ``event`` to ``previous`` when both append to the same text; whether it was so."""
    if (
        event.get("delta_action") != "append"
        or event.get("type_change")
        or previous.get("delta_action") != "append"
        or event.get("message_id") != previous.get("message_id")
        or event.get("delta_path") != previous.get("delta_path")
        or event["type"] != previous["type"]
    ):
        return False
    before, more = previous["props"].get("content"), event["props"].get("content")
    if not (isinstance(before, str) and isinstance(more, str)) or len(before) > MERGED_CHARACTERS:
        return False
    previous["props"] = {"content": before + more}
    return True


def encode(event: MessageDict) -> str:
    """``event`` as the JSON text of its row."""
    return orjson.dumps(event).decode()

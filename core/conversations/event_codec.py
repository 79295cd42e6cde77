"""Encode events for the log as JSON that every database can store; join neighbouring appends."""

import time
from typing import Any

import orjson

from core.lib.text import clean
from core.messages import MessageDict

MERGED_CHARACTERS = 16_000


def storable(event: MessageDict) -> MessageDict:
    """Return ``event`` with texts that every database can store, at any depth, and with its time in
    milliseconds since 1970.
    """
    event["props"] = cleaned(event["props"])
    event["metadata"] = {"timestamp": time.time_ns() // 1_000_000, **event.get("metadata", {})}
    return event


def cleaned(value: Any) -> Any:
    """Return ``value`` (JSON) with every text in it cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(each) for each in value]
    return value


def joined(previous: MessageDict, event: MessageDict) -> bool:
    """Add ``event`` to ``previous`` when both append to the same text; return whether so."""
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
    """Return ``event`` as the JSON text of its row."""
    return orjson.dumps(event).decode()

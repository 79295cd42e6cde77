"""Encode events for the log as JSON that every database can store; join neighbouring appends."""

import time
from typing import Any

import orjson

from core.lib.text import clean
from core.messages import MessageDict

MERGED_CHARACTERS = 16_000


def storable(event: MessageDict) -> MessageDict:
    """Return ``event`` with storable texts at any depth, and its time in ms since 1970."""
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


def appends(event: MessageDict) -> bool:
    return (
        event.get("delta_action") == "append"
        and not event.get("type_change")
        and isinstance(event["props"].get("content"), str)
    )


def joined(previous: MessageDict, event: MessageDict) -> MessageDict | None:
    """Return one event for two that append to the same text; None for any others."""
    if (
        not (appends(previous) and appends(event))
        or event.get("message_id") != previous.get("message_id")
        or event.get("delta_path") != previous.get("delta_path")
        or event["type"] != previous["type"]
    ):
        return None
    before, more = str(previous["props"]["content"]), str(event["props"]["content"])
    if len(before) > MERGED_CHARACTERS:
        return None
    return {**previous, "props": {"content": before + more}}


def join_last(numbered: list[tuple[int, MessageDict]], pair: tuple[int, MessageDict]) -> None:
    """Add a numbered event to ``numbered``, joined with the last one where possible.

    Joined events have the number of the last of them.
    """
    number, event = pair
    whole = joined(numbered[-1][1], event) if numbered else None
    if whole is None:
        numbered.append(pair)
    else:
        numbered[-1] = (number, whole)


def encode(event: MessageDict) -> str:
    """Return ``event`` as the JSON text of its row."""
    return orjson.dumps(event).decode()

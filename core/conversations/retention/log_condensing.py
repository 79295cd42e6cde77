"""A finished run's event log, cut to its answer: each text once, whole, and the frame around it.

Pure. A row keeps a number of the log, so that a reader with any number gets what it lacks: a whole
message replaces the part that it has.
"""

from collections.abc import Iterable

from core.conversations.events import Numbered
from core.messages import MessageDict, fold

ANSWER = ("text", "image", "audio", "video", "error")
FRAME = ("stream_start", "message_start", "message_end", "stream_end")


def condensed(log: Iterable[Numbered]) -> list[Numbered]:
    """Return the events that stay, in order; their numbers are among those of ``log``."""
    log = list(log)
    named = [event for _, event in log if event.get("message_id")]
    whole = {message["message_id"]: message for message in fold(named)}
    last = {event.get("message_id", ""): number for number, event in log}
    kept: list[Numbered] = []
    for number, event in log:
        name = event.get("message_id")
        if not name:
            message = event
        elif last[name] == number:
            message = whole[name]
        else:
            continue
        if stays(message):
            kept.append((number, message))
    return kept


def stays(message: MessageDict) -> bool:
    """Return whether a message is part of the answer or of the frame around it."""
    if message["type"] == "event":
        return message["props"].get("event") in FRAME
    return message["type"] in ANSWER and message["props"].get("content") != ""

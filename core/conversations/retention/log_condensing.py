"""A finished run's event log, cut to its answer: each text once, whole, and the frame around it.

Pure. A row keeps a number of the log, so that a reader with any number gets what it lacks: a whole
message replaces the part that it has.
"""

from collections.abc import Container, Iterable

from core.conversations.events import Numbered
from core.messages import MessageDict, fold

ANSWER = ("text", "image", "audio", "video", "error")
FRAME = ("stream_start", "stream_end")
OF_MESSAGE = ("message_start", "message_end")


def condensed(log: Iterable[Numbered]) -> list[Numbered]:
    """Return the events that stay, in order; their numbers are among those of ``log``."""
    log = list(log)
    named = [event for _, event in log if event.get("message_id")]
    whole = {each["message_id"]: each for each in fold(named) if is_answer(each)}
    last = {event.get("message_id", ""): number for number, event in log}
    kept: list[Numbered] = []
    for number, event in log:
        name = event.get("message_id", "")
        if name and name in whole and last[name] == number:
            kept.append((number, whole[name]))
        elif not name and (is_answer(event) or is_frame(event, whole)):
            kept.append((number, event))
    return kept


def is_answer(message: MessageDict) -> bool:
    """Return whether a whole message is part of the answer; a text that was taken back is not."""
    return message["type"] in ANSWER and message["props"].get("content") != ""


def is_frame(event: MessageDict, whole: Container[str]) -> bool:
    """Return whether an event begins or ends the run, or a message that stays."""
    if event["type"] != "event":
        return False
    data = event["props"].get("data")
    name = event["props"].get("event")
    of_whole = isinstance(data, dict) and data.get("message_id") in whole
    return name in FRAME or (name in OF_MESSAGE and of_whole)

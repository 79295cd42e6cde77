"""A run's log as rows for the trace page: merged messages, and raw events."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from channels_app.rendering.links import is_web_url
from core.lib.text import visible
from core.messages import EventMessage, Message, MessageDict, Transcript

MAX_CHARACTERS = 20_000
# Events that only mark a beginning or an end; the table of events shows them.
QUIET = ("message_start", "message_end", "block_start", "block_end")


@dataclass(frozen=True, slots=True)
class Row:
    """One message. ``anchor`` is the target of links; ``lines`` are label and text."""

    anchor: str
    type: str
    message_id: str
    lines: list[tuple[str, str]]
    picture: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event as it was logged."""

    seq: int
    type: str
    message_id: str
    action: str
    text: str


def anchor(message_type: str, message_id: str) -> str:
    """Return the fragment of a message's place on the page."""
    return quote(f"{message_type}-{message_id}", safe="-")


def messages(log: Iterable[tuple[int, MessageDict]]) -> list[Row]:
    """Return the messages of a run, merged, in order."""
    transcript = Transcript()
    for _, event in log:
        transcript.read(event)
    return [row(message) for message in transcript.messages() if not is_quiet(message)]


def is_quiet(message: Message) -> bool:
    """Return whether a message has nothing to show."""
    return isinstance(message, EventMessage) and message.props.get("event") in QUIET


def row(message: Message) -> Row:
    """Build one row. Addresses become links only when they are http(s)."""
    props = dict(message.props)
    url = props.get("url")
    picture = address = ""
    if isinstance(url, str) and url.startswith("data:"):
        if message.type == "image" and url.startswith("data:image/"):
            picture = url
        props["url"] = f"{url[:40]}… ({len(url)} characters)"
    elif isinstance(url, str) and is_web_url(url):
        address = url
    return Row(
        anchor=anchor(message.type, message.message_id),
        type=message.type,
        message_id=message.message_id,
        lines=[(name, shown(value)) for name, value in props.items()],
        picture=picture,
        address=address,
    )


def events(log: Iterable[tuple[int, MessageDict]]) -> list[EventRow]:
    """Return every event, cut to a few lines."""
    return [
        EventRow(
            seq=seq,
            type=event["type"],
            message_id=event.get("message_id", ""),
            action=event.get("delta_action", "") if event.get("delta") else "",
            text=shown(event["props"])[:500],
        )
        for seq, event in log
    ]


def shown(value: object) -> str:
    """Return a value as text with invisible characters visible, cut."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return visible(text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…")

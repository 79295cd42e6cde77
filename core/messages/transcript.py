"""Read a run's event log for an adapter: which message changed, and whether it is complete.

A message that came whole is complete immediately. One that came in deltas is completed by its
`message_end`, or by a `stream_end` with the status completed; a run that failed or was cancelled
leaves its unfinished messages incomplete, so that half a tool call is never passed to a client.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from core.messages.codec import from_dict
from core.messages.merge import apply_delta
from core.messages.types import EventMessage, Message, MessageDict, MessageError, ToolCallMessage


class Change(NamedTuple):
    """A message in its current state; `settled` when no more changes are expected."""

    message: Message
    settled: bool


@dataclass(slots=True)
class Transcript:
    """The messages of one log, merged event by event."""

    _merged: dict[str, MessageDict] = field(default_factory=dict)
    _messages: dict[str | int, Message] = field(default_factory=dict)
    _open: dict[str, Message] = field(default_factory=dict)

    def read(self, event: Mapping[str, object]) -> list[Change]:
        """Return the changes of the event, in order; a lifecycle event comes after the messages it
        settles.

        An event that does not make a valid message changes nothing.
        """
        message_id = event.get("message_id")
        try:
            if not isinstance(message_id, str) or not message_id:
                return self._unnamed(from_dict(event))
            merged = apply_delta(self._merged.get(message_id), event)
            message = from_dict(merged)
        except MessageError:
            return []
        self._merged[message_id] = merged
        self._messages[message_id] = message
        # A tool call that was announced whole may get its arguments in deltas.
        awaits = isinstance(message, ToolCallMessage) and not message.props.get("arguments")
        settled = event.get("delta") is not True and not awaits
        if settled:
            self._open.pop(message_id, None)
        else:
            self._open[message_id] = message
        return [Change(message, settled)]

    def close(self) -> list[Change]:
        """Settle the open messages, in the order they were opened."""
        changes = [Change(message, settled=True) for message in self._open.values()]
        self._open.clear()
        return changes

    def messages(self) -> list[Message]:
        """Return all messages in their current state, without lifecycle events, by their start."""
        return list(self._messages.values())

    def is_open(self, message: Message) -> bool:
        """Return whether more changes of the message are expected."""
        return message.message_id in self._open

    def _unnamed(self, message: Message) -> list[Change]:
        """Read a message without an id: complete by itself; an event may settle others first."""
        own = Change(message, settled=True)
        if not isinstance(message, EventMessage):
            self._messages[len(self._messages)] = message
            return [own]
        data = event_data(message)
        if message.props.get("event") == "stream_end" and data.get("status") == "completed":
            return [*self.close(), own]
        ended = str(data.get("message_id", ""))
        if message.props.get("event") == "message_end" and ended in self._open:
            return [Change(self._open.pop(ended), settled=True), own]
        return [own]


def event_data(message: EventMessage) -> Mapping[str, object]:
    """Return the data of a lifecycle event; empty when it has none."""
    return message.props.get("data") or {}

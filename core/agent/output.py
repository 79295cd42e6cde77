"""The output of a turn: the words of the model and of the gateway as messages of the run's log."""

from collections.abc import Callable
from dataclasses import dataclass, field

from core.messages import (
    Message,
    loading_message,
    message_end,
    message_start,
    reset_delta,
    text_delta,
    thinking_delta,
)


@dataclass(slots=True)
class Output:
    """``emit`` adds to the run's log. ``texts``: those of the turn, one for each message.
    ``counts``: the messages of each kind so far, which number their ids.
    """

    emit: Callable[[Message], None]
    texts: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    # The kind and the id of the message that grows.
    _open: tuple[str, str] | None = None

    def say(self, kind: str, text: str) -> None:
        """Add to the text or thought (``thinking``) that grows, or begin one."""
        if self._open is None or self._open[0] != kind:
            self.end_message()
            self._open = (kind, message_name(kind, self._next(kind)))
            self.emit(message_start(message_id=self._open[1], message_type=kind))
            if kind == "text":
                self.texts.append("")
        if kind == "text":
            self.texts[-1] += text
            self.emit(text_delta(text, message_id=self._open[1]))
        else:
            self.emit(thinking_delta(text, message_id=self._open[1]))

    def end_message(self) -> None:
        """End the message that grows, if one does."""
        if self._open is not None:
            kind, message_id = self._open
            self.emit(message_end(message_id=message_id, message_type=kind))
            self._open = None

    def note(self, text: str) -> None:
        """Emit a whole text, such as one of the gateway itself."""
        self.say("text", text)
        self.end_message()

    def whole(self, message: Message) -> None:
        """Emit a complete message, between its start and its end ([M2])."""
        kind, name = message.type, message.message_id
        self.emit(message_start(message_id=name, message_type=kind))
        self.emit(message)
        self.emit(message_end(message_id=name, message_type=kind))

    def pass_on(self, message: Message) -> None:
        """Emit a message that the model's server created."""
        self.end_message()
        number = self._next("whole")
        message.message_id = message.message_id or f"whole-{number}"
        self.whole(message)

    def retry(self, line: str) -> None:
        """Show the reason of a delay."""
        self.whole(loading_message(line, message_id=f"retry-{self._next('retry')}"))

    def take_back(self, said: int) -> None:
        """Clear the texts after the first ``said``: they were a call or its announcement."""
        for number in range(said, len(self.texts)):
            self.emit(reset_delta("text", message_id=message_name("text", number + 1)))
            self.texts[number] = ""

    def start_over(self, before: dict[str, int]) -> None:
        """Clear the texts and thoughts since ``counts`` was ``before``; the next have their ids."""
        self.end_message()
        for kind in ("text", "thinking"):
            first, last = before.get(kind, 0), self.counts.get(kind, 0)
            for number in range(first, last):
                self.emit(reset_delta(kind, message_id=message_name(kind, number + 1)))
            self.counts[kind] = first
        del self.texts[before.get("text", 0) :]

    def _next(self, kind: str) -> int:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return self.counts[kind]


def message_name(kind: str, number: int) -> str:
    """Return the message id of the text or thought with this number in a turn."""
    return f"{kind}-{number}"

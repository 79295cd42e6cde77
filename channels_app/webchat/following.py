"""Which events a socket has got: each once, in order, whatever the hub loses or repeats."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from orjson import loads

from core.conversations.events import ends
from core.messages import MessageDict
from core.models import RunEvent

Numbered = tuple[int, MessageDict]
READ_AT_ONCE = 2000
REMEMBERED = 100


class News(NamedTuple):
    """What a hub frame brings for a run: events to send, or a gap that the log must fill."""

    events: list[Numbered]
    gap: bool = False


@dataclass(slots=True)
class Following:
    """The runs a socket follows, and the number of the last event it got of each."""

    sent: dict[str, int] = field(default_factory=dict)
    # The hub may be slower than the log: it still brings runs that were sent to their end.
    _over: dict[str, None] = field(default_factory=dict)

    def start(self, run_id: str, *, after: int = 0) -> None:
        """Follow a run from the event after ``after``; never backwards."""
        self.restart(run_id, after=max(after, self.sent.get(run_id, 0)))

    def restart(self, run_id: str, *, after: int) -> None:
        """The client says what it has: that counts."""
        self._over.pop(run_id, None)
        self.sent[run_id] = after

    def end(self, run_id: str) -> None:
        """The whole of a run was sent."""
        self.sent.pop(run_id, None)
        self._over[run_id] = None
        if len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]

    def is_over(self, run_id: str) -> bool:
        """Whether the whole of a run was sent, and nobody has asked for it again."""
        return run_id in self._over

    def news(self, frame: Mapping[str, Any]) -> News | None:
        """What of a hub frame is new here; None for a run that is not followed."""
        last = self.sent.get(frame["run"])
        if last is None:
            return None
        if frame["first"] > last + 1:
            return News([], gap=True)
        numbered = enumerate(frame["events"], frame["first"])
        return News([pair for pair in numbered if pair[0] > last])

    def mark(self, run_id: str, pair: Numbered) -> bool:
        """Note that an event was sent; whether it was the last of its run."""
        seq, event = pair
        if ends(event):
            self.end(run_id)
            return True
        self.sent[run_id] = seq
        return False


def read(*, user_id: int, run_id: str, after: int) -> list[Numbered]:
    """The events of a person's own run after ``after``, at most READ_AT_ONCE of them."""
    rows = RunEvent.objects.filter(
        run__public_id=run_id, run__user_id=user_id, seq__gt=after
    ).order_by("seq")
    return [(seq, loads(data)) for seq, data in rows.values_list("seq", "data")[:READ_AT_ONCE]]

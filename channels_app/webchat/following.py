"""Track which events a socket has sent: each once, in order, despite lost or repeated frames."""

from dataclasses import dataclass, field

from core.conversations.events import Numbered, ends, missing
from core.models import Run

REMEMBERED = 100


@dataclass(slots=True)
class Following:
    """The followed runs of a socket, each with the number of its last sent event."""

    sent: dict[str, int] = field(default_factory=dict)
    # Pubsub may be slower than the log: it still delivers runs that were sent completely.
    _over: dict[str, None] = field(default_factory=dict)

    def start(self, run_id: str, *, after: int = 0) -> None:
        """Follow a run from the event after ``after``; never backwards."""
        self.restart(run_id, after=max(after, self.sent.get(run_id, 0)))

    def restart(self, run_id: str, *, after: int) -> None:
        """Set the position to the client's, also backwards."""
        self._over.pop(run_id, None)
        self.sent[run_id] = after

    def end(self, run_id: str) -> None:
        """Record that the whole run was sent."""
        self.sent.pop(run_id, None)
        self._over[run_id] = None
        if len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]

    def is_over(self, run_id: str) -> bool:
        """Return whether the whole run was sent and has not been requested again."""
        return run_id in self._over

    def mark(self, run_id: str, pair: Numbered) -> bool:
        """Record a sent event; return whether it was the last of its run."""
        seq, event = pair
        if ends(event):
            self.end(run_id)
            return True
        self.sent[run_id] = seq
        return False


def read(*, user_id: int, run_id: str, after: int) -> list[Numbered]:
    """Return the events of a user's own run after ``after``: see ``events.missing``."""
    run = Run.objects.filter(public_id=run_id, user_id=user_id).values_list("id", flat=True).first()
    return [] if run is None else missing(run_id=run, public_id=run_id, seq=after)

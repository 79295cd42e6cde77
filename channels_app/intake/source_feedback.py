"""Feedback on the sources of an answer: stored, changed, taken back; shown to the owner."""

from dataclasses import dataclass
from typing import Any

from channels_app.models import SourceFeedback
from core.conversations import events
from core.database.transactions import atomic_write
from core.lib.ids import is_public_id
from core.lib.text import one_line
from core.messages import RetrievalMessage, RetrievalSource, Transcript
from core.models import Run, User

VERDICTS = ("up", "down", "")


@dataclass(frozen=True, slots=True)
class Found:
    """A source of a run, and the retrieval that contains it."""

    retrieval: RetrievalMessage
    source: RetrievalSource


def record(*, user: User, run_id: str, source_id: str, verdict: str, message_id: str = "") -> str:
    """Store a person's feedback on a source of their own run; return the verdict as it now stands.

    ``verdict``: up, down, or empty to take it back. ``message_id`` is needed only when several
    retrievals of the run have a source of that id. Raises LookupError when there is no such run or
    source, ValueError for another verdict.
    """
    if verdict not in VERDICTS:
        raise ValueError("verdict must be up, down or empty")
    run = None
    if is_public_id(run_id):
        run = Run.objects.filter(public_id=run_id, user=user).first()
    found = find(run, source_id=source_id, message_id=message_id) if run else None
    if run is None or found is None:
        raise LookupError
    place: dict[str, Any] = {
        "run": run,
        "user": user,
        "message_id": found.retrieval.message_id[:200],
        "source_id": source_id[:200],
    }
    with atomic_write():
        if verdict:
            values = {"verdict": verdict, **described(found)}
            SourceFeedback.objects.update_or_create(**place, defaults=values)
        else:
            SourceFeedback.objects.filter(**place).delete()
    return verdict


def find(run: Run, *, source_id: str, message_id: str) -> Found | None:
    """Return the source of a run's log; the first of that id when no retrieval is named."""
    transcript = Transcript()
    for _, event in events.whole_log(run.id):
        if event["type"] == "retrieval":
            transcript.read(event)
    for message in transcript.messages():
        if not isinstance(message, RetrievalMessage) or message_id not in ("", message.message_id):
            continue
        for source in message.props.get("sources") or []:
            if source and source.get("id") == source_id:
                return Found(message, source)
    return None


def described(found: Found) -> dict[str, str]:
    """Return the stored fields of a source."""
    return {
        "title": one_line(str(found.source.get("title") or ""), 300),
        "url": one_line(str(found.source.get("url") or ""), 1000),
        "query": one_line(str(found.retrieval.props.get("query") or ""), 500),
    }

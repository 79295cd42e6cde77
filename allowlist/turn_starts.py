"""The run with which a turn began that was paused for a yes: it has the message of the person."""

from core.models import Run


def first_of(run: Run) -> Run:
    """Return the run that a run goes on with, over all pauses; itself when it is the first."""
    while before := run.options.get("continues"):
        found = Run.objects.filter(pk=before).first()
        if found is None:
            return run
        run = found
    return run

"""A stand-in for the ``runs`` worker, as a process of its own: plays given messages as the answer.

``python -m tests.channels_app.webchat.actor FILE`` waits for the next queued run, claims it as a
worker does, and writes the messages of FILE (a JSON list; ``{"pause": seconds}`` waits,
``{"wait_for": path}`` waits until that file exists) through the real event log. Its ``text``
messages are the answer.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import django

django.setup()  # before the imports below: this module is a program

from core.conversations import events, runs  # noqa: E402
from core.messages import from_dict, stream_end, stream_start  # noqa: E402
from core.models import Run  # noqa: E402

PATIENCE_SECONDS = 60.0


def wait_until(ready: Any) -> Any:
    """Return the result of ``ready()`` once it is not None."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = ready()
        if found is not None:
            return found
        time.sleep(0.02)
    raise TimeoutError("nothing came")


def play(steps: list[dict[str, Any]]) -> None:
    """Answer the next queued run with ``steps``."""

    def claimed() -> Run | None:
        queued = Run.objects.filter(state=Run.State.QUEUED).order_by("id").first()
        return runs.claim(run_ids=[queued.id], worker="actor").get(queued.id) if queued else None

    run = wait_until(claimed)
    log = events.log_of(run=run, seq=0)
    log.append(
        stream_start(
            request_id=run.public_id,
            chat_id=run.session.public_id,
            trace_id=run.public_id,
            timestamp_ms=0,
        )
    )
    for step in steps:
        if "pause" in step:
            time.sleep(step["pause"])
        elif "wait_for" in step:
            wait_until(lambda path=Path(step["wait_for"]): True if path.exists() else None)
        else:
            log.append(from_dict(step))
    texts = [str(step["props"]["content"]) for step in steps if step.get("type") == "text"]
    outcome = runs.Outcome(
        state=Run.State.SUCCEEDED, text="\n\n".join(texts), format="markdown" if texts else "plain"
    )
    last = stream_end(
        status="completed", request_id=run.public_id, timestamp_ms=0, duration_ms=0, usage={}
    )

    def finish(last_seq: int) -> None:
        runs.settle(run=run, outcome=outcome, last_seq=last_seq)

    log.close(finish, [last]).result(timeout=PATIENCE_SECONDS)


if __name__ == "__main__":
    play(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))

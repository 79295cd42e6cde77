"""Everything that one question costs the database, called in this process."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from allowlist import keys
from channels_app.client_api import sessions
from channels_app.intake import inbound
from channels_app.replies import outbound, typing_and_reactions
from channels_app.worker import claim_runs, runner
from core.conversations import events, inbox, outbox, runs
from core.conversations.inbox import Draft
from core.database.transactions import atomic_write
from core.messages import text_delta
from core.models import ChannelAccount, ChatSession, User

SENDER = "somebody"


def one_turn(*, account: ChannelAccount, user: User, session: ChatSession, token: str) -> None:
    """Run everything that one question costs: receive, claim, frame, settle, delivery, sweep."""
    now = timezone.now()
    key = keys.authenticate(token=token, now=now)
    assert key is not None
    sessions.free_session(account=account, chat="key:1", user=user)
    sessions.parallel_thread(account=account, chat="key:1", user=user)
    platform = Draft(
        account=account,
        sender=SENDER,
        chat=session.chat,
        update_id=f"new-{now.timestamp()}",
        message_id=f"new-{now.timestamp()}",
        text="hello",
    )
    inbound.receive_sender(draft=platform, now=now, debounce=True)
    runner.waiting([session.id])
    [marks] = typing_and_reactions.marks_of([session.id])
    assert isinstance(marks, list)
    assert len(marks) == 1, "eyes on what was just said, and on nothing else"
    assert typing_and_reactions.were_answered([marks[0].id]) == [False]
    typing_and_reactions.record_cleared(marks[0].id)
    own = Draft(account=account, chat=session.chat, text="hello")
    receipt = inbound.receive_personal(user=user, draft=own, session_id="", now=now)
    assert receipt.run is not None
    [begun] = claim_runs.begin([receipt.run.id], "worker")
    assert isinstance(begun, claim_runs.Begun)
    assert len(begun.prompt.messages) > 2, "the model is told what was said before"
    said: Any = {"type": "text", "props": text_delta("hi", message_id="t").props}
    events.write_batch([(begun.log, [(2, said)], None)])
    events.missing(run_id=begun.run.id, public_id=begun.run.public_id, seq=1)
    outcome = runs.Outcome(state="succeeded", text="hi")
    with atomic_write():
        runs.settle(run=begun.run, outcome=outcome, last_seq=2, also=outbound.enqueue_answer)
        delivery = outbound.put_block(run=begun.run, index=0, payload={"text": "hi"})
    runs.wake_next(session.id)
    claimed = outbox.claim(delivery_id=delivery.id)
    assert claimed is not None
    outbox.sent(delivery=claimed, external_message_id="1")
    sweep()
    with atomic_write():
        assert inbox.flush_due(session_id=session.id, now=now + timedelta(minutes=1))


def sweep() -> None:
    """Run every worker's regular queries."""
    runs.keep(held={1: 1}, worker="worker")
    runs.recover()
    inbox.due_sessions(now=timezone.now())
    outbox.due()
    outbox.lost()
    typing_and_reactions.leftovers()

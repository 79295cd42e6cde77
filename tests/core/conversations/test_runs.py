"""Runs: one at a time per session, fenced, recovered, cancelled, ended exactly once."""

from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.db.models.functions import Now

from core.conversations import events, inbox, runs
from core.conversations.events import Log, LostLeaseError
from core.database import transactions
from core.messages import MessageDict, progress, stream_end
from core.models import (
    ChannelAccount,
    ChatSession,
    InboundMessage,
    Job,
    Message,
    Run,
    User,
    WorkerHeartbeat,
)
from core.signals import pubsub
from tests.allowlist.in_parallel import run_in_parallel
from tests.core.conftest import Say
from tests.servers import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

Woken = list[tuple[str, int]]
OK = runs.Outcome(state=Run.State.SUCCEEDED, text="done")


def end(log: Log, run: Run, outcome: runs.Outcome = OK) -> None:
    """End ``run`` through its log, as the runner does."""
    last = stream_end(
        status="completed", request_id=run.public_id, timestamp_ms=0, duration_ms=0, usage={}
    )
    log.close(lambda seq: runs.settle(run=run, outcome=outcome, last_seq=seq), [last]).result(10)


def claimed(run: Run, worker: str = "w1") -> Run:
    """Return ``run``, claimed by ``worker``."""
    found = runs.claim(run_ids=[run.id], worker=worker).get(run.id)
    assert found is not None
    return found


def expire(run: Run) -> None:
    """Make the lease of ``run`` end now."""
    Run.objects.filter(id=run.id).update(lease_until=Now() - timedelta(seconds=1))


def test_runs_of_a_session_are_claimed_in_order_one_at_a_time(say: Say, woken: Woken) -> None:
    first, second = say("1"), say("2")
    assert runs.claim(run_ids=[second.id], worker="w") == {}
    running = claimed(first)
    assert (running.state, running.attempt, running.worker) == (Run.State.RUNNING, 1, "w1")
    assert runs.claim(run_ids=[first.id], worker="w") == {}
    assert runs.claim(run_ids=[second.id], worker="w") == {}
    end(events.log_of(run=running, seq=0), running)
    assert ("wake", second.id) in woken
    assert claimed(second).text == "2"


def test_sessions_do_not_wait_for_each_other(
    say: Say, account: ChannelAccount, user: User, woken: Woken
) -> None:
    other = inbox.open_session(user=user, account=account, chat="43")
    claimed(say("1"))
    claimed(say("2", into=other))


def test_rc8_one_run_is_claimed_by_one_of_many_workers(say: Say, woken: Woken) -> None:
    """[RC8]"""
    run = say("1")
    taken = run_in_parallel(
        lambda number: runs.claim(run_ids=[run.id], worker=f"w{number}"), times=20
    )
    assert len([each for each in taken if each]) == 1


def test_the_database_refuses_a_second_running_run(say: Say, woken: Woken) -> None:
    first, second = say("1"), say("2")
    claimed(first)
    with pytest.raises(IntegrityError), transactions.atomic_write():
        Run.objects.filter(id=second.id).update(state=Run.State.RUNNING)


def test_a_claim_that_meets_a_running_one_gives_way(
    say: Say, woken: Woken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL two claims may not see each other; the constraint decides."""
    first, second = say("1"), say("2")
    claimed(first)
    monkeypatch.setattr(runs, "earlier", Run.objects.none)
    assert runs.claim(run_ids=[second.id], worker="w") == {}


def test_rc8_a_late_writer_with_an_old_attempt_writes_nothing(say: Say, woken: Woken) -> None:
    """[RC8]"""
    run = say("1")
    old = claimed(run)
    late = events.log_of(run=old, seq=0)
    late.append(progress("first"))
    wait_for_events(run, 1)
    expire(run)
    assert runs.recover() == [run.id]
    new = claimed(run, "w2")
    assert new.attempt == 2
    with pytest.raises(LostLeaseError):
        end(late, old, runs.Outcome(state=Run.State.SUCCEEDED, text="stale"))
    with pytest.raises(LostLeaseError):
        late.append(progress("later"))
    log = events.log_of(run=new, seq=1)
    log.append(progress("second"))
    end(log, new)
    numbers = [(seq, event["props"].get("message")) for seq, event in logged(run)][:2]
    assert numbers == [(1, "first"), (2, "second")]
    assert [seq for seq, event in logged(run) if events.ends(event)] == [3]
    assert Message.objects.filter(run=run, role="assistant").get().text == "done"


def test_an_expired_lease_puts_the_run_back_and_a_kept_one_does_not(say: Say, woken: Woken) -> None:
    run = claimed(say("1"))
    assert runs.keep(held={run.id: 1}, worker="w1") == (set(), set())
    assert runs.recover() == []
    expire(run)
    assert runs.keep(held={run.id: 1}, worker="w1") == (set(), set())
    assert runs.recover() == []
    expire(run)
    assert runs.recover() == [run.id]
    assert runs.keep(held={run.id: 1}, worker="w1") == ({run.id}, set())
    claimed(run, "w2")
    assert runs.keep(held={run.id: 1}, worker="w1") == ({run.id}, set())
    assert runs.keep(held={}, worker="w1") == (set(), set())


def test_a_clean_stop_gives_runs_back_at_once(say: Say, woken: Woken) -> None:
    run = claimed(say("1"))
    woken.clear()
    runs.release(held={run.id: run.attempt})
    assert woken == [("wake", run.id)]
    assert claimed(run, "w2").attempt == 2
    runs.release(held={run.id: 1})
    run.refresh_from_db()
    assert (run.state, run.worker) == (Run.State.RUNNING, "w2")


def test_only_the_first_run_of_each_session_may_start(
    say: Say, account: ChannelAccount, user: User, woken: Woken
) -> None:
    other = inbox.open_session(user=user, account=account, chat="43")
    first, _, third = say("1"), say("2"), say("3", into=other)
    assert runs.recover() == [first.id, third.id]
    assert runs.recover(limit=1) == [first.id]


def test_settling_a_run_ends_its_messages_and_jobs_and_writes_the_transcript(
    say: Say, woken: Woken, session: ChatSession
) -> None:
    run = claimed(say("1"))
    job = Job.objects.create(run=run, tool_call_id="c", tool="t", state=Run.State.RUNNING)
    outcome = runs.Outcome(
        state=Run.State.FAILED, text="half", error="broke", usage={"total_tokens": 3}, images=["i"]
    )
    end(events.log_of(run=run, seq=0), run, outcome)
    run.refresh_from_db()
    job.refresh_from_db()
    assert (run.state, run.error, run.usage, run.last_seq) == (
        "failed",
        "broke",
        {"total_tokens": 3},
        1,
    )
    assert run.result["text"] == "half"
    assert run.finished_at is not None
    assert run.lease_until is None
    assert job.state == Run.State.CANCELLED
    assert InboundMessage.objects.get().state == InboundMessage.State.ANSWERED
    line = Message.objects.get(run=run, role="assistant")
    assert (line.text, line.data["error"], line.data["images"]) == ("half", "broke", ["i"])


def test_an_answer_of_an_earlier_conversation_is_shown_but_not_told_to_the_model(
    say: Say, woken: Woken, session: ChatSession
) -> None:
    run = say("1")
    Run.objects.filter(id=run.id).update(options={"continues": "a run that paused"})
    ChatSession.objects.filter(id=session.id).update(history_from=run.history_from + 1)
    run = claimed(run)
    calls = [{"name": "search", "arguments": "{}", "result": "found"}]
    outcome = runs.Outcome(state=Run.State.SUCCEEDED, text="late", calls=calls)
    end(events.log_of(run=run, seq=0), run, outcome)
    line = Message.objects.get(run=run, role="assistant")
    assert (line.shown, line.text, line.tokens) == ("late", "", 0)
    assert (line.calls, line.call_tokens) == (None, None)


def test_c9_cancelling_tells_the_worker_that_has_the_run(
    say: Say, woken: Woken, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames: list[pubsub.Frame] = []
    monkeypatch.setattr(pubsub, "publish", frames.extend)
    run = claimed(say("1"))
    assert runs.request_cancel(run=run)
    assert runs.request_cancel(run=run)
    assert frames[0] == {"keys": ["runs"], "kind": "cancel", "run_id": run.id}
    assert runs.keep(held={run.id: 1}, worker="w1") == (set(), {run.id})
    end(events.log_of(run=run, seq=0), run)
    assert not runs.request_cancel(run=run)


def test_c9_a_queued_run_that_was_cancelled_is_offered_before_its_turn(
    say: Say, woken: Woken
) -> None:
    first, second = say("1"), say("2")
    claimed(first)
    runs.request_cancel(run=second)
    assert runs.recover() == [second.id]
    found = runs.cancelled_while_queued(second.id)
    assert found == second
    outcome = runs.Outcome(state=Run.State.CANCELLED, error="Stopped.")
    with transactions.atomic_write():
        assert runs.settle_queued(run=second, outcome=outcome, last_seq=2, also=lambda *_: None)
    with transactions.atomic_write():
        assert not runs.settle_queued(run=second, outcome=outcome, last_seq=2, also=lambda *_: None)
    assert runs.cancelled_while_queued(second.id) is None
    assert Message.objects.get(run=second, role="assistant").data["interrupted"] is True


def test_a9_all_open_runs_of_a_person_are_asked_to_end(say: Say, woken: Woken, user: User) -> None:
    first, second = say("1"), say("2")
    claimed(first)
    runs.cancel_all_of(user_id=user.id)
    assert not Run.objects.filter(cancel_requested_at__isnull=True).exists()
    assert runs.open_of([first.session_id, 0]) == {first.session_id: first}
    assert second.cancel_requested_at is None


def test_d8_workers_are_heard_from_and_forgotten(woken: Woken) -> None:
    WorkerHeartbeat.objects.create(
        name="gone", queue="runs", seen_at=transactions.now() - timedelta(days=2)
    )
    runs.heard_from(worker="w", queue="long", problem="it is of yesterday.")
    assert (runs.workers_alive("long"), runs.idle_workers("long")) == (
        0,
        ["A long worker takes no work: it is of yesterday."],
    )
    runs.heard_from(worker="w", queue="runs")
    assert (runs.workers_alive("runs"), runs.workers_alive("long")) == (1, 0)
    runs.forget_silent()
    row = WorkerHeartbeat.objects.get()
    assert str(row) == "w"
    assert abs(transactions.now() - row.seen_at) < timedelta(seconds=30), (
        "the database's clock, in UTC"
    )
    WorkerHeartbeat.objects.update(seen_at=transactions.now() - timedelta(seconds=31))
    assert runs.workers_alive("runs") == 0


def test_the_next_run_is_woken_after_the_commit_also_when_it_came_meanwhile(
    say: Say, woken: Woken
) -> None:
    """A run that is stored while the one before it is being settled must not wait for a sweep."""
    run = claimed(say("1"))
    late: list[Run] = []
    log = events.log_of(run=run, seq=0)

    def finish(seq: int) -> None:
        runs.settle(run=run, outcome=OK, last_seq=seq)
        late.append(say("2"))
        woken.clear()

    log.close(finish, []).result(10)
    assert ("wake", late[0].id) in woken


def logged(run: Run) -> list[tuple[int, MessageDict]]:
    """Return the log of ``run``."""
    return events.after(run_id=run.id, seq=0)


def wait_for_events(run: Run, number: int) -> None:
    """Wait until ``run`` has so many events."""
    wait_until(lambda: len(logged(run)) >= number, seconds=10)

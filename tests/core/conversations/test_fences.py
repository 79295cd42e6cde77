"""A fence stops the worker that lost the run, and no other ([RC8] [C9]); found by mutants."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from core.conversations import events, inbox, runs
from core.database import transactions
from core.database.writes import Insert
from core.lib.tokens import estimate, of_calls
from core.messages import progress, to_dict
from core.models import (
    ChannelAccount,
    InboundMessage,
    Job,
    Message,
    ModelCall,
    Run,
    RunEvent,
    StoredFile,
    User,
)
from core.signals import pubsub, wakeups
from core.signals.live_events import EventFrame
from tests.core.conftest import Say, expire, now_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commits_at_once")]

Woken = list[tuple[str, int]]
OK = runs.Outcome(state=Run.State.SUCCEEDED, text="done")
HOUR = timedelta(hours=1)


@pytest.fixture
def pair(say: Say, account: ChannelAccount, user: User, woken: Woken) -> tuple[Run, Run]:
    """Return two queued runs of two sessions."""
    other = inbox.open_session(user=user, account=account, chat="43")
    return say("1"), say("2", into=other)


def claimed(run: Run, worker: str = "w1") -> Run:
    """Return ``run``, claimed by ``worker``."""
    found = runs.claim(run_ids=[run.id], worker=worker).get(run.id)
    assert found is not None
    return found


def test_rc8_a_claim_takes_one_run_for_the_time_of_a_lease(pair: tuple[Run, Run]) -> None:
    """[RC8] The other run stays queued."""
    first, second = pair
    before = transactions.now()
    found = claimed(first)
    assert found.lease_until is not None
    assert before < found.lease_until < transactions.now() + HOUR
    assert found.started_at is not None
    assert {"session", "user"} <= set(found._state.fields_cache)
    assert "account" in found.session._state.fields_cache
    assert (now_of(second).state, now_of(second).attempt) == (Run.State.QUEUED, 0)


def test_rc8_a_second_attempt_keeps_the_moment_of_the_first(pair: tuple[Run, Run]) -> None:
    """A run's time counts from its first attempt."""
    run, _ = pair
    began = claimed(run).started_at
    expire(run)
    runs.recover()
    assert claimed(run, "w2").started_at == began


def test_rc8_a_lease_is_renewed_by_its_worker_only(pair: tuple[Run, Run]) -> None:
    """[RC8] Not by a worker that lost the run, and not for runs that are not held."""
    first, second = claimed(pair[0]), claimed(pair[1])
    expire(first)
    expire(second)
    assert runs.keep(held={first.id: 1}, worker="w2") == (set(), set())
    assert sorted(runs.recover(limit=0)) == []
    assert now_of(first).state == Run.State.QUEUED
    again = claimed(first, "w3")
    expire(again)
    expire(claimed(second, "w3"))
    runs.keep(held={first.id: 2}, worker="w3")
    kept = now_of(first).lease_until
    assert kept is not None
    assert transactions.now() < kept < transactions.now() + HOUR
    assert runs.recover() == [second.id]


def test_rc8_a_run_that_ended_is_kept_by_no_worker(pair: tuple[Run, Run]) -> None:
    """[RC8] Its worker, which heard of the end too late, renews no lease."""
    run = claimed(pair[0])
    with transactions.atomic_write():
        runs.settle(run=run, outcome=OK, last_seq=1)
    assert runs.keep(held={run.id: 1}, worker="w1") == ({run.id}, set())
    assert now_of(run).lease_until is None


def test_rc8_a_holder_of_an_older_attempt_is_told_of_no_cancellation(pair: tuple[Run, Run]) -> None:
    """[C9] They have lost the run; the new holder stops it."""
    first, second = claimed(pair[0]), claimed(pair[1])
    runs.request_cancel(run=first)
    assert runs.keep(held={first.id: 0, second.id: 1}, worker="w1") == ({first.id}, set())


def test_c9_of_the_runs_that_are_held_those_that_were_asked_to_end_are_told(
    pair: tuple[Run, Run],
) -> None:
    """[C9] By their ids, at any attempt."""
    Run.objects.update(attempt=40)
    first, second = claimed(pair[0]), claimed(pair[1])
    runs.request_cancel(run=first)
    assert runs.keep(held={first.id: 41, second.id: 41}, worker="w1") == (set(), {first.id})


def test_a9_the_runs_of_others_go_on_when_a_person_is_revoked(
    pair: tuple[Run, Run], say: Say, account: ChannelAccount
) -> None:
    """[A9] Only theirs are asked to end."""
    bob = User.objects.create(username="bob")
    other = say("3", into=inbox.open_session(user=bob, account=account, chat="44"))
    runs.cancel_all_of(user_id=pair[0].user_id)
    asked = Run.objects.exclude(cancel_requested_at=None).order_by("id")
    assert list(asked) == list(pair)
    assert now_of(other).cancel_requested_at is None


def test_rc4_a_hub_and_a_broker_that_are_away_undo_no_end(
    pair: tuple[Run, Run], say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RC4] The sweeper wakes the runs whose wake-up was lost."""

    def away(*_: object, **__: object) -> None:
        raise RuntimeError("no broker")

    run = claimed(pair[0])
    say("3")
    monkeypatch.setattr(pubsub, "publish", away)
    monkeypatch.setattr(wakeups, "run", away)
    assert runs.request_cancel(run=run)
    with transactions.atomic_write():
        runs.settle(run=run, outcome=OK, last_seq=1)
    assert now_of(run).state == Run.State.SUCCEEDED


def test_the_end_of_a_run_is_in_the_transcript_and_wakes_the_next(
    pair: tuple[Run, Run], say: Say, woken: Woken
) -> None:
    """With its format, its files and its tokens."""
    run, following = claimed(pair[0]), say("3")
    woken.clear()
    given = runs.Outcome(
        state=Run.State.SUCCEEDED, text="**done** " * 9, format="markdown", files=[{"id": "f"}]
    )
    with transactions.atomic_write():
        runs.settle(run=run, outcome=given, last_seq=1)
    line = Message.objects.get(run=run, role="assistant")
    assert (line.format, line.data["files"]) == ("markdown", [{"id": "f"}])
    assert line.tokens == estimate(given.text) > 9
    assert woken == [("wake", following.id)]


def test_rc8_settling_with_an_old_attempt_does_not_end_the_run(pair: tuple[Run, Run]) -> None:
    """[RC8] The row has its own fence, behind the writer's."""
    old = claimed(pair[0])
    expire(old)
    runs.recover()
    claimed(old, "w2")
    with transactions.atomic_write():
        runs.settle(run=old, outcome=OK, last_seq=1)
    assert now_of(old).state == Run.State.RUNNING


def test_rc8_settling_ends_one_run(pair: tuple[Run, Run]) -> None:
    """[RC8] Neither that of another session with the same attempt, nor a queued one."""
    first, second = claimed(pair[0]), claimed(pair[1])
    with transactions.atomic_write():
        runs.settle(run=first, outcome=OK, last_seq=1)
    assert now_of(first).state == Run.State.SUCCEEDED
    assert now_of(second).state == Run.State.RUNNING
    runs.release(held={second.id: 1})
    with transactions.atomic_write():
        runs.settle(run=second, outcome=OK, last_seq=1)
    assert now_of(second).state == Run.State.QUEUED


def test_rc8_the_end_of_a_run_ends_its_messages_and_jobs(pair: tuple[Run, Run]) -> None:
    """Its messages and jobs end; those of another run, and jobs that had ended, do not change."""
    first, second = claimed(pair[0]), claimed(pair[1])
    made = [
        Job.objects.create(run=run, tool_call_id=state, tool="t", state=state)
        for run in (first, second)
        for state in (Run.State.QUEUED, Run.State.RUNNING, Run.State.SUCCEEDED)
    ]
    purged = InboundMessage.objects.create(
        account=first.session.account, run=first, state="purged", received_at=transactions.now()
    )
    with transactions.atomic_write():
        runs.settle(run=first, outcome=OK, last_seq=1)
    states = [Job.objects.get(id=each.id).state for each in made]
    assert states == ["cancelled", "cancelled", "succeeded", "queued", "running", "succeeded"]
    said = InboundMessage.objects.exclude(id=purged.id).order_by("run_id")
    assert [each.state for each in said] == ["answered", "batched"]
    purged.refresh_from_db()
    assert purged.state == "purged"


@pytest.mark.parametrize("state", [Run.State.CANCELLED, Run.State.SUCCEEDED])
def test_c9_files_that_a_stopped_run_did_not_hand_over_are_taken_back(
    pair: tuple[Run, Run], state: str
) -> None:
    """[C9] Neither the person's uploads nor files of another run; a successful run keeps all."""
    first, second = claimed(pair[0]), claimed(pair[1])

    def file(name: str, run: Run, **more: Any) -> StoredFile:
        return StoredFile.objects.create(
            user=run.user, run=run, name=name, size=1, **{"origin": "made", **more}
        )

    before = transactions.now() - HOUR
    given, late = file("given", first), file("late", first)
    file("sent", first, origin="sent"), file("other", second)
    file("old", first, revoked_at=before)
    outcome = runs.Outcome(state=state, files=[{"id": given.public_id}, {"name": "no id"}])
    with transactions.atomic_write():
        runs.settle(run=first, outcome=outcome, last_seq=1)
    revoked = {row.name: row.revoked_at for row in StoredFile.objects.exclude(revoked_at=None)}
    assert revoked.pop("old") == before
    assert set(revoked) == ({late.name} if state == Run.State.CANCELLED else set())


def test_the_sessions_oldest_queued_run_is_woken_and_no_other(
    pair: tuple[Run, Run], say: Say, woken: Woken
) -> None:
    """After the one before it, and only one: the session's others wait for their turn."""
    running, _ = claimed(pair[0]), pair[1]
    following, _ = say("3"), say("4")
    woken.clear()
    runs.wake_next(running.session_id)
    assert woken == [("wake", following.id)]


def test_rc8_settling_calls_its_callback_once_with_the_outcome(
    pair: tuple[Run, Run],
) -> None:
    """Deliveries are made in the transaction of the end."""
    run = claimed(pair[0])
    told: list[tuple[Run, runs.Outcome]] = []
    with transactions.atomic_write():
        runs.settle(run=run, outcome=OK, last_seq=7, also=lambda *each: told.append(each))
    assert told == [(run, OK)]
    assert now_of(run).last_seq == 7


def test_c9_a_queued_run_is_ended_under_its_fence(pair: tuple[Run, Run]) -> None:
    """[C9] A run that a worker took meanwhile is left to it, and the other run is untouched."""
    first, second = pair
    told: list[tuple[Run, runs.Outcome]] = []
    stopped = runs.Outcome(state=Run.State.CANCELLED, error="Stopped.")
    taken = claimed(first)
    with transactions.atomic_write():
        assert not runs.settle_queued(run=taken, outcome=stopped, last_seq=1, also=lambda *_: None)
    with transactions.atomic_write():
        assert not runs.settle_queued(
            run=first, outcome=stopped, last_seq=1, also=lambda *each: told.append(each)
        )
    runs.release(held={first.id: 1})
    with transactions.atomic_write():
        assert not runs.settle_queued(
            run=first, outcome=stopped, last_seq=1, also=lambda *each: told.append(each)
        )
    assert told == []
    assert not Message.objects.filter(role="assistant").exists()
    current = now_of(first)
    with transactions.atomic_write():
        assert runs.settle_queued(
            run=current, outcome=stopped, last_seq=3, also=lambda *each: told.append(each)
        )
    assert told == [(current, stopped)]
    assert (now_of(first).state, now_of(first).last_seq) == (Run.State.CANCELLED, 3)
    assert now_of(first).error == "Stopped."
    assert now_of(second).state == Run.State.QUEUED


def test_c9_only_a_queued_run_that_was_asked_to_end_is_offered_for_it(
    pair: tuple[Run, Run],
) -> None:
    """[C9] With its session, person and account, in one query."""
    first, second = pair
    runs.request_cancel(run=first)
    assert runs.cancelled_while_queued(second.id) is None
    found = runs.cancelled_while_queued(first.id)
    assert found is not None
    assert {"session", "user"} <= set(found._state.fields_cache)
    assert "account" in found.session._state.fields_cache
    claimed(first)
    assert runs.cancelled_while_queued(first.id) is None


def test_c9_asking_one_run_to_end_asks_no_other_and_keeps_the_first_moment(
    pair: tuple[Run, Run], woken: Woken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C9] A later request does not change the time; a finished run is not asked."""
    frames: list[pubsub.Frame] = []
    monkeypatch.setattr(pubsub, "publish", frames.extend)
    first, second = claimed(pair[0]), pair[1]
    woken.clear()
    assert runs.request_cancel(run=first)
    asked = timezone.now() - timedelta(minutes=1)
    Run.objects.filter(id=first.id).update(cancel_requested_at=asked)
    assert runs.request_cancel(run=first)
    assert now_of(first).cancel_requested_at == asked
    assert now_of(second).cancel_requested_at is None
    assert woken == [("wake", first.id)] * 2
    with transactions.atomic_write():
        runs.settle(run=first, outcome=OK, last_seq=1)
    woken.clear()
    frames.clear()
    assert not runs.request_cancel(run=first)
    assert (woken, frames) == ([], [])


def test_x56_a_held_run_that_is_asked_to_end_is_queued_for_it(pair: tuple[Run, Run]) -> None:
    """[X56] No worker takes a held run; one under way stays with its worker."""
    held, ours = pair[0], claimed(pair[1])
    Run.objects.filter(id=held.id).update(state=Run.State.HELD)
    assert runs.request_cancel(run=held)
    assert runs.request_cancel(run=ours)
    assert [now_of(each).state for each in pair] == [Run.State.QUEUED, Run.State.RUNNING]
    assert runs.cancelled_while_queued(held.id) == held


def test_the_end_of_a_run_is_stored_with_the_calls_and_the_model_of_its_answer(
    pair: tuple[Run, Run],
) -> None:
    """And with the rows that belong to it, in one transaction; an answer without them has none."""
    ours, plain = (claimed(each) for each in pair)
    calls = [{"id": "1", "name": "current_time", "arguments": "{}", "result": "noon"}]
    outcome = replace(OK, calls=calls, answered_by="the second model")
    now = timezone.now()
    used = ModelCall(run=ours, user=ours.user, created_at=now, day=now.date())
    with transactions.atomic_write():
        runs.settle(run=ours, outcome=outcome, last_seq=1, with_it=[Insert(used)])
        runs.settle(run=plain, outcome=OK, last_seq=1)
    answer = Message.objects.get(run=ours, role="assistant")
    assert (answer.calls, answer.call_tokens) == (calls, of_calls(calls))
    assert answer.data["answered_by"] == "the second model"
    assert ModelCall.objects.get().run == ours
    answer = Message.objects.get(run=plain, role="assistant")
    assert (answer.calls, answer.call_tokens) == (None, None)
    assert "answered_by" not in answer.data


def test_rc8_recovering_takes_a_run_only_after_its_lease_ended(
    pair: tuple[Run, Run],
) -> None:
    """[RC8] It is queued as at first; a holder that renews its lease keeps the run."""
    first, second = claimed(pair[0]), claimed(pair[1])
    expire(first)
    assert runs.recover() == [first.id]
    found = now_of(first)
    assert (found.state, found.lease_until, found.worker) == (Run.State.QUEUED, None, "")
    assert (now_of(second).state, now_of(second).worker) == (Run.State.RUNNING, "w1")


def test_rc8_a_run_that_ended_is_not_recovered(pair: tuple[Run, Run]) -> None:
    """[RC8] Whatever lease its row still has."""
    run = claimed(pair[0])
    with transactions.atomic_write():
        runs.settle(run=run, outcome=OK, last_seq=1)
    expire(run)
    assert runs.recover() == [pair[1].id]
    assert now_of(run).state == Run.State.SUCCEEDED


def test_rc8_a_clean_stop_gives_back_the_held_runs_and_no_more(
    pair: tuple[Run, Run], woken: Woken
) -> None:
    """[RC8] Free at once; runs of other workers and finished runs do not change."""
    first, second = claimed(pair[0]), claimed(pair[1])
    woken.clear()
    runs.release(held={first.id: 1})
    assert woken == [("wake", first.id)]
    found = now_of(first)
    assert (found.state, found.lease_until, found.worker) == (Run.State.QUEUED, None, "")
    assert now_of(second).state == Run.State.RUNNING
    with transactions.atomic_write():
        runs.settle(run=second, outcome=OK, last_seq=1)
    runs.release(held={second.id: 1})
    assert now_of(second).state == Run.State.SUCCEEDED
    claimed(first, "w2")
    runs.release(held={first.id: 1})
    assert now_of(first).worker == "w2"


def test_unheld_logs_are_written_and_published_for_every_run(
    pair: tuple[Run, Run], published: list[EventFrame]
) -> None:
    """Runs that are claimed in one batch start their logs in one batch."""
    events.append_all_unheld([(run, 0, [progress(f"hello {run.id}")]) for run in pair])
    rows = list(RunEvent.objects.order_by("run_id").values_list("run_id", "seq"))
    assert rows == [(run.id, 1) for run in pair]
    stored = [event["props"] for run in pair for _, event in events.after(run_id=run.id, seq=0)]
    told = [each["events"][0]["props"] for each in published]
    assert told == [to_dict(progress(f"hello {run.id}"))["props"] for run in pair] == stored


def test_rc8_a_batch_writes_for_the_runs_that_are_ours_and_marks_the_others(
    pair: tuple[Run, Run],
) -> None:
    """[RC8] One lost run among many costs the others nothing; a lost one stays lost."""
    lost, ours = claimed(pair[0]), claimed(pair[1])
    expire(lost)
    runs.recover()
    late, log = events.log_of(run=lost, seq=0), events.log_of(run=ours, seq=0)
    ended: list[str] = []
    event = to_dict(progress("working"))
    batch: events.Batch = [
        (late, [(1, event)], lambda seq: ended.append(f"lost {seq}")),
        (log, [(1, event), (2, event)], lambda seq: ended.append(f"ours {seq}")),
    ]
    events.write_batch(batch)
    assert (late.lost, log.lost, ended) == (True, False, ["ours 2"])
    found = RunEvent.objects.order_by("run_id", "seq").values_list("run_id", "seq")
    assert list(found) == [(ours.id, 1), (ours.id, 2)]
    claimed(lost, "w1")
    Run.objects.filter(id=lost.id).update(attempt=1)
    events.write_batch([(late, [(2, event)], None)])
    assert RunEvent.objects.count() == 2
    assert late.lost


def test_rc8_the_writer_asks_for_its_own_runs_only(pair: tuple[Run, Run]) -> None:
    """[RC8] Where rows are locked, it would hold up all other workers otherwise."""
    ours, other = (claimed(each) for each in pair)
    assert events.ADD([ours.id], []) == {ours.id: 1}
    assert events.ADD([ours.id, other.id], []) == {ours.id: 1, other.id: 1}

"""A job's fence: one holder, one end, no other row; found by mutants ([L2] [C9])."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.conversations import jobs, runs, shares
from core.conversations.events import LostLeaseError
from core.database import transactions
from core.database.transactions import atomic_write
from core.files import storage
from core.models import ChatSession, Job, ModelCall, Run, StoredFile, User
from core.signals import pubsub, wakeups
from tests.core.conftest import Say, expire, now_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("commits_at_once")]

Begin = Callable[[str], Job]
HOUR = timedelta(hours=1)


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str]]:
    """Return the wake-ups that were sent, with their queues."""
    sent: list[tuple[str, int, str]] = []

    def send(task: str, row_id: int, *, queue_name: str = "runs") -> None:
        sent.append((task, row_id, queue_name))

    monkeypatch.setattr(wakeups, "send", send)
    return sent


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> list[pubsub.Frame]:
    """Return the published frames, in order."""
    sent: list[pubsub.Frame] = []
    monkeypatch.setattr(pubsub, "publish", sent.extend)
    return sent


@pytest.fixture
def run(say: Say, woken: list[tuple[str, int, str]], frames: list[pubsub.Frame]) -> Run:
    """Return a run that a worker holds."""
    (found,) = runs.claim(run_ids=[say("slides").id], worker="w").values()
    woken.clear()
    return found


@pytest.fixture
def begin(run: Run, woken: list[tuple[str, int, str]]) -> Begin:
    """Return ``begin("a")``: it makes a queued job of the run for the tool call a."""

    def make(call: str) -> Job:
        made = jobs.begin(run_id=run.id, call_id=call, tool="t", parameters={})
        woken.clear()
        return Job.objects.get(id=made)

    return make


def claimed(job: Job) -> Job:
    """Return ``job``, claimed by a worker."""
    found = jobs.claim(job_id=job.id)
    assert found is not None
    return found


def lost(job: Job) -> Job:
    """Return ``job`` as seen by a holder that lost its lease and job to another one."""
    old = claimed(job)
    expire(old)
    jobs.recover()
    claimed(job)
    return old


def test_l2_a_tool_call_begins_one_job_and_wakes_its_worker_once(
    run: Run, woken: list[tuple[str, int, str]]
) -> None:
    """[L2] For any id of a call: a long id is stored as its digest."""
    ask = partial(jobs.begin, run_id=run.id, tool="t", parameters={"a": 1})
    made = [ask(call_id=call) for call in ("b", "a", "x" * 100, "x" * 101, "x" * 102)]
    assert woken == [("core.long.work", each, "long") for each in made]
    assert len(set(made)) == 5
    stored = Job.objects.values_list("tool", "parameters", "state", "lease_until").distinct()
    assert list(stored) == [("t", {"a": 1}, "queued", None)]
    woken.clear()
    assert [ask(call_id=call) for call in ("b", "x" * 100, "x" * 101)] == [made[0], *made[2:4]]
    assert woken == []
    assert Job.objects.get(id=made[2]).tool_call_id == "x" * 100
    assert Job.objects.get(id=made[3]).tool_call_id == sha256(b"x" * 101).hexdigest()


def test_l2_a_worker_that_froze_begins_no_job_of_a_run_that_has_ended(
    run: Run, begin: Begin, woken: list[tuple[str, int, str]]
) -> None:
    """[L2] Another worker has ended it, and cancelled its jobs: this one would be worked on."""
    begin("a")
    with atomic_write():
        runs.settle(run=run, outcome=runs.Outcome(state="succeeded", text="done"), last_seq=1)
    with pytest.raises(LostLeaseError):
        jobs.begin(run_id=run.id, call_id="b", tool="t", parameters={})
    assert [each.state for each in Job.objects.all()] == [Run.State.CANCELLED]
    assert not [each for each in woken if each[0] == "core.long.work"]


def test_l2_the_jobs_that_a_run_began_are_found_in_their_order(begin: Begin, say: Say) -> None:
    """[L2] Cancelled jobs are not waited for; those of other runs are left out."""
    later, sooner, stopped = begin("b"), begin("a"), begin("c")
    Job.objects.filter(id=stopped.id).update(state=Run.State.CANCELLED)
    other = say("another")
    jobs.begin(run_id=other.id, call_id="a", tool="t", parameters={})
    assert jobs.begun(run_id=later.run_id) == [later, sooner]


def test_l2_a_hub_that_is_away_does_not_undo_a_change(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RC4] A follower reads the job once a second anyway."""

    def away(_: object) -> None:
        raise RuntimeError("no broker")

    job, other = claimed(begin("a")), claimed(begin("b"))
    monkeypatch.setattr(pubsub, "publish", away)
    jobs.tell(job=job, message="half", percent=50)
    jobs.finish(job=job, result={}, made=[])
    jobs.fail(job=other, error="no")
    assert [now_of(each).state for each in (job, other)] == ["succeeded", "failed"]


def test_l2_jobs_are_taken_by_person_first_then_by_order(begin: Begin) -> None:
    """One with five jobs does not hold back another with one; each is taken once."""
    first, *rest = (begin(f"call-{number}") for number in range(5))
    other = User.objects.create(username="other")
    session = ChatSession.objects.create(user=other, account=first.run.session.account, chat="o")
    run = Run.objects.create(session=session, user=other, origin="test", state="running")
    theirs = Job.objects.create(run=run, tool_call_id="o", tool="t")
    taken = [jobs.claim_next() for _ in range(7)]
    assert [each and each.id for each in taken] == [
        first.id, theirs.id, *(each.id for each in rest), None,
    ]  # fmt: skip


def test_l2_a_worker_whose_job_another_took_takes_the_one_that_came_meanwhile(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its wake-up is the only one that is left: a job would wait for the next, in half a minute."""
    first = begin("a")
    came: list[Job] = []
    in_turn = shares.in_turn

    def late(*args: Any, **options: Any) -> list[int]:
        """Another worker, woken for a second job, takes the first one after our look."""
        order = in_turn(*args, **options)
        if not came:
            came.append(begin("b"))
            claimed(first)
        return order

    monkeypatch.setattr(jobs, "in_turn", late)
    taken = jobs.claim_next()
    assert taken is not None
    assert taken.id == came[0].id
    assert jobs.claim_next() is None


def test_l2_a_claim_takes_one_job_for_the_time_of_a_lease(begin: Begin) -> None:
    """[L2] With everything that the work needs, in one query."""
    first, second = begin("a"), begin("b")
    expire(first)
    found = claimed(first)
    assert (found.state, found.attempt) == (Run.State.RUNNING, 1)
    assert found.lease_until is not None
    assert transactions.now() < found.lease_until < transactions.now() + HOUR
    assert "run" in found._state.fields_cache
    assert {"session", "user"} <= set(found.run._state.fields_cache)
    assert (now_of(second).state, now_of(second).attempt) == (Run.State.QUEUED, 0)
    assert jobs.claim(job_id=first.id) is None


def test_l2_a_job_is_given_up_after_its_fifth_death(begin: Begin) -> None:
    """[L2] Not before, and with an error text for the user."""
    job = begin("a")
    Job.objects.update(attempt=4)
    assert claimed(job).attempt == 5
    Job.objects.update(state=Run.State.QUEUED)
    assert jobs.claim(job_id=job.id) is None
    assert (now_of(job).state, now_of(job).error) == (Run.State.FAILED, jobs.GAVE_UP)


def test_l2_a_lease_is_renewed_by_its_holder_only(begin: Begin) -> None:
    """[L2] A holder that lost the job gets False, and renews nothing."""
    first, second = claimed(begin("a")), claimed(begin("b"))
    expire(first)
    expire(second)
    assert jobs.keep(job=first)
    kept: Any = now_of(first).lease_until
    assert transactions.now() < kept < transactions.now() + HOUR
    assert jobs.recover() == [second.id]
    assert now_of(second).state == Run.State.QUEUED
    assert now_of(first).state == Run.State.RUNNING
    assert not jobs.keep(job=second)
    old = lost(begin("c"))
    expire(old)
    assert not jobs.keep(job=old)
    assert not jobs.is_ours(job=old)


def test_c9_a_job_is_not_ours_any_more_when_its_run_was_asked_to_end(begin: Begin) -> None:
    """[C9] Its lease still is: the holder ends its own work."""
    job = claimed(begin("a"))
    assert jobs.is_ours(job=job)
    runs.request_cancel(run=job.run)
    assert not jobs.is_ours(job=job)
    assert jobs.keep(job=job)
    with pytest.raises(jobs.LostJobError):
        jobs.tell(job=job, message="half", percent=50)
    with pytest.raises(jobs.LostJobError):
        jobs.finish(job=job, result={}, made=[])


def test_l2_progress_is_told_by_the_holder_only(begin: Begin, frames: list[pubsub.Frame]) -> None:
    """[L2] [D2] In whole percent between 0 and 100, never falling, on one line, with a hint."""
    job, other = claimed(begin("a")), claimed(begin("b"))
    expire(job)
    frames.clear()
    jobs.tell(job=job, message="slide\n3", percent=33.9)
    found = now_of(job)
    assert (found.message, found.percent) == ("slide 3", 33)
    assert found.lease_until is not None
    assert found.lease_until > transactions.now()
    assert frames == [{"keys": [f"job:{job.id}"], "kind": "job"}]
    for given, kept in ((-5.0, 33), (None, 33), (0.9, 33), (60.9, 60), (250.0, 100), (5.0, 100)):
        jobs.tell(job=job, message="m" * 400, percent=given)
        assert now_of(job).percent == kept
    fresh = claimed(begin("d"))
    jobs.tell(job=fresh, message="m", percent=None)
    assert now_of(fresh).percent is None
    for given, kept in ((-5.0, 0), (0.9, 0), (1.0, 1), (100.0, 100)):
        jobs.tell(job=fresh, message="m", percent=given)
        assert now_of(fresh).percent == kept
    assert len(now_of(job).message) == jobs.MESSAGE_CHARACTERS
    assert (now_of(other).message, now_of(other).percent) == ("", None)
    old = lost(begin("c"))
    with pytest.raises(jobs.LostJobError):
        jobs.tell(job=old, message="late", percent=1)
    assert now_of(old).message == ""


def made(name: str) -> storage.Made:
    """Return a file that a job finished."""
    path = storage.new_path()
    path.write_bytes(b"PK")
    return storage.Made(path=path, name=name, mime="application/zip")


def test_l2_one_holder_finishes_with_its_files(begin: Begin, frames: list[pubsub.Frame]) -> None:
    """[L2] One artifact however often the worker dies; a late holder leaves no row."""
    job, other = claimed(begin("a")), claimed(begin("b"))
    frames.clear()
    jobs.finish(job=job, result={"words": "done"}, made=[made("a.zip")])
    found, file = now_of(job), StoredFile.objects.get(name="a.zip")
    assert found.result == {"words": "done", "files": [file.public_id]}
    assert (found.state, found.percent, found.lease_until) == (Run.State.SUCCEEDED, 100, None)
    assert found.finished_at is not None
    assert file.run_id == job.run_id
    assert frames == [{"keys": [f"job:{job.id}"], "kind": "job"}]
    assert jobs.has_succeeded(job=job)
    assert not jobs.has_succeeded(job=other)
    assert now_of(other).state == Run.State.RUNNING
    with pytest.raises(jobs.LostJobError):
        jobs.finish(job=job, result={}, made=[made("b.zip")])
    old = lost(begin("c"))
    with pytest.raises(jobs.LostJobError):
        jobs.finish(job=old, result={}, made=[made("c.zip")])
    assert now_of(old).state == Run.State.RUNNING
    assert StoredFile.objects.count() == 1
    jobs.finish(job=now_of(old), result={}, made=[])
    assert not jobs.has_succeeded(job=old)


def test_l2_one_holder_fails_with_words(begin: Begin, frames: list[pubsub.Frame]) -> None:
    """[L2] A late holder changes nothing; nor does a failure after the success."""
    job, other = claimed(begin("a")), claimed(begin("b"))
    frames.clear()
    jobs.fail(job=job, error="no\nsource " + "x" * 600)
    found = now_of(job)
    assert (found.state, found.lease_until) == (Run.State.FAILED, None)
    assert found.error.startswith("no source x")
    assert len(found.error) == 500
    assert found.finished_at is not None
    assert frames == [{"keys": [f"job:{job.id}"], "kind": "job"}]
    assert now_of(other).state == Run.State.RUNNING
    jobs.fail(job=lost(begin("c")), error="late")
    assert not Job.objects.filter(error="late").exists()


def test_l2_a_job_whose_process_died_is_free_at_once(
    begin: Begin, woken: list[tuple[str, int, str]]
) -> None:
    """[L2] Woken in its own queue; a late holder frees nothing."""
    job, other = claimed(begin("a")), claimed(begin("b"))
    woken.clear()
    jobs.release(job=job)
    assert woken == [("core.long.work", job.id, "long")]
    assert now_of(job).state == Run.State.QUEUED
    assert now_of(job).lease_until is None
    assert now_of(other).state == Run.State.RUNNING
    assert claimed(job).attempt == 2
    woken.clear()
    jobs.release(job=job)
    assert woken == []
    assert now_of(job).state == Run.State.RUNNING


def test_l2_a_job_whose_process_dies_again_is_free_later_each_time(
    begin: Begin, woken: list[tuple[str, int, str]], settings: Any
) -> None:
    """[L2] At once after its first death, and after its last one, when it is given up. A late
    holder changes nothing.
    """
    settings.RUN_LEASE_SECONDS = 500
    job = claimed(begin("a"))
    late = now_of(job)
    jobs.retry(job=job)
    for attempt in range(2, jobs.MOST_ATTEMPTS):
        assert now_of(job).state == Run.State.QUEUED
        job, before = claimed(job), transactions.now()
        jobs.retry(job=late)
        jobs.put_back(job=late)
        jobs.retry(job=job)
        held = now_of(job)
        assert (held.state, held.attempt) == (Run.State.RUNNING, attempt)
        assert held.lease_until is not None
        assert 0 <= (held.lease_until - before).total_seconds() - 100 * (attempt - 1) < 90
        Job.objects.filter(id=job.id).update(lease_until=before)
        jobs.recover()
    jobs.retry(job=claimed(job))
    assert now_of(job).state == Run.State.QUEUED
    assert jobs.claim(job_id=job.id) is None
    assert now_of(job).error == jobs.GAVE_UP


def test_l2_a_job_that_no_process_could_begin_is_as_before_its_claim(begin: Begin) -> None:
    """[L2] Others may claim it, under the same attempt."""
    job, other = claimed(begin("a")), claimed(begin("b"))
    jobs.put_back(job=job)
    put = now_of(job)
    assert (put.state, put.attempt, put.lease_until) == (Run.State.QUEUED, 0, None)
    assert now_of(other).state == Run.State.RUNNING
    assert claimed(job).attempt == 1


def test_l2_calls_of_models_that_a_dead_attempt_left_open_are_settled_by_the_next(
    begin: Begin, woken: list[tuple[str, int, str]]
) -> None:
    """[L2] At once, not with the next sweep; those of other jobs stay."""
    job, other = claimed(begin("a")), claimed(begin("b"))
    left, going_on = (
        ModelCall.objects.create(
            run=each.run, job_id=each.id, attempt=1, state="open", day=transactions.now().date()
        )
        for each in (job, other)
    )
    jobs.release(job=job)
    claimed(job)
    for call, is_settled in ((left, True), (going_on, False)):
        call.refresh_from_db()
        assert (call.state != "open") is is_settled


def test_l2_recovering_frees_overdue_jobs_and_wakes_their_workers(
    begin: Begin, woken: list[tuple[str, int, str]]
) -> None:
    """[L2] In their order; jobs with a lease, queued or over are left alone."""
    first, second, kept, waiting = (begin(call) for call in "abcd")
    for each in (second, first, kept):
        claimed(each)
    over = claimed(begin("e"))
    jobs.fail(job=over, error="no")
    for each in (first, second, waiting, over):
        expire(each)
    woken.clear()
    assert jobs.recover() == [first.id, second.id]
    assert woken == [("core.long.work", each.id, "long") for each in (first, second)]
    states = [now_of(each).state for each in (first, second, kept, waiting, over)]
    assert states == ["queued", "queued", "running", "queued", "failed"]
    assert now_of(first).lease_until is None
    woken.clear()
    assert jobs.recover() == []
    assert woken == []


def test_l2_the_process_of_a_job_gets_the_row_of_its_own_claim_only(begin: Begin) -> None:
    """[L2]"""
    _, job = (claimed(begin(call)) for call in "ba")
    found = jobs.claimed(job_id=job.id, attempt=1)
    assert found == job
    with CaptureQueriesContext(connection) as queries:
        assert found.run.session.public_id
        assert found.run.user.username
    assert len(queries) == 0
    assert jobs.claimed(job_id=job.id, attempt=2) is None
    assert jobs.claimed(job_id=begin("c").id, attempt=0) is None


def test_l2_a_job_is_wanted_while_it_is_ours_and_when_it_has_ended_itself(begin: Begin) -> None:
    """[L2] [C9] Else its process is killed; one that is just ending, and sends spans, is not."""
    job, other, done = (claimed(begin(call)) for call in "abc")
    jobs.finish(job=done, result={}, made=[])
    jobs.fail(job=other, error="no")
    assert [jobs.is_wanted(job=each) for each in (job, other, done)] == [True, True, True]
    assert not jobs.is_wanted(job=lost(begin("d")))
    expire(overdue := claimed(begin("e")))
    assert jobs.recover() == [overdue.id]
    assert not jobs.is_wanted(job=overdue)  # it waits for another attempt
    runs.request_cancel(run=job.run)
    assert [jobs.is_wanted(job=each) for each in (job, done)] == [False, True]


def test_l2_one_job_may_be_recovered_alone(begin: Begin, woken: list[tuple[str, int, str]]) -> None:
    """[L2] By a follower that finds it late."""
    overdue, other = claimed(begin("a")), claimed(begin("b"))
    queued = begin("c")
    assert [seen.is_late for each in (overdue, queued) if (seen := jobs.view(each.id))] == [
        False
    ] * 2
    for each in (overdue, other, queued):
        expire(each)
    assert [seen.is_late for each in (overdue, queued) if (seen := jobs.view(each.id))] == [
        True
    ] * 2
    woken.clear()
    assert jobs.recover(job_id=overdue.id) == [overdue.id]
    assert woken == [("core.long.work", overdue.id, "long")]
    assert now_of(other).state == Run.State.RUNNING
    seen = jobs.view(overdue.id)
    assert seen
    assert not seen.is_late

"""[L2] A worker that dies costs time, never a second file; leases, fences and limits of jobs."""

import asyncio
import base64
import time
from contextlib import aclosing
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models.functions import Now
from pytest_django import Settings

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import inbound
from channels_app.worker import runner as runner_module
from channels_app.worker.runner import Runner
from core.conversations import events, inbox, jobs, runs
from core.database import transactions
from core.files import storage
from core.jobs_worker import starter, work
from core.messages import progress
from core.models import Job, Run, StoredFile, User
from core.signals import pubsub, wakeups
from core.tools import waiting
from core.tools.base import ToolContext
from tests.core.jobs_worker import papers
from tests.core.jobs_worker.conftest import Say, Worker, ended
from tests.core.jobs_worker.slides import SLIDES
from tests.core.jobs_worker.test_asked import ASKED, CALL, WAYS, lines
from tests.servers import wait_until

HANG = {**CALL, "parameters": {"topic": "hang"}}
pytestmark = pytest.mark.django_db(transaction=True)


def begun(run: Run, *, topic: str = "bees") -> Job:
    """Return a job of ``run``, claimed."""
    asked = {**CALL, "parameters": {"topic": topic, "language": "en"}}
    job_id = jobs.begin(run_id=run.id, call_id="c", tool="route_to_plugin", parameters=asked)
    job = jobs.claim(job_id=job_id)
    assert job
    return job


def expire(job: Job) -> None:
    """Make the lease of a job end now."""
    Job.objects.filter(id=job.id).update(lease_until=Now() - timedelta(seconds=1))


def test_l2_the_same_call_is_the_same_job(run: Run) -> None:
    first = jobs.begin(run_id=run.id, call_id="c" * 300, tool="t", parameters={})
    assert jobs.begin(run_id=run.id, call_id="c" * 300, tool="t", parameters={}) == first
    assert jobs.claim(job_id=first)
    assert jobs.claim(job_id=first) is None


def test_l2_a_worker_that_was_too_slow_is_refused_and_the_second_one_makes_the_file(
    run: Run,
) -> None:
    slow = begun(run)
    expire(slow)
    assert jobs.recover() == [slow.id]
    second = jobs.claim(job_id=slow.id)
    assert second
    assert second.attempt == 2
    asyncio.run(work.perform(slow))  # its fence is old: it must leave nothing
    assert not StoredFile.objects.exists()
    asyncio.run(work.perform(second))
    assert Job.objects.get().state == "succeeded"
    assert storage.read(StoredFile.objects.get()) == b"bees en"
    asyncio.run(work.perform(second))
    assert StoredFile.objects.count() == 1


def test_l2_a_worker_that_dies_after_its_success_takes_no_file_with_it(run: Run) -> None:
    """Its parent sees a row that is not running any more, or an exit code: the file stays."""
    job = begun(run)
    asyncio.run(work.perform(job))
    stored = StoredFile.objects.get()
    assert starter.why_not(job, time.monotonic() + 60) is None
    starter.after(job, -9)
    work.discard(job)
    assert Job.objects.get().state == "succeeded"
    assert storage.read(stored) == b"bees en"


def test_l2_a_job_that_kills_its_workers_is_given_up_with_words(run: Run) -> None:
    """[RC7]"""
    job = begun(run)
    for _ in range(jobs.MOST_ATTEMPTS - 1):
        expire(job)
        jobs.recover()
        assert jobs.claim(job_id=job.id)
    expire(job)
    jobs.recover()
    assert jobs.claim(job_id=job.id) is None
    view = jobs.view(job.id)
    assert view
    assert waiting.told(view).text == jobs.GAVE_UP


def test_l2_waiting_for_a_job_wakes_it_without_the_sweeper(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker died: the waiting run notices first."""
    job = begun(run)
    expire(job)
    woken: list[int] = []
    monkeypatch.setattr(wakeups, "send", lambda task, row_id, **_: woken.append(row_id))

    async def states() -> list[str]:
        seen = []
        async with aclosing(jobs.follow(job_id=job.id)) as views:
            async for view in views:
                seen.append(view.state)
                if len(seen) == 3:
                    break
        await pubsub.local().close()
        return seen

    assert asyncio.run(asyncio.wait_for(states(), 60)) == ["running", "queued", "queued"]
    assert woken == [job.id]


@pytest.mark.parametrize("name", ["begin", "tell", "finish", "view", "adopt"])
def test_l2_a_task_outlives_a_database_that_is_away_for_a_moment(
    name: str, worker: Worker, script: Any, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart of it, wherever the task is."""
    script([{"match": "PPT", "steps": WAYS["calls the tool"]}])
    module = storage if name == "adopt" else jobs
    known, tries = getattr(module, name), []

    def away_at_first(*args: Any, **named: Any) -> Any:
        tries.append(name)
        if len(tries) == 1:
            raise OperationalError("the connection was closed")
        return known(*args, **named)

    monkeypatch.setattr(module, name, away_at_first)
    run = say(ASKED)
    assert len(tries) > 1
    assert (run.state, run.result["format"]) == ("succeeded", "link")
    assert (Job.objects.get().state, StoredFile.objects.count()) == ("succeeded", 1)


def test_l2_a_task_outlives_a_database_that_is_away_for_longer_than_a_lease(
    worker: Worker, script: Any, say: Say, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """A failover: the model was told that the tool had failed, and the task was cancelled."""
    settings.RUN_LEASE_SECONDS = 1
    script([{"match": "PPT", "steps": WAYS["calls the tool"]}])
    known, tries = jobs.view, list[float]()

    def away(job_id: int) -> jobs.View | None:
        tries.append(time.monotonic())
        if tries[-1] < tries[0] + 2:
            raise OperationalError("the server is not there")
        return known(job_id)

    monkeypatch.setattr(jobs, "view", away)
    run = say(ASKED)
    assert (run.state, run.result["format"]) == ("succeeded", "link")
    assert (Job.objects.get().state, StoredFile.objects.count()) == ("succeeded", 1)


def test_l2_the_end_of_a_run_ends_its_jobs(run: Run) -> None:
    job = begun(run)
    log = events.log_of(run=run, seq=0)
    done = log.close(
        lambda seq: runs.settle(run=run, outcome=runs.Outcome("cancelled"), last_seq=seq),
        [progress("x")],
    )
    done.result(30)
    assert Job.objects.get().state == "cancelled"
    with pytest.raises(jobs.LostJobError):
        jobs.tell(job=job, message="still here", percent=1)
    asyncio.run(work.perform(job))
    assert not StoredFile.objects.exists()


def test_l2_a_run_that_is_tried_again_waits_for_the_job_of_the_first_attempt(
    worker: Worker, script: Any, ada: User, runner: Runner
) -> None:
    script([{"match": "", "steps": [{"text": "The model thinks better of it."}]}])
    http = builtin_account("http")
    with transactions.atomic_write():  # in one transaction: no sweeper comes between
        receipt = inbound.receive_personal(
            user=ada,
            draft=inbox.Draft(account=http, text="slides"),
            session_id="",
            now=transactions.now(),
        )
        assert receipt.run
        first = runs.claim(run_ids=[receipt.run.id], worker="dead").get(receipt.run.id)
    assert first
    asked = {**CALL, "parameters": {"topic": "bees", "language": "en"}}
    jobs.begin(run_id=first.id, call_id="call_xyz", tool="route_to_plugin", parameters=asked)
    Run.objects.filter(id=first.id).update(lease_until=Now() - timedelta(seconds=1))
    run = ended(receipt.run)
    assert SLIDES.made == ["bees"]
    assert run.attempt == 2
    assert run.result["text"].startswith("Your presentation is ready:")
    assert "thinks better" not in run.result["text"]
    assert StoredFile.objects.count() == 1


def test_l2_a_job_of_yesterday_whose_machine_was_off_ends_with_one_file(
    worker: Worker, script: Any, ada: User
) -> None:
    """Both were at work when the machine went off; no limit counts the time in between."""
    script([{"match": "", "steps": [{"text": "The model thinks better of it."}]}])
    http, yesterday = builtin_account("http"), Now() - timedelta(days=1)
    with transactions.atomic_write():  # in one transaction: no sweeper comes between
        receipt = inbound.receive_personal(
            user=ada,
            draft=inbox.Draft(account=http, text="slides"),
            session_id="",
            now=transactions.now(),
        )
        assert receipt.run
        runs.claim(run_ids=[receipt.run.id], worker="dead")
        asked = {**CALL, "parameters": {"topic": "bees", "language": "en"}}
        dead = {"state": "running", "attempt": 1, "tool": "route_to_plugin", "parameters": asked}
        Job.objects.create(run=receipt.run, tool_call_id="call_xyz", **dead)
        Job.objects.update(created_at=yesterday, lease_until=yesterday)
        Run.objects.update(created_at=yesterday, started_at=yesterday, lease_until=yesterday)
    run = ended(receipt.run)
    assert SLIDES.made == ["bees"]
    assert run.result["text"].startswith("Your presentation is ready:")
    assert StoredFile.objects.count() == 1


def test_d2_progress_comes_again_while_nothing_is_new() -> None:
    told: list[Any] = []
    context = ToolContext(1, 2, 3, "c", "", told.append)
    teller = waiting.Teller(context=context, tool="t", line="Running…", now=0.0)

    def hear(message: str, percent: int | None, now: float, state: str = "running") -> None:
        teller.hear(jobs.View(state, message, percent, "", {}), now=now)

    hear("", None, 1.0)
    assert told == []
    hear("Part 1 of 3", 10, 2.0)
    hear("Part 1 of 3", 10, 3.0)
    assert [each.props["message"] for each in told] == ["Part 1 of 3"]
    hear("Part 1 of 3", 10, 8.0)
    assert told[-1].props["message"] == "Part 1 of 3 (8 s)"
    hear("Part 2 of 3", 40, 8.1)
    assert told[-1].props["data"] == {"tool": "t", "percent": 40}
    hear("", None, 75.0, state="queued")
    assert told[-1].props["message"] == waiting.WAITING
    assert waiting.since(75) == "1 min 15 s"


def test_d2_no_silence_is_longer_than_five_seconds_by_design() -> None:
    """With a clock of our own: the job is read every POLL_SECONDS, at the worst moment too."""
    said: list[Any] = []
    context = ToolContext(1, 2, 3, "c", "", said.append)
    for offset in (0.0, 0.3, 0.999):
        teller = waiting.Teller(context=context, tool="t", line="Running…", now=0.0)
        told = [0.0]
        for look in range(60):
            now, before = offset + look * jobs.POLL_SECONDS, len(said)
            teller.hear(jobs.View("running", "Part 1 of 3", 10, "", {}), now=now)
            told += [now] * (len(said) - before)
        assert max(after - before for before, after in pairwise([*told, now])) <= 5


def test_c9_all_polling_intervals_for_a_stop_sum_to_less_than_three_seconds() -> None:
    """The hint is immediate; without it the periods add up: run, then the job's process."""
    assert runner_module.KEEP_SECONDS + starter.WATCH_SECONDS < 3


def test_c9_a_stop_with_a_lost_hint_still_ends_the_job(
    worker: Worker, script: Any, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    script([{"match": "", "steps": [{"tool": "route_to_plugin", "arguments": HANG}]}])
    run = say("go", wait=False)
    wait_until(lambda: Job.objects.filter(message="Writing slide 2 of 2").exists(), what="a job")
    monkeypatch.setattr(runs, "tell_cancel", lambda run_id: None)
    assert runs.request_cancel(run=run)
    assert ended(run).state == Run.State.CANCELLED
    worker.join()
    assert Job.objects.get().state == Run.State.CANCELLED
    assert not list((storage.folder() / "jobs").rglob("half.bin"))


def test_l5_a_document_in_the_message_itself_is_read(worker: Worker, script: Any, say: Say) -> None:
    script([])
    data = base64.b64encode(papers.pdf(["The sea is salty."])).decode()
    media = [{"kind": "file", "url": f"data:application/pdf;base64,{data}", "name": "sea.pdf"}]
    run = say("What does it say?", media=media)
    text = run.result["text"]
    assert "Name: sea.pdf" in text
    assert '<quoted sender="sea.pdf"> [page 1] The sea is salty.' in " ".join(text.split())
    assert "Caption: What does it say?" in text
    run.refresh_from_db()
    assert "url" not in run.route["media"][0]
    again = say("And now?", media=media, session=run.session.public_id)
    assert again.state == Run.State.SUCCEEDED
    assert StoredFile.objects.count() == 1


def test_l5_another_users_upload_is_not_readable(worker: Worker, script: Any, say: Say) -> None:
    eve = User.objects.create(username="eve")
    stored = storage.keep(user=eve, name="a.txt", content=b"hers")
    script([])
    run = say("read it", media=[{"kind": "file", "upload": stored.public_id}])
    assert "there is no such uploaded file" in run.result["text"]
    assert "hers" not in run.result["text"]


@pytest.mark.parametrize("is_link", [False, True])
def test_l5_document_read_gives_parts_that_fit(
    is_link: bool, worker: Worker, script: Any, say: Say, ada: User
) -> None:
    """A link, all that an answer shows of a finished file, names it also when it has expired."""
    stored = storage.keep(user=ada, name="long.pdf", content=papers.pdf(["Rain. " * 300] * 30))
    name = storage.link(stored, now=1.0) if is_link else f"/files/{stored.public_id}"
    steps = [{"tool": "document_read", "arguments": {"file": name}}]
    script(
        [
            {"match": "", "after_tool": True, "steps": [{"text": "Read."}]},
            {"match": "", "steps": steps},
        ]
    )
    run = say("go")
    assert lines(run)[0] == ("Reading the document…", "document_read")
    assert run.result["text"] == "Read.\n\n**Sources**\n\n1. long.pdf, page 1-2"

"""A ``long`` worker inside the test process, and a scripted model."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from pytest_django import Settings

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import inbound, slash_commands
from channels_app.worker.runner import Runner
from core.conversations import events, inbox, jobs, runs
from core.database import transactions
from core.jobs_worker import process, starter
from core.models import ChannelAccount, Job, Run, User
from core.plugins import registry as plugins
from core.signals import wakeups
from tests.channels_app.running import runner
from tests.core.jobs_worker.slides import HTML_SLIDES, SLIDES
from tests.servers import wait_until

__all__ = ["runner"]
logger = logging.getLogger(__name__)


class Worker:
    """Performs woken jobs, each in a thread with its own event loop."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []

    def wake(self, job_id: int) -> None:
        thread = threading.Thread(target=self.work, args=(job_id,), daemon=True)
        self.threads.append(thread)
        thread.start()

    def work(self, job_id: int) -> None:
        try:
            job = jobs.claim(job_id=job_id)
            if job is not None:
                self.perform(job)
        finally:
            connections.close_all()

    def perform(self, job: Job) -> None:
        """Do as the process of a job and the one that watches it."""
        try:
            asyncio.run(process.perform_and_close(job))
        except Exception:
            logger.exception("the process of a job failed")
            starter.after(job, process.FAILED)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(30)


@pytest.fixture(autouse=True)
def test_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the tests' own slides, beside the real summaries."""
    real = dict(plugins.every())
    known = {**real, SLIDES.id: SLIDES, HTML_SLIDES.id: HTML_SLIDES}
    monkeypatch.setattr(plugins, "every", cache(lambda: known))
    SLIDES.made.clear()
    SLIDES.go_on.clear()


@pytest.fixture
def worker(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    """Run both workers: wake-ups go straight to them."""
    made = Worker()
    to_runner = wakeups.send

    def send(task: str, row_id: int, *, queue_name: str = "runs") -> None:
        if task == "core.long.work":
            made.wake(row_id)
        else:
            to_runner(task, row_id, queue_name=queue_name)

    monkeypatch.setattr(wakeups, "send", send)
    yield made
    made.join()


@pytest.fixture
def script(tmp_path: Path, settings: Settings) -> Callable[[list[dict[str, Any]]], None]:
    """Return ``script(rules)``: it sets the answers of the model."""

    def play(rules: list[dict[str, Any]]) -> None:
        path = tmp_path / "script.json"
        path.write_text(json.dumps(rules))
        settings.LLM_SCRIPT = str(path)

    return play


@pytest.fixture
def ada(runner: Runner) -> User:
    """Return a person."""
    del runner
    return User.objects.create(username="ada")


@pytest.fixture
def run(db: None) -> Iterator[Run]:
    """Return a run held by a worker; no other worker runs."""
    user = User.objects.create(username="eve")
    draft = inbox.Draft(account=builtin_account("http"), text="slides")
    receipt = inbound.receive_personal(
        user=user, draft=draft, session_id="", now=transactions.now()
    )
    assert receipt.run
    yield runs.claim(run_ids=[receipt.run.id], worker="w")[receipt.run.id]
    events.close_writer()
    transactions.close_pool()


Say = Callable[..., Run]


@pytest.fixture
def say(ada: User) -> Say:
    """Send a message over HTTP; return the run, by default when it has ended."""
    http: ChannelAccount = builtin_account("http")

    def make(text: str, *, wait: bool = True, session: str = "", media: Any = ()) -> Run:
        receipt = inbound.receive_personal(
            user=ada,
            draft=inbox.Draft(account=http, text=text, media=list(media)),
            session_id=session,
            now=transactions.now(),
            command=slash_commands.answered_at_once(text),
        )
        assert receipt.run
        return ended(receipt.run) if wait else receipt.run

    return make


def ended(run: Run) -> Run:
    """Return ``run`` when it has ended."""

    def final() -> bool:
        run.refresh_from_db()
        return run.state in Run.FINAL

    wait_until(final, seconds=40, what="the end of the run")
    return run

"""Questions of a running plugin to the model: several at once."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from core.conversations import jobs, runs
from core.database.transactions import in_thread
from core.jobs_worker.host import Host
from core.models import Job, ModelCall
from core.providers import registry
from core.providers.base import Delta, Finish, ModelRequest, TextDelta, Usage
from tests.core.conftest import Say, account, say, session, user, woken
from tests.core.conversations.metered import budget, state

__all__ = ["account", "say", "session", "user", "woken"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("woken")]


QUESTIONS = 6


class Model:
    """A model that answers when all questions have come; each answer costs the same."""

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self.all_came = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.asked.append(request)
        if len(self.asked) == QUESTIONS:
            self.all_came.set()
        await asyncio.wait_for(self.all_came.wait(), 20)
        yield TextDelta("It is.")
        yield Usage(30, 12)
        yield Finish("stop")

    async def close(self) -> None: ...


@pytest.fixture
def job(say: Say) -> Job:
    """Return a long task that a worker has begun."""
    run = say("hello")
    runs.claim(run_ids=[run.id], worker="w")
    job_id = jobs.begin(run_id=run.id, call_id="a", tool="run_skill", parameters={})
    found = jobs.claim(job_id=job_id)
    assert found is not None
    return found


@pytest.mark.parametrize("is_limited", [True, False])
async def test_each_of_several_questions_at_once_is_counted_once(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_limited: bool
) -> None:
    model = Model()
    monkeypatch.setattr(registry, "provider_of", lambda _: model)
    limit = await in_thread(budget, 10**9) if is_limited else None
    host = await in_thread(lambda: Host(job=job, folder=tmp_path))
    said = await asyncio.gather(*(host.ask(f"Question {each}") for each in range(QUESTIONS)))
    assert said == ["It is."] * QUESTIONS
    rows = ModelCall.objects.values_list(
        "state", "purpose", "job_id", "attempt", "completion_tokens"
    )
    found = await in_thread(list, rows)
    assert found == [("settled", "task", job.pk, job.attempt, 12)] * QUESTIONS
    if limit is not None:
        assert await in_thread(state, limit) == (QUESTIONS * 42, 0)

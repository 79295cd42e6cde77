"""Questions of a running plugin to the model: several at once."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from core.conversations import jobs, runs
from core.database.transactions import in_thread
from core.jobs_worker.host import Host, checked
from core.models import Job, LanguageModel, ModelCall, ModelProvider
from core.providers import registry
from core.providers.base import (
    Delta,
    Finish,
    ModelRequest,
    ProviderError,
    TextDelta,
    ThinkingDelta,
    Usage,
)
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


class Thinker:
    """A model that thinks until its limit where that is low, with a word about it or without; it
    refuses a higher limit than ``most``.
    """

    def __init__(self, *, shown: bool, most: int) -> None:
        self.limits: list[int] = []
        self._shown, self.most = shown, most

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        limit = request.options["max_tokens"]
        self.limits.append(limit)
        if limit > self.most:
            raise ProviderError("too long", code="context_length")
        if self._shown:
            yield ThinkingDelta("hm " * 9)
        if limit < 4000:
            yield TextDelta("It")
        else:
            yield TextDelta("It is.")
        yield Usage(30, limit, reasoning_tokens=0 if self._shown else limit)
        yield Finish("length" if limit < 4000 else "stop")

    async def close(self) -> None: ...


@pytest.mark.parametrize("shown", [True, False])
async def test_a_model_that_thinks_until_its_limit_gets_a_higher_one(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    """Vendors count reasoning toward the limit of the answer."""
    model = Thinker(shown=shown, most=10**6)
    monkeypatch.setattr(registry, "provider_of", lambda _: model)
    host = await in_thread(lambda: Host(job=job, folder=tmp_path))
    said = [await host.ask(each, max_tokens=200) for each in ("one", "two")]
    assert said == ["It is."] * 2
    low, *others = model.limits
    assert low == 200
    assert len(others) == 2
    assert min(others) > 4000
    model.most = 1000  # the next question is longer: no place is left to think
    assert await host.ask("three", max_tokens=200) == "It"


async def test_the_short_answer_counts_where_a_longer_one_is_refused(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Thinker(shown=True, most=1000)
    monkeypatch.setattr(registry, "provider_of", lambda _: model)
    host = await in_thread(lambda: Host(job=job, folder=tmp_path))
    assert [await host.ask(each, max_tokens=200) for each in ("one", "two")] == ["It"] * 2
    assert [each for each in model.limits if each <= 1000] == [200] * 2


class Former(Model):
    """A model that answers in the form of the prompt alone."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self.asked.append(request)
        knows = "schema" in str(request.messages)
        yield TextDelta('{"a": 1}' if knows else "One.")
        yield Finish("stop")


async def test_a_vendor_that_takes_no_schema_finds_it_in_the_question(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked each question twice."""

    def with_anthropic() -> Host:
        vendor = ModelProvider.objects.create(name="Anthropic", kind="anthropic")
        made = LanguageModel.objects.create(provider=vendor, name="claude")
        job.run.model_id = made.pk
        return Host(job=job, folder=tmp_path)

    model = Former()
    monkeypatch.setattr(registry, "provider_of", lambda _: model)
    host = await in_thread(with_anthropic)
    schema = {"type": "object", "required": ["a"]}
    assert await host.ask("Question", schema=schema) == '{"a": 1}'
    [asked] = model.asked
    assert "response_format" not in asked.options


@pytest.mark.parametrize(
    ("said", "schema", "found"),
    [
        ('Here is [slide 1]:\n```json\n{"a": [1]}\n```', {"type": "object"}, '{"a": [1]}'),
        ('Sure: [{"a": 1}], as asked.', {"type": "array"}, '[{"a": 1}]'),
        ('{"a": 1}', {}, '{"a": 1}'),
    ],
)
def test_words_around_an_answer_are_left_out(said: str, schema: dict[str, Any], found: str) -> None:
    assert checked(said, schema) == (found, "")

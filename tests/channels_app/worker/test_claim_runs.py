"""Simultaneous wake-ups of runs share one transaction; a failing one does not affect the others."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.db import DatabaseError

from channels_app.worker import claim_runs
from core.agent import prompt
from core.conversations import events, runs
from core.database.batching import MAX_BATCH
from core.database.queries import Among, Param, Update
from core.database.transactions import in_thread
from core.models import ChannelAccount, ChatSession, Run, User
from core.signals.live_events import EventFrame
from tests.core.conftest import account, quiet_threads, user

__all__ = ["account", "quiet_threads", "user"]
NewRuns = Callable[[int], list[Run]]


def begin(run_ids: list[int], worker: str) -> dict[int, claim_runs.Begun]:
    """Return the runs that were begun, by id."""
    begun = claim_runs.begin(run_ids, worker)
    return {each.run.id: each for each in begun if isinstance(each, claim_runs.Begun)}


@pytest.fixture
def new_runs(transactional_db: None, account: ChannelAccount, user: User) -> NewRuns:
    """Create queued runs, each of a conversation of its own."""

    def make(number: int) -> list[Run]:
        places = [
            ChatSession.objects.create(user=user, account=account, chat=f"chat-{each}")
            for each in range(number)
        ]
        return [
            Run.objects.create(session=place, user=user, origin="test", text=place.chat)
            for place in places
        ]

    return make


def test_of_two_runs_of_a_session_claimed_in_one_moment_one_is_ours_and_others_do_not_notice(
    new_runs: NewRuns, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second one's turn comes later: it is no failure, and nothing is said of it."""
    first, other = new_runs(2)
    second = Run.objects.create(session=first.session, user=first.user, origin="test", text="again")
    # As another worker would, between the check of its turn and the update.
    blind = Update(
        lambda: (
            Run.objects.filter(Among("id", "ids")),
            {"state": "running", "attempt": 1, "worker": Param("worker")},
        )
    )

    def claim_blindly(*, lease: object, **values: object) -> list[int]:
        return blind.returning(**values)

    monkeypatch.setattr(runs.CLAIM, "returning", claim_blindly)
    begun = begin([first.id, other.id, second.id], "worker")
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    assert sorted(begun) == [first.id, other.id]
    second.refresh_from_db()
    assert second.state == "queued"


def test_simultaneous_wakeups_are_claimed_in_one_transaction(
    new_runs: NewRuns, published: list[EventFrame]
) -> None:
    """One commit; each log begins with its stream_start."""
    queued = new_runs(3)
    begun = begin([run.id for run in queued], "worker")
    assert sorted(begun) == [run.id for run in queued]
    events.close_writer()
    assert [frame["run"] for frame in published] == [run.public_id for run in queued]
    for run in queued:
        [(seq, event)] = events.after(run_id=run.id, seq=0)
        assert (seq, event["props"]["event"]) == (1, "stream_start")
        assert begun[run.id].log.seq == 1
        assert begun[run.id].prompt.messages[-1] == {"role": "user", "content": run.text}
        run.refresh_from_db()
        assert (run.state, run.attempt, run.worker) == ("running", 1, "worker")


def test_the_second_of_a_conversation_is_not_begun_with_the_first(
    new_runs: NewRuns, published: list[EventFrame]
) -> None:
    """One running run each ([C9]), however they are woken."""
    [first] = new_runs(1)
    second = Run.objects.create(session=first.session, user=first.user, origin="test")
    assert list(begin([first.id, second.id], "worker")) == [first.id]
    second.refresh_from_db()
    assert second.state == "queued"
    assert begin([first.id], "another") == {}
    events.close_writer()
    assert len(published) == 1


def test_a_run_that_the_database_refuses_costs_the_others_nothing(
    new_runs: NewRuns, published: list[EventFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are then claimed one by one; nothing of the first attempt is published."""
    one, bad, other = new_runs(3)
    claim = runs.claim

    def refused(*, run_ids: list[int], worker: str) -> dict[int, Run]:
        if bad.id in run_ids:
            raise DatabaseError("no")
        return claim(run_ids=run_ids, worker=worker)

    monkeypatch.setattr(runs, "claim", refused)
    assert list(begin([one.id, bad.id, other.id], "worker")) == [one.id, other.id]
    bad.refresh_from_db()
    assert bad.state == "queued"
    events.close_writer()
    told = [frame["run"] for frame in published]
    assert told == [one.public_id, other.public_id]
    assert [len(events.after(run_id=each.id, seq=0)) for each in (one, bad, other)] == [1, 0, 1]


def test_a_run_that_cannot_be_prepared_costs_the_others_nothing(
    new_runs: NewRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease runs out, and it is tried again."""
    bad, good = new_runs(2)
    prepare = prompt.prepare

    def broken(run: Run, **given: Any) -> Any:
        if run.id == bad.id:
            raise ValueError("no")
        return prepare(run, **given)

    monkeypatch.setattr(prompt, "prepare", broken)
    failed, begun = claim_runs.begin([bad.id, good.id], "worker")
    assert isinstance(failed, ValueError)
    assert isinstance(begun, claim_runs.Begun)
    assert begun.run.id == good.id


async def test_each_caller_gets_the_run_that_it_asked_for(
    new_runs: NewRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any batch; an error reaches its callers, and the next ones begin."""
    queued = await in_thread(new_runs, MAX_BATCH + 3)
    waiting = claim_runs.Claims(worker="worker")
    async with asyncio.timeout(120):
        found = await asyncio.gather(*(waiting.submit(run.id) for run in queued))
    assert [each.run.id for each in found if each] == [run.id for run in queued]

    def down(run_ids: list[int], worker: str) -> list[claim_runs.Begun | Exception | None]:
        raise DatabaseError("away")

    monkeypatch.setattr(claim_runs, "begin", down)
    with pytest.raises(DatabaseError):
        await waiting.submit(queued[0].id)
    monkeypatch.undo()
    async with asyncio.timeout(120):
        assert await waiting.submit(queued[0].id) is None  # it is running already

"""Places of a worker: shared by person first, then by order; a late worker takes no more runs."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest
from django.utils import timezone
from pytest_django import Settings

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import inbound
from channels_app.worker.places import CAUGHT_UP_SECONDS, SLOW_SECONDS, Places
from channels_app.worker.runner import Runner
from core.conversations import inbox, runs
from core.models import Run, User, WorkerHeartbeat
from core.providers.base import Delta, Finish, ModelRequest, TextDelta
from core.providers.scripted import Scripted, last_text
from tests.channels_app.running import runner
from tests.servers import wait_until

__all__ = ["runner"]


@dataclass
class SlowModel:
    """A model that answers when it is told to. ``asked``: the messages, in the order they came."""

    asked: list[str] = field(default_factory=list)
    gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def was_asked(self, times: int) -> bool:
        """Return whether it was asked so often."""
        return len(self.asked) == times

    def answer(self, number: int = 1) -> None:
        """Let so many answers end."""
        self.gate.release(number)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Answer "Yes." after :meth:`answer`."""
        self.asked.append(last_text(request.messages))
        while not self.gate.acquire(blocking=False):
            await asyncio.sleep(0.005)
        yield TextDelta("Yes.")
        yield Finish("stop")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowModel]:
    """Replace the scripted model; at the end it answers everything."""
    slow = SlowModel()

    async def stream(self: Scripted, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        async for delta in slow.stream(request):
            yield delta

    monkeypatch.setattr(Scripted, "stream", stream)
    yield slow
    slow.answer(1000)


StartRunner = Callable[[int], Runner]


@pytest.fixture
def worker(
    request: pytest.FixtureRequest, model: SlowModel, settings: Settings
) -> Iterator[StartRunner]:
    """Return a function that starts a worker with so many places; it sweeps at its start only."""
    settings.RUNS_PER_WORKER = 1
    started: list[Runner] = []

    def start(places: int) -> Runner:
        settings.RUNS_PER_WORKER = places
        if not started:
            made: Runner = request.getfixturevalue("runner")
        else:
            made = Runner()
            made.start()
        settings.SWEEP_SECONDS = 3600
        wait_until(lambda: made._early is None, seconds=60, what="the start of the worker")
        started.append(made)
        return made

    yield start
    model.answer(1000)
    for made in started[1:]:
        made.stop()


def say(user: User, text: str) -> Run:
    """Send a message in a chat of its own; return the run."""
    draft = inbox.Draft(account=builtin_account("http"), text=text)
    receipt = inbound.receive_personal(user=user, draft=draft, session_id="", now=timezone.now())
    assert receipt.run
    return receipt.run


@pytest.mark.django_db(transaction=True)
def test_one_person_with_fifty_requests_does_not_hold_back_ten_with_one_each(
    worker: StartRunner, model: SlowModel
) -> None:
    """With two places: the others are the next ten, in the order in which they came."""
    worker(2)
    crowd = User.objects.create(username="crowd")
    for number in range(50):
        say(crowd, f"crowd {number}")
    wait_until(lambda: len(model.asked) == 2, seconds=20)
    for number in range(10):
        say(User.objects.create(username=f"other{number}"), f"other {number}")
    for already in range(3, 13):
        model.answer()
        wait_until(partial(model.was_asked, already), seconds=20)
    assert model.asked[2:12] == [f"other {number}" for number in range(10)]
    model.answer(50)
    wait_until(lambda: len(model.asked) == 60, seconds=60)
    wait_until(lambda: not Run.objects.exclude(state="succeeded").exists(), seconds=60)


@pytest.mark.django_db(transaction=True)
def test_a_run_that_finds_one_worker_full_is_taken_by_another_at_once(
    worker: StartRunner, model: SlowModel
) -> None:
    """Neither sweeps meanwhile."""
    first, ada = worker(1), User.objects.create(username="ada")
    say(ada, "one")
    wait_until(lambda: model.asked == ["one"], seconds=20)
    second = worker(1)
    run = say(ada, "two")
    wait_until(lambda: model.asked == ["one", "two"], seconds=20)
    run.refresh_from_db()
    assert (run.worker, list(second.held)) == (second.name, [run.id])
    third = say(ada, "three")
    assert list(first.held) != []
    model.answer(2)
    wait_until(lambda: len(model.asked) == 3, seconds=20, what="the run that waited for a place")
    model.answer()
    wait_until(lambda: Run.objects.get(id=third.id).state == "succeeded", seconds=20)


@pytest.mark.django_db(transaction=True)
def test_c9_a_run_that_waits_for_a_place_is_cancelled_without_one(
    worker: StartRunner, model: SlowModel
) -> None:
    worker(1)
    ada = User.objects.create(username="ada")
    say(ada, "one")
    wait_until(lambda: model.asked == ["one"], seconds=20)
    waiting = say(ada, "two")
    runs.request_cancel(run=waiting)
    wait_until(lambda: Run.objects.get(id=waiting.id).state == "cancelled", seconds=20)
    assert model.asked == ["one"]


@pytest.mark.django_db(transaction=True)
def test_heartbeats_say_how_many_places_there_are(worker: StartRunner, model: SlowModel) -> None:
    """Admission computes the wait from that."""
    made = worker(3)
    wait_until(lambda: WorkerHeartbeat.objects.filter(places=3).exists(), seconds=20)
    ada, bob = (User.objects.create(username=name) for name in ("ada", "bob"))
    for number in range(4):
        say(ada, str(number))
    wait_until(lambda: len(model.asked) == 3, seconds=20)
    say(bob, "mine")
    load = runs.load()
    assert (load.waiting, load.held, load.places) == ({ada.id: 1, bob.id: 1}, {ada.id: 3}, 3)
    assert load.pace == pytest.approx(3 / runs.USUAL_SECONDS)
    model.answer(5)
    wait_until(lambda: not made.held and len(model.asked) == 5, seconds=20)
    assert made._places.seconds > 0


# Places themselves -------------------------------------------------------------------------------


async def test_a_worker_that_is_late_has_no_free_place_until_it_has_caught_up() -> None:
    """One without any run may always begin one: it would wait for ever."""
    called: list[int] = []
    places = Places(10, on_free=lambda: called.append(places.free))
    places.take(4)
    assert (places.free, places.usable) == (6, 10)
    places.judge(SLOW_SECONDS + 0.01)
    assert places.free == 6, "one long task is no overload"
    places.judge(SLOW_SECONDS + 0.01)
    assert (places.free, places.usable) == (0, 4)
    places.give_back(3)
    assert (places.free, called) == (0, [])
    places.give_back()
    assert (places.free, called) == (1, [1])
    places.take()
    places.judge(CAUGHT_UP_SECONDS + 0.01)
    assert places.free == 0, "not yet"
    places.judge(CAUGHT_UP_SECONDS)
    assert (places.free, called) == (9, [1, 9])


async def test_the_loop_is_measured_while_runs_are_held() -> None:
    places = Places(1, on_free=lambda: None)
    measured = asyncio.create_task(places.measure())
    await asyncio.sleep(0)
    assert not measured.done()
    places.take()
    async with asyncio.timeout(60):
        assert await measured == 0.0


async def test_waiting_for_a_free_place_ends_when_no_run_waits_in_the_database() -> None:
    places = Places(1, on_free=lambda: None)
    places.take()
    places.others_wait = True
    waiting = asyncio.create_task(places.wait(taken=False))
    places.give_back()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    places.others_wait = False
    places.announce()
    async with asyncio.timeout(10):
        await waiting


async def test_the_mean_duration_follows_the_runs() -> None:
    places = Places(1, on_free=lambda: None)
    places.note(2.0)
    assert places.seconds == 2.0
    for _ in range(200):
        places.note(10.0)
    assert places.seconds == pytest.approx(10.0, rel=0.01)

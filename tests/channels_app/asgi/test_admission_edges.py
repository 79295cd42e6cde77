"""The edges of admission: how late is too late and for how long, which place is too far, and what
this process remembers of people. The clock stands still.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
from django.db import OperationalError
from pytest_django import Settings

from channels_app.asgi import admission as module
from channels_app.asgi.admission import (
    Admission,
    BusyError,
    Entrance,
    Lateness,
    admit_head,
    admit_message,
)
from channels_app.asgi.principal import Principal
from core.conversations import runs
from core.conversations.runs import Load
from core.database import transactions
from core.models import ChannelAccount, User
from tests.channels_app.asgi.clocks import Clock

ANN, BEA = 1_000_001, 1_000_002
FREE = Load(waiting={}, held={}, places=1_000_000, pace=1.0)
FULL = Load(waiting={ANN: 20}, held={ANN: 1}, places=1, pace=1.0)
MOMENT = 0.01


@pytest.fixture(autouse=True)
def no_process_is_late() -> None:
    """Leave the limits as they are: no time passes here that a test does not let pass."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock of the module."""
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a measurement begin at once."""
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Admission:
    """Return the admission of this process, which knows nothing yet."""
    admission = Admission()
    monkeypatch.setattr(module, "admission", admission)
    return admission


@pytest.fixture(autouse=True)
async def threads_end() -> AsyncIterator[None]:
    """End the database threads after the test."""
    yield
    await asyncio.to_thread(transactions.close_pool)


def knowing(load: Load | None, clock: Clock) -> Admission:
    """Return an admission that has just looked."""
    made = Admission()
    made.load, made._looked_at = load, clock.now
    return made


def busy(error: BaseException) -> tuple[int, int]:
    """Return the place and the seconds that a refusal tells."""
    assert isinstance(error, BusyError)
    return error.details["place"], error.details["retry_after"]


def late_by(late: Lateness, *seconds: float) -> float:
    """Return how late a process is after these measurements."""
    for each in seconds:
        late.note(each)
    return late.seconds


# The refusal -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "told"), [(-3, 1), (0, 1), (1, 1), (1.01, 2), (59.5, 60), (60.5, 60), (9e9, 60)]
)
def test_a_refusal_tells_the_place_and_when_to_try_again(seconds: float, told: int) -> None:
    error = BusyError(place=7, seconds=seconds)
    assert error.status == 503
    assert str(error) == f"Busy: this would be number 7 in the queue. Try again in {told} s."
    assert error.headers == {"Retry-After": str(told)}
    assert error.details == {"code": "busy", "place": 7, "retry_after": told}


# How late this process is ------------------------------------------------------------------------


def test_of_two_measurements_the_better_one_counts() -> None:
    late = Lateness()
    assert late.seconds == 0
    assert late_by(late, 5) == 0
    assert late_by(late, 3) == 3
    assert late_by(late, 4) == 3
    assert late_by(late, 6) == 4
    assert late_by(late, 0) == 0


def test_a_process_is_late_only_while_its_measurements_are_new(clock: Clock) -> None:
    """Else it would refuse the first message after an hour without one."""
    late = Lateness()
    assert late_by(late, 3, 3) == 3
    clock.now += module.VALID_SECONDS
    assert late.seconds == 3
    clock.now += MOMENT
    assert late.seconds == 0


async def test_a_measurement_after_a_long_time_does_not_count_with_an_old_one(
    clock: Clock, at_once: None
) -> None:
    late = Lateness()
    late.note(4)
    clock.now += module.VALID_SECONDS + MOMENT
    await measured(late)
    assert late_by(late, 4) == 0
    assert late_by(late, 4) == 4


async def measured(late: Lateness) -> None:
    """Measure, and wait for the end."""
    late.probe()
    await ended(late)


async def ended(late: Lateness) -> None:
    """Wait for the end of the measurement that runs."""
    assert late._probing is not None
    async with asyncio.timeout(60):
        await late._probing


async def test_a_process_that_refuses_all_finds_out_that_it_is_late_no_more(
    made: Admission, at_once: None
) -> None:
    """Requests that are refused by their head come no further, so they measure."""
    late_by(made.late, 5, 5)
    with pytest.raises(BusyError):
        admit_head()
    await ended(made.late)
    admit_head()


async def test_a_process_that_refuses_all_takes_messages_again_when_none_was_measured(
    made: Admission, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    late_by(made.late, 5, 5)
    monkeypatch.setattr(made.late, "probe", lambda: None)
    with pytest.raises(BusyError):
        admit_head()
    clock.now += module.VALID_SECONDS + MOMENT
    admit_head()
    made.decide(ANN)


async def test_a_very_late_process_is_so_between_its_measurements_too(
    clock: Clock, at_once: None
) -> None:
    """A measurement that took longer than VALID_SECONDS is not old when it ends."""
    late, slow = Lateness(), module.VALID_SECONDS + 1
    for expected in (0, slow):
        late.probe()
        clock.now += slow
        await ended(late)
        assert late.seconds == expected


async def test_one_measurement_runs_at_a_time_and_its_length_counts(
    clock: Clock, at_once: None
) -> None:
    late = Lateness()
    late.probe()
    first = late._probing
    clock.now += 2
    late.probe()
    assert late._probing is first
    await ended(late)
    assert late._last == 2
    late.probe()
    assert late._probing is not first
    await ended(late)
    assert (late._last, late._previous) == (0, 2)


async def test_a_measurement_that_does_not_end_counts_after_its_grace(clock: Clock) -> None:
    """All threads are at work, or the database hangs."""
    late = Lateness()
    late.probe()
    for waited, expected in ((0, 0), (1.1, 0), (5.1, 4)):
        clock.now = 1000.0 + waited
        assert late.seconds == pytest.approx(expected)
    late_by(late, 5, 5)
    assert late.seconds == 5
    clock.now += module.VALID_SECONDS + MOMENT
    assert late.seconds > 5, "what was measured before is not old while it goes on"


async def test_its_own_pause_is_no_lateness(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBE_SECONDS", 0.001)
    late = Lateness()
    late.probe()
    clock.now += 2.001
    await ended(late)
    assert late._last == pytest.approx(2, abs=0.0001)


@pytest.mark.parametrize("name", ["in_shared_call", "in_shared_transaction", "in_thread"])
async def test_each_way_to_the_database_is_measured(
    name: str, clock: Clock, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun, gate, results = getattr(module, name), asyncio.Event(), asyncio.Event(), []

    async def held(*given: object) -> None:
        begun.set()
        await gate.wait()
        results.append(await real(*given))

    monkeypatch.setattr(module, name, held)
    late = Lateness()
    late.probe()
    async with asyncio.timeout(60):
        await begun.wait()
    clock.now += 3
    gate.set()
    await ended(late)
    assert (late._last, results) == (3, [None])


async def test_a_database_that_fails_ends_a_measurement(
    clock: Clock, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        clock.now += 2
        raise OperationalError("away")

    monkeypatch.setattr(module, "in_shared_transaction", away)
    late = Lateness()
    for _ in range(2):
        await measured(late)
    assert late.seconds == 2


# Whom a late process refuses ---------------------------------------------------------------------


def accepts(made: Admission, person: int) -> bool:
    """Return whether one more message of ``person`` is accepted."""
    try:
        made.decide(person)
    except BusyError:
        return False
    return True


def test_a_process_is_late_above_a_second_and_too_late_above_two_and_a_half(clock: Clock) -> None:
    for late, accepted in ((1, [True, True]), (1.01, [True, False]), (2.5, [True, False])):
        made = knowing(FREE, clock)
        late_by(made.late, late, late)
        assert [accepts(made, ANN) for _ in range(2)] == accepted
    made = knowing(FREE, clock)
    late_by(made.late, 2.51, 2.51)
    assert not accepts(made, ANN)


def test_the_later_a_process_is_the_longer_a_person_waits(clock: Clock) -> None:
    made = knowing(FREE, clock)
    assert accepts(made, ANN)
    for pause, accepted in ((7.99, False), (0.01, True), (0.01, False)):
        clock.now += pause
        late_by(made.late, 2, 2)
        assert accepts(made, ANN) is accepted
    assert accepts(made, BEA)


def test_the_refusal_of_a_late_process_tells_twice_how_late_it_is(clock: Clock) -> None:
    made = knowing(FREE, clock)
    late_by(made.late, 4, 4)
    with pytest.raises(BusyError) as refused:
        made.decide(ANN)
    assert busy(refused.value) == (1, 8), "there is no place before the first"
    late_by(made.late, 0, 0)
    for each in (ANN, ANN, BEA):
        made.decide(each)
    late_by(made.late, 4, 4)
    with pytest.raises(BusyError) as refused:
        made.refuse_if_late()
    assert busy(refused.value) == (3, 8)


def test_of_the_latest_people_is_known_when_their_last_message_came(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 2)
    made = knowing(FREE, clock)
    for each in (ANN, BEA, ANN, 3):
        made.decide(each)
    late_by(made.late, 2, 2)
    assert [accepts(made, each) for each in (ANN, 3)] == [False, False]
    assert accepts(made, BEA), "who was not seen for longest is forgotten"
    assert list(made._accepted) == [3, BEA]


def test_so_many_people_are_remembered(clock: Clock) -> None:
    made = knowing(None, clock)
    for person in range(10_002):
        made.decide(person)
    assert len(made._accepted) == 10_000


def test_messages_of_several_threads_are_all_counted(clock: Clock) -> None:
    """A bridge's are counted in database threads, those of people on the event loop."""
    made, errors = knowing(FREE, clock), list[RuntimeError]()

    def send(first: int) -> None:
        try:
            for person in range(first, first + 200):
                made.decide(person)
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=send, args=(number * 1000,)) for number in range(4)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(usual)
    assert errors == []
    assert made._recent.total() == len(made._accepted) == 800


# The place in the queue --------------------------------------------------------------------------


def places(made: Admission, person: int, *, most: int = 1000) -> int:
    """Return how many messages of ``person`` are accepted until one is refused."""
    return next((number for number in range(most) if not accepts(made, person)), most)


def test_a_message_beyond_the_tenth_place_is_refused_where_its_wait_is_too_long(
    clock: Clock, settings: Settings
) -> None:
    settings.MAX_QUEUE_SECONDS = 20
    made = knowing(Load(waiting={}, held={ANN: 1}, places=1, pace=0.8), clock)
    assert places(made, ANN) == 16, "20 s at 0.8 a second"
    with pytest.raises(BusyError) as refused:
        made.decide(ANN)
    assert busy(refused.value) == (17, 2), "the 17th waits 21.25 s: 1.25 s too long"
    settings.MAX_QUEUE_SECONDS = 1
    assert places(knowing(Load({}, {ANN: 1}, 1, 0.8), clock), ANN) == 10


def test_places_that_are_free_are_taken_first(clock: Clock) -> None:
    made = knowing(Load(waiting={}, held={BEA: 2}, places=5, pace=1.0), clock)
    found = []
    for _ in range(5):
        found.append(made.rank(ANN))
        made.decide(ANN)
    assert found == [0, 0, 0, 1, 2]
    crowded = knowing(Load(waiting={}, held={BEA: 9}, places=5, pace=1.0), clock)
    assert crowded.rank(ANN) == 1, "more than all places are taken: a worker has gone"


def test_messages_since_the_last_look_count_as_waiting(clock: Clock) -> None:
    made = knowing(FULL, clock)
    assert made.rank(ANN) == 21
    made.decide(BEA)
    assert (made.rank(ANN), made.rank(BEA)) == (22, 3)
    assert Admission().rank(ANN) == 0, "nothing is known"


def test_a_look_tells_for_three_seconds_of_waiting_people(clock: Clock) -> None:
    made = knowing(FULL, clock)
    clock.now += module.VALID_SECONDS
    assert made.rank(ANN) == 21
    clock.now += MOMENT
    assert made.rank(ANN) == 0


def test_without_a_worker_messages_wait_until_their_number_is_full(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "MOST_WAITING", 12)
    made = knowing(Load(waiting={}, held={}, places=0, pace=0.0), clock)
    assert places(made, ANN) == 11
    with pytest.raises(BusyError) as refused:
        made.decide(ANN)
    assert busy(refused.value) == (12, 60)


# When the database is asked ----------------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Load | Exception]:
    """Return the outcomes of the next looks; with more than these, one fails."""
    outcomes: list[Load | Exception] = []

    def load() -> Load:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(runs, "load", load)
    return outcomes


async def looked(made: Admission) -> bool:
    """Let a message come; return whether the database was asked, and wait for its answer."""
    made._looking = None
    made.watch()
    looking: asyncio.Task[None] | None = made._looking
    if looking is None:
        return False
    async with asyncio.timeout(60):
        await looking
    return True


NONE_WORKS = Load(waiting={}, held={}, places=0, pace=0.0)


@pytest.mark.parametrize(
    ("load", "recent", "age", "due"),
    [
        (FULL, 0, 0.5, False),
        (FULL, 0, 0.51, True),
        (Load(waiting={ANN: 1}, held={}, places=9, pace=1.0), 0, 1, True),
        (Load(waiting={}, held={ANN: 1, BEA: 1}, places=2, pace=1.0), 0, 1, True),
        (Load(waiting={}, held={ANN: 1, BEA: 1}, places=3, pace=1.0), 0, 1, False),
        (Load(waiting={}, held={ANN: 1}, places=1, pace=1.0), 0, 1, True),
        (NONE_WORKS, 0, 1, False),
        (NONE_WORKS, 0, 30, False),
        (NONE_WORKS, 0, 30.01, True),
        (None, 7, 1, False),
        (None, 8, 1, True),
        (FREE, 249_999, 1, False),
        (FREE, 250_000, 1, True),
        (Load(waiting={}, held={ANN: 4}, places=44, pace=1.0), 9, 1, False),
        (Load(waiting={}, held={ANN: 4}, places=44, pace=1.0), 10, 1, True),
        (Load(waiting={}, held={ANN: 4}, places=45, pace=1.0), 10, 1, True),
        (Load(waiting={}, held={ANN: 4}, places=24, pace=1.0), 7, 1, False),
        (Load(waiting={}, held={ANN: 4}, places=24, pace=1.0), 8, 1, True),
    ],
)
async def test_the_database_is_asked_when_there_may_be_something_to_tell(
    load: Load | None,
    recent: int,
    age: float,
    due: bool,
    clock: Clock,
    looks: list[Load | Exception],
) -> None:
    """At most twice a second: where work waits, where many have come, or after a long time."""
    made = knowing(load, clock)
    made._recent[BEA] = recent
    looks.append(FREE)
    clock.now += age
    assert await looked(made) is due
    assert made.load == (FREE if due else load)


async def test_the_first_message_of_a_process_has_it_look(looks: list[Load | Exception]) -> None:
    looks.append(FULL)
    made = Admission()
    assert await looked(made)
    assert made.rank(ANN) == 21
    assert not await looked(made)


async def test_one_look_is_under_way_at_a_time(clock: Clock, looks: list[Load | Exception]) -> None:
    looks.append(FULL)
    made = Admission()
    made.watch()
    first = made._looking
    assert first is not None
    clock.now += 100
    made.watch()
    assert made._looking is first
    async with asyncio.timeout(60):
        await first


async def test_after_a_look_only_messages_that_came_during_it_count(
    clock: Clock, looks: list[Load | Exception]
) -> None:
    """The others are in the database, or were never stored."""
    looks.append(Load(waiting={}, held={ANN: 1}, places=1, pace=1.0))
    made = knowing(FREE, clock)
    for each in (ANN, ANN, BEA):
        made.decide(each)
    looking = asyncio.create_task(made.look())
    await asyncio.sleep(0)
    for each in (ANN, 3):
        made.decide(each)
    clock.now += 2
    async with asyncio.timeout(60):
        await looking
    assert made._recent == {ANN: 1, 3: 1}
    assert made.rank(ANN) == 3, "after its own, and the first of another person"
    clock.now += module.VALID_SECONDS
    assert made.rank(ANN) == 3, "known from the end of the look on"


async def test_while_the_database_is_away_messages_are_accepted(
    clock: Clock, looks: list[Load | Exception]
) -> None:
    looks += [OperationalError("away"), FULL]
    made = knowing(FULL, clock)
    made.decide(BEA)
    clock.now += 1
    assert await looked(made)
    assert (made.load, made._recent.total(), made.rank(ANN)) == (None, 0, 0)
    clock.now += 1
    assert not await looked(made), "not at each message"
    clock.now += module.KNOWN_SECONDS
    assert await looked(made)
    assert made.load == FULL


async def test_lateness_is_measured_where_a_message_follows_within_a_second(
    clock: Clock, at_once: None
) -> None:
    """One message after so long alone makes no process late."""
    made = knowing(FREE, clock)
    for pause, measures in ((0, False), (1, False), (0.99, True)):
        clock.now += pause
        made.watch()
        assert (made.late._probing is not None) is measures
    await ended(made.late)


# The messages of people and of bridges, and requests without a known person ----------------------


async def test_a_persons_message_is_counted_and_a_bridges_later(
    made: Admission, clock: Clock, at_once: None, looks: list[Load | Exception]
) -> None:
    """When the allowlist has told which person its sender is."""
    made.load, made._looked_at = FREE, clock.now
    admit_message(Principal(user=User(pk=ANN)))
    assert (made._recent, made.late._probing) == ({ANN: 1}, None)
    admit_message(Principal(account=ChannelAccount(pk=BEA)))
    assert made._recent == {ANN: 1}
    await ended(made.late)
    made.load = FULL
    with pytest.raises(BusyError):
        admit_message(Principal(user=User(pk=ANN)))
    admit_message(Principal(account=ChannelAccount(pk=BEA)))


def test_so_many_requests_may_wait_to_be_authenticated() -> None:
    entrance = Entrance()
    with ExitStack() as waiting:
        for _ in range(256):
            waiting.enter_context(entrance.one())
        for _ in range(2):
            with pytest.raises(BusyError) as refused, entrance.one():
                pytest.fail("one too many")
            assert busy(refused.value) == (256, 1)
    with pytest.raises(LookupError), entrance.one():
        raise LookupError
    assert entrance.number == 0

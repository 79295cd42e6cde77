"""The edges of the sliding minute: which event is the first too many, and when one may come again.

Moments are given, or the clock stands still; the broker's own script is run on a real one.
"""

from collections.abc import Callable
from secrets import token_hex
from typing import Any

import pytest
import redis

from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError
from channels_app.asgi.throttling import Rate, Streams, network_of
from core.lib import broker
from tests.channels_app.asgi.clocks import Clock

WINDOW_MS = 60_000
NOW = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock of the module."""
    made = Clock()
    monkeypatch.setattr(throttling, "time", made)
    return made


class Script:
    """The script in a broker; ``outcomes``: its answers in milliseconds, and its errors."""

    def __init__(self, *outcomes: int | Exception) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[dict[str, Any]] = []

    def __call__(self, **asked: Any) -> int:
        self.asked.append(asked)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def wait(count: Callable[..., None], **event: Any) -> int:
    """Count an event; return after how many seconds a refusal says to try again, 0 without one."""
    try:
        count(**event)
    except RefusedError as error:
        return int(error.headers["Retry-After"]) if error.status == 429 else -1
    return 0


def waits(rate: Rate, *moments: float, limit: int = 3, subject: str = "a") -> list[int]:
    """Count events of ``subject`` at these moments in this process."""
    return [wait(rate.here, subject=subject, limit=limit, now=each) for each in moments]


def counting(*outcomes: int | Exception) -> tuple[Rate, Script]:
    """Return a shared count whose broker answers so."""
    rate, script = Rate("test"), Script(*outcomes)
    rate._broker = throttling.Broker()
    rate._broker._script = script  # type: ignore[assignment]
    return rate, script


def test_the_first_event_too_many_waits_until_the_oldest_is_a_minute_old() -> None:
    assert waits(Rate(), 0, 1, 2, 2.5, 59, 59.999) == [0, 0, 0, 58, 1, 1]


def test_a_place_is_free_a_minute_after_its_event_and_refused_ones_took_none() -> None:
    assert waits(Rate(), 0, 1, 2, 3, 60, 60.5, 61, 61.5, 62, 62) == [0, 0, 0, 57, 0, 1, 0, 1, 0, 58]


def test_after_a_long_pause_all_places_are_free() -> None:
    assert waits(Rate(), 0, 1, 2, 500, 500, 500, 500) == [0, 0, 0, 0, 0, 0, 60]


def test_each_subject_is_counted_apart_and_zero_is_no_limit() -> None:
    rate = Rate()
    assert waits(rate, 0, 0, limit=1) == [0, 60]
    assert waits(rate, 0, 0, limit=1, subject="b") == [0, 60]
    assert waits(rate, *[0] * 9, limit=0, subject="c") == [0] * 9
    assert waits(rate, 0, limit=1, subject="c") == [0], "nor were they counted"


def test_the_moment_is_now_where_none_is_given(clock: Clock) -> None:
    rate = Rate()
    for pause, expected in ((0, 0), (20, 40), (39.5, 1), (0.5, 0)):
        clock.now += pause
        assert wait(rate.here, subject="a", limit=1) == expected
        assert wait(rate.check, subject="b", limit=1) == expected


def test_the_moment_of_a_check_may_be_given() -> None:
    rate = Rate()
    found = [wait(rate.check, subject="a", limit=1, now=each) for each in (5, 6, 65)]
    assert found == [0, 59, 0]
    assert wait(rate.check, subject="b", limit=1, now=65) == 0


def test_a_refusal_says_when_to_try_again() -> None:
    for seconds, said in ((0.001, "1"), (1.0, "1"), (1.001, "2"), (60, "60")):
        error = throttling.refusal(seconds)
        assert str(error) == f"Too many requests. Try again in {said} s."
        assert (error.status, error.headers) == (429, {"Retry-After": said})


def test_the_subject_that_was_not_seen_for_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its memory is bounded, however many addresses an attacker has."""
    monkeypatch.setattr(throttling, "MAX_COUNTED", 3)
    rate = Rate()
    for each in ("a", "b", "c"):
        assert waits(rate, 0, limit=1, subject=each) == [0]
    assert waits(rate, 1, limit=1, subject="a") == [59], "seen again"
    assert waits(rate, 1, limit=1, subject="d") == [0]
    assert list(rate._seen) == ["c", "a", "d"]
    assert waits(rate, 1, limit=1, subject="b") == [0]
    assert waits(rate, 1, limit=1, subject="a") == [59]


def test_fifty_thousand_subjects_are_known() -> None:
    rate = Rate()
    for number in range(50_002):
        rate.here(subject=str(number), limit=1, now=0)
    assert len(rate._seen) == 50_000


# In the broker -----------------------------------------------------------------------------------


def test_the_broker_is_asked_with_the_limit_and_the_minute() -> None:
    rate, script = counting(0, 1, 2002, 0)
    limited = [wait(rate.check, subject="me", limit=7) for _ in range(4)]
    assert limited == [0, 1, 3, 0]
    assert script.asked == [{"keys": ["latchkey:rate:test:me"], "args": [7, WINDOW_MS]}] * 4


def test_no_broker_is_asked_without_a_name_or_a_limit() -> None:
    for rate, limit in ((Rate(), 1), (Rate("test"), 0)):
        assert wait(rate.everywhere, subject="a", limit=limit) == 0
        assert rate._broker is None


def test_the_broker_is_not_asked_about_a_request_that_is_refused_here() -> None:
    rate, script = counting(0)
    assert [wait(rate.check, subject="a", limit=1, now=5) for _ in range(2)] == [0, 60]
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    "error", [redis.ConnectionError(), redis.TimeoutError(), redis.ResponseError(), OSError()]
)
def test_a_broker_that_fails_is_left_alone_for_a_second(error: Exception, clock: Clock) -> None:
    """Requests pass meanwhile, for each process counts its own."""
    rate, script = counting(error, 2000, 0)
    for pause, expected, asked in ((0, 0, 1), (0.99, 0, 1), (0.01, 2, 2), (0, 0, 3)):
        clock.now += pause
        assert wait(rate.everywhere, subject="a", limit=9) == expected
        assert len(script.asked) == asked


def test_a_broker_that_fails_is_left_alone_by_all_rates(clock: Clock) -> None:
    """A hanging one would else keep a thread for a quarter of a second for each of them."""
    first, _ = counting(redis.TimeoutError(), 3000)
    second, script = counting(2000)
    for pause, expected in ((0, [0, 0]), (0.99, [0, 0]), (0.01, [3, 2])):
        clock.now += pause
        assert [wait(each.everywhere, subject="a", limit=9) for each in (first, second)] == expected
    assert len(script.asked) == 1


def test_the_broker_is_asked_at_once_where_the_clock_has_just_begun(clock: Clock) -> None:
    """That of some systems begins with the machine."""
    clock.now = 0.0
    rate, _ = counting(3000)
    assert wait(rate.everywhere, subject="a", limit=9) == 3


def test_a_broker_that_hangs_holds_a_request_for_a_quarter_of_a_second() -> None:
    script: Any = throttling.Broker()._script
    options = script.registered_client.connection_pool.connection_kwargs
    assert (options["socket_timeout"], options["socket_connect_timeout"]) == (0.25, 0.25)


class Counted:
    """A count in the real broker. ``put``: at which milliseconds before now events were."""

    def __init__(self, limit: int) -> None:
        self.subject, self.limit, self.rate = token_hex(8), limit, Rate("test")
        self.key = f"latchkey:rate:test:{self.subject}"
        self.client = broker.client(seconds=30.0)

    def put(self, *ages: int) -> None:
        seconds, micros = self.client.time()
        for age in sorted(ages, reverse=True):
            self.client.lpush(self.key, seconds * 1000 + micros // 1000 - age)

    def wait(self) -> int:
        return wait(self.rate.everywhere, subject=self.subject, limit=self.limit)


def test_the_broker_counts_the_last_minute_only() -> None:
    counted = Counted(limit=2)
    counted.put(WINDOW_MS, 0)
    assert counted.wait() == 0
    assert counted.wait() == 60, "the event of just now is the oldest of two"
    assert counted.client.llen(counted.key) == 2
    assert 0 < counted.client.pttl(counted.key) <= WINDOW_MS


def test_a_refused_event_is_not_counted_by_the_broker() -> None:
    counted = Counted(limit=1)
    counted.put(30_000)
    assert [counted.wait(), counted.wait()] == [30, 30]
    assert counted.client.llen(counted.key) == 1


def test_a_broker_whose_clock_was_set_back_begins_anew() -> None:
    """Its events in the future would refuse every request for as long."""
    counted = Counted(limit=2)
    counted.put(-3_600_000, -3_500_000)
    assert [counted.wait() for _ in range(3)] == [0, 0, 60]


# Addresses and streams ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("198.51.100.1", "198.51.100.1"),
        ("::FFFF:198.51.100.1", "198.51.100.1"),
        ("2001:DB8:0:7:ffff::9", "2001:db8:0:7::/64"),
        ("2001:db8:0:8::", "2001:db8:0:8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("no address", "no address"),
    ],
)
def test_an_address_is_counted_by_its_customer(address: str, counted: str) -> None:
    assert network_of(address) == counted


def opened(streams: Streams, *users: int | str, limit: int = 2) -> list[int]:
    """Open a stream for each of ``users``."""
    return [wait(streams.enter, user_id=each, limit=limit) for each in users]


def test_as_many_streams_are_open_as_the_limit_says() -> None:
    streams = Streams()
    assert opened(streams, 1, 1, 1, "b", "b", "b") == [0, 0, 5, 0, 0, 5]
    streams.leave(user_id=1)
    assert opened(streams, 1, 1) == [0, 5]
    for _ in range(2):
        streams.leave(user_id=1)
    assert opened(streams, 1, 1, 1) == [0, 0, 5]


def test_a_stream_is_open_while_its_block_runs() -> None:
    streams = Streams()
    with pytest.raises(LookupError), streams.one(user_id=1, limit=1):
        assert opened(streams, 1, limit=1) == [5]
        raise LookupError
    with streams.one(user_id=1, limit=1):
        with pytest.raises(RefusedError), streams.one(user_id=1, limit=1):
            pytest.fail("there is one already")
        assert opened(streams, 1, limit=1) == [5]
    assert opened(streams, 1, 1, limit=1) == [0, 5]


def test_a_person_without_a_stream_is_not_remembered() -> None:
    streams = Streams()
    with streams.one(user_id="a", limit=1):
        assert len(streams._open) == 1
    assert len(streams._open) == 0

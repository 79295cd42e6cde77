"""Redis only carries hints: when it is away or hangs, no caller waits and no thread dies."""

import asyncio
import base64
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import orjson
import pytest
import redis
from celery import Celery
from django.conf import settings as django_settings
from django.db import transaction
from pytest_django import Settings

from core.database.transactions import atomic_write
from core.signals import pubsub, wakeups
from tests.servers import Valkey, wait_until


@pytest.fixture
def sender(broker: Valkey) -> pubsub.Sender:
    """Return a sender to it."""
    return pubsub.Sender()


def frame(number: int, *keys: str) -> pubsub.Frame:
    """Return a frame for ``keys``."""
    return {"keys": list(keys) or ["a"], "kind": "test", "number": number}


async def heard(listener: pubsub.Listener) -> list[int]:
    """Return the numbers of the next frames."""
    async with asyncio.timeout(60):
        while True:
            frames = await listener.wait()
            if frames:
                return [each["number"] for each in frames]


async def connected(*, to: bool = True) -> None:
    """Wait until the hub is connected, or is not."""
    async with asyncio.timeout(60):
        while pubsub.local().connected is not to:
            await asyncio.sleep(0.01)


async def test_frames_reach_the_listeners_of_their_keys(sender: pubsub.Sender) -> None:
    hub = pubsub.local()
    with hub.listen(["a", "b"]) as both, hub.listen(["b"]) as one:
        await connected()
        assert await hub.confirmed(both)
        assert await hub.confirmed(one)
        assert sender.publish([frame(1, "a", "b"), frame(2, "b"), frame(3, "c")]) == 3
        assert await heard(one) == [1, 2]
        assert await heard(both) == [1, 1, 2]
        hub.add(one, ["c"])
        assert await hub.confirmed(one)
        sender.publish([frame(4, "c"), frame(5, "a")])
        assert await heard(one) == [4]
        assert await heard(both) == [5]
        hub.remove(one, ["c"])
        sender.publish([frame(6, "b")])
        assert await heard(one) == [6]
    assert hub.count() == 0
    await hub.close()


async def test_gateways_with_databases_of_one_redis_hear_nothing_of_each_other(
    broker: Valkey, settings: Settings
) -> None:
    """Else a stop in one would end the run with the same number in the other, and its owner's cards
    would be shown there."""
    first, second = pubsub.local(), pubsub.Hub()
    with first.listen(["runs"]) as listener:
        await connected()
        assert await first.confirmed(listener)
        settings.REDIS_URL = f"{broker.url.removesuffix('/0')}/1"
        sender = pubsub.Sender()
        assert sender.publish([frame(1, "runs")]) == 0
        with second.listen(["runs"]) as own:
            async with asyncio.timeout(60):
                while not sender.publish([frame(2, "runs")]):
                    await asyncio.sleep(0.01)
            assert (await heard(own))[0] == 2
        await second.close()
    await first.close()


async def test_a_process_receives_only_keys_that_it_has_a_listener_for(
    broker: Valkey, sender: pubsub.Sender
) -> None:
    hub = pubsub.local()
    with hub.listen(["a"]) as listener:
        await connected()
        assert await hub.confirmed(listener)
        assert sender.publish([frame(1, "a")]) == 1
        assert sender.publish([frame(2, "b")]) == 0
        with hub.listen(["b"]) as other:
            assert await hub.confirmed(other)
            assert sender.publish([frame(3, "b")]) == 1
        async with asyncio.timeout(60):
            while sender.publish([frame(4, "b")]):
                await asyncio.sleep(0.01)
    await hub.close()


async def test_a_key_that_is_left_and_wanted_again_at_once_is_received(
    broker: Valkey, sender: pubsub.Sender
) -> None:
    hub = pubsub.local()
    with hub.listen(["x"]):
        await connected()
        for number in range(50):
            with hub.listen(["a"]):
                pass
            with hub.listen(["a"]) as listener:
                assert await hub.confirmed(listener)
                async with asyncio.timeout(60):
                    while not listener._frames:
                        sender.publish([frame(number, "a")])
                        await asyncio.sleep(0.001)
    await hub.close()


async def test_without_redis_nothing_is_confirmed(settings: Settings) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with pubsub.local().listen(["a"]) as listener:
        assert not await pubsub.local().confirmed(listener)
    await pubsub.local().close()


async def test_a_listener_holds_a_bounded_number_of_frames_and_says_that_it_lags() -> None:
    listener = pubsub.Listener()
    for number in range(100_000):
        listener.put(frame(number))
    assert listener.take_lag()
    assert not listener.take_lag()
    assert len(await listener.wait()) <= django_settings.MAX_QUEUED_FRAMES
    assert await listener.wait(seconds=0.01) == []


async def test_a_restarted_redis_is_found_again_and_listeners_look_into_the_log(
    broker: Valkey, sender: pubsub.Sender
) -> None:
    with pubsub.local().listen(["a"]) as listener:
        await connected()
        assert listener.take_lag()
        broker.process.send(signal.SIGKILL)
        broker.process.wait()
        await connected(to=False)
        sender.publish([frame(1)])
        broker.start()
        await connected()
        assert listener.take_lag()
        async with asyncio.timeout(60):
            while not listener._frames:
                sender.publish([frame(2)])
                await asyncio.sleep(0.05)
        assert (await heard(listener))[0] == 2
    await pubsub.local().close()


async def test_a_redis_that_hangs_is_noticed(
    broker: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pubsub, "SILENCE_SECONDS", 0.2)
    with pubsub.local().listen(["a"]) as listener:
        await connected()
        await asyncio.sleep(0.5)  # it is asked, and answers
        assert pubsub.local().connected
        os.kill(broker.process.pid, signal.SIGSTOP)
        await connected(to=False)
        os.kill(broker.process.pid, signal.SIGCONT)
        await connected()
        assert listener.take_lag()
    await pubsub.local().close()


async def test_a_frame_that_is_no_frame_does_not_silence_the_hub(
    broker: Valkey, sender: pubsub.Sender
) -> None:
    with pubsub.local().listen(["a"]) as listener, redis.Redis.from_url(broker.url) as client:
        await connected()
        for rubbish in (b"\xff", b"{}", b'[{"kind": "x"}]', b"[1]"):
            client.publish(pubsub.channel_of("a"), rubbish)
        async with asyncio.timeout(60):
            while not listener._frames:
                sender.publish([frame(1)])
                await asyncio.sleep(0.05)
        assert (await heard(listener))[0] == 1
    await pubsub.local().close()


def test_publishing_to_a_redis_that_hangs_waits_once(
    broker: Valkey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The event writer publishes: it must not stop with the whole worker."""
    monkeypatch.setattr(pubsub, "ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(pubsub, "RETRY_SECONDS", 3600.0)
    sender = pubsub.Sender()
    sender.publish([frame(0)])
    os.kill(broker.process.pid, signal.SIGSTOP)
    for number in range(20):
        sender.publish([frame(number)])
    assert caplog.text.count("the hub is away") == 1
    sender.publish([])


def test_publishing_goes_on_after_redis_came_back(broker: Valkey, sender: pubsub.Sender) -> None:
    with redis.Redis.from_url(broker.url) as client, client.pubsub() as subscription:
        broker.process.send(signal.SIGKILL)
        broker.process.wait()
        sender.publish([frame(1)])
        broker.start()
        subscription.subscribe(pubsub.channel_of("a"))

        def came() -> bool:
            sender.publish([frame(2)])
            message = subscription.get_message(timeout=0.05)
            return message is not None and message["type"] == "message"

        wait_until(came, seconds=10)


# Wake-ups ----------------------------------------------------------------------------------------


class FakeCelery:
    """A Celery application that records its messages, and raises a given error."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.errors: list[Exception] = []

    def send_task(self, name: str, *, kwargs: dict[str, Any], queue: str) -> None:
        assert (name, queue) == ("core.long.work", "long")
        if self.errors:
            raise self.errors.pop()
        self.sent.append(kwargs["row_id"])


@pytest.fixture
def application(monkeypatch: pytest.MonkeyPatch) -> FakeCelery:
    """Return the application that the publisher finds."""
    fake = FakeCelery()
    monkeypatch.setattr(wakeups, "import_string", lambda path: fake)
    return fake


def test_rc5_no_error_of_the_broker_ends_the_publisher(application: FakeCelery) -> None:
    publisher = wakeups.Publisher()
    application.errors = [
        redis.exceptions.ResponseError("OOM command not allowed"),
        OSError("gone"),
        KeyError("what the vendor raises"),
    ]
    for number in range(4):
        publisher.put("core.long.work", "long", number)
    wait_until(lambda: application.sent == [3], seconds=5)


def test_a_full_queue_drops_wake_ups_and_never_waits(
    application: FakeCelery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "MAX_WAITING", 2)
    monkeypatch.setattr(threading.Thread, "start", lambda thread: None)
    publisher = wakeups.Publisher()
    for number in range(100):
        publisher.put("core.runs.wake", "runs", number)
    assert publisher._queue.qsize() == 2


def waiting(broker: Valkey, name: str = wakeups.RUN_LIST) -> list[int]:
    """Return the ids in one of the broker's lists."""
    with redis.Redis.from_url(broker.url) as client:
        found: list[bytes] = client.lrange(name, 0, -1)
    return [orjson.loads(each)[1] for each in found]


def test_wake_ups_go_on_after_the_broker_was_killed(broker: Valkey) -> None:
    publisher = wakeups.Publisher()
    publisher.put("core.runs.wake", "runs", 1)
    wait_until(lambda: waiting(broker) == [1], seconds=10)
    broker.process.send(signal.SIGKILL)
    broker.process.wait()
    publisher.put("core.runs.wake", "runs", 2)
    wait_until(publisher._queue.empty, seconds=10)
    broker.start()
    numbers = iter(range(3, 1000))

    def arrives() -> bool:
        publisher.put("core.runs.wake", "runs", next(numbers))
        return max(waiting(broker), default=0) >= 3

    wait_until(arrives, seconds=20)


def test_rc5_a_full_broker_takes_wake_ups_again_when_it_has_space(broker: Valkey) -> None:
    publisher = wakeups.Publisher()
    with redis.Redis.from_url(broker.url) as client:
        client.config_set("maxmemory", "1")
        publisher.put("core.runs.wake", "runs", 1)
        wait_until(publisher._queue.empty, seconds=10)
        client.config_set("maxmemory", "0")
        numbers = iter(range(2, 1000))

        def arrives() -> bool:
            publisher.put("core.runs.wake", "runs", next(numbers))
            return bool(waiting(broker))

        wait_until(arrives, seconds=20)


async def taken(taker: wakeups.Taker, *, most: int = 10) -> list[tuple[str, int]]:
    """Return what a worker takes, as soon as there is something."""
    async with asyncio.timeout(60):
        while not (found := await taker.take(most=most)):
            pass
        return found


async def test_a_wake_up_reaches_one_worker_and_waits_when_there_is_none(broker: Valkey) -> None:
    """Four workers with four places each and ten runs: each run is taken once, none is left."""
    lists = wakeups.Lists()
    assert lists.push([(wakeups.RUN, number) for number in range(10)])
    assert lists.push([("core.runs.wake_batch", 7)])
    takers = [wakeups.Taker(wakeups.RUN_LIST) for _ in range(4)]
    found = await asyncio.gather(*(taken(taker, most=4) for taker in takers[:3]))
    assert sorted(row for part in found for _, row in part) == list(range(10))
    assert max(map(len, found)) == 4, "no worker takes more than it has places for"
    waiting_workers = [asyncio.create_task(taken(taker)) for taker in takers]
    await asyncio.to_thread(lists.push, [(wakeups.RUN, 11)])
    done, others = await asyncio.wait(waiting_workers, return_when=asyncio.FIRST_COMPLETED)
    assert [each.result() for each in done] == [[(wakeups.RUN, 11)]], "one is woken, not all"
    while others:  # a connection that is being made may swallow a cancellation, as at the stop
        for each in others:
            each.cancel()
        _, others = await asyncio.wait(others, timeout=0.1)
    assert waiting(broker) == []
    assert waiting(broker, wakeups.OTHER_LIST) == [7]
    for taker in takers:
        await taker.close()


async def test_a_worker_learns_that_wake_ups_may_be_lost_when_the_broker_is_back(
    broker: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeups, "RETRY_SECONDS", 0.01)
    taker = wakeups.Taker(wakeups.RUN_LIST)
    lists = wakeups.Lists()
    lists.push([(wakeups.RUN, 1)])
    assert await taken(taker) == [(wakeups.RUN, 1)]
    assert not taker.take_lag()
    await asyncio.to_thread(broker.process.send, signal.SIGKILL)
    await asyncio.to_thread(broker.process.wait)
    assert await taker.take(most=1) == []
    assert not lists.push([(wakeups.RUN, 2)])
    assert not taker.take_lag(), "it is not back yet"
    await asyncio.to_thread(broker.start)
    while not await asyncio.to_thread(lists.push, [(wakeups.RUN, 3)]):
        pass
    # It syncs its file once a second: a wake-up taken just before its death may come again.
    found = await taken(taker)
    while found[-1] != (wakeups.RUN, 3):
        found += await taken(taker)
    assert found in ([(wakeups.RUN, 3)], [(wakeups.RUN, 1), (wakeups.RUN, 3)])
    assert taker.take_lag()
    assert not taker.take_lag()
    await taker.close()


def test_the_lists_are_bounded(broker: Valkey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakeups, "MAX_WAITING", 3)
    lists = wakeups.Lists()
    for number in range(5):
        lists.push([(wakeups.RUN, number)])
    assert waiting(broker) == [2, 3, 4]


def test_the_queue_of_long_tasks_is_bounded(
    broker: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waiting one is woken every half minute, also while no worker runs for a week."""
    application = Celery(broker=broker.url)
    monkeypatch.setattr(wakeups, "import_string", lambda path: application)
    publisher = wakeups.Publisher()
    monkeypatch.setattr(wakeups, "MAX_WAITING", 3)
    for number in range(5):
        publisher.put("core.long.work", "long", number)

    def kept() -> list[int]:
        with redis.Redis.from_url(broker.url) as client:
            found: list[bytes] = client.lrange("long", 0, -1)
        bodies = [orjson.loads(base64.b64decode(orjson.loads(each)["body"])) for each in found]
        return [body[1]["row_id"] for body in bodies]

    wait_until(lambda: kept() == [4, 3, 2], seconds=5)
    application.close()


Capture = Callable[..., Any]


@pytest.mark.django_db(transaction=True)
def test_a_wake_up_is_sent_after_the_commit_and_not_without_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(wakeups, "send", lambda task, row_id, *, queue_name: sent.append(row_id))
    with atomic_write():
        wakeups.run(1)
        wakeups.batch(2)
        wakeups.delivery(3)
        assert sent == []
    assert sent == [1, 2, 3]
    with pytest.raises(ValueError, match="no"), atomic_write():
        wakeups.run(4)
        raise ValueError("no")
    assert sent == [1, 2, 3]
    assert not transaction.get_connection().in_atomic_block


def test_a_worker_takes_its_own_wake_ups_unless_it_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[wakeups.WakeUp] = []
    taken: list[tuple[str, int]] = []
    room = True

    def take(task: str, row_id: int) -> bool:
        taken.append((task, row_id))
        return room

    publisher = wakeups.Publisher()
    monkeypatch.setattr(publisher, "put", lambda *each: told.append(each))
    monkeypatch.setattr(wakeups, "publisher", lambda: publisher)
    wakeups.take_here(take)
    wakeups.send("core.runs.wake", 1)
    wakeups.send("core.jobs_worker.wake", 2, queue_name="long")
    room = False
    wakeups.send("core.runs.wake", 3)
    wakeups.leave(take)
    wakeups.leave(take)
    wakeups.send("core.runs.wake", 4)
    assert taken == [("core.runs.wake", 1), ("core.runs.wake", 3)]
    assert [each[2] for each in told] == [2, 3, 4]

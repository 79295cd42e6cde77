"""Take wake-ups from the broker's lists: a worker takes runs only while it has places for them."""

from collections.abc import Callable

from channels_app.worker.places import Places
from core.signals import wakeups

# The task of a wake-up -> the kinds of work that it starts.
KINDS = {
    wakeups.RUN: ("run",),
    wakeups.BATCH: ("batch", "ack"),
    wakeups.DELIVERY: ("delivery",),
    wakeups.PUSH: ("push",),
}
# Starts work of a kind for a row.
Spawn = Callable[[str, int], None]
# Looks for work in the database, because wake-ups may have been lost.
Look = Callable[[], None]


async def take_runs(places: Places, *, spawn: Spawn, look: Look) -> None:
    """Take wake-ups of runs, never more than there are free places.

    As many as that: others may wait behind them, and the database says whose turn it is.
    """
    taker = wakeups.Taker(wakeups.RUN_LIST)
    try:
        while True:
            await places.wait(taken=False)
            most = places.free
            found = await taker.take(most=most)
            if taker.take_lag():
                look()
            if found and len(found) == most:
                places.others_wait = True
                places.announce()
                continue
            for _, run_id in found:
                spawn("run", run_id)
    finally:
        await taker.close()


async def take_others(*, spawn: Spawn, look: Look) -> None:
    """Take wake-ups of batches and deliveries."""
    taker = wakeups.Taker(wakeups.OTHER_LIST)
    try:
        while True:
            for task, row_id in await taker.take(most=wakeups.AT_ONCE):
                for kind in KINDS[task]:
                    spawn(kind, row_id)
            if taker.take_lag():
                look()
    finally:
        await taker.close()

"""Streams are read at once while few speak, and once a frame while many do."""

import asyncio

import pytest
from pytest_django import Settings

from core.signals import frame_clock


async def reads(clock: frame_clock.FrameClock, number: int, *, seconds: float) -> list[bool]:
    """Read ``number`` times with pauses; return each time whether the next read should wait."""
    found = []
    for _ in range(number):
        found.append(clock.is_busy())
        await asyncio.sleep(seconds)
    return found


async def test_a_lone_stream_is_read_at_once(settings: Settings) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 20
    assert not any(await reads(frame_clock.FrameClock(), 20, seconds=0.01))


async def test_many_reads_in_a_frame_make_the_next_ones_wait(settings: Settings) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 200
    clock = frame_clock.FrameClock()
    found = await reads(clock, 100, seconds=0.01)
    assert found[0] is False
    assert found[-1] is True, "also at the beginning of a frame, after a busy one"
    await asyncio.sleep(0.5)
    assert clock.is_busy() is False


async def test_all_that_wait_go_on_at_one_tick(settings: Settings) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 30
    clock = frame_clock.local()
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def wait() -> None:
        await clock.tick()
        times.append(loop.time())

    async with asyncio.timeout(30):
        waiting = [asyncio.create_task(wait()) for _ in range(3)]
        cancelled = asyncio.create_task(wait())
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.gather(*waiting)
        await clock.tick()
    assert len(times) == 3
    assert len({int(time / 0.03) for time in times}) == 1


@pytest.mark.parametrize("milliseconds", [1, 1000])
async def test_a_frame_of_any_length_ends(settings: Settings, milliseconds: int) -> None:
    settings.EVENT_FRAME_MILLISECONDS = milliseconds
    async with asyncio.timeout(30):
        await frame_clock.FrameClock().tick()

"""One tick for all streams of an event loop."""

import asyncio
import itertools
from typing import Any

import pytest
import uvloop
from pytest_django import Settings

from core.signals import frame_clock
from core.signals.frame_clock import FrameClock


async def speak(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send "something" from a server, and more a little later."""
    writer.write(b"1")
    await writer.drain()
    await asyncio.sleep(0.02)
    writer.write(b"2")
    writer.close()
    await writer.wait_closed()


async def stream(port: int, said: list[str]) -> None:
    """Read both, with a tick between."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.readexactly(1) == b"1"
    transport: Any = writer.transport
    transport.pause_reading()
    await asyncio.sleep(0.1)  # the rest is in the kernel
    await frame_clock.local().tick()
    transport.resume_reading()
    assert await reader.readexactly(1) == b"2"
    said.append("heard")
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("policy", [asyncio.DefaultEventLoopPolicy, uvloop.EventLoopPolicy])
def test_a_task_that_waits_for_a_tick_has_read_before_its_end(
    policy: type[asyncio.AbstractEventLoopPolicy], settings: Settings
) -> None:
    """A socket that has bytes is read, and its reader has run, before what follows the tick."""
    settings.EVENT_FRAME_MILLISECONDS = 30
    said: list[str] = []

    async def several() -> None:
        clock = frame_clock.local()
        clock.call_around(lambda: said.append("begin"), lambda: said.append("end"))
        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(30):
            await asyncio.gather(*(stream(port, said) for _ in range(3)))
            while said.count("end") < said.count("begin"):
                await asyncio.sleep(0.01)
        server.close()

    with asyncio.Runner(loop_factory=policy().new_event_loop) as runner:
        runner.run(several())
    assert said.count("heard") == 3
    assert said[0] == "begin"
    for number, each in enumerate(said):
        assert each != "begin" or said[number + 1] == "heard"


async def test_a_tick_comes_within_a_frame_and_never_in_the_past(settings: Settings) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 20
    clock = FrameClock()
    ticks = []
    async with asyncio.timeout(60):
        for _ in range(20):
            await clock.tick()
            ticks.append(asyncio.get_running_loop().time())
    assert all(later > earlier for earlier, later in itertools.pairwise(ticks))


async def test_a_cancelled_waiter_does_not_keep_others_from_waking(settings: Settings) -> None:
    settings.EVENT_FRAME_MILLISECONDS = 20
    clock = FrameClock()
    gone = asyncio.ensure_future(clock.tick())
    stays = asyncio.ensure_future(clock.tick())
    await asyncio.sleep(0)
    gone.cancel()
    async with asyncio.timeout(60):
        await stays


async def test_each_loop_has_its_own_clock() -> None:
    here = frame_clock.local()
    assert frame_clock.local() is here
    assert await asyncio.to_thread(asyncio.run, ask()) is not here


async def ask() -> FrameClock:
    """Return the clock of the running event loop."""
    return frame_clock.local()

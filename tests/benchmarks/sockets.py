"""``/ws`` under load: turns a second, others' patience while a query hangs, and idle chats."""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import psycopg
from websockets.exceptions import WebSocketException

from gateway_project.processes.web import PING_SECONDS
from tests.benchmarks import chats, machine
from tests.benchmarks.clients import Http, Socket
from tests.benchmarks.gateway import MeasuredGateway

HELD_SECONDS = 0.1
PINGERS = 10
OPENING_AT_ONCE = 50
IDLE_SECONDS = 25.0


@asynccontextmanager
async def opened(
    measured: MeasuredGateway,
    number: int,
    *,
    people: int | None = None,
    whatever_opens: bool = False,
) -> AsyncIterator[list[Socket]]:
    """Yield so many open sockets, of the people (of the first ``people``) in turn;
    ``whatever_opens``: those that were accepted."""
    keys = measured.keys[:people]
    sockets = [
        Socket(url=measured.gateway.ws_url, key=keys[each % len(keys)]) for each in range(number)
    ]
    gate = asyncio.Semaphore(OPENING_AT_ONCE)

    async def open_one(socket: Socket) -> bool:
        async with gate:
            try:
                await socket.open()
            except (OSError, TimeoutError, WebSocketException):
                if not whatever_opens:
                    raise
                return False
            return True

    let_in = await asyncio.gather(*(open_one(socket) for socket in sockets))
    sockets = [socket for socket, is_open in zip(sockets, let_in, strict=True) if is_open]
    try:
        yield sockets
    finally:
        await asyncio.gather(*(socket.close() for socket in sockets))


@dataclass(frozen=True)
class Throughput:
    """Turns a second, and ms of CPU a turn by process."""

    turns: float
    cpu_ms: float


async def throughput(measured: MeasuredGateway, *, users: int, seconds: float) -> Throughput:
    """Measure turns a second of a model without delay; check that no work is left over."""
    async with opened(measured, users) as sockets:
        before = machine.cpu_of(measured.pids)
        asked = measured.count("run")
        turns = await chats.answers_a_second(measured, askers=sockets, seconds=seconds)
        cpu = sum(machine.spent(before, machine.cpu_of(measured.pids)).values())
    measured.drain()
    return Throughput(turns, cpu / (measured.count("run") - asked) * 1000)


@contextmanager
def holder(measured: MeasuredGateway) -> Iterator[Callable[[], None]]:
    """Yield a function that blocks every writer of the database for HELD_SECONDS.

    It connects once: a new connection costs PostgreSQL's core as much as a turn.
    """
    url = measured.gateway.database_url
    if url.startswith("sqlite"):
        name = urlsplit(url).path
        with closing(
            sqlite3.connect(name, timeout=20, isolation_level=None, check_same_thread=False)
        ) as held:

            def hold_sqlite() -> None:
                held.execute("BEGIN IMMEDIATE")
                time.sleep(HELD_SECONDS)
                held.execute("ROLLBACK")

            yield hold_sqlite
        return
    with psycopg.connect(url.replace("postgres://", "postgresql://")) as postgres:

        def hold_postgres() -> None:
            postgres.execute("LOCK TABLE core_inboundmessage IN ACCESS EXCLUSIVE MODE")
            time.sleep(HELD_SECONDS)
            postgres.rollback()

        yield hold_postgres


@dataclass(frozen=True)
class Patience:
    """p99 of a ping in seconds: on an idle gateway; while a request, which starts nothing, waits
    for the database; while turns do; while turns run without waiting.
    """

    calm: float
    held: float
    held_turns: float
    turns: float


async def patience(measured: MeasuredGateway, *, seconds: float, rounds: int) -> Patience:
    """Measure pings of other sockets; the p99 is over the pings of all rounds, since that of one
    round differs by half from the next one's.
    """
    calm: list[float] = []
    held: list[float] = []
    held_turns: list[float] = []
    turns: list[float] = []
    with holder(measured) as hold:
        for _ in range(rounds):
            async with opened(measured, PINGERS) as sockets:
                calm += await pings(sockets, seconds)
                held += await pings_beside(measured, sockets, seconds, hold, starts_turns=False)
            async with opened(measured, PINGERS) as sockets:  # each may say so much a minute
                held_turns += await pings_beside(measured, sockets, seconds, hold)
                turns += await pings_beside(measured, sockets, seconds, wait)
    return Patience(*(machine.percentile(each, 0.99) for each in (calm, held, held_turns, turns)))


def wait() -> None:
    """Hold no lock, for the same time."""
    time.sleep(HELD_SECONDS)


async def pings_beside(
    measured: MeasuredGateway,
    sockets: list[Socket],
    seconds: float,
    hold: Callable[[], None],
    *,
    starts_turns: bool = True,
) -> list[float]:
    """Measure :func:`pings` during a request every HELD_SECONDS."""
    stop = asyncio.Event()
    disturbing = asyncio.ensure_future(disturb(measured, stop, hold, starts_turns=starts_turns))
    found = await pings(sockets, seconds)
    stop.set()
    await disturbing
    return found


async def pings(sockets: list[Socket], seconds: float) -> list[float]:
    """Measure pings of all sockets, a hundred a second each at most."""
    began = time.monotonic()

    async def of(socket: Socket) -> list[float]:
        found = []
        while time.monotonic() - began < seconds:
            found.append(await socket.ping())
            await asyncio.sleep(0.01)
        return found

    return [each for some in await asyncio.gather(*map(of, sockets)) for each in some]


async def disturb(
    measured: MeasuredGateway, stop: asyncio.Event, hold: Callable[[], None], *, starts_turns: bool
) -> None:
    """Send one request after the other, each while ``hold`` blocks the database.

    Without ``starts_turns`` it is the same one repeated, which is accepted and found to be known.
    """
    headers = {"Authorization": f"Bearer {measured.keys[-1]}"}
    if not starts_turns:
        headers["Idempotency-Key"] = "the-same-again"
    async with Http(measured.gateway.base_url) as http:
        while not stop.is_set():
            began = time.monotonic()
            holding = asyncio.ensure_future(asyncio.to_thread(hold))
            await asyncio.sleep(HELD_SECONDS / 10)
            status, _ = await http.post("/inbound", b'{"text": "x", "async": true}', headers)
            assert status == 202
            if not starts_turns:
                assert time.monotonic() - began >= HELD_SECONDS, "the request was not kept waiting"
            await holding


@dataclass(frozen=True)
class Idle:
    """Open chats that say nothing: how many failed, KiB each, and the share of a core they cost."""

    failed: int
    kib_each: float
    core: float


async def idle(measured: MeasuredGateway, *, number: int) -> Idle:
    """Open so many chats, wait, and see that each still answers."""
    web = {"web": measured.gateway.pid("web")}
    before = machine.memory(web)
    async with opened(measured, number, whatever_opens=True) as sockets:
        await asyncio.sleep(PING_SECONDS + 1)  # until all of them are pinged again and again
        grown = machine.memory(web) - before
        cpu = machine.cpu_of(web)
        await asyncio.sleep(IDLE_SECONDS)
        busy = machine.spent(cpu, machine.cpu_of(web))["web"] / IDLE_SECONDS
        answered = await asyncio.gather(*(answers(socket) for socket in sockets))
    failed = number - sum(answered)
    return Idle(failed, grown / 1024 / len(sockets), busy)


async def answers(socket: Socket) -> bool:
    """Return whether a socket is still served."""
    try:
        await socket.ping()
    except Exception:  # noqa: BLE001 - whatever it is, it is a failed chat
        return False
    return True

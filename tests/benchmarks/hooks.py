"""The Telegram webhook under load, beside an async Django view that stores nothing."""

import asyncio
import json
import time
from dataclasses import dataclass, field

from gateway_project.home import BASE_DIR
from tests.benchmarks import machine
from tests.benchmarks.chats import OURS, VIEW
from tests.benchmarks.clients import Http, Webhook
from tests.benchmarks.gateway import BOT, FIRST_SENDER_ID, SECRET, MeasuredGateway, control
from tests.servers import python

CONNECTIONS = 16
STEADY_PER_SECOND = 50
PAUSE_SECONDS = 0.5  # between two rounds: accepted messages are being answered meanwhile


@dataclass
class Hooks:
    """Rounds of one target: requests a second, and ms of CPU of the web process a request."""

    rate: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)


async def flood(hook: Webhook, *, pid: int, requests: int, people: int) -> tuple[float, float]:
    """Return requests a second over CONNECTIONS connections, and ms of CPU each."""
    queue = list(range(requests))
    before, began = machine.cpu_seconds(pid), time.monotonic()

    async def work(number: int) -> None:
        async with Http(hook.url) as http:
            while queue:
                queue.pop()
                await hook.send(http, user=FIRST_SENDER_ID + number % people)

    await asyncio.gather(*(work(number) for number in range(CONNECTIONS)))
    seconds = time.monotonic() - began
    return requests / seconds, (machine.cpu_seconds(pid) - before) / requests * 1000


async def steady(hook: Webhook, *, seconds: float, people: int) -> list[float]:
    """Return the latency of each of 50 requests a second, sent independent of answers."""
    began = time.monotonic()
    waits: list[float] = []

    async def one(number: int) -> None:
        due = began + number / STEADY_PER_SECOND
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        async with Http(hook.url) as http:
            await hook.send(http, user=FIRST_SENDER_ID + number % people)
        waits.append(time.monotonic() - due)

    await asyncio.gather(*(one(number) for number in range(int(seconds * STEADY_PER_SECOND))))
    return waits


@dataclass
class Patience:
    """The p99 in ms of each round: of ours, and of the disk by itself meanwhile."""

    ours: list[float] = field(default_factory=list)
    disk: list[float] = field(default_factory=list)


async def patience(
    measured: MeasuredGateway, *, seconds: float, people: int, rounds: int
) -> Patience:
    """Measure rounds of :func:`steady` with ours; all is answered between them."""
    hook, _ = targets(measured)[OURS]
    found = Patience()
    arguments = (str(measured.gateway.folder), str(seconds), str(STEADY_PER_SECOND))
    for _ in range(rounds):
        beside = await asyncio.create_subprocess_exec(
            *python("tests.benchmarks.disk", *arguments),
            stdout=asyncio.subprocess.PIPE,
            cwd=BASE_DIR,
        )
        waits = await steady(hook, seconds=seconds, people=people)
        output, _ = await beside.communicate()
        found.ours.append(machine.percentile(waits, 0.99) * 1000)
        found.disk.append(machine.percentile(json.loads(output), 0.99))
        await asyncio.to_thread(measured.drain)
    return found


def targets(measured: MeasuredGateway) -> dict[str, tuple[Webhook, int]]:
    """Return the floor and ours, each with its process."""
    path = f"/telegram/{BOT}/webhook"
    return {
        VIEW: (
            Webhook(measured.django.url, "/webhook"),
            measured.django.running.pid,
        ),
        OURS: (
            Webhook(measured.gateway.base_url, path, secret=SECRET),
            measured.gateway.pid("web"),
        ),
    }


async def compare(measured: MeasuredGateway, *, requests: int, rounds: int) -> dict[str, Hooks]:
    """Measure both in turn; in the end every message must have been answered in its chat."""
    await asyncio.to_thread(control, measured.stub, first_ms=0, per_second=0, tokens=16, sent=0)
    stored = measured.count("inboundmessage")
    found = {name: Hooks() for name in targets(measured)}
    people = min(CONNECTIONS, len(measured.keys))
    for number in range(rounds + 1):
        for name, (hook, pid) in targets(measured).items():
            rate, cpu = await flood(hook, pid=pid, requests=requests, people=people)
            if number:
                found[name].rate.append(rate)
                found[name].cpu_ms.append(cpu)
        await asyncio.sleep(PAUSE_SECONDS)
    await asyncio.to_thread(check_all_answered, measured, stored + requests * (rounds + 1))
    return found


def check_all_answered(measured: MeasuredGateway, messages: int) -> None:
    """Check that each message is stored and answered, and each answer reached the Bot API."""
    measured.drain()
    assert measured.count("inboundmessage") == messages, "messages were lost"
    blocks = measured.count("delivery", "run_id IS NOT NULL")
    assert int(control(measured.stub)["sent"]) >= blocks, "answers were not sent"

"""A flood of unknown senders on the Telegram webhook, and its cost for the chats of allowed users.

Rounds without and with the flood alternate, so that other load on the machine affects both. Users
and unknown senders send at a steady rate, independent of answers: the time of an answer begins when
its request was due. ``FLOOD`` messages a second (25: 10,000 of them in 400 s), ten of each sender,
ten senders at a time.
"""

import asyncio
import os
import time
from dataclasses import dataclass, field

from tests.benchmarks import machine, sockets
from tests.benchmarks.clients import Http, Socket, Webhook
from tests.benchmarks.gateway import BOT, FIRST_SENDER_ID, SECRET, MeasuredGateway, control
from tests.channels_app.client import query

CHATTING = 8
TURNS_PER_SECOND = 4
TOKENS = 16
CONNECTIONS = 10
MESSAGES_EACH = 10
HOURLY = 5  # notices of unknown senders, as in [A5]
STRANGERS = 5_000_000_000  # the Telegram id of the first unknown sender


@dataclass
class Side:
    """All rounds with the flood, or all without it. Seconds; ``cpu``: of all our processes."""

    waits: list[float] = field(default_factory=list)
    cpu: float = 0.0
    by_process: dict[str, float] = field(default_factory=dict)


@dataclass
class Flood:
    """The flood, which continues where it stopped. ``waits``: to the 200."""

    hook: Webhook
    per_second: float
    sent: int = 0
    waits: list[float] = field(default_factory=list)

    def sender(self, number: int) -> int:
        """Return the sender of message ``number``: ten senders in turn until each has sent ten."""
        crowd, turn = divmod(number, MESSAGES_EACH * CONNECTIONS)
        return STRANGERS + crowd * CONNECTIONS + turn % CONNECTIONS

    async def pour(self, seconds: float) -> None:
        """Send as many messages as fall into ``seconds``."""
        first, number = self.sent, int(seconds * self.per_second)
        self.sent += number
        began = time.monotonic()

        async def speak(connection: int) -> None:
            async with Http(self.hook.url) as http:
                for each in range(connection, number, CONNECTIONS):
                    due = began + each / self.per_second
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    await self.hook.send(http, user=self.sender(first + each))
                    self.waits.append(time.monotonic() - due)

        await asyncio.gather(*(speak(each) for each in range(CONNECTIONS)))


@dataclass(frozen=True)
class Found:
    """The effects of a flood on the people."""

    calm: Side
    flooded: Side
    flood: Flood

    def ratio(self, share: float) -> float:
        """Return the quotient of the answer times with and without the flood, at the quantile
        ``share``."""
        calm, flooded = (machine.percentile(side.waits, share) for side in self.sides)
        return flooded / calm

    @property
    def sides(self) -> tuple[Side, Side]:
        """Return the measurements without and with the flood."""
        return self.calm, self.flooded

    @property
    def cpu_ms(self) -> float:
        """Return the CPU in ms of a refused message, in all our processes."""
        return (self.flooded.cpu - self.calm.cpu) / self.flood.sent * 1000

    def cpu_parts(self) -> dict[str, float]:
        """Return the CPU in ms of a refused message, by process."""
        return {
            name: (seconds - self.calm.by_process[name]) / self.flood.sent * 1000
            for name, seconds in self.flooded.by_process.items()
        }


async def chat(people: list[Socket], seconds: float) -> list[float]:
    """Return the seconds from due time to answer, for each question; check each answer."""
    began = time.monotonic()
    waits: list[float] = []

    async def one(person: int, socket: Socket) -> None:
        for number in range(person, int(seconds * TURNS_PER_SECOND), len(people)):
            due = began + number / TURNS_PER_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            turn, tag = await socket.ask()
            waits.append(time.monotonic() - due)
            turn.check(tokens=TOKENS, tag=tag)

    await asyncio.gather(*(one(number, socket) for number, socket in enumerate(people)))
    return waits


async def compare(measured: MeasuredGateway, *, seconds: float, rounds: int) -> Found:
    """Measure rounds of ``seconds``, without and with; check the rows that the flood left."""
    await asyncio.to_thread(control, measured.stub, first_ms=20, per_second=0, tokens=TOKENS)
    hook = Webhook(measured.gateway.base_url, f"/telegram/{BOT}/webhook", secret=SECRET)
    async with Http(hook.url) as http:  # the owner's last-used channel: where the notices go
        await hook.send(http, user=FIRST_SENDER_ID)
    await asyncio.to_thread(measured.drain)
    found = Found(Side(), Side(), Flood(hook, float(os.environ.get("FLOOD", "25"))))
    async with sockets.opened(measured, CHATTING) as people:
        await chat(people, seconds / 2)
        for number in range(rounds):
            for side in found.sides if number % 2 == 0 else reversed(found.sides):
                await one_round(measured, people, side, found, seconds)
    await asyncio.to_thread(measured.drain)
    await asyncio.to_thread(check, measured, found.flood.sent)
    return found


async def one_round(
    measured: MeasuredGateway, people: list[Socket], side: Side, found: Found, seconds: float
) -> None:
    """Chat for ``seconds``, beside the flood or not."""
    before = machine.cpu_of(measured.pids)
    chatting = chat(people, seconds)
    if side is found.flooded:
        waits, _ = await asyncio.gather(chatting, found.flood.pour(seconds))
    else:
        waits = await chatting
    spent = machine.spent(before, machine.cpu_of(measured.pids))
    side.waits += waits
    side.cpu += sum(spent.values())
    for name, each in spent.items():
        side.by_process[name] = side.by_process.get(name, 0.0) + each


def check(measured: MeasuredGateway, sent: int) -> None:
    """Check that each sender is one counting row, its messages are held, and notices are
    bounded.
    """
    rows = query(measured.gateway, "SELECT count(*), sum(count) FROM allowlist_unknownrequest")
    senders = -(-sent // (MESSAGES_EACH * CONNECTIONS)) * CONNECTIONS
    assert rows[0][0] <= senders, f"{rows[0][0]} rows of {senders} senders"
    assert rows[0][1] == sent, f"{rows[0][1]} messages were counted of {sent}"
    assert measured.count("inboundmessage", "state = 'held'") == sent, "messages were lost"
    notices = measured.count("delivery", "dedupe_key LIKE 'notice:request:%'")
    digests = measured.count("delivery", "dedupe_key LIKE 'notice:digest:%'")
    assert notices <= HOURLY, f"{notices} notices in an hour"
    assert digests <= 2, f"{digests} digests"  # the hour may turn meanwhile

"""HTTP endpoints under load: time to the first token, time added to each token, CPU per turn.

Every round measures each target in turn, so that other load on the machine affects all alike; a
figure is the median of the rounds, compared to the floor of the same run.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tests.benchmarks import machine
from tests.benchmarks.clients import Chat, Inbound, Turn
from tests.benchmarks.gateway import MeasuredGateway, control

FIRST_MS = 20.0
AFTERWARDS = 0.1  # seconds: work after the last byte belongs to the turn as well
PIPE, VIEW, OURS = "byte pipe", "Django view, stores nothing", "latchkey"


class Asker(Protocol):
    """Something that asks a question and reads the answer."""

    async def ask(self) -> tuple[Turn, str]:
        """Return the answer, and the tag of the question."""


@dataclass(frozen=True)
class Load:
    """So many ``streams`` at once, ``waves`` times a round, each of ``tokens`` pieces."""

    streams: int
    waves: int
    tokens: int
    per_second: float
    first_ms: float = FIRST_MS

    @property
    def turns(self) -> int:
        """Return the number of answers of a round."""
        return self.streams * self.waves


@dataclass
class Figures:
    """The rounds of one target. Seconds; ``cpu``: seconds a turn by process; ``every_first``: of
    each turn; ``lasted``: of a turn of a round, with what follows the last one.
    """

    first: list[float] = field(default_factory=list)
    every_first: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    delay_p50: list[float] = field(default_factory=list)
    delay_p99: list[float] = field(default_factory=list)
    cpu: list[dict[str, float]] = field(default_factory=list)
    lasted: list[float] = field(default_factory=list)

    def add(self, turns: Sequence[Turn], cpu: Mapping[str, float], seconds: float) -> None:
        """Add one round of ``seconds``."""
        self.lasted.append(seconds / len(turns))
        delays = [delay for turn in turns for delay in turn.delays]
        self.first.append(machine.median([turn.first for turn in turns]))
        self.every_first += [turn.first for turn in turns]
        self.whole.append(machine.median([turn.whole for turn in turns]))
        self.delay_p50.append(machine.percentile(delays, 0.5))
        self.delay_p99.append(machine.percentile(delays, 0.99))
        self.cpu.append({name: seconds / len(turns) for name, seconds in cpu.items()})

    def cpu_ms(self) -> dict[str, float]:
        """Return the median CPU of a turn in ms by process, and their sum as ``all``."""
        names = self.cpu[0] if self.cpu else {}
        found = {name: machine.median([each[name] for each in self.cpu]) * 1000 for name in names}
        found["all"] = machine.median([sum(each.values()) for each in self.cpu]) * 1000
        return found


async def one_round(askers: Sequence[Asker], load: Load) -> list[Turn]:
    """Return the answers of one round, each checked."""
    found: list[Turn] = []
    for _ in range(load.waves):
        for turn, tag in await asyncio.gather(*(asker.ask() for asker in askers)):
            turn.check(tokens=load.tokens, tag=tag)
            found.append(turn)
    return found


@dataclass(frozen=True)
class Target:
    """A measured target: the endpoints of its streams, and the processes that answer there."""

    askers: Sequence[Asker]
    pids: Mapping[str, int]


async def set_pace(measured: MeasuredGateway, load: Load) -> None:
    """Let the stub speak as ``load`` says."""
    await asyncio.to_thread(
        control,
        measured.stub,
        first_ms=load.first_ms,
        per_second=load.per_second,
        tokens=load.tokens,
    )


def in_turn(names: Sequence[str], number: int) -> list[str]:
    """Return the names in the order of a round: each second one is reversed behind the byte pipe,
    since what follows a light target costs another sum than what follows a heavy one.
    """
    floor, rest = [each for each in names if each == PIPE], [each for each in names if each != PIPE]
    return [*floor, *(reversed(rest) if number % 2 else rest)]


async def compare(
    measured: MeasuredGateway,
    targets: Mapping[str, Target],
    load: Load,
    rounds: int,
    *,
    warms_up: bool = True,
) -> dict[str, Figures]:
    """Return the figures of each target; with ``warms_up``, after a round that is not counted."""
    await set_pace(measured, load)
    found = {name: Figures() for name in targets}
    for number in range(0 if warms_up else 1, rounds + 1):
        for name in in_turn(list(targets), number):
            target = targets[name]
            before, began = machine.cpu_of(target.pids), time.monotonic()
            turns = await one_round(target.askers, load)
            await asyncio.sleep(AFTERWARDS)
            spent, seconds = machine.spent(before, machine.cpu_of(target.pids)), time.monotonic()
            if number:
                found[name].add(turns, spent, seconds - began)
    return found


def floor(measured: MeasuredGateway, *, streams: int = 1) -> Target:
    """Return the byte pipe, which each other target is compared with."""
    pipe = Chat(f"{measured.pipe.url}/v1", model="stub")
    return Target([pipe] * streams, {"pipe": measured.pipe.running.pid})


def chat_targets(
    measured: MeasuredGateway, *, streams: int, peer: Chat | None
) -> dict[str, Target]:
    """Return the clients of ``/v1/chat/completions``: of the floors, of ours, and of a peer."""
    ours = [
        Chat(f"{measured.gateway.base_url}/v1", key=measured.crowd[number], model="stub")
        for number in range(streams)
    ]
    view = Chat(f"{measured.django.url}/v1", model="stub")
    found = {
        PIPE: floor(measured, streams=streams),
        VIEW: Target([view] * streams, {"view": measured.django.running.pid}),
        OURS: Target(ours, measured.pids),
    }
    if peer is not None:
        found["peer"] = Target([peer] * streams, {})
    return found


def inbound_targets(measured: MeasuredGateway, *, streams: int) -> dict[str, Target]:
    """Return the clients of ``/inbound``, both ways."""
    base, keys = measured.gateway.base_url, measured.keys[:streams]
    return {
        "/inbound JSON": Target([Inbound(base, key, stream=False) for key in keys], measured.pids),
        "/inbound SSE": Target([Inbound(base, key, stream=True) for key in keys], measured.pids),
    }


async def answers_a_second(
    measured: MeasuredGateway, *, askers: Sequence[Asker], seconds: float, tokens: int = 16
) -> float:
    """Return the turns a second of ``askers``, each asking again after its answer."""
    load = Load(len(askers), 1, tokens=tokens, per_second=0, first_ms=0)
    await set_pace(measured, load)
    began = time.monotonic()

    async def ask_until_the_end(asker: Asker) -> int:
        answered = 0
        while time.monotonic() - began < seconds:
            turn, tag = await asker.ask()
            turn.check(tokens=load.tokens, tag=tag)
            answered += 1
        return answered

    done = await asyncio.gather(*(ask_until_the_end(asker) for asker in askers))
    return sum(done) / (time.monotonic() - began)

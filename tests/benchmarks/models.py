"""The cost of a budget on a turn, and of models as rows on a turn without a budget.

Two people of one gateway ask in turn, a budget applies to the second. ``BEFORE=<a source tree>``
runs a gateway of another commit beside it, as ``git worktree add /tmp/before 0854a05`` makes one of
the last commit with one model for all.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks import chats, gateway, machine
from tests.benchmarks.chats import PIPE, Figures, Target
from tests.benchmarks.clients import Chat
from tests.benchmarks.gateway import MeasuredGateway
from tests.benchmarks.report import Row

WITHOUT, WITH, BEFORE = "no budget applies", "a budget applies", "the tree of BEFORE"
LOAD = chats.Load(1, 8, 64, per_second=200)
# Short rounds, and so many times more of them: their differences are smaller than the swings of a
# machine within half a minute.
ROUNDS_EACH = 5
IDLE_SECONDS = 60.0
# Of one person, in tokens and in dollars, so large that it is never reached.
BUDGETS = """
from core.models import Budget, User
user = User.objects.get(username="person-1")
for unit in ("tokens", "money"):
    Budget.objects.create(unit=unit, period="day", limit=10**15, user=user)
"""


@contextmanager
def targets(at: MeasuredGateway) -> Iterator[dict[str, Target]]:
    """Yield the floor, both people, and a person of the other tree."""
    found = {
        PIPE: Target([Chat(f"{at.pipe.url}/v1", model="stub")], {"pipe": at.pipe.running.pid}),
        WITHOUT: asker(at, 0),
        WITH: asker(at, 1),
    }
    tree = os.environ.get("BEFORE", "")
    if not tree:
        yield found
        return
    with gateway.beside(at, Path(tree).resolve()) as other:
        yield {**found, BEFORE: asker(other, 0)}


def asker(at: MeasuredGateway, person: int) -> Target:
    """Return a person at ``/v1``."""
    return Target([Chat(f"{at.gateway.base_url}/v1", key=at.keys[person], model="stub")], at.pids)


async def rows(at: MeasuredGateway, *, rounds: int) -> list[Row]:
    """Return the lines of this part."""
    await asyncio.to_thread(at.gateway.manage, "shell", "-v0", "--no-imports", "-c", BUDGETS)
    with targets(at) as known:
        idle = await idle_cpu({name: known[name] for name in (WITHOUT, BEFORE) if name in known})
        found = await chats.compare(at, known, LOAD, rounds * ROUNDS_EACH)
    spent = at.count("budgetperiod", "spent > 0")
    assert spent == 1, "the budget of tokens did not count"
    lines = [line for name in known if name != PIPE for line in lines_of(name, found)]
    if BEFORE in found:
        against = added(found, WITHOUT, BEFORE, idle=(idle[WITHOUT], idle[BEFORE]))
        return [*lines, *added(found, WITH, WITHOUT), *against]
    text = "BEFORE=<a source tree> measures another commit beside it"
    return [*lines, *added(found, WITH, WITHOUT), Row("models: against an earlier commit", text)]


async def idle_cpu(of: dict[str, Target]) -> dict[str, float]:
    """Return the seconds of CPU a second that the processes of each gateway take without turns."""
    before = {name: machine.cpu_of(each.pids) for name, each in of.items()}
    await asyncio.sleep(IDLE_SECONDS)
    return {
        name: sum(machine.spent(before[name], machine.cpu_of(each.pids)).values()) / IDLE_SECONDS
        for name, each in of.items()
    }


def lines_of(name: str, found: dict[str, Figures]) -> list[Row]:
    """Return the first token, less that of the floor, and the CPU of a turn by process."""
    floor = machine.median(found[PIPE].every_first)
    first = (machine.median(found[name].every_first) - floor) * 1000
    cpu = found[name].cpu_ms()
    parts = " + ".join(f"{part} {ms:.1f}" for part, ms in cpu.items() if part != "all")
    value = f"{first:.2f} ms, {cpu['all']:.2f} ms = {parts}"
    return [Row(f"models, {name}: first token, CPU of a turn", value)]


def added(
    found: dict[str, Figures], name: str, other: str, *, idle: tuple[float, float] | None = None
) -> list[Row]:
    """Return how much later and dearer a turn is; medians of the rounds' differences.

    ``idle``: the CPU a second that the two gateways take without turns, which is no part of it.
    """
    one, two = found[name], found[other]
    first = [a - b for a, b in zip(one.first, two.first, strict=True)]
    of_each = [
        cpu_of(each, rest) for each, rest in zip((one, two), idle or (0.0, 0.0), strict=True)
    ]
    cpu = [a - b for a, b in zip(*of_each, strict=True)]
    added = f"{machine.median(first) * 1000:+.2f} ms, CPU {machine.median(cpu) * 1000:+.2f} ms"
    if idle is not None:
        rest = " and ".join(f"{each * 1000:.1f}" for each in idle)
        added += f" (beside {rest} ms a second without turns)"
    goal = "≤ 0.5 ms, CPU ≤ 1 ms" if idle is not None else ""
    return [Row(f"models: {name} against {other}", added, goal)]


def cpu_of(figures: Figures, idle: float) -> list[float]:
    """Return the seconds of CPU of a turn in each round, less those of its time when idle."""
    return [
        sum(cpu.values()) - idle * seconds
        for cpu, seconds in zip(figures.cpu, figures.lasted, strict=True)
    ]

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
        found = await chats.compare(at, known, LOAD, rounds * ROUNDS_EACH)
    spent = at.count("budgetperiod", "spent > 0")
    assert spent == 1, "the budget of tokens did not count"
    lines = [line for name in known if name != PIPE for line in lines_of(name, found)]
    if BEFORE in found:
        lines += added(found, WITH, WITHOUT)
        return [*lines, *added(found, WITHOUT, BEFORE, goal=True)]
    text = "BEFORE=<a source tree> measures another commit beside it"
    return [*lines, *added(found, WITH, WITHOUT), Row("models: against an earlier commit", text)]


def lines_of(name: str, found: dict[str, Figures]) -> list[Row]:
    """Return the first token, less that of the floor, and the CPU of a turn by process."""
    floor = machine.median(found[PIPE].every_first)
    first = (machine.median(found[name].every_first) - floor) * 1000
    cpu = found[name].cpu_ms()
    parts = " + ".join(f"{part} {ms:.1f}" for part, ms in cpu.items() if part != "all")
    value = f"{first:.2f} ms, {cpu['all']:.2f} ms = {parts}"
    return [Row(f"models, {name}: first token, CPU of a turn", value)]


def added(found: dict[str, Figures], name: str, other: str, *, goal: bool = False) -> list[Row]:
    """Return how much later and dearer a turn is; medians of the rounds' differences."""
    one, two = found[name], found[other]
    first = [a - b for a, b in zip(one.first, two.first, strict=True)]
    cpu = [sum(a.values()) - sum(b.values()) for a, b in zip(one.cpu, two.cpu, strict=True)]
    return [
        Row(
            f"models: {name} against {other}",
            f"{machine.median(first) * 1000:+.2f} ms, CPU {machine.median(cpu) * 1000:+.2f} ms",
            "≤ 0.5 ms, CPU ≤ 1 ms" if goal else "",
        )
    ]

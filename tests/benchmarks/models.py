"""The cost of a budget on a turn, and of models as rows on a turn without a budget.

``BEFORE=<a source tree>`` runs a gateway of another commit beside this one, as ``git worktree add
/tmp/before 0854a05`` makes one of the last commit with one model for all; ``BEFORE=.`` shows what
the method itself adds. ``AFTER=<another one>`` stands in place of this tree: 56c0cf4 is the commit
with models as rows and nothing that came later. Then two people of one gateway ask in turn, a
budget applies to one of them.
"""

import asyncio
import os
import sys
from pathlib import Path

from gateway_project.home import BASE_DIR
from tests.benchmarks import chats, gateway, machine
from tests.benchmarks.chats import PIPE, Figures, Target
from tests.benchmarks.clients import Chat
from tests.benchmarks.gateway import MeasuredGateway
from tests.benchmarks.report import Row

NOW, BEFORE = "this tree or AFTER", "that of BEFORE"
WITHOUT, WITH = "no budget applies", "a budget applies"
LOAD = chats.Load(1, 8, 64, per_second=200)
# Short rounds, and so many times more of them: their differences are smaller than the swings of a
# machine within half a minute.
ROUNDS_EACH = 5
# Two processes of one source differ by some percent for as long as they live, so that both trees
# are started again as often as this for each round.
PAIRS_EACH = 2
IDLE_SECONDS = 10.0
# Of one person, in tokens and in dollars, so large that it is never reached.
BUDGETS = """
from core.models import Budget, User
user = User.objects.get(username="person-1")
for unit in ("tokens", "money"):
    Budget.objects.create(unit=unit, period="day", limit=10**15, user=user)
"""


def asker(at: MeasuredGateway, person: int) -> Target:
    """Return a person at ``/v1``."""
    return Target([Chat(f"{at.gateway.base_url}/v1", key=at.keys[person], model="stub")], at.pids)


async def rows(at: MeasuredGateway, *, rounds: int) -> list[Row]:
    """Return the lines of this part: first without any budget, then with one."""
    tree = os.environ.get("BEFORE", "")
    if tree:
        against = await pairs(at, Path(tree), rounds * PAIRS_EACH)
    else:
        against = [Row("models: against an earlier commit", "BEFORE=<a source tree> measures it")]
    await asyncio.to_thread(at.gateway.manage, "shell", "-v0", "--no-imports", "-c", BUDGETS)
    two = {WITH: asker(at, 1), WITHOUT: asker(at, 0)}
    found = await chats.compare(at, {PIPE: chats.floor(at), **two}, LOAD, rounds * ROUNDS_EACH)
    spent = at.count("budgetperiod", "spent > 0")
    assert spent == 1, "the budget of tokens did not count"
    late, dear = differences(found, WITH, WITHOUT)
    text = f"{median_ms(late)} ms, CPU {median_ms(dear)} ms"
    return [
        *against,
        *(line_of(name, found) for name in two),
        Row(f"models: {WITH} against {WITHOUT}", text),
    ]


async def pairs(at: MeasuredGateway, tree: Path, number: int) -> list[Row]:
    """Return how much later and dearer a turn of this tree, or of AFTER, is than one of another."""
    after = Path(os.environ.get("AFTER") or BASE_DIR)
    late, dear, idle = [], [], []
    for count in range(number):
        with (
            gateway.beside(at, after, name=f"now_{count}") as now,
            gateway.beside(at, tree, name=f"before_{count}") as before,
        ):
            two = {NOW: asker(now, 0), BEFORE: asker(before, 0)}
            found = await chats.compare(at, two, LOAD, ROUNDS_EACH)
            rest = await idle_cpu(two)
        each_late, each_dear = differences(found, NOW, BEFORE, rest)
        late.append(machine.median(each_late))
        dear.append(machine.median(each_dear))
        idle.append(rest)
        sys.stderr.write(f"pair {count + 1}: {median_ms(late[-1:])}, {median_ms(dear[-1:])} ms\n")
    shown = " and ".join(
        f"{machine.median([rest[name] for rest in idle]) * 1000:.1f}" for name in (NOW, BEFORE)
    )
    text = f"{spread(late)} ms, CPU {spread(dear)} ms ({shown} ms a second without turns)"
    name = f"models: {NOW} against {BEFORE}, median (least to most) of {number} pairs"
    return [Row(name, text, "≤ 0.5 ms, CPU ≤ 1 ms")]


def spread(of: list[float]) -> str:
    """Return the median in ms, with the least and the most."""
    least, most = (f"{each * 1000:+.2f}" for each in (min(of), max(of)))
    return f"{median_ms(of)} ({least} to {most})"


def median_ms(of: list[float]) -> str:
    """Return the median of differences of seconds, in ms with its sign."""
    return f"{machine.median(of) * 1000:+.2f}"


async def idle_cpu(of: dict[str, Target]) -> dict[str, float]:
    """Return the seconds of CPU a second that the processes of each gateway take without turns.

    For warm processes: the first look of each chore compiles its statements. Within ten seconds of
    a start they took 5 to 19 ms a second, by chance, which is 5 ms of a turn.
    """
    before = {name: machine.cpu_of(each.pids) for name, each in of.items()}
    await asyncio.sleep(IDLE_SECONDS)
    return {
        name: sum(machine.spent(before[name], machine.cpu_of(each.pids)).values()) / IDLE_SECONDS
        for name, each in of.items()
    }


def line_of(name: str, found: dict[str, Figures]) -> Row:
    """Return the first token, less that of the floor, and the CPU of a turn by process."""
    floor = machine.median(found[PIPE].every_first)
    first = (machine.median(found[name].every_first) - floor) * 1000
    cpu = found[name].cpu_ms()
    parts = " + ".join(f"{part} {ms:.1f}" for part, ms in cpu.items() if part != "all")
    value = f"{first:.2f} ms, {cpu['all']:.2f} ms = {parts}"
    return Row(f"models, {name}: first token, CPU of a turn", value)


def differences(
    found: dict[str, Figures], name: str, other: str, idle: dict[str, float] | None = None
) -> tuple[list[float], list[float]]:
    """Return by how many seconds the first token of one is later than that of the other in each
    round, and its turn dearer. ``idle``: the CPU a second without turns, which is no part of it.
    """
    one, two = found[name], found[other]
    rest = idle or dict.fromkeys((name, other), 0.0)
    late = [a - b for a, b in zip(one.first, two.first, strict=True)]
    of_each = [cpu_of(found[each], rest[each]) for each in (name, other)]
    return late, [a - b for a, b in zip(*of_each, strict=True)]


def cpu_of(figures: Figures, idle: float) -> list[float]:
    """Return the seconds of CPU of a turn in each round, less those of its time when idle."""
    return [
        sum(cpu.values()) - idle * seconds
        for cpu, seconds in zip(figures.cpu, figures.lasted, strict=True)
    ]

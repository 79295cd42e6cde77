"""Streams over ``/v1`` at the paces of real models, beside the fast one and the floors.

Each load is measured once a run, on all targets in turn; percentiles are over all tokens, or all
first tokens, of its streams. Each load, of 1, 10, 64 and 256 streams, is bounded in time: more
streams have shorter answers.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from tests.benchmarks import chats, commits, machine, sockets
from tests.benchmarks.chats import OURS, PIPE, VIEW, Figures, Load
from tests.benchmarks.clients import Chat, Turn, WrongAnswerError
from tests.benchmarks.gateway import CROWD, MeasuredGateway
from tests.benchmarks.report import Row, peer

SLOW = Load(1, 1, 200, per_second=30)
MANY = Load(64, 1, 60, per_second=30)
TEN = Load(10, 1, 60, per_second=50)
LOADS = (
    SLOW,
    Load(10, 1, 60, per_second=30),
    MANY,
    Load(256, 1, 30, per_second=30),
    Load(1, 1, 200, per_second=100),
    Load(10, 1, 60, per_second=100),
    Load(64, 1, 60, per_second=100),
    Load(256, 1, 30, per_second=100),
    Load(1, 2, 64, per_second=200),
    Load(10, 1, 64, per_second=200),
    Load(64, 1, 64, per_second=200),
    Load(256, 1, 30, per_second=200),
)
TOKEN_GOALS = {SLOW: "≤ 2 / ≤ 6 ms", MANY: "≤ 3 × the view"}
CPU_GOALS = {SLOW: "≤ 400 ms", TEN: "≤ 150 ms"}
FIRST = (Load(1, 60, 4, per_second=0), Load(10, 20, 4, per_second=0))
FIRST_GOALS = {  # in ms, of one stream and of ten: SQLite, PostgreSQL
    1: ("≤ 5 ms", "≤ 7 ms"),
    10: ("≤ 12 ms", "≤ 15 ms"),
}
WATCHED = (Load(1, 1, 40, per_second=30), Load(1, 1, 100, per_second=100))
TURNS_AT_ONCE, TURN_TOKENS = 8, 64
Pair = tuple[float, float]  # p50 and p99, in seconds


def first_goal(at: MeasuredGateway, streams: int) -> str:
    """Return the goal of the time added to the first token on this database."""
    return FIRST_GOALS[streams][0 if at.database is None else 1]


async def rows(at: MeasuredGateway, *, seconds: float) -> list[Row]:
    """Return all rows; ``seconds``: of the throughput, for each target."""
    await measured(at, Load(CROWD, 1, 4, per_second=0))  # the first use of each key is written
    found = [row for load in FIRST for row in first_rows(at, load, await measured(at, load))]
    for load in LOADS:
        found += load_rows(load, await measured(at, load))
    found += cpu_rows(TEN, await measured(at, TEN))
    for load in WATCHED:
        found += [await watched(at, load, readers=number) for number in (1, 3)]
    return [*found, await written(at), *await turns_a_second(at, seconds)]


async def measured(at: MeasuredGateway, load: Load) -> dict[str, Figures]:
    """Return the figures of one round of each target."""
    targets = chats.chat_targets(at, streams=load.streams, peer=peer())
    return await chats.compare(at, targets, load, rounds=1, warms_up=False)


def described(load: Load) -> str:
    """Return the streams and the pace of a load."""
    return f"{load.streams} at {load.per_second:.0f}/s ({load.tokens} each)"


def first_rows(at: MeasuredGateway, load: Load, found: Mapping[str, Figures]) -> list[Row]:
    """Return what is added to the first token: beyond the median of the byte pipe."""
    floor = machine.median(found[PIPE].every_first)
    label = f"added to the first token, {load.streams} at once, p50 / p99"
    return [
        Row(
            f"{label}: {name}",
            shown((p50 - floor, p99 - floor)),
            first_goal(at, load.streams) if name == OURS else "",
        )
        for name, each in found.items()
        for p50, p99 in [first(each)]
    ]


def load_rows(load: Load, found: Mapping[str, Figures]) -> list[Row]:
    """Return the rows of one load: tokens, first tokens, CPU."""
    return [
        *beside(f"token, {described(load)}", found, token, TOKEN_GOALS.get(load, "")),
        *(beside(f"first token, {described(load)}", found, first) if load.streams > 1 else ()),
        *evenness(load, found),
        *(cpu_rows(load, found) if load in CPU_GOALS else ()),
    ]


def token(figures: Figures) -> Pair:
    """Return the time of a token from the model to the client."""
    return figures.delay_p50[0], figures.delay_p99[0]


def first(figures: Figures) -> Pair:
    """Return the time to the first token, the model's own included."""
    return percentiles(figures.every_first)


def percentiles(values: Sequence[float]) -> Pair:
    """Return p50 and p99."""
    return machine.median(values), machine.percentile(values, 0.99)


def shown(pair: Pair) -> str:
    """Format p50 and p99 as ms."""
    return f"{pair[0] * 1000:.1f} / {pair[1] * 1000:.1f} ms"


def beside(
    label: str, found: Mapping[str, Figures], value: Callable[[Figures], Pair], goal: str = ""
) -> list[Row]:
    """Return a row for each target; those that are no floor have their ratios to the floors."""
    floors = {"pipe": value(found[PIPE]), "view": value(found[VIEW])}
    made = []
    for name, each in found.items():
        pair = value(each)
        text = shown(pair)
        if name not in {PIPE, VIEW}:
            text += " = " + ", ".join(
                f"{pair[0] / floor[0]:.1f} / {pair[1] / floor[1]:.1f} × {which}"
                for which, floor in floors.items()
            )
        made.append(Row(f"{label}, p50 / p99: {name}", text, goal if name == OURS else ""))
    return made


def evenness(load: Load, found: Mapping[str, Figures]) -> list[Row]:
    """Return how much later the last of many first tokens comes than the middle one."""
    if load.streams < MANY.streams:
        return []
    return [
        Row(
            f"first token, {described(load)}, ratio p99 / p50: {name}",
            f"{p99 / p50:.2f} ×",
            "≤ 2 ×" if name == OURS else "",
        )
        for name, each in found.items()
        for p50, p99 in [first(each)]
    ]


def cpu_rows(load: Load, found: Mapping[str, Figures]) -> list[Row]:
    """Return the CPU of 1,000 tokens, of each target whose processes are known."""
    made = []
    for name, each in found.items():
        cpu = {part: ms / load.tokens * 1000 for part, ms in each.cpu_ms().items()}
        parts = " + ".join(f"{part} {ms:.0f}" for part, ms in cpu.items() if part != "all")
        if parts:
            label = f"CPU of 1,000 tokens, {described(load)}: {name}"
            goal = CPU_GOALS[load] if name == OURS else ""
            made.append(Row(label, f"{cpu['all']:.0f} ms = {parts}", goal))
    return made


async def watched(at: MeasuredGateway, load: Load, *, readers: int) -> Row:
    """Measure one answer over ``/ws`` that so many sockets of one person read."""
    await chats.set_pace(at, load)
    async with sockets.opened(at, readers, people=1) as (asker, *others):
        before = machine.cpu_of(at.pids)
        watching = [asyncio.ensure_future(each.watch()) for each in others]
        turn, tag = await asker.ask()
        turns: list[Turn] = [turn, *await asyncio.gather(*watching)]
        await asyncio.sleep(chats.AFTERWARDS)
        cpu = sum(machine.spent(before, machine.cpu_of(at.pids)).values())
    for each in turns:
        each.check(tokens=load.tokens, tag=tag)
    pair = percentiles([delay for each in turns for delay in each.delays])
    return Row(
        f"token over /ws, {described(load)}, read by {readers}, p50 / p99: {OURS}",
        f"{shown(pair)}, CPU of 1,000 tokens {cpu / load.tokens * 1_000_000:.0f} ms",
    )


async def written(at: MeasuredGateway) -> Row:
    """Count the commits and syncs of one turn, and those of everything else meanwhile."""
    await chats.set_pace(at, SLOW)
    with commits.counted(at) as writes:
        turn, tag = await Chat(f"{at.gateway.base_url}/v1", at.keys[0], "stub").ask()
        turn.check(tokens=SLOW.tokens, tag=tag)
        await asyncio.sleep(chats.AFTERWARDS)
    if not writes.commits:
        raise WrongAnswerError("a turn was stored without a commit")
    syncs = "not measured" if writes.syncs is None else str(writes.syncs)
    label = f"commits / syncs of a turn of {SLOW.tokens} tokens at {SLOW.per_second:.0f}/s: {OURS}"
    return Row(label, f"{writes.commits} / {syncs}", "≤ 16")


async def turns_a_second(at: MeasuredGateway, seconds: float) -> list[Row]:
    """Measure turns a second of a model without delay, streamed to TURNS_AT_ONCE clients."""
    made = []
    for name, target in chats.chat_targets(at, streams=TURNS_AT_ONCE, peer=peer()).items():
        done = await chats.answers_a_second(
            at, askers=target.askers, seconds=seconds, tokens=TURN_TOKENS
        )
        label = f"turns of {TURN_TOKENS} tokens a second, {TURNS_AT_ONCE} at once: {name}"
        made.append(Row(label, f"{done:.0f}", "≥ 300" if name == OURS else ""))
    return made

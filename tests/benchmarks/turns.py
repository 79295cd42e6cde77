"""The whole gateway under load, on SQLite and on PostgreSQL, beside the floors of the same run.

``python -m tests.benchmarks.turns [sqlite|postgres|postgres-apart …]``: the last one has its server
on the clients' core. From the environment: ``PEER``
(the ``/v1`` of any OpenAI-compatible server; point its model at ``STUB_PORT``), ``PEER_KEY``,
``PEER_MODEL``, ``BEFORE`` (the source tree of another commit, for the part ``models``), ``ROUNDS``
(3), ``SECONDS`` of each throughput round (4), ``IDLE`` chats (10000: each process needs as many
open files, and some more).
"""

import asyncio
import os
import sys
import time
from collections.abc import Iterator

from tests.benchmarks import (
    chats,
    floods,
    gateway,
    hooks,
    long_chat,
    machine,
    models,
    paces,
    protocols,
    report,
    sockets,
    traced,
)
from tests.benchmarks.chats import OURS, PIPE, VIEW
from tests.benchmarks.gateway import MeasuredGateway
from tests.benchmarks.report import Row, Size, compared, line, peer, spread


async def first_tokens(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure the time to the first token beyond the byte pipe, one stream and ten."""
    rows: list[Row] = []
    for streams in (1, 10):
        load = chats.Load(streams, wanted.waves if streams > 1 else 8, 64, per_second=200)
        targets = chats.chat_targets(at, streams=streams, peer=peer())
        found = await chats.compare(at, targets, load, wanted.rounds)
        floor = found[PIPE]
        for name, each in found.items():
            added = [one - least for one, least in zip(each.first, floor.first, strict=True)]
            label = f"added time to the first token, {streams} at once: {name}"
            value = f"{machine.median(added) * 1000:.1f} ms"
            if name == PIPE:
                value = f"({machine.median(floor.first) * 1000:.1f} ms in all)"
            goal = paces.first_goal(at, streams) if name == OURS else ""
            rows.append(Row(label, value, goal))
        rows += added_to_tokens(found, streams) + cpu_rows(found, streams)
    return iter(rows)


def added_to_tokens(found: dict[str, chats.Figures], streams: int) -> list[Row]:
    """Measure how much later than at the floor a piece arrives."""
    rows = []
    for name, each in found.items():
        p50, p99 = machine.median(each.delay_p50), machine.median(each.delay_p99)
        rows.append(
            Row(
                f"from model to client, p50 / p99, {streams} at once: {name}",
                f"{p50 * 1000:.1f} / {p99 * 1000:.1f} ms",
                "≤ 25 / 60 ms added" if name == OURS and streams == 10 else "",
            )
        )
    return rows


def cpu_rows(found: dict[str, chats.Figures], streams: int) -> list[Row]:
    """Measure the CPU of a turn of 64 tokens."""
    rows = []
    for name, each in found.items():
        cpu = each.cpu_ms()
        parts = " + ".join(f"{part} {ms:.1f}" for part, ms in cpu.items() if part != "all")
        if parts:
            label = f"CPU of a turn of 64 tokens, {streams} at once: {name}"
            goal = "≤ 40 ms, then 25" if name == OURS else ""
            rows.append(Row(label, f"{cpu['all']:.1f} ms = {parts}", goal))
    return rows


async def inbound(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure ``/inbound`` with a model without delay, one request after the other."""
    targets = chats.inbound_targets(at, streams=1)
    load = chats.Load(1, 2 * wanted.waves, 64, per_second=0, first_ms=0)
    found = await chats.compare(at, targets, load, wanted.rounds)
    return iter(
        [
            Row(f"whole answer, model without delay: {name}", f"{ms:.1f} ms, CPU {cpu:.1f} ms")
            for name, each in found.items()
            for ms, cpu in [(machine.median(each.whole) * 1000, each.cpu_ms()["all"])]
        ]
    )


async def sockets_busy(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure turns a second over ``/ws``, and pings beside a hanging query."""
    done = [
        await sockets.throughput(at, users=wanted.users, seconds=wanted.seconds)
        for _ in range(wanted.rounds)
    ]
    turns = machine.median([each.turns for each in done])
    cpu = machine.median([each.cpu_ms for each in done])
    waits = await sockets.patience(at, seconds=2, rounds=2 * wanted.rounds)
    beside = "ping of other sockets, p99, beside"
    users = f"/ws, {wanted.users} users, model without delay, nothing lost"
    return iter(
        [
            Row(f"turns a second, {users}", f"{turns:.0f} (CPU {cpu:.1f} ms a turn)", "≥ 40"),
            Row(
                f"{beside} a request that hangs 100 ms / none",
                compared(waits.held, waits.calm),
                "≤ 1.5 ×",
            ),
            Row(f"{beside} turns that hang / none", compared(waits.held_turns, waits.calm)),
            Row(f"{beside} turns that hang / that do not", compared(waits.held_turns, waits.turns)),
        ]
    )


async def webhook(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure the Telegram webhook, acknowledged after the commit."""
    found = await hooks.compare(at, requests=wanted.updates, rounds=wanted.rounds)
    rows = [
        Row(
            f"webhook: {name}",
            f"{machine.median(each.rate):.0f} a second, "
            f"web CPU {machine.median(each.cpu_ms):.2f} ms",
            "≥ 250 a second" if name == OURS else "",
        )
        for name, each in found.items()
    ]
    ours, floor = found[OURS].cpu_ms, found[VIEW].cpu_ms
    ratios = [one / least for one, least in zip(ours, floor, strict=True)]
    rows.append(
        Row("webhook: CPU of ours / of the view", f"{machine.median(ratios):.2f} ×", "≤ 1.5 ×")
    )
    p99 = await hooks.patience(
        at, seconds=wanted.seconds, people=wanted.users, rounds=wanted.rounds
    )
    rows.append(Row("webhook: p99 at 50 a second", spread(p99.ours), "≤ 40 ms"))
    rows.append(Row("a page synced to the disk meanwhile, by itself: p99", spread(p99.disk)))
    return iter(rows)


async def idle_chats(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure idle chats, and the memory of everything."""
    weight = at.memory() / 2**20
    found = await sockets.idle(at, number=wanted.idle)
    return iter(
        [
            Row(
                f"{wanted.idle} idle chats: failed, KiB each, share of a core",
                f"{found.failed}, {found.kib_each:.0f} KiB, {found.core * 100:.1f} %",
                "0, ≤ 35 KiB, ≤ 2 %",
            ),
            Row("memory after all this, without model and database", f"{weight:.0f} MB"),
        ]
    )


async def flood(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure chats while unknown senders flood the Telegram webhook."""
    found = await floods.compare(at, seconds=2 * wanted.seconds, rounds=wanted.rounds)
    calm, flooded = (
        [machine.percentile(side.waits, share) * 1000 for share in (0.5, 0.95)]
        for side in found.sides
    )
    parts = " + ".join(f"{name} {ms:.1f}" for name, ms in found.cpu_parts().items())
    pace = f"{found.flood.per_second:.0f} messages of unknown senders a second"
    asked = f"/ws, {len(found.calm.waits)} answers each"
    return iter(
        [
            Row(f"p50 / p95, {asked}, without a flood", f"{calm[0]:.0f} / {calm[1]:.0f} ms"),
            Row(f"p50 / p95, {pace}", f"{flooded[0]:.0f} / {flooded[1]:.0f} ms"),
            Row(
                "with / without: p50, p95",
                f"{found.ratio(0.5):.2f} ×, {found.ratio(0.95):.2f} ×",
                "p95 ≤ 1.2 ×",
            ),
            Row("CPU of a message that is turned away", f"{found.cpu_ms:.1f} ms = {parts}"),
            Row(
                "an unknown sender's message acknowledged, p50 / p95",
                f"{machine.percentile(found.flood.waits, 0.5) * 1000:.0f} / "
                f"{machine.percentile(found.flood.waits, 0.95) * 1000:.0f} ms",
            ),
        ]
    )


async def real_paces(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure streams at the paces of real models."""
    return iter(await paces.rows(at, seconds=wanted.seconds / 2))


async def long_chats(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure a turn in a long chat against one in an empty chat."""
    return iter(await long_chat.rows(at, rounds=wanted.rounds))


async def budgets(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure what models and budgets add to a turn."""
    return iter(await models.rows(at, rounds=wanted.rounds))


async def tracing(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure what exported spans add to a turn."""
    return iter(await traced.rows(at, rounds=wanted.rounds))


async def client_protocols(at: MeasuredGateway, wanted: Size) -> Iterator[Row]:
    """Measure each protocol of clients against chat completions."""
    return iter(await protocols.rows(at, waves=2 * wanted.waves, rounds=wanted.rounds))


PARTS = {
    "first": first_tokens,
    "paces": real_paces,
    "inbound": inbound,
    "sockets": sockets_busy,
    "webhook": webhook,
    "idle": idle_chats,
    "flood": flood,
    "long-chat": long_chats,
    "models": budgets,
    "protocols": client_protocols,
    "tracing": tracing,
}


def measure(database: str, *, wanted: Size, parts: tuple[str, ...] = tuple(PARTS)) -> Iterator[str]:
    """Yield the lines of the report of one database, as they come."""
    began = time.monotonic()
    yield f"\n{database}; {machine.described()}; {wanted.rounds} rounds, interleaved; medians\n"
    stub_port = int(os.environ.get("STUB_PORT", "0"))
    with gateway.opened(database, people=wanted.users, stub_port=stub_port) as at:
        memory = f"{at.memory() / 2**20:.0f} MB"
        yield line(Row("memory idle: web, runs, long, broker", memory, "≤ 250"))
        for part in parts:
            for row in asyncio.run(PARTS[part](at, wanted)):
                yield line(row)
    yield f"{time.monotonic() - began:.0f} s in all\n"


def main(arguments: list[str]) -> None:
    """Measure on the databases that are named, else on all; parts may be named too."""
    known = (*gateway.DATABASES, *PARTS)
    if unknown := set(arguments).difference(known):
        raise SystemExit(f"unknown: {' '.join(sorted(unknown))}; there are: {' '.join(known)}")
    databases = [each for each in gateway.DATABASES if each in arguments]
    parts = tuple(each for each in PARTS if each in arguments) or tuple(PARTS)
    for database in databases or gateway.DATABASES:
        for text in measure(database, wanted=report.size(), parts=parts):
            sys.stdout.write(text)
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

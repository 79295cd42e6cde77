"""The cost of a gateway after a year: ``python -m tests.benchmarks.year sqlite|postgres [SCALE]``.

A SCALE of 1 is a million messages, a hundred thousand conversations and files, and 2,000 people; a
hundredth unless told. Prints tables in Markdown: each page of the admin, the web chat and the JSON
interface; the first token and the start beside a gateway of the same run that is set up for the
same people and has no year behind it; turns beside a backup; and the size, again after a second
year. Nothing is asserted: absolute times are those of the machine. From the environment: ``TIMES``
a page is asked for (5), ``ROUNDS`` (5).
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from gateway_project.home import BASE_DIR
from tests.benchmarks import chats, gateway, machine
from tests.benchmarks.clients import Chat
from tests.benchmarks.gateway import MeasuredGateway
from tests.benchmarks.year import MOST_MS, MOST_QUERIES

TOKENS = 16
PEOPLE = 4
MOST_SECONDS = 4 * 3600
LEAST_TURNS = 40
EMPTY, FULL = "on the first day", "after a year"
Json = dict[str, Any]


def step(at: MeasuredGateway, name: str, value: float) -> Any:
    """Do a step of ``tests.benchmarks.year.after`` in the gateway's home; return what it found."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.year.after", name, str(value)],
        env=at.gateway.env,
        cwd=BASE_DIR,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=MOST_SECONDS,
    )
    line = next(each for each in done.stdout.splitlines() if each.startswith("FOUND "))
    return json.loads(line.removeprefix("FOUND "))


def starts(sides: dict[str, MeasuredGateway], *, rounds: int) -> dict[str, float]:
    """Return the median seconds from the start of the processes until all work, in turn."""
    took: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, at in sides.items():
            for process in at.gateway.processes.values():
                process.stop()
            began = time.monotonic()
            for role in at.gateway.roles:
                at.gateway.launch(role)
            for role in at.gateway.roles:
                at.gateway.wait_ready(role)
            took[name].append(time.monotonic() - began)
    return {name: machine.median(each) for name, each in took.items()}


async def first_tokens(sides: dict[str, MeasuredGateway], *, rounds: int) -> dict[str, float]:
    """Return the median ms to the first token of answers one after the other, in turn."""
    load = chats.Load(1, 10, TOKENS, per_second=0, first_ms=0)
    targets = {name: chats.Target([chat_of(at, 0)], {}) for name, at in sides.items()}
    found = await chats.compare(next(iter(sides.values())), targets, load, rounds)
    return {name: machine.median(each.every_first) * 1000 for name, each in found.items()}


def chat_of(at: MeasuredGateway, number: int) -> Chat:
    """Return a client of the interface for programs."""
    return Chat(f"{at.gateway.base_url}/v1", key=at.crowd[number], model="stub")


async def beside_backup(at: MeasuredGateway) -> Json:
    """Return p99 of whole turns in ms without and beside a backup, and the backup's seconds."""
    alone = await turns(at, asyncio.create_task(asyncio.sleep(10)))
    began = time.monotonic()
    running = asyncio.create_task(
        asyncio.to_thread(at.gateway.manage, "backup", seconds=MOST_SECONDS)
    )
    beside = await turns(at, running)
    seconds = time.monotonic() - began
    await running
    return {
        "alone": machine.percentile(alone, 0.99),
        "beside": machine.percentile(beside, 0.99),
        "turns": (len(alone), len(beside)),
        "seconds": seconds,
    }


async def turns(at: MeasuredGateway, until: "asyncio.Task[Any]") -> list[float]:
    """Ask, PEOPLE at once, until a task is done; return the ms of each turn."""
    took: list[float] = []

    async def ask(number: int) -> None:
        chat = chat_of(at, number)
        while not until.done() or len(took) < LEAST_TURNS:
            turn, tag = await chat.ask()
            turn.check(tokens=TOKENS, tag=tag)
            took.append(turn.whole * 1000)

    await asyncio.gather(*(ask(number) for number in range(PEOPLE)))
    return took


def page_table(found: Sequence[Json], what: str) -> Iterator[str]:
    """Yield the table of pages, the slowest first."""
    yield f"| page | ms | queries | queries, nothing kept | {what} | ≤ {MOST_MS} ms | "
    yield f"≤ {MOST_QUERIES} queries |\n|---|---|---|---|---|---|---|\n"
    for each in sorted(found, key=lambda each: -each["ms"]):
        address = each["address"].replace("|", "\\|")
        yield f"| `{address}` | {each['ms']:.0f} | {each['queries']} | {each['first']} | "
        yield f"{each['work']:,} | {verdict(each['ms'], MOST_MS)} | "
        yield f"{verdict(each['queries'], MOST_QUERIES)} |\n"


def verdict(value: float, most: float) -> str:
    return "yes" if value <= most else "**no**"


def ratio(found: dict[str, float], unit: str) -> str:
    """Return what is measured of both sides, and their ratio."""
    full, empty = found[FULL], found[EMPTY]
    return f"{full:.1f} / {empty:.1f} {unit} = {full / empty:.2f} ×"


def megabytes(sizes: dict[str, int]) -> str:
    """Return sizes for people."""
    return ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items())


def size_lines(filled: Json, years: Sequence[Json]) -> Iterator[str]:
    """Yield the sizes, per message too, and after each year's retention."""
    rows = filled["numbers"]
    said = rows["core_message"]
    yield f"\nRows: {', '.join(f'{name} {number:,}' for name, number in sorted(rows.items()))}\n"
    for name, size in filled["size"].items():
        yield f"\nSize of a message, {name}: {size / said:,.0f} bytes ({megabytes({name: size})})\n"
    for number, each in enumerate(years, start=1):
        yield f"\nYear {number} before retention: {megabytes(each['before'])}\n"
        yield f"\nYear {number} after: {megabytes(each['after'])}; removed: {each['removed']}\n"
    yield "\n| table | rows after year 1 | after year 2 |\n|---|---|---|\n"
    first, second = (each["numbers"] for each in years)
    for name in sorted(second, key=lambda each: -second[each]):
        yield f"| {name} | {first.get(name, 0):,} | {second[name]:,} |\n"


def measure(database: str, scale: float) -> Iterator[str]:
    """Yield the report as it is made."""
    rounds, times = int(os.environ.get("ROUNDS", "5")), int(os.environ.get("TIMES", "5"))
    yield f"# {database}, scale {scale}\n\n{machine.described()}\n"
    with gateway.opened(database, people=PEOPLE) as at:
        began = time.monotonic()
        filled = step(at, "fill", scale)
        yield f"\nFilled in {time.monotonic() - began:.0f} s.\n"
        with gateway.beside(at, BASE_DIR) as empty:
            step(empty, "begin", scale)
            sides = {FULL: at, EMPTY: empty}
            first = asyncio.run(first_tokens(sides, rounds=rounds))
            yield f"\nFirst token, {FULL} / {EMPTY} [≤ 1.2 ×]: {ratio(first, 'ms')}\n"
            yield f"\nStart [≤ 1.5 ×]: {ratio(starts(sides, rounds=rounds), 's')}\n"
            empty.gateway.stop()
        what = "steps of SQLite, thousands" if database == gateway.SQLITE else "rows read"
        yield from page_table(step(at, "pages", times), what)
        backup = asyncio.run(beside_backup(at))
        yield (
            f"\nTurns beside a backup of {backup['seconds']:.1f} s / without, p99 [≤ 2 ×]: "
            f"{backup['beside']:.0f} / {backup['alone']:.0f} ms = "
            f"{backup['beside'] / backup['alone']:.2f} × ({backup['turns']} turns)\n\n"
        )
        for role in at.gateway.roles:
            at.gateway.processes[role].stop()
        yield from size_lines(filled, step(at, "second", scale))


def main(arguments: list[str]) -> None:
    """Print the report."""
    database, *rest = arguments
    for text in measure(database, float(rest[0]) if rest else 0.01):
        sys.stdout.write(text)
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])

"""Costs of each further process: ``python -m tests.benchmarks.scale [--write] [1x1 4x4 …]``.

Web × ``runs`` processes on one PostgreSQL and one Valkey, for each combination: CPU of a turn by
part, commits, changed rows and HOT updates, bytes and commands of the broker, connections. CPU is
counted by the operating system: the figures hold on a busy machine; times are not measured.
``--write`` puts the tables into docs/performance/scale.md. From the environment: ``TURNS`` (600),
``AT_ONCE`` (32 for each pair of processes), ``SLOW_SECONDS`` (8: the time of an answer while HOT
updates are counted).
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import redis

from gateway_project.home import BASE_DIR
from gateway_project.processes import listener
from tests.benchmarks import gateway as measured
from tests.benchmarks import machine
from tests.benchmarks.clients import Chat
from tests.benchmarks.gateway import Program
from tests.gateways import ROLES, START_SECONDS, Gateway
from tests.servers import Postgres, Process, python, wait_until

DOCUMENT = BASE_DIR / "docs" / "performance" / "scale.md"
BEGIN, END = "<!-- measured -->", "<!-- end -->"
COMBINATIONS = ("1x1", "2x2", "4x4", "1x4", "4x1")
PARTS = ("web", "runs", "broker", "database")
PEOPLE = 64
WARM_TURNS = 100
CORE_MS = 1000.0


@dataclass(frozen=True)
class Fleet:
    """A gateway with several processes of a kind; ``urls``: of the web processes."""

    gateway: Gateway
    database: Postgres
    stub: Program
    keys: list[str]
    urls: list[str]
    pids: dict[str, list[int]]

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds so far, by part."""
        return {
            name: sum(machine.cpu_seconds(pid) for pid in pids) for name, pids in self.pids.items()
        }

    def database_counts(self) -> dict[str, int]:
        """Return what PostgreSQL has counted so far."""
        with psycopg.connect(self.database.url("gateway"), autocommit=True) as connection:
            connection.execute("SELECT pg_stat_clear_snapshot()")
            row = connection.execute(
                "SELECT xact_commit, tup_inserted, tup_updated, "
                "(SELECT n_tup_upd FROM pg_stat_user_tables WHERE relname = 'core_run'), "
                "(SELECT n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'core_run') "
                "FROM pg_stat_database WHERE datname = current_database()"
            ).fetchone()
        assert row is not None
        names = ("commits", "inserted", "updated", "updates of core_run", "HOT")
        return dict(zip(names, map(int, row), strict=True))

    def broker_counts(self) -> dict[str, int]:
        """Return what the broker has counted so far."""
        with redis.Redis.from_url(self.gateway.broker.url) as client:
            found = client.info("stats")
        return {
            "bytes in": int(found["total_net_input_bytes"]),
            "bytes out": int(found["total_net_output_bytes"]),
            "commands": int(found["total_commands_processed"]),
        }

    def connections(self) -> dict[str, str]:
        """Return how many connections a process of each kind has, most: database / broker."""
        ports = {self.database.port: "database", self.gateway.broker.port: "broker"}
        found: dict[str, str] = {}
        for name in ("web", "runs"):
            each = [self._connections_of(pid, ports) for pid in self.pids[name]]
            most = {kind: max(one[kind] for one in each) for kind in ("database", "broker")}
            found[name] = f"{most['database']} / {most['broker']}"
        return found

    def _connections_of(self, pid: int, ports: Mapping[int, str]) -> Counter[str]:
        found: Counter[str] = Counter()
        for process in machine.family(pid):
            for each in process.net_connections(kind="tcp"):
                if each.raddr and each.status == psutil.CONN_ESTABLISHED:
                    found[ports.get(each.raddr.port, "other")] += 1
        return found


@contextmanager
def started(web: int, runs: int) -> Iterator[Fleet]:
    """Yield a gateway with so many processes; stop it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="latchkey-scale-"))
    folder.chmod(0o711)
    os.environ.setdefault("SECRET_KEY", "of a benchmark, of no use elsewhere")
    machine.allow_many_files()
    placed = machine.cores()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = measured.start_postgres(folder, stack)
        stub = stack.enter_context(Program(("tests.benchmarks.stub", "0"), placed.serving))
        gateway = measured.start_gateway(folder, stub, server, stack)
        keys = measured.set_up(gateway, stub, PEOPLE)
        pids = {name: [gateway.pid(name)] for name in ("web", "runs", "broker")}
        assert server.process is not None
        pids["database"] = [server.process.pid]
        urls = [gateway.base_url]
        for number in range(1, web):
            port = listener.free_port()
            pids["web"].append(further(gateway, "web", number, port, stack))
            urls.append(f"http://127.0.0.1:{port}")
        for number in range(1, runs):
            pids["runs"].append(further(gateway, "runs", number, 0, stack))
        for family in pids.values():
            machine.pin(family, placed.served)
        machine.pin([os.getpid()], placed.serving)
        yield Fleet(gateway, server, stub, keys, urls, pids)


def further(gateway: Gateway, role: str, number: int, port: int, stack: ExitStack) -> int:
    """Start one more process of a role; return its pid when it works."""
    process = Process(
        command=python(*ROLES[role]),
        log=gateway.folder / f"{role}-{number}.log",
        cwd=BASE_DIR,
        env={**gateway.env, "GATEWAY_PORT": str(port)} if port else gateway.env,
    )
    process.start(reports_ready=True)
    stack.callback(process.stop)
    process.wait_ready(process.said_ready, seconds=START_SECONDS)
    return process.pid


async def ask(fleet: Fleet, *, turns: int, at_once: int) -> None:
    """Make so many turns over ``/v1``, spread over the web processes; each answer is checked."""
    left = iter(range(turns))
    chats = [
        Chat(f"{fleet.urls[number % len(fleet.urls)]}/v1", key, "default")
        for number, key in enumerate(fleet.keys)
    ]

    async def work(number: int) -> None:
        for _ in left:
            turn, tag = await chats[number % len(chats)].ask()
            turn.check(tokens=fleet_tokens, tag=tag)

    fleet_tokens = 64
    await asyncio.gather(*(work(number) for number in range(at_once)))


@dataclass(frozen=True)
class Figures:
    """The costs of one combination: CPU in ms of a turn by part; counts a turn; connections."""

    name: str
    cpu: dict[str, float]
    counts: dict[str, float]
    connections: dict[str, str]
    hot: float

    @property
    def whole(self) -> float:
        """Return the CPU of a turn, all parts, in ms."""
        return sum(self.cpu.values())


def measure(name: str, *, turns: int, each: int, slow_seconds: float) -> Figures:
    """Measure the combination ``name``, such as ``4x1``: web × runs.

    ``each``: turns at once for each process of the kind of which there are fewer.
    """
    web, runs = (int(number) for number in name.split("x"))
    at_once = each * min(web, runs)
    turns *= min(web, runs)
    with started(web, runs) as fleet:
        measured.control(fleet.stub, first_ms=50, per_second=200, tokens=64)
        asyncio.run(ask(fleet, turns=WARM_TURNS, at_once=at_once))
        cpu, database, broker = fleet.cpu(), fleet.database_counts(), fleet.broker_counts()
        asyncio.run(ask(fleet, turns=turns, at_once=at_once))
        spent = machine.spent(cpu, fleet.cpu())
        settled(fleet)
        counts = {
            **differences(database, fleet.database_counts()),
            **differences(broker, fleet.broker_counts()),
        }
        connections = fleet.connections()
        hot = hot_share(fleet, at_once=at_once, seconds=slow_seconds)
    return Figures(
        name,
        {part: seconds * 1000 / turns for part, seconds in spent.items()},
        {what: number / turns for what, number in counts.items()},
        connections,
        hot,
    )


def settled(fleet: Fleet) -> None:
    """Wait until PostgreSQL's processes have reported their counts (at most once a second)."""
    last: list[dict[str, int]] = [fleet.database_counts()]

    def same() -> bool:
        last.append(fleet.database_counts())
        return last[-1]["updates of core_run"] == last[-2]["updates of core_run"]

    wait_until(same, seconds=10)


def differences(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, float]:
    """Return how much was counted between two looks."""
    return {name: after[name] - before[name] for name in after}


def hot_share(fleet: Fleet, *, at_once: int, seconds: float) -> float:
    """Return the share of HOT updates of ``core_run`` while answers take ``seconds`` each."""
    measured.control(fleet.stub, first_ms=50, per_second=64 / seconds, tokens=64)
    before = fleet.database_counts()
    asyncio.run(ask(fleet, turns=2 * at_once, at_once=at_once))
    settled(fleet)
    found = differences(before, fleet.database_counts())
    return found["HOT"] / max(found["updates of core_run"], 1)


def tables(found: list[Figures], where: str) -> Iterator[str]:
    """Yield the lines of the tables; ``where``: the machine in words."""
    yield f"{where}; everything of ours on half of the cores.\n\n"
    yield "| web × runs | CPU of a turn | web | runs | broker | database | against 1 × 1 |\n"
    yield "|---|---|---|---|---|---|---|\n"
    first = found[0].whole
    for each in found:
        parts = " | ".join(f"{each.cpu[part]:.1f} ms" for part in PARTS)
        yield f"| {shown(each)} | {each.whole:.1f} ms | {parts} | {each.whole / first:.2f} × |\n"
    yield (
        "\n| web × runs | commits a turn | rows inserted | rows updated | broker in | broker out | "
        "commands | HOT, slow answers |\n|---|---|---|---|---|---|---|---|\n"
    )
    for each in found:
        counts = each.counts
        yield (
            f"| {shown(each)} | {counts['commits']:.1f} | {counts['inserted']:.1f} | "
            f"{counts['updated']:.1f} | {counts['bytes in'] / 1024:.1f} KB | "
            f"{counts['bytes out'] / 1024:.1f} KB | {counts['commands']:.1f} | {each.hot:.0%} |\n"
        )
    yield "\n| a process of | connections: database / broker |\n|---|---|\n"
    for name, number in found[0].connections.items():
        yield f"| {name} | {number} |\n"
    yield from bounds(found)


def bounds(found: list[Figures]) -> Iterator[str]:
    """Yield what one core of PostgreSQL and of Valkey bears, by the largest combination."""
    last = max(found, key=lambda each: each.name)
    yield f"\nTurns a second of one core, by {shown(last)}: "
    yield f"PostgreSQL {CORE_MS / last.cpu['database']:.0f}, "
    yield f"Valkey {CORE_MS / max(last.cpu['broker'], 0.001):.0f}, "
    yield f"a web process {CORE_MS / last.cpu['web']:.0f}, "
    yield f"a `runs` process {CORE_MS / last.cpu['runs']:.0f}.\n"


def shown(each: Figures) -> str:
    """Return the name of a combination for a table."""
    return each.name.replace("x", " × ")


def write(text: str) -> None:
    """Replace what was measured before in the document."""
    before, rest = DOCUMENT.read_text().split(BEGIN, 1)
    _, after = rest.split(END, 1)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}{END}{after}")


def main(arguments: list[str]) -> None:
    """Measure the combinations that are named, else all; print the tables."""
    names = [each for each in arguments if each != "--write"] or list(COMBINATIONS)
    where, found = machine.described(), []  # before this process is kept on some cores
    for name in names:
        found.append(
            measure(
                name,
                turns=int(os.environ.get("TURNS", "600")),
                each=int(os.environ.get("AT_ONCE", "32")),
                slow_seconds=float(os.environ.get("SLOW_SECONDS", "8")),
            )
        )
        sys.stdout.write(f"{found[-1]}\n")
        sys.stdout.flush()
    text = "".join(tables(found, where))
    sys.stdout.write(text)
    if "--write" in arguments:
        write(text)


if __name__ == "__main__":
    main(sys.argv[1:])

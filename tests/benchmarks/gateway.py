"""The measured processes: a gateway as ``up`` starts it, the stub, and the floors."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from gateway_project.home import BASE_DIR
from gateway_project.processes import listener
from gateway_project.processes.plan import LEAN
from tests.benchmarks import machine
from tests.channels_app.client import query
from tests.gateways import Gateway
from tests.servers import Postgres, python, wait_until

# PostgreSQL's server on our core, or on that of the clients: as it is where it has a machine.
SQLITE, POSTGRES, POSTGRES_APART = "sqlite", "postgres", "postgres-apart"
DATABASES = (SQLITE, POSTGRES, POSTGRES_APART)
SQLITE_FILE = "gateway.sqlite3"  # in the gateway's folder
SECRET = "Whs_0123456789-abcdef"
BOT = "bench"
FIRST_SENDER_ID = 10_000  # the Telegram id of the first person
CROWD = 256  # people with a key: the most streams at once
UNLIMITED = {
    "RATE_PER_MINUTE_USER": "0",
    "RATE_PER_MINUTE_ADDRESS": "0",
    "MAX_STREAMS_PER_USER": "100000",
    "MAX_SOCKETS_PER_USER": "100000",
    "MAX_WAITING_SOCKETS_PER_ADDRESS": "100000",
    "GATEWAY_ENCRYPTION_KEYS": "key-of-a-benchmark",
    "LOG_LEVEL": "WARNING",
    "LLM_PROVIDER": "openai-compatible",
}
SETUP = """
import json, sys
from allowlist import keys
from core.models import ChannelAccount, ChannelIdentity, User
from core.lib.encryption import encrypt
data = json.load(sys.stdin)
found = []
for number in range(data["people"]):
    user = User.objects.create(username=f"person-{number}", is_owner=number == 0)
    ChannelIdentity.objects.create(
        user=user, kind="im", channel="telegram", value=str(data["first"] + number)
    )
    found.append(keys.create(name="bench", user=user, scopes=["chat", "inbound"])[1])
ChannelAccount.objects.create(
    channel="telegram", name=data["bot"], status="running",
    config={"mode": "webhook", "api_base": data["api"]},
    secrets=encrypt({"token": "900:" + "A" * 34, "webhook_secret": data["secret"]}),
)
print("KEYS", json.dumps(found))
"""


@dataclass
class Program:
    """A process that prints its port first."""

    arguments: tuple[str, ...]
    cores: frozenset[int]
    running: "subprocess.Popen[str]" = field(init=False)
    port: int = field(init=False, default=0)

    def __enter__(self) -> "Program":
        self.running = subprocess.Popen(
            python(*self.arguments), stdout=subprocess.PIPE, text=True, cwd=BASE_DIR
        )
        assert self.running.stdout is not None
        self.port = int(self.running.stdout.readline())
        machine.pin([self.running.pid], self.cores)
        return self

    def __exit__(self, *_: object) -> None:
        self.running.kill()
        self.running.wait()

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self.port}"


def control(stub: Program, **pace: float) -> dict[str, Any]:
    """Set the pace of the stub; return its counts."""
    body = json.dumps(pace).encode()
    with urlopen(Request(f"{stub.url}/control", data=body), timeout=30) as answer:  # noqa: S310 - ours
        found: dict[str, Any] = json.loads(answer.read())
    return found


@dataclass
class MeasuredGateway:
    """Everything of one run of the benchmark.

    ``crowd``: a key of each person; ``keys``: those of the first people, who do what is not
    asked of a crowd.
    """

    gateway: Gateway
    stub: Program
    pipe: Program
    django: Program
    keys: list[str]
    crowd: list[str]
    database: Postgres | None

    @property
    def pids(self) -> dict[str, int]:
        """Return our processes by name; a PostgreSQL of ours is counted as ``database``."""
        found = {name: self.gateway.pid(name) for name in (*self.gateway.roles, "broker")}
        if self.database is not None and self.database.process is not None:
            found["database"] = self.database.process.pid
        return found

    def memory(self) -> int:
        """Return the proportional bytes of everything of ours but the stub and the database's
        server."""
        ours = {name: pid for name, pid in self.pids.items() if name != "database"}
        return machine.memory(ours)

    def count(self, table: str, condition: str = "1 = 1") -> int:
        """Return the number of rows of ``core_<table>``."""
        sql = f"SELECT count(*) FROM core_{table} WHERE {condition}"
        return int(query(self.gateway, sql)[0][0])

    def left(self) -> dict[str, int]:
        """Return the number of unfinished rows, by kind."""
        return {
            "messages": self.count("inboundmessage", "state NOT IN ('answered', 'held')"),
            "runs": self.count("run", "state IN ('queued', 'running')"),
            "deliveries": self.count("delivery", "state IN ('pending', 'sending')"),
        }

    def drain(self) -> None:
        """Wait until nothing is on its way; then every message was answered."""
        wait_until(
            lambda: not any(self.left().values()),
            seconds=30,
            what=lambda: f"the end of what is left over: {self.left()}",
        )
        assert not self.count("run", "state <> 'succeeded'"), "a run did not succeed"
        assert not self.count("delivery", "state <> 'sent'"), "a delivery did not arrive"


@contextmanager
def opened(database: str, *, people: int, stub_port: int = 0) -> Iterator[MeasuredGateway]:
    """Yield a gateway on one of DATABASES, pinned to its cores; stop it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="latchkey-bench-"))
    folder.chmod(0o711)  # PostgreSQL, which never runs as root, must reach its folder in it
    os.environ.setdefault("SECRET_KEY", "of a benchmark, of no use elsewhere")
    machine.allow_many_files()  # before anything starts: the gateway's processes inherit it
    placed = machine.cores()
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = start_postgres(folder, stack) if database != SQLITE else None
        stub = stack.enter_context(
            Program(("tests.benchmarks.stub", str(stub_port)), placed.serving)
        )
        pipe, django = (
            stack.enter_context(
                Program(("tests.benchmarks.floors", kind, str(stub.port)), placed.served)
            )
            for kind in ("pipe", "django")
        )
        gateway = start_gateway(folder, stub, server, stack)
        crowd = set_up(gateway, stub, max(people, CROWD))
        measured = MeasuredGateway(gateway, stub, pipe, django, crowd[:people], crowd, server)
        machine.pin(measured.pids.values(), placed.served)
        if database == POSTGRES_APART:
            machine.pin([measured.pids["database"]], placed.serving)
        machine.pin([os.getpid()], placed.serving)
        yield measured


def start_postgres(folder: Path, stack: ExitStack) -> Postgres:
    """Start a PostgreSQL that syncs to disk, as an owner's does."""
    server = Postgres(
        folder=folder / "postgres", port=listener.free_port(), password="bench", durable=True
    )
    server.start()
    stack.callback(server.stop)
    server.execute("CREATE DATABASE gateway")
    return server


def start_gateway(
    folder: Path,
    stub: Program,
    server: Postgres | None,
    stack: ExitStack,
    *,
    tree: Path = BASE_DIR,
    name: str = "gateway",
    **more: str,
) -> Gateway:
    """Start a migrated gateway. ``tree``: of its source; ``name``: of its database; ``more``: of
    its environment.
    """
    url = server.url(name) if server else f"sqlite:///{folder / SQLITE_FILE}"
    (folder / "home").mkdir()
    extra = {**UNLIMITED, **LEAN, "GATEWAY_MODEL_URL": f"{stub.url}/v1", "GATEWAY_MODEL": "stub"}
    env = {**extra, **more}
    gateway = Gateway(folder=folder, database_url=url, extra=env, tree=tree, measured=True)
    if not (tree / "core/jobs_worker/starter.py").exists():  # one of before has two workers
        gateway.roles = (*gateway.roles, "long")
    gateway.manage("migrate", "--verbosity", "0")
    stack.callback(gateway.stop)
    gateway.start()
    return gateway


@contextmanager
def beside(
    measured: MeasuredGateway, tree: Path, *, name: str = "beside", **more: str
) -> Iterator[MeasuredGateway]:
    """Yield another gateway from a source tree, on the same core, with the same stub. ``name``:
    its own among those of a run; ``more``: of its environment.
    """
    folder = measured.gateway.folder / name
    folder.mkdir()
    server, stub = measured.database, measured.stub
    if server is not None:
        server.execute(f"CREATE DATABASE {name}")
    with ExitStack() as stack:
        gateway = start_gateway(folder, stub, server, stack, tree=tree.resolve(), name=name, **more)
        crowd = set_up(gateway, stub, len(measured.keys))
        found = replace(measured, gateway=gateway, keys=crowd, crowd=crowd)
        own = [pid for name, pid in found.pids.items() if name != "database"]
        machine.pin(own, machine.cores().served)
        yield found


def set_up(gateway: Gateway, stub: Program, people: int) -> list[str]:
    """Create people with keys and Telegram ids, and a bot whose Bot API is the stub."""
    given = {
        "people": people,
        "first": FIRST_SENDER_ID,
        "bot": BOT,
        "api": stub.url,
        "secret": SECRET,
    }
    output = gateway.manage("shell", "-v0", "-c", SETUP, stdin=json.dumps(given))
    line = next(line for line in output.splitlines() if line.startswith("KEYS"))
    found: list[str] = json.loads(line.removeprefix("KEYS"))
    return found


if __name__ == "__main__":
    sys.exit("python -m tests.benchmarks runs the benchmark")

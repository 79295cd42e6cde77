"""A gateway whose ``runs`` worker dies on order."""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway_project.home import BASE_DIR
from tests.channels_app.client import Client, people
from tests.channels_app.conftest import script
from tests.chaos.platform_server import Platform
from tests.gateways import Gateway
from tests.servers import wait_until

__all__ = ["script"]
SEED = 20260301
QUICK = {
    "RATE_PER_MINUTE_USER": "0",
    "RATE_PER_MINUTE_KEY": "0",
    "RATE_PER_MINUTE_ADDRESS": "0",
    "RUN_LEASE_SECONDS": "1",
    "SWEEP_SECONDS": "1",
    "DELIVERY_LEASE_SECONDS": "1",
    "RUN_MAX_ATTEMPTS": "100",
    "DEBOUNCE_IDLE_MILLISECONDS": "50",
    "DEBOUNCE_MAX_MILLISECONDS": "200",
    "LOG_LEVEL": "WARNING",
}


@dataclass
class Webhook:
    """The process that accepts messages as a platform's webhook does."""

    gateway: Gateway
    process: subprocess.Popen[str] = field(init=False)
    accepted: int = 0

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.webhook_server"],
            env={**self.gateway.env, "DJANGO_SETTINGS_MODULE": "gateway_project.settings"},
            cwd=BASE_DIR,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def say(self, sender: str, text: str) -> None:
        """Send a message; it must be accepted."""
        self.accepted += 1
        assert self.process.stdin
        assert self.process.stdout
        line = {"sender": sender, "text": text, "update": f"u{self.accepted}"}
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "accepted\n"

    def close(self) -> None:
        """Stop."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


@dataclass
class Arena:
    """Everything that a proof needs."""

    gateway: Gateway
    platform: Platform
    folder: Path
    ada: Client
    bridge: Client
    webhook: Webhook
    dice: random.Random = field(default_factory=lambda: random.Random(SEED))

    def order(self, point: str, at: int) -> None:
        """Order the next worker to die at the ``at``-th time it comes to ``point``."""
        scratch = self.folder / "order.tmp"
        scratch.write_text(json.dumps({"point": point, "at": at}))
        scratch.rename(self.folder / "order.json")

    def deaths(self) -> list[str]:
        """Return the points at which workers have died so far."""
        path = self.folder / "deaths"
        return path.read_text().splitlines() if path.exists() else []

    def taken(self) -> bool:
        """Return whether a worker has the last order."""
        return not (self.folder / "order.json").exists()

    def taker(self) -> int:
        """Return the pid of the worker that has the last order."""
        return int((self.folder / "taker").read_text())


LET_IN = """
from core.models import ChannelAccount, ChannelIdentity, User
user, _ = User.objects.get_or_create(username="user-0")
account = ChannelAccount.objects.get(channel="recorder")
for number in range(200):
    ChannelIdentity.objects.create(
        user=user, kind="im", channel="recorder", account=account, value=f"chat-{number}"
    )
"""
MakeArena = Callable[..., Arena]


@pytest.fixture(scope="module")
def arena(
    new_database: Callable[[], str], tmp_path_factory: pytest.TempPathFactory, script: str
) -> Iterator[MakeArena]:
    """``arena()`` starts one, ``chaotic=False`` with the normal worker; the same settings get the
    same arena again, with all its parts running."""
    made: dict[str, Arena] = {}

    def make(*, chaotic: bool = True, **extra: str) -> Arena:
        name = json.dumps([chaotic, extra])
        if name in made:
            heal(made[name])
            return made[name]
        home = tmp_path_factory.mktemp("arena")
        (home / "home").mkdir()
        platform = Platform()
        gateway = Gateway(
            folder=home,
            database_url=new_database(),
            extra={
                "LLM_SCRIPT": script,
                "CHAOS_FOLDER": str(home),
                "CHAOS_PLATFORM": platform.url,
                **QUICK,
                **extra,
            },
            roles=("web", "runs"),
            modules={"runs": ("tests.chaos.worker", "runs")} if chaotic else {},
        )
        ada, bridge = people(gateway, number=1, channel="recorder", more=LET_IN)
        made[name] = Arena(gateway, platform, home, ada, bridge, Webhook(gateway))
        gateway.start()
        return made[name]

    yield make
    for each in made.values():
        each.webhook.close()
        each.gateway.stop()
        each.platform.close()


def heal(arena: Arena) -> None:
    """Start what a test left dead."""
    for name in ("broker", *arena.gateway.roles):
        if not arena.gateway.is_running(name):
            arena.gateway.restart(name)


def wait_final(arena: Arena, runs: list[str], *, seconds: float = 60) -> None:
    """Wait until every run has its answer."""
    left = list(runs)

    def done() -> bool:
        while left and arena.ada.result(left[-1]).status != 202:
            left.pop()
        return not left

    wait_until(done, seconds=seconds, what=f"the end of {len(left)} runs")

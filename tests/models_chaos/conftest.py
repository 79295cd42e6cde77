"""Providers that break, and gateways that use them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import templates
from tests.channels_app import client
from tests.channels_app.client import query
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.channels_app.telegram.people import Bots
from tests.gateways import Gateway
from tests.models_chaos import aimock, rows
from tests.models_chaos.aimock import Aimock
from tests.models_chaos.turns import Person
from tests.npm import Packages, installed

KEY = "Zk3vQ0uXw7CanaryOfTheRow"
QUICK = {
    "LLM_PROVIDER": "openai-compatible",
    "LLM_FIRST_TOKEN_SECONDS": "2",
    "LLM_IDLE_SECONDS": "2",
    "RATE_PER_MINUTE_USER": "0",
    "RATE_PER_MINUTE_ADDRESS": "0",
    "RUN_LEASE_SECONDS": "2",
    "SWEEP_SECONDS": "1",
    "DELIVERY_LEASE_SECONDS": "2",
    "RUN_MAX_ATTEMPTS": "100",
    "DEBOUNCE_IDLE_MILLISECONDS": "50",
    "DEBOUNCE_MAX_MILLISECONDS": "200",
    "GATEWAY_ENCRYPTION_KEYS": "key-of-a-test",
    "LOG_LEVEL": "WARNING",
}


@pytest.fixture(scope="session")
def packages(pytestconfig: pytest.Config) -> Packages:
    """Return the packages with aimock."""
    return installed(pytestconfig)


@pytest.fixture(scope="module")
def provider(
    request: pytest.FixtureRequest, packages: Packages, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Aimock]:
    """Yield a provider for the tests of a module, with the pace that its ``PACE`` sets."""
    pace = getattr(request.module, "PACE", {})
    with aimock.running(packages, tmp_path_factory.mktemp("aimock"), **pace) as found:
        yield found


CHANNELS = ("web chat", "inbound", "v1", "telegram")
FORGET = """
from core.models import ModelCircuit
from core.providers import catalogue
ModelCircuit.objects.all().delete()
catalogue.changed()
"""
MakeArena = Callable[..., "Arena"]


@dataclass
class Arena:
    """A gateway whose two models are played by aimock: ``main`` fails as it is told, ``spare``
    answers.

    ``models``: the ids of their rows. Each person speaks in one channel.
    """

    gateway: Gateway
    provider: Aimock
    bots: Bots
    models: dict[str, int]
    people: list[Person]

    def circuit(self, model: str = "main") -> tuple[int, bool]:
        """Return how often a model's circuit was opened, and whether it is open."""
        sql = "SELECT openings, opened_at FROM core_modelcircuit WHERE model_id = {}"
        rows = query(self.gateway, sql.format(self.models[model]))
        return (rows[0][0], rows[0][1] is not None) if rows else (0, False)


@pytest.fixture(scope="module")
def arena(
    new_database: Callable[[], str],
    tmp_path_factory: pytest.TempPathFactory,
    provider: Aimock,
    api: FakeBotApi,
) -> Iterator[MakeArena]:
    """``arena(each=2)`` starts a gateway with so many people in each channel; the same settings get
    the same one again, with closed circuits and a provider without faults."""
    made: dict[str, Arena] = {}

    def make(*, each: int = 1, **extra: str) -> Arena:
        name = json.dumps([each, extra])
        if name in made:
            made[name].gateway.manage("shell", "-v0", "--no-imports", "-c", FORGET)
        else:
            folder = tmp_path_factory.mktemp("arena")
            made[name] = start(folder, new_database(), provider, api, each=each, extra=extra)
        provider.fail()
        return made[name]

    yield make
    for it in made.values():
        it.gateway.stop()


def start(
    folder: Path,
    database_url: str,
    provider: Aimock,
    api: FakeBotApi,
    *,
    each: int,
    extra: dict[str, str],
) -> Arena:
    """Start a gateway with its rows and people."""
    (folder / "home").mkdir()
    model = {"GATEWAY_MODEL_URL": provider.url, "GATEWAY_MODEL": "environment"}
    gateway = Gateway(
        folder=folder,
        database_url=database_url,
        extra={**QUICK, **model, **extra},
        roles=("web", "runs"),
    )
    row = rows.provider(provider.url, "main", "spare", key=KEY)
    models = rows.make(gateway, row, chain=["main", "spare"])
    clients = client.people(gateway, number=3 * each)[:-1]
    bots = Bots(gateway, api)
    chats = range(600, 600 + each)
    bots.add("main", people=[{"name": f"p{chat}", "id": chat} for chat in chats])
    web = [Person(channel, clients.pop()) for channel in CHANNELS[:3] for _ in chats]
    telegram = [Person("telegram", web[0].client, bots, chat) for chat in chats]
    templates.collect_static(gateway)
    gateway.start()
    return Arena(gateway, provider, bots, models, web + telegram)

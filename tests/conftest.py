"""Fixtures for every test: the servers of this test process, and whole gateways."""

import gc
import os
import re
import shutil
import signal
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from django.db import connection, connections
from django.test import TransactionTestCase
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from whitenoise.middleware import WhiteNoiseMiddleware

from core.conversations import budgets, events, usage_reports
from core.database import transactions
from core.signals.live_events import EventFrame, Sender
from gateway_project.processes import garbage
from tests import emptying, fork_server, settings, templates
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.gateways import Gateway
from tests.run import (
    ALTERNATING,
    DATABASES,
    DAYS,
    EITHER,
    EVERY_DAY,
    IN_TURN,
    ONCE,
    ONCE_UNMEASURED,
    PARTS,
    is_in_turn,
)
from tests.servers import Postgres, Valkey

# Loaded modules and tests stay: looking for garbage among them, again and again, took a fifth of
# the CPU of quick tests. Once these begin, the rest is collected, as in the gateway's processes.
gc.disable()

# Bounded and repeatable; a loaded machine must not turn "slow" into "failed".
hypothesis_settings.register_profile(
    "latchkey", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("latchkey")


# Started in the background of a shell, all that we start would not hear Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Minutes long: begun last, they would leave the other processes nothing to do. Dearest first.
LONGEST = (
    "/updates/test_update",  # ten minutes, one test after the other
    "/telegram/test_chaos",
    "/chaos/test_",
    "/models_chaos/test_",
    "/jobs_worker/test_processes",
    "/telegram/test_",
    "/api/test_document",
    "/test_year",
    "/database/test_growth",
    "/test_migrate_database",
    "/backups/",
    "/personal_data/",
    "/upgrades/",
    "/browser/",
    "/journeys/",
    "/http_api/",
    "/judges/",
    "/clients/",
    "/client_api/",
    "/markdown/test_total",
    "/markdown/test_floors",
    "/redteam/",
    "/database/test_query_plans",
)
# A test that needs the database of the run asks for one of these.
DATABASE = {"db", "transactional_db", "django_db_setup", "postgres", "new_database"}


def rank(item: pytest.Item) -> int:
    """Return the place of a test's file in the order of the run."""
    path = str(item.path)
    return next((at for at, part in enumerate(LONGEST) if part in path), len(LONGEST))


def number_of(nodeid: str) -> int:
    """Return a number below 2**32 that no other test changes."""
    return zlib.crc32(nodeid.encode())


def either_of(nodeid: str) -> str:
    """Return the database of a test that may run on either."""
    return "first" if number_of(nodeid) % 5 in (0, 1) else "second"


def runs_on(which: str, item: pytest.Item) -> bool:
    """Return whether ``make test`` runs a test on the ``first`` or on the ``second`` database, or
    ``alone`` in its last step.

    One that uses no database runs on the first only; on the second only if it is ``unmeasured``,
    or stands in a folder that the first leaves out. Of those that may run on ``either``, each runs
    on one; some files alternate. Slow tests start gateways, so they use both, but for those that
    are marked with the one that they run ``on``; they run on some days only.
    """
    marks = {mark.name for mark in item.iter_markers()}
    if "alone" in marks or which == "alone":
        return "alone" in marks and which == "alone"
    if not (is_of_today(item.nodeid) if "slow" in marks else is_in_part(item.nodeid)):
        return False
    if (on := item.get_closest_marker("on")) is not None:
        return which == ("first" if on.args == (DATABASES[0],) else "second")
    if "unmeasured" in marks or item.nodeid.startswith(ONCE_UNMEASURED):
        return which == "second"
    if item.nodeid.startswith(ONCE):
        return which == "first"
    if item.nodeid.startswith(ALTERNATING):
        return is_in_turn(("first", "second").index(which), parts=2, days=2)
    either = "either" in marks or item.nodeid.startswith(EITHER)
    if either and os.environ.get("TEST_EITHER") != "both":
        return which == either_of(item.nodeid)
    asks = DATABASE & set(getattr(item, "fixturenames", ()))
    return which == "first" or bool(asks or {"django_db", "skipif", "slow"} & marks)


def is_of_today(nodeid: str) -> bool:
    """Return whether a slow test runs today: the dearest on one of DAYS by its name, the others
    by that of their file."""
    if nodeid.startswith(IN_TURN):
        return is_in_turn(number_of(nodeid) // 2, parts=DAYS)
    file = nodeid.split("::", maxsplit=1)[0]
    return file.startswith(EVERY_DAY) or is_in_turn(number_of(file), parts=DAYS)


def is_in_part(nodeid: str) -> bool:
    """Return whether a quick test belongs to those of today; those of no PARTS do each day."""
    parts = [number for begin, number in PARTS.items() if nodeid.startswith(begin)]
    return not parts or is_in_turn(number_of(nodeid) // 10, parts=parts[0])


# At the top of a module whose tests are all slow.
WHOLLY_SLOW = re.compile(r"^pytestmark = (?:\[[^]]*)?pytest\.mark\.slow\b", re.MULTILINE)


def is_left_out(path: Path, marker: str) -> bool:
    """Return whether a step with ``-m marker`` runs no test of a file: by the words in it and in
    its folder's ``conftest.py``."""
    beside = path.parent / "conftest.py"
    texts = [each.read_text() for each in (path, beside) if each.exists()]
    if marker == "slow":
        return not any("pytest.mark.slow" in text for text in texts)
    return marker == "not slow" and WHOLLY_SLOW.search(texts[0]) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files of which a step of ``make test`` runs nothing: six processes that read all
    of them take a twentieth of the run."""
    if not os.environ.get("TEST_WHICH") or not collection_path.match("test_*.py"):
        return None
    return is_left_out(collection_path, config.option.markexpr) or None


@pytest.hookimpl(trylast=True)  # others add marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run the longest files first, the others in the order of collection; in ``make test`` only
    those of this database."""
    items.sort(key=rank)
    if which := os.environ.get("TEST_WHICH"):
        out = [each for each in items if not runs_on(which, each)]
        config.hook.pytest_deselected(items=out)
        items[:] = [each for each in items if runs_on(which, each)]


def pytest_collection_finish() -> None:
    """Leave what is loaded out of garbage collections."""
    garbage.settle()
    gc.enable()


def pytest_unconfigure() -> None:
    """End the fork server, and remove this process's folder."""
    fork_server.stop()
    shutil.rmtree(settings.TEST_HOME, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def valkey() -> Iterator[Valkey]:
    """Yield the broker that ``settings.REDIS_URL`` names."""
    server = Valkey(
        folder=settings.TEST_HOME / "broker",
        port=settings.BROKER_PORT,
        password=settings.BROKER_PASSWORD,
    )
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres | None]:
    """Yield the PostgreSQL of this run, or ``None`` when the run is on SQLite."""
    if settings.TEST_DATABASE != "postgres":
        yield None
        return
    server = Postgres(
        folder=settings.TEST_HOME / "postgres",
        port=settings.POSTGRES_PORT,
        password=settings.POSTGRES_PASSWORD,
    )
    folder = templates.shared()
    server.start(copy_of=templates.postgres(folder) if folder else None)
    yield server
    connections.close_all()
    server.stop()


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Drop no test database: its server and its folder are this process's own and go with it.

    PostgreSQL drops no database that is in use, and the connection of a thread that ended without
    closing it stays until the garbage collector comes.
    """
    return True


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    postgres: Postgres | None, django_db_modify_db_settings_parallel_suffix: None
) -> None:
    """Start the server before pytest-django's hook makes the test database, from the one that the
    run has migrated."""
    folder = templates.shared()
    ours = connection.settings_dict["TEST"]
    if folder and postgres:
        ours["TEMPLATE"] = templates.NAME
    elif folder:
        shutil.copy(templates.sqlite(folder), str(ours["NAME"]))


@pytest.fixture(scope="session", autouse=True)
def quick_emptying() -> Iterator[None]:
    """Empty the tables quickly after every test that commits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", emptying.empty)
        yield


@pytest.fixture(scope="session", autouse=True)
def static_files_are_found_once() -> Iterator[None]:
    """Let clients share the list of static files: each makes the middleware anew, which would walk
    through the folders of all apps for it."""
    walk, found = WhiteNoiseMiddleware.add_files_from_finders, dict[str, Any]()

    def add(self: WhiteNoiseMiddleware) -> None:
        if not found:
            walk(self)
            found.update(self.files)
        self.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add)
        yield


@pytest.fixture(autouse=True)
def no_thread_keeps_the_database() -> Iterator[None]:
    """End the database threads after the test: PostgreSQL drops no database that is in use."""
    yield
    from core.database import transactions

    transactions.close_pool()
    # Channels closes an old connection of this thread in a later test, which may be allowed none.
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every test as a new process would: no rate is used up, here and in the broker, and
    nothing is remembered of accounts and models. No frame is lost on a slow machine, nor to a
    broker that another test took away.

    One fixture: each costs every test a quarter of a millisecond.
    """
    from channels_app.asgi import acceptance, admission, builtin_accounts, throttling
    from core.providers import chain
    from core.signals import pubsub

    for name in ("addresses", "people", "keys", "failures", "sign_ins", "server_sign_ins"):
        monkeypatch.setattr(throttling, name, throttling.Rate())
    monkeypatch.setattr(throttling.Broker, "not_before", 0.0)
    monkeypatch.setattr(pubsub, "ANSWER_SECONDS", 30.0)
    pubsub.sender.cache_clear()
    builtin_accounts.accounts.clear()
    acceptance.acceptance.clear_cache()
    budgets.zones.clear()
    usage_reports.past_totals.clear()
    usage_reports.all_totals.clear()
    admission.admission.clear_cache()
    chain.suspected.clear()


@pytest.fixture(autouse=True)
def no_process_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse no message because a loaded machine keeps this process waiting."""
    from channels_app.asgi import admission

    monkeypatch.setattr(admission, "LATE_SECONDS", 30.0)
    monkeypatch.setattr(admission, "TOO_LATE_SECONDS", 60.0)


DatabaseMaker = Callable[[], str]


@pytest.fixture(scope="module")
def api() -> Iterator[FakeBotApi]:
    """Yield a Bot API server."""
    server = FakeBotApi()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def new_database(
    postgres: Postgres | None, tmp_path_factory: pytest.TempPathFactory
) -> DatabaseMaker:
    """Return a function that makes a migrated, empty database for a gateway and returns its URL."""
    folder = tmp_path_factory.mktemp("databases")
    shared = templates.shared()
    if postgres and not shared:
        templates.migrate(postgres, folder)
    template = None if postgres else templates.sqlite(shared or folder)
    made = 0

    def make() -> str:
        nonlocal made
        made += 1
        if template is None:
            assert postgres
            postgres.execute(f"CREATE DATABASE gateway_{made} TEMPLATE {templates.NAME}")
            return postgres.url(f"gateway_{made}")
        copy = folder / f"gateway_{made}.sqlite3"
        shutil.copy(template, copy)
        return f"sqlite:///{copy}"

    return make


def gateways(make: DatabaseMaker, folder: Path) -> Iterator[Callable[..., Gateway]]:
    """Start gateways on demand under ``folder`` and stop them all in the end."""
    started: list[Gateway] = []

    def start(**extra: str) -> Gateway:
        home = folder / str(len(started))
        home.mkdir(parents=True)
        gateway = Gateway(folder=home, database_url=make(), extra=extra)
        started.append(gateway)
        gateway.start()
        return gateway

    yield start
    for gateway in started:
        gateway.stop()


@pytest.fixture
def start_gateway(new_database: DatabaseMaker, tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """``start_gateway(LLM_SCRIPT="…", RUN_LEASE_SECONDS="2")`` starts a gateway with that
    environment; it is stopped when the test ends."""
    yield from gateways(new_database, tmp_path / "gateways")


@pytest.fixture
def gateway(start_gateway: Callable[..., Gateway]) -> Gateway:
    """Return a gateway of this test's own with the scripted model: any part of it may be killed."""
    return start_gateway()


@pytest.fixture(scope="module")
def module_gateways(
    new_database: DatabaseMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Gateway]]:
    """Yield ``start_gateway`` for a whole module."""
    yield from gateways(new_database, tmp_path_factory.mktemp("gateways"))


@pytest.fixture(scope="module")
def shared_gateway(module_gateways: Callable[..., Gateway]) -> Gateway:
    """Return one gateway for all tests of a module that do not break it."""
    return module_gateways()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Close the connections of all threads before the database is dropped."""
    yield
    events.close_writer()
    transactions.close_pool()
    # The thread of the ORM's asynchronous methods, in tests.
    SyncToAsync.single_thread_executor.submit(connections.close_all).result()


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[EventFrame]:
    """Return the events that are published, in order, instead of sending them."""
    frames: list[EventFrame] = []

    def put(self: Sender, frame: EventFrame, *, user_id: int) -> None:
        del self, user_id
        frames.append(frame)

    monkeypatch.setattr(Sender, "put", put)
    return frames

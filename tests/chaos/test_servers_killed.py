"""Web, Valkey, database and workers killed, emptied, stopped: it costs time, never a message."""

import os
import resource
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest
import redis

from tests.channels_app.client import counts, query
from tests.channels_app.socket_client import Socket
from tests.chaos.conftest import Arena, MakeArena, wait_final
from tests.chaos.test_worker_killed import check_logs
from tests.servers import Postgres, Process, wait_until

pytestmark = pytest.mark.slow
SLOW = ("word " * 60).strip()
SLOWER = ("word " * 80).strip()


@pytest.mark.parametrize("name", ["web", "broker", "runs", "broker-web", "broker-runs"])
def test_a_server_killed_in_mid_stream_costs_no_text_and_shows_none_twice(
    name: str, arena: MakeArena
) -> None:
    it = arena(chaotic=False)
    with Socket(it.gateway, it.ada.token) as socket:
        run, session = socket.say("slower", client_id=f"c-{name}")
        for round_ in range(2):
            socket.until(run, 4 + 8 * round_)
            for each in name.split("-"):
                it.gateway.kill(each)
            for each in name.split("-"):
                it.gateway.restart(each)
        socket.until_final(run)
        assert socket.text(run).strip() == SLOWER
        assert (socket.reconnections > 0) == ("web" in name)
        # The same message again, as a client sends it that never got the "accepted".
        assert socket.say("slower", client_id=f"c-{name}", session_id=session)[0] == run
    check_logs(it)


def test_rc4_flushall_in_the_middle_loses_nothing(arena: MakeArena) -> None:
    """[RC4]"""
    it = arena(chaotic=False)
    with Socket(it.gateway, it.ada.token) as socket:
        run, session = socket.say("slow one", client_id="flushed")
        socket.until(run, 3)
        queued = [it.ada.start(f"later {number}") for number in range(5)]
        flush(it)
        queued += [it.ada.start(f"after {number}", session_id=session) for number in range(2)]
        flush(it)
        socket.until_final(run)
        assert socket.text(run).strip() == SLOW
    wait_final(it, queued)
    check_logs(it)


def flush(arena: Arena) -> None:
    """Empty the broker."""
    with redis.Redis.from_url(arena.gateway.broker.url) as client:
        client.flushall()


def test_rc5_messages_are_accepted_and_answered_while_the_broker_is_away(arena: MakeArena) -> None:
    """[RC5]"""
    it = arena(chaotic=False)
    it.gateway.kill("broker")
    started = time.monotonic()
    runs = [it.ada.start(f"message {number}") for number in range(10)]
    assert time.monotonic() - started < 100
    wait_final(it, runs, seconds=30)  # the sweeper finds them
    assert [it.ada.result(run).body["text"] for run in runs] == [f"message {n}" for n in range(10)]
    assert it.ada.get("/readyz").status == 503
    it.gateway.restart("broker")
    wait_until(lambda: answers_quickly(it), seconds=30, what="wake-ups through the new broker")


def answers_quickly(arena: Arena) -> bool:
    """Return whether an answer comes without the sweeper's help."""
    started = time.monotonic()
    assert arena.ada.say("hello").status == 200
    return time.monotonic() - started < 0.5


def test_rc5_a_hanging_broker_delays_no_request(arena: MakeArena) -> None:
    """[RC5]"""
    it = arena(chaotic=False)
    assert it.ada.say("hello").status == 200
    os.kill(it.gateway.pid("broker"), signal.SIGSTOP)
    try:
        started = time.monotonic()
        runs = [it.ada.start(f"message {number}") for number in range(10)]
        assert time.monotonic() - started < 100
        wait_final(it, runs, seconds=40)
    finally:
        os.kill(it.gateway.pid("broker"), signal.SIGCONT)


def test_rc5_a_full_broker_delays_no_request(arena: MakeArena) -> None:
    """[RC5]"""
    it = arena(chaotic=False)
    with redis.Redis.from_url(it.gateway.broker.url) as client:
        client.config_set("maxmemory", "1")
        try:
            runs = [it.ada.start(f"message {number}") for number in range(5)]
            wait_final(it, runs, seconds=30)
        finally:
            client.config_set("maxmemory", "0")
    assert it.gateway.is_running("runs")
    wait_until(lambda: answers_quickly(it), seconds=30, what="wake-ups")


def test_sigterm_releases_runs_immediately(arena: MakeArena) -> None:
    """The lease is an hour: only a run that was given back can be gone on with."""
    it = arena(chaotic=False, RUN_LEASE_SECONDS="3600")
    with Socket(it.gateway, it.ada.token) as socket:
        run, _ = socket.say("slow one", client_id="c1")
        socket.until(run, 5)
        started = time.monotonic()
        it.gateway.kill("runs", signal.SIGTERM)
        assert time.monotonic() - started < 100
        it.gateway.restart("runs")
        socket.until_final(run)
        assert socket.text(run).strip() == SLOW
    assert attempts(it, run) == 2
    check_logs(it)


def test_rc8_two_workers_never_run_one_run_twice(arena: MakeArena) -> None:
    """The wake-up of every run reaches both workers, and both sweep every second."""
    # No run may look abandoned only because the machine is slow.
    it = arena(chaotic=False, RUN_LEASE_SECONDS="60")
    first = it.gateway.processes["runs"]
    second = Process(command=first.command, log=it.folder / "second.log", env=it.gateway.env)
    second.start(reports_ready=True)
    try:
        second.wait_ready(second.said_ready)
        session = it.ada.say("hello").body["session_id"]
        runs = [it.ada.start(f"one {number}", session_id=session) for number in range(20)]
        runs += [it.ada.start(f"other {number}") for number in range(40)]
        wait_final(it, runs)
        assert query(it.gateway, "SELECT DISTINCT state, attempt FROM core_run") == [
            ("succeeded", 1)
        ]
        workers = query(it.gateway, "SELECT DISTINCT worker FROM core_run")
        assert len(workers) == 2
        check_logs(it)
        texts = query(
            it.gateway,
            "SELECT text FROM core_message "
            "WHERE role = 'assistant' AND text LIKE 'one %' ORDER BY id",
        )
        assert [row[0] for row in texts] == [f"one {number}" for number in range(20)]
    finally:
        second.stop()


def test_a_worker_that_was_frozen_past_its_lease_stops_writing(arena: MakeArena) -> None:
    """It wakes up in the middle of an answer that another worker has taken over."""
    it = arena(chaotic=False)
    with Socket(it.gateway, it.ada.token) as socket:
        run, _ = socket.say("slower", client_id="frozen")
        socket.until(run, 5)
        frozen = it.gateway.processes["runs"]
        wait_until(lambda: freeze(it, frozen.pid, run), seconds=10, what="a moment without a lock")
        second = Process(command=frozen.command, log=it.folder / "second.log", env=it.gateway.env)
        second.start(reports_ready=True)
        try:
            second.wait_ready(second.said_ready)
            wait_until(lambda: attempts(it, run) == 2, seconds=20, what="another worker")
            os.kill(frozen.pid, signal.SIGCONT)
            socket.until_final(run)
        finally:
            os.kill(frozen.pid, signal.SIGCONT)
            second.stop()
        assert socket.text(run).strip() == SLOWER
    check_logs(it)


def freeze(arena: Arena, pid: int, run: str) -> bool:
    """Stop a process; when that holds a lock that others need, let it go on."""
    os.kill(pid, signal.SIGSTOP)
    url = arena.gateway.database_url
    try:
        if url.startswith("sqlite"):
            path = url.removeprefix("sqlite://")
            with closing(sqlite3.connect(path, isolation_level=None, timeout=0.2)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        else:
            query(
                arena.gateway, f"SELECT 1 FROM core_run WHERE public_id = '{run}' FOR UPDATE NOWAIT"
            )
    except (sqlite3.OperationalError, psycopg.errors.LockNotAvailable):
        os.kill(pid, signal.SIGCONT)
        return False
    return True


@contextmanager
def unwritable(arena: Arena, postgres: Postgres | None) -> Iterator[None]:
    """Yield the database accepts no writes: a full disk, or a server that became read-only."""
    if postgres is not None:
        postgres.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        postgres.execute("SELECT pg_reload_conf()")
    else:
        pid = arena.gateway.pid("web")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        if postgres is not None:
            postgres.execute("BEGIN; SET LOCAL transaction_read_only = off; COMMIT")
            postgres.execute("ALTER SYSTEM RESET default_transaction_read_only")
            postgres.execute("SELECT pg_reload_conf()")
        else:
            infinite = resource.RLIM_INFINITY
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (infinite, infinite))


def test_rc6_messages_that_cannot_be_stored_are_not_acknowledged(
    arena: MakeArena, postgres: Postgres | None
) -> None:
    it = arena(chaotic=False)
    assert it.ada.say("hello").status == 200
    before = counts(it.gateway)
    with unwritable(it, postgres):
        # PostgreSQL's processes take a new setting each in its own time.
        wait_until(lambda: all(is_refused(it) for _ in range(8)))
        for _ in range(3):
            refused = it.ada.say("lost?", **{"async": True})
            assert refused.status == 503, refused.raw
            assert refused.body["ok"] is False
            assert refused.headers["retry-after"] == "2"
        assert it.ada.get("/healthz").status == 200
    wait_until(lambda: it.ada.say("hello").status == 200, seconds=20)
    after = counts(it.gateway)
    assert query(it.gateway, "SELECT count(*) FROM core_message WHERE text = 'lost?'") == [(0,)]
    assert after["run"] > before["run"]


def is_refused(arena: Arena) -> bool:
    """Return whether a message is refused because it cannot be stored."""
    return arena.ada.say("still open?", **{"async": True}).status == 503


def attempts(arena: Arena, run: str) -> int:
    """Return the number of attempts of a run."""
    rows = query(arena.gateway, f"SELECT attempt FROM core_run WHERE public_id = '{run}'")
    return int(rows[0][0])


def disturb(arena: Arena, postgres: Postgres | None) -> None:
    """Cut every connection to the server; SQLite has none, so hold its lock for a while."""
    if postgres is not None:
        postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname LIKE 'gateway_%'"
        )
        return
    path = arena.gateway.database_url.removeprefix("sqlite://")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        threading.Event().wait(0.7)
        connection.execute("ROLLBACK")


def test_a_database_that_goes_away_for_a_moment_costs_time_only(
    arena: MakeArena, postgres: Postgres | None
) -> None:
    it = arena(chaotic=False, RUN_LEASE_SECONDS="15")
    with Socket(it.gateway, it.ada.token) as socket:
        run, _ = socket.say("slower", client_id="away")
        for number in range(4):
            socket.until(run, 4 + number * 5)
            disturb(it, postgres)
        socket.until_final(run)
        assert socket.text(run).strip() == SLOWER
    assert attempts(it, run) == 1
    wait_until(lambda: it.ada.say("hello").status == 200, seconds=20)
    check_logs(it)

"""Statements sent through the driver: the same result and logging as through Django's cursor."""

import asyncio
import gc
import random
import threading
import warnings

import pytest
from django.db import (
    DEFAULT_DB_ALIAS,
    IntegrityError,
    OperationalError,
    ProgrammingError,
    connection,
    connections,
    transaction,
)
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from core.database import driver
from core.database.transactions import close_pool, in_thread
from core.models import User
from tests import settings
from tests.servers import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
on_postgresql = pytest.mark.skipif(
    settings.TEST_DATABASE == "sqlite", reason="SQLite has no server and keeps statements itself"
)
NAMED = "SELECT username FROM core_user WHERE username LIKE '%%a%%' AND username <> %s"


def test_values_and_percent_signs_are_the_same_as_through_django() -> None:
    for name in ("ada", "bob", "carla"):
        User.objects.create(username=name)
    with connection.cursor() as cursor:
        cursor.execute(NAMED, ["carla"])
        expected = cursor.fetchall()
    assert driver.fetch(connections[DEFAULT_DB_ALIAS], NAMED, ["carla"]) == expected == [("ada",)]


def test_rows_are_counted_and_repeated() -> None:
    User.objects.create(username="ada")
    change = "UPDATE core_user SET first_name = %s WHERE username = %s"
    assert driver.execute(connections[DEFAULT_DB_ALIAS], change, ["x", "ada"]).rowcount == 1
    assert driver.execute(connections[DEFAULT_DB_ALIAS], change, ["x", "nobody"]).rowcount == 0
    both = [["y", "ada"], ["z", "ada"]]
    driver.execute(connections[DEFAULT_DB_ALIAS], change, both, many=True)
    assert User.objects.get(username="ada").first_name == "z"


def test_errors_are_djangos_and_a_broken_transaction_takes_nothing_more() -> None:
    User.objects.create(username="ada")
    with pytest.raises(OperationalError if connection.vendor == "sqlite" else ProgrammingError):
        driver.fetch(connections[DEFAULT_DB_ALIAS], "SELECT nothing FROM nowhere", [])
    copy = "UPDATE core_user SET username = %s WHERE username = %s"
    User.objects.create(username="bob")
    with pytest.raises(IntegrityError):
        driver.execute(connections[DEFAULT_DB_ALIAS], copy, ["ada", "bob"])
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            driver.fetch(connections[DEFAULT_DB_ALIAS], NAMED, ["x"])


def test_wrappers_and_query_logs_see_every_statement() -> None:
    seen: list[str] = []

    def watch(execute: object, sql: str, *rest: object) -> object:
        seen.append(sql)
        return execute(sql, *rest)  # type: ignore[operator]

    with connection.execute_wrapper(watch):
        driver.fetch(connections[DEFAULT_DB_ALIAS], NAMED, ["x"])
    with CaptureQueriesContext(connection) as captured:
        driver.fetch(connections[DEFAULT_DB_ALIAS], NAMED, ["x"])
    assert seen == [NAMED]
    assert len(captured) == 1


def prepared() -> list[str]:
    """Return the prepared statements of this connection's server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return [row[0] for row in cursor.fetchall()]


@on_postgresql
@pytest.mark.parametrize("prepares", [True, False])
def test_a_statement_is_prepared_once_a_connection_unless_the_pooler_cannot(
    settings: Settings, prepares: bool
) -> None:
    settings.GATEWAY_DATABASE_PREPARES = prepares
    connection.close()
    sql = "SELECT count(*) FROM core_user WHERE id > %s"
    for number in (1, 2**20, 2**40):  # three types of PostgreSQL's, were they not all bigint
        assert driver.fetch(connections[DEFAULT_DB_ALIAS], sql, [number]) == [(0,)]
    assert len(prepared()) == (1 if prepares else 0)
    connection.close()


@on_postgresql
def test_a_connection_that_django_forgets_is_closed() -> None:
    """As after a request of a view: its thread and its connection are not used again."""
    backends: list[int] = []

    def look() -> None:
        backends.append(
            driver.fetch(connections[DEFAULT_DB_ALIAS], "SELECT pg_backend_pid()", [])[0][0]
        )
        backends.append(
            driver.fetch(connections[DEFAULT_DB_ALIAS], "SELECT pg_backend_pid()", [])[0][0]
        )

    def is_closed() -> bool:
        gc.collect()
        asked = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s"
        return driver.fetch(connections[DEFAULT_DB_ALIAS], asked, [backends[0]]) == [(0,)]

    thread = threading.Thread(target=look)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        thread.start()
        thread.join()
        del thread
        wait_until(is_closed, seconds=3)
    assert backends[0] == backends[1]


@on_postgresql
def test_a_connection_that_the_server_ended_is_replaced_and_others_are_not_asked() -> None:
    def number() -> int:
        return int(driver.fetch(connections[DEFAULT_DB_ALIAS], "SELECT pg_backend_pid()", [])[0][0])

    def end(backend: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s, 30000)", [backend])
        connection.close()

    async def end_it() -> tuple[int, int, int]:
        first = await in_thread(number)
        again = await in_thread(number)
        await asyncio.to_thread(end, first)
        return first, again, await in_thread(number)

    try:
        first, again, new = asyncio.run(end_it())
    finally:
        close_pool()
    assert first == again != new


@on_postgresql
def test_an_array_holds_the_given_values() -> None:
    chance = random.Random(20261123)
    signs = ['"', "\\", "{", "}", ",", " ", "\n", "\t", "'", "%", "%s", "NULL", "ß", "👍", "a"]
    texts = ["", "NULL", "null", *("".join(chance.choices(signs, k=9)) for _ in range(500))]
    sql = "SELECT each FROM unnest(%s::text[]) WITH ORDINALITY AS t (each, n) ORDER BY n"
    found = driver.fetch(connections[DEFAULT_DB_ALIAS], sql, [driver.array(texts)])
    assert [row[0] for row in found] == texts
    numbers = [1, -2, 2**62]
    sql = "SELECT unnest(%s::bigint[])"
    assert driver.fetch(connections[DEFAULT_DB_ALIAS], sql, [driver.array(numbers)]) == [
        (each,) for each in numbers
    ]
    assert driver.fetch(connections[DEFAULT_DB_ALIAS], sql, [driver.array([])]) == []

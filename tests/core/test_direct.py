"""Statements on their way to the driver: the same as over Django's cursor, and seen as there."""

import pytest
from django.db import IntegrityError, OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext

from core import direct
from core.direct import this_connection
from core.models import User

pytestmark = pytest.mark.django_db(transaction=True)
NAMED = "SELECT username FROM core_user WHERE username LIKE '%%a%%' AND username <> %s"


def test_values_and_percent_signs_are_what_django_makes_of_them() -> None:
    for name in ("ada", "bob", "carla"):
        User.objects.create(username=name)
    with connection.cursor() as cursor:
        cursor.execute(NAMED, ["carla"])
        expected = cursor.fetchall()
    assert direct.fetched(this_connection(), NAMED, ["carla"]) == expected == [("ada",)]


def test_rows_are_counted_and_repeated() -> None:
    User.objects.create(username="ada")
    change = "UPDATE core_user SET first_name = %s WHERE username = %s"
    assert direct.changed(this_connection(), change, ["x", "ada"]) == 1
    assert direct.changed(this_connection(), change, ["x", "nobody"]) == 0
    direct.repeat(this_connection(), change, [["y", "ada"], ["z", "ada"]])
    assert User.objects.get(username="ada").first_name == "z"


def test_errors_are_djangos_and_a_broken_transaction_takes_nothing_more() -> None:
    User.objects.create(username="ada")
    with pytest.raises(OperationalError if connection.vendor == "sqlite" else Exception):
        direct.fetched(this_connection(), "SELECT nothing FROM nowhere", [])
    copy = "UPDATE core_user SET username = %s WHERE username = %s"
    User.objects.create(username="bob")
    with pytest.raises(IntegrityError):
        direct.changed(this_connection(), copy, ["ada", "bob"])
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError):
            direct.fetched(this_connection(), NAMED, ["x"])


def test_whoever_looks_sees_every_statement() -> None:
    seen: list[str] = []

    def watch(execute: object, sql: str, *rest: object) -> object:
        seen.append(sql)
        return execute(sql, *rest)  # type: ignore[operator]

    with connection.execute_wrapper(watch):
        direct.fetched(this_connection(), NAMED, ["x"])
    with CaptureQueriesContext(connection) as captured:
        direct.fetched(this_connection(), NAMED, ["x"])
    assert seen == [NAMED]
    assert len(captured) == 1

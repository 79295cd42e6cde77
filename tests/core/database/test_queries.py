"""Statements that are compiled once do the same as the ORM does each time."""

from collections.abc import Iterable
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import DurationField, Exists, F, JSONField, OuterRef
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.database import transactions
from core.database.queries import Among, HasRows, Instances, Param, Update, Values
from core.models import ChatSession, Run, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(session: ChatSession, user: User) -> Run:
    """Return a queued run."""
    return Run.objects.create(session=session, user=user, origin="test", route={"acks": ["1"]})


def test_a_change_takes_the_values_of_each_call(run: Run) -> None:
    """Numbers, JSON, the database's clock; and the row count tells whether it matched."""
    change = Update(
        lambda: (
            Run.objects.filter(id=Param("id"), attempt=Param("attempt")),
            {
                "attempt": F("attempt") + 1,
                "usage": Param("usage", JSONField()),
                "lease_until": Now() + Param("lease", DurationField()),
            },
        )
    )
    began = timezone.now()
    for number in range(3):
        lease = timedelta(hours=number)
        assert change(id=run.id, attempt=number, usage={"each": [number]}, lease=lease) == 1
        run.refresh_from_db()
        assert run.attempt == number + 1
        assert run.usage == {"each": [number]}
        assert run.lease_until is not None
        assert abs(run.lease_until - began - lease) < timedelta(minutes=10)
    assert change(id=run.id, attempt=0, usage={}, lease=timedelta()) == 0


def test_whether_there_are_rows(run: Run) -> None:
    """By the values of each call, also those that are added to the database's clock."""
    are_due = HasRows(
        lambda: Run.objects.filter(
            state=Param("state"), created_at__lt=Now() + Param("in", DurationField())
        )
    )
    hour = {"in": timedelta(hours=1)}
    assert are_due(state="queued", **hour)
    assert not are_due(state="running", **hour)
    assert not are_due(state="queued", **{"in": -timedelta(hours=1)})
    with CaptureQueriesContext(connection) as captured:
        assert are_due(state="queued", **hour)
    assert "LIMIT 1" in captured[0]["sql"]


def test_the_sql_is_that_of_the_orm(run: Run) -> None:
    """The same text for each statement, so that the indexes meant for it are found."""
    lines = Values(
        lambda: (
            Run.objects.filter(session_id=Param("session"), state="queued")
            .order_by("id")
            .values_list("id", "created_at")[:1]
        )
    )
    with CaptureQueriesContext(
        connection,
    ) as asked:
        ours = [tuple(row) for row in lines(session=run.session_id)]
        theirs = list(
            Run.objects.filter(session_id=run.session_id, state="queued")
            .order_by("id")
            .values_list("id", "created_at")[:1]
        )
    assert ours == theirs == [(run.id, run.created_at)]
    first, second = (each["sql"].replace("(", "").replace(")", "") for each in asked)
    assert first == second


def test_instances_come_with_their_related_rows(run: Run) -> None:
    """No further query for the session, its account and the person."""
    whole = Instances(
        lambda: Run.objects.select_related("session__account", "user").filter(id=Param("id"))
    )
    for _ in range(2):
        found = whole.first(id=run.id)
        assert found is not None
        assert found == run
        with CaptureQueriesContext(connection) as asked:
            assert found.session.account == run.session.account
            assert found.user == run.user
            assert found.route == run.route
            assert found.created_at == run.created_at
        assert len(asked) == 0
    assert whole.first(id=-1) is None
    assert whole.all(id=run.id) == [run]


@pytest.mark.django_db(transaction=True)
def test_every_thread_has_a_statement_for_its_own_connection(run: Run) -> None:
    """The same object in two threads: SQLite's connections may not be shared."""
    lines = Values(lambda: Run.objects.filter(id=Param("id")).values_list("id"))

    def ask() -> list[int]:
        return [row[0] for row in lines(id=run.id)]

    assert ask() == [run.id]
    assert transactions.pool().submit(ask).result(timeout=60) == [run.id]
    assert ask() == [run.id]


def test_constants_are_in_the_text(run: Run) -> None:
    """Only then does a plan for all values use a partial index; percent signs stay unchanged."""
    Run.objects.filter(id=run.id).update(text="100% 'sure'")
    sure = Values(
        lambda: Run.objects.filter(
            id=Param("id"), state="queued", attempt__lt=7, text__contains="0% 'su"
        ).values_list("id")
    )
    assert sure(id=run.id) == [(run.id,)]
    assert sure(id=0) == []
    statement = sure.reading.get().sql
    assert "'queued'" in statement.text
    assert "< 7" in statement.text
    assert len(statement.params) == 1


def test_backslashes_in_constants_do_not_change(run: Run) -> None:
    Run.objects.filter(id=run.id).update(text="a\\b")
    same = Values(lambda: Run.objects.filter(text="a\\b").values_list("id"))
    assert same() == [(run.id,)]


def test_annotations_are_attributes_of_instances(run: Run) -> None:
    runs = Run.objects.filter(session=OuterRef("pk"))
    with_runs = Instances(lambda: ChatSession.objects.alias().annotate(is_used=Exists(runs)))
    [found] = with_runs.all()
    assert (found, vars(found)["is_used"]) == (run.session, True)
    assert found.title == run.session.title


@pytest.mark.parametrize("ids", [[], [1], range(3)])
def test_a_list_is_one_parameter(run: Run, ids: Iterable[int]) -> None:
    among = Values(lambda: Run.objects.filter(Among("id", "ids")).values_list("id"))
    assert among(ids=[run.id + each for each in ids]) == ([(run.id,)] if 0 in ids else [])
    assert len(among.reading.get().sql.params) == 1

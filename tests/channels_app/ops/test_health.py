"""What is said of a gateway whose database fails."""

import pytest
from django.db import OperationalError
from django.utils import timezone

from channels_app.ops import health
from channels_app.ops.doctor import examination
from core.conversations import runs

pytestmark = pytest.mark.django_db


def broken(*_: object, **__: object) -> int:
    raise OperationalError("disk I/O error\nLINE 1: SELECT")


def test_a_database_that_answers_a_ping_and_no_question_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``/readyz`` answered 503 without ``problems``, as if it were busy."""
    monkeypatch.setattr(runs, "workers_alive", broken)
    assert health.problems_now() == [health.NO_DATABASE]


def test_the_doctor_says_what_the_database_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "of_the_database", broken)
    [found] = [each for each in examination.examine(now=timezone.now()) if each.id == "database"]
    assert found.what == "The database does not answer as it should (disk I/O error)."

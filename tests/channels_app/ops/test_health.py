"""Health and the doctor of a gateway whose database or broker fails."""

from types import SimpleNamespace

import pytest
import redis
from django.db import OperationalError
from django.utils import timezone

from channels_app.ops import health
from channels_app.ops.doctor import examination, work
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


def test_a_broker_that_refuses_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk it was said not to answer, and the doctor sent for a missing process."""

    def refuses(_: redis.Redis, **__: object) -> None:
        raise redis.ResponseError("MISCONF Errors writing to the AOF file: No space left on device")

    monkeypatch.setattr(redis.Redis, "ping", refuses)
    words = "The broker takes no work: MISCONF Errors writing to the AOF file: No space left"
    assert any(each.startswith(words) for each in health.problems_now())
    [found] = [each for each in work.running() if each.what.startswith(words)]
    assert found.fix == "Free disk space, or memory, for the broker: it goes on by itself."


def test_the_doctor_repeats_the_reason_of_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    file = SimpleNamespace(close=lambda: None, vendor="sqlite")
    monkeypatch.setattr(examination, "connection", file)
    monkeypatch.setattr(examination, "of_the_database", broken)
    [found] = [each for each in examination.examine(now=timezone.now()) if each.id == "database"]
    assert found.what == "The database does not answer as it should (disk I/O error)."

"""The model's health by its runs: failures are stored, counted and reported once.

A trouble begins with a failure that means that the model does not work, and ends with the next
answer. Each process caches whether there is one, so an answer needs no query while the model works;
another process's trouble is found at the next sweep (:func:`look`).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from django.db.models import F, QuerySet
from django.db.models.functions import Coalesce, Now

from core.database import transactions
from core.database.queries import HasRows
from core.models import ModelTrouble, Run, RunFailure
from core.providers.base import ProviderError
from core.providers.failures import KINDS, OWN, REASON_CHARACTERS

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Known:
    """The cached state of this process."""

    is_troubled: bool = False


known = Known()


def failed(*, run: Run, error: ProviderError) -> None:
    """Store and count why a run failed. Inside the transaction that ends the run."""
    RunFailure.objects.update_or_create(
        run=run, defaults={"code": error.code[:40], "reason": error.reason[:REASON_CHARACTERS]}
    )
    noticed(run=run, error=error)


def noticed(*, run: Run, error: ProviderError) -> None:
    """Log and count a failure of a run. Inside a transaction."""
    kind = KINDS.get(error.code, OWN)
    reason = error.reason[:REASON_CHARACTERS]
    code = error.code[:40]
    logger.warning(
        "the model failed in run %s of user %s: %s (%s)%s",
        run.public_id,
        run.user_id,
        error,
        code,
        f": {reason}" if reason else "",
    )
    ModelTrouble.objects.get_or_create(code=code)
    rows = ModelTrouble.objects.filter(code=code)
    rows.update(count=F("count") + 1, last_at=Now(), reason=reason, run=run)
    if kind.is_reported:
        rows.update(since=Coalesce("since", Now()))
        known.is_troubled = True


def answered() -> None:
    """End the current trouble after an answer of the model. Inside a transaction."""
    if known.is_troubled:
        ModelTrouble.objects.filter(since__isnull=False).update(since=None)
        known.is_troubled = False


def begun() -> QuerySet[ModelTrouble]:
    """Return the troubles that were not reported."""
    return ModelTrouble.objects.filter(since__isnull=False, told_at=None)


def over() -> QuerySet[ModelTrouble]:
    """Return the troubles of which the end was not reported."""
    return ModelTrouble.objects.filter(since=None, told_at__isnull=False)


ARE_THERE = HasRows(lambda: ModelTrouble.objects.filter(since__isnull=False))
# Whether there is something to report.
has_unreported = HasRows(lambda: begun() | over())


def look() -> None:
    """Load troubles that other processes have stored. A chore.

    The end of one is set by the next answer: the uncommitted row of another process is not visible
    yet.
    """
    if not known.is_troubled:
        known.is_troubled = ARE_THERE()


def troubles() -> list[ModelTrouble]:
    """Return the model's current troubles, oldest first."""
    return list(ModelTrouble.objects.filter(since__isnull=False).order_by("since", "code"))


def counts() -> dict[str, int]:
    """Return how many runs failed so far, by code."""
    return dict(ModelTrouble.objects.order_by("code").values_list("code", "count"))


def to_report(*, unless: Callable[[ModelTrouble], bool]) -> list[tuple[ModelTrouble, bool]]:
    """Return the troubles without a notice, and the ended ones without a notice of their end (True:
    it has ended), except those that ``unless`` puts off. Marks them: inside the transaction that
    sends the notices.
    """
    found: list[tuple[ModelTrouble, bool]] = []
    with transactions.atomic_write(joins=True):
        for rows, is_over in ((begun(), False), (over(), True)):
            for row in list(rows.order_by("code")):
                if unless(row):
                    continue
                told_at = None if is_over else Now()
                if rows.filter(pk=row.pk).update(told_at=told_at):
                    found.append((row, is_over))
    return found

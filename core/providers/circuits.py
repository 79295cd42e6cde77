"""Circuit breakers of models: rows that all processes share.

closed -> open, after FAILURES_TO_OPEN failures in a row or one that does not pass by itself -> one
request at a time tries it again, from ``probe_at`` on -> closed by an answer, else open for twice
as long. A model whose circuit is open is skipped while another one of its chain is left.
"""

import logging
from datetime import timedelta

from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from core.database import transactions
from core.database.queries import HasRows
from core.database.transactions import atomic_write
from core.models import ModelCircuit
from core.providers import catalogue
from core.providers.base import ProviderError
from core.providers.catalogue import ModelInfo
from core.providers.failures import REASON_CHARACTERS
from core.providers.registry import NoSlotError

logger = logging.getLogger(__name__)

FAILURES_TO_OPEN = 3
# Failures further apart than this are not in a row.
ROW_SECONDS = 60
OPEN_SECONDS = 30.0
MOST_OPEN_SECONDS = 15 * 60.0
# How long a request that tries the model again keeps others from it.
PROBE_SECONDS = 60.0
# Another try does not mend these: the owner has to.
AT_ONCE = frozenset({"quota", "unauthorised", "not_found", "no_model_server", "setup"})
# The model works; this request does not fit it.
NOT_COUNTED = frozenset(
    {"bad_request", "unprocessable", "too_large", "context_length", "content", "budget", "refused"}
)


def is_counted(error: ProviderError) -> bool:
    """Return whether a failure counts against the model: not one of our own places for calls."""
    return error.code not in NOT_COUNTED and not isinstance(error, NoSlotError)


def is_due(model: ModelInfo) -> bool:
    """Return whether a request may try a model whose circuit is open."""
    circuit = model.circuit
    return circuit is not None and (circuit.probe_at is None or circuit.probe_at <= timezone.now())


def take_probe(*, model_id: int) -> bool:
    """Return whether this request is the one that tries an open circuit; others wait meanwhile."""
    due = ModelCircuit.objects.filter(
        pk=model_id, opened_at__isnull=False, probe_at__lte=Now() + timedelta(milliseconds=1)
    )
    with atomic_write():
        return due.update(probe_at=Now() + timedelta(seconds=PROBE_SECONDS)) == 1


def failed(*, model_id: int, error: ProviderError) -> None:
    """Count a failure of a model; its circuit opens, or stays open for longer."""
    with atomic_write():
        ModelCircuit.objects.get_or_create(pk=model_id)
        rows = ModelCircuit.objects.filter(pk=model_id)
        row = rows.select_for_update(no_key=True).get()
        now = timezone.now()
        in_a_row = row.failed_at is not None and abs(now - row.failed_at) < timedelta(
            seconds=ROW_SECONDS
        )
        was_open = row.opened_at is not None
        failures = row.failures + 1 if in_a_row or was_open else 1
        values = {
            "failures": failures,
            "failed_at": now,
            "code": error.code[:40],
            "reason": error.reason[:REASON_CHARACTERS],
        }
        is_open = was_open or failures >= FAILURES_TO_OPEN or error.code in AT_ONCE
        if is_open:
            beyond = max(0, failures - FAILURES_TO_OPEN)
            seconds = min(OPEN_SECONDS * 2 ** min(beyond, 10), MOST_OPEN_SECONDS)
            seconds = min(max(seconds, error.retry_after or 0), MOST_OPEN_SECONDS)
            values["probe_at"] = now + timedelta(seconds=seconds)
        rows.update(**values)
        if is_open and not was_open:
            rows.update(opened_at=now, openings=F("openings") + 1)
            logger.warning("the circuit of model %s is open: %s", model_id, error.code)
        if is_open:
            catalogue.changed()


PROBES = transactions.FarTimes(
    lambda: ModelCircuit.objects.filter(opened_at__isnull=False), "probe_at"
)


def bring_near() -> None:
    """Shorten pauses that a clock which was set back left in the far future."""
    if PROBES.bring_near(most=timedelta(seconds=MOST_OPEN_SECONDS)):
        with atomic_write():
            catalogue.changed()


def close(*, model_id: int) -> None:
    """Close a circuit: the model has answered, or the owner wants it to be tried."""
    with atomic_write():
        rows = ModelCircuit.objects.filter(pk=model_id)
        was_open = rows.filter(opened_at__isnull=False).update(opened_at=None, probe_at=None)
        rows.update(failures=0)
        if was_open:
            logger.info("the circuit of model %s is closed", model_id)
            catalogue.changed()


def opened() -> list[ModelCircuit]:
    """Return the open circuits with their models."""
    rows = ModelCircuit.objects.filter(opened_at__isnull=False).order_by("opened_at", "pk")
    return list(rows.select_related("model__provider"))


OPEN, TOLD = Q(opened_at__isnull=False), Q(told_at__isnull=False)
# Whether there is something to report.
has_unreported = HasRows(lambda: ModelCircuit.objects.filter((OPEN & ~TOLD) | (~OPEN & TOLD)))


def to_report() -> list[tuple[ModelCircuit, bool]]:
    """Return circuits whose opening was not reported, and closed ones whose closing was not (True:
    it is closed). Marks them: inside the transaction that sends the notices.
    """
    rows = ModelCircuit.objects.select_related("model__provider").order_by("pk")
    return [
        (row, is_closed)
        for is_closed, state in ((False, OPEN & ~TOLD), (True, ~OPEN & TOLD))
        for row in rows.filter(state)
        if ModelCircuit.objects.filter(state, pk=row.pk).update(
            told_at=None if is_closed else Now()
        )
    ]

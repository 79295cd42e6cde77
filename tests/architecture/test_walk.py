"""A webhook update, a stream and an approval enter the modules that docs/architecture.md lists.

``python -m tests.architecture`` writes the lists and the ceilings of calls.
"""

import os
from collections.abc import Callable

import pytest
from django.db import connection

from tests.architecture import ceilings, document
from tests.architecture.trace import Trace
from tests.architecture.walks import Walks

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
# Some look-ups are made every few seconds only: a walk that met one is made again.
TRIES = 3
# Each thread of the database compiles its statements once, and caches of a few seconds end: on a
# busy machine few walks are warm. The cheapest of so many is; when reading, the first that fits.
WARM_TRIES = 6
MOST_TRIES = 25
WRITE = os.environ.get("WRITE_WALKS", "")  # "lower", or "raise", the ceilings


def entered(trace: Trace) -> str:
    """Return the list of a walk."""
    return document.files(trace.modules("web"))


def walk(name: str, make: Callable[[], Trace]) -> Trace:
    """Return the walk that the document shows, else the last one; when writing, the shortest."""
    traces = []
    for _ in range(TRIES):
        trace = make()
        traces.append(trace)
        if not WRITE and entered(trace) == document.parts()[name]:
            return trace
    return min(traces, key=lambda trace: len(trace.modules("web"))) if WRITE else traces[-1]


def calls_of(trace: Trace) -> dict[str, int]:
    """Return the counts that have a ceiling: calls while one webhook update is accepted.

    At most 60 inside core.database; the others may only fall (docs/decisions/225).
    """
    calls = trace.calls["web"]
    database = sum(module.startswith("core.database") for module in calls)
    vendor = connection.vendor
    return {
        f"webhook, {vendor}: calls": len(calls),
        f"webhook, {vendor}: calls inside core.database": database,
        f"webhook, {vendor}: modules": len(trace.modules("web")),
        f"webhook, {vendor}: changes of module": trace.changes("web"),
    }


def over(calls: dict[str, int]) -> list[str]:
    """Return the counts above their ceilings, a line each."""
    return ceilings.above({"calls": calls}, ceilings.load())


def test_requests_walk_as_the_document_says(walks: Walks) -> None:
    made = {
        "webhook web": entered(walk("webhook web", walks.webhook)),
        "inbound web": entered(walk("inbound web", walks.inbound)),
        "approval web": entered(walk("approval web", walks.approval)),
    }
    warm = [walks.webhook() for _ in range(WARM_TRIES)]
    calls = calls_of(min(warm, key=lambda trace: len(trace.calls["web"])))
    while not WRITE and over(calls) and len(warm) < MOST_TRIES:
        warm.append(walks.webhook())
        calls = calls_of(warm[-1])
    if WRITE:
        document.write(made)
        # A twentieth more: which caches of a few seconds are fresh differs from walk to walk.
        most = {name: count + count // 20 for name, count in calls.items()}
        ceilings.write("calls", most, may_raise=WRITE == "raise")
    written = document.parts()
    for key, text in made.items():
        assert text == written[key], f"{key}: `python -m tests.architecture` writes the lists"
    assert over(calls) == []

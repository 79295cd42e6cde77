"""Run all checks, for ``manage.py doctor`` and the first page of the admin."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import cast

from django.core.cache import cache
from django.db import DatabaseError, connection

from channels_app.ops.doctor import configuration, machine, versions, work
from channels_app.ops.doctor.findings import Finding, error

CACHE_KEY = "dashboard:doctor"
CACHE_SECONDS = 60


def examine(*, now: datetime) -> list[Finding]:
    """Return every finding, errors first. A failing database is one finding, not a crash."""
    found = [*configuration.examine(), *machine.disk(), *versions.examine()]
    try:
        found += [*work.migrations()]
        if not any(each.id in {"migrations", "outdated"} for each in found):
            found += of_the_database(now)
    except DatabaseError as failure:
        connection.close()
        # A server's words may have a part of DATABASE_URL: of a password with an @ as a host.
        why = type(failure).__name__
        if connection.vendor == "sqlite":
            why = [*str(failure).strip().splitlines(), why][0]
        found.append(
            error(
                "database",
                f"The database does not answer as it should ({why}).",
                "Check DATABASE_URL, and that its server runs (`manage.py migrate` shows its "
                "error); of a file, that this user may write it, those beside it and their folder.",
            )
        )
    return sorted(found, key=lambda each: each.level)


def of_the_database(now: datetime) -> Iterator[Finding]:
    yield from work.people()
    yield from work.forgetting(now)
    yield from work.channels()
    yield from work.sealed_keys()
    yield from work.push()
    yield from work.held()
    yield from work.backups_made()
    yield from work.deliveries()
    yield from work.schedules()
    yield from work.skills_that_fail()
    yield from work.packages_that_fail()
    yield from work.storage()
    yield from work.search()
    yield from work.running()
    yield from work.model()
    yield from machine.clock()


def cached(*, now: datetime) -> list[Finding]:
    """Cache :func:`examine` for a minute in this process."""
    found = cache.get_or_set(CACHE_KEY, partial(examine, now=now), CACHE_SECONDS)
    return cast("list[Finding]", found)

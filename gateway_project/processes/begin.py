"""The start of each process: refuse a database of newer code, and log one line."""

import logging
import resource
import signal
import sys
from contextlib import suppress
from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import DatabaseError, connection

from core import VERSION
from gateway_project import databases
from gateway_project.processes import garbage
from gateway_project.processes.preflight import unfinished_restore

logger = logging.getLogger(__name__)

MOST_FILES = 65_536


def begin(name: str, **more: object) -> None:
    """Set Django up and log one line about this process; ``more``: an addition to the line.

    Ends the process when newer code has migrated the database, or a restore was not finished. For a
    database that does not answer yet, or is older, the process starts and waits.
    """
    allow_many_files()
    stop_at_hang_up()
    with garbage.held():
        django.setup()
    from core.database import schema_version  # noqa: PLC0415 - needs the line above
    from core.files import storage  # noqa: PLC0415 - needs the line above

    refusal = unfinished_restore(settings.GATEWAY_HOME)
    try:
        refusal = refusal or schema_version.newer()
        older = "" if refusal else schema_version.older()
        misplaced = "" if refusal or older else storage.misplaced()
    except DatabaseError:
        misplaced = ""
        older = "The database does not answer."
    finally:
        connection.close()
    if refusal:
        logger.error("%s does not start: %s", name, refusal)
        sys.exit(1)
    logger.info("%s", described(name, **more))
    for problem in (older, misplaced):
        if problem:
            logger.error("%s", problem)


def allow_many_files() -> None:
    """Raise the limit of open files as far as the machine permits: the usual 1,024 are fewer than a
    worker has answers at once, or a web process chats.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError):  # macOS has a limit below an infinite one
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def stop_at_hang_up() -> None:
    """Stop at SIGHUP as at SIGTERM, as `up` does; it stays ignored under nohup."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def described(name: str, **more: object) -> str:
    """Return the line: version, process, database and broker without their secrets."""
    place = databases.place(settings.DATABASES["default"])
    broker = urlsplit(settings.REDIS_URL)
    facts: dict[str, object] = {
        "process": name,
        **more,
        "database": f"{connection.vendor} at {place}",
        "broker": f"{broker.hostname}:{broker.port or 6379}" if broker.hostname else broker.scheme,
        "address": settings.GATEWAY_URL,
    }
    return f"Latchkey {VERSION} starts: " + ", ".join(f"{key} {facts[key]}" for key in facts)

"""Work of an installation that a ``runs`` worker does beside its runs: a thread looks for it, and a
process of its own does it (decisions 208 and 217).
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from django.db import DatabaseError, connection

from core.database import transactions

T = TypeVar("T")

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
# A worker has left the URLs out, which the doctor examines.
OWN_ENVIRONMENT = ("GATEWAY_PROCESS", "CELERY_SKIP_CHECKS")


def start(
    name: str, find: Callable[[], T | None], do: Callable[[T], None], *, again: float = LOOK_SECONDS
) -> None:
    """Call ``find`` every LOOK_SECONDS until the process ends, and ``do`` with the work that it
    found, if any. ``again``: the seconds after an error.
    """
    threading.Thread(
        target=run_forever, args=(name, find, do), kwargs={"again": again}, name=name, daemon=True
    ).start()


def run_forever(
    name: str, find: Callable[[], T | None], do: Callable[[T], None], *, again: float
) -> None:
    while True:
        seconds = LOOK_SECONDS
        try:
            if found := transactions.from_thread(find):
                do(found)
        except DatabaseError:
            # It is away, or older than this code; its own checks say so.
            logger.debug("%s: not looked for", name, exc_info=True)
        except Exception:
            logger.exception("%s: failed; it is tried again soon", name)
            seconds = again
        finally:
            connection.close()
        time.sleep(seconds)


def environment() -> dict[str, str]:
    """Return the environment of the process that does the work."""
    return {name: value for name, value in os.environ.items() if name not in OWN_ENVIRONMENT}

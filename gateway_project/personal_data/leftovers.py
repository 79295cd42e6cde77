"""Traces of people who were forgotten in the admin are cleaned up by a thread of each ``runs``
worker (decision 217): rewriting SQLite's file takes longer than a browser waits.

The audit says for whom: begun, not done, and the user's row is gone.
"""

import logging
import threading
import time

from django.db import DatabaseError, connection

from allowlist.unfinished_forgetting import left_behind
from gateway_project.personal_data import forgetting

logger = logging.getLogger(__name__)

ACTOR = "worker"
LOOK_SECONDS = 5.0
AGAIN_SECONDS = 60.0


def start() -> None:
    """Look for work until the process ends. One that is killed leaves it to the next look."""
    threading.Thread(target=run_forever, name="leftovers", daemon=True).start()


def run_forever() -> None:
    while True:
        seconds = LOOK_SECONDS
        try:
            look()
        except DatabaseError:
            # It is away, or older than this code; its own checks say so.
            logger.debug("forgotten people are not looked for", exc_info=True)
        except forgetting.NotForgotten as error:
            logger.warning("%s It is tried again soon.", error)
            seconds = AGAIN_SECONDS
        except Exception:
            logger.exception("cleaning after forgotten people failed; it is tried again soon")
            seconds = AGAIN_SECONDS
        finally:
            connection.close()
        time.sleep(seconds)


def look() -> None:
    """Clean the files of the database and of the broker, if people were forgotten. Raises
    NotForgotten.
    """
    if left_behind():
        forgetting.finish(actor=ACTOR)

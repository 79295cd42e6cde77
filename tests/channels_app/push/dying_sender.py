"""A process that sends one message and kills itself at a step: ``python -m
tests.channels_app.push.dying_sender POINT MESSAGE PORT CERTIFICATE DATABASE``.

POINT is one of POINTS, or ``none``; CERTIFICATE is a file, DATABASE the name of the test's.
"""

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Callable
from typing import Any

import django
from django.conf import settings

# Name -> what is wrapped (an attribute of this module's imports), before or after the call.
POINTS = {
    "after the claim": ("push_messages", "claim", "after"),
    "before the request": ("sending", "letter_of", "after"),
    "after the request": ("sending", "record", "before"),
    "before the record": ("push_messages", "sent", "before"),
    "after the record": ("push_messages", "sent", "after"),
}


def deadly(original: Callable[..., Any], when: str) -> Callable[..., Any]:
    """Return ``original`` with a death before or after it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if when == "after":
            original(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    return call


def main(point: str, message: str, port: str, certificate: str, database: str) -> None:
    """Send the message, or die."""
    settings.DATABASES["default"]["NAME"] = database
    django.setup()
    from channels_app.push import sending
    from core.conversations import push_messages
    from core.lib.safe_fetch import Fetcher
    from tests.channels_app.push.service import is_this_machine, to_this_machine

    sending.FETCHER = Fetcher(
        resolve=to_this_machine,
        allowed=is_this_machine,
        ports=frozenset({int(port)}),
        tls=ssl.create_default_context(cafile=certificate),
        https_only=True,
    )
    if point in POINTS:
        owner, name, when = POINTS[point]
        module: Any = {"sending": sending, "push_messages": push_messages}[owner]
        setattr(module, name, deadly(getattr(module, name), when))
    asyncio.run(sending.send(int(message)))


if __name__ == "__main__":
    main(*sys.argv[1:])

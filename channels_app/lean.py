"""Routes that are answered without Django's request cycle, each with a guard of its own."""

import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFailure

from channels_app import http
from channels_app.http import ErrorBody, Receive, RefusedError, Scope, Send, error_body

logger = logging.getLogger(__name__)

Handler = Callable[[Scope, Receive, Send], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Route:
    """A path, as a regular expression that must match all of it, and its handler.

    ``error_body`` gives an unexpected failure the shape of the door.
    """

    path: str
    handler: Handler
    error_body: ErrorBody = error_body


def application(routes: Sequence[Route], otherwise: Application) -> Application:
    """An ASGI application: the first matching route, else ``otherwise``."""
    compiled = [(re.compile(route.path), route) for route in routes]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for pattern, route in compiled:
            if pattern.fullmatch(scope["path"]):
                await guarded(route, scope, receive, send)
                return
        await bounded(otherwise, scope, receive, send)

    return app


async def bounded(inner: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """``inner`` with at most MAX_BODY_BYTES of body: Django puts all of it, of any size and at any
    address, into a temporary file before it looks at the address."""
    limit: int = settings.MAX_BODY_BYTES
    read, started = 0, False

    async def counted() -> MutableMapping[str, Any]:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > limit:
            raise too_large(limit)
        return message

    async def watched(message: Scope) -> None:
        nonlocal started
        started = True
        await send(message)

    try:
        declared = http.Request(scope, receive).header("content-length")
        if declared.isascii() and declared.isdigit() and int(declared[:18]) > limit:
            raise too_large(limit)
        await inner(scope, counted, watched)
    except RefusedError as error:
        if not started:
            await http.answer(send, error.status, error_body(error.status, str(error)))


def too_large(limit: int) -> RefusedError:
    """The refusal of a body."""
    return RefusedError(413, f"The body is larger than {limit} bytes.")


async def guarded(route: Route, scope: Scope, receive: Receive, send: Send) -> None:
    """Run a handler; what it did not expect becomes a 503 (database) or a 500, and a log line."""
    started = False

    async def watched(message: Scope) -> None:
        nonlocal started
        started = True
        await send(message)

    try:
        await route.handler(scope, receive, watched)
    except DatabaseFailure:
        logger.exception("the database failed at a door")
        if not started:
            body = route.error_body(503, "Try again in a moment.")
            await http.answer(send, 503, body, {"Retry-After": "2"})
    except Exception:
        logger.exception("a door failed")
        if not started:
            await http.answer(send, 500, route.error_body(500, "Something went wrong."))

"""Routes that are answered without Django's request cycle, each with a guard of its own."""

import asyncio
import ipaddress
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.http.request import split_domain_port, validate_host

from channels_app.asgi import http
from channels_app.asgi.http import ErrorBody, Receive, RefusedError, Scope, Send, error_body
from core.conversations import runs
from core.database.transactions import in_thread

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0
BELIEVED_SECONDS = 15.0
UPDATING = "The gateway is being updated and takes no messages now. Try again in a minute."
Handler = Callable[[Scope, Receive, Send], Awaitable[None]]
Application = Callable[[Any, Any, Any], Awaitable[None]]


# Probes and scrapers ask for an address of the machine, not for a name of ours.
ASKED_BY_ADDRESS = frozenset({"/healthz", "/readyz", "/metrics"})
FOREIGN_HOST = (
    "This host is not allowed. If it is a name of this gateway, its owner adds it to ALLOWED_HOSTS."
)


@dataclass(frozen=True, slots=True)
class Route:
    """A path, as a regular expression that must match all of it, its handler, and its methods.

    ``error_body`` gives an unexpected failure, or a method that it does not have, the shape of the
    endpoint. ``methods`` empty: any but TRACE.
    """

    path: str
    handler: Handler
    error_body: ErrorBody = error_body
    methods: tuple[str, ...] = ()


@dataclass(slots=True)
class Acceptance:
    """Whether what comes now is worked on, looked up beside the requests: none of them waits for
    it but the first one after BELIEVED_SECONDS of silence."""

    reason: str = ""
    asked_at: float = float("-inf")
    asking: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raises RefusedError 503 when no worker would take a message."""
        age = time.monotonic() - self.asked_at
        if age > BELIEVED_SECONDS:
            await self.look()
        elif age > LOOK_SECONDS and (self.asking is None or self.asking.done()):
            self.asking = asyncio.ensure_future(self.look())
        if self.reason:
            raise RefusedError(503, UPDATING, headers={"Retry-After": "30"})

    async def look(self) -> None:
        """Ask the database; what it does not answer changes nothing."""
        self.asked_at = time.monotonic()
        try:
            reason = await in_thread(runs.why_none_works)
        except DatabaseFailure:
            return
        if reason != self.reason:
            logger.error("messages are %s", f"refused: {reason}" if reason else "taken again")
        self.reason = reason

    def forget(self) -> None:
        """Ask again at the next request."""
        self.reason, self.asked_at = "", float("-inf")


acceptance = Acceptance()


def application(routes: Sequence[Route], otherwise: Application) -> Application:
    """An ASGI application: the first matching route, else ``otherwise``.

    Whichever it is, the request must name a host of ours: a page of somebody else whose name was
    made to lead here (DNS rebinding) may not read an answer.
    """
    compiled = [(re.compile(route.path, re.DOTALL), route) for route in routes]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if not names_our_host(scope):
            await http.answer(send, 400, error_body(400, FOREIGN_HOST))
            return
        for pattern, route in compiled:
            if pattern.fullmatch(scope["path"]):
                await guarded(route, scope, receive, send)
                return
        if scope["method"] == "TRACE":  # Django lets some of its pages answer it
            await http.answer(send, 405, error_body(405, "Use GET."), {"Allow": "GET, HEAD"})
            return
        await bounded(otherwise, scope, receive, send)

    return app


def check_method(route: Route, method: str) -> None:
    """Raises RefusedError 405 for a method that ``route`` does not have."""
    if method == "TRACE" or (route.methods and method not in route.methods):
        allowed = route.methods or ("GET", "POST")
        raise RefusedError(405, f"Use {allowed[0]}.", headers={"Allow": ", ".join(allowed)})


def names_our_host(scope: Scope) -> bool:
    """Whether the one ``Host`` of a request or handshake is among ALLOWED_HOSTS; the health pages
    also answer to any IP address, and to none."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    by_address = scope["path"] in ASKED_BY_ADDRESS
    if len(given) != 1:
        return by_address and not given
    domain, _ = split_domain_port(given[0].decode("latin-1"))
    if not domain:
        return False
    return validate_host(domain, settings.ALLOWED_HOSTS) or (by_address and is_address(domain))


def is_address(domain: str) -> bool:
    """Whether ``domain`` is an IP address as a ``Host`` writes it, which no name can be."""
    try:
        ipaddress.ip_address(domain.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


async def bounded(inner: Application, scope: Scope, receive: Receive, send: Send) -> None:
    """``inner`` with at most MAX_BODY_BYTES of body within BODY_SECONDS: Django puts all of it, of
    any size, however slow and at any address, into a temporary file before it looks at the address.
    """
    limit: int = settings.MAX_BODY_BYTES
    read, whole, started = 0, False, False
    deadline = asyncio.get_running_loop().time() + settings.BODY_SECONDS

    async def counted() -> MutableMapping[str, Any]:
        nonlocal read, whole
        if whole:  # now it only waits for the client to leave
            return await receive()
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as error:
            raise RefusedError(408, "The body came too slowly.") from error
        whole = not message.get("more_body")
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
            body = error_body(error.status, str(error))
            await http.answer(send, error.status, body, {"Connection": "close"})


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
        check_method(route, scope["method"])
        if scope["method"] == "POST":
            await acceptance.check()
        await route.handler(scope, receive, watched)
    except RefusedError as error:
        body = route.error_body(error.status, str(error))
        await http.answer(send, error.status, body, error.headers)
    except DatabaseFailure:
        logger.exception("the database failed at a door")
        if not started:
            body = route.error_body(503, "Try again in a moment.")
            await http.answer(send, 503, body, {"Retry-After": "2"})
    except Exception:
        logger.exception("a door failed")
        if not started:
            await http.answer(send, 500, route.error_body(500, "Something went wrong."))

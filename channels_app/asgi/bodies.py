"""The body of a request, bounded in bytes and in seconds."""

import asyncio
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.text import format_lazy

from channels_app.asgi import http
from channels_app.asgi.http import (
    Application,
    ClientGoneError,
    Receive,
    RefusedError,
    Request,
    Scope,
    Send,
)

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise as StrPromise


class Body:
    """The body messages of a client: at most ``limit`` bytes within ``seconds``.

    The defaults are MAX_BODY_BYTES and BODY_SECONDS, counted from the first ``receive``.
    ``too_large`` and ``too_slow`` are the texts of the refusals.
    """

    def __init__(
        self,
        receive: Receive,
        *,
        limit: int | None = None,
        seconds: float | None = None,
        too_large: "str | StrPromise" = "The body is larger than {limit} bytes.",
        too_slow: "str | StrPromise" = "The body came too slowly.",
    ) -> None:
        self.limit = settings.MAX_BODY_BYTES if limit is None else limit
        self._receive = receive
        self._seconds = settings.BODY_SECONDS if seconds is None else seconds
        self._too_large = format_lazy(too_large, limit=self.limit)
        self._too_slow = too_slow
        self._size = 0
        self._is_whole = False
        self._deadline: float | None = None

    def check_declared(self, request: Request) -> None:
        """Raise RefusedError 413 when ``Content-Length`` is over the limit."""
        if request.declared_length > self.limit:
            raise RefusedError(413, self._too_large)

    def check_head(self, request: Request) -> None:
        """Raise RefusedError 413 as above, 415 for a compressed body."""
        self.check_declared(request)
        if request.header("content-encoding") not in {"", "identity"}:
            raise RefusedError(415, "Compressed bodies are not accepted.")

    async def receive(self) -> Scope:
        """Return the next ASGI message. Raises RefusedError 413 (too large), 408 (too slow)."""
        if self._is_whole:  # after the body, only a disconnect can follow
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError as error:
            raise RefusedError(408, self._too_slow) from error
        self._is_whole = not message.get("more_body")
        self._size += len(message.get("body", b""))
        if self._size > self.limit:
            raise RefusedError(413, self._too_large)
        return message

    async def read(self) -> bytes:
        """Return the whole body. Raises RefusedError 413 or 408, ClientGoneError."""
        parts: list[bytes] = []
        while not self._is_whole:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            parts.append(message.get("body", b""))
        return b"".join(parts)

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


def limited(inner: Application) -> Application:
    """Wrap Django's pages as ASGI middleware: ``inner`` with a bounded body, and without TRACE.

    Django puts all of a body, of any size, however slow and at any address, into a temporary file
    before it resolves the address; and some of its pages answer TRACE.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "TRACE":
            allow = {"Allow": "GET, HEAD"}
            await http.answer(send, 405, http.error_body(405, "Use GET."), allow)
            return
        body, begun = Body(receive), False

        async def watched(message: Scope) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            body.check_declared(Request(scope))
            await inner(scope, body.receive, watched)
        except RefusedError as error:
            if not begun:
                data = http.error_body(error.status, str(error))
                await http.answer(send, error.status, data, {"Connection": "close"})

    return app

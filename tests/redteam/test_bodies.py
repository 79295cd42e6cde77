"""A body is bounded at every address, also where Django would keep all of it in a file first."""

import asyncio
from typing import Any

import pytest

from channels_app.asgi.bodies import limited
from channels_app.asgi.http import Scope

LIMIT = 2048


def send_to_django(settings: Any, *, parts: list[bytes], declared: str = "") -> tuple[int, int]:
    """Send a POST to a page; return the status and the number of bytes that reached Django."""
    settings.MAX_BODY_BYTES = LIMIT
    given, sent, reached = list(parts), list[Scope](), 0

    async def django(scope: Scope, receive: Any, send: Any) -> None:
        nonlocal reached
        more = True
        while more:
            message = await receive()
            reached += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def receive() -> Scope:
        body = given.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(given)}

    async def send(message: Any) -> None:
        sent.append(message)

    length = [(b"content-length", declared.encode())] if declared else []
    headers = [(b"host", b"testserver"), *length]
    scope: Scope = {"type": "http", "method": "POST", "path": "/x", "headers": headers}

    async def ask() -> None:
        await limited(django)(scope, receive, send)

    asyncio.run(ask())
    return int(sent[0]["status"]), reached


@pytest.mark.parametrize(
    ("parts", "declared", "status", "reached"),
    [
        ([b"x" * LIMIT], str(LIMIT), 200, LIMIT),
        ([b"x" * LIMIT], "", 200, LIMIT),
        ([b""], str(LIMIT + 1), 413, 0),
        ([b""], "9" * 400, 413, 0),
        ([b"x" * LIMIT, b"x"], "", 413, LIMIT),
        ([b"x" * 1000] * 50, "10", 413, 2000),
    ],
)
def test_rw11_no_more_than_the_limit_reaches_django(
    parts: list[bytes], declared: str, status: int, reached: int, settings: Any
) -> None:
    """[RW11] Whatever length was declared."""
    assert send_to_django(settings, parts=parts, declared=declared) == (status, reached)

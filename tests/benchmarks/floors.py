"""The floors: the cost of the cheapest program of each kind on this machine.

``pipe STUB``: bytes to and from the stub. ``django STUB``: async Django views that store nothing,
one that takes a webhook and one that relays the stub's stream. Each prints its port and serves
until killed.
"""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import orjson
import uvicorn
import uvloop

Application = Callable[[Any, Any, Any], Awaitable[None]]
MOST_BLOCKS = 1_000_000_000
BACKLOG = 1024  # connections that come at the same moment


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes from one side to the other until there are no more."""
    try:
        for _ in range(MOST_BLOCKS):
            block = await reader.read(65536)
            if not block:
                break
            writer.write(block)
    except ConnectionError:
        pass  # one side has gone: so does the other
    finally:
        writer.close()


async def pipe(stub_port: int) -> None:
    """Relay bytes without parsing them."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", stub_port)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=BACKLOG)
    tell(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def tell(port: int) -> None:
    """Say where we listen."""
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()


def django_application(stub_port: int) -> Application:
    """Return Django with two async views and nothing else."""
    from django.conf import settings

    settings.configure(
        SECRET_KEY="floor",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF=__name__,
        MIDDLEWARE=[],
        USE_TZ=True,
    )
    from django.core.asgi import get_asgi_application
    from django.http import HttpRequest, HttpResponse, JsonResponse, StreamingHttpResponse
    from django.urls import path

    stub_url = f"http://127.0.0.1:{stub_port}/v1/chat/completions"
    clients: list[aiohttp.ClientSession] = []

    async def take(request: HttpRequest) -> JsonResponse:
        update = orjson.loads(request.body)
        return JsonResponse({"ok": True, "update": update["update_id"]})

    async def relay(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        if not clients:
            clients.append(aiohttp.ClientSession())

        async def blocks() -> AsyncIterator[bytes]:
            async with clients[0].post(stub_url, data=request.body) as answer:
                async for block in answer.content.iter_any():
                    yield block

        return StreamingHttpResponse(blocks(), content_type="text/event-stream")

    global urlpatterns  # noqa: PLW0603 - ROOT_URLCONF is this module
    urlpatterns = [path("webhook", take), path("v1/chat/completions", relay)]
    application: Application = get_asgi_application()
    return application


urlpatterns: list[Any] = []


def serve(application: Application) -> None:
    """Serve as our own web process does."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(BACKLOG)
    tell(listening.getsockname()[1])
    config = uvicorn.Config(
        application,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listening])


def main(kind: str, stub_port: int) -> None:
    """Run the floor ``kind``."""
    if kind == "pipe":
        uvloop.run(pipe(stub_port))
    else:
        sys.modules["tests.benchmarks.floors"] = sys.modules[__name__]
        serve(django_application(stub_port))


if __name__ == "__main__":
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    main(sys.argv[1], int(sys.argv[2]))

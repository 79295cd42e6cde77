"""A proxy that adds a key to every request: the conformance suite sends none to a server."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
from aiohttp import web
from yarl import URL

HOPS = {"connection", "content-length", "keep-alive", "transfer-encoding"}


@contextmanager
def with_key(base: str, key: str) -> Iterator[str]:
    """Return the address of a proxy in front of ``base``. It keeps Host and Origin; its own origin
    becomes that of ``base``.
    """
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    address: list[str] = []

    async def pass_on(request: web.Request) -> web.StreamResponse:
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in HOPS]
        own = address[0]
        headers = [(k, base if k.lower() == "origin" and v == own else v) for k, v in headers]
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method,
                URL(base + request.raw_path, encoded=True),
                data=await request.read(),
                headers=[*headers, ("Authorization", f"Bearer {key}")],
                allow_redirects=False,
            ) as answer,
        ):
            kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in HOPS]
            response = web.StreamResponse(status=answer.status)
            for name, value in kept:
                response.headers.add(name, value)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            return response

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", pass_on)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        return runner

    def run() -> None:
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        loop.call_soon(ready.set)
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(30)
    yield address[0]
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)

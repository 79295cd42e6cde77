"""A server that answers every request as it is told, and rows of services that point to it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from core.providers.catalogue import SearchInfo

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[str]:
    """Yield the address of a server on this machine."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def service(**changed: Any) -> SearchInfo:
    """Return a service as the catalogue has it."""
    values = {
        "kind": "searxng",
        "name": "Mine",
        "base_url": "",
        "allow_private": True,
        "secrets": "",
        "language": "",
        "safe_search": "",
        **changed,
    }
    return SearchInfo(**values)


def entry(number: int = 1, **changed: Any) -> dict[str, Any]:
    """Return a result in the form of SearXNG."""
    return {
        "url": f"https://pages.example/{number}",
        "title": f"Page {number}",
        "content": f"The words of page {number}.",
        **changed,
    }

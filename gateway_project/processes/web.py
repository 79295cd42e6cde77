"""The web server process: ``python -m gateway_project.processes.web``.

It serves ``gateway_project.asgi:application`` with uvicorn, or with Daphne by ``GATEWAY_SERVER``.
``GATEWAY_LISTEN_FD`` may name an inherited listening socket; without it, it binds
``GATEWAY_HOST``:``GATEWAY_PORT`` itself.
"""

import asyncio
import logging
import os
import socket
import warnings
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Any

from django.conf import settings

from channels_app.asgi import event_stream
from channels_app.ops.doctor import configuration
from core.database import transactions
from core.lib import tracing
from gateway_project import environment
from gateway_project.processes import begin, garbage, listener, ready

logger = logging.getLogger(__name__)

LEVELS = {"error": logging.ERROR, "warning": logging.WARNING}
GRACEFUL_SECONDS = 5
# Proxies give up a connection that is silent for 60 s; a ping costs 0.1 ms of CPU.
PING_SECONDS = 50
TICK_SECONDS = 1.0  # the date in the answers' headers is as old as that at most


def report_ready() -> None:
    garbage.settle()
    ready.report()


def log_reach() -> None:
    """Log, as the doctor says it, why browsers do not reach the pages."""
    for found in configuration.reach():
        logger.log(LEVELS[found.level], "%s %s", found.what, found.fix)


def open_socket() -> socket.socket:
    """Return the listening socket: the inherited one, or a new one."""
    inherited = os.environ.pop(listener.LISTEN_FD, "")
    if inherited:
        return socket.socket(fileno=int(inherited))
    return listener.listen(host=settings.GATEWAY_HOST, port=settings.GATEWAY_PORT)


def serve_uvicorn(listening: socket.socket) -> None:
    """Serve until SIGTERM; open requests get ``GRACEFUL_SECONDS`` to end.

    Per-message deflate is off: it costs 37 KiB per socket and the frames are small.
    """
    import uvicorn  # noqa: PLC0415 - only one of the two servers is loaded

    from gateway_project.processes.bounded_http import (  # noqa: PLC0415 - the same
        BoundedHttpProtocol,
    )
    from gateway_project.processes.keepalive import AlignedPings  # noqa: PLC0415 - the same

    class ReadyServer(uvicorn.Server):
        """Report readiness; run uvicorn's tick once a second instead of ten times."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=sockets)
            report_ready()

        async def main_loop(self) -> None:
            self.loop, self.leaving = asyncio.get_running_loop(), asyncio.Event()
            while not await self.on_tick(0):
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.leaving.wait(), TICK_SECONDS)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            await super().shutdown(sockets=sockets)
            tracing.close()  # here: uvicorn then ends the process by the signal itself

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            super().handle_exit(sig, frame)
            if hasattr(self, "leaving"):
                self.loop.call_soon_threadsafe(self.leave)

        def leave(self) -> None:
            """Send streams their last event while connections still wait for their end."""
            event_stream.stopping().set()
            self.leaving.set()

    config = uvicorn.Config(
        "gateway_project.asgi:application",
        loop="uvloop",
        http=BoundedHttpProtocol,
        ws=AlignedPings,
        ws_max_size=settings.MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=PING_SECONDS,
        lifespan="auto",
        access_log=False,
        log_config=None,
        log_level="warning",
        server_header=False,
        proxy_headers=bool(settings.GATEWAY_TRUSTED_PROXIES),
        forwarded_allow_ips=settings.GATEWAY_TRUSTED_PROXIES,
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )
    ReadyServer(config).run(sockets=[listening])


def serve_daphne(listening: socket.socket) -> None:
    """Serve with Daphne until SIGTERM.

    It trusts the forwarded address of every client, not only of ``GATEWAY_TRUSTED_PROXIES``: behind
    a proxy, only the proxy may reach its port.
    """
    from daphne import server  # noqa: PLC0415 - Twisted installs its reactor when imported
    from twisted.internet.endpoints import AdoptedStreamServerEndpoint  # noqa: PLC0415 - the same
    from twisted.web.http import HTTPChannel  # noqa: PLC0415 - the same

    from gateway_project.asgi import application  # noqa: PLC0415 - it needs Django

    HTTPChannel.maxHeaders = settings.MAX_HEAD_FIELDS
    HTTPChannel.totalHeadersSize = min(HTTPChannel.totalHeadersSize, settings.MAX_HEAD_BYTES)
    listening.settimeout(0)
    # Its own parser takes each socket for one of IPv4: clients of another have random addresses.
    adopted: Any = AdoptedStreamServerEndpoint
    server.serverFromString = lambda reactor, fd: adopted(reactor, int(fd), listening.family)
    server.Server(
        application=application,
        endpoints=[str(listening.fileno())],
        websocket_max_message_size=settings.MAX_FRAME_BYTES,
        websocket_max_frame_size=settings.MAX_FRAME_BYTES,
        application_close_timeout=GRACEFUL_SECONDS,
        proxy_forwarded_address_header="X-Forwarded-For"
        if settings.GATEWAY_TRUSTED_PROXIES
        else None,
        ready_callable=report_ready,
        server_name="",
        verbosity=0,
    ).run()


def main() -> None:
    """Load everything that the first request needs, then serve."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    begin.begin("web", server=environment.text("GATEWAY_SERVER", "uvicorn"))
    log_reach()
    tracing.load("web")
    transactions.shorten_lock_waits()
    import_module(settings.ROOT_URLCONF)
    # WhiteNoise streams its files from synchronous iterators; they are small and cached for ever.
    warnings.filterwarnings("ignore", message="StreamingHttpResponse must consume synchronous")
    serve = serve_daphne if settings.GATEWAY_SERVER == "daphne" else serve_uvicorn
    serve(open_socket())
    tracing.close()


if __name__ == "__main__":
    main()

"""ASGI middleware: refuse requests for foreign hosts (DNS rebinding)."""

import ipaddress
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from channels_app.asgi import http
from channels_app.asgi.http import Application, Receive, Scope, Send

# Probes and scrapers use an address of the machine, not one of our names.
ASKED_BY_ADDRESS = frozenset({"/healthz", "/readyz", "/metrics"})
FOREIGN_HOST = (
    "This host is not allowed. If it is a name of this gateway, its owner adds it to ALLOWED_HOSTS."
)
FOREIGN_CLOSE_CODE = 4403


def our_host(inner: Application) -> Application:
    """Wrap ``inner``: answer 400, or a close code, when ``Host`` is not ours.

    Otherwise a site whose name was pointed here (DNS rebinding) could read answers.
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if names_our_host(scope):
            await inner(scope, receive, send)
        elif scope["type"] == "http":
            await http.answer(send, 400, http.error_body(400, FOREIGN_HOST))
        else:
            await send({"type": "websocket.close", "code": FOREIGN_CLOSE_CODE})

    return app


def names_our_host(scope: Mapping[str, Any]) -> bool:
    """Return whether the only ``Host`` of a request or handshake is among ALLOWED_HOSTS.

    The health pages also accept any IP address, and no ``Host``.
    """
    given = [value for name, value in scope["headers"] if name == b"host"]
    by_address = scope["path"] in ASKED_BY_ADDRESS
    if len(given) != 1:
        return by_address and not given
    domain, _ = split_domain_port(given[0].decode("latin-1"))
    if not domain:
        return False
    return validate_host(domain, settings.ALLOWED_HOSTS) or (by_address and is_address(domain))


def is_address(domain: str) -> bool:
    """Return whether ``domain`` is an IP address as written in ``Host``."""
    try:
        ipaddress.ip_address(domain.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True

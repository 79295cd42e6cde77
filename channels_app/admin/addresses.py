"""The address of a model server, as the owner types it."""

import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from urllib.parse import urlsplit

from django.utils.translation import gettext

LOOK_UP_SECONDS = 3.0
# Calls that the gateway appends itself: the address was copied with one of them.
CALLS = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/embeddings",
    "/models",
    "/messages",
    "/api/chat",
    "/api/generate",
    "/api/tags",
)


def wrong_path(address: str) -> str:
    """Return what is wrong with the path of an address, as a sentence; empty for nothing."""
    short = address.rstrip("/")
    for call in CALLS:
        if short.endswith(call):
            said = gettext("Leave out {call}, the gateway adds it: {address}")
            return said.format(call=call, address=short.removesuffix(call))
    if "//" in short.partition("://")[2]:
        return gettext("The path has two slashes in a row.")
    return ""


def host_of(address: str) -> str:
    """Return the host; empty where there is none."""
    try:
        return urlsplit(address.strip()).hostname or ""
    except ValueError:
        return ""


def look_up(host: str) -> list[str]:
    """Return the addresses of a host, within LOOK_UP_SECONDS; empty when it cannot be resolved."""
    if not host:
        return []
    threads = ThreadPoolExecutor(1)
    try:
        found = threads.submit(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(each[4][0]) for each in found.result(LOOK_UP_SECONDS)))
    except (OSError, UnicodeError, TooLate):
        return []
    finally:
        threads.shutdown(wait=False)

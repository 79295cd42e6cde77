"""The address of a model server, as the owner types it: what is wrong with it."""

import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from urllib.parse import SplitResult, urlsplit

from django.core.exceptions import ValidationError

from core.lib import safe_fetch

LOOK_UP_SECONDS = 3.0
# Names that only a local network resolves (RFC 6762, RFC 8375, ICANN's ``internal``).
INSIDE = (".local", ".localhost", ".lan", ".home", ".home.arpa", ".internal")
# Calls that the gateway appends itself: such an address was copied with one of them.
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


def cleaned(address: str) -> str:
    """Return an address without a slash at its end. Raises ValidationError with what is wrong."""
    if any(character.isspace() or not character.isprintable() for character in address):
        raise ValidationError("The address contains a space or a line break.")
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        raise ValidationError("This is not an address.") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise ValidationError("Enter an address that begins with http:// or https://.")
    if parts.username is not None or parts.password is not None:
        raise ValidationError("Leave name and password out; a key has a field of its own.")
    if parts.query or parts.fragment or address.endswith(("?", "#")):
        raise ValidationError("Leave out ? or # and what follows.")
    path = parts.path.rstrip("/")
    for call in CALLS:
        if path.endswith(call):
            short = address.rstrip("/").removesuffix(call)
            raise ValidationError(f"Leave out {call}, the gateway adds it: {short}")
    if "//" in path:
        raise ValidationError("The path has two slashes in a row.")
    return address.rstrip("/")


def host_of(address: str) -> str:
    """Return the host; empty where there is none."""
    try:
        return (urlsplit(address).hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


def look_up(host: str) -> list[str]:
    """Return the addresses of a host, within LOOK_UP_SECONDS; empty when it cannot be resolved."""
    if not host:
        return []
    threads = ThreadPoolExecutor(1)
    try:
        found = threads.submit(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
        return [str(each[4][0]) for each in found.result(LOOK_UP_SECONDS)]
    except (OSError, UnicodeError, TooLate):
        return []
    finally:
        threads.shutdown(wait=False)


def refusal(address: str, *, resolved: list[str], allow_private: bool) -> str:
    """Return why the gateway does not connect to an address; empty when it does.

    ``resolved``: the addresses of its host, which :func:`look_up` has found.
    """
    host = host_of(address)
    found = [each for each in map(ip_address, resolved or [host]) if each is not None]
    if any(not safe_fetch.is_public_or_private(each) for each in found):
        return "The gateway never connects to this address: it is reserved."
    is_inside = any(not safe_fetch.is_public(each) for each in found)
    is_inside = is_inside or host == "localhost" or "." not in host and ":" not in host
    if (is_inside or host.endswith(INSIDE)) and not allow_private:
        return (
            "This address is inside the network. If it is your server, tick "
            "“the address may be inside the network”."
        )
    return ""


def ip_address(text: str) -> safe_fetch.Address | None:
    """Return an IP address; None for a name."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_plain(address: str) -> bool:
    """Return whether a key would travel unencrypted to a public address."""
    parts: SplitResult = urlsplit(address)
    found = ip_address(parts.hostname or "")
    inside = found is not None and not safe_fetch.is_public(found)
    return parts.scheme == "http" and not inside

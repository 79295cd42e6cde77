"""Which addresses model servers may have: checked when one is saved and at each connection.

A name may resolve to another address a moment later, so the connection itself is checked too. The
lists are those of ``core.lib.safe_fetch``; metadata services of clouds are never asked.
"""

import ipaddress
import socket
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from django.conf import settings
from django.utils.translation import gettext

from core.lib.safe_fetch import (
    METADATA,
    Address,
    Pinned,
    RefusedAddressError,
    Resolve,
    by_system,
    is_among,
    is_public,
    is_public_or_private,
    networks,
    now_by_system,
    port_of,
)

# Carrier-grade NAT (RFC 6598): private overlay networks give their machines such addresses.
SHARED = networks("100.64.0.0/10")
LOCAL = {"localhost", "127.0.0.1", "::1"}
EVERYWHERE = {"", "0.0.0.0", "::"}  # noqa: S104 - compared, not listened at
LONGEST = 500
CONNECT_SECONDS = 10.0
NOT_ALLOWED = "The address is inside the network, and the provider's settings do not allow that."

Allowed = Callable[[Address], bool]
ResolveNow = Callable[[str, int], list[str]]


def is_public_or_inside(address: Address) -> bool:
    """Return whether ``address`` is public or inside the owner's network; never a metadata service
    nor link-local, where clouds have theirs.
    """
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return is_public_or_inside(address.ipv4_mapped)
    shared = is_among(address, SHARED) and not is_among(address, METADATA)
    return shared or is_public_or_private(address)


def allowed_of(*, private: bool) -> Allowed:
    """Return the check of addresses, with those inside the network or without."""
    return is_public_or_inside if private else is_public


def problem(url: str, *, private: bool, resolve: ResolveNow = now_by_system) -> str:
    """Return what is wrong with a server's address, as a sentence for the owner; empty for nothing.

    Blocks on the system's resolver. A name that does not resolve now is no problem: the server may
    be off.
    """
    wrong = problem_of_form(url)
    if wrong:
        return wrong
    if is_own(url):
        return gettext("This is the address of this gateway: its models would ask themselves.")
    parts = urlsplit(url)
    try:
        found = resolve(parts.hostname or "", port_of(parts))
    except (OSError, UnicodeError):
        return ""
    addresses = reachable(found)
    if all(allowed_of(private=private)(each) for each in addresses):
        return ""
    if all(is_public_or_inside(each) for each in addresses):
        return gettext(
            "This address is inside your network. Allow that below, if the server is yours."
        )
    return gettext(
        "This address is never asked: clouds keep the credentials of their machines there."
    )


def problem_of_form(url: str) -> str:
    """Return what is wrong with the text of an address, as a sentence for the owner."""
    if len(url) > LONGEST or any(c.isspace() or not c.isprintable() for c in url):
        return gettext("An address has no spaces and no line breaks.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return gettext("This is not an address. It looks like https://api.example.com/v1")
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        return gettext("An address begins with http:// or https:// and names a server.")
    if parts.username is not None or parts.password is not None:
        return gettext("Write the key into its own field, not into the address.")
    if parts.query or parts.fragment:
        return gettext("The address has no part behind ? or #.")
    return ""


def is_own(url: str) -> bool:
    """Return whether an address is that of this gateway, as people or this machine reach it."""
    asked, public = urlsplit(url), urlsplit(settings.GATEWAY_URL)
    if asked.path.rstrip("/") not in {"", "/v1"}:
        return False  # behind a proxy another path may be another server's
    if (asked.hostname, port_of(asked)) == (public.hostname, port_of(public)):
        return True
    listens_here = settings.GATEWAY_HOST in LOCAL | EVERYWHERE
    return listens_here and asked.hostname in LOCAL and port_of(asked) == settings.GATEWAY_PORT


def reachable(found: list[str]) -> list[Address]:
    """Return the addresses of a name without its link-local ones of IPv6, unless it has no others:
    names in a home network (mDNS) often have one of them beside the address that is used.
    """
    addresses = [ipaddress.ip_address(each) for each in found]
    others = [each for each in addresses if each.version == 4 or not each.is_link_local]
    return others or addresses


class CheckedResolver(AbstractResolver):
    """Resolve names whose addresses are all allowed. Raises RefusedAddressError for others."""

    def __init__(self, allowed: Allowed, resolve: Resolve = by_system) -> None:
        self._allowed = allowed
        self._resolve = resolve

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = reachable(await self._resolve(host, port))
        if not all(self._allowed(each) for each in found):
            raise RefusedAddressError(NOT_ALLOWED)
        return await Pinned([*dict.fromkeys(found)]).resolve(host, port, family)

    async def close(self) -> None: ...


def new_socket(
    allowed: Allowed, given: tuple[int, int, int, str, tuple[str | int | bytes, ...]]
) -> socket.socket:
    """Return a socket for an address of the resolver, or of an address that is written in numbers.

    Raises RefusedAddressError.
    """
    family, kind, proto, _, where = given
    if not allowed(ipaddress.ip_address(str(where[0]))):
        raise RefusedAddressError(NOT_ALLOWED)
    return socket.socket(family, kind, proto)


def session(allowed: Allowed | None, *, resolve: Resolve = by_system) -> aiohttp.ClientSession:
    """Return a client without cookies, proxies and total time-out, that connects to allowed
    addresses only; to all for None. Requests raise RefusedAddressError.
    """
    checked: dict[str, Any] = {}
    if allowed is not None:
        checked["resolver"] = CheckedResolver(allowed, resolve)
        checked["socket_factory"] = partial(new_socket, allowed)
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, **checked),
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=256 * 1024,
    )

"""The guarded HTTP fetcher for untrusted URLs: which addresses it may connect to, and how much it
reads.

Resolve, require every address to be public (by the lists below), connect to one of the checked
addresses (a name may resolve to another one a moment later), check again at each redirect, cap
bytes and seconds.
"""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import SplitResult, urljoin, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from core import VERSION
from core.lib import leases

AGENT = f"Latchkey/{VERSION}"

MAX_BYTES = 20 * 1024 * 1024
MAX_SECONDS = 30.0
MAX_REDIRECTS = 3
PORTS = frozenset({80, 443, 8080, 8443})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
BLOCK_BYTES = 64 * 1024

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks(*given: str) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(each) for each in given)


# These lists alone decide which addresses are allowed. Python's ``is_global`` differs
# between Python's versions, and calls addresses public that reach the machine or its network.
# Sources: IANA's registries "IPv4 Special-Purpose Address Space" and "IPv6 Special-Purpose Address
# Space" (RFC 6890 and what updated it), each whole, also what they call globally reachable: none of
# it holds a document. Multicast: RFC 1112, RFC 4291.
SPECIAL_V4 = networks(
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # shared (carrier-grade NAT)
    "127.0.0.0/8",  # loopback
    "169.254.0.0/16",  # link-local
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments
    "192.0.2.0/24",  # documentation
    "192.31.196.0/24",  # AS112
    "192.52.193.0/24",  # AMT
    "192.88.99.0/24",  # 6to4 relays, deprecated
    "192.168.0.0/16",  # private
    "192.175.48.0/24",  # AS112
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and the broadcast address
)
# All unicast that IANA has allocated; outside of it are loopback, unique local, link-local, the
# deprecated site-local, multicast, and the forms that carry an IPv4 address (::/96, NAT64).
UNICAST_V6 = ipaddress.IPv6Network("2000::/3")
# DNS64 gives a machine without IPv4 these for names that have no other address: the last 32 bits
# are the IPv4 address that NAT64 connects to (RFC 6052). It may be public only.
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
SPECIAL_V6 = networks(
    "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks, AMT, AS112
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4
    "2620:4f:8000::/48",  # AS112
    "3fff::/20",  # documentation
)
# An owner's private networks, allowed by *private address*.
OWN = networks(
    "10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7"
)
# Metadata services that give cloud credentials to local clients (the clouds' manuals). Refused also
# with *private address*. Those in 169.254.0.0/16 are refused with it.
METADATA = networks(
    "168.63.129.16/32",  # Azure
    "100.100.100.200/32",  # Alibaba Cloud
    "192.0.0.192/32",  # Oracle Cloud
    "fd00:ec2::/32",  # AWS: metadata, DNS, time, credentials of containers
    "fd20:ce::254/128",  # Google Cloud
    "fd00:42::42/128",  # Scaleway
)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]


class FetchError(Exception):
    """The URL was not fetched; the text is for its sender and names no address."""


class RefusedAddressError(FetchError):
    """The address is not allowed."""


@dataclass(frozen=True, slots=True)
class Posted:
    """A server's response to a POST; a redirect is a response like any other."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetched URL; ``content_type`` in lower case, ``charset`` of the server or empty."""

    url: str
    content_type: str
    body: bytes
    charset: str = ""


def is_public(address: Address) -> bool:
    """Return whether ``address`` is public: neither special-purpose nor a metadata service."""
    if isinstance(address, ipaddress.IPv4Address):
        return not is_among(address, SPECIAL_V4 + METADATA)
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address.scope_id is not None:
        return False
    if address in NAT64:
        return is_public(ipaddress.IPv4Address(address.packed[-4:]))
    return address in UNICAST_V6 and not is_among(address, SPECIAL_V6)


def is_public_or_private(address: Address) -> bool:
    """Return whether ``address`` is public or private; never a cloud metadata service."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return is_public_or_private(address.ipv4_mapped)
        if address.scope_id is not None:
            return False
    return is_public(address) or (is_among(address, OWN) and not is_among(address, METADATA))


def is_among(address: Address, nets: tuple[Network, ...]) -> bool:
    return any(address in net for net in nets if net.version == address.version)


# A server of names may let those who ask it wait for half a minute. The event loop's own threads
# are few, and resolve the names of platforms and models, too.
RESOLVERS = ThreadPoolExecutor(32, thread_name_prefix="resolver")


def now_by_system(host: str, port: int) -> list[str]:
    """Return the addresses of ``host`` from the system's resolver; blocks. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def by_system(host: str, port: int) -> list[str]:
    """Do as :func:`now_by_system`, without blocking."""
    return await asyncio.get_running_loop().run_in_executor(RESOLVERS, now_by_system, host, port)


def port_of(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


class Pinned(AbstractResolver):
    """A resolver that returns the checked addresses for every name."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(each),
                port=port,
                family=socket.AF_INET if each.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for each in self._addresses
        ]

    async def close(self) -> None: ...


async def body_within(response: aiohttp.ClientResponse, most: int) -> bytes | None:
    """Return the body of a response; None for one of more than ``most`` bytes."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > most:
            return None
    return bytes(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetcher:
    """The limits of fetching, with the address check and the resolver."""

    resolve: Resolve = by_system
    allowed: Callable[[Address], bool] = is_public
    ports: frozenset[int] | None = PORTS  # None: any
    local_names: bool = False  # whether ``localhost`` may be asked at all
    max_bytes: int = MAX_BYTES
    max_seconds: float = MAX_SECONDS
    tls: ssl.SSLContext | bool = True  # the certificates to trust; True: the system's
    https_only: bool = False

    async def get(self, url: str) -> Fetched:
        """Return the content of ``url``. Raises FetchError."""
        try:
            async with asyncio.timeout(self.max_seconds):
                return await self._follow(url)
        except TimeoutError as error:
            raise FetchError("it took too long") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FetchError("it could not be fetched") from error

    async def post(
        self, url: str, *, body: bytes, headers: Mapping[str, str], most_bytes: int = BLOCK_BYTES
    ) -> Posted:
        """Return the response of ``url`` to ``body``: ``most_bytes`` of it, without redirects.

        Raises RefusedAddressError, and the errors of the connection: ``aiohttp.ClientError``,
        ``OSError`` and ``TimeoutError``.
        """
        async with asyncio.timeout(self.max_seconds):
            try:
                addresses = await self._addresses(self._parts(url))
            except ValueError as error:
                raise RefusedAddressError("address not allowed") from error
            except FetchError as error:
                raise RefusedAddressError(str(error)) from error
            async with (
                self._session(addresses) as session,
                session.post(
                    url,
                    data=body,
                    allow_redirects=False,
                    headers={"User-Agent": AGENT, "Accept-Encoding": "identity", **headers},
                ) as response,
            ):
                answer = await response.content.read(most_bytes)
                return Posted(response.status, dict(response.headers), answer)

    def _session(self, addresses: Sequence[Address]) -> aiohttp.ClientSession:
        """Return a session for one request, which connects to the first address that answers."""
        connector = aiohttp.TCPConnector(resolver=Pinned(addresses), ssl=self.tls)
        return aiohttp.ClientSession(
            connector=connector, auto_decompress=False, request_class=leases.LeasedRequest
        )

    async def _follow(self, url: str) -> Fetched:
        for _ in range(MAX_REDIRECTS + 1):
            found = await self._hop(url)
            if isinstance(found, Fetched):
                return found
            url = urljoin(url, found)
        raise FetchError("too many redirects")

    async def _hop(self, url: str) -> Fetched | str:
        """Make one request, with nothing of the last; return the content or the next address."""
        addresses = await self._addresses(self._parts(url))
        async with (
            self._session(addresses) as session,
            session.get(
                url,
                allow_redirects=False,
                headers={"Accept-Encoding": "identity", "User-Agent": AGENT},
            ) as response,
        ):
            if response.status in REDIRECTS and "Location" in response.headers:
                return response.headers["Location"]
            if response.status != 200:
                raise FetchError(f"the server answered {response.status}")
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise FetchError("it is compressed")
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            is_large = (response.content_length or 0) > self.max_bytes
            body = None if is_large else await body_within(response, self.max_bytes)
            if body is None:
                raise FetchError("it is too large")
            return Fetched(url, content_type=kind, body=body, charset=response.charset or "")

    def _parts(self, url: str) -> SplitResult:
        """Return the parts of an acceptable URL. Raises FetchError."""
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".")
        is_allowed = (
            parts.scheme in ({"https"} if self.https_only else {"http", "https"})
            and parts.hostname
            and (parts.username, parts.password) == (None, None)
            and (self.local_names or not f".{host}".endswith(".localhost"))
            and (self.ports is None or port_of(parts) in self.ports)
        )
        if not is_allowed:
            raise FetchError("address not allowed")
        return parts

    async def _addresses(self, parts: SplitResult) -> list[Address]:
        """Return the addresses of the host, when all of them are allowed. Raises FetchError."""
        names = await self.resolve(parts.hostname or "", port_of(parts))
        found = [ipaddress.ip_address(each) for each in names]
        if not found or not all(self.allowed(each) for each in found):
            raise FetchError("address not allowed")
        return found


FETCHER = Fetcher()

"""Posts to a bridge ([D4], RDOC1, RDOC2), and the addresses that an owner may allow."""

import asyncio
import ipaddress

import pytest
from aiohttp import web

from core import VERSION
from core.lib import leases
from core.lib.safe_fetch import Fetcher, RefusedAddressError, is_public, is_public_or_private
from tests.core.lib.test_safe_fetch import is_test_server, to_test_server

ANYWHERE = Fetcher(resolve=to_test_server, allowed=is_test_server, ports=None)


class Server:
    """A server that records the posts to it; ``/moved`` redirects to ``/``, ``/stuck`` never
    answers.
    """

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes, dict[str, str]]] = []
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer any request."""
        self.heard.append((request.method, await request.read(), dict(request.headers)))
        if request.path == "/moved":
            raise web.HTTPTemporaryRedirect("/")
        if request.path == "/stuck":
            await asyncio.Event().wait()
        return web.Response(status=202, body=b"0123456789", headers={"X-Said": "thanks"})

    async def __aenter__(self) -> "Server":
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runner.cleanup()

    def url(self, path: str) -> str:
        """Return the address of ``path`` by a name that only the resolver of the fetcher knows."""
        return f"http://bridge.example:{self.runner.addresses[0][1]}{path}"


async def test_d4_a_post_carries_its_body_and_headers_and_brings_the_answer() -> None:
    """[D4] With our user agent; no compressed answer is requested."""
    async with Server() as server:
        posted = await ANYWHERE.post(server.url("/"), body=b"{}", headers={"X-Signature": "abc"})
    ((method, body, headers),) = server.heard
    assert (method, body, headers["X-Signature"]) == ("POST", b"{}", "abc")
    assert (headers["User-Agent"], headers["Accept-Encoding"]) == (
        f"Latchkey/{VERSION}",
        "identity",
    )
    assert headers["Host"].startswith("bridge.example:")
    assert (posted.status, posted.body, posted.headers["X-Said"]) == (202, b"0123456789", "thanks")


async def test_rc8_a_post_is_not_sent_when_its_lease_ends_before_it_is_connected() -> None:
    lease = leases.Lease(seconds=60)

    async def suspended(host: str, port: int) -> list[str]:
        lease.until = leases.elapsed() - 1
        return await to_test_server(host, port)

    fetcher = Fetcher(resolve=suspended, allowed=is_test_server, ports=None)
    async with Server() as server:
        with leases.under(lease), pytest.raises(leases.LeaseOverError):
            await fetcher.post(server.url("/"), body=b"{}", headers={})
    assert not server.heard


async def test_d4_a_post_follows_no_redirect() -> None:
    """[D4] RDOC2: the signed body goes to the registered address and nowhere else."""
    async with Server() as server:
        posted = await ANYWHERE.post(server.url("/moved"), body=b"{}", headers={})
    assert posted.status == 307
    assert len(server.heard) == 1


async def test_d4_a_posts_answer_is_read_up_to_its_limit() -> None:
    """RDOC4: at most the limit is read of any answer."""
    async with Server() as server:
        posted = await ANYWHERE.post(server.url("/"), body=b"", headers={}, most_bytes=4)
    assert posted.body == b"0123"


async def test_d4_a_post_ends_in_its_time() -> None:
    """RDOC4: a server that never answers is timed out."""
    quick = Fetcher(resolve=to_test_server, allowed=is_test_server, ports=None, max_seconds=0.5)
    async with Server() as server:
        with pytest.raises(TimeoutError):
            await quick.post(server.url("/stuck"), body=b"", headers={})


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8080/",
        "http://[::1]:8080/",
        "http://10.0.0.1/",
        "http://localhost/",
        "http://8.8.8.8:22/",
        "ftp://8.8.8.8/",
        "http://[::1",
    ],
)
async def test_d4_nothing_is_posted_to_an_address_that_is_not_allowed(url: str) -> None:
    """[D4] RDOC1: as for downloads; text that is no address is refused in the same words."""
    with pytest.raises(RefusedAddressError, match="address not allowed"):
        await Fetcher().post(url, body=b"", headers={})


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "::ffff:10.0.0.1",
        "fd00::1",
        "8.8.8.8",
        "2606:4700:4700::1111",
    ],
)
def test_d4_an_owner_may_tick_an_address_of_their_own_network(text: str) -> None:
    """[D4] Public ones count without the tick."""
    assert is_public_or_private(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fe80::1",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
        "240.0.0.1",
        "255.255.255.255",
        "100.64.0.1",
    ],
)
def test_d4_no_tick_opens_the_addresses_where_clouds_keep_their_secrets(text: str) -> None:
    """[D4] RDOC1: link-local, unspecified, multicast, reserved, shared."""
    assert not is_public_or_private(ipaddress.ip_address(text))
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", ["8.8.8.8", "::ffff:8.8.8.8", "2606:4700:4700::1111"])
def test_a_public_address_is_public_in_both_spellings(text: str) -> None:
    """RDOC1: the guard allows the public internet."""
    assert is_public(ipaddress.ip_address(text))

"""Edges of the guarded fetcher that only mutants revealed (RDOC1, RDOC2, RDOC4)."""

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from core import VERSION
from core.lib.safe_fetch import Fetcher, FetchError, Pinned, by_system
from tests.certificates import certified
from tests.core.lib.test_safe_fetch import fetcher, hello, serving


class Names:
    """A resolver that finds ``found`` for every name and records the queries."""

    def __init__(self, *found: str) -> None:
        self.found = found
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        """See ``Resolve``."""
        self.asked.append((host, port))
        return list(self.found)


@pytest.mark.parametrize(
    "url",
    [
        "http://user@example.org/",
        "http://:word@example.org/",
        "http://user:word@example.org/",
        "http://a.localhost/",
        "http://a.localhost./",
        "http://example.org:81/",
        "https://example.org:22/",
        "ws://example.org/",
    ],
)
async def test_invalid_urls_are_refused_without_a_dns_lookup(url: str) -> None:
    """[RDOC1] A look-up alone would reveal this machine to an untrusted name server."""
    names = Names("8.8.8.8")
    with pytest.raises(FetchError, match="address not allowed"):
        await Fetcher(resolve=names).get(url)
    assert names.asked == []


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://example.org/", ("example.org", 80)),
        ("https://example.org/", ("example.org", 443)),
        ("https://example.org:8443/", ("example.org", 8443)),
        ("http://example.org:8080/", ("example.org", 8080)),
    ],
)
async def test_a_name_is_looked_up_with_its_port(url: str, asked: tuple[str, int]) -> None:
    """[RDOC1] 443 for https, 80 for http; no other port counts as theirs."""
    names = Names("10.0.0.1")
    with pytest.raises(FetchError, match="address not allowed"):
        await Fetcher(resolve=names, ports=frozenset({asked[1]})).get(url)
    assert names.asked == [asked]
    with pytest.raises(FetchError, match="address not allowed"):
        await Fetcher(resolve=names, ports=frozenset({1, asked[1] + 1, 523 - asked[1]})).get(url)
    assert names.asked == [asked]


async def test_a_name_without_any_address_is_refused() -> None:
    """[RDOC1] An empty list of addresses is neither private nor public."""
    with pytest.raises(FetchError, match="address not allowed"):
        await Fetcher(resolve=Names()).get("http://example.org/")


async def test_the_checked_addresses_are_the_only_answers() -> None:
    """[RDOC3] For any requested name and address family."""
    families = {"8.8.8.8": socket.AF_INET, "2606:4700::1": socket.AF_INET6}
    pinned = Pinned([ipaddress.ip_address(each) for each in families])
    found = await pinned.resolve("example.org", 443)
    assert {each["host"]: each["family"] for each in found} == families
    for each in found:
        assert (each["hostname"], each["port"]) == ("example.org", 443)
        assert (each["proto"], each["flags"]) == (0, socket.AI_NUMERICHOST)
    assert [each["port"] for each in await pinned.resolve("example.org")] == [0, 0]


async def test_where_the_first_address_does_not_answer_the_next_is_asked() -> None:
    """As of a machine whose IPv6 leads nowhere, or of one of several servers that is away."""

    async def several(host: str, port: int) -> list[str]:
        del host, port
        return ["127.0.0.9", "127.0.0.1"]

    async with serving(hello) as port:
        url = f"http://example.org:{port}/0"
        asking = fetcher(port, resolve=several, allowed=lambda each: each.is_loopback)
        found = await asking.get(url)
        posted = await asking.post(url, body=b"", headers={})
    assert found.body.startswith(b"hello")
    assert posted.status == 405


async def test_the_system_resolves_an_address_to_itself_once() -> None:
    """Not once for each kind of socket."""
    assert await by_system("127.0.0.2", 80) == ["127.0.0.2"]


async def test_a_name_that_is_never_resolved_takes_no_thread_of_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those are few, and resolve the names of platforms and models."""
    gate = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: gate.wait(5) and [])
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    asked = asyncio.create_task(by_system("hangs.example", 80))
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(1):
            assert await asyncio.to_thread(int) == 0
    finally:
        gate.set()
    assert await asked == []


async def test_a_request_has_a_user_agent_and_accepts_no_compression() -> None:
    """[RDOC4] A compressed body would be small until it is unpacked."""
    async with serving(hello) as port:
        url = f"http://example.org:{port}/0"
        found = await fetcher(port).get(url)
    assert found.url == url
    assert f"'User-Agent': 'Latchkey/{VERSION}'".encode() in found.body
    assert b"'Accept-Encoding': 'identity'" in found.body


async def test_a_redirect_has_a_place_and_its_status() -> None:
    """[RDOC2] It takes both the header and the status."""

    async def nowhere(request: web.Request) -> web.Response:
        return web.Response(status=302)

    async def here(request: web.Request) -> web.Response:
        return web.Response(text="here", headers={"Location": "http://10.0.0.1/"})

    async with serving(nowhere, here) as port:
        with pytest.raises(FetchError, match="the server answered 302"):
            await fetcher(port).get(f"http://example.org:{port}/0")
        assert (await fetcher(port).get(f"http://example.org:{port}/1")).body == b"here"


@pytest.mark.parametrize(
    ("status", "follows"),
    [(status, status in {301, 302, 303, 307, 308}) for status in range(300, 310)],
)
async def test_each_status_of_a_redirect_is_followed_and_no_other(
    status: int, *, follows: bool
) -> None:
    """[RDOC2] RFC 9110; 304 to 306 and 309 are none."""

    async def away(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": "/1"})

    async with serving(away, hello) as port:
        getting = fetcher(port).get(f"http://example.org:{port}/0")
        if follows:
            assert (await getting).body.startswith(b"hello")
        else:
            with pytest.raises(FetchError, match=f"the server answered {status}"):
                await getting


async def test_where_only_https_is_allowed_nothing_else_is_looked_up() -> None:
    """[RDOC1] Secrets go over such connections."""
    names = Names("10.0.0.1")
    with pytest.raises(FetchError, match="address not allowed"):
        await Fetcher(resolve=names, https_only=True).get("http://example.org/")
    assert names.asked == []
    with pytest.raises(FetchError, match="address not allowed"):
        await Fetcher(resolve=names, https_only=True).get("https://example.org/")
    assert names.asked == [("example.org", 443)]


async def test_certificates_are_checked_by_those_that_a_fetcher_trusts(tmp_path: Path) -> None:
    """[RDOC1] The system's by default."""
    shown, kept = certified(tmp_path)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(shown, kept)
    async with serving(hello, tls=served) as port:
        url = f"https://127.0.0.1:{port}/0"
        trusted = ssl.create_default_context(cafile=str(shown))
        assert (await fetcher(port, tls=trusted).get(url)).body.startswith(b"hello")
        with pytest.raises(FetchError, match="could not be fetched"):
            await fetcher(port).get(url)


@pytest.mark.parametrize(("size", "fits"), [(9, True), (10, True), (11, False)])
@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_may_have_as_many_bytes_as_is_said(
    size: int, fits: bool, announced: bool
) -> None:
    """[RDOC4] To the byte, whether its length is declared or not."""
    length = f"Content-Length: {size}\r\n".encode() if announced else b""
    async with raw(length + b"\r\n" + b"x" * size) as port:
        getting = fetcher(port, max_bytes=10).get(f"http://example.org:{port}/")
        if fits:
            assert len((await getting).body) == size
        else:
            with pytest.raises(FetchError, match="it is too large"):
                await getting


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        (b"Content-Type: Text/HTML ; charset=utf-8; a=b\r\n", "text/html"),
        (b"Content-Type: text/plain\r\n", "text/plain"),
        (b"", ""),
    ],
)
async def test_the_kind_of_a_body_is_without_parameters(header: bytes, kind: str) -> None:
    """In lower case; empty when the server sent none."""
    async with raw(header + b"Content-Length: 2\r\n\r\nhi") as port:
        assert (await fetcher(port).get(f"http://example.org:{port}/")).content_type == kind


async def test_an_answer_to_a_post_is_never_unpacked() -> None:
    """[RDOC4] A compressed answer is not decompressed."""
    async with raw(b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi") as port:
        url = f"http://example.org:{port}/"
        assert (await fetcher(port).post(url, body=b"", headers={})).body == b"hi"


@asynccontextmanager
async def raw(rest: bytes) -> AsyncIterator[int]:
    """Start a server that answers 200 and ``rest`` to every request; yield its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + rest)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]

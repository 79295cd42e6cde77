"""The guarded fetcher (RDOC1 to RDOC4): public addresses only, checked at each hop, with limits."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from core.lib.safe_fetch import FETCHER, Address, Fetcher, FetchError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(
    *handlers: Handler, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Start a web server whose path ``/<n>`` is answered by the handler n; yield its port."""
    app = web.Application()
    for number, handler in enumerate(handlers):
        app.router.add_get(f"/{number}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, host, 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def is_test_server(address: Address) -> bool:
    """Return whether an address is the test server's, in place of "public"."""
    return str(address) == "127.0.0.1"


async def to_test_server(host: str, port: int) -> list[str]:
    """Resolve every name to the test server; addresses stay themselves."""
    del port
    return ["169.254.169.254" if host == "169.254.169.254" else "127.0.0.1"]


def fetcher(port: int, **changes: object) -> Fetcher:
    """Return a fetcher that takes the test server for a public one."""
    given: dict[str, object] = {
        "resolve": to_test_server,
        "allowed": is_test_server,
        "ports": frozenset({port, 80}),
        **changes,
    }
    return Fetcher(**given)  # type: ignore[arg-type]  # a test's shorthand


async def hello(request: web.Request) -> web.Response:
    """Answer with a small body; record the request."""
    return web.Response(text=f"hello {dict(request.headers)}", content_type="text/plain")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[::1]/",
        "http://[::127.0.0.1]/",
        "http://[fec0::1]/",
        "http://0.0.0.0/",
        "http://localhost./",
        "http://localhost/",
        "http://10.0.0.1/",
        "http://192.168.1.1/",
        "http://100.64.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://169.254.169.254/latest/meta-data/",
        "http://good@127.0.0.1/",
        "http://good:word@8.8.8.8/",
        "http://8.8.8.8:22/",
        "http://8.8.8.8:6379/",
        "gopher://8.8.8.8/",
        "file:///etc/passwd",
        "ftp://8.8.8.8/",
        "//8.8.8.8/",
        "http:///nowhere",
    ],
)
async def test_an_address_that_is_not_public_is_refused(url: str) -> None:
    """[RDOC1] In every spelling, and before anything is connected."""
    with pytest.raises(FetchError, match="address not allowed"):
        await FETCHER.get(url)


async def test_a_name_with_one_private_address_among_public_ones_is_refused() -> None:
    """[RDOC1] Every address of a name must be public."""

    async def mixed(host: str, port: int) -> list[str]:
        del host, port
        return ["93.184.216.34", "10.0.0.1"]

    with pytest.raises(FetchError, match="address not allowed"):
        await Fetcher(resolve=mixed).get("http://example.org/")


async def test_public_addresses_are_fetched() -> None:
    """The body and its type are returned; no compressed answer is requested."""
    async with serving(hello) as port:
        found = await fetcher(port).get(f"http://example.org:{port}/0")
    assert found.content_type == "text/plain"
    assert found.body.startswith(b"hello")
    assert b"identity" in found.body


async def test_the_charset_is_that_of_the_server() -> None:
    async def named(request: web.Request) -> web.Response:
        kind = "Text/HTML; charset=Shift_JIS" if request.query else "text/html"
        return web.Response(body=b"x", headers={"Content-Type": kind})

    async with serving(named) as port:
        given = await fetcher(port).get(f"http://example.org:{port}/0?named")
        none = await fetcher(port).get(f"http://example.org:{port}/0")
    assert (given.content_type, given.charset) == ("text/html", "Shift_JIS")
    assert (none.content_type, none.charset) == ("text/html", "")


async def test_a_redirect_to_a_private_address_is_refused() -> None:
    """[RDOC2] The second hop is checked like the first."""

    async def away(request: web.Request) -> web.Response:
        del request
        raise web.HTTPFound("http://169.254.169.254/latest/meta-data/")

    async with serving(away) as port:
        with pytest.raises(FetchError, match="address not allowed"):
            await fetcher(port).get(f"http://example.org:{port}/0")


async def test_a_redirect_is_followed_without_the_cookies_of_the_first_hop() -> None:
    """[RDOC2] No cookie of a hop is sent to the next."""

    async def away(request: web.Request) -> web.Response:
        del request
        answer = web.Response(status=302, headers={"Location": "/1"})
        answer.set_cookie("secret", "1")
        return answer

    async with serving(away, hello) as port:
        found = await fetcher(port).get(f"http://example.org:{port}/0")
    assert b"secret" not in found.body


async def test_at_most_three_redirects_are_followed() -> None:
    """[RDOC2] A loop ends."""
    hops = 0

    async def again(request: web.Request) -> web.Response:
        nonlocal hops
        del request
        hops += 1
        raise web.HTTPFound("/0")

    async with serving(again) as port:
        with pytest.raises(FetchError, match="too many redirects"):
            await fetcher(port).get(f"http://example.org:{port}/0")
    assert hops == 4


async def test_the_connection_goes_to_the_address_that_was_checked() -> None:
    """[RDOC3] A name is resolved once per hop; a later resolution does not matter."""
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        del port
        asked.append(host)
        return ["127.0.0.1" if len(asked) == 1 else "127.0.0.2"]

    async with serving(hello) as port:
        found = await fetcher(port, resolve=rebinding).get(f"http://rebind.example:{port}/0")
    assert found.body.startswith(b"hello")
    assert asked == ["rebind.example"]


async def test_an_endless_body_is_cut() -> None:
    """[RDOC4] By bytes, whatever length the server declares."""
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x" * 65536)
                sent += 65536
        except ConnectionError:
            return answer

    async with serving(endless) as port:
        with pytest.raises(FetchError, match="too large"):
            await fetcher(port, max_bytes=1_000_000).get(f"http://example.org:{port}/0")
    assert sent < 20_000_000


async def test_a_declared_length_beyond_the_limit_is_not_read() -> None:
    """[RDOC4] 10 GB are refused before the first byte."""

    async def huge(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": str(10**10)})
        await answer.prepare(request)
        return answer

    async with serving(huge) as port:
        with pytest.raises(FetchError, match="too large"):
            await fetcher(port).get(f"http://example.org:{port}/0")


async def test_a_slow_body_is_cut() -> None:
    """[RDOC4] By seconds, all hops in total."""

    async def slow(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"x")
        await asyncio.Event().wait()
        return answer

    async with serving(slow) as port:
        with pytest.raises(FetchError, match="too long"):
            await fetcher(port, max_seconds=0.3).get(f"http://example.org:{port}/0")


async def test_a_compressed_answer_is_refused() -> None:
    """[RDOC4] A bomb is not unpacked at all."""

    async def packed(request: web.Request) -> web.Response:
        del request
        return web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    async with serving(packed) as port:
        with pytest.raises(FetchError, match="compressed"):
            await fetcher(port).get(f"http://example.org:{port}/0")


@pytest.mark.parametrize("status", [404, 500, 304])
async def test_any_other_status_is_an_error(status: int) -> None:
    """Only 200 counts."""

    async def refusing(request: web.Request) -> web.Response:
        del request
        return web.Response(status=status)

    async with serving(refusing) as port:
        with pytest.raises(FetchError, match=str(status)):
            await fetcher(port).get(f"http://example.org:{port}/0")


async def test_a_server_that_is_away_is_an_error() -> None:
    """The text names no address."""
    async with serving(hello) as port:
        pass
    with pytest.raises(FetchError, match="could not be fetched") as caught:
        await fetcher(port).get(f"http://example.org:{port}/0")
    assert "127" not in str(caught.value)


async def test_a_url_that_is_none_is_an_error() -> None:
    """An address that cannot be parsed is refused in words."""
    with pytest.raises(FetchError):
        await FETCHER.get("http://[::1")
    with pytest.raises(FetchError):
        await FETCHER.get("http://example.org:99999/")

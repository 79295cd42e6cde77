"""Rate limits before and after authentication, at ``/api`` and at the ASGI endpoints."""

import asyncio
from typing import Any

import pytest

from channels_app.asgi import throttling
from channels_app.webchat import files
from tests.redteam import gateway_data

pytestmark = pytest.mark.usefixtures("fresh_counters")


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_ri17_an_ipv6_customer_is_one_asker(address: str, counted: str) -> None:
    """[RI17]"""
    assert throttling.network_of(address) == counted


@pytest.mark.parametrize("path", ["/api/sessions", "/v1/models"])
def test_ri17_too_many_requests_are_a_429_that_says_when(
    path: str, settings: Any, transactional_db: None
) -> None:
    """[RI17] Of a person; another one is not held up."""
    settings.RATE_PER_MINUTE_USER = 2
    gateway = gateway_data.build()
    statuses = [gateway.ask("own", "GET", path).status for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert int(gateway.ask("own", "GET", path).headers["retry-after"]) in range(1, 61)
    assert gateway.ask("other", "GET", path).status == 200


@pytest.mark.parametrize("path", ["/api/sessions", "/v1/models"])
def test_ro8_guessing_keys_is_stopped_for_the_address(path: str, transactional_db: None) -> None:
    """[RO8] Twenty wrong ones in a minute, then no more answers to guesses."""
    gateway = gateway_data.build()
    gateway.tokens["guess"] = "lk_000000000000_" + "x" * 43
    statuses = [gateway.ask("guess", "GET", path).status for _ in range(21)]
    assert statuses == [401] * 20 + [429]


@pytest.mark.parametrize("path", ["/api/sessions", "/v1/models"])
def test_ri17_an_address_is_counted_before_authentication(
    path: str, settings: Any, transactional_db: None
) -> None:
    """[RI17]"""
    settings.RATE_PER_MINUTE_ADDRESS = 3
    gateway = gateway_data.build()
    statuses = [gateway.ask("anonymous", "GET", path).status for _ in range(4)]
    assert statuses == [401, 401, 401, 429]


def test_ri17_opening_file_links_is_counted_by_address(
    settings: Any, transactional_db: None
) -> None:
    """[RI17] [RF1] A link is a bearer token: there is no user to count."""
    settings.RATE_PER_MINUTE_ADDRESS = 3
    gateway = gateway_data.build()
    asked = [gateway.ask("anonymous", "GET", "/files/out?token=x") for _ in range(4)]
    assert [each.status for each in asked] == [403, 403, 403, 429]
    assert "retry-after" in asked[-1].headers


def test_ri18_files_on_their_way_are_counted(settings: Any, transactional_db: None) -> None:
    """[RI18] Unfinished uploads count for no quota; a hundred endless ones would pass without
    this."""
    settings.MAX_STREAMS_PER_USER = 1
    gateway = gateway_data.build()
    headers = [(b"authorization", f"Bearer {gateway.tokens['own']}".encode())]
    statuses: list[int] = []

    async def send(event: Any) -> None:
        if event["type"] == "http.response.start":
            statuses.append(event["status"])

    async def upload(may_end: asyncio.Event, begun: asyncio.Event) -> None:
        async def receive() -> Any:
            begun.set()
            await may_end.wait()
            return {"type": "http.request", "body": b"x", "more_body": False}

        scope = {"type": "http", "method": "POST", "path": "/files", "headers": headers}
        more = {"query_string": b"name=a.txt", "client": ("192.0.2.7", 1)}
        await files.Upload.as_asgi()({**scope, **more}, receive, send)

    async def three() -> None:
        now, later, begun = asyncio.Event(), asyncio.Event(), asyncio.Event()
        now.set()
        slow = asyncio.create_task(upload(later, begun))
        await asyncio.wait_for(begun.wait(), 20)
        await upload(now, asyncio.Event())
        later.set()
        await slow
        await upload(now, asyncio.Event())

    asyncio.run(three())
    assert statuses == [429, 201, 201]


def test_ri17_files_that_a_page_sends_are_counted_with_the_persons_messages(
    settings: Any, transactional_db: None
) -> None:
    """[RI17] A cookie is no way around the limit of a key's uploads."""
    settings.RATE_PER_MINUTE_USER = 2
    gateway = gateway_data.build()
    cookie = gateway.browser("own").cookies[settings.SESSION_COOKIE_NAME].value
    page = {"cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}", "origin": settings.GATEWAY_URL}
    asked = [gateway.ask("anonymous", "POST", "/files", b"words", **page) for _ in range(3)]
    assert [each.status for each in asked] == [201, 201, 429]
    assert int(asked[-1].headers["retry-after"]) in range(1, 61)
    assert gateway.ask("own", "POST", "/files", b"words").status == 429

"""Rates before and after identity, at ``/api`` as at the endpoints."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from channels_app.asgi import throttling
from channels_app.webchat import files
from core.database import transactions
from tests.redteam import house as houses


@pytest.fixture(autouse=True)
def nobody_has_asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No limit is near."""
    for name in ("addresses", "people", "failures"):
        monkeypatch.setattr(throttling, name, throttling.Rate())
    yield
    transactions.close_pool()


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
def test_i17_an_ipv6_customer_is_one_asker(address: str, counted: str) -> None:
    """[I17]"""
    assert throttling.network_of(address) == counted


@pytest.mark.parametrize("path", ["/api/sessions", "/v1/models"])
def test_i17_too_many_requests_are_a_429_that_says_when(
    path: str, settings: Any, transactional_db: None
) -> None:
    """[I17] Of a person; another one is not held up."""
    settings.RATE_PER_MINUTE_USER = 2
    house = houses.build()
    statuses = [house.ask("own", "GET", path).status for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert int(house.ask("own", "GET", path).headers["retry-after"]) in range(1, 61)
    assert house.ask("other", "GET", path).status == 200


@pytest.mark.parametrize("path", ["/api/sessions", "/v1/models"])
def test_o8_guessing_keys_is_stopped_for_the_address(path: str, transactional_db: None) -> None:
    """[O8] Twenty wrong ones in a minute, then no more answers to guesses."""
    house = houses.build()
    house.tokens["guess"] = "lk_000000000000_" + "x" * 43
    statuses = [house.ask("guess", "GET", path).status for _ in range(21)]
    assert statuses == [401] * 20 + [429]


@pytest.mark.parametrize("path", ["/api/sessions", "/v1/models"])
def test_i17_an_address_is_counted_before_anybody_is_known(
    path: str, settings: Any, transactional_db: None
) -> None:
    """[I17]"""
    settings.RATE_PER_MINUTE_ADDRESS = 3
    house = houses.build()
    statuses = [house.ask("anonymous", "GET", path).status for _ in range(4)]
    assert statuses == [401, 401, 401, 429]


def test_i17_who_opens_links_to_files_is_counted_by_address(
    settings: Any, transactional_db: None
) -> None:
    """[I17] [F1] A link is a bearer: nobody is known who could be counted."""
    settings.RATE_PER_MINUTE_ADDRESS = 3
    house = houses.build()
    asked = [house.ask("anonymous", "GET", "/files/out?token=x") for _ in range(4)]
    assert [each.status for each in asked] == [403, 403, 403, 429]
    assert "retry-after" in asked[-1].headers


def test_i18_files_on_their_way_are_counted(settings: Any, transactional_db: None) -> None:
    """[I18] What was not stored yet counts for no quota: a hundred uploads that never end would."""
    settings.MAX_STREAMS_PER_USER = 1
    house = houses.build()
    headers = [(b"authorization", f"Bearer {house.tokens['own']}".encode())]
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


def test_i17_files_that_a_page_sends_are_counted_with_the_persons_messages(
    settings: Any, transactional_db: None
) -> None:
    """[I17] A cookie is no way around the limit of a key's uploads."""
    settings.RATE_PER_MINUTE_USER = 2
    house = houses.build()
    cookie = house.browser("own").cookies[settings.SESSION_COOKIE_NAME].value
    page = {"cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}", "origin": settings.GATEWAY_URL}
    asked = [house.ask("anonymous", "POST", "/files", b"words", **page) for _ in range(3)]
    assert [each.status for each in asked] == [201, 201, 429]
    assert int(asked[-1].headers["retry-after"]) in range(1, 61)
    assert house.ask("own", "POST", "/files", b"words").status == 429

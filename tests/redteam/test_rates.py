"""Rates before and after identity, at ``/api`` as at the lean doors."""

from collections.abc import Iterator
from typing import Any

import pytest

from channels_app import limits
from core import db
from tests.redteam import house as houses


@pytest.fixture(autouse=True)
def nobody_has_asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No limit is near."""
    for name in ("addresses", "people", "failures"):
        monkeypatch.setattr(limits, name, limits.Rate())
    yield
    db.close_pool()


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
    assert limits.network_of(address) == counted


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

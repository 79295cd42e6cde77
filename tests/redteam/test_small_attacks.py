"""Attacks that fit nowhere else."""

from collections.abc import Iterator

import pytest

from allowlist.models import UnknownRequest
from channels_app.asgi import throttling
from core.database import transactions
from core.models import Delivery
from tests.redteam import gateway_data
from tests.redteam.matrix import API, ENDPOINTS, PAGES

ORIGIN = "https://evil.example"


@pytest.fixture(autouse=True)
def fresh_counters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start every rate limit from zero."""
    for name in ("addresses", "people", "failures"):
        monkeypatch.setattr(throttling, name, throttling.Rate())
    yield
    transactions.close_pool()


def test_ri19_no_route_lets_a_foreign_page_read_it(transactional_db: None) -> None:
    """[RI19] Neither the preflight nor the request itself names an allowed origin."""
    gateway = gateway_data.build()
    asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    for rows in {**PAGES, **API, **ENDPOINTS}.values():
        for row in rows:
            where = gateway.fill(row.path)
            for method in ("OPTIONS", row.method):
                answer = gateway.ask("own", method, where, row.body, **asked)
                assert not any(name.startswith("access-control") for name in answer.headers), where


def test_rq14_an_owner_without_a_channel_finds_the_request_in_the_admin(
    transactional_db: None,
) -> None:
    """[RQ14] Nothing is sent anywhere, and nothing tries."""
    gateway = gateway_data.build()
    assert gateway.people["owner"].last_account is None
    assert UnknownRequest.objects.filter(state="pending").count() == 1
    assert Delivery.objects.count() == 0
    assert "stranger" in gateway.ask("owner", "GET", "/admin/").body.decode()

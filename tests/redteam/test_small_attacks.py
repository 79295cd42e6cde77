"""Attacks that fit nowhere else."""

import pytest

from allowlist.models import UnknownRequest
from core.models import Delivery
from tests.redteam import gateway_data
from tests.redteam.matrix import API, ENDPOINTS, PAGES

pytestmark = pytest.mark.usefixtures("fresh_counters")

ORIGIN = "https://evil.example"


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

"""GET and HEAD change nothing: link previews, crawlers and foreign pages send them, with any
cookies and at any rate (RQ17).

Every URL of Django, of the endpoints and of the admin, for each of the people of the matrix.
"""

import logging
import re
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from allowlist import decision_links, link_codes, sign_in
from allowlist.models import ApiKey, LinkCode, SignInLink, UnknownRequest
from core.models import ChannelIdentity, User
from tests.redteam import gateway_data
from tests.redteam.gateway_data import WHO, GatewayData
from tests.redteam.matrix import API, ENDPOINTS, PAGES
from tests.redteam.test_matrix import django_routes
from tests.run import of_this_turn

# A key notes when it was used: that is no power, and it is how an owner finds unused ones.
NOTED = {ApiKey: ("last_used_at",), Session: ("expire_date",)}
KEPT = (User, Session, SignInLink, ApiKey, LinkCode, ChannelIdentity)


def powers() -> dict[str, Any]:
    """Return users, sessions, credentials and pending requests."""
    found: dict[str, Any] = {}
    for model in (*KEPT, UnknownRequest):
        rows = model._default_manager.order_by("pk").values()
        left_out = NOTED.get(model, ())
        found[model.__name__] = [
            {key: value for key, value in row.items() if key not in left_out} for row in rows
        ]
    return found


def read_pages() -> list[str]:
    """Return the path of each GET row of the matrix, with further working links."""
    tables = {**PAGES, **API, **ENDPOINTS}
    paths = [row.path for rows in tables.values() for row in rows if row.method == "GET"]
    return [*paths, "/sign-in/{link}", "/sign-in/{link}?next=/admin/", "/decide/{decision}"]


def admin_pages() -> list[str]:
    """Return every address of the admin, with the first row's key for what it takes."""
    found = []
    for route, _ in django_routes():
        if route.startswith("admin/") and "logout" not in route:
            found.append("/" + re.sub(r"<[^>]*>", "{pk}", route.split("^(?P")[0].split("(?P")[0]))
    return found


def look(gateway: GatewayData, browser: Client, who: str, method: str, path: str) -> int:
    """Send one request: by the key at the endpoints and the REST interface, by the cookie at
    pages. Return the status."""
    is_page = not path.startswith("/api") and not gateway_data.is_endpoint(path)
    if is_page:
        return int(browser.generic(method, path, SERVER_NAME=gateway_data.HOST).status_code)
    return gateway.ask(who, method, path).status


@pytest.fixture
def gateway(transactional_db: None) -> GatewayData:
    """Return the gateway of the matrix, with a sign-in link, a code and a notice's link that
    work."""
    made = gateway_data.build()
    now = timezone.now()
    made.names["link"] = sign_in.create(user=made.people["other"], now=now)
    link_codes.make(user=made.people["own"], via="test", now=now)
    row = UnknownRequest.objects.get()
    made.names["decision"] = decision_links.token(
        request=row.public_id, owner=made.people["owner"].pk
    )
    for who in WHO:
        made.browser(who)
    return made


def test_rq17_no_get_and_no_head_signs_in_lets_in_or_uses_anything_up(
    gateway: GatewayData, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """[A6] GET and HEAD, and where the first one succeeded GET again; pages that are asked for by
    the wrong people too."""
    caplog.set_level(logging.ERROR, "django.request")  # no traceback of a thousand refusals
    for rate in ("ADDRESS", "KEY", "USER"):
        setattr(settings, f"RATE_PER_MINUTE_{rate}", 100_000)
    settings.WRONG_KEYS_PER_MINUTE = 100_000
    browsers = {who: gateway.browser(who) for who in WHO}
    before = powers()
    asked = 0
    for path in of_this_turn(read_pages(), parts=3):
        for who in WHO:
            status = look(gateway, browsers[who], who, "GET", gateway.fill(path))
            again = ("HEAD", "GET") if status < 400 else ("HEAD",)
            for method in again:
                look(gateway, browsers[who], who, method, gateway.fill(path))
            asked += 1 + len(again)
        assert powers() == before, path
    browser = browsers["owner"]
    for path in of_this_turn(admin_pages(), parts=3):
        for pk in ("1", gateway.names["request"]):
            for method in ("GET", "HEAD"):
                browser.generic(method, path.replace("{pk}", pk), SERVER_NAME=gateway_data.HOST)
                asked += 1
        assert powers() == before, path
    print(f"{asked} requests")
    assert asked > 900 // 3


def test_rq17_the_links_that_were_looked_at_still_work(gateway: GatewayData) -> None:
    """The person presses the same links after the previews of a messenger."""
    for path in ("/sign-in/{link}", "/decide/{decision}"):
        for _ in range(3):
            preview = Client(headers={"User-Agent": "TelegramBot (like TwitterBot)"})
            answer = preview.get(gateway.fill(path), SERVER_NAME=gateway_data.HOST)
            assert answer.status_code == 200
    browser = Client(SERVER_NAME=gateway_data.HOST)
    assert browser.post(gateway.fill("/sign-in/{link}")).status_code == 302
    assert browser.session["_auth_user_id"] == str(gateway.people["other"].pk)
    assert browser.post(gateway.fill("/decide/{decision}"), {"verdict": "deny"}).status_code == 200
    assert UnknownRequest.objects.get().state == "denied"

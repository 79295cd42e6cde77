"""Headers on every route: pages, JSON, event streams, errors, 404; and what cookies may do."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import path

from gateway_project.home import BASE_DIR
from gateway_project.urls import urlpatterns as ours
from tests.redteam import gateway_data
from tests.redteam.gateway_data import Answer, GatewayData
from tests.redteam.matrix import API, ENDPOINTS, PAGES, Row
from tests.redteam.test_matrix import ADMIN, ask

pytestmark = pytest.mark.usefixtures("fresh_counters")

EXACT = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
# Forbidden in every policy. The admin's library needs them for its styles (decision 096).
LOOSE = ("'unsafe-inline'", "'unsafe-eval'", "http:", "https:", "*", "ws:", "wss:")


def directives(answer: Answer) -> dict[str, list[str]]:
    """Return the policy of an answer."""
    parts = answer.headers["content-security-policy"].split(";")
    return {part.split()[0]: part.split()[1:] for part in parts}


def guarded(answer: Answer, where: str, *, admin: bool = False) -> None:
    """Check that an answer has every header, and a policy without holes."""
    assert {name: answer.headers.get(name) for name in EXACT} == EXACT, where
    assert "server" not in answer.headers
    assert "x-powered-by" not in answer.headers
    assert "access-control-allow-origin" not in answer.headers, where
    policy = directives(answer)
    assert policy["default-src"] in (["'none'"], ["'self'"]), where
    assert policy["frame-ancestors"] == policy["base-uri"] == ["'none'"], where
    if admin:
        assert "'unsafe-inline'" not in policy["script-src"]
        return
    for name, values in policy.items():
        assert not set(LOOSE) & set(values), (where, name)
    if policy["default-src"] == ["'self'"]:
        assert policy["object-src"] == ["'none'"]
        assert policy["require-trusted-types-for"] == ["'script'"]


def asked(gateway: GatewayData, rows: dict[str, list[Row]]) -> Iterator[tuple[str, Answer]]:
    """Return every row's response without a credential, to its own user, and to a wrong method."""
    for each in rows.values():
        for row in each:
            for who in ("anonymous", "other", "own"):
                yield f"{who} {row.method} {row.path}", ask(gateway, who, row)
            wrong = gateway.ask("own", "TRACE", gateway.fill(row.path))
            yield f"TRACE {row.path}", wrong


def test_every_page_and_api_route_is_guarded(db: None) -> None:
    gateway = gateway_data.build()
    for where, answer in asked(gateway, {**PAGES, **API}):
        guarded(answer, where)


def test_every_endpoint_sends_the_security_headers(transactional_db: None) -> None:
    gateway = gateway_data.build()
    kinds = set()
    for where, answer in asked(gateway, ENDPOINTS):
        guarded(answer, where)
        kinds.add(answer.headers.get("content-type", "").split(";")[0])
        first = answer.headers["cache-control"].split(",")[0]
        assert first in {"no-store", "no-cache", "private"}, where
    assert {"application/json", "text/event-stream"} <= kinds


def test_every_admin_page_is_guarded_and_runs_no_inline_script(db: None) -> None:
    gateway = gateway_data.build()
    shown = 0
    for route in ADMIN:
        where = "/" + re.sub(r"<[^>]*>", "1", route.split("^(?P")[0].split("(?P")[0])
        answer = gateway.ask("owner", "GET", where)
        guarded(answer, route, admin=True)
        shown += answer.status == 200
    assert shown > 20


@pytest.mark.parametrize("address", ["/none", "/static/none.js", "/admin/none", "/api/none"])
def test_missing_pages_send_the_security_headers(address: str, db: None) -> None:
    answer = gateway_data.build().ask("own", "GET", address)
    assert answer.status == 404
    guarded(answer, address, admin=address.startswith("/admin"))


def broken(request: HttpRequest) -> HttpResponse:
    """Fail, as a view with a bug does."""
    raise RuntimeError("canary-of-the-error")


class Failing:
    """A URL configuration with a view that fails."""

    urlpatterns = [path("broken", broken), *ours]


def test_rlog3_an_error_page_is_guarded_and_tells_nothing(settings: Any, db: None) -> None:
    """[RLOG3]"""
    settings.ROOT_URLCONF = Failing
    answer = gateway_data.build().ask("own", "GET", "/broken")
    assert answer.status == 500
    guarded(answer, "500")
    for secret in (b"canary", b"Traceback", b"broken", settings.SECRET_KEY.encode()):
        assert secret not in answer.body


def test_rlog3_a_host_that_is_not_ours_gets_a_400_without_settings(settings: Any, db: None) -> None:
    """[RLOG3]"""
    found = Client().get("/", SERVER_NAME="evil.example")
    assert found.status_code == 400
    assert b"ALLOWED_HOSTS" not in found.content
    guarded(Answer(400, {n.lower(): v for n, v in found.headers.items()}, b""), "400")


@pytest.mark.parametrize(
    ("subdomains", "preload", "more"),
    [
        (False, False, ""),
        (True, False, "; includeSubDomains"),
        (False, True, "; preload"),
        (True, True, "; includeSubDomains; preload"),
    ],
)
def test_behind_tls_every_endpoint_and_page_sends_hsts(
    subdomains: bool, preload: bool, more: str, settings: Any, transactional_db: None
) -> None:
    settings.SECURE_HSTS_SECONDS = 31536000
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = subdomains
    settings.SECURE_HSTS_PRELOAD = preload
    gateway = gateway_data.build()
    expected = f"max-age=31536000{more}"
    page = Client().get("/sign-in", secure=True, SERVER_NAME=gateway_data.HOST)
    assert page.headers["Strict-Transport-Security"] == expected
    for where, answer in asked(gateway, ENDPOINTS):
        assert answer.headers["strict-transport-security"] == expected, where


def test_without_tls_nothing_says_hsts(transactional_db: None) -> None:
    for where, answer in asked(gateway_data.build(), {"x": ENDPOINTS["healthz"]}):
        assert "strict-transport-security" not in answer.headers, where


def test_cookies_are_secure_behind_tls_and_no_script_reads_them(settings: Any, db: None) -> None:
    """No script reads either: ours takes the token from the page."""
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    gateway = gateway_data.build()
    own = gateway.people["own"]
    own.set_password("correct horse")
    own.save()
    browser = Client()
    found = browser.post(
        "/sign-in", {"username": "own", "password": "correct horse"}, SERVER_NAME=gateway_data.HOST
    )
    session = found.cookies[settings.SESSION_COOKIE_NAME]
    assert session["secure"]
    assert session["httponly"]
    assert session["samesite"] == "Lax"
    token = browser.get("/", SERVER_NAME=gateway_data.HOST).cookies["csrftoken"]
    assert token["secure"]
    assert token["httponly"]
    assert token["samesite"] == "Lax"


CODE = """
import json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "gateway_project.settings"
from django.conf import settings as s
names = ["SECURE_HSTS_INCLUDE_SUBDOMAINS", "SECURE_HSTS_PRELOAD",
         "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_HTTPONLY",
         "SECURE_HSTS_SECONDS", "SECURE_SSL_REDIRECT", "SECURE_PROXY_SSL_HEADER", "DEBUG"]
print(json.dumps({name: getattr(s, name) for name in names}))
"""


def settings_of(folder: Path, **env: str) -> dict[str, Any]:
    """Return the product's settings in an environment."""
    every = {"PATH": os.environ["PATH"], "GATEWAY_HOME": str(folder), "SECRET_KEY": "k" * 50, **env}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, cwd=BASE_DIR, env=every, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "address",
    [
        "https://home.example/latchkey",
        "https://home.example/?x",
        "https://home.example/#x",
        "https://ada@home.example",
        "home.example",
        "ftp://home.example",
        "https://home:port",
    ],
)
def test_an_address_that_would_make_every_link_wrong_stops_the_start(
    address: str, tmp_path: Path
) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        settings_of(tmp_path, GATEWAY_URL=address)
    assert b"GATEWAY_URL must be" in caught.value.stderr


@pytest.mark.parametrize("address", ["https://home.example/", "http://[::1]:8000", "http://h:1"])
def test_an_address_without_a_path_is_taken(address: str, tmp_path: Path) -> None:
    assert settings_of(tmp_path, GATEWAY_URL=address)["DEBUG"] is False


def test_an_https_address_turns_all_of_it_on(tmp_path: Path) -> None:
    url, proxies = "https://chat.example.org", "127.0.0.1"
    found = settings_of(tmp_path, GATEWAY_URL=url, GATEWAY_TRUSTED_PROXIES=proxies)
    assert found == {
        # They bind the other hosts of the owner's domain.
        "SECURE_HSTS_INCLUDE_SUBDOMAINS": False,
        "SECURE_HSTS_PRELOAD": False,
        "SESSION_COOKIE_SECURE": True,
        "CSRF_COOKIE_SECURE": True,
        "SESSION_COOKIE_HTTPONLY": True,
        "SECURE_HSTS_SECONDS": 31536000,
        "SECURE_SSL_REDIRECT": True,
        "SECURE_PROXY_SSL_HEADER": ["HTTP_X_FORWARDED_PROTO", "https"],
        "DEBUG": False,
    }
    wide = settings_of(tmp_path, GATEWAY_URL=url, HSTS_INCLUDE_SUBDOMAINS="on", HSTS_PRELOAD="on")
    assert wide["SECURE_HSTS_INCLUDE_SUBDOMAINS"]
    assert wide["SECURE_HSTS_PRELOAD"]
    alone = settings_of(tmp_path)
    assert not alone["SESSION_COOKIE_SECURE"]
    assert alone["SECURE_PROXY_SSL_HEADER"] is None

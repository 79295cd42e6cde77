"""Rates that hold across processes, and while the broker is unavailable ([RI17] [RO8])."""

import subprocess
import sys
import time
from collections.abc import Iterable
from secrets import token_hex

import pytest
from pytest_django import Settings

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi import http, throttling
from channels_app.asgi.authentication import caller_of
from channels_app.asgi.http import RefusedError
from core.models import User
from gateway_project.home import BASE_DIR
from tests.servers import Valkey

ASK = """
import os, django
django.setup()
from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError
throttling.BROKER_SECONDS = 30.0
rate, passed = throttling.Rate("test"), 0
for _ in range(30):
    try:
        rate.check(subject=os.environ["SUBJECT"], limit=20)
        passed += 1
    except RefusedError:
        pass
print(passed)
"""


@pytest.fixture
def subject() -> str:
    """Return a subject that no other test has counted."""
    return token_hex(8)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow a loaded machine more time: it must not look like an unavailable broker."""
    monkeypatch.setattr(throttling, "BROKER_SECONDS", 30.0)


def passes(rate: throttling.Rate, subject: str, limit: int) -> bool:
    """Return whether one request passes; a refusal is a 429 with the time to wait."""
    try:
        rate.check(subject=subject, limit=limit)
    except RefusedError as error:
        return not (error.status == 429 and 1 <= int(error.headers["Retry-After"]) <= 60)
    return True


def allowed(rate: throttling.Rate, subject: str, *, limit: int, times: int) -> int:
    """Return how many of ``times`` requests pass."""
    return sum(passes(rate, subject, limit) for _ in range(times))


@pytest.mark.slow
@pytest.mark.on("sqlite")
def test_ri17_two_processes_share_one_limit(subject: str) -> None:
    """Each sends 30 requests under a limit of 20: 20 pass in all."""
    import os

    from tests import settings

    env = {
        **os.environ,
        "SUBJECT": subject,
        "DJANGO_SETTINGS_MODULE": "gateway_project.settings",
        "REDIS_URL": settings.REDIS_URL,
        "SECRET_KEY": "x" * 40,
    }
    both = [
        subprocess.Popen(
            [sys.executable, "-c", ASK], env=env, cwd=BASE_DIR, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    passed = [int(process.communicate(timeout=120)[0]) for process in both]
    assert sum(passed) == 20


def test_ri17_two_counters_of_one_name_share_and_others_do_not(subject: str) -> None:
    """As two processes do; another name, another subject, and no limit are apart."""
    first, second = throttling.Rate("test"), throttling.Rate("test")
    assert allowed(first, subject, limit=10, times=6) == 6
    assert allowed(second, subject, limit=10, times=6) == 4
    assert allowed(throttling.Rate("other"), subject, limit=10, times=6) == 6
    assert allowed(second, f"{subject}-2", limit=10, times=6) == 6
    assert allowed(second, subject, limit=0, times=6) == 6


def test_ri17_without_the_broker_each_process_counts_and_clients_are_served(
    settings: Settings, subject: str
) -> None:
    """The fallback is the process's own count; the broker is not called again immediately."""
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    rate = throttling.Rate("test")
    assert allowed(rate, subject, limit=10, times=30) == 10
    assert allowed(throttling.Rate("test"), subject, limit=10, times=30) == 10


def test_ri17_the_count_comes_back_with_the_broker(
    settings: Settings, subject: str, valkey: Valkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the pause the broker is called again."""
    monkeypatch.setattr(throttling, "RETRY_SECONDS", 0.0)
    known = settings.REDIS_URL
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    rate = throttling.Rate("test")
    assert allowed(rate, subject, limit=100, times=3) == 3
    rate._broker = None
    settings.REDIS_URL = known
    assert allowed(rate, subject, limit=100, times=3) == 3
    assert allowed(throttling.Rate("test"), subject, limit=3, times=1) == 0


def test_an_ipv4_mapped_address_counts_as_the_ipv4_one() -> None:
    """One machine does not double its limit by speaking IPv6."""
    assert http.plain_address("::ffff:203.0.113.9") == http.plain_address("203.0.113.9")


@pytest.mark.django_db
def test_ro8_the_address_is_counted_before_the_key_is_looked_at(
    settings: Settings, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood costs no key look-up beyond its limit; the right key is refused as well."""
    asked: list[str] = []

    def named(tokens: Iterable[str]) -> dict[str, ApiKey]:
        asked.extend(tokens)
        return {}

    monkeypatch.setattr(throttling, "addresses", throttling.Rate("address"))
    monkeypatch.setattr(keys, "named", named)
    settings.RATE_PER_MINUTE_ADDRESS = 5
    statuses = []
    for number in range(9):
        with pytest.raises(RefusedError) as error:
            caller_of(token=f"lk_{number}", scope="chat", address=subject)
        statuses.append(error.value.status)
    assert statuses == [401] * 5 + [429] * 4
    assert len(asked) == 5


@pytest.mark.django_db
def test_ri17_a_person_and_each_key_have_limits_of_their_own(settings: Settings) -> None:
    """Two keys of one person share the person's; one key may have less."""
    user = User.objects.create(username=f"ann-{time.monotonic_ns()}")
    tokens = [keys.create(name=name, user=user, scopes=["chat"])[1] for name in ("a", "b")]
    settings.RATE_PER_MINUTE_USER, settings.RATE_PER_MINUTE_KEY = 7, 4
    passed = [sum(enters(token) for _ in range(6)) for token in tokens]
    assert passed == [4, 3]


def enters(token: str) -> bool:
    """Return whether the key is accepted once more."""
    try:
        caller_of(token=token, scope="chat", address="203.0.113.9")
    except RefusedError as error:
        return not (error.status == 429 and "Retry-After" in error.headers)
    return True

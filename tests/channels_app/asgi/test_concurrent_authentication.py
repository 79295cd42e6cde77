"""Keys that are shown at the same time: each request gets the caller of its own key ([A10])."""

import asyncio
from datetime import timedelta
from secrets import token_hex
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from allowlist import keys
from channels_app.asgi import authentication, throttling
from channels_app.asgi.authentication import caller_of
from channels_app.asgi.http import RefusedError, Request
from channels_app.asgi.principal import Principal
from core.database import transactions
from core.models import ChannelAccount, User

ADDRESS = "203.0.113.7"


def key_of(name: str, **more: Any) -> str:
    """Return the token of a new person's key."""
    user = User.objects.create(username=name)
    return keys.create(name=name, user=user, scopes=["chat"], **more)[1]


def described(outcome: Principal | BaseException) -> str | int:
    """Return the name of a caller, or the status of a refusal."""
    if isinstance(outcome, RefusedError):
        return outcome.status
    assert isinstance(outcome, Principal)
    if outcome.user is not None:
        return outcome.user.username
    assert outcome.account is not None
    return outcome.account.name


async def authenticated(*shown: tuple[str, str]) -> list[str | int]:
    """Authenticate requests with these tokens and addresses at the same time."""
    try:
        outcomes = await asyncio.gather(
            *(
                authentication.authenticate(request(token, address), scope="chat")
                for token, address in shown
            ),
            return_exceptions=True,
        )
    finally:
        await asyncio.to_thread(transactions.close_pool)
    return [described(outcome) for outcome in outcomes]


@pytest.fixture
def tokens(transactional_db: None) -> dict[str, str]:
    """Tokens of valid and of invalid keys, by name."""
    bridge = ChannelAccount.objects.create(channel="bridge", name="irc")
    found = {name: key_of(name) for name in ("ann", "bea", "carl")}
    found["late"] = key_of("late", expires_at=timezone.now() - timedelta(hours=1))
    found["over"] = keys.create(name="over", account=bridge, scopes=["chat"])[1]
    found["scope"] = keys.create(name="scope", account=bridge, scopes=["inbound"])[1]
    User.objects.filter(username="carl").update(is_active=False)
    return found


async def test_a10_each_of_several_concurrent_requests_is_its_own_callers(
    tokens: dict[str, str],
) -> None:
    ann, bea = tokens["ann"], tokens["bea"]
    names = [ann, "", bea, ann[:16] + bea[16:], tokens["carl"], tokens["late"], "lk_"]
    names += [tokens["over"], ann, "\x00", tokens["scope"]]
    found = await authenticated(*((token, ADDRESS) for token in names))
    assert found == ["ann", 401, "bea", 401, 401, 401, 401, "irc", "ann", 401, 403]


async def test_an_address_over_its_limit_is_refused_and_others_are_not(
    tokens: dict[str, str], settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "addresses", throttling.Rate("address"))
    settings.RATE_PER_MINUTE_ADDRESS = 2
    near, far = f"near-{token_hex(8)}", f"far-{token_hex(8)}"
    shown = [(tokens["ann"], near)] * 4 + [(tokens["ann"], far)]
    assert await authenticated(*shown) == ["ann", "ann", 429, 429, "ann"]


def test_a_key_is_looked_up_in_one_statement(tokens: dict[str, str]) -> None:
    caller_of(token=tokens["ann"], scope="chat", address=ADDRESS)  # notes that it was used
    with CaptureQueriesContext(connection) as asked:
        caller_of(token=tokens["ann"], scope="chat", address=ADDRESS)
    assert len(asked) == 1


def request(token: str, address: str) -> Request:
    """Make a request with a key from an address."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "client": (address, 1),
        "headers": [(b"authorization", f"Bearer {token}".encode("latin-1"))],
    }
    return Request(scope)

"""Keys that come at once are looked up at once; each request is still its own caller's ([A10])."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from secrets import token_hex
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi import authentication, throttling
from channels_app.asgi.acceptance import acceptance
from channels_app.asgi.authentication import Caller, Shown, callers_of
from channels_app.asgi.http import RefusedError, Request
from channels_app.openai_api import endpoints, fields
from core.database import batching, transactions
from core.database.transactions import in_thread
from core.models import ChannelAccount, Run, User

ADDRESS = "203.0.113.7"


def key_of(name: str, **more: Any) -> str:
    """The token of a new person's key."""
    user = User.objects.create(username=name)
    return keys.create(name=name, user=user, scopes=["chat"], **more)[1]


def told(outcome: Caller | Exception) -> str | int:
    """Whose key it is, or the status of the refusal."""
    if isinstance(outcome, RefusedError):
        return outcome.status
    assert isinstance(outcome, Caller)
    return outcome.user.username if outcome.user else outcome.key.name


@pytest.mark.django_db
def test_a10_keys_that_come_together_are_one_question_and_each_its_own_answer() -> None:
    bridge = ChannelAccount.objects.create(channel="bridge", name="irc")
    ann, bea, carl = key_of("ann"), key_of("bea"), key_of("carl")
    late = key_of("late", expires_at=timezone.now() - timedelta(hours=1))
    over = keys.create(name="over", account=bridge, scopes=["chat"])[1]
    User.objects.filter(username="carl").update(is_active=False)
    tokens = [ann, "", bea, ann[:16] + bea[16:], carl, late, "lk_", over, ann, "\x00"]
    shown = [Shown(token, "chat", ADDRESS) for token in tokens]
    shown.append(Shown(ann, "admin:requests", ADDRESS))
    callers_of(shown)  # notes that they were used
    with CaptureQueriesContext(connection) as asked:
        found = [told(each) for each in callers_of(shown)]
    assert found == ["ann", 401, "bea", 401, 401, 401, 401, "over", "ann", 401, 403]
    assert len(asked) == 1


@pytest.mark.django_db
def test_who_asks_too_often_is_refused_and_takes_nobody_along(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their keys are not looked up, those of others in the same visit are."""
    monkeypatch.setattr(throttling, "addresses", throttling.Rate("address"))
    settings.RATE_PER_MINUTE_ADDRESS = 2
    ann = key_of("ann")
    near, far = f"near-{token_hex(8)}", f"far-{token_hex(8)}"
    shown = [Shown(ann, "chat", near)] * 4 + [Shown(ann, "chat", far)]
    looked_up: list[str] = []
    original = keys.named

    def named(tokens: Iterable[str]) -> dict[str, ApiKey]:
        looked_up.extend(tokens)
        return original(looked_up)

    monkeypatch.setattr(keys, "named", named)
    assert [told(each) for each in callers_of(shown)] == ["ann", "ann", 429, 429, "ann"]
    assert len(looked_up) == 3


@pytest.fixture
def people(transactional_db: None) -> list[tuple[str, str]]:
    """Six names, each with the token of that person's key."""
    return [(name, key_of(name)) for name in ("ann", "bea", "carl", "dora", "emil", "fay")]


async def test_requests_that_wait_are_looked_up_together(
    people: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with its own person."""
    tokens = [key for _, key in people]
    visits: list[int] = []
    original = authentication.callers_of

    def counted(shown: list[Shown]) -> list[Caller | Exception]:
        visits.append(len(shown))
        return original(shown)

    monkeypatch.setattr(authentication, "callers_of", counted)
    try:
        found = await asyncio.gather(
            *(authentication.authenticate(request(token), scope="chat") for token in tokens)
        )
    finally:
        await asyncio.to_thread(transactions.close_pool)
    assert [each.user.username for each in found if each.user] == [name for name, _ in people]
    assert visits == [6]


async def test_requests_whose_keys_are_looked_up_are_waited_for_and_stored_together(
    people: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is known a moment before the others: one commit for all of them."""
    others_are_here = threading.Event()
    groups: list[tuple[str, int]] = []
    look_up, store = authentication.callers_of, batching.all_of

    def looked_up(shown: list[Shown]) -> list[Caller | Exception]:
        groups.append(("known", len(shown)))
        assert others_are_here.wait(60)
        return look_up(shown)

    def stored(works: Sequence[Callable[[], Any]]) -> list[Any]:
        groups.append(("stored", len(works)))
        return store(works)

    async def send(event: Any) -> None:
        assert event.get("status", 200) == 200

    monkeypatch.setattr(acceptance, "checked_at", time.monotonic())
    monkeypatch.setattr(authentication, "callers_of", looked_up)
    monkeypatch.setattr(batching, "all_of", stored)
    monkeypatch.setattr(batching, "WAIT_FOR_OTHERS_SECONDS", 60)  # a machine of tests may be slow
    body = {"model": next(iter(fields.models())), "messages": [{"role": "user", "content": "a"}]}
    asked, chat = [], endpoints.ChatCompletions.as_asgi()
    try:
        for _, token in people:
            scope, receive = scope_of(token), body_of({**body, "stream": True})
            asked.append(asyncio.create_task(chat(scope, receive, send)))
            await asyncio.sleep(0)
        others_are_here.set()
        async with asyncio.timeout(60):
            while await in_thread(Run.objects.count) < len(people):
                await asyncio.sleep(0.01)
    finally:
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await asyncio.to_thread(transactions.close_pool)
    assert groups == [("known", 1), ("known", 5), ("stored", 6)]


def body_of(body: dict[str, Any]) -> Callable[[], Awaitable[Any]]:
    """What gives a request's body, and then nothing more."""
    sent = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> Any:
        if not sent:
            await asyncio.Event().wait()
        return sent.pop()

    return receive


def request(token: str) -> Request:
    """A request with a key."""

    return Request(scope_of(token))


def scope_of(token: str) -> dict[str, Any]:
    """What the server says of a request with a key."""
    return {
        "type": "http",
        "method": "POST",
        "path": "/",
        "query_string": b"",
        "client": (ADDRESS, 1),
        "headers": [
            (b"authorization", f"Bearer {token}".encode()),
            (b"content-type", b"application/json"),
        ],
    }

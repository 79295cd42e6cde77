"""A ``runs`` worker inside the test process, which receives the test's wake-ups."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings as django_settings
from django.db.models import F
from django.db.models.functions import Now
from pytest_django import Settings

from channels_app.delivery import rate_limit
from channels_app.memory.channel import PLATFORM
from channels_app.telegram import receive, views
from channels_app.worker.runner import Runner
from core.conversations import events
from core.database import transactions
from core.lib.encryption import encrypt
from core.models import ChannelAccount, ChannelIdentity, Delivery, User
from core.signals import wakeups
from tests.servers import wait_until


def forget_wakeups() -> None:
    """Remove the wake-ups of earlier tests, which had no worker: their ids are used again."""
    with redis.Redis.from_url(django_settings.REDIS_URL) as client:
        client.delete(wakeups.RUN_LIST, wakeups.OTHER_LIST)


@pytest.fixture
def runner(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, settings: pytest.FixtureRequest
) -> Iterator[Runner]:
    """Start the worker, with the scripted model that repeats messages."""
    del transactional_db
    for name, value in (
        ("LLM_PROVIDER", "scripted"),
        ("LLM_SCRIPT", ""),
        ("SWEEP_SECONDS", 1),
        ("DELIVERY_LEASE_SECONDS", 5),
    ):
        setattr(settings, name, value)
    PLATFORM.clear()
    rate_limit.pacer.cache_clear()
    views.accounts.clear()
    receive.bots.clear()
    forget_wakeups()
    made = Runner()

    made.start()
    yield made
    made.stop()
    events.close_writer()
    transactions.close_pool()


@pytest.fixture
def owner(db: None) -> User:
    """Return the owner: 555 on Telegram and in memory."""
    del db
    return make_person("owner", "555", is_owner=True)


@pytest.fixture
def guest(db: None) -> User:
    """Return an allowed guest: 556."""
    del db
    return make_person("guest", "556")


def make_person(name: str, value: str, *, is_owner: bool = False) -> User:
    """Create a user with one instant messenger identity on every channel."""
    user = User.objects.create(username=name, display_name=name, is_owner=is_owner)
    ChannelIdentity.objects.create(user=user, kind="im", value=value)
    return user


def memory_account(name: str = "main") -> ChannelAccount:
    """Create an account of the in-memory channel."""
    return ChannelAccount.objects.create(channel="memory", name=name)


def telegram_account(
    *, base: str, name: str = "main", mode: str = "webhook", token: str = "", **config: object
) -> ChannelAccount:
    """Create a bot on a Bot API server."""
    return ChannelAccount.objects.create(
        channel="telegram",
        name=name,
        config={"mode": mode, "api_base": base, **config},
        secrets=encrypt({"token": token or f"900:{name:A<34}", "webhook_secret": "Whs_0123"}),
    )


def script(settings: Settings, folder: Path, *rules: dict[str, Any]) -> None:
    """Write the script of the model."""
    path = folder / "script.json"
    path.write_text(json.dumps(rules))
    settings.LLM_SCRIPT = str(path)


def hours_pass(hours: float) -> None:
    """Make all waiting deliveries older, and due."""
    back = timedelta(hours=hours)
    Delivery.objects.update(created_at=F("created_at") - back)
    Delivery.objects.filter(queued_at__isnull=False).update(queued_at=F("queued_at") - back)
    Delivery.objects.filter(state="pending").update(retry_at=Now())


def until(condition: object, *, seconds: float = 20.0) -> None:
    """Wait for a condition (a callable) to be true."""
    assert callable(condition)
    wait_until(condition, seconds=seconds)

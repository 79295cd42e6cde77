"""Fixtures of the attacks on endpoints."""

from collections.abc import Iterator
from typing import Any

import pytest

from channels_app.asgi import throttling
from channels_app.client_api import run_endpoint
from channels_app.telegram import views as telegram_views
from core.database import transactions


@pytest.fixture(autouse=True)
def streams_that_begin_without_a_worker(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Send the head of a ``/v1`` stream at once: it waits for a first word, and no worker runs
    here."""
    monkeypatch.setattr(run_endpoint, "HEAD_SECONDS", 0.05)
    settings.HEARTBEAT_SECONDS = 0.2


@pytest.fixture
def fresh_counters(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start every rate limit from zero, and empty the account cache."""
    for name in ("addresses", "people", "failures"):
        monkeypatch.setattr(throttling, name, throttling.Rate())
    telegram_views.accounts.clear()
    yield
    telegram_views.accounts.clear()
    transactions.close_pool()

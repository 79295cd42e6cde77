"""Fixtures of the attacks on endpoints."""

from typing import Any

import pytest

from channels_app.client_api import run_endpoint


@pytest.fixture(autouse=True)
def streams_that_begin_without_a_worker(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """Send the head of a ``/v1`` stream at once: it waits for a first word, and no worker runs
    here."""
    monkeypatch.setattr(run_endpoint, "HEAD_SECONDS", 0.05)
    settings.HEARTBEAT_SECONDS = 0.2

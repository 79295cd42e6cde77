"""What the attacks on endpoints start from."""

from typing import Any

import pytest

from channels_app.openai_api import endpoints


@pytest.fixture(autouse=True)
def streams_that_begin_without_a_worker(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    """No worker runs here: the head of a ``/v1`` stream, which waits for a first word, is sent."""
    monkeypatch.setattr(endpoints, "HEAD_SECONDS", 0.05)
    settings.HEARTBEAT_SECONDS = 0.2

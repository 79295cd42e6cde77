"""An account on the in-memory platform, and the deliveries that ended."""

from collections.abc import Iterator

import pytest

from channels_app.delivery import rate_limit
from channels_app.memory.channel import PLATFORM
from channels_app.replies import outbound
from core.conversations import events
from core.database import transactions
from core.models import ChannelAccount
from tests.channels_app.running import memory_account


@pytest.fixture
def account(transactional_db: None) -> Iterator[ChannelAccount]:
    """Return an account on an empty platform."""
    PLATFORM.clear()
    rate_limit.pacer.cache_clear()
    outbound.TAKEN_OVER.clear()
    yield memory_account()
    events.close_writer()
    transactions.close_pool()


@pytest.fixture
def ended() -> list[int]:
    """Return the deliveries that ended: sent, or given up."""
    return []

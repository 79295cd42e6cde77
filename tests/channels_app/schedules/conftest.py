"""A chat of a person, for tests of schedules."""

import pytest

from core.models import ChatSession, User
from tests.channels_app.running import memory_account
from tests.channels_app.schedules.making import chat_of


@pytest.fixture
def chat(guest: User) -> ChatSession:
    """Return a chat of the guest."""
    return chat_of(guest, memory_account())

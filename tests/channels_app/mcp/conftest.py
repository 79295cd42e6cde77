"""A gateway in this process: web endpoints, worker, bots on a fake Bot API, and agents with
keys.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from allowlist import keys
from channels_app.agent_sessions import sessions
from channels_app.asgi import throttling
from channels_app.worker.runner import Runner
from core.models import ChannelAccount, ChatSession, User
from tests.channels_app.mcp.served import Agent, Served
from tests.channels_app.running import guest, memory_account, owner, runner, telegram_account
from tests.channels_app.telegram.fake_api import FakeBotApi

MakeAgent = Callable[..., Agent]


@pytest.fixture
def served(runner: Runner) -> Iterator[Served]:
    """Start the web endpoints, with a worker."""
    del runner
    throttling.people = throttling.Rate()
    found = Served()
    found.start()
    yield found
    found.stop()


@pytest.fixture
def agent_of(served: Served) -> MakeAgent:
    """Return ``agent_of(user, session)``: an agent with a key of that user."""

    def make(user: User, session: ChatSession | None = None, **more: Any) -> Agent:
        scopes = more.pop("scopes", ["send_result"])
        key = keys.create(name="agent", user=user, scopes=scopes)[1]
        return Agent(served.url, key, session.public_id if session else "", **more)

    return make


@pytest.fixture
def memory(db: None) -> ChannelAccount:
    del db
    return memory_account()


@pytest.fixture
def session(owner: User, memory: ChannelAccount) -> ChatSession:
    """Return the owner's session for an agent, in their in-memory chat 555."""
    return sessions.open_session(user=owner, account=memory, title="Build")


@pytest.fixture
def api() -> Iterator[FakeBotApi]:
    server = FakeBotApi()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def telegram(db: None, api: FakeBotApi) -> ChannelAccount:
    del db
    return telegram_account(base=api.base)


__all__ = ["guest", "owner", "runner"]

"""Fixtures of the walks: everything in this process, and threads that can be traced."""

from collections.abc import Iterator

import pytest

from channels_app.worker.runner import Runner
from core.database import transactions
from core.models import User
from tests.architecture import trace
from tests.architecture.walks import Walks, prepare
from tests.channels_app.running import owner, runner
from tests.channels_app.telegram.fake_api import FakeBotApi
from tests.loops import Loop

__all__ = ["owner", "runner"]


@pytest.fixture
def profiled(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[None]:
    """Let threads that are started from now on be traced."""
    transactions.close_pool()
    with trace.profiled(monkeypatch):
        yield


@pytest.fixture
def walks(profiled: None, runner: Runner, owner: User) -> Iterator[Walks]:
    """Yield a gateway that has made each walk before."""
    api, loop = FakeBotApi(), Loop()
    api.start()
    yield prepare(api, loop, owner, runner)
    loop.close()
    api.stop()

"""A very long answer on a channel that shows it while it grows: it delays no other."""

import time

import pytest
from django.utils import timezone
from pytest_django import Settings

from channels_app.memory.channel import PLATFORM, say
from channels_app.worker.runner import Runner
from core.models import Delivery, User
from tests import misbehaving
from tests.channels_app.running import memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)
MOST_SECONDS = 3.0  # of the loop; a loaded machine has slow moments of its own


class Watch:
    """The longest time for which the loop of a worker was blocked."""

    def __init__(self, runner: Runner) -> None:
        """Start to measure every 10 ms."""
        self.longest, self._runner, self._last = 0.0, runner, time.monotonic()
        runner.loop.call_soon_threadsafe(self._look)

    def _look(self) -> None:
        now = time.monotonic()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        self._runner.loop.call_later(0.01, self._look)


def test_c5_a_long_answer_is_cut_and_delays_no_other(
    runner: Runner, owner: User, guest: User, settings: Settings
) -> None:
    with misbehaving.running() as model:
        settings.LLM_PROVIDER, settings.LLM_BASE_URL = "openai-compatible", model.url
        settings.LLM_CONTEXT_TOKENS = 8192
        account, watch = memory_account(), Watch(runner)
        now = timezone.now()
        say(account=account, sender="555", chat="a", text="lists", message_id="1", now=now)
        until(lambda: Delivery.objects.filter(target__chat="a").exists())
        began = time.monotonic()
        say(account=account, sender="556", chat="b", text="hi", message_id="2", now=timezone.now())
        until(lambda: PLATFORM.texts("b") == ["Hello."])
        waited = time.monotonic() - began
        until(lambda: any("cut here" in text for text in PLATFORM.texts("a")), seconds=60)
    assert waited < 10
    assert watch.longest < MOST_SECONDS

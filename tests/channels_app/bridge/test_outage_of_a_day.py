"""A bridge that is away for half a day: its answers wait, in order, and the owner is told once."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from channels_app.bridge import channel
from channels_app.memory.channel import PLATFORM
from channels_app.owner import outages
from channels_app.worker.runner import Runner
from core.conversations import outbox
from core.models import Delivery, User
from tests.channels_app.bridge.conftest import Bridge, Callback
from tests.channels_app.running import hours_pass, memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)
MANY = 1000


def refused(callback: Callback) -> Callable[[], None]:
    """Nothing listens at its address."""
    callback.stop()
    return callback.start


def failing(callback: Callback) -> Callable[[], None]:
    """A proxy in front of it answers."""
    callback.answers = [(502, {})] * MANY
    return callback.answers.clear


def silent(callback: Callback) -> Callable[[], None]:
    """It takes what comes, and never says so."""
    callback.silent = MANY

    def back() -> None:
        callback.silent = 0

    return back


@pytest.mark.parametrize("away", [refused, failing, silent])
def test_d4_twelve_hours_of_an_outage_of_a_bridge_lose_nothing(
    away: Callable[[Callback], Callable[[], None]],
    runner: Runner,
    owner: User,
    guest: User,
    bridge: Bridge,
    callback: Callback,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[D4] Every callback arrives afterwards, in order; a repeat has the same id."""
    monkeypatch.setattr(channel, "CALL_SECONDS", 0.3)
    account = memory_account("own")
    User.objects.filter(pk=owner.pk).update(last_account=account, last_target={"chat": "own"})
    comes_back = away(callback)
    for number in range(3):
        assert bridge.ask(text=f"say {number}", user_id="556", request_id=f"r{number}")[0] == 202
    until(lambda: Delivery.objects.filter(account=bridge.account, tries__gt=0).exists())
    until(lambda: Delivery.objects.filter(account=bridge.account).count() == 3)
    for _ in range(4):
        hours_pass(3)
        outages.look(now=timezone.now())
    assert not Delivery.objects.filter(state__in=outbox.GIVEN_UP).exists()
    until(lambda: len(PLATFORM.texts("own")) == 1)
    assert "have not been delivered" in PLATFORM.texts("own")[0]
    comes_back()
    hours_pass(0)
    until(lambda: not Delivery.objects.exclude(state="sent").exists(), seconds=60)
    seen = {each["delivery_id"]: each for each in callback.got}
    assert [each["request_id"] for each in seen.values()] == ["r0", "r1", "r2"]
    assert [f"say {number}" in text for number, text in enumerate(callback.texts())] == [True] * 3
    outages.look(now=timezone.now())
    outages.look(now=timezone.now())
    until(lambda: len(PLATFORM.texts("own")) == 2)

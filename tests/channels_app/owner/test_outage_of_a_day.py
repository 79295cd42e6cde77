"""The owner's only channel is away for half a day: every notice waits, and comes once."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from allowlist.models import UnknownRequest
from channels_app.base import ChannelError
from channels_app.memory.channel import PLATFORM, say
from channels_app.owner import notices, outages
from channels_app.worker.runner import Runner
from core.conversations import outbox
from core.models import ChatSession, Delivery, User
from tests.channels_app.running import guest, hours_pass, memory_account, owner, runner, until

__all__ = ["guest", "owner", "runner"]
pytestmark = pytest.mark.django_db(transaction=True)


class Away(list[ChannelError]):
    """The refusals of a platform that takes nothing, as long as it is set."""

    def pop(self, index: object = 0) -> ChannelError:
        return self[0]


def look_around(*, hours: float) -> None:
    """Let hours pass for the deliveries; look after notices and outages as long after the start."""
    hours_pass(3 if hours else 0)
    notices.look_after(now=timezone.now() + timedelta(hours=hours))
    outages.look(now=timezone.now())


def test_a5_twelve_hours_without_a_channel_lose_no_notice_and_repeat_none(
    runner: Runner, owner: User, guest: User
) -> None:
    """[A5] An unknown sender, a chat in trouble, a backup that failed, a message given up."""
    account = memory_account()
    User.objects.filter(pk=owner.pk).update(last_account=account, last_target={"chat": "own"})
    ChatSession.objects.create(user=guest, account=account, chat="556")
    PLATFORM.refusals = Away([ChannelError("away")])
    now = timezone.now()
    say(account=account, sender="999", chat="999", text="let me in", message_id="1", now=now)
    notices.trouble(account=account, chat="556", trouble="blocked", words="403")
    with transaction.atomic():
        notices.notify(lambda: "No backup was made.", key="notice:backup:1:failed")
    outages.given_up(delivery=Delivery(account=account, dedupe_key="answer:1:0"))
    until(lambda: Delivery.objects.filter(tries__gt=0).exists())
    for hours in (3, 6, 9, 12):
        look_around(hours=hours)
    assert not Delivery.objects.filter(state__in=outbox.GIVEN_UP).exists()
    assert UnknownRequest.objects.get().notified_at is None
    PLATFORM.refusals = []
    look_around(hours=0)
    until(lambda: not Delivery.objects.filter(state__in=outbox.OPEN).exists(), seconds=60)
    look_around(hours=0)
    until(lambda: any("have left" in each for each in PLATFORM.texts("own")))
    shown = PLATFORM.texts("own")
    for words in (
        "Unknown request from memory: user_id=999",
        "This person has blocked the bot",
        "No backup was made.",
        "will not be retried",
        "have left",
    ):
        assert sum(words in each for each in shown) == 1, (words, shown)
    until(lambda: UnknownRequest.objects.get().notified_at is not None)

"""[C4] Eyes and typing after a crash, and platforms that will not."""

import asyncio

import pytest
from django.utils import timezone

from channels_app import presence
from channels_app.base import ChannelError, Target
from channels_app.memory.channel import CHANNEL, PLATFORM, say
from channels_app.runner import Runner
from channels_app.sending import account_of
from core.models import ChannelAccount, InboundMessage, User
from tests.channels.running import memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)


def test_c4_eyes_that_a_dead_worker_left_are_taken_off_by_the_next(
    owner: User, runner: Runner
) -> None:
    account = memory_account()
    say(account=account, sender="555", chat="c", text="x", message_id="1", now=timezone.now())
    until(lambda: InboundMessage.objects.get().ack == "cleared")
    PLATFORM.reactions["main", "c", "1"] = True
    InboundMessage.objects.update(ack="shown")
    until(lambda: PLATFORM.reactions["main", "c", "1"] is False)


def test_c4_a_platform_that_takes_no_reaction_is_not_asked_again(
    owner: User, runner: Runner
) -> None:
    account = memory_account()
    refusal = ChannelError("REACTION_INVALID", permanent=True)
    PLATFORM.refusals += [refusal, refusal]
    say(account=account, sender="555", chat="c", text="x", message_id="1", now=timezone.now())
    until(lambda: PLATFORM.texts("c") == ["x"])
    until(lambda: InboundMessage.objects.get().ack == "cleared")


async def test_c4_typing_is_shown_once_however_many_hold_it_and_ends_with_the_last() -> None:
    PLATFORM.clear()
    typists = presence.Typists()
    row = memory_account_unsaved()
    place = presence.Place(CHANNEL, account_of(row), Target("c"))
    async with typists.typing(place):
        async with typists.typing(place):
            await asyncio.sleep(0)
            assert len(typists.tasks) == 1
        assert len(typists.tasks) == 1
    assert not typists.tasks
    assert not typists.holders


def memory_account_unsaved() -> ChannelAccount:
    """An account row that is in no database."""
    return ChannelAccount(id=1, channel="memory", name="main")

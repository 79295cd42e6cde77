"""[C4] Reactions and typing after a crash, and on platforms that refuse them."""

import asyncio
from typing import Any

import pytest
from django.utils import timezone

from channels_app.base import Account, ChannelError, Target
from channels_app.delivery.sending import account_of
from channels_app.memory.channel import CHANNEL, PLATFORM, say
from channels_app.replies import typing_and_reactions
from channels_app.worker.runner import Runner, waiting
from core.conversations import inbox
from core.database import transactions
from core.lib.encryption import DecryptError
from core.models import ChannelAccount, ChatSession, InboundMessage, User
from tests.channels_app.running import memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)


def test_c4_reactions_of_a_dead_worker_are_removed_by_the_next(owner: User, runner: Runner) -> None:
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


@pytest.mark.parametrize(("state", "stays"), [("batched", True), ("answered", False)])
def test_c4_a_reaction_that_comes_after_the_end_of_its_run_is_removed(
    state: str, *, stays: bool
) -> None:
    """Nothing else would: it was recorded as shown and removed before it was there."""
    PLATFORM.clear()
    account, now = memory_account(), timezone.now()
    row = InboundMessage.objects.create(account=account, state=state, ack="shown", received_at=now)
    mark = typing_and_reactions.Mark(
        id=row.id,
        reacts=CHANNEL.outbound,
        account=account_of(account),
        target=Target("c"),
        message_id="1",
        show=True,
    )
    asyncio.run(typing_and_reactions.apply(mark))
    transactions.close_pool()
    row.refresh_from_db()
    assert PLATFORM.reactions["main", "c", "1"] is stays
    assert row.ack == ("shown" if stays else "cleared")


async def test_c4_typing_is_shown_once_however_many_hold_it_and_ends_with_the_last() -> None:
    PLATFORM.clear()
    typists = typing_and_reactions.Typists()
    row = memory_account_unsaved()
    place = typing_and_reactions.Place(CHANNEL, account_of(row), Target("c"))
    async with typists.typing(place):
        async with typists.typing(place):
            await asyncio.sleep(0)
            assert len(typists.tasks) == 1
        assert len(typists.tasks) == 1
    assert not typists.tasks
    assert not typists.holders


async def test_c4_typing_goes_on_while_a_long_job_takes_longer_than_an_answer_may(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[C4] A job of half an hour belongs to an answer of fifteen minutes, which waits for it."""
    shown = 0

    class Counting:
        """Counts the calls."""

        async def send_typing(self, *, account: Account, target: Target) -> None:
            nonlocal shown
            shown += 1

    settings.AGENT_RUN_SECONDS, settings.JOB_SECONDS = 0, 1800
    monkeypatch.setattr(typing_and_reactions, "TYPING_SECONDS", 0.0)
    repeating = typing_and_reactions.repeat(
        Counting(), account_of(memory_account_unsaved()), Target("c")
    )
    task = asyncio.create_task(repeating)
    while shown < 20 and not task.done():
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()


def memory_account_unsaved() -> ChannelAccount:
    """Return an account row that is in no database."""
    return ChannelAccount(id=1, channel="memory", name="main")


def test_due_changes_of_several_sessions_are_found_in_one_query(owner: User, guest: User) -> None:
    account, broken = memory_account(), memory_account("broken")
    broken.secrets = "cannot be opened"
    broken.save()
    now = timezone.now()
    sessions = []
    for place, chat in enumerate(("a", "b", "c")):
        at = broken if chat == "c" else account
        session = inbox.open_session(user=owner if place else guest, account=at, chat=chat)
        for number, (state, ack) in enumerate(
            [("received", ""), ("answered", "shown"), ("answered", "cleared"), ("answered", "")]
        ):
            InboundMessage.objects.create(
                account=at,
                session=session,
                chat=chat,
                external_message_id=f"{chat}{number}",
                state=state,
                ack=ack,
                received_at=now,
            )
        sessions.append(session.id)
    ChatSession.objects.filter(id=sessions[0]).update(flush_at=now)
    first, second, third, gone = typing_and_reactions.marks_of([*sessions, 0])
    assert isinstance(third, DecryptError)
    assert gone == []
    for found, chat in ((first, "a"), (second, "b")):
        assert isinstance(found, list)
        marks = [(each.message_id, each.show, each.target.chat) for each in found]
        assert marks == [(f"{chat}0", True, chat), (f"{chat}1", False, chat)]
    shown = InboundMessage.objects.filter(ack="shown", state="received")
    assert set(shown.values_list("chat", flat=True)) == {"a", "b"}, "not where it cannot be shown"
    assert typing_and_reactions.were_answered([shown[0].id, 0]) == [False, True]
    waits = waiting([*sessions, 0])
    assert isinstance(waits[0], tuple)
    assert (waits[0][0], waits[0][1] and waits[0][1].target.chat) == (now, "a")
    assert waits[1:] == [(None, None)] * 3

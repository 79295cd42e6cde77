"""[C3] Two accounts, two chats, two topics, interleaved at random 2,000 times (in `make soak`
10,000): nothing crosses."""

import os
import random
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pytest

from channels_app.replies import outbound
from channels_app.telegram import receive
from channels_app.telegram.addressing import Bot
from core.conversations import inbox
from core.models import ChannelAccount, ChannelIdentity, ChatSession, Delivery, Run, User
from tests.channels_app.running import telegram_account
from tests.channels_app.telegram.people import message

TIMES = int(os.environ.get("CROSSINGS", "2000"))
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.slow
@pytest.mark.on("sqlite")
@pytest.mark.django_db
@pytest.mark.timeout(1500)
def test_c3_nothing_crosses(owner: User, guest: User) -> None:
    chance = random.Random(20260301)
    for group in ("-100", "-200"):
        ChannelIdentity.objects.create(user=owner, kind="im", channel="telegram", value=group)
    accounts = [telegram_account(base="http://x", name=name) for name in ("main", "other")]
    places = [(a, chat, thread) for a in accounts for chat in (-100, -200) for thread in (7, 8)]
    now = START
    with patch("django.utils.timezone.now", side_effect=lambda: now):
        for number in range(TIMES):
            now += timedelta(milliseconds=chance.choice((5, 20, 60, 600)))
            row, chat, thread = chance.choice(places)
            update = message(
                f"@my_bot {row.name}/{chat}/{thread}/{number}",
                user=chance.choice((555, 556)),
                chat=chat,
                thread=thread,
                message_id=number + 1,
            )
            taken = receive.take(row=row, bot=Bot(1, "my_bot"), value=update, raw=b"")
            assert taken == "accepted"
            if chance.random() < 0.01:
                for session_id in inbox.due_sessions(now=now):
                    inbox.flush_due(session_id=session_id, now=now)
    for session_id in ChatSession.objects.values_list("id", flat=True):
        inbox.flush_due(session_id=session_id, now=now + timedelta(minutes=1))
    lines = [check(run) for run in Run.objects.select_related("session__account", "user")]
    assert sum(lines) == TIMES


def check(run: Run) -> int:
    """Check that everything of a run is of one chat; return how many messages it has."""
    account: ChannelAccount = run.session.account
    place = f"{account.name}/{run.route['chat']}/{run.route['thread']}/"
    said = run.text.split("\n")
    assert all(each.startswith(place) for each in said)
    assert run.route["account"] == account.pk
    assert len(run.route["acks"]) == len(said)
    assert run.route["reply_to"] == run.route["acks"][-1]
    ids = [str(int(each.rpartition("/")[2]) + 1) for each in said]
    assert run.route["acks"] == ids
    assert {m.sender for m in run.inbound.all()} <= {run.user.identities.get(channel="").value}
    delivery: Delivery = outbound.put_block(run=run, index=0, payload={"text": place})
    assert delivery.target["chat"] == run.route["chat"]
    assert delivery.target["thread"] == run.route["thread"]
    assert delivery.conversation == f"{account.pk}:{run.route['chat']}:{run.route['thread']}"
    return len(said)

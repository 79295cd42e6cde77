"""Updates that share a transaction: each has the same outcome as alone."""

import random
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from django.db.models.functions import Now

from channels_app.telegram import receive
from channels_app.telegram.addressing import Bot
from core.conversations import inbox
from core.database import batching
from core.database.transactions import atomic_write
from core.models import ChannelAccount, ChannelIdentity, ChatSession, InboundMessage, User
from tests.channels_app.running import telegram_account
from tests.channels_app.telegram.people import message, number

pytestmark = pytest.mark.django_db(transaction=True)
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
GROUPS = 150
PEOPLE = range(555, 563)
STRANGERS = (900, 901)


@pytest.fixture
def people(transactional_db: None) -> list[User]:
    """Create an owner and others, with the Telegram ids in PEOPLE: two ids are one user; one
    identity expires soon, one counts on another channel only, one belongs to an inactive user.
    """
    found: list[User] = []
    for place, value in enumerate(PEOPLE):
        user = found[0] if place == 1 else User(username=f"p{value}", is_owner=place == 0)
        user.is_active = place != 7
        user.save()
        found.append(user)
        ChannelIdentity.objects.create(
            user=user,
            kind="im",
            channel="memory" if place == 2 else "telegram",
            value=str(value),
            expires_at=START + timedelta(seconds=20) if place == 3 else None,
        )
    ChannelIdentity.objects.create(user=found[0], kind="im", channel="telegram", value="-100")
    return found


@pytest.fixture
def accounts(people: list[User]) -> list[ChannelAccount]:
    """Create two bots; in both an agent waits for a reply of one of the users."""
    found = [telegram_account(base="http://x", name=name) for name in ("main", "other")]
    for account in found:
        with atomic_write():
            inbox.open_session(user=people[4], account=account, chat=str(PEOPLE[4]))
        ChatSession.objects.create(
            account=account,
            user=people[4],
            chat=str(PEOPLE[4]),
            for_agent=True,
            reply_until=START + timedelta(seconds=10),
        )
    return found


def some_update(chance: random.Random, earlier: list[Any]) -> Any:
    """Return a random update of one of them."""
    who = chance.choice((*PEOPLE, *PEOPLE, *STRANGERS))
    said = {"user": who, "message_id": number()}
    match chance.randrange(16):
        case 0 if earlier:
            return chance.choice(earlier)  # Telegram sends it again
        case 1:
            return message("@my_bot hello", chat=-100, **said)
        case 2:
            return message("in a topic", thread=7, **said)
        case 3:
            return message(chance.choice(("/new", "/new words", "/stop", "/start")), **said)
        case 4 if earlier:
            again = dict(chance.choice(earlier))
            again["update_id"] = number()
            again["edited_message"] = {**again.get("message", {}), "text": "edited"}
            again.pop("message", None)
            return again
        case 5:
            return {"update_id": number(), "message": "rubbish"}
        case 6:
            return message("of nobody", **{**said, "user": -5, "chat": 77})
    return message(f"words {said['message_id']}", **said)


def work_of(account: ChannelAccount, update: Any) -> batching.Work[str]:
    """Return what the webhook runs in a shared transaction for an update."""
    return partial(receive.take, row=account, bot=Bot(1, "my_bot"), value=update, raw=b"{}")


def stored(account: ChannelAccount) -> list[tuple[object, ...]]:
    """Return the states of an account's messages, in the order in which they were stored."""
    sessions = list(ChatSession.objects.filter(account=account).order_by("id"))
    place = {session.pk: at for at, session in enumerate(sessions)}
    runs = {session.pk: [run.pk for run in session.runs.order_by("id")] for session in sessions}
    return [
        (
            row.external_update_id,
            row.external_message_id,
            row.state,
            row.text,
            row.note,
            row.user_id,
            place.get(row.session_id or 0),
            row.run and runs[row.session_id or 0].index(row.run_id or 0),
        )
        for row in InboundMessage.objects.filter(account=account).order_by("id")
    ]


def test_each_update_of_a_group_has_the_outcome_that_it_would_have_alone(
    accounts: list[ChannelAccount], people: list[User]
) -> None:
    alone, grouped = accounts
    chance = random.Random(20261123)
    earlier: list[Any] = []
    now = START
    with patch("django.utils.timezone.now", side_effect=lambda: now):
        for _ in range(GROUPS):
            now += timedelta(milliseconds=chance.choice((5, 100, 600, 2000)))
            group = [some_update(chance, earlier) for _ in range(chance.randint(1, 9))]
            earlier = (earlier + [each for each in group if isinstance(each.get("message"), dict)])[
                -30:
            ]
            outcomes = [work_of(alone, update)() for update in group]
            works = [work_of(grouped, update) for update in group]
            assert batching.run_in_transaction(works) == outcomes
            if chance.random() < 0.1:
                closed = chance.choice(people)
                open_ones = ChatSession.objects.filter(user=closed, closed_at__isnull=True)
                open_ones.filter(for_agent=False).update(closed_at=Now())
    rows = stored(grouped)
    assert rows == stored(alone)
    assert {row[2] for row in rows} >= {"received", "batched", "held", "quarantined"}
    assert len(rows) > 3 * GROUPS

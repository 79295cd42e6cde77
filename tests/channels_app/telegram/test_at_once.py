"""Messages that come at the same time: each gets what it would have got alone, for less asking."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from channels_app.agent_sessions.sessions import FOR_AGENT
from channels_app.intake import known_senders
from channels_app.intake.inbound import receive_known
from channels_app.telegram import receive
from channels_app.telegram.addressing import Bot
from core.conversations import inbox
from core.conversations.inbox import Draft
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
    """An owner and others, whom Telegram knows by PEOPLE: two are one person, one's identity ends
    soon, one counts elsewhere only, one is not active."""
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
    """Two bots; in both an agent waits for what one of the people says."""
    found = [telegram_account(base="http://x", name=name) for name in ("main", "other")]
    for account in found:
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
    """What one of them does."""
    who = chance.choice((*PEOPLE, *PEOPLE, *STRANGERS))
    said = {"user": who, "message_id": number()}
    match chance.randrange(16):
        case 0 if earlier:
            return chance.choice(earlier)  # Telegram brings it again
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
    """What the webhook commits for an update."""
    return receive.asked_of(row=account, bot=Bot(1, "my_bot"), value=update, raw=b"{}")


def stored(account: ChannelAccount) -> list[tuple[object, ...]]:
    """What the messages of an account became, in the order in which they were stored."""
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


def test_each_message_of_a_group_becomes_what_it_would_alone(
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
            told = [work_of(alone, update)() for update in group]
            assert batching.all_of([work_of(grouped, update) for update in group]) == told
            if chance.random() < 0.1:
                closed = chance.choice(people)
                for session in ChatSession.objects.filter(user=closed, for_agent=False):
                    inbox.close_session(session=session)
    rows = stored(grouped)
    assert rows == stored(alone)
    assert {row[2] for row in rows} >= {"received", "batched", "held", "quarantined"}
    assert len(rows) > 3 * GROUPS


def drafts(account: ChannelAccount, *values: int) -> list[Draft]:
    """A message of each of these people."""
    return [
        Draft(account=account, sender=str(value), chat=str(value), message_id=str(number()))
        for value in values
    ]


def known(asked: Sequence[Draft]) -> list[known_senders.KnownSender | None]:
    """What they are told, in a transaction."""
    with atomic_write():
        return known_senders.known_at_once(asked)


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite answers as fast one by one")
def test_known_senders_are_found_in_two_statements(
    accounts: list[ChannelAccount], people: list[User]
) -> None:
    account, other = accounts
    for place in (0, 1, 5, 6):
        inbox.open_session(user=people[place], account=account, chat=str(PEOPLE[place]))
    agents = ChatSession.objects.get(account=account, for_agent=True)
    asked = drafts(account, PEOPLE[0], PEOPLE[5], PEOPLE[4], 900, PEOPLE[0], PEOPLE[1])
    with (
        patch.object(timezone, "now", return_value=START),
        CaptureQueriesContext(connection) as sql,
    ):
        found = known([*asked, *drafts(other, PEOPLE[5]), *drafts(account, PEOPLE[6])])
    selects = [each["sql"] for each in sql if each["sql"].startswith("SELECT")]
    assert len(selects) == 2
    assert selects[1].endswith('FOR NO KEY UPDATE OF "core_chatsession"')
    told = [(each.user.pk, each.session.chat) if each else None for each in found]
    assert told == [
        (people[0].pk, str(PEOPLE[0])),
        (people[5].pk, str(PEOPLE[5])),
        (people[4].pk, str(PEOPLE[4])),
        None,  # not on the allowlist
        None,  # the first message may change the answer
        None,  # nor of their other address: where they spoke last is of them, not of it
        None,  # on another account
        None,  # after that
    ]
    assert found[2] is not None
    assert found[2].session == agents, "an agent waits for what they say"


def test_sqlite_is_asked_by_each(accounts: list[ChannelAccount], people: list[User]) -> None:
    inbox.open_session(user=people[0], account=accounts[0], chat=str(PEOPLE[0]))
    found = known(drafts(accounts[0], PEOPLE[0]))
    assert [each is None for each in found] == [connection.vendor == "sqlite"]


@pytest.mark.skipif(connection.vendor == "sqlite", reason="SQLite answers as fast one by one")
def test_unknown_senders_cost_one_statement_for_all(
    accounts: list[ChannelAccount], people: list[User]
) -> None:
    with CaptureQueriesContext(connection) as sql:
        assert known(drafts(accounts[0], 900, 901)) == [None, None]
    assert len([each for each in sql if each["sql"].startswith("SELECT")]) == 1


@pytest.mark.parametrize("late", [False, True])
def test_what_an_agent_waited_for_is_its_also_when_its_time_ends_meanwhile(
    accounts: list[ChannelAccount], people: list[User], late: bool
) -> None:
    account, _ = accounts
    [draft] = drafts(account, PEOPLE[4])
    with atomic_write():
        with patch.object(timezone, "now", return_value=START):
            [found] = known_senders.known_at_once([draft])
        moment = START + timedelta(seconds=60 if late else 0)
        with patch.object(timezone, "now", return_value=moment):
            receipt = receive_known(draft=draft, known=found)
    assert receipt.session is not None
    told = connection.vendor != "sqlite"
    assert receipt.session.for_agent == (told or not late)
    [row] = InboundMessage.objects.all()
    assert (row.note == FOR_AGENT) == receipt.session.for_agent

"""Between which message ids a message in doubt is searched for, and the records of that."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from core.conversations import outbox, uncertain_deliveries
from core.conversations.uncertain_deliveries import LATER, Span
from core.database import transactions
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, Installation, Run
from tests.core.conversations.test_outbox import unsaved

pytestmark = pytest.mark.django_db(transaction=True)
OF_SEARCH = ("external_message_id", "doubt_chat", "after_id", "error")
SECOND, SKEW = timedelta(seconds=1), timedelta(seconds=60)


def shares(chat: str) -> bool:
    """Return whether a chat numbers its messages as chat 42 does."""
    return chat in {"42", "43"}


@pytest.fixture
def put(account: ChannelAccount) -> Callable[..., Delivery]:
    """Return ``put(columns…)``: it stores a delivery to chat 42."""
    names = iter("abcdefghijklmnopqrstuvwxyz")

    def make(chat: str = "42", **columns: Any) -> Delivery:
        values = {"account": account, "conversation": "c", "payload": {}, **columns}
        target = {"chat": chat, **values.pop("target", {})}
        return Delivery.objects.create(dedupe_key=next(names), target=target, **values)

    return make


@pytest.fixture
def came(account: ChannelAccount) -> Callable[..., InboundMessage]:
    """Return ``came(id, at)``: it stores a message of a person."""

    def make(name: str, at: datetime, chat: str = "42", **columns: Any) -> InboundMessage:
        values = {"account": account, **columns}
        return InboundMessage.objects.create(
            external_message_id=name, received_at=at, chat=chat, **values
        )

    return make


def numbers(delivery: Delivery) -> list[int]:
    """Return the ids that are known beside those of ``delivery``."""
    return sorted(number for number, _ in uncertain_deliveries.ids_of(delivery, shares))


def last(delivery: Delivery) -> int | None:
    """Return the highest id that was known when ``delivery`` was claimed."""
    return uncertain_deliveries.last_known(delivery=delivery, shares=shares)


def span(delivery: Delivery) -> Span:
    """Return the ids among which a message of ``delivery`` may be."""
    return uncertain_deliveries.span(delivery=delivery, shares=shares)


@pytest.mark.parametrize(
    ("after", "end", "known", "closed", "ids", "complete"),
    [
        pytest.param(3, 8, {5}, False, [4, 6, 7], True, id="few"),
        pytest.param(3, 8, {5}, True, [4, 6, 7], True, id="few, closed"),
        pytest.param(3, 4, set(), False, [], True, id="none"),
        pytest.param(10, 41, set(), False, range(11, 41), True, id="as many as are tried"),
        pytest.param(10, 42, set(), False, range(11, 41), False, id="one more: the first"),
        pytest.param(10, 41, set(), True, range(11, 41), True, id="as many, closed"),
        pytest.param(10, 42, set(), True, range(12, 42), False, id="one more: the last"),
        pytest.param(10, 42, {20}, True, [*range(11, 20), *range(21, 42)], True, id="known"),
        pytest.param(10, 43, {20}, True, [*range(12, 20), *range(21, 43)], False, id="known too"),
        pytest.param(10, 99, {98}, True, range(68, 98), False, id="far"),
        pytest.param(100, 180, set(range(9)), True, range(150, 180), False, id="known before"),
    ],
)
def test_at_most_so_many_ids_are_tried_of_a_closed_span_the_last_ones(
    after: int, end: int, known: set[int], closed: bool, ids: list[int], complete: bool
) -> None:
    made = Span(after, end, end - 1, frozenset(known), closed)
    assert made.unknown() == ([*ids], complete)
    cut = Span(after, end, end - 1, frozenset(known), closed, cut=True)
    assert cut.unknown() == ([*ids], False)


@pytest.mark.parametrize(
    ("name", "number"),
    [("12", 12), ("0", 0), ("", None), ("12a", None), ("-1", None), ("1.5", None), ("²", None)],
)
def test_an_id_is_a_number_or_none(name: str, number: int | None) -> None:
    assert uncertain_deliveries.number_of(name) == number


def test_known_ids_are_those_of_the_sequence_with_their_times(
    put: Callable[..., Delivery], came: Callable[..., InboundMessage], session: ChatSession
) -> None:
    """Of messages that are answered, that came and that were sent; never its own."""
    now = transactions.now()
    other = ChannelAccount.objects.create(channel="platform", name="other")
    route = {"account": session.account_id, "chat": "43", "reply_to": "2"}
    run = Run.objects.create(session=session, user=session.user, route=route)
    row = put(target={"reply_to": "1"}, run=run, external_message_id="9")
    came("3", now)
    came("4", now, "50")
    came("x", now)
    came("5", now, account=other)
    put("43", external_message_id="6", sent_at=now)
    put(external_message_id="7")
    put()
    put("50", external_message_id="8")
    put(external_message_id="y")
    put(external_message_id="10", account=other)
    assert sorted(uncertain_deliveries.ids_of(row, shares)) == [
        (1, None),
        (2, None),
        (3, now + SKEW),
        (6, now),
        (7, LATER),
    ]


@pytest.mark.parametrize("route", [{"chat": "50"}, {"account": 0}, {"reply_to": ""}, {"chat": ""}])
def test_an_answered_message_of_another_sequence_is_not_known(
    put: Callable[..., Delivery], session: ChatSession, route: dict[str, Any]
) -> None:
    whole = {"account": session.account_id, "chat": "42", "reply_to": "2", **route}
    run = Run.objects.create(session=session, user=session.user, route=whole)
    assert numbers(put(run=run)) == []
    assert numbers(put()) == []


def test_a_row_that_names_no_chat_is_of_the_chat_without_a_name(
    put: Callable[..., Delivery], session: ChatSession
) -> None:
    """As the row of a channel that has one chat."""
    route = {"account": session.account_id, "reply_to": "2"}
    run = Run.objects.create(session=session, user=session.user, route=route)
    row, other = put(run=run), put(external_message_id="3", sent_at=transactions.now())
    Delivery.objects.filter(id=other.id).update(target={})
    found = uncertain_deliveries.ids_of(row, lambda chat: chat == "")
    assert [number for number, _ in found] == [2, 3]


def test_the_newest_messages_are_looked_at(
    put: Callable[..., Delivery], account: ChannelAccount
) -> None:
    now, row = transactions.now(), put()
    InboundMessage.objects.bulk_create(
        InboundMessage(account=account, external_message_id=str(n), received_at=now, chat="42")
        for n in range(1001)
    )
    assert numbers(row) == [*range(1, 1001)]
    InboundMessage.objects.all().delete()
    Delivery.objects.bulk_create(
        unsaved(account, str(n), external_message_id=str(n) if n < 1001 else "")
        for n in range(1001 + 5)
    )
    assert numbers(row) == [*range(1, 1001)]


def test_the_last_id_is_the_highest_that_existed_before_the_claim(
    put: Callable[..., Delivery], came: Callable[..., InboundMessage]
) -> None:
    """A message that came counts only when that is sure by any clock of our processes."""
    now = transactions.now()
    row = put(claimed_at=now)
    assert last(row) == 0
    came("5", now - SKEW - SECOND)
    came("6", now - SKEW + SECOND)
    assert last(row) == 5
    put(external_message_id="7", sent_at=now - SECOND)
    put(external_message_id="8", sent_at=now)
    put(external_message_id="9")
    assert last(row) == 7
    put(external_message_id="3", sent_at=now - SECOND)
    assert last(row) == 7
    row.target["reply_to"] = "20"
    assert last(row) == 20


def test_the_claim_is_that_of_the_row(put: Callable[..., Delivery]) -> None:
    """The object may be older. One that was never claimed counts from its own time."""
    now = transactions.now()
    row = put()
    put(external_message_id="7", sent_at=now + SECOND)
    assert last(row) == 0
    Delivery.objects.filter(id=row.id).update(claimed_at=now + 2 * SECOND)
    assert row.claimed_at is None
    assert last(row) == 7
    assert last(Delivery(id=0, account=row.account, target={}, created_at=now)) == 0
    assert last(Delivery(id=0, account=row.account, target={}, created_at=now + 2 * SECOND)) == 7


def test_after_a_restore_an_id_counts_when_it_is_newer_than_the_copy(
    put: Callable[..., Delivery],
) -> None:
    """Those between may be of messages that were sent after the copy: nothing is searched then."""
    now = transactions.now()
    row = put(claimed_at=now, target={"reply_to": "1"})
    installation, _ = Installation.objects.update_or_create(id=1, defaults={"restored_at": None})
    assert last(row) == 1
    installation.restored_at = now - SKEW - 10 * SECOND
    installation.save()
    assert last(row) is None
    put(external_message_id="7", sent_at=now - 11 * SECOND)
    assert last(row) is None
    put(external_message_id="8", sent_at=now - 10 * SECOND)
    assert last(row) == 8


def test_the_search_begins_after_the_last_known_id_and_ends_at_its_own(
    put: Callable[..., Delivery],
) -> None:
    for number in (3, 9):
        put(external_message_id=str(number))
    row = put(after_id=5, external_message_id="8")
    assert span(row) == Span(5, 8, 9, frozenset({3, 9}), closed=True)


def test_without_an_id_of_its_own_it_ends_after_the_newest(put: Callable[..., Delivery]) -> None:
    """With an id for each message in doubt of the account: a late request makes a higher id."""
    other = ChannelAccount.objects.create(channel="platform", name="other")
    row = put(after_id=5, doubt_chat="1:42")
    assert span(row) == Span(5, 12, 5, frozenset(), closed=False)
    put(doubt_chat="1:43")
    put(doubt_chat="1:42", account=other)
    put(external_message_id="9")
    assert span(row) == Span(5, 17, 9, frozenset({9}), closed=False)


@pytest.mark.parametrize(
    ("first", "after", "cut"), [(31, 0, False), (32, 1, True), (500, 469, True)]
)
def test_where_no_id_was_known_it_begins_near_the_first(
    put: Callable[..., Delivery], first: int, after: int, cut: bool
) -> None:
    put(external_message_id=str(first))
    put(external_message_id=str(first + 40))
    for kept in (None, 0):
        found = span(put(after_id=kept))
        assert (found.after, found.cut, found.newest) == (after, cut, first + 40)
    closed = span(put(after_id=0, external_message_id=str(first + 1)))
    assert (closed.after, closed.cut, closed.closed) == (after, cut, True)
    known = span(put(after_id=1))
    assert (known.after, known.cut) == (1, False)


def test_a_new_bot_has_no_known_id(put: Callable[..., Delivery]) -> None:
    assert span(put()) == Span(0, 6, 0, frozenset(), closed=False)


def doubted(put: Callable[..., Delivery]) -> tuple[Delivery, Delivery]:
    """Return a claimed delivery in doubt, and another like it that must not change."""
    state = {"state": Delivery.State.SENDING, "doubt_chat": "1:42", "after_id": 5, "error": "x"}
    return put(**state, attempt=2), put(**state, attempt=2)


def stored(delivery: Delivery) -> tuple[Any, ...]:
    """Return what is stored of the search for ``delivery``."""
    return tuple(Delivery.objects.values_list(*OF_SEARCH).get(id=delivery.id))


def held(delivery: Delivery) -> tuple[Any, ...]:
    """Return the same of the object."""
    return tuple(getattr(delivery, name) for name in OF_SEARCH)


RECORDS: dict[str, tuple[Callable[[Delivery], Any], tuple[Any, ...]]] = {
    "found": (
        lambda row: uncertain_deliveries.found(delivery=row, external_message_id="8"),
        ("8", "", None, "x"),
    ),
    "passed": (
        lambda row: uncertain_deliveries.passed(delivery=row, after_id=7),
        ("", "1:42", 7, "x"),
    ),
    "incomplete": (
        lambda row: uncertain_deliveries.incomplete(delivery=row),
        ("", "1:42", 5, outbox.REPEATED),
    ),
    "resolved": (
        lambda row: uncertain_deliveries.resolved(delivery=row),
        ("", "", None, "x"),
    ),
}


@pytest.mark.parametrize("kind", RECORDS)
def test_results_of_a_search_are_recorded_while_the_claim_holds(
    put: Callable[..., Delivery], kind: str
) -> None:
    """In the row and in the object."""
    record, expected = RECORDS[kind]
    row, other = doubted(put)
    before = stored(other)
    assert record(row) in (True, None)
    assert (stored(row), held(row), stored(other)) == (expected, expected, before)
    Delivery.objects.filter(id=other.id).update(attempt=3)
    assert record(other) in (False, None)
    assert stored(other) == before

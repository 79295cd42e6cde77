"""The outbox: ordered, retried for a day, never sent twice unnoticed."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from core.conversations import outbox, uncertain_deliveries
from core.database.transactions import atomic_write
from core.models import ChannelAccount, Delivery

pytestmark = pytest.mark.django_db(transaction=True)
State = Delivery.State
Woken = list[tuple[str, int]]


@pytest.fixture
def put(account: ChannelAccount, woken: Woken) -> Any:
    """Return ``put("key")``: it adds a block; the conversation is ``c`` by default."""

    def make(key: str, conversation: str = "c") -> Delivery:
        with atomic_write():
            return outbox.enqueue(
                key=key,
                account_id=account.id,
                conversation=conversation,
                target={"chat": "42"},
                payload={"text": key},
            )

    return make


def unsaved(account: ChannelAccount, key: str, **columns: Any) -> Delivery:
    """Return a row of the outbox that is not stored, in a conversation of its own."""
    values = {"conversation": key, "target": {"chat": "42"}, "payload": {}, **columns}
    return Delivery(account=account, dedupe_key=key, **values)


def claimed(delivery: Delivery) -> Delivery:
    """Return ``delivery``, claimed by this process."""
    found = outbox.claim(delivery_id=delivery.id)
    assert found is not None
    return found


def fails(delivery: Delivery, **how: Any) -> Delivery:
    """Return ``delivery`` after a failure."""
    outbox.failed(
        delivery=delivery, **{"error": "no", "permanent": False, "retry_after": None, **how}
    )
    delivery.refresh_from_db()
    return delivery


def due_now(delivery: Delivery) -> None:
    """Make the waiting time of ``delivery`` end now."""
    Delivery.objects.filter(id=delivery.id).update(retry_at=Now() - timedelta(seconds=1))


def wait_seconds(delivery: Delivery) -> float:
    """Return how long ``delivery`` still waits, in seconds."""
    assert delivery.retry_at
    from core.database import transactions

    return (delivery.retry_at - transactions.now()).total_seconds()


def test_a_block_is_enqueued_once_a_key(put: Any, woken: Woken) -> None:
    first, again = put("run:1:0"), put("run:1:0")
    assert first == again
    assert woken == [("wake_delivery", first.id)]
    assert str(first) == "run:1:0 (pending)"


def test_blocks_of_a_conversation_leave_in_order_others_do_not_wait(put: Any, woken: Woken) -> None:
    first, second, other = put("1"), put("2"), put("3", "d")
    assert outbox.due() == [first.id, other.id]
    assert outbox.claim(delivery_id=second.id) is None
    sending = claimed(first)
    assert outbox.claim(delivery_id=first.id) is None
    assert outbox.claim(delivery_id=second.id) is None
    claimed(other)
    woken.clear()
    outbox.sent(delivery=sending, external_message_id="77")
    assert woken == [("wake_delivery", second.id)]
    first.refresh_from_db()
    assert (first.state, first.external_message_id) == (State.SENT, "77")
    woken.clear()
    outbox.sent(delivery=claimed(second), external_message_id="78")
    assert woken == []


def age(delivery: Delivery, *, hours: float) -> None:
    """Set the age of ``delivery``."""
    Delivery.objects.filter(id=delivery.id).update(created_at=Now() - timedelta(hours=hours))


def test_one_that_fails_waits_longer_each_time_and_is_given_up_after_a_day(put: Any) -> None:
    """By its age, at any number of tries."""
    row, waits = put("1"), []
    for _ in range(12):
        fails(claimed(row))
        row.refresh_from_db()
        assert outbox.claim(delivery_id=row.id) is None
        assert outbox.due() == []
        waits.append(round(wait_seconds(row)))
        due_now(row)
    assert waits == [1, 2, 5, 15, 60, 300, 300, 300, 300, 300, 300, 300]
    assert row.tries == 12
    age(row, hours=23.9)
    assert fails(claimed(row)).state == State.PENDING
    due_now(row)
    age(row, hours=24.1)
    assert fails(claimed(row), error="x" * 900).state == State.DEAD
    row.refresh_from_db()
    assert len(row.error) == 500


def test_time_in_which_the_gateway_was_off_does_not_count(put: Any) -> None:
    """It is tried for a day after the start; those behind it have no day of their own."""
    row, behind = put("1"), put("2")
    Delivery.objects.update(created_at=Now() - timedelta(days=3))
    assert fails(claimed(row)).state == State.PENDING
    due_now(row)
    assert fails(claimed(row)).state == State.PENDING
    due_now(row)
    Delivery.objects.filter(id=row.id).update(queued_at=Now() - timedelta(hours=25))
    assert fails(claimed(row)).state == State.DEAD
    assert fails(claimed(behind)).state == State.DEAD


def test_the_delivery_that_was_sent_when_the_machine_went_off_is_tried_again(put: Any) -> None:
    row = put("1")
    claimed(row)
    yesterday = Now() - timedelta(days=2)
    Delivery.objects.update(created_at=yesterday, claimed_at=yesterday, lease_until=yesterday)
    [found] = outbox.lost()
    assert in_doubt(found, repeatable=True).state == State.PENDING


def test_a_claim_is_no_try(put: Any) -> None:
    row = put("1")
    for _ in range(30):
        outbox.postpone(delivery=claimed(row), seconds=0)
    row.refresh_from_db()
    assert (row.state, row.tries, row.attempt) == (State.PENDING, 0, 30)
    assert wait_seconds(fails(claimed(row))) < 2


def test_a_delivery_sent_again_by_hand_has_a_day_of_its_own(put: Any) -> None:
    row = fails(claimed(put("1")))
    due_now(row)
    age(row, hours=50)
    assert fails(claimed(row)).state == State.DEAD
    assert outbox.retry(row.id)
    assert fails(claimed(row)).state == State.PENDING


def test_429_obeys_the_seconds_of_the_platform(put: Any) -> None:
    row = fails(claimed(put("1")), retry_after=126.0)
    assert 120 < wait_seconds(row) <= 126


def test_a_permanent_failure_is_dead_at_once_and_lets_the_next_one_go(put: Any) -> None:
    first, second = put("1"), put("2")
    assert fails(claimed(first), permanent=True).state == State.DEAD
    assert outbox.due() == [second.id]
    assert outbox.dead_count() == 1


def in_doubt(delivery: Delivery, **how: Any) -> Delivery:
    """Return ``delivery`` after a try with an unknown outcome."""
    outbox.unsure(delivery=delivery, **{"error": "no", "repeatable": False, **how})
    due_now(delivery)
    delivery.refresh_from_db()
    return delivery


def test_where_nothing_can_be_found_again_a_second_doubt_is_left_to_the_owner(put: Any) -> None:
    row = in_doubt(claimed(put("1")))
    assert (row.state, row.error) == (State.PENDING, f"{outbox.UNKNOWN} no")
    fails(claimed(row), retry_after=0.0)
    due_now(row)
    assert in_doubt(claimed(row)).state == State.UNCERTAIN
    assert outbox.dead_count() == 1


def test_where_it_can_be_found_it_stays_in_doubt_for_a_day(put: Any) -> None:
    row = put("1")
    for _ in range(15):
        row = in_doubt(claimed(row), after_id=7)
        assert row.state == State.PENDING
    outbox.unsure(delivery=claimed(row), error="no", repeatable=False, after_id=99)
    row.refresh_from_db()
    assert row.after_id == 7
    due_now(row)
    age(row, hours=25)
    assert in_doubt(claimed(row), after_id=7).state == State.UNCERTAIN
    assert outbox.retry(row.id)
    row.refresh_from_db()
    assert row.doubt_chat, "what was sent may still be found"


def test_a_message_that_was_found_is_known_before_it_is_recorded_as_sent(put: Any) -> None:
    """The search for another one of the chat must not write its text over it."""
    first, other = claimed(put("1", "c")), claimed(put("2", "d"))
    in_doubt(first, after_id=7)
    in_doubt(other, after_id=7)
    uncertain_deliveries.found(delivery=claimed(first), external_message_id="8")
    span = uncertain_deliveries.span(delivery=claimed(other), shares=lambda _: True)
    assert 8 not in span.unknown()[0]
    assert uncertain_deliveries.last_known(delivery=other, shares=lambda _: True) == 0


def unknown_ids(put: Any, *, known: str) -> tuple[list[int], bool]:
    """Return the ids to try for a message in doubt, before which no id was known."""
    first, other = claimed(put("1", "c")), claimed(put("2", "d"))
    in_doubt(first, after_id=0)
    outbox.sent(delivery=other, external_message_id=known)
    span = uncertain_deliveries.span(delivery=claimed(first), shares=lambda _: True)
    return span.unknown()


def test_where_no_id_was_known_the_search_begins_near_the_first_known_one(put: Any) -> None:
    """A bot that is new here may have a long history: its chat would wait for hours."""
    ids, complete = unknown_ids(put, known="50000")
    assert (len(ids), complete) == (uncertain_deliveries.MOST, False)
    assert ids[-1] == 49_999


def test_of_a_new_bot_all_ids_are_tried(put: Any) -> None:
    ids, complete = unknown_ids(put, known="9")
    assert (ids[:8], complete) == ([*range(1, 9)], True)


def test_the_last_known_message_id_is_that_at_the_claim(put: Any) -> None:
    """However long the delivery waited before: messages sent meanwhile are not candidates."""
    waiting = put("1", "c")
    age(waiting, hours=3)
    outbox.sent(delivery=claimed(put("2", "d")), external_message_id="8")
    found = claimed(Delivery.objects.get(id=waiting.id))
    assert uncertain_deliveries.last_known(delivery=found, shares=lambda _: True) == 8


def test_a_repeatable_delivery_is_tried_for_a_day(put: Any) -> None:
    row = put("1")
    for _ in range(15):
        row = in_doubt(claimed(row), repeatable=True)
        assert (row.state, row.doubt_chat) == (State.PENDING, "")
    age(row, hours=25)
    assert in_doubt(claimed(row), repeatable=True).state == State.DEAD


def test_while_one_is_in_doubt_nothing_else_begins_in_its_chat(put: Any) -> None:
    first, other = put("1", "c"), put("2", "d")
    in_doubt(claimed(first), after_id=7)
    assert outbox.claim(delivery_id=other.id) is None
    sending = claimed(first)
    assert outbox.claim(delivery_id=other.id) is None
    outbox.sent(delivery=sending, external_message_id="9")
    first.refresh_from_db()
    assert (first.state, first.external_message_id) == (State.PENDING, "9"), "to be closed"
    assert outbox.claim(delivery_id=other.id) is None
    closing = claimed(first)
    uncertain_deliveries.resolved(delivery=closing)
    outbox.sent(delivery=closing, external_message_id="9")
    first.refresh_from_db()
    assert first.state == State.SENT
    claimed(other)


def test_one_that_waits_for_a_search_reserves_no_time_to_send(put: Any) -> None:
    first, other, later = put("1", "c"), put("2", "d"), put("3", "e")
    in_doubt(claimed(first), after_id=7)
    asked: list[int] = []

    def ready(delivery: Delivery) -> bool:
        asked.append(delivery.id)
        return False

    Delivery.objects.filter(id=later.id).update(target={"chat": "43"})
    for each in (other, first, later):
        outbox.claim(delivery_id=each.id, ready=ready)
    assert asked == [first.id, later.id]


def test_a_search_waits_for_a_message_being_sent_in_its_chat(put: Any) -> None:
    first, other = put("1", "c"), put("2", "d")
    leaving, sending = claimed(first), claimed(other)
    in_doubt(leaving, after_id=7)
    assert outbox.claim(delivery_id=first.id) is None
    outbox.sent(delivery=sending, external_message_id="8")
    claimed(first)


def test_of_two_in_doubt_in_a_chat_the_older_one_is_searched_for_first(put: Any) -> None:
    first, other = claimed(put("1", "c")), claimed(put("2", "d"))
    in_doubt(first, after_id=7)
    in_doubt(other, after_id=7)
    assert outbox.claim(delivery_id=other.id) is None
    claimed(first)


def test_one_in_doubt_does_not_wait_for_an_edit_that_waits_for_it(put: Any, woken: Woken) -> None:
    first, other = put("1"), put("2")
    outbox.sent(delivery=claimed(first), external_message_id="7")
    leaving = claimed(other)
    outbox.change(delivery=Delivery.objects.get(id=first.id), payload={"text": "edited"})
    in_doubt(leaving, after_id=7)
    assert outbox.claim(delivery_id=first.id) is None
    assert other.id in outbox.due()
    woken.clear()
    outbox.sent(delivery=claimed(other), external_message_id="8")
    assert woken[0] == ("wake_delivery", other.id), "to be closed, before the edit"
    closing = claimed(other)
    uncertain_deliveries.resolved(delivery=closing)
    outbox.sent(delivery=closing, external_message_id="8")
    assert outbox.due() == [first.id]
    claimed(first)


def test_nothing_leaves_an_account_that_is_held_or_disabled(
    put: Any, account: ChannelAccount, woken: Woken
) -> None:
    row, behind = put("1"), put("2")
    outbox.hold(delivery=claimed(row), error="Unauthorized")
    assert outbox.due() == []
    assert outbox.claim(delivery_id=row.id) is None
    woken.clear()
    outbox.release(account_id=account.id)
    assert woken == [("wake_delivery", row.id)]
    outbox.sent(delivery=claimed(row), external_message_id="1")
    ChannelAccount.objects.update(enabled=False)
    assert outbox.claim(delivery_id=behind.id) is None


def test_the_first_success_makes_waiting_deliveries_due(
    put: Any, account: ChannelAccount, woken: Woken
) -> None:
    first, other = put("1", "c"), put("2", "d")
    fails(claimed(first))
    fails(claimed(other))
    woken.clear()
    outbox.resume(account_id=account.id)
    assert sorted(woken) == [("wake_delivery", first.id), ("wake_delivery", other.id)]
    claimed(first)


def test_the_delivery_of_a_dead_worker_is_found_when_its_lease_ran_out(put: Any) -> None:
    row = claimed(put("1"))
    assert outbox.lost() == []
    Delivery.objects.update(lease_until=Now() - timedelta(seconds=1))
    assert outbox.lost() == [row]


def test_a_late_sender_changes_nothing(put: Any) -> None:
    late = claimed(put("1"))
    in_doubt(late)
    again = claimed(late)
    outbox.sent(delivery=late, external_message_id="late")
    again.refresh_from_db()
    assert (again.state, again.external_message_id) == (State.SENDING, "")


@pytest.mark.parametrize("permanent", [True, False])
def test_the_owner_sends_a_dead_one_again_with_a_new_fence(put: Any, permanent: bool) -> None:
    old = claimed(put("1"))
    if permanent:
        fails(old, permanent=True)
    else:
        old = claimed(in_doubt(old))
        in_doubt(old)
    row = Delivery.objects.get()
    assert outbox.retry(row.id)
    assert not outbox.retry(row.id)
    new = claimed(row)
    assert new.attempt == row.attempt + 1
    outbox.sent(delivery=old, external_message_id="old")
    new.refresh_from_db()
    assert new.state == State.SENDING
    fails(new)
    assert new.state == State.PENDING


def test_the_owner_puts_a_dead_one_away(put: Any) -> None:
    row = put("1")
    assert not outbox.dismiss(row.id)
    fails(claimed(row), permanent=True)
    assert outbox.dismiss(row.id)
    assert outbox.dead_count() == 0


def test_d8_the_oldest_waiting_delivery_is_known(put: Any) -> None:
    assert outbox.oldest_pending_seconds() == 0
    row = put("1")
    Delivery.objects.update(created_at=Now() - timedelta(seconds=100))
    assert 99 < outbox.oldest_pending_seconds() < 120
    fails(claimed(row), retry_after=50.0)
    assert outbox.oldest_pending_seconds() == 0


def test_a_delivery_changed_while_being_sent_is_sent_again_as_an_edit(
    put: Any, woken: Woken
) -> None:
    leaving = claimed(put("a"))
    outbox.change(delivery=Delivery.objects.get(id=leaving.id), payload={"text": "b"})
    woken.clear()
    outbox.sent(delivery=leaving, external_message_id="7")
    now = Delivery.objects.get(id=leaving.id)
    assert (now.state, now.external_message_id, now.sent_at is None) == (State.PENDING, "7", False)
    assert woken == [("wake_delivery", leaving.id)]
    again = claimed(now)
    assert (again.payload, again.attempt) == ({"text": "b"}, 2)


def test_a_block_leaves_in_one_write_each_way(put: Any) -> None:
    block = put("a")
    Delivery.objects.update(payload={"text": "ü „ß“ 👍", "entities": [{"offset": 0, "x": 1.5}]})
    with CaptureQueriesContext(connection) as asked:
        leaving = claimed(block)
        outbox.sent(delivery=leaving, external_message_id="7")
    said = [each["sql"].split()[0] for each in asked]
    began = ["BEGIN", "UPDATE", "COMMIT"] if connection.vendor == "sqlite" else ["UPDATE"]
    assert said == ["SELECT", *began, *began, "SELECT"]
    assert Delivery.objects.get(id=block.id).state == State.SENT

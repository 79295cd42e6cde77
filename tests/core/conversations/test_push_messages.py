"""The outbox of notifications: claims, when a message is due, and how a sending ends."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from core.conversations import push_messages
from core.models import PushMessage, PushSubscription, User
from core.signals import wakeups

pytestmark = pytest.mark.django_db
State = PushMessage.State
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def ann() -> User:
    return User.objects.create(username="ann")


@pytest.fixture
def bob() -> User:
    return User.objects.create(username="bob")


@pytest.fixture(autouse=True)
def woken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the messages for which a worker is woken."""
    found: list[int] = []
    monkeypatch.setattr(wakeups, "push", found.append)
    return found


def browser(user: User, **fields: object) -> PushSubscription:
    number = PushSubscription.objects.count()
    endpoint = f"https://push.example/{number}"
    return PushSubscription.objects.create(user=user, endpoint=endpoint, **fields)


def waiting(where: PushSubscription, **fields: object) -> PushMessage:
    """Return a message that is due, unless ``fields`` say otherwise."""
    given: dict[str, object] = {
        "kind": "answer",
        "ref": str(PushMessage.objects.count()),
        "expires_at": timezone.now() + push_messages.LIFE,
        **fields,
    }
    return PushMessage.objects.create(subscription=where, **given)


def held(where: PushSubscription, **fields: object) -> PushMessage:
    """Return a claimed message."""
    found = push_messages.claim(waiting(where, **fields).pk)
    assert found is not None
    return found


def is_about(moment: datetime | None, expected: timedelta) -> bool:
    """Return whether ``moment`` is so far from now, within the time that a test takes."""
    return moment is not None and abs(moment - timezone.now() - expected) < 10 * SECOND


def stored(message: PushMessage) -> PushMessage:
    return PushMessage.objects.get(pk=message.pk)


def test_a_message_is_stored_once_for_each_browser_of_its_person(
    ann: User, bob: User, woken: list[int]
) -> None:
    mine = [browser(ann), browser(ann)]
    browser(bob)
    push_messages.enqueue(user_id=ann.pk, kind="reminder", ref="r")
    rows = list(PushMessage.objects.order_by("id"))
    assert [row.subscription for row in rows] == mine
    assert woken == [row.pk for row in rows]
    for row in rows:
        assert (row.kind, row.ref, row.state, row.attempt) == ("reminder", "r", State.PENDING, 0)
        assert is_about(row.retry_at, timedelta(seconds=2))
        assert is_about(row.expires_at, timedelta(hours=24))
    push_messages.enqueue(user_id=ann.pk, kind="reminder", ref="r")
    assert woken == [row.pk for row in rows]
    for kind, ref in (("answer", "r"), ("reminder", "s")):
        push_messages.enqueue(user_id=ann.pk, kind=kind, ref=ref)  # type: ignore[arg-type]  # two
    assert PushMessage.objects.count() == 6


def test_a_page_has_two_seconds_to_say_that_it_is_there(ann: User) -> None:
    push_messages.enqueue(user_id=browser(ann).user_id, kind="answer", ref="r")
    message = PushMessage.objects.get()
    wait = push_messages.due_in(message.pk)
    assert wait is not None
    assert 0 < wait <= 2
    assert push_messages.claim(message.pk) is None
    assert push_messages.due() == []


def test_a_message_is_due_after_its_own_wait_and_that_of_its_browser(ann: User) -> None:
    where = browser(ann)
    message = waiting(where)
    assert push_messages.due_in(message.pk) == 0.0
    for retry, hold, least in ((HOUR, MINUTE, 3590), (MINUTE, HOUR, 3590), (None, MINUTE, 50)):
        PushMessage.objects.update(retry_at=retry and timezone.now() + retry)
        PushSubscription.objects.update(held_until=timezone.now() + hold)
        wait = push_messages.due_in(message.pk)
        assert wait is not None
        assert least < wait <= least + 10
    PushMessage.objects.update(retry_at=timezone.now() - HOUR)
    PushSubscription.objects.update(held_until=None)
    assert push_messages.due_in(message.pk) == 0.0


def test_a_message_that_waits_for_another_one_is_looked_at_by_its_end(ann: User) -> None:
    where, elsewhere = browser(ann), browser(ann)
    first = held(where)
    second, other = waiting(where), waiting(elsewhere)
    assert push_messages.due_in(first.pk) is None
    assert push_messages.due_in(second.pk) is None
    assert push_messages.due_in(other.pk) == 0.0
    PushMessage.objects.filter(pk=first.pk).update(lease_until=timezone.now() - SECOND)
    assert push_messages.due_in(second.pk) == 0.0, "its worker is gone"
    PushMessage.objects.filter(pk=first.pk).update(
        state=State.SENT, lease_until=timezone.now() + HOUR
    )
    assert push_messages.due_in(second.pk) == 0.0, "it has ended"


def test_a_claim_has_the_browser_and_the_person_and_ends_after_a_minute(
    ann: User, django_assert_num_queries: Any
) -> None:
    message = held(browser(ann))
    with django_assert_num_queries(0):
        assert message.subscription.user.username == "ann"
    assert (message.state, message.attempt) == (State.SENDING, 1)
    assert is_about(message.lease_until, timedelta(seconds=60))
    assert message.lease_until is not None
    assert message.lease_until <= timezone.now() + timedelta(seconds=60)
    assert push_messages.claim(message.pk) is None
    assert stored(message).attempt == 1


@pytest.mark.parametrize("state", [each for each in State if each != State.PENDING])
def test_only_a_pending_message_is_claimed(ann: User, state: str) -> None:
    message = waiting(browser(ann), state=state)
    assert push_messages.claim(message.pk) is None
    assert (stored(message).state, stored(message).attempt) == (state, 0)
    assert push_messages.due_in(message.pk) is None


def test_a_browser_gets_one_message_at_a_time_and_none_while_it_is_held_back(ann: User) -> None:
    where = browser(ann)
    first, second = held(where), waiting(where, attempt=3)
    assert push_messages.claim(second.pk) is None
    found = stored(second)
    assert (found.state, found.attempt, found.lease_until) == (State.PENDING, 3, None)
    assert push_messages.claim(waiting(browser(ann)).pk) is not None
    PushMessage.objects.filter(pk=first.pk).update(lease_until=timezone.now() - SECOND)
    PushSubscription.objects.update(held_until=timezone.now() + MINUTE)
    assert push_messages.claim(second.pk) is None
    found = stored(second)
    assert (found.state, found.attempt, found.lease_until) == (State.PENDING, 3, None)
    PushSubscription.objects.update(held_until=timezone.now() - SECOND)
    assert push_messages.claim(second.pk) is not None


def test_a_message_that_has_lost_its_browser_is_removed(ann: User) -> None:
    where = browser(ann)
    message, other = waiting(where), waiting(browser(ann))
    PushSubscription.objects.filter(pk=where.pk)._raw_delete("default")
    assert push_messages.claim(message.pk) is None
    assert list(PushMessage.objects.all()) == [other]


def test_a_message_that_was_sent_ends_the_failures_of_its_browser_and_wakes_the_next(
    ann: User, woken: list[int]
) -> None:
    where = browser(ann, failures=4, held_until=timezone.now() - SECOND)
    other = browser(ann, failures=3)
    waiting(where, state=State.DEAD)
    waiting(other)
    running = held(browser(ann))
    message, following = held(where), waiting(where, retry_at=timezone.now() + HOUR)
    waiting(where)
    push_messages.sent(message)
    assert stored(running).state == State.SENDING
    found = stored(message)
    assert (found.state, found.lease_until) == (State.SENT, None)
    assert is_about(found.sent_at, timedelta(0))
    where.refresh_from_db()
    other.refresh_from_db()
    assert (where.failures, where.held_until) == (0, None)
    assert is_about(where.succeeded_at, timedelta(0))
    assert (other.failures, other.succeeded_at) == (3, None)
    assert woken == [following.pk]


@pytest.mark.parametrize("name", ["seen", "stale"])
def test_a_message_that_is_not_sent_wakes_the_next_too(
    ann: User, woken: list[int], name: str
) -> None:
    where = browser(ann, failures=4)
    message, following = held(where), waiting(where)
    getattr(push_messages, name)(message)
    found = stored(message)
    assert (found.state, found.lease_until) == (name, None)
    where.refresh_from_db()
    assert (where.failures, where.succeeded_at) == (4, None)
    assert woken == [following.pk]


def test_a_claim_that_was_lost_changes_nothing(ann: User, woken: list[int]) -> None:
    where = browser(ann, failures=push_messages.MOST_FAILURES - 1)
    message = held(where)
    waiting(where)
    for change in ({"attempt": 2}, {"attempt": 1, "state": State.PENDING}):
        PushMessage.objects.filter(pk=message.pk).update(**change)
        before = PushMessage.objects.filter(pk=message.pk).values().get()
        for end in (push_messages.sent, push_messages.seen, push_messages.stale):
            end(message)
        push_messages.refused(message, error="x")
        push_messages.again(message, error="x", seconds=60, timed_out=True)
        assert PushMessage.objects.filter(pk=message.pk).values().get() == before
    where.refresh_from_db()
    found = (where.failures, where.held_until, where.succeeded_at)
    assert found == (push_messages.MOST_FAILURES - 1, None, None)
    assert woken == []


def test_a_browser_that_refuses_ten_messages_in_a_row_is_forgotten(
    ann: User, woken: list[int]
) -> None:
    where, other = browser(ann), browser(ann, failures=40)
    for number in range(1, 10):
        message = held(where)
        push_messages.refused(message, error="e" * 300)
        found = stored(message)
        assert (found.state, found.error, found.lease_until) == (State.DEAD, "e" * 200, None)
        where.refresh_from_db()
        assert where.failures == number
    message, following = held(where), waiting(where)
    push_messages.refused(message, error="x")
    assert woken == [following.pk]
    assert list(PushSubscription.objects.all()) == [other]
    assert not PushMessage.objects.exists()


def test_a_fault_of_the_gateway_counts_against_no_browser(ann: User) -> None:
    where = browser(ann, failures=9)
    soon = timezone.now() + SECOND
    assert (
        push_messages.again(
            message := held(where, expires_at=soon), error="x", seconds=None, is_ours=True
        )
        is None
    )
    assert (stored(message).state, stored(message).error) == (State.DEAD, "x")
    where.refresh_from_db()
    assert where.failures == 9
    assert push_messages.again(held(where), error="x", seconds=None, is_ours=True) == 5.0


@pytest.mark.parametrize(
    ("tries", "seconds", "wait"),
    [
        *((0, None, 5), (1, None, 15), (2, None, 60), (3, None, 300), (4, None, 900)),
        *((5, None, 3600), (6, None, 3600), (99, None, 3600)),
        *((0, 4.0, 5), (0, 0.0, 5), (0, 70.5, 70.5), (2, 61.0, 61), (0, 9999.0, 3600)),
    ],
)
def test_a_message_is_tried_again_after_growing_waits_or_as_the_service_says(
    ann: User, woken: list[int], tries: int, seconds: float | None, wait: float
) -> None:
    """The browser gets nothing meanwhile; its other messages are not woken."""
    where, other = browser(ann, failures=7), browser(ann)
    message = held(where, tries=tries)
    waiting(where)
    assert push_messages.again(message, error="e" * 300, seconds=seconds) == wait
    found = stored(message)
    assert (found.state, found.tries, found.error) == (State.PENDING, tries + 1, "e" * 200)
    assert (found.lease_until, found.attempt) == (None, 1)
    where.refresh_from_db()
    other.refresh_from_db()
    for moment in (found.retry_at, where.held_until):
        assert is_about(moment, timedelta(seconds=wait))
    assert (where.failures, other.held_until) == (7, None)
    assert woken == []


def test_the_waits_of_a_browser_that_is_silent_grow_over_its_messages(ann: User) -> None:
    where = browser(ann, failures=2)
    message = held(where)
    assert push_messages.again(message, error="x", seconds=None, timed_out=True) == 60.0
    where.refresh_from_db()
    assert where.failures == 3
    PushSubscription.objects.update(held_until=None)
    message = held(where, tries=4)
    assert push_messages.again(message, error="x", seconds=None, timed_out=True) == 900.0
    PushSubscription.objects.update(held_until=None)
    assert push_messages.again(held(where), error="x", seconds=None) == 5.0


@pytest.mark.parametrize(("left", "wait"), [(3, None), (7, 5.0)])
def test_a_message_that_would_be_too_old_by_then_is_given_up(
    ann: User, woken: list[int], left: int, wait: float | None
) -> None:
    where = browser(ann)
    message = held(where, expires_at=timezone.now() + timedelta(seconds=left))
    following = waiting(where)
    assert push_messages.again(message, error="x", seconds=None) == wait
    where.refresh_from_db()
    if wait is None:
        assert (stored(message).state, stored(message).error) == (State.DEAD, "x")
        assert (where.failures, where.held_until) == (1, None)
        assert woken == [following.pk]
    else:
        assert (stored(message).state, where.failures, woken) == (State.PENDING, 0, [])


def test_a_restored_database_announces_nothing_of_before(ann: User) -> None:
    where = browser(ann)
    sending, pending = held(where), waiting(where, retry_at=timezone.now())
    others = {
        each: waiting(where, state=each, retry_at=timezone.now()) for each in ("sent", "dead")
    }
    assert push_messages.drop_unsent() == 2
    for message in (sending, pending):
        assert (stored(message).state, stored(message).retry_at) == (State.STALE, None)
    for state, message in others.items():
        assert (stored(message).state, stored(message).retry_at) == (state, message.retry_at)
    assert push_messages.claim(waiting(where).pk) is not None, "the lease of before is void"
    PushMessage.objects.filter(pk=sending.pk).update(lease_until=timezone.now() - SECOND)
    push_messages.due()
    assert stored(sending).state == State.STALE


def test_a_message_whose_worker_is_gone_is_due_again(ann: User) -> None:
    message, running = held(browser(ann)), held(browser(ann))
    assert push_messages.due() == []
    PushMessage.objects.filter(pk=message.pk).update(lease_until=timezone.now() - SECOND)
    assert push_messages.due() == [message.pk]
    found = stored(message)
    assert (found.state, found.lease_until, found.attempt) == (State.PENDING, None, 1)
    assert stored(running).state == State.SENDING


@pytest.mark.parametrize(
    ("attempt", "tries", "state"),
    [(4, 0, State.PENDING), (5, 0, State.DEAD), (9, 5, State.PENDING), (10, 5, State.DEAD)],
)
def test_a_message_of_which_five_sendings_had_no_end_is_given_up(
    ann: User, attempt: int, tries: int, state: str
) -> None:
    where = browser(ann)
    message = waiting(
        where,
        state=State.SENDING,
        attempt=attempt,
        tries=tries,
        lease_until=timezone.now() - SECOND,
    )
    after = waiting(where)
    alive = waiting(
        browser(ann), state=State.SENDING, attempt=50, lease_until=timezone.now() + MINUTE
    )
    assert push_messages.due() == [after.pk if state == State.DEAD else message.pk]
    assert (stored(message).state, stored(message).lease_until) == (state, None)
    assert stored(alive).state == State.SENDING


def test_of_each_browser_the_first_due_message_is_due(ann: User) -> None:
    where, elsewhere, back = browser(ann), browser(ann), browser(ann)
    later = timezone.now() + MINUTE
    waiting(where, retry_at=later)
    waiting(where, state=State.SENT)
    first = waiting(where, retry_at=timezone.now() - SECOND)
    waiting(where)
    other = waiting(elsewhere)
    PushSubscription.objects.filter(pk=elsewhere.pk).update(held_until=timezone.now() - SECOND)
    PushSubscription.objects.filter(pk=back.pk).update(held_until=later)
    waiting(back)
    assert push_messages.due() == [first.pk, other.pk]


def test_people_with_many_browsers_are_served_in_turn_with_others(
    ann: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [waiting(browser(ann)).pk for _ in range(3)]
    few = [waiting(browser(bob)).pk for _ in range(2)]
    assert push_messages.due() == [many[0], few[0], many[1], few[1], many[2]]
    monkeypatch.setattr(push_messages, "DUE_AT_ONCE", 2)
    assert push_messages.due() == [many[0], few[0]]


def test_two_thousand_browsers_are_looked_at_at_once() -> None:
    assert push_messages.firsts().query.high_mark == 2000


def test_waits_that_a_clock_left_in_the_far_future_end_soon(ann: User) -> None:
    where, near = browser(ann), browser(ann)
    far, soon = timezone.now() + timedelta(days=9), timezone.now() + 30 * SECOND
    sending = waiting(where, state=State.SENDING, lease_until=far, retry_at=far, expires_at=far)
    pending = waiting(where, lease_until=far, retry_at=far, expires_at=far)
    kept = waiting(near, retry_at=soon)
    PushSubscription.objects.filter(pk=where.pk).update(held_until=far)
    PushSubscription.objects.filter(pk=near.pk).update(held_until=soon)
    push_messages.bring_near()
    assert is_about(stored(sending).lease_until, timedelta(seconds=60))
    assert is_about(stored(pending).retry_at, HOUR)
    for message in (sending, pending):
        assert is_about(stored(message).expires_at, timedelta(hours=24))
    where.refresh_from_db()
    near.refresh_from_db()
    assert is_about(where.held_until, HOUR)
    assert (near.held_until, stored(kept).retry_at) == (soon, soon)


def test_messages_are_removed_after_their_time_but_for_one_that_is_being_sent(ann: User) -> None:
    past = timezone.now() - SECOND
    where = browser(ann)
    old = [waiting(where, state=each, expires_at=past) for each in State]
    new = waiting(where)
    assert push_messages.purge() == len(old) - 1
    assert [each.state for each in PushMessage.objects.order_by("id")] == [State.SENDING, "pending"]
    assert push_messages.purge() == 0
    assert stored(new).state == State.PENDING

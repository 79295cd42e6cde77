"""The outbox's transitions, each with all that it writes, and with what it leaves alone."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from core.conversations import outbox
from core.database import transactions
from core.database.transactions import atomic_write
from core.lib.leases import OWN_LEASE, elapsed
from core.models import (
    Assistant,
    AssistantBinding,
    ChannelAccount,
    ChatSession,
    Delivery,
    Run,
    Schedule,
    ToolRule,
    User,
)
from tests.core.conversations.test_outbox import (
    Woken,
    claimed,
    due_now,
    in_doubt,
    unsaved,
    wait_seconds,
)

pytestmark = pytest.mark.django_db(transaction=True)
State = Delivery.State
WAITS: dict[str, Any] = {"tries": 3, "error": "no", "retry_at": Now() + timedelta(hours=1)}


@pytest.fixture
def put(account: ChannelAccount, woken: Woken) -> Any:
    """Return ``put("key")``, with any columns of the row: it adds a block, to a day-old outbox."""

    def make(key: str, **columns: Any) -> Delivery:
        with atomic_write():
            row = outbox.enqueue(
                key=key,
                account_id=account.id,
                conversation=columns.pop("conversation", key),
                target={"chat": "42"},
                payload={"text": key},
            )
        day_ago = Now() - timedelta(hours=23)
        values = {"created_at": day_ago, "queued_at": day_ago, **columns}
        Delivery.objects.filter(id=row.id).update(**values)
        row.refresh_from_db()
        woken.clear()
        return row

    return make


def columns_of(delivery: Delivery, *names: str) -> tuple[Any, ...]:
    """Return columns as they are stored."""
    found: tuple[Any, ...] = Delivery.objects.values_list("state", *names).get(id=delivery.id)
    return found


def is_new(delivery: Delivery) -> bool:
    """Return whether the retry period of ``delivery`` has just begun."""
    (queued_at,) = Delivery.objects.values_list("queued_at").get(id=delivery.id)[:1]
    assert queued_at is not None
    return bool(transactions.now() - queued_at < timedelta(minutes=1))


def test_the_lease_of_a_sending_is_renewed_by_its_own_attempt(put: Any) -> None:
    row = claimed(put("a"))
    lease = row.lease
    assert lease is not None
    long = timedelta(seconds=settings.DELIVERY_LEASE_SECONDS)
    ended = lease.until = elapsed() - 1
    Delivery.objects.update(lease_until=Now())
    assert outbox.keep(delivery=row) is True
    assert lease.until - elapsed() == pytest.approx(lease.seconds, abs=5)
    (until,) = columns_of(row, "lease_until")[1:]
    assert abs(until - transactions.now() - long) < timedelta(seconds=5)
    Delivery.objects.update(attempt=F("attempt") + 1, lease_until=None)
    lease.until = ended
    assert outbox.keep(delivery=row) is False
    assert (lease.until, columns_of(row, "lease_until")) == (ended, (State.SENDING, None))
    row.lease = None  # of a row that was read, not claimed
    assert outbox.keep(delivery=row) is False


def test_c9_the_rest_of_an_answer_waits_behind_its_first_message(
    put: Any, session: ChatSession, account: ChannelAccount
) -> None:
    """Of an answer that is written, also when its group has another id by now; an edit is no
    message more.
    """
    other = ChatSession.objects.create(user=session.user, account=account, chat="43")
    done, going_on, held = (
        Run.objects.create(session=session, user=session.user, state=state)
        for state in ("succeeded", "running", "held")
    )
    given: dict[str, Any] = {"session": session, "run": done}
    rows = [put(key, **given, block_index=index) for index, key in enumerate("abc")]
    put("sending", **given, block_index=3, state=State.SENDING)
    put("edit", **given, block_index=4, external_message_id="7")
    put("elsewhere", run=done, session=other, block_index=5)
    for run in (going_on, held):
        put(run.state, session=session, run=run, block_index=1)
    assert list(outbox.rest_of_answers(session).order_by("id")) == rows[1:]


def test_a_block_is_stored_with_its_place_and_its_run(
    account: ChannelAccount, session: ChatSession, woken: Woken
) -> None:
    run = Run.objects.create(session=session, user=session.user)
    with atomic_write():
        row = outbox.enqueue_in_chat(
            key="k",
            account_id=account.id,
            chat="42",
            thread="t",
            payload={"text": "a"},
            session_id=session.id,
            run_id=run.id,
            block_index=3,
        )
        plain = outbox.enqueue_in_chat(key="l", account_id=account.id, chat="4", payload={})
    names = ("account", "target", "payload", "session", "run", "block_index", "conversation")
    target = {"chat": "42", "thread": "t", "reply_to": ""}
    place = f"{account.id}:42:t"
    assert columns_of(row, *names) == (
        *(State.PENDING, account.id, target, {"text": "a"}, session.id, run.id, 3, place),
    )
    assert columns_of(plain, "session", "run", "block_index") == (State.PENDING, None, None, 0)
    assert plain.target == {"chat": "4", "thread": "", "reply_to": ""}
    assert plain.conversation == f"{account.id}:4:"


def test_a_sent_block_that_changes_is_queued_anew_as_an_edit(put: Any, woken: Woken) -> None:
    """The same payload too: a later message may have changed what is shown."""
    for payload in ({"text": "b"}, {"text": "1"}):
        Delivery.objects.all().delete()
        row = put("1", state=State.SENT, external_message_id="7", **WAITS)
        with atomic_write():
            outbox.change(delivery=row, payload=payload)
        names = ("external_message_id", "payload", "retry_at", "error", "tries")
        assert columns_of(row, *names) == (State.PENDING, "7", payload, None, "", 0)
        assert is_new(row)
        assert row.payload == payload
        assert woken == [("wake_delivery", row.id)]


def test_an_unchanged_block_that_waits_is_left_alone(put: Any, woken: Woken) -> None:
    row = put("1", **WAITS)
    with atomic_write():
        outbox.change(delivery=row, payload={"text": "1"})
    assert (columns_of(row, "tries"), woken, is_new(row)) == ((State.PENDING, 3), [], False)


def test_blocks_that_an_answer_lost_are_dismissed_or_deleted(
    put: Any, session: ChatSession
) -> None:
    """Dismissed where they were surely never sent; those that were given up stay."""
    run, other = (Run.objects.create(session=session, user=session.user) for _ in range(2))
    kinds: list[dict[str, Any]] = [
        {"state": State.SENT, "external_message_id": "1"},
        {},
        {"state": State.SENT, "external_message_id": "2"},
        {"state": State.SENDING, "attempt": 1},
        {"state": State.DEAD},
        {"external_message_id": "3"},
        {"doubt_chat": "1:42", "after_id": 7},
    ]
    rows = [put(str(n), run=run, block_index=n, **kind) for n, kind in enumerate(kinds)]
    of_other = put("other", run=other, block_index=5)
    with atomic_write():
        outbox.retract(run_id=run.id, from_index=7)
        assert not Delivery.objects.filter(payload__kind="delete").exists()
        outbox.retract(run_id=run.id, from_index=1)
    gone: dict[str, Any] = {"kind": "delete"}
    assert [columns_of(row, "payload") for row in (*rows, of_other)] == [
        (State.SENT, {"text": "0"}),
        (State.DISMISSED, {"text": "1"}),
        (State.PENDING, gone),
        (State.SENDING, gone),
        (State.DEAD, {"text": "4"}),
        (State.PENDING, gone),
        (State.PENDING, gone),
        (State.PENDING, {"text": "other"}),
    ]
    with atomic_write():
        assert outbox.take_back(Delivery.objects.filter(run=other)) == 1


def test_a_claim_is_a_lease_that_its_holder_ends_earlier(
    put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "elapsed", lambda: 5.0)
    row = claimed(put("1"))
    seconds = settings.DELIVERY_LEASE_SECONDS
    assert row.lease is not None
    assert (row.lease.seconds, row.lease.until) == (seconds * OWN_LEASE, 5 + seconds * OWN_LEASE)
    stored = Delivery.objects.get()
    assert stored.lease_until is not None
    left = (stored.lease_until - transactions.now()).total_seconds()
    assert seconds - 5 < left <= seconds


def test_a_claim_sees_changes_since_it_was_read(put: Any) -> None:
    """Another worker took it; an earlier message of its conversation is to be edited."""
    earlier = put("0", conversation="c", state=State.SENT, external_message_id="1")
    row = put("1", conversation="c")

    def taken(delivery: Delivery) -> bool:
        return bool(Delivery.objects.filter(id=delivery.id).update(attempt=F("attempt") + 1))

    def edited(_: Delivery) -> bool:
        return bool(Delivery.objects.filter(id=earlier.id).update(state=State.PENDING))

    assert outbox.claim(delivery_id=row.id, ready=taken) is None
    assert outbox.claim(delivery_id=row.id, ready=edited) is None
    assert columns_of(row, "attempt") == (State.PENDING, 1)
    assert not outbox.is_held_up(row)


@pytest.mark.parametrize(
    "change",
    [
        {"retry_at": Now() + timedelta(minutes=1)},
        {"state": State.DEAD},
        {"state": State.SENDING},
    ],
    ids=["postponed", "given up", "taken"],
)
def test_a_claim_sees_changes_of_the_delivery(put: Any, change: dict[str, Any]) -> None:
    row = put("1")

    def changed(delivery: Delivery) -> bool:
        return bool(Delivery.objects.filter(id=delivery.id).update(**change))

    assert outbox.claim(delivery_id=row.id, ready=changed) is None
    assert columns_of(row, "attempt") == (change.get("state", State.PENDING), 0)


@pytest.mark.parametrize("in_doubt", [False, True])
def test_a_claim_sees_a_doubt_in_its_chat(put: Any, in_doubt: bool) -> None:
    """One in doubt itself waits for the older ones only."""
    older, row, later, other = put("0"), put("1"), put("2"), put("3")
    place = outbox.chat_of(row)
    own = {"doubt_chat": place, "after_id": 7} if in_doubt else {}
    Delivery.objects.filter(id=other.id).update(target={"chat": "43"}, doubt_chat="1:43")
    Delivery.objects.filter(id=row.id).update(**own)

    def doubted(delivery: Delivery) -> Any:
        def change(_: Delivery) -> bool:
            return bool(Delivery.objects.filter(id=delivery.id).update(doubt_chat=place))

        return change

    assert outbox.claim(delivery_id=row.id, ready=doubted(older)) is None
    Delivery.objects.filter(id=older.id).update(doubt_chat="")
    found = outbox.claim(delivery_id=row.id, ready=doubted(later))
    assert (found is not None) is in_doubt


def test_a_message_waits_for_the_search_for_a_later_one_of_its_chat(put: Any) -> None:
    first, second = put("1"), put("2")
    in_doubt(claimed(second), after_id=7)
    asked: list[Delivery] = []

    def ready(delivery: Delivery) -> bool:
        asked.append(delivery)
        return False

    assert outbox.claim(delivery_id=first.id, ready=ready) is None
    assert asked == []


def test_the_chat_of_a_delivery_fits_its_column() -> None:
    assert outbox.chat_of(Delivery(account_id=1, target={})) == "1:"
    assert outbox.chat_of(Delivery(account_id=1, target={"chat": "c" * 200})) == "1:" + "c" * 158


def test_a_sent_delivery_is_not_changed_by_the_same_attempt(put: Any) -> None:
    """As by a worker that reports twice."""
    row = claimed(put("1"))
    outbox.sent(delivery=row, external_message_id="7")
    outbox.failed(delivery=row, error="late", permanent=True, retry_after=None)
    outbox.gone(delivery=row)
    assert columns_of(row, "external_message_id", "error") == (State.SENT, "7", "")


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize("changed", [True, False])
def test_a_possible_repeat_is_told_of_and_no_other(put: Any, again: bool, changed: bool) -> None:
    row = claimed(put("1", **{**WAITS, "retry_at": None}))
    row.may_repeat = again
    if changed:
        Delivery.objects.update(payload={"text": "new"})
    outbox.sent(delivery=row, external_message_id="7")
    names = ("error", "doubt_chat", "tries", "lease_until", "retry_at")
    state = State.PENDING if changed else State.SENT
    assert columns_of(row, *names) == (state, outbox.REPEATED if again else "", "", 0, None, None)


@pytest.mark.parametrize("settles", [True, False])
def test_a_doubt_ends_when_it_is_settled(put: Any, settles: bool) -> None:
    """Else it goes on: the new id ends the ids among which an earlier message may be."""
    row = in_doubt(claimed(put("1")), after_id=7)
    place, row = row.doubt_chat, claimed(row)
    row.settles_doubt = settles
    outbox.sent(delivery=row, external_message_id="9")
    names = ("doubt_chat", "tries", "lease_until", "retry_at", "external_message_id")
    known = (State.SENT, "") if settles else (State.PENDING, place)
    assert columns_of(row, *names) == (*known, 0, None, None, "9")


def test_a_failed_wake_up_leaves_a_sent_message_sent(
    put: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error here would be taken for a failed sending, and what else waits is called."""

    def broken(_: Delivery) -> None:
        raise ConnectionError

    monkeypatch.setattr(outbox, "wake_following", broken)
    first, second, others = claimed(put("1")), claimed(put("2")), list[str]()
    outbox.sent(delivery=first, external_message_id="7")
    with atomic_write():
        outbox.sent(delivery=second, external_message_id="8")
        transactions.after_commit(others.append, "too")
    assert (columns_of(first), columns_of(second), others) == (
        (State.SENT,),
        (State.SENT,),
        ["too"],
    )


def test_a_postponed_delivery_waits_for_its_time(put: Any) -> None:
    row = claimed(put("1"))
    outbox.postpone(delivery=row, seconds=50.0)
    row.refresh_from_db()
    assert 40 < wait_seconds(row) <= 50
    due_now(row)
    outbox.postpone(delivery=claimed(row), seconds=0)
    assert columns_of(row, "lease_until", "retry_at", "tries") == (State.PENDING, None, None, 0)


def test_an_edit_of_a_message_that_is_gone_is_a_new_one(put: Any) -> None:
    row = claimed(put("1", external_message_id="7"))
    outbox.gone(delivery=row)
    assert columns_of(row, "external_message_id", "lease_until") == (State.PENDING, "", None)


def test_a_permanent_failure_ends_a_doubt(put: Any) -> None:
    row = in_doubt(claimed(put("1")), after_id=7)
    outbox.failed(delivery=claimed(row), error="no", permanent=True, retry_after=None)
    assert columns_of(row, "doubt_chat", "tries", "lease_until") == (State.DEAD, "", 2, None)


def test_a_failure_gives_its_lease_back(put: Any) -> None:
    row = claimed(put("1"))
    outbox.failed(delivery=row, error="x" * 900, permanent=False, retry_after=None)
    assert columns_of(row, "lease_until", "error", "tries") == (State.PENDING, None, "x" * 500, 1)


def test_a_delivery_left_to_the_owner_may_be_found_when_it_is_sent_again(put: Any) -> None:
    """From the id that was known before its first try."""
    row = in_doubt(claimed(put("1")), after_id=7)
    day = timedelta(hours=settings.DELIVERY_RETRY_HOURS + 1)
    for first, after_id, kept in ((7, 9, 7), (None, 9, 9)):
        Delivery.objects.update(queued_at=Now() - day, after_id=first, state=State.PENDING, tries=0)
        row.refresh_from_db()
        again = claimed(row)
        given: dict[str, Any] = {"repeatable": False, "after_id": after_id}
        assert outbox.unsure(delivery=again, error="x" * 900, **given) is None
        error = f"{outbox.UNKNOWN} {'x' * 900}"[:500]
        names = ("after_id", "error", "tries", "lease_until", "doubt_chat")
        assert columns_of(row, *names) == (State.UNCERTAIN, kept, error, 1, None, "")


@pytest.mark.parametrize(("at_once", "seconds"), [({"at_once": True}, 0.0), ({}, 1.0)])
def test_a_doubt_is_a_try_and_waits_as_one(put: Any, at_once: Any, seconds: float) -> None:
    row = claimed(put("1"))
    given: dict[str, Any] = {"error": "", "repeatable": True, **at_once}
    assert outbox.unsure(delivery=row, **given) == seconds
    row.refresh_from_db()
    assert columns_of(row, "tries", "lease_until") == (State.PENDING, 1, None)
    assert (row.retry_at is None) == bool(at_once)
    assert not row.retry_at or 0 < wait_seconds(row) <= 1


def test_a_held_delivery_waits_for_its_account_alone(put: Any, account: ChannelAccount) -> None:
    row = claimed(put("1"))
    outbox.hold(delivery=row, error="x" * 900)
    assert columns_of(row, "retry_at", "tries", "error") == (State.PENDING, None, 1, "x" * 500)
    account.refresh_from_db()
    assert account.deliveries_held == "x" * 300


def test_a_success_makes_waiting_deliveries_of_its_account_due_and_no_others(
    put: Any, account: ChannelAccount, woken: Woken
) -> None:
    other = ChannelAccount.objects.create(channel="platform", name="other")
    waiting = put("1", **WAITS)
    rest = [
        put("2", **WAITS, account=other),
        put("3", **WAITS, state=State.DEAD),
        put("4", **{**WAITS, "tries": 0}),
    ]
    outbox.resume(account_id=account.id)
    assert woken == [("wake_delivery", waiting.id)]
    assert columns_of(waiting, "retry_at") == (State.PENDING, None)
    assert all(columns_of(row, "retry_at")[1] is not None for row in rest)


def test_the_edit_of_a_sent_message_is_repeated_and_nothing_else(put: Any, woken: Woken) -> None:
    sent = {"state": State.SENT, "external_message_id": "7"}
    row, other = put("1", **sent), put("2", **sent)
    rest = [put("3", state=State.SENT), put("4", **{**sent, "state": State.DEAD}), other]
    for each in (row, *rest[:2]):
        outbox.repeat(delivery_id=each.id)
    assert (columns_of(row), is_new(row)) == ((State.PENDING,), True)
    assert woken == [("wake_delivery", row.id)]
    assert [columns_of(each)[0] for each in rest] == [State.SENT, State.DEAD, State.SENT]


def test_the_owner_decides_on_one_delivery_at_a_time(put: Any, woken: Woken) -> None:
    failed = {"state": State.DEAD, **WAITS}
    first, row, third, sent = put("1", **failed), put("2", **failed), put("3", **failed), put("4")
    assert outbox.retry(row.id)
    names = ("retry_at", "error", "tries", "doubt_chat")
    assert columns_of(row, *names) == (State.PENDING, None, "", 0, "")
    assert (is_new(row), woken) == (True, [("wake_delivery", row.id)])
    assert outbox.dismiss(third.id)
    assert not outbox.dismiss(sent.id)
    assert not outbox.retry(sent.id)
    assert (columns_of(first)[0], columns_of(third)[0]) == (State.DEAD, State.DISMISSED)


def test_a_claimed_delivery_knows_its_run_and_its_chat(
    put: Any, session: ChatSession, account: ChannelAccount
) -> None:
    """They are in the log lines of what happens to it."""
    run = Run.objects.create(session=session, user=session.user)
    row = claimed(put("1", run=run, session=session))
    known: Any = row
    assert known.run_public_id == run.public_id
    assert known.session_public_id == session.public_id
    assert row.account == account
    assert claimed(put("2")).run is None


def test_the_next_delivery_that_is_woken_is_of_the_same_conversation(
    put: Any, woken: Woken
) -> None:
    """An older one of another conversation waits for its own time."""
    put("other", conversation="d", retry_at=Now() + timedelta(hours=1))
    first, second, third = (put(key, conversation="c") for key in "123")
    Delivery.objects.filter(id=second.id).update(state=State.DEAD)
    outbox.sent(delivery=claimed(first), external_message_id="1")
    assert woken == [("wake_delivery", third.id)]


def test_a_bounded_number_of_waiting_deliveries_is_woken_the_oldest_first(
    put: Any, account: ChannelAccount, woken: Woken
) -> None:
    first = put("1", **WAITS)
    rest = Delivery.objects.bulk_create(unsaved(account, f"r{n}", tries=1) for n in range(200))
    outbox.resume(account_id=account.id)
    ids = Delivery.objects.order_by("id").values_list("id", flat=True)[:200]
    assert [number for _, number in woken] == [*ids]
    assert (ids[0], rest[-1].id in ids) == (first.id, False)


@pytest.mark.parametrize(("minutes", "is_too_old"), [(29, True), (31, False)])
@pytest.mark.parametrize("by_neighbour", [True, False])
def test_the_gateway_was_off_when_nothing_of_the_conversation_was_tried_for_half_an_hour(
    put: Any, minutes: int, is_too_old: bool, by_neighbour: bool
) -> None:
    row, other = put("1", conversation="c"), put("2", conversation="c", state=State.SENT)
    put("3", conversation="d", state=State.SENT, claimed_at=Now())
    row = claimed(row)
    long_ago = Now() - timedelta(days=2)
    Delivery.objects.filter(id=row.id).update(queued_at=long_ago, claimed_at=long_ago)
    tried = other if by_neighbour else row
    ago = Now() - timedelta(minutes=minutes)
    Delivery.objects.filter(id=tried.id).update(claimed_at=ago)
    row.queued_at = transactions.now() - timedelta(days=2)
    row.claimed_at = None
    if not by_neighbour:
        row.claimed_at = transactions.now() - timedelta(minutes=minutes)
    assert outbox.is_too_old(row) is is_too_old
    assert is_new(row) is not is_too_old


def test_words_about_a_doubt(put: Any) -> None:
    """The owner reads them."""
    row = claimed(put("1"))
    outbox.unsure(delivery=row, error="cut", repeatable=False, after_id=7)
    said = "The outcome of an earlier try is unknown."
    assert columns_of(row, "error") == (State.PENDING, f"{said} cut")
    assert outbox.REPEATED == "The outcome of an earlier try is unknown; it was sent again."


def verbs(asked: CaptureQueriesContext) -> list[str]:
    """Return the first words of the statements, without those of transactions."""
    first = [each["sql"].split()[0] for each in asked]
    return [each for each in first if each not in {"BEGIN", "COMMIT"}]


def test_a_claim_is_one_read_and_one_write_where_nothing_of_its_account_is_in_doubt(
    put: Any, account: ChannelAccount
) -> None:
    """With its account. One in doubt, or beside one, asks once more."""
    first, row, second = put("0"), put("1"), put("2")
    with CaptureQueriesContext(connection) as asked:
        assert claimed(row).account == account
    assert verbs(asked) == ["SELECT", "UPDATE"]
    in_doubt(claimed(first), after_id=7)
    outbox.sent(delivery=Delivery.objects.get(id=row.id), external_message_id="1")
    with CaptureQueriesContext(connection) as asked:
        claimed(first)
    assert verbs(asked) == ["SELECT", "SELECT", "UPDATE"]
    with CaptureQueriesContext(connection) as asked:
        assert outbox.claim(delivery_id=second.id) is None
    assert verbs(asked) == ["SELECT", "SELECT"]


def test_one_behind_another_of_its_conversation_reserves_no_time_to_send(put: Any) -> None:
    put("0", conversation="c")
    row = put("1", conversation="c", doubt_chat="x", after_id=7)
    plain = put("2", conversation="c")
    asked: list[int] = []

    def ready(delivery: Delivery) -> bool:
        asked.append(delivery.id)
        return False

    assert outbox.claim(delivery_id=plain.id, ready=ready) is None
    assert outbox.claim(delivery_id=row.id, ready=ready) is None
    assert asked == [row.id]


def test_an_answer_that_lost_nothing_is_one_read(put: Any, session: ChatSession) -> None:
    """As nearly every one: a longer answer of another run is not looked at."""
    run, other = (Run.objects.create(session=session, user=session.user) for _ in range(2))
    put("1", run=run, block_index=0)
    put("2", run=other, block_index=1)
    with CaptureQueriesContext(connection) as asked, atomic_write():
        outbox.retract(run_id=run.id, from_index=1)
    assert verbs(asked) == ["SELECT"]


def test_of_two_alike_the_one_that_was_sent_is_recorded(put: Any) -> None:
    """Same words, same attempt; and one whose try has failed is not sent by a late reply."""
    first, second = claimed(put("1")), claimed(put("2"))
    Delivery.objects.update(payload={"text": "same"})
    first.payload = second.payload = {"text": "same"}
    outbox.sent(delivery=first, external_message_id="7")
    assert (columns_of(first), columns_of(second)) == ((State.SENT,), (State.SENDING,))
    outbox.failed(delivery=second, error="no", permanent=False, retry_after=None)
    outbox.sent(delivery=second, external_message_id="8")
    assert columns_of(second, "external_message_id") == (State.PENDING, "")


def test_lost_deliveries_are_those_being_sent_with_their_accounts(
    put: Any, account: ChannelAccount
) -> None:
    past, coming = Now() - timedelta(seconds=1), Now() + timedelta(seconds=9)
    put("rest", state=State.SENDING, lease_until=coming)
    put("dead", state=State.DEAD, lease_until=past)
    rows = [put(str(n), state=State.SENDING, lease_until=past) for n in range(101)]
    with CaptureQueriesContext(connection) as asked:
        found = outbox.lost()
        assert {row.account.name for row in found} == {account.name}
    assert (len(found), len(asked)) == (100, 1)
    assert {row.id for row in found} <= {row.id for row in rows}


def test_after_a_clock_was_set_back_leases_and_waits_end_in_their_time(put: Any) -> None:
    """Those that are no longer than they may be are left alone, and so is what is over."""
    seconds = settings.DELIVERY_LEASE_SECONDS
    day, minutes = Now() + timedelta(days=1), Now() + timedelta(minutes=14)
    sending = put("1", state=State.SENDING, lease_until=day)
    near = put("2", state=State.SENDING, lease_until=Now() + timedelta(seconds=seconds - 9))
    waits, waits_shortly = put("3", retry_at=day, lease_until=day), put("4", retry_at=minutes)
    dead = put("5", state=State.DEAD, retry_at=day, lease_until=day)
    before = [columns_of(row, "retry_at", "lease_until") for row in (near, waits_shortly, dead)]
    outbox.bring_near()
    left = columns_of(sending, "lease_until")[1] - transactions.now()
    assert seconds - 5 < left.total_seconds() <= seconds
    (_, retry_at, lease_until) = columns_of(waits, "retry_at", "lease_until")
    assert (retry_at, lease_until > transactions.now()) == (None, True)
    after = [columns_of(row, "retry_at", "lease_until") for row in (near, waits_shortly, dead)]
    assert after == before


def test_of_many_that_are_due_the_oldest_are_named(account: ChannelAccount) -> None:
    """Two hundred, and as many in doubt; each once, in order."""
    Delivery.objects.bulk_create(
        unsaved(account, f"r{n}", doubt_chat=f"x{n}" if n % 2 else "") for n in range(500)
    )
    ids = [*Delivery.objects.order_by("id").values_list("id", flat=True)]
    doubted = [*Delivery.objects.exclude(doubt_chat="").order_by("id").values_list("id", flat=True)]
    assert outbox.due() == sorted({*ids[:200], *doubted[:200]})
    for change in ({"retry_at": Now() + timedelta(minutes=1)}, {"state": State.SENDING}):
        Delivery.objects.update(**change)
        assert outbox.due() == []


def test_a_chat_that_moves_takes_its_open_deliveries_sessions_and_schedules_with_it(
    put: Any, account: ChannelAccount, session: ChatSession
) -> None:
    """Nothing of another account or chat; a session whose place is taken stays."""
    other = ChannelAccount.objects.create(channel="platform", name="other")
    user, stranger = session.user, User.objects.create(username="stranger")

    def chat_of(person: User, chat: str, **more: Any) -> ChatSession:
        values = {"account": account, "user": person, "chat": chat, **more}
        return ChatSession.objects.create(**values)

    ChatSession.objects.all().delete()
    moves = chat_of(user, "42")
    of_thread = chat_of(user, "42", thread="t")
    stays = chat_of(stranger, "42")
    taken = chat_of(stranger, "77")
    of_agent = chat_of(stranger, "42", for_agent=True, closed_at=Now())
    agents = chat_of(user, "77", for_agent=True)
    closed = chat_of(user, "77", thread="t", closed_at=Now())
    elsewhere = chat_of(user, "42", account=other)
    beside = chat_of(user, "43")
    chat_of(user, "77", account=other, thread="t")
    schedules = [
        Schedule.objects.create(user=user, account=each, chat=chat, text="", start="")
        for each, chat in ((account, "42"), (account, "43"), (other, "42"))
    ]
    doubt = {"doubt_chat": "1:42", "after_id": 7}
    target = {"chat": "42", "thread": "t", "reply_to": "5"}
    known = {"external_message_id": "9"}
    waits, sending = put("1", target=target, **doubt, **known), put("2", state=State.SENDING)
    sent, of_other = put("3", state=State.SENT, **known), put("4", account=other, **known)
    of_beside = put("5", target={"chat": "43"}, **doubt)
    outbox.moved(account_id=account.id, chat="42", new_chat="77")
    found = dict(Schedule.objects.values_list("id", "chat"))
    assert [found[each.id] for each in schedules] == ["77", "43", "42"]
    chats = dict(ChatSession.objects.values_list("id", "chat"))
    moved = (moves, of_thread, of_agent)
    assert [chats[each.id] for each in moved] == ["77"] * 3
    unmoved = (stays, elsewhere, beside, taken, agents, closed)
    assert [chats[each.id] for each in unmoved] == ["42", "42", "43", "77", "77", "77"]
    names = ("target", "doubt_chat", "after_id")
    new = {"chat": "77", "thread": "t", "reply_to": ""}
    assert columns_of(waits, *names, *known) == (State.PENDING, new, "", None, "")
    assert columns_of(sent, *known)[1] == columns_of(of_other, *known)[1] == "9"
    assert columns_of(sending, "target") == (State.SENDING, {"chat": "77", "reply_to": ""})
    for row in (sent, of_other):
        assert columns_of(row, "target")[1] == {"chat": "42"}
    assert columns_of(of_beside, *names) == (State.PENDING, {"chat": "43"}, "1:42", 7)


def test_waiting_deliveries_after_a_failure_are_counted_by_account(
    put: Any, account: ChannelAccount
) -> None:
    """With those that wait behind it, since when, and why."""
    other = ChannelAccount.objects.create(channel="platform", name="other")
    off = ChannelAccount.objects.create(channel="platform", name="off", enabled=False)
    now = transactions.now()

    def ago(minutes: int) -> Any:
        return now - timedelta(minutes=minutes)

    put("0", conversation="c", queued_at=ago(99))
    put("1", conversation="c", queued_at=ago(30), tries=1, error="no")
    put("2", conversation="c", queued_at=None, created_at=ago(40))
    put("3", conversation="c", queued_at=ago(20), state=State.DEAD)
    put("4", conversation="d", queued_at=ago(10), state=State.SENDING, tries=2, error="again")
    put("5", conversation="e", queued_at=ago(50))
    put("6", conversation="f", queued_at=ago(50), tries=3, state=State.DEAD)
    put("6 b", conversation="f", queued_at=ago(50))
    put("7", conversation="g", account=off, tries=1)
    assert outbox.backlogs() == {account.id: outbox.Backlog(3, ago(40), "no")}
    assert outbox.backlogs(older_than=timedelta(minutes=29)) == {
        account.id: outbox.Backlog(2, ago(40), "no")
    }
    assert outbox.backlogs(older_than=timedelta(minutes=41)) == {}
    put("8", conversation="h", account=other, queued_at=ago(5), tries=1, error="x")
    assert outbox.backlogs()[other.id] == outbox.Backlog(1, ago(5), "x")
    Delivery.objects.update(tries=0)
    with CaptureQueriesContext(connection) as asked:
        assert outbox.backlogs() == {}
    assert len(asked) == 1


def test_the_oldest_that_is_due_and_not_delivered_is_one_that_may_be_sent(
    put: Any, account: ChannelAccount
) -> None:
    """Since it was queued, else since it was made."""
    now = transactions.now()
    held = ChannelAccount.objects.create(channel="platform", name="held", deliveries_held="no")
    off = ChannelAccount.objects.create(channel="platform", name="off", enabled=False)
    put("held", account=held)
    put("off", account=off)
    put("dead", state=State.DEAD)
    put("later", retry_at=Now() + timedelta(minutes=1))
    assert outbox.oldest_pending_seconds() == 0.0
    put("new", queued_at=now - timedelta(seconds=50))
    assert 50 <= outbox.oldest_pending_seconds() < 60
    put("due", queued_at=now - timedelta(seconds=100), retry_at=now - timedelta(seconds=1))
    assert 100 <= outbox.oldest_pending_seconds() < 110
    made = now - timedelta(seconds=200)
    put("made", queued_at=None, created_at=made, state=State.SENDING)
    assert 200 <= outbox.oldest_pending_seconds() < 210


def test_settings_for_a_group_hold_for_its_new_id(account: ChannelAccount) -> None:
    """Where the new id has one, that one does; those of other groups and accounts stay."""
    other = ChannelAccount.objects.create(channel="platform", name="other")
    assistant = Assistant.objects.create(slug="a", name="A")
    for place, chat in ((account, "43"), (account, "42"), (other, "42")):
        ToolRule.objects.create(tool="x", ask="always", account=place, chat=chat)
        AssistantBinding.objects.create(assistant=assistant, account=place, chat=chat)
    ToolRule.objects.create(tool="y", ask="always", account=account, chat="42")
    ToolRule.objects.create(tool="y", ask="never", account=account, chat="77")
    outbox.moved(account_id=account.pk, chat="42", new_chat="77")
    rules = ToolRule.objects.order_by("pk").values_list("tool", "ask", "account", "chat")
    assert list(rules) == [
        ("x", "always", account.pk, "43"),
        ("x", "always", account.pk, "77"),
        ("x", "always", other.pk, "42"),
        ("y", "always", account.pk, "42"),
        ("y", "never", account.pk, "77"),
    ]
    bound = AssistantBinding.objects.order_by("pk").values_list("account", "chat")
    assert list(bound) == [(account.pk, "43"), (account.pk, "77"), (other.pk, "42")]

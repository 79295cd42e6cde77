"""Writes in one statement on PostgreSQL, with the same rows on both databases."""

import threading

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.conversations import inbox, runs
from core.database import transactions
from core.database.writes import Do, Insert, Set, insert_or_find, write_all
from core.models import ChannelAccount, ChatSession, InboundMessage, Message, Run, User
from tests import settings
from tests.servers import wait_until


@pytest.fixture
def session(db: None, account: ChannelAccount, user: User) -> ChatSession:
    """Return a conversation."""
    return ChatSession.objects.create(user=user, account=account, chat="here")


def is_write_lock_held() -> bool:
    """Return whether another thread holds the lock of this process's writers."""
    if transactions._write_lock.acquire(blocking=False):
        transactions._write_lock.release()
        return False
    return True


def rows_of(session: ChatSession, run: Run) -> tuple[InboundMessage, Message]:
    """Return a message and a transcript line of a run that has no id yet."""
    inbound = InboundMessage(
        account=session.account,
        session=session,
        run=run,
        text="50 % of %s",
        external_update_id="u1",
        state="batched",
        received_at=timezone.now(),
    )
    return inbound, Message(session=session, run=run, role="user", text="50 %")


def write(session: ChatSession, *before: InboundMessage) -> Run:
    """Write a run with all its rows."""
    run = Run(session=session, user=session.user, origin="test", route={"chat": "%s"})
    inbound, said = rows_of(session, run)
    mine = [each.pk for each in before]
    with transaction.atomic():
        write_all(
            Insert(run),
            *(Do(inbox.BATCH, {"run": run, "ids": [pk]}) for pk in mine),
            Insert(inbound),
            Insert(said),
            Set(ChatSession, session.pk, {"title": "new % title"}),
            Do(runs.ANSWERED, {"run": 0}),
        )
    assert (inbound.run_id, said.run_id) == (run.pk, run.pk)
    return run


def test_new_rows_refer_to_each_other_and_have_their_ids(session: ChatSession) -> None:
    earlier = InboundMessage.objects.create(
        account=session.account, session=session, text="before", received_at=timezone.now()
    )
    run = write(session, earlier)
    earlier.refresh_from_db()
    session.refresh_from_db()
    stored = Run.objects.get()
    assert (stored.pk, stored.route) == (run.pk, {"chat": "%s"})
    assert earlier.run_id == run.pk
    found = InboundMessage.objects.get(external_update_id="u1")
    assert (found.run_id, found.text, found.state) == (run.pk, "50 % of %s", "batched")
    assert Message.objects.get().run_id == run.pk
    assert session.title == "new % title"


def test_postgresql_is_visited_once(session: ChatSession) -> None:
    with CaptureQueriesContext(connection) as seen:
        write(session)
    whole = [each["sql"] for each in seen if "SAVEPOINT" not in each["sql"].upper()]
    assert len(whole) == (5 if connection.vendor == "sqlite" else 1)


def test_one_that_is_refused_takes_the_others_with_it(session: ChatSession) -> None:
    write(session)
    with pytest.raises(IntegrityError):
        write(session)
    assert (Run.objects.count(), Message.objects.count()) == (1, 1)


def test_changes_alone_need_no_new_row(session: ChatSession) -> None:
    with transaction.atomic():
        write_all(
            Set(ChatSession, session.pk, {"title": "one"}),
            Set(User, session.user_id, {"last_target": {"chat": "x"}}),
        )
    session.refresh_from_db()
    session.user.refresh_from_db()
    assert (session.title, session.user.last_target) == ("one", {"chat": "x"})


@pytest.mark.parametrize("others", [0, 1])
def test_a_known_row_is_left_out_with_its_dependent_rows(session: ChatSession, others: int) -> None:
    """With and without dependent rows, on both databases."""

    def store(title: str) -> bool:
        message, _ = rows_of(session, Run())
        message.run = None
        belongs = [Set(ChatSession, session.pk, {"title": title})] * others
        with transaction.atomic():
            stored = insert_or_find(message, InboundMessage.objects.first, *belongs)[1]
        assert (message.pk is not None) is stored
        return stored

    assert [store("first"), store("second")] == [True, False]
    session.refresh_from_db()
    assert session.title == ("first" if others else "")
    assert InboundMessage.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_write_inside_a_transaction_waits_for_no_writer_that_waits_for_it() -> None:
    """On SQLite: that one has the lock of our writers, and waits for the lock of the database."""
    stored: list[User] = []

    def other() -> None:
        with transactions.atomic_write():
            stored.append(User.objects.create(username="other"))
        connection.close()

    thread = threading.Thread(target=other)
    with transaction.atomic():
        User.objects.create(username="mine")
        thread.start()
        if connection.vendor == "sqlite":
            wait_until(is_write_lock_held, what="the other writer")
        with transactions.atomic_write():
            User.objects.create(username="mine too")
    thread.join(20)
    assert len(stored) == 1


def test_no_writes_are_no_round_trip(db: None) -> None:
    with CaptureQueriesContext(connection) as seen:
        write_all()
    assert not seen.captured_queries


def test_a_message_that_waits_costs_postgresql_one_round_trip(
    session: ChatSession,
) -> None:
    """Its row, when the batch is due, and where the person wrote last."""
    draft = inbox.Draft(account=session.account, chat="here", update_id="u2", text="hello")
    now, wait = timezone.now(), inbox.usual_wait()

    def store() -> int:
        spoke = [Set(User, session.user_id, {"last_spoke_at": now})]
        with transaction.atomic(), CaptureQueriesContext(connection) as seen:
            stored.append(
                inbox.store_waiting(draft=draft, session=session, now=now, wait=wait, also=spoke)
            )
        return len(seen)

    stored: list[tuple[InboundMessage, bool]] = []
    assert store() == (3 if connection.vendor == "sqlite" else 1)
    session.user.refresh_from_db()
    session.refresh_from_db()
    assert (session.user.last_spoke_at, session.batch_started_at) == (now, now)
    first, now = now, now + wait.idle
    assert store() == 2, "one that fails to store it, one that finds it"
    assert [new for _, new in stored] == [True, False]
    assert stored[0][0] == stored[1][0]
    session.refresh_from_db()
    session.user.refresh_from_db()
    assert session.flush_at == now, "a repetition puts nothing off"
    assert session.user.last_spoke_at == first, "nor does it move where they spoke last"


@pytest.mark.skipif(settings.TEST_DATABASE == "sqlite", reason="SQLite has one writer at a time")
def test_a_session_is_locked_before_its_person(
    transactional_db: None, account: ChannelAccount, user: User
) -> None:
    """In the order of every other locker of both: else two messages would wait for each other."""
    session = ChatSession.objects.create(user=user, account=account, chat="here")
    draft = inbox.Draft(account=account, chat="here", update_id="u3", text="hello")
    now, wait = timezone.now(), inbox.usual_wait()
    spoke = [Set(User, user.pk, {"last_spoke_at": now})]
    began = threading.Event()

    def store() -> None:
        with transaction.atomic():
            began.set()
            inbox.store_waiting(draft=draft, session=session, now=now, wait=wait, also=spoke)
        connection.close()

    def is_locked() -> bool:
        try:
            with transaction.atomic():
                ChatSession.objects.select_for_update(nowait=True, no_key=True).get(pk=session.pk)
                transaction.set_rollback(True)  # otherwise this statement keeps it
        except DatabaseError:
            return True
        return False

    thread = threading.Thread(target=store)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        thread.start()
        assert began.wait(30)
        wait_until(is_locked, seconds=30, what="the session's lock")
    thread.join(30)
    session.refresh_from_db()
    assert session.flush_at == now + wait.idle

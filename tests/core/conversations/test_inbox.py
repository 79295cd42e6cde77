"""[C2] [C3] The inbox: stored once, batched in time, flushed with a route of its own."""

from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from channels_app.intake import inbound
from core.conversations import inbox
from core.database.transactions import atomic_write
from core.models import ChannelAccount, ChatSession, InboundMessage, Message, Run, User
from tests import load_vectors
from tests.allowlist.in_parallel import run_in_parallel
from tests.core.conftest import NOW, Say

VECTORS = load_vectors("debounce")
State = InboundMessage.State


def after(milliseconds: int) -> Any:
    """Return the time so long after NOW."""
    return NOW + timedelta(milliseconds=milliseconds)


class Clock:
    """Plays pushes and fires timers in the order of a fake clock, as a gateway does."""

    def __init__(self, account: ChannelAccount, user: User) -> None:
        self.account, self.user = account, user
        self.flushes: list[dict[str, Any]] = []
        self.seen: set[int] = set()

    def push(self, at: int, conversation: str, text: str) -> None:
        draft = inbox.Draft(account=self.account, chat=conversation, text=text)
        with atomic_write():
            session = inbox.open_session(user=self.user, account=self.account, chat=conversation)
            inbound.accept(
                draft=draft, user=self.user, session=session, now=after(at), debounce=True
            )
        self.note(at)

    def fire(self, until: int | None) -> None:
        """Fire every timer that is due before ``until``."""
        while True:
            row = ChatSession.objects.filter(flush_at__isnull=False).order_by("flush_at").first()
            if row is None or row.flush_at is None:
                return
            at = round((row.flush_at - NOW).total_seconds() * 1000)
            if until is not None and at >= until:
                return
            with atomic_write():
                inbox.flush_due(session_id=row.id, now=after(at))
            self.note(at)

    def note(self, at: int) -> None:
        for run in Run.objects.exclude(id__in=self.seen).order_by("id"):
            self.seen.add(run.id)
            chat = run.route["chat"]
            self.flushes.append({"at": at, "conversation": chat, "text": run.text})


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda vector: vector["name"])
def test_c2_messages_are_joined_as_the_vectors_say(
    vector: dict[str, Any], account: ChannelAccount, user: User, settings: Settings
) -> None:
    settings.DEBOUNCE_IDLE_MILLISECONDS = vector["delay_ms"]
    settings.DEBOUNCE_MAX_MILLISECONDS = vector["max_wait_ms"]
    clock = Clock(account, user)
    for push in vector["pushes"]:
        clock.fire(push["at_ms"])
        clock.push(push["at_ms"], push["conversation"], push["text"])
    clock.fire(None)
    assert clock.flushes == vector["flushes"]


@pytest.mark.parametrize(("gap", "runs"), [(499, ["a\nb"]), (500, ["a", "b"])])
def test_c2_a_gap_of_499_ms_joins_and_500_does_not(
    gap: int, runs: list[str], account: ChannelAccount, user: User
) -> None:
    """No timer fires between the two: a slow worker must not change what is one batch."""
    clock = Clock(account, user)
    clock.push(0, "A", "a")
    clock.push(gap, "A", "b")
    clock.fire(None)
    assert [each["text"] for each in clock.flushes] == runs


def test_c2_a_batch_survives_a_restart_and_is_found_by_the_sweeper(
    account: ChannelAccount, user: User
) -> None:
    clock = Clock(account, user)
    clock.push(0, "A", "a")
    assert inbox.due_sessions(now=after(499)) == []
    [session_id] = inbox.due_sessions(now=after(60_000))
    assert ChatSession.objects.get(id=session_id).chat == "A"


def test_c2_a_flush_before_its_time_does_nothing(account: ChannelAccount, user: User) -> None:
    clock = Clock(account, user)
    clock.push(0, "A", "a")
    session = ChatSession.objects.get()
    with atomic_write():
        assert inbox.flush_due(session_id=session.id, now=after(499)) is None
    assert InboundMessage.objects.get().state == State.RECEIVED


def test_c2_conversations_and_topics_wait_for_themselves(
    account: ChannelAccount, user: User
) -> None:
    clock = Clock(account, user)
    clock.push(0, "A", "a")
    clock.push(100, "B", "b")
    clock.push(200, "A", "a2")
    clock.fire(None)
    assert [(each["at"], each["text"]) for each in clock.flushes] == [(600, "b"), (700, "a\na2")]


def test_c2_more_messages_than_one_run_takes_are_all_answered(
    account: ChannelAccount, user: User
) -> None:
    clock = Clock(account, user)
    for number in range(inbox.MAX_BATCH + 5):
        clock.push(number, "A", str(number))
    clock.fire(None)
    assert not InboundMessage.objects.exclude(state=State.BATCHED).exists()
    said = "\n".join(run.text for run in Run.objects.order_by("id"))
    assert said.split("\n") == [str(number) for number in range(inbox.MAX_BATCH + 5)]


def test_c3_a_run_carries_its_route_and_the_acks_of_its_batch(
    account: ChannelAccount, user: User
) -> None:
    clock = Clock(account, user)
    for at, number in ((0, "7"), (10, "8")):
        draft = inbox.Draft(
            account=account, chat="A", thread="t", text=number, message_id=number,
            media=[{"kind": "image", "url": f"data:{number}"}],
        )  # fmt: skip
        with atomic_write():
            session = inbox.open_session(user=user, account=account, chat="A", thread="t")
            inbound.accept(draft=draft, user=user, session=session, now=after(at), debounce=True)
    clock.fire(None)
    run = Run.objects.get()
    assert run.route == {
        "account": account.id,
        "chat": "A",
        "thread": "t",
        "reply_to": "8",
        "acks": ["7", "8"],
        "media": [{"kind": "image", "url": "data:7"}, {"kind": "image", "url": "data:8"}],
    }
    assert run.origin == "platform"
    assert Message.objects.get(run=run).text == "7\n8"
    assert set(InboundMessage.objects.values_list("state", "run")) == {(State.BATCHED, run.id)}


def test_c3_two_accounts_with_the_same_ids_never_cross(user: User, account: ChannelAccount) -> None:
    other = ChannelAccount.objects.create(channel="platform", name="second")
    for each in (account, other):
        with atomic_write():
            session = inbox.open_session(user=user, account=each, chat="A")
            draft = inbox.Draft(
                account=each, chat="A", text=each.name, message_id="1", update_id="1"
            )
            inbound.accept(draft=draft, user=user, session=session, now=NOW)
    assert {run.route["account"]: run.text for run in Run.objects.all()} == {
        account.id: "main",
        other.id: "second",
    }


def test_a_message_without_media_or_text_makes_no_second_line(
    account: ChannelAccount, user: User, say: Say
) -> None:
    assert say("", media=[{"kind": "image", "url": "data:x"}]).text == ""


def test_the_first_words_are_the_title_of_a_session(say: Say, session: ChatSession) -> None:
    say("first\nline " + "x" * 100)
    say("second")
    session.refresh_from_db()
    assert session.title == "first line " + "x" * 48 + "…"
    assert str(session) == session.title


def test_rw5_the_same_update_a_hundred_times_at_once_is_one_run(
    transactional_db: None, account: ChannelAccount, user: User
) -> None:
    def deliver(number: int) -> str:
        del number
        draft = inbox.Draft(account=account, chat="A", text="once", update_id="9", message_id="3")
        receipt = inbound.receive_personal(user=user, draft=draft, session_id="", now=NOW)
        return receipt.outcome

    outcomes = run_in_parallel(deliver, times=100)
    assert sorted(set(outcomes)) == ["accepted", "duplicate"]
    assert outcomes.count("accepted") == 1
    assert (InboundMessage.objects.count(), Run.objects.count()) == (1, 1)


def test_the_same_platform_message_in_two_updates_is_one(
    account: ChannelAccount, user: User, session: ChatSession
) -> None:
    first = inbox.Draft(account=account, chat="42", text="a", update_id="1", message_id="5")
    again = inbox.Draft(account=account, chat="42", text="a", update_id="2", message_id="5")
    with atomic_write():
        row, new = inbox.store(draft=first, state=State.RECEIVED, now=NOW, session=session)
        same, newer = inbox.store(draft=again, state=State.RECEIVED, now=NOW, session=session)
    assert (new, newer, same.id) == (True, False, row.id)


def test_without_ids_every_message_is_new(account: ChannelAccount) -> None:
    draft = inbox.Draft(account=account, text="a")
    assert inbox.find_duplicate(draft) is None
    with atomic_write():
        assert inbox.store(draft=draft, state=State.RECEIVED, now=NOW)[1]
        assert inbox.store(draft=draft, state=State.RECEIVED, now=NOW)[1]


def test_rw13_a_text_that_no_database_holds_is_stored_cleaned(account: ChannelAccount) -> None:
    draft = inbox.Draft(account=account, text="a\x00b\ud800", sender_name="x\ny\x00")
    with atomic_write():
        row, _ = inbox.store(draft=draft, state=State.RECEIVED, now=NOW)
    row.refresh_from_db()
    assert (row.text, row.sender_name) == ("ab\ufffd", "x y")


def test_many_threads_that_open_one_conversation_get_the_same(
    transactional_db: None, account: ChannelAccount, user: User
) -> None:
    def opened(number: int) -> int:
        del number
        with atomic_write():
            return inbox.open_session(user=user, account=account, chat="A").id

    assert len(set(run_in_parallel(opened, times=40))) == 1


def test_ri15_a_session_of_another_person_is_as_unknown_as_none(
    account: ChannelAccount, session: ChatSession
) -> None:
    stranger = User.objects.create(username="eve")
    assert inbox.own_session(user=stranger, session_id=session.public_id) is None
    assert inbox.own_session(user=session.user, session_id="nonsense") is None
    assert inbox.own_session(user=session.user, session_id=session.public_id) == session
    inbox.close_session(session=session)
    assert inbox.own_session(user=session.user, session_id=session.public_id) is None

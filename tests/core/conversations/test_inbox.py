"""[C2] [C3] The inbox: stored once, batched in time, flushed with a route of its own."""

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models.functions import Now
from pytest_django import Settings

from channels_app.asgi.http import RefusedError
from channels_app.intake import inbound
from core.conversations import inbox
from core.database.transactions import atomic_write
from core.lib.text import quote
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
        "history_from": 0,
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


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("**Hello** world", "Hello world"),
        ("# Plan\n\nfor *today*", "Plan for today"),
        ("- [ ] buy milk", "☐ buy milk"),
        ("- milk\n- eggs", "• milk • eggs"),
        ("```py\nprint(1)\n```\nfails", "print(1) fails"),
        ("look at [the docs](https://example.org/a) and `ls`", "look at the docs and ls"),
        ("> **Bo**: come at 8", "Bo: come at 8"),
        ("2*3*4 = 24 and snake_case_name", "2*3*4 = 24 and snake_case_name"),
        ("#", "#"),
        ("C:\\temp\\*.log", "C:\\temp\\*.log"),
        (f"{quote('come at 8', sender='Bo')}\nis that fine?", "is that fine?"),
        (f"is that fine?\n{quote('come at 8', sender='Bo')}", "is that fine?"),
        (quote("come at **8**", sender="Bo"), "come at 8"),
    ],
)
def test_a_title_has_no_marks_of_markdown(
    say: Say, session: ChatSession, text: str, title: str
) -> None:
    say(text)
    session.refresh_from_db()
    assert session.title == title


def test_the_title_of_a_long_text_is_made_of_its_beginning(say: Say, session: ChatSession) -> None:
    say("**" + "x" * 200_000 + "**")
    session.refresh_from_db()
    assert session.title.endswith("x…")
    assert len(session.title) == inbox.TITLE_CHARACTERS


def test_a_session_that_begins_with_a_file_is_named_after_it(
    say: Say, session: ChatSession
) -> None:
    say("", media=[{"kind": "image", "url": "data:x"}, {"kind": "voice", "name": "memo.m4a"}])
    say("second")
    session.refresh_from_db()
    assert session.title == "memo.m4a"


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
        others = [
            replace(again, chat="43", update_id="8"),
            replace(again, message_id="6", update_id=""),
        ]
        for each in (*others, replace(again, message_id="", update_id="7")):
            assert inbox.find_duplicate(each) is None
            assert inbox.store(draft=each, state=State.RECEIVED, now=NOW, user=user)[1]
            assert not inbox.store(draft=each, state=State.RECEIVED, now=NOW, user=user)[1]
    assert (new, newer, same.id) == (True, False, row.id)
    assert InboundMessage.objects.filter(session=session, user=None, note="").get() == row
    assert InboundMessage.objects.filter(user=user).count() == 3


def key_of(key: str = "k", *, body: str = "hello", scope: str = "v1", session: str = "") -> Any:
    """Return the idempotency key of a request with ``body``."""
    return inbox.RepeatKey(scope, key, "Idempotency-Key", inbox.body_digest(body), session)


def test_d1_a_key_is_that_of_its_endpoint_and_its_sender() -> None:
    """No two are stored as one; each is stored as before an update, and is not readable there."""
    scopes, senders, keys = ("v1", "ws"), ("", "a", "b", "a:k", "1:a"), ("k", "l", "k:l")
    stored = [
        key_of(key, scope=scope).stored(sender)
        for scope in scopes
        for sender in senders
        for key in keys
    ]
    assert len(set(stored)) == len(stored)
    assert key_of("k").stored("") == "v1:k"
    assert key_of("k").stored("é") == "v1:" + hashlib.sha256("1:é:k".encode()).hexdigest()
    assert len(key_of("k" * 128).stored("s" * 256)) < 200


def test_d1_a_body_is_known_by_all_its_fields_in_any_order() -> None:
    digest = inbox.body_digest("a", {"x": 1, "y": [2]})
    assert digest == inbox.body_digest("a", {"y": [2], "x": 1})
    assert digest == hashlib.sha256(b'["a", {"x": 1, "y": [2]}]').hexdigest()
    others = [("a",), ("b", {"x": 1, "y": [2]}), ("a", {"x": 1, "y": [3]}), ("a", {"x": 1})]
    assert digest not in {inbox.body_digest(*each) for each in others}


def test_d1_a_key_stands_for_one_body_in_one_session(
    account: ChannelAccount, user: User, woken: object
) -> None:
    """And alone: an id of the message does not take its place."""
    said = inbox.Draft(account=account, chat="A", text="hello", repeat=key_of(), message_id="5")

    def given(repeat: Any, session: str = "", **more: Any) -> inbound.Receipt:
        draft = replace(said, repeat=repeat, **more)
        return inbound.receive_personal(user=user, draft=draft, session_id=session, now=NOW)

    first = given(key_of())
    assert first.session is not None
    mine = first.session.public_id
    for repeat, session in ((key_of(), ""), (key_of(session=mine), mine)):
        again = given(repeat, session)
        assert (again.outcome, again.message, again.run, again.session) == (
            *("duplicate", first.message, first.run, first.session),
        )
    other = inbox.open_session(user=user, account=account, chat="B").public_id
    for repeat, session in ((key_of(body="bye"), ""), (key_of(session=other), other)):
        with pytest.raises(RefusedError) as refused, transaction.atomic():
            given(repeat, session)
        assert (refused.value.status, refused.value.field) == (422, "Idempotency-Key")
        assert "Idempotency-Key was sent before" in str(refused.value)
    assert given(None).outcome == "accepted"
    assert given(key_of("another")).outcome == "accepted"
    elsewhere = ChannelAccount.objects.create(channel="platform", name="other")
    assert given(key_of(), account=elsewhere).outcome == "accepted"
    # As an earlier version stored it.
    InboundMessage.objects.filter(run=first.run).update(body_digest="", external_message_id="")
    assert given(key_of(body="bye")).outcome == "duplicate"


def test_a7_a_denied_message_is_taken_over_once_as_it_is_sent_again(
    account: ChannelAccount, user: User, session: ChatSession
) -> None:
    """[A7] [D1] With what the second request says, by the first one to come."""
    held = inbox.Draft(account=account, sender="s", text="old", repeat=key_of(body="old"))
    new = replace(
        held,
        sender_name="S",
        text="new",
        media=[{"kind": "image"}],
        options={"album": "1"},
        raw=b"{}",
        repeat=key_of(body="new"),
    )
    later = after(1000)
    with atomic_write():
        row, _ = inbox.store(draft=held, state=State.HELD, now=NOW, note="denied")
        assert row.external_update_id == key_of().stored("s")
        other, _ = inbox.store(draft=replace(held, sender="t"), state=State.HELD, now=NOW)
        late = InboundMessage.objects.get(note="denied")
        given: Any = {"draft": new, "user": user, "session": session, "now": later}
        assert inbox.take_over(row, **given)
        assert not inbox.take_over(row, **given)
        given["draft"] = held
        assert not inbox.take_over(late, **given)
    other.refresh_from_db()
    assert (other.state, other.text) == (State.HELD, "old")
    for each in (row, late, InboundMessage.objects.get(id=row.id)):
        assert (each.state, each.user, each.session, each.note) == (
            *(State.RECEIVED, user, session, ""),
        )
        assert (each.sender_name, each.text, each.media, each.options, bytes(each.raw)) == (
            *("S", "new", [{"kind": "image"}], {"album": "1"}, b"{}"),
        )
        assert (each.body_digest, each.received_at) == (key_of(body="new").digest, later)
    row.state = State.PURGED
    row.save()
    assert inbox.take_over(row, **given)


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
    ChatSession.objects.filter(pk=session.pk).update(closed_at=Now())
    assert inbox.own_session(user=session.user, session_id=session.public_id) is None

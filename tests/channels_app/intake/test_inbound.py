"""The decision about a message: its sender, whether it came before, its session, its run."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from allowlist import link_codes, unknown_requests
from allowlist.models import AuditEntry, LinkAttempt, UnknownRequest
from channels_app.agent_sessions import sessions
from channels_app.asgi import admission
from channels_app.asgi.http import RefusedError
from channels_app.intake import decisions, inbound, slash_commands
from channels_app.intake.inbound import Receipt
from core.agent import prompt
from core.conversations import assistants, inbox, outbox
from core.conversations.inbox import Draft, RepeatKey
from core.files import storage
from core.lib import log_ids, tracing
from core.models import (
    Assistant,
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Message,
    Run,
    User,
)
from core.signals import wakeups
from tests.channels_app.running import guest, memory_account, owner

__all__ = ["guest", "owner"]
pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OWNER, GUEST, STRANGER, GROUP = "555", "556", "700", "-100"
SECOND = timedelta(seconds=1)
PICTURE = {"kind": "image", "url": "data:image/png;base64,aGVsbG8="}


@pytest.fixture
def account(owner: User, guest: User) -> ChannelAccount:
    """Return an account of the in-memory channel, with an owner (555) and a guest (556)."""
    return memory_account()


@pytest.fixture
def web(owner: User, guest: User) -> ChannelAccount:
    """Return an account whose people have credentials of their own."""
    return ChannelAccount.objects.create(channel="web", name="web")


def say(
    account: ChannelAccount,
    text: str,
    sender: str = GUEST,
    *,
    now: datetime = NOW,
    group: str = "",
    debounce: bool = False,
    in_response: bool = False,
    **more: Any,
) -> Receipt:
    """Receive a message of a sender, as a channel does that knows commands."""
    given: dict[str, Any] = {"chat": group or sender, **more}
    draft = Draft(account=account, sender=sender, text=text, **given)
    read = slash_commands.answered_at_once if in_response else slash_commands.parse
    options: dict[str, Any] = {"group": group, "debounce": debounce, "command": read(text)}
    named = {name: value for name, value in options.items() if value}
    return inbound.receive_sender(draft=draft, now=now, **named)


def key(name: str = "k", digest: str = "d", session: str = "") -> RepeatKey:
    """Return a client's key of a request."""
    return RepeatKey(scope="s", key=name, field="Idempotency-Key", digest=digest, session=session)


@contextmanager
def refused(
    said: str = ".", *, kind: type[RefusedError] = RefusedError
) -> Iterator[pytest.ExceptionInfo[RefusedError]]:
    """Expect that a message is refused, and that nothing of it is stored."""
    before = states(), ChatSession.objects.count()
    with pytest.raises(kind, match=said) as caught, transaction.atomic():
        yield caught
    assert (states(), ChatSession.objects.count()) == before


def approve(sender: str = STRANGER, *, verdict: unknown_requests.Choice = "approve") -> None:
    """Let the owner approve a sender."""
    decisions.decide(
        request=UnknownRequest.objects.get(sender=sender).public_id,
        verdict=verdict,
        owner=User.objects.get(is_owner=True),
        via="test",
        now=NOW,
    )


def states() -> list[tuple[str, str]]:
    """Return the texts and states of the messages, in order."""
    return list(InboundMessage.objects.order_by("id").values_list("text", "state"))


def runs() -> list[str]:
    """Return the texts of the runs, in order."""
    return list(Run.objects.order_by("id").values_list("text", flat=True))


def test_a_file_with_a_caption_is_no_command(account: ChannelAccount, web: ChannelAccount) -> None:
    """The file would be kept without an answer, and beyond the quota of its person. A file that the
    message quotes has no caption.
    """
    assert say(account, "/whoami", media=[{**PICTURE, "quoted": "Bo"}]).run is None
    assert say(account, "/whoami", media=[PICTURE]).run is not None
    draft = Draft(account=web, text="/whoami", media=[PICTURE])
    receipt = inbound.receive_personal(
        user=User.objects.get(username="guest"),
        draft=draft,
        session_id="",
        now=NOW,
        command=slash_commands.answered_at_once("/whoami"),
    )
    assert receipt.run is not None
    assert set(Run.objects.values_list("text", "state")) == {("/whoami", "queued")}


def test_messages_of_before_an_approval_are_answered_but_for_commands(
    account: ChannelAccount,
) -> None:
    """The text after /new is a message, and so is the caption of a file."""
    say(account, "/start", STRANGER)
    say(account, "/new  let me in", STRANGER)
    say(account, "/help", STRANGER, media=[PICTURE])
    say(account, "/new", STRANGER)
    say(account, "hello", STRANGER)
    approve()
    assert runs() == ["let me in", "/help", "hello"]
    assert states() == [
        ("/start", "answered"),
        ("let me in", "batched"),
        ("/help", "batched"),
        ("/new", "answered"),
        ("hello", "batched"),
    ]
    dropped = InboundMessage.objects.filter(state="answered")
    assert {each.note for each in dropped} == {"a command of before the approval"}
    assert {each.session.user.username for each in dropped if each.session} != {"guest"}


def test_a7_c6_an_album_of_before_an_approval_is_one_message(account: ChannelAccount) -> None:
    """Each item came by itself; the next album, and what is none, are messages of their own."""
    for number, album in enumerate(["g", "g", "h", ""], 1):
        more: dict[str, Any] = {"options": {"album": album}} if album else {}
        words = "" if number == 2 else f"look {number}"
        say(account, words, STRANGER, media=[PICTURE], message_id=str(number), **more)
    approve()
    assert runs() == ["look 1", "look 3", "look 4"]
    first, *_ = Run.objects.order_by("id")
    assert (first.route["media"], first.route["acks"]) == ([PICTURE, PICTURE], ["1", "2"])
    assert first.route["reply_to"] == "2"
    assert ChatSession.objects.get(chat=STRANGER).title == "look 1"


def test_an_accepted_message_is_logged_with_its_ids_after_the_commit(
    account: ChannelAccount,
    caplog: pytest.LogCaptureFixture,
    django_capture_on_commit_callbacks: Any,
) -> None:
    caplog.set_level("INFO", logger="channels_app.intake.inbound")
    logged: list[log_ids.Ids] = []

    class Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            del record
            logged.append(replace(log_ids.IDS.get() or log_ids.Ids()))

    watch = Watch()
    logging.getLogger("channels_app.intake.inbound").addHandler(watch)
    log_ids.begin()
    with django_capture_on_commit_callbacks(execute=True):
        receipt = say(account, "hello")
        assert not caplog.messages
        log_ids.begin(run="another")
    log_ids.begin()
    waiting = say(account, "hello", debounce=True)
    logging.getLogger("channels_app.intake.inbound").removeHandler(watch)
    assert caplog.messages == ["a message was accepted"]
    assert receipt.run is not None
    assert receipt.session is not None
    assert [(each.run, each.session) for each in logged] == [
        (receipt.run.public_id, receipt.session.public_id)
    ]
    ids = log_ids.IDS.get()
    assert ids is not None
    assert (ids.run, ids.session) == ("", receipt.session.public_id)
    assert waiting.run is None


def test_an_accepted_message_is_traced_where_traces_are_on(
    account: ChannelAccount,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    traced: list[dict[str, Any]] = []
    monkeypatch.setattr(tracing, "record", lambda _, **values: traced.append(values))
    with django_capture_on_commit_callbacks(execute=True):
        say(account, "hello")
    assert not traced
    monkeypatch.setattr(tracing, "is_on", lambda: True)
    with django_capture_on_commit_callbacks(execute=True):
        receipt = say(account, "hello")
        assert not traced
    assert receipt.run is not None
    assert receipt.session is not None
    (attributes,) = [
        each["attributes"] for each in traced if "latchkey.channel" in each["attributes"]
    ]
    assert attributes == {
        "latchkey.channel": "memory",
        "latchkey.session": receipt.session.public_id,
        "latchkey.run": receipt.run.public_id,
    }


def personal(
    account: ChannelAccount, text: str = "hello", name: str = "guest", **more: Any
) -> Receipt:
    """Receive a message of a person with a credential of their own."""
    given: dict[str, Any] = {"session_id": "", "now": NOW}
    given |= {each: more.pop(each) for each in [*more] if each not in DRAFT}
    return inbound.receive_personal(
        user=User.objects.get(username=name),
        draft=Draft(account=account, text=text, **more),
        command=slash_commands.answered_at_once(text),
        **given,
    )


DRAFT = {"chat", "thread", "repeat", "media", "wanted", "via_key", "options", "raw", "message_id"}


def test_a_person_is_heard_in_their_own_open_session(web: ChannelAccount) -> None:
    first = personal(web, origin="http")
    assert first.session is not None
    assert first.run is not None
    assert (first.outcome, first.run.origin, first.session.account) == ("accepted", "http", web)
    assert User.objects.get(username="guest").last_account == web
    again = personal(web, "more", session_id=first.session.public_id)
    assert again.session == first.session
    assert again.run is not None
    assert again.run.origin == "web"
    unknown = Receipt("unknown_session")
    assert personal(web, name="owner", session_id=first.session.public_id) == unknown
    assert personal(web, session_id="x") == unknown
    ChatSession.objects.update(closed_at=NOW)
    assert personal(web, session_id=first.session.public_id) == unknown
    assert InboundMessage.objects.count() == 2


def test_a_person_without_a_session_gets_that_of_the_place_or_a_new_one(
    web: ChannelAccount, account: ChannelAccount
) -> None:
    first, same = personal(web, chat="c", thread="t"), personal(web, chat="c", thread="t")
    assert first.session == same.session
    others = [
        personal(web, chat="c", thread="u"),
        personal(web, chat="d", thread="t"),
        personal(account, chat="c", thread="t"),
        personal(web, name="owner", chat="c", thread="t"),
        personal(web),
        personal(web),
    ]
    sessions = {each.session and each.session.pk for each in [first, *others]}
    assert len(sessions) == 7
    given = first.session
    assert personal(web, chat="elsewhere", session=given).session == given


def test_a_repeated_request_of_a_person_has_the_first_ones_outcome(web: ChannelAccount) -> None:
    """Where it names no session, none is opened for it."""
    first = personal(web, repeat=key())
    again = personal(web, repeat=key())
    assert (again.outcome, again.run, again.session) == ("duplicate", first.run, first.session)
    assert again.message == first.message
    assert ChatSession.objects.count() == 1
    with refused("Idempotency-Key was sent before, with another body") as caught:
        personal(web, repeat=key(digest="e"))
    assert (caught.value.status, caught.value.field) == (422, "Idempotency-Key")
    assert personal(web, repeat=key("other")).outcome == "accepted"


def test_a_key_stands_for_one_session(web: ChannelAccount) -> None:
    first, other = personal(web), personal(web)
    assert first.session is not None
    assert other.session is not None
    here, there = first.session.public_id, other.session.public_id
    accepted = personal(web, session_id=here, repeat=key(session=here))
    again = personal(web, session_id=here, repeat=key(session=here))
    assert (again.outcome, again.run) == ("duplicate", accepted.run)
    with refused():
        personal(web, session_id=there, repeat=key(session=there))
    assert personal(web, repeat=key()).run == accepted.run
    InboundMessage.objects.filter(run=accepted.run).update(session=None)
    with refused():
        personal(web, session_id=here, repeat=key(session=here))


def test_a_command_of_a_person_is_answered_in_the_response(web: ChannelAccount) -> None:
    receipt = personal(web, "/whoami", chat="c")
    assert receipt.run is not None
    assert receipt.message is not None
    run = Run.objects.get()
    assert (run, run.state, run.origin) == (receipt.run, "succeeded", "command")
    kept = InboundMessage.objects.get()
    assert (kept.run, kept.state, kept.note) == (receipt.run, "answered", "command /whoami")
    assert (kept.user, kept.session) == (receipt.run.user, receipt.session)
    assert not Delivery.objects.exists()
    said = list(Message.objects.order_by("id").values_list("data__said", flat=True))
    assert said[0] == "/whoami"
    assert "guest" in said[1]
    assert personal(web, "/whoami", chat="c", repeat=key()).outcome == "accepted"
    assert personal(web, "/whoami", chat="c", repeat=key()).outcome == "duplicate"


def test_an_owners_credential_decides_only_with_its_scope(
    web: ChannelAccount, account: ChannelAccount
) -> None:
    account.config = {"approved_reply": "Come in."}
    account.save()
    say(account, "I am here", OWNER)
    say(account, "let me in", STRANGER)
    request = UnknownRequest.objects.get()
    personal(web, f"/approve {request.public_id}", "owner")
    personal(web, f"/approve {request.public_id}", may_decide=True)
    request.refresh_from_db()
    assert request.state == "pending"
    receipt = personal(web, f"/approve {request.public_id}", "owner", may_decide=True)
    request.refresh_from_db()
    assert (request.state, request.decided_via, request.decided_at) == ("approved", "web", NOW)
    assert runs_of(STRANGER) == ["let me in"]
    assert shown(OWNER).split("\n")[-1].startswith("Approved by owner")
    assert shown(STRANGER) == "Come in."
    (said,) = Message.objects.filter(run=receipt.run, role="assistant")
    assert said.data["said"].startswith("Approved by owner")


def shown(chat: str) -> str:
    """Return the text of the last message to a chat."""
    return str(Delivery.objects.filter(target__chat=chat).latest("id").payload["text"])


def test_a_listed_owner_decides_on_a_platform(account: ChannelAccount) -> None:
    say(account, "let me in", STRANGER)
    say(account, f"/approve {UnknownRequest.objects.get().public_id}", OWNER)
    assert UnknownRequest.objects.get().state == "approved"


def runs_of(sender: str) -> list[str]:
    """Return the texts of the runs of a sender's messages, in order."""
    rows = InboundMessage.objects.filter(sender=sender, run__isnull=False).order_by("id")
    return [row.run.text for row in rows if row.run is not None]


def test_a_message_to_an_agent_is_no_command(web: ChannelAccount) -> None:
    session = personal(web, chat="c").session
    assert session is not None
    ChatSession.objects.filter(pk=session.pk).update(reply_until=NOW + SECOND)
    personal(web, "/whoami", session_id=session.public_id)
    assert InboundMessage.objects.latest("id").note != "command /whoami"
    ChatSession.objects.filter(pk=session.pk).update(reply_until=NOW)
    personal(web, "/whoami", session_id=session.public_id)
    assert InboundMessage.objects.latest("id").note == "command /whoami"


def test_a_sender_of_a_bridge_may_speak_by_the_rule(account: ChannelAccount, guest: User) -> None:
    assert inbound.may_speak(account, GUEST)
    assert not inbound.may_speak(account, STRANGER)
    ChannelIdentity.objects.create(user=guest, kind="email", value="bo@example.org")
    assert not inbound.may_speak(account, "bo@example.org")
    account.config = {"kind": "email"}
    assert inbound.may_speak(account, "bo@example.org")
    assert not inbound.may_speak(account, GUEST)
    later = timezone.now() + timedelta(hours=1)
    ChannelIdentity.objects.filter(kind="email").update(expires_at=later)
    assert inbound.may_speak(account, "bo@example.org")
    ChannelIdentity.objects.filter(kind="email").update(account=memory_account("other"))
    assert not inbound.may_speak(account, "bo@example.org")
    ChannelIdentity.objects.filter(kind="email").update(account=None, expires_at=timezone.now())
    assert not inbound.may_speak(account, "bo@example.org")


def test_the_rule_comes_before_a_repeated_key(account: ChannelAccount) -> None:
    """A sender who may not write any more learns nothing of the first outcome."""
    first = say(account, "hello", repeat=key())
    assert say(account, "hello", repeat=key()).run == first.run
    ChannelIdentity.objects.filter(value=GUEST).delete()
    assert say(account, "hello", repeat=key()) == Receipt("denied")
    assert not UnknownRequest.objects.exists()
    assert say(account, "other", repeat=key("new")).outcome == "denied"


def test_a_key_of_another_sender_is_another_key(account: ChannelAccount) -> None:
    first, other = (say(account, "hello", each, repeat=key()) for each in (GUEST, OWNER))
    assert first.run is not None
    assert other.run is not None
    assert first.run != other.run


def test_a_denied_request_is_taken_over_when_its_sender_is_listed(
    account: ChannelAccount, guest: User
) -> None:
    """Sent again as it was, or with another body."""
    held = say(account, "hello", STRANGER, repeat=key())
    assert say(account, "hello", STRANGER, repeat=key()) == held
    ChannelIdentity.objects.create(user=guest, kind="im", value=STRANGER)
    receipt = say(account, "hello you", STRANGER, repeat=key(digest="e"))
    assert (receipt.outcome, receipt.message) == ("accepted", held.message)
    assert runs() == ["hello you"]
    kept = InboundMessage.objects.get()
    assert (kept.user, kept.session, kept.run) == (guest, receipt.session, receipt.run)
    with refused():
        say(account, "hello", STRANGER, repeat=key())
    for text in ("/whoami", "/whoami"):
        say(account, text, "701", repeat=key())
    ChannelIdentity.objects.create(user=guest, kind="im", value="701")
    answered = say(account, "/whoami", "701", repeat=key())
    assert answered.outcome == "accepted"
    last = InboundMessage.objects.latest("id")
    assert (last.sender, last.user, last.session) == ("701", guest, answered.session)
    assert say(account, "/whoami", "701", repeat=key()).outcome == "duplicate"


def test_a_message_is_stored_with_its_person_its_session_and_its_run(
    account: ChannelAccount, guest: User
) -> None:
    for name in ("", "1"):
        receipt = say(account, "hello", message_id=name)
        assert receipt.run is not None
        kept = InboundMessage.objects.latest("id")
        columns = (kept.user, kept.session, kept.run, kept.state, kept.received_at)
        assert columns == (guest, receipt.session, receipt.run, "batched", NOW)
        assert receipt.run.origin == "memory"
    assert ChatSession.objects.get().last_message_at == NOW
    ChatSession.objects.update(reply_until=NOW + SECOND)
    receipt = say(account, "yes")
    kept = InboundMessage.objects.latest("id")
    assert (kept.user, kept.session, kept.run) == (guest, receipt.session, None)


def test_an_identity_counts_until_its_end(account: ChannelAccount) -> None:
    ChannelIdentity.objects.filter(value=GUEST).update(expires_at=NOW + SECOND)
    assert say(account, "hello").outcome == "accepted"
    assert say(account, "hello", now=NOW + SECOND).outcome == "denied"


def test_a_key_of_before_the_digests_stands_for_any_body(web: ChannelAccount) -> None:
    first = personal(web, repeat=key())
    InboundMessage.objects.update(body_digest="")
    assert personal(web, repeat=key(digest="e")).run == first.run


def test_a_platforms_repeat_is_the_same_message(account: ChannelAccount) -> None:
    """Also of a sender that was removed, and in a session that was closed: it stays closed."""
    first = say(account, "hello", message_id="1")
    again = Receipt("duplicate", first.message, first.run, first.session)
    assert say(account, "hello", message_id="1") == again
    ChatSession.objects.update(closed_at=NOW)
    assert say(account, "hello", message_id="1") == again
    assert ChatSession.objects.count() == 1
    ChannelIdentity.objects.filter(value=GUEST).delete()
    assert say(account, "hello", message_id="1") == again
    assert not UnknownRequest.objects.exists()
    assert say(account, "/whoami", message_id="1") == again


def test_sessions_are_of_a_person_and_a_place(account: ChannelAccount) -> None:
    first = say(account, "hello", chat="c", thread="t").session
    assert first is not None
    assert (first.user.username, first.chat, first.thread) == ("guest", "c", "t")
    assert say(account, "more", chat="c", thread="t").session == first
    for sender, chat, thread in ((GUEST, "d", "t"), (GUEST, "c", ""), (OWNER, "c", "t")):
        assert say(account, "more", sender, chat=chat, thread=thread).session != first
    assert say(memory_account("other"), "more", chat="c", thread="t").session != first


def test_a_command_is_the_assistants_where_an_agent_waits_for_an_answer(
    account: ChannelAccount,
) -> None:
    own = say(account, "hello").session
    assert own is not None
    agents = ChatSession.objects.create(
        user=own.user, account=account, chat=GUEST, for_agent=True, reply_until=NOW + SECOND
    )
    assert say(account, "/whoami").session == own
    assert say(account, "yes").session == agents
    assert say(account, "and?").session == own


def test_the_last_used_channel_is_moved_by_listed_senders(account: ChannelAccount) -> None:
    say(account, "hello", chat="c", thread="t")
    person = User.objects.get(username="guest")
    target = {"chat": "c", "thread": "t"}
    assert (person.last_account, person.last_target, person.last_spoke_at) == (account, target, NOW)
    half = SECOND / 2
    for moment, expected in ((NOW + half, NOW), (NOW - half, NOW), (NOW + SECOND, NOW + SECOND)):
        say(account, "hello", chat="c", thread="t", now=moment)
        assert User.objects.get(username="guest").last_spoke_at == expected
    say(account, "hello", chat="c", thread="u", now=NOW + SECOND)
    assert User.objects.get(username="guest").last_target == {"chat": "c", "thread": "u"}
    other = memory_account("other")
    say(other, "/whoami", chat="c", thread="u", now=NOW + SECOND)
    assert User.objects.get(username="guest").last_account == other
    later = NOW + timedelta(hours=1)
    say(other, "hello", chat="c", thread="u", now=later, debounce=True)
    assert User.objects.get(username="guest").last_spoke_at == later


def test_a_sender_by_an_open_list_moves_nothing_and_decides_nothing(
    account: ChannelAccount, owner: User
) -> None:
    say(account, "hi", chat=GROUP, sender=STRANGER, group=GROUP)
    request = UnknownRequest.objects.get()
    ChannelIdentity.objects.filter(user=owner).delete()
    User.objects.filter(pk=owner.pk).update(only_listed=False)
    for debounce in (False, True):
        assert say(account, "hello", STRANGER, debounce=debounce).outcome == "accepted"
    say(account, "/whoami", STRANGER)
    say(account, f"/approve {request.public_id}", STRANGER)
    request.refresh_from_db()
    owner.refresh_from_db()
    assert (request.state, owner.last_account) == ("pending", None)
    entry = AuditEntry.objects.get(action="request.refused")
    assert entry.data["why"] == "came in by an open list"


def test_a_command_on_a_platform_is_answered_there(account: ChannelAccount) -> None:
    receipt = say(account, "/whoami", chat="c", message_id="1")
    assert (receipt.outcome, receipt.run) == ("accepted", None)
    assert receipt.message == InboundMessage.objects.get()
    row = Delivery.objects.get()
    assert row.target["chat"] == "c"
    assert "guest" in row.payload["text"]
    assert say(account, "/whoami", chat="c", message_id="1").outcome == "duplicate"
    assert Delivery.objects.count() == 1


def answer_to(account: ChannelAccount, command: str, sender: str = GUEST) -> Delivery:
    """Return the answer to a command in the chat ``c``."""
    say(account, command, sender, chat="c")
    return Delivery.objects.latest("id")


def test_c8_the_answer_to_a_command_does_not_wait_for_messages_before_it(
    account: ChannelAccount,
) -> None:
    """Else "Stopping…" came behind the answer that is to be stopped."""
    before = outbox.enqueue_in_chat(
        key="x", account_id=account.pk, chat="c", payload={"text": "a long answer"}
    )
    assert outbox.claim(delivery_id=answer_to(account, "/stop").pk) is not None
    assert Delivery.objects.get(pk=before.pk).state == "pending"


def test_c8_a_command_given_again_is_answered_once_while_its_answer_waits(
    account: ChannelAccount,
) -> None:
    """Another command, another answer, and one to another person are sent."""
    first, second = answer_to(account, "/whoami"), answer_to(account, "/whoami")
    other = answer_to(account, "/whoami", OWNER)
    status = answer_to(account, "/status")
    Delivery.objects.filter(pk=status.pk).update(state="sending")
    begun = [answer_to(account, "/status"), answer_to(account, "/new")]
    for row in Delivery.objects.exclude(pk=status.pk):
        assert row.state == ("dismissed" if row == first else "pending")
    assert {second, other, *begun} == set(Delivery.objects.filter(state="pending"))


def test_c9_stop_drops_the_messages_that_wait_for_more(account: ChannelAccount) -> None:
    say(account, "one", chat="c", debounce=True)
    say(account, "two", chat="c", debounce=True)
    say(account, "elsewhere", chat="d", debounce=True)
    assert answer_to(account, "/stop").payload["text"] == "Stopping…"
    assert states()[:3] == [("one", "answered"), ("two", "answered"), ("elsewhere", "received")]
    assert inbox.flush_at(ChatSession.objects.get(chat="c").pk) is None
    assert answer_to(account, "/stop").payload["text"] == "There is nothing to stop."


def test_c8_new_begins_a_conversation_without_the_history_and_its_title(
    account: ChannelAccount,
) -> None:
    say(account, "my holidays", chat="c")
    session = ChatSession.objects.get()
    assert session.title == "my holidays"
    answer_to(account, "/new")
    session.refresh_from_db()
    assert (session.title, session.history_from) == ("", Message.objects.latest("id").pk)
    say(account, "my taxes", chat="c")
    session.refresh_from_db()
    assert session.title == "my taxes"


def test_c8_the_state_of_the_workers_is_shown_to_owners_alone(account: ChannelAccount) -> None:
    said = "Answers being written: 0. Waiting: 0."
    assert answer_to(account, "/status").payload["text"] == said
    first, workers = answer_to(account, "/status", OWNER).payload["text"].splitlines()
    assert first == said
    assert workers.startswith("Workers: 0 for answers, 0 for long tasks.")


@pytest.mark.parametrize(
    ("command", "asked", "history"),
    [
        ("/new", ["before\nand this", "after"], []),
        ("/new now this", ["before\nand this", "now this", "after"], ["now this"]),
        ("/assistant", ["before\nand this", "after"], ["before\nand this"]),
    ],
)
def test_c8_a_command_changes_nothing_for_messages_that_wait(
    account: ChannelAccount, command: str, asked: list[str], history: list[str]
) -> None:
    """A platform brings all at once after an outage."""
    for text in ("before", "and this", command, "after"):
        say(account, text, chat="c", debounce=True)
    session = ChatSession.objects.get()
    assert session.last_message_at == NOW  # notices go to the newest chat
    inbox.flush_due(session_id=session.pk, now=NOW + 9 * SECOND)
    assert list(Run.objects.order_by("id").values_list("text", flat=True)) == asked
    said, _ = prompt.history(run=Run.objects.latest("id"), budget=1000)
    assert [each.text for each in said] == history


@pytest.mark.parametrize("command", ["/new", "/new now this", "/model"])
def test_c8_a_command_that_comes_twice_ends_no_batch_that_came_after_it(
    account: ChannelAccount, command: str
) -> None:
    """A platform repeats an update of which it did not get the 200."""
    for number, text in enumerate((command, "one", command, "two")):
        update_id = "5" if text == command else f"6{number}"
        say(account, text, chat="c", debounce=True, update_id=update_id)
    inbox.flush_due(session_id=ChatSession.objects.get().pk, now=NOW + 9 * SECOND)
    assert Run.objects.latest("id").text == "one\ntwo"


def test_c8_a_question_in_the_queue_keeps_the_history_of_its_conversation(
    account: ChannelAccount,
) -> None:
    for text in ("old", "/new", "first", "second", "/new", "third"):
        say(account, text, chat="c")
    runs = {each.text: each for each in Run.objects.select_related("session")}
    for text, before in (("first", []), ("second", ["first"]), ("third", [])):
        said, _ = prompt.history(run=runs[text], budget=1000)
        assert [each.text for each in said] == before


def test_the_text_after_new_is_a_run_of_its_own(account: ChannelAccount) -> None:
    receipt = say(account, "/new hello", options={"a": 1})
    assert receipt.run is not None
    kept = InboundMessage.objects.get()
    assert (kept.text, kept.state, kept.note, kept.run) == ("hello", "batched", "", receipt.run)
    assert receipt.message is not None
    assert receipt.message.text == "hello"
    assert (receipt.run.text, receipt.run.options) == ("hello", {"a": 1})
    assert receipt.session == receipt.run.session
    assert ChatSession.objects.get().last_message_at == NOW
    in_response = say(account, "/new more", in_response=True)
    assert in_response.run is not None
    assert (in_response.run.text, in_response.run.state) == ("more", "queued")


def test_a_command_wakes_the_batch_that_waits(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have changed when that is due."""
    woken: list[int] = []
    monkeypatch.setattr(wakeups, "batch", woken.append)
    session = say(account, "/stop").session
    assert session is not None
    assert woken == [session.pk]


def test_a_request_names_an_assistant_that_its_sender_may_choose(
    web: ChannelAccount, account: ChannelAccount
) -> None:
    wanted = assistants.Wanted(assistant="none-of-this-name")
    for text in ("hello", "/new hello"):
        with refused() as caught:
            personal(web, text, wanted=wanted)
        assert caught.value.status == 404
        with refused():
            say(account, text, wanted=wanted)
    known = Assistant.objects.create(name="Other", slug="other")
    secret = Assistant.objects.create(name="Secret", slug="secret", offered="nobody")
    for text in ("hello", "/new hello"):
        for_owner = assistants.Wanted(assistant="secret")
        receipt = say(account, text, OWNER, wanted=for_owner)
        assert receipt.run is not None
        assert receipt.run.assistant_id == secret.pk
        with refused():
            say(account, text, wanted=for_owner)
    chosen = assistants.Wanted(assistant="other")
    for receipt in (
        personal(web, wanted=chosen),
        personal(web, "/new hello", wanted=chosen),
        say(account, "/new hello", wanted=chosen),
        say(account, "hello", wanted=chosen),
    ):
        assert receipt.run is not None
        assert receipt.run.assistant_id == known.pk


def test_a_busy_gateway_refuses_a_sender_but_no_message_that_waits(
    account: ChannelAccount, web: ChannelAccount, guest: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A platform would repeat it, and a person with a credential was counted before."""
    asked: list[int] = []

    def refuse(person: int) -> None:
        asked.append(person)
        raise admission.BusyError(place=1, seconds=1.0)

    monkeypatch.setattr(admission.admission, "decide", refuse)
    with refused(kind=admission.BusyError):
        say(account, "hello")
    assert asked == [guest.pk]
    assert say(account, "hello", debounce=True).outcome == "accepted"
    assert personal(web).outcome == "accepted"
    assert say(account, "/whoami").outcome == "accepted"
    ChatSession.objects.filter(account=account).update(reply_until=NOW + SECOND)
    assert say(account, "hello").outcome == "accepted"
    assert asked == [guest.pk]


def test_the_answer_that_an_agent_waits_for_is_handed_over(account: ChannelAccount) -> None:
    """Once, however often it comes; the last-used channel is moved."""
    say(account, "hello")
    User.objects.update(last_account=None)
    for debounce in (False, True):
        ChatSession.objects.update(reply_until=NOW + SECOND)
        name = f"{debounce}"
        receipt = say(account, "yes", message_id=name, debounce=debounce)
        assert (receipt.outcome, receipt.run) == ("accepted", None)
        assert InboundMessage.objects.latest("id").note == sessions.FOR_AGENT
        ChatSession.objects.update(reply_until=NOW + SECOND)
        assert say(account, "yes", message_id=name, debounce=debounce).outcome == "duplicate"
    assert runs() == ["hello"]
    assert User.objects.get(username="guest").last_account == account


def test_a_message_that_waits_for_more_has_no_run_yet(
    account: ChannelAccount, settings: Any
) -> None:
    """An item of an album waits longer; a batch that is due ends before the next message."""
    settings.DEBOUNCE_IDLE_MILLISECONDS, settings.DEBOUNCE_MAX_MILLISECONDS = 500, 2000
    first = say(account, "one", debounce=True, message_id="1")
    assert first.session is not None
    assert (first.outcome, first.run) == ("accepted", None)
    assert flush() == NOW + SECOND / 2
    again = say(account, "one", debounce=True, message_id="1")
    assert (again.outcome, again.message) == ("duplicate", first.message)
    say(account, "two", debounce=True, now=NOW + SECOND / 4, options={"album": "g"})
    assert flush() == NOW + SECOND / 4 + SECOND
    say(account, "three", debounce=True, now=NOW + 5 * SECOND)
    assert runs() == ["one\ntwo"]
    for second in range(5, 17):
        say(
            account,
            "item",
            debounce=True,
            now=NOW + second * SECOND - SECOND / 10 * (second - 5),
            options={"album": "g"},
        )
    assert flush() == NOW + 15 * SECOND


def flush() -> datetime | None:
    """Return when the batch is due."""
    return ChatSession.objects.get().flush_at


def test_files_must_fit_into_the_quota_of_the_person(
    web: ChannelAccount, account: ChannelAccount, settings: Any
) -> None:
    """Those that are still on their platform are checked when they are fetched."""
    settings.MAX_FILES_PER_USER = 1
    paper = {"kind": "file", "url": "data:text/plain;base64,aGVsbG8="}
    assert personal(web, media=[paper]).outcome == "accepted"
    for media in ([paper, paper], [paper, PICTURE, paper]):
        with refused("your limit is 1 files") as caught:
            personal(web, media=media)
        assert (caught.value.status, caught.value.field) == (413, "files")
    guest = User.objects.get(username="guest")
    storage.keep(user=guest, name="a.txt", content=b"hello")
    other = {"kind": "file", "url": "data:text/plain;base64,aGVsbG9v"}
    with refused("your limit is 1 files"):
        personal(web, media=[other])
    assert personal(web, media=[paper]).outcome == "accepted"
    assert personal(web, name="owner", media=[other]).outcome == "accepted"
    remote = [{"kind": "file", "remote": "f"}] * 2
    assert say(account, "hello", media=remote).outcome == "accepted"
    settings.MAX_FILES_PER_USER, settings.MAX_FILE_MEGABYTES_PER_USER = 0, 1
    large = {"kind": "file", "url": "data:text/plain;base64," + "A" * 1_000_000}
    assert personal(web, media=[large]).outcome == "accepted"
    with refused("your limit is 1 MB"):
        personal(web, media=[large, large])


def test_a_message_of_an_unknown_sender_is_held_with_its_request(account: ChannelAccount) -> None:
    receipt = say(account, "hello", STRANGER, sender_name="Eve", chat="c", message_id="1")
    assert receipt.outcome == "denied"
    kept = InboundMessage.objects.get()
    assert (kept.state, kept.user, kept.session, kept.received_at) == ("held", None, None, NOW)
    assert receipt.message == kept
    request = UnknownRequest.objects.get()
    found = (request.kind, request.sender, request.sender_name, request.chat, request.last_text)
    assert found == ("im", STRANGER, "Eve", "c", "hello")
    assert (request.account, request.is_group, request.first_seen_at) == (account, False, NOW)
    assert say(account, "hello", STRANGER, chat="c", message_id="1").outcome == "denied"
    request.refresh_from_db()
    assert request.count == 1
    say(account, "hello", STRANGER, now=NOW + SECOND)
    request.refresh_from_db()
    assert (request.count, request.last_seen_at) == (2, NOW + SECOND)


def test_an_unknown_sender_is_of_a_kind(account: ChannelAccount) -> None:
    say(account, "hello", "bo@example.org", kind="email")
    assert UnknownRequest.objects.get().kind == "email"
    say(account, "hello", "bo@example.org", kind="email", chat=GROUP, group=GROUP)
    assert InboundMessage.objects.count() == 1
    request = UnknownRequest.objects.get(is_group=True)
    assert (request.kind, request.sender, request.chat) == ("im", GROUP, GROUP)


def test_a3_in_a_listed_group_an_unknown_sender_is_held_alone(
    account: ChannelAccount, owner: User
) -> None:
    """[A3] The group gets neither of the lines that are for the sender."""
    account.config = {"denied_reply": "Wait.", "approved_reply": "Come in."}
    account.save()
    ChannelIdentity.objects.create(user=owner, kind="im", value=GROUP)
    assert say(account, "hi", STRANGER, group=GROUP).outcome == "denied"
    request = UnknownRequest.objects.get()
    assert (request.sender, request.is_group) == (STRANGER, False)
    assert say(account, "hi", group=GROUP).outcome == "accepted"
    approve()
    assert runs() == ["hi", "hi"]
    assert not Delivery.objects.exists()


def test_an_unknown_sender_is_answered_and_told_to_the_owner_once(account: ChannelAccount) -> None:
    account.config = {"denied_reply": "Wait.", "approved_reply": "Come in."}
    account.save()
    say(account, "I am here", OWNER)
    for _ in range(2):
        say(account, "hello", STRANGER)
    told = {row.target["chat"]: row.payload["text"] for row in Delivery.objects.order_by("id")}
    assert told[STRANGER] == "Wait."
    assert told[OWNER].startswith("Unknown request from memory")
    assert Delivery.objects.count() == 2
    approve()
    last = Delivery.objects.filter(target__chat=STRANGER).latest("id")
    assert last.payload["text"] == "Come in."


def test_a_sender_that_was_approved_meanwhile_is_heard(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the rule and the record of the message another process decided."""
    say(account, "hello", STRANGER)
    known = inbox.store

    def store(**given: Any) -> tuple[InboundMessage, bool]:
        if given["state"] == "held":
            approve(verdict="approve_24h")
        return known(**given)

    monkeypatch.setattr(inbox, "store", store)
    receipt = say(account, "again", STRANGER)
    assert receipt.outcome == "accepted"
    assert states() == [("hello", "batched"), ("again", "batched")]
    assert runs() == ["hello", "again"]


def test_codes_are_stored_nowhere(account: ChannelAccount, owner: User) -> None:
    code = link_codes.make(user=owner, via="web chat", now=NOW)
    typed = f"/link {code}"
    history: list[dict[str, Any]] = [
        {"content": f"a {typed}"},
        {"content": [{"text": f"b {typed}"}, {"text": 5}, {"url": "u"}, typed]},
        {"content": None},
        {},
    ]
    draft = Draft(account, text=typed, raw=b"x", options={"messages": history})
    kept = inbound.without_codes(draft)
    assert (kept.text, kept.raw) == ("/link …", b"")
    assert history[0] == {"content": "a /link …"}
    assert history[1] == {"content": [{"text": "b /link …"}, {"text": 5}, {"url": "u"}, typed]}
    assert history[2:] == [{"content": None}, {}]
    plain = Draft(account, text="hello", raw=b"x")
    assert inbound.without_codes(plain) is plain
    say(account, f"hello {typed}", raw=b"x")
    say(account, typed, STRANGER, group=GROUP)
    personal(account, f"see {typed}", raw=b"x")
    for row in InboundMessage.objects.all():
        assert code not in f"{row.text}{bytes(row.raw)!r}"


def test_a_code_lets_a_sender_in_with_the_held_messages(
    account: ChannelAccount, owner: User
) -> None:
    say(account, "hello", STRANGER)
    say(account, "/start", STRANGER)
    code = link_codes.make(user=owner, via="web chat", now=NOW)
    receipt = say(account, f"/link {code}", STRANGER, message_id="1", raw=b"x")
    assert receipt.outcome == "accepted"
    assert runs() == ["hello"]
    row = InboundMessage.objects.latest("id")
    assert (row.text, bytes(row.raw), row.state) == ("/link …", b"", "answered")
    said = Delivery.objects.filter(target__chat=STRANGER).latest("id")
    assert said.payload["text"].startswith("This address is now linked to owner.")
    assert say(account, f"/link {code}", STRANGER, message_id="1").outcome == "duplicate"
    assert say(account, "hello", STRANGER).outcome == "accepted"


def test_a_code_in_another_form_is_stored_nowhere_either(
    account: ChannelAccount, owner: User
) -> None:
    """By a person whose own identity ends."""
    ChannelIdentity.objects.filter(user=owner).update(expires_at=NOW + SECOND)
    code = link_codes.make(user=owner, via="web chat", now=NOW, identity_expires_at=NOW + SECOND)
    spelled = " ".join(code.replace("-", ""))
    receipt = say(account, f"/link {spelled}", STRANGER, raw=b"x")
    assert receipt.outcome == "accepted"
    row = InboundMessage.objects.get()
    assert (row.text, bytes(row.raw)) == ("/link …", b"")


WRONG = "/link ABCD-2345"


def test_a_wrong_code_is_refused_with_its_reason_and_counts_once(account: ChannelAccount) -> None:
    """The command is held like any text."""
    for _ in range(2):
        receipt = say(account, WRONG, STRANGER, message_id="1")
        assert (receipt.outcome, receipt.said, receipt.run) == ("denied", "", None)
    assert LinkAttempt.objects.count() == 1
    assert states() == [("/link …", "held")]
    row = Delivery.objects.get()
    assert row.payload["text"].startswith("This code is invalid or has expired.")
    say(account, "/start", STRANGER)
    assert Delivery.objects.count() == 1


def test_a_wrong_code_is_refused_in_the_response(account: ChannelAccount) -> None:
    for _ in range(2):
        receipt = say(account, WRONG, STRANGER, in_response=True, repeat=key())
        assert receipt.outcome == "denied"
        assert receipt.said.startswith("This code is invalid or has expired.")
    assert LinkAttempt.objects.count() == 1
    assert not Delivery.objects.exists()
    kept = InboundMessage.objects.get()
    assert kept.options == {"said": receipt.said}
    assert say(account, "/start", STRANGER, in_response=True).said == ""


def test_too_many_codes_are_not_answered(account: ChannelAccount) -> None:
    for number in range(link_codes.SENDER_ATTEMPTS):
        say(account, WRONG, STRANGER, message_id=str(number))
    assert Delivery.objects.count() == link_codes.SENDER_ATTEMPTS
    say(account, WRONG, STRANGER, message_id="x")
    assert Delivery.objects.count() == link_codes.SENDER_ATTEMPTS


def test_a_repeated_code_says_nothing_of_an_accepted_message(
    account: ChannelAccount, guest: User
) -> None:
    """The key is of a sender who may not write any more."""
    ChannelIdentity.objects.create(user=guest, kind="im", value=STRANGER)
    first = say(account, WRONG, STRANGER, in_response=True, repeat=key())
    assert first.run is not None
    ChannelIdentity.objects.filter(value=STRANGER).delete()
    again = say(account, WRONG, STRANGER, in_response=True, repeat=key())
    assert (again.outcome, again.run, again.session, again.said) == ("denied", None, None, "")
    assert not LinkAttempt.objects.exists()
    User.objects.filter(pk=guest.pk).update(only_listed=False)
    ChannelIdentity.objects.filter(user=guest).delete()
    first = say(account, WRONG, "701", in_response=True, repeat=key())
    assert first.run is not None
    User.objects.filter(pk=guest.pk).update(only_listed=True)
    again = say(account, WRONG, "701", in_response=True, repeat=key())
    assert (again.outcome, again.run, again.said) == ("denied", None, "")


def test_a_listed_sender_tries_no_code(account: ChannelAccount) -> None:
    assert say(account, WRONG).outcome == "accepted"
    assert say(account, WRONG, STRANGER, group=GROUP).outcome == "denied"
    assert not LinkAttempt.objects.exists()


def test_a_sender_by_an_open_list_is_linked_by_a_code(
    account: ChannelAccount, owner: User, guest: User
) -> None:
    """From then on they are the person of the code."""
    User.objects.filter(pk=guest.pk).update(only_listed=False)
    ChannelIdentity.objects.filter(user=guest).delete()
    code = link_codes.make(user=owner, via="web chat", now=NOW)
    receipt = say(account, f"/link {code}", STRANGER)
    assert receipt.session is not None
    assert receipt.session.user == owner
    assert say(account, WRONG, "701", in_response=True, repeat=key()).outcome == "accepted"
    assert say(account, WRONG, "701", in_response=True, repeat=key()).outcome == "duplicate"


def test_replayed_messages_keep_their_place_and_their_time(account: ChannelAccount) -> None:
    say(account, "one", STRANGER, chat="c", thread="t", message_id="1")
    say(account, "two", STRANGER, chat="d", now=NOW + SECOND)
    approve()
    first, second = Run.objects.order_by("id")
    assert (first.session.chat, first.session.thread, first.route["reply_to"]) == ("c", "t", "1")
    assert (second.session.chat, second.session.last_message_at) == ("d", NOW + SECOND)
    assert first.session.last_message_at == NOW
    assert {row.session for row in InboundMessage.objects.all()} == {first.session, second.session}
    assert {row.account for row in ChatSession.objects.all()} == {account}


def test_messages_that_are_let_in_without_their_request_run_all_the_same(
    account: ChannelAccount, guest: User
) -> None:
    say(account, "hello", STRANGER)
    row = InboundMessage.objects.get()
    row.user, row.state = guest, InboundMessage.State.RECEIVED
    row.save()
    decisions.let_in("gone", [row])
    assert runs() == ["hello"]

"""The channel system on the in-memory channel: route, acks, typing, order, commands ([C2]–[C9])."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from channels_app.base import Capability, ChannelError, Target
from channels_app.memory.channel import CHANNEL, PLATFORM, TEXT_LIMIT, say
from channels_app.replies import outbound
from channels_app.worker import runner as running_code
from channels_app.worker.runner import Runner
from core.conversations import inbox, outbox, sessions
from core.conversations.runs import Outcome
from core.database import transactions
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, Message, Run, User
from tests.channels_app.running import memory_account, script, until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def account(owner: User, guest: User) -> ChannelAccount:
    """Return an account that the owner and a guest may use."""
    del owner, guest
    return memory_account()


def write(account: ChannelAccount, text: str, message_id: str, **more: Any) -> None:
    """Send a message of the guest."""
    place: dict[str, Any] = {"sender": "556", "chat": "c1", **more}
    say(account=account, text=text, message_id=message_id, now=timezone.now(), **place)


def test_c2_c3_c4_messages_are_joined_answered_as_a_reply_and_lose_their_reactions(
    runner: Runner, account: ChannelAccount, settings: Settings
) -> None:
    settings.DEBOUNCE_IDLE_MILLISECONDS = 2000  # a busy machine takes a second for two
    write(account, "one", "1")
    write(account, "two", "2")
    until(lambda: PLATFORM.reactions.get(("main", "c1", "1")))
    until(lambda: "one\ntwo" in PLATFORM.texts("c1"))
    assert PLATFORM.sent[0].target == Target("c1", "", "2")
    until(lambda: PLATFORM.reactions[("main", "c1", "1")] is False)
    until(lambda: PLATFORM.reactions[("main", "c1", "2")] is False)
    assert Target("c1") in PLATFORM.typing
    until(lambda: InboundMessage.objects.filter(state="answered", ack="cleared").count() == 2)


def test_c4_typing_ends_with_the_run(runner: Runner, account: ChannelAccount) -> None:
    write(account, "hello", "1")
    until(lambda: PLATFORM.texts("c1"))
    until(lambda: not runner._typists.tasks)


def test_c4_a_batch_hands_its_typing_over_to_its_run(
    runner: Runner, account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reaction is not added a second time."""
    monkeypatch.setattr(running_code, "HAND_OVER_SECONDS", 2.0)
    write(account, "hello", "1")
    until(lambda: PLATFORM.texts("c1"))
    until(lambda: PLATFORM.reactions.get(("main", "c1", "1")) is False)
    assert PLATFORM.typing.count(Target("c1")) == 1
    until(lambda: not runner._typists.tasks)


def test_a_long_answer_is_shown_while_it_grows_and_ends_as_one_message(
    runner: Runner, account: ChannelAccount, settings: Settings, tmp_path: Path
) -> None:
    answer = " ".join(f"word{number}" for number in range(60))
    script(settings, tmp_path, {"match": "", "steps": [{"text": answer, "tokens_per_second": 60}]})
    write(account, "go", "1")
    until(lambda: PLATFORM.texts("c1"))
    assert 40 <= len(PLATFORM.texts("c1")[0]) < len(answer)
    until(lambda: PLATFORM.texts("c1") == [answer])
    assert PLATFORM.sent[0].edits >= 2


def test_c5_nine_thousand_characters_that_do_not_stream_arrive_whole(
    runner: Runner, account: ChannelAccount, settings: Settings, tmp_path: Path
) -> None:
    paragraphs = [f"Paragraph {number}. " + "x" * 80 for number in range(95)]
    answer = "\n\n".join(paragraphs)
    assert len(answer) > 9000
    script(settings, tmp_path, {"match": "", "steps": [{"text": answer}]})
    write(account, "go", "1")
    until(lambda: "\n\n".join(PLATFORM.texts("c1")) == answer)
    assert all(len(text) <= TEXT_LIMIT for text in PLATFORM.texts("c1"))
    assert [each.target.reply_to for each in PLATFORM.sent] == ["1", "", ""]


def test_a_platform_that_cannot_edit_gets_the_blocks_once_and_in_order(
    runner: Runner,
    account: ChannelAccount,
    settings: Settings,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = frozenset({Capability.TYPING})
    monkeypatch.setattr(CHANNEL, "capabilities", plain)
    answer = "\n\n".join(f"Paragraph {number}. " + "x" * 400 for number in range(30))
    steps = [{"text": answer, "tokens_per_second": 200}]
    script(settings, tmp_path, {"match": "", "steps": steps})
    write(account, "go", "1")
    until(lambda: "\n\n".join(PLATFORM.texts("c1")) == answer)
    assert all(each.edits == 0 for each in PLATFORM.sent)


def test_c9_a_message_during_a_run_waits_and_stop_keeps_the_partial_answer(
    runner: Runner, account: ChannelAccount, settings: Settings, tmp_path: Path
) -> None:
    text = "This answer has more than forty characters and hangs. "
    steps = [{"text": text}, {"hang": True}]
    script(settings, tmp_path, {"match": "^hang", "steps": steps})
    write(account, "hang", "1")
    until(lambda: PLATFORM.texts("c1"))
    write(account, "next", "2")
    until(lambda: Run.objects.filter(state="queued").exists())
    write(account, "/stop", "3")
    until(lambda: not Run.objects.exclude(state="cancelled").exists())
    until(lambda: any("⏹ Stopped." in each for each in PLATFORM.texts("c1")), seconds=5)
    assert PLATFORM.texts("c1")[0].startswith(text.strip())
    until(lambda: not any(PLATFORM.reactions.values()))


def answered(text: str) -> Run:
    """Answer what waits in the only conversation; return the run, whose messages are not sent."""
    session = ChatSession.objects.get()
    with transactions.atomic_write():
        run = inbox.flush_due(session_id=session.pk, now=timezone.now() + timedelta(seconds=9))
        assert run is not None
        outbound.enqueue_answer(run, Outcome(state="succeeded", text=text))
    return run


def test_c9_stop_ends_an_answer_whose_messages_are_still_being_sent(
    account: ChannelAccount,
) -> None:
    """Its first message stays; an answer that is still being written has its own end."""
    PLATFORM.clear()
    text = "\n\n".join(letter * (TEXT_LIMIT // 2 + 1) for letter in "abc")
    write(account, "a long one", "1")
    run = answered(text)
    session = run.session
    first = Delivery.objects.order_by("id")[0]
    asyncio.run(outbound.deliver(first.pk))
    write(account, "/stop", "2")
    assert Delivery.objects.filter(run=run, state="pending").count() == 2
    Run.objects.update(state="succeeded")
    answer = Message.objects.create(session=session, run=run, role="assistant", text=text)
    write(account, "/stop", "3")
    write(account, "/stop", "4")
    for row in Delivery.objects.order_by("id"):
        asyncio.run(outbound.deliver(row.pk))
    said = ["Stopping…", "There is nothing to stop."]
    assert PLATFORM.texts("c1") == [first.payload["text"], *said]
    answer.refresh_from_db()
    assert answer.shown == text
    assert answer.text == f"{first.payload['text']}\n\n{outbound.NOT_SEEN}"


def test_c9_the_model_knows_of_a_message_in_doubt_which_stop_does_not_take_back(
    account: ChannelAccount,
) -> None:
    text = "\n\n".join(letter * (TEXT_LIMIT // 2 + 1) for letter in "abc")
    write(account, "a long one", "1")
    run = answered(text)
    session = run.session
    Run.objects.update(state="succeeded")
    answer = Message.objects.create(session=session, run=run, role="assistant", text=text)
    _, second, third = Delivery.objects.order_by("block_index")
    Delivery.objects.filter(pk=second.pk).update(doubt_chat="c1")
    write(account, "/stop", "2")
    states = Delivery.objects.filter(run=run).order_by("block_index").values_list("state")
    assert [state for (state,) in states] == ["pending", "pending", "dismissed"]
    answer.refresh_from_db()
    assert second.payload["text"] in answer.text
    assert third.payload["text"] not in answer.text


def test_c9_stopping_is_left_out_where_stopped_comes_first(account: ChannelAccount) -> None:
    """A platform's pace may hold it up; the answer to another command is sent."""
    PLATFORM.clear()
    write(account, "/stop", "0")
    write(account, "a long one", "1")
    session = ChatSession.objects.get()
    with transactions.atomic_write():
        run = inbox.flush_due(session_id=session.pk, now=timezone.now() + timedelta(seconds=9))
        assert run is not None
    for number, text in enumerate(("/stop", "/whoami", "/stop", "/stop"), 2):
        write(account, text, str(number))
    with transactions.atomic_write():
        outbound.enqueue_answer(run, Outcome(state="cancelled", text="It begins"))
    for row in Delivery.objects.order_by("id"):
        asyncio.run(outbound.deliver(row.pk))
    nothing, whoami, answer = PLATFORM.texts("c1")
    assert nothing == "There is nothing to stop."
    assert whoami.startswith("You are guest")
    assert answer == "It begins\n\n⏹ Stopped."


def edited(**change: Any) -> bool:
    """Edit a waiting message, in a transaction as the endpoints do."""
    with transactions.atomic_write():
        return inbox.edit_waiting(**change)


def test_an_edit_of_a_waiting_message_changes_it_and_only_its_sender_can(
    account: ChannelAccount, db: None
) -> None:
    write(account, "frist", "1")
    place: dict[str, Any] = {"account": account, "chat": "c1", "message_id": "1"}
    assert not edited(**place, sender="555", text="stolen")
    assert edited(**place, sender="556", text="first")
    assert InboundMessage.objects.get().text == "first"
    session_id = InboundMessage.objects.get().session_id
    assert session_id is not None
    with transactions.atomic_write():
        inbox.flush_due(session_id=session_id, now=timezone.now() + timedelta(seconds=9))
    assert edited(**place, sender="556", text="first, again")
    assert Run.objects.get().text == "first, again"
    Run.objects.update(state="running", attempt=1)
    assert not edited(**place, sender="556", text="too late")


def test_an_edited_caption_is_the_words_of_its_sender(account: ChannelAccount, db: None) -> None:
    """Of a photo without words something is said to the model alone."""
    media = [{"kind": "image", "remote": "1"}]
    write(account, "", "1", media=media)
    session = ChatSession.objects.get()
    with transactions.atomic_write():
        inbox.flush_due(session_id=session.pk, now=timezone.now() + timedelta(seconds=9))
    place: dict[str, Any] = {"account": account, "chat": "c1", "message_id": "1", "sender": "556"}
    for caption, text in (("a bee", "a bee"), ("", "[image message received]")):
        assert edited(**place, text=caption)
        said = Message.objects.get(role="user")
        assert (said.text, said.data["said"]) == (text, caption)


def test_c8_commands_are_answered_past_the_queue(runner: Runner, account: ChannelAccount) -> None:
    for number, command in enumerate(
        ("/start", "/help", "/status", "/whoami", "/new", "/requests")
    ):
        write(account, command, str(number + 1))
    until(lambda: len(PLATFORM.texts("c1")) == 6)
    texts = "\n".join(PLATFORM.texts("c1"))
    assert "memory id: 556" in texts
    assert "Only the owner can do that." in texts
    assert "A new conversation begins." in texts
    assert not Run.objects.exists()


def test_c8_new_with_text_starts_without_history(runner: Runner, account: ChannelAccount) -> None:
    write(account, "remember me", "1")
    until(lambda: PLATFORM.texts("c1"))
    session = InboundMessage.objects.order_by("id")[0].session
    assert session is not None
    assert sessions.mark_shortened(session)
    write(account, "/new and answer this", "2")
    until(lambda: "and answer this" in PLATFORM.texts("c1"))
    session.refresh_from_db()
    assert session.history_from > 0
    assert session.shortened_at is None  # the new conversation says it again


def test_a_dead_letter_waits_for_the_owner_to_retry_it(
    runner: Runner, account: ChannelAccount
) -> None:
    PLATFORM.refusals.append(ChannelError("bot was blocked", permanent=True, trouble="blocked"))
    outbox.enqueue(
        key="x",
        account_id=account.pk,
        conversation="x",
        target={"chat": "c9", "thread": "", "reply_to": ""},
        payload={"text": "hello"},
    )
    until(lambda: Delivery.objects.filter(dedupe_key="x", state="dead").exists())
    assert outbox.retry(Delivery.objects.get(dedupe_key="x").id)
    until(lambda: PLATFORM.texts("c9") == ["hello"])

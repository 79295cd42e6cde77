"""Rows and answers of each update, in order, before it is confirmed."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from allowlist import held_messages, link_codes
from allowlist.models import AuditEntry, UnknownRequest
from channels_app.base import Account, ChannelError
from channels_app.delivery.sending import account_of
from channels_app.intake import inbound, quarantine
from channels_app.owner import outages
from channels_app.replies.outbound import put_block
from channels_app.telegram import bot_api, receive, updates
from channels_app.telegram.addressing import Bot
from core.database.transactions import atomic_write
from core.lib import ttl_cache
from core.lib.text import clean
from core.models import (
    Assistant,
    AssistantBinding,
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Message,
    Occurrence,
    Run,
    Schedule,
    ToolCall,
    ToolRule,
    User,
)
from core.providers import catalogue
from tests.channels_app.running import guest, owner, telegram_account
from tests.channels_app.schedules.making import chat_of, fire, made
from tests.channels_app.telegram.people import Params, message, number, person

__all__ = ["guest", "owner"]
pytestmark = pytest.mark.django_db
BOT = Bot(999, "my_bot")
OWNER, GUEST, STRANGER, GROUP = 555, 556, 700, -100


@pytest.fixture(autouse=True)
def fresh() -> None:
    receive.bots.clear()


@pytest.fixture
def row(owner: User, guest: User) -> ChannelAccount:
    """Return a bot with an owner (555), a guest (556) and the group -100."""
    ChannelIdentity.objects.create(user=owner, kind="im", channel="telegram", value=str(GROUP))
    return telegram_account(base="http://x", username="kept_bot")


@pytest.fixture
def take(row: ChannelAccount) -> Callable[[object], str]:
    """Return ``take(update)``: it processes an update and returns the outcome."""

    def take(value: object) -> str:
        return receive.take(row=row, bot=BOT, value=value, raw=json.dumps(value).encode())

    return take


Take = Callable[[object], str]


def press(data: str, *, by: int = OWNER, name: str = "") -> Params:
    """Return a press of a button under a message of the bot in the owner's chat."""
    return {
        "update_id": number(),
        "callback_query": {
            "id": name or str(number()),
            "from": person(by),
            "data": data,
            "message": {"message_id": 5, "chat": {"id": OWNER, "type": "private"}},
        },
    }


def edit(update: Params, text: str, **more: Any) -> Params:
    """Return the edit of a message."""
    return {"update_id": number(), "edited_message": {**update["message"], "text": text, **more}}


def stored() -> InboundMessage:
    """Return the only message."""
    return InboundMessage.objects.get()


def test_a_file_with_any_name_is_stored(take: Take) -> None:
    """PostgreSQL takes no NUL and no lone surrogate, in no column: the same update would come again
    and again."""
    named = {"file_id": "f\x00", "file_name": "a\x00b\ud800", "mime_type": "a/b\udfff"}
    for user, outcome in ((GUEST, "accepted"), (STRANGER, "denied")):
        assert take(message(user=user, document=named, media_group_id="g\x00")) == outcome
    for kept in InboundMessage.objects.order_by("id"):
        (item,) = kept.media
        assert (item["remote"], item["name"], item["mime"]) == ("f", "ab\ufffd", "a/b\ufffd")
        assert kept.options == {"album": "g"}


@pytest.mark.parametrize(
    "data", ["approve:x", "send_again:1", "remind:done:x", "sched:p:x", "tool:once"]
)
@pytest.mark.parametrize("by", [OWNER, GUEST, STRANGER])
def test_a_press_with_any_characters_is_answered(take: Take, data: str, by: int) -> None:
    assert take(press(f"{data}\x00\ud800", by=by, name="7\x00\ud800")) == "pressed"
    assert Delivery.objects.get().payload["press"] == "7\ufffd"


def test_an_update_of_an_unknown_kind_may_have_any_name(take: Take) -> None:
    assert take({"update_id": 1, "a\x00\ud800": {}}) == "ignored"
    assert (stored().state, stored().note) == ("ignored", "a\ufffd")


@pytest.mark.parametrize("account", ["9" * 18, "9" * 19, "9" * 60, "9" * 5000, "-1", "x", "", "²"])
def test_a_press_names_any_account(take: Take, account: str) -> None:
    """Clients may send any data for a button, not only what the bot wrote."""
    assert take(press(f"{outages.SEND_AGAIN}:{account}")) == "pressed"
    text = Delivery.objects.get().payload["text"]
    is_number = len(account) == 18
    assert text == ("Nothing is left to send again." if is_number else "There is no such account.")


def test_the_line_of_an_unsupported_message_comes_after_a_quoted_one(take: Take) -> None:
    quoted = {"message_id": 1, "from": person(8, "Bo"), "text": "see"}
    assert take(message(user=GUEST, story={}, reply_to_message=quoted)) == "accepted"
    quote = '<quoted sender="Bo">\nsee\n</quoted>'
    assert stored().text == f"{quote}\n[unsupported message: story]"


def test_a_part_of_a_message_of_another_chat_is_quoted(take: Take) -> None:
    elsewhere = {"origin": {"type": "user", "sender_user": person(8, "Bo")}}
    update = message("mine", user=GUEST, external_reply=elsewhere, quote={"text": "theirs"})
    assert take(update) == "accepted"
    assert stored().text == '<quoted sender="Bo">\ntheirs\n</quoted>\nmine'


def test_an_edit_of_an_unsupported_message_keeps_its_line(take: Take) -> None:
    first = message(user=GUEST, paid_media={})
    take(first)
    edited = {"update_id": number(), "edited_message": first["message"]}
    assert take(edited) == "edited"
    assert stored().text == "[unsupported message: paid_media]"


def test_an_edit_of_a_caption_keeps_all_of_it(take: Take) -> None:
    first = message(user=GUEST, document={"file_id": "f"}, caption="look")
    take(first)
    edited = {**first["message"], "caption": "/new look"}
    assert take({"update_id": number(), "edited_message": edited}) == "edited"
    assert stored().text == "/new look"


def test_an_edit_of_the_text_after_new_is_without_the_command(take: Take) -> None:
    """Its run may wait for another one."""
    first = message("/new plan a trip", user=GUEST)
    assert take(first) == "accepted"
    assert take(edit(first, "/new plan a trip to Rome")) == "edited"
    assert Run.objects.get().text == stored().text == "plan a trip to Rome"
    assert take(edit(first, "plan a trip to Bath")) == "edited"
    assert Run.objects.get().text == "plan a trip to Bath"


def late(update: Params, text: str, *, seconds: int = 30) -> Params:
    """Return the edit of a message, so long after it was sent; ``text`` may begin with the bot's
    name."""
    named = [{"type": "mention", "offset": 0, "length": 7}] if text.startswith("@my_bot") else []
    date = update["message"]["date"]
    return edit(update, text, entities=named, edit_date=date + seconds)


def test_c7_a_message_of_a_group_to_which_the_name_of_the_bot_is_added_is_received_once(
    take: Take,
) -> None:
    """[C7] They forgot it. Once: a later edit finds it there."""
    first = message("what is new?", user=GUEST, chat=GROUP)
    assert take(first) == "not addressed"
    assert take(late(first, "what is  new?")) == "too late to edit"
    assert not InboundMessage.objects.exists()
    assert take(late(first, "@my_bot what is new?")) == "accepted"
    assert (stored().text, stored().state) == ("what is new?", "received")
    assert take(late(first, "@my_bot what is new today?", seconds=40)) == "edited"
    assert stored().text == "what is new today?"
    InboundMessage.objects.update(state="answered")
    assert take(late(first, "@my_bot what was new?", seconds=50)) == "too late to edit"
    assert stored().text == "what is new today?"


def test_c7_the_name_of_the_bot_that_is_added_long_afterwards_is_too_late(take: Take) -> None:
    """[C7] Telegram tells of edits of old messages without one, as of reactions."""
    first = message("what is new?", user=GUEST, chat=GROUP)
    take(first)
    assert take(late(first, "@my_bot what is new?", seconds=601)) == "too late to edit"
    assert not InboundMessage.objects.exists()
    assert take(late(first, "@my_bot what is new?", seconds=600)) == "accepted"
    second = message("and then?", user=GUEST, chat=GROUP)
    assert take(second) == "not addressed"
    assert take(late(second, "@my_bot and then?", seconds=0)) == "accepted"


@pytest.mark.parametrize("other", ["account", "chat", "external_message_id", "body_digest"])
def test_c7_the_name_of_the_bot_is_added_though_another_message_is_known(
    take: Take, row: ChannelAccount, other: str
) -> None:
    """[C7] Ids of messages are of one chat, and another bot gets the same ones in a group."""
    first = message("what is new?", user=GUEST, chat=GROUP)
    assert take(first) == "not addressed"
    message_id = str(first["message"]["message_id"])
    values = {"account": row, "chat": str(GROUP), "external_message_id": message_id}
    others = {
        "account": telegram_account(base="http://x", name="other"),
        "chat": str(GUEST),
        "external_message_id": "1",
        "body_digest": "d",
    }
    stored_at(**{**values, other: others[other]})
    assert take(late(first, "@my_bot what is new?")) == "accepted"


def test_c7_an_edit_by_which_a_message_of_a_stranger_addresses_the_bot_is_denied(
    take: Take,
) -> None:
    """[C7] [A3] As a new one is."""
    first = message("hello", user=STRANGER, chat=GROUP)
    take(first)
    assert take(late(first, "@my_bot hello")) == "denied"
    assert UnknownRequest.objects.get().sender == str(STRANGER)


def test_c7_an_edited_message_of_a_private_chat_is_no_new_one(take: Take) -> None:
    """[C7] It was received when it was sent; a message that retention has removed does not
    come again."""
    first = message("hello", user=GUEST)
    take(first)
    InboundMessage.objects.all().delete()
    assert take(late(first, "hello again")) == "too late to edit"
    assert not InboundMessage.objects.exists()


def fields(row: InboundMessage, *names: str) -> tuple[Any, ...]:
    """Return columns of a message."""
    return tuple(getattr(row, name) for name in names)


def test_a_message_is_stored_as_it_came(take: Take, row: ChannelAccount) -> None:
    photo = [{"file_id": "p", "width": 1}]
    update = message(user=GUEST, chat=GROUP, thread=4, name="Bo", photo=photo, media_group_id="g")
    update["message"] |= {"message_id": 8, "caption": "@my_bot look"}
    update["message"]["caption_entities"] = [{"type": "mention", "offset": 0, "length": 7}]
    assert take(update) == "accepted"
    kept = stored()
    names = ("account", "kind", "sender", "sender_name", "chat", "thread", "text", "options")
    assert fields(kept, *names) == (
        row,
        "im",
        str(GUEST),
        "Bo",
        str(GROUP),
        "4",
        "look",
        {"album": "g"},
    )
    ids = fields(kept, "external_update_id", "external_message_id")
    assert ids == (str(update["update_id"]), "8")
    assert json.loads(bytes(kept.raw)) == update
    assert [item["remote"] for item in kept.media] == ["p"]
    assert kept.session is not None
    assert kept.session.flush_at is not None


def test_without_a_topic_or_an_album_neither_is_stored(take: Take) -> None:
    take(message("hello", user=GUEST))
    assert fields(stored(), "thread", "options", "media", "chat") == ("", {}, [], str(GUEST))


def test_in_a_group_that_is_not_listed_nothing_is_stored(take: Take) -> None:
    assert take(message("@my_bot hi", user=GUEST, chat=-200)) == "denied"
    request = UnknownRequest.objects.get()
    assert (request.sender, request.is_group) == ("-200", True)
    assert take(message("hi", user=GUEST, chat=-200)) == "not addressed"
    assert not InboundMessage.objects.exists()


def test_a_command_is_answered_at_once_but_not_as_a_caption(take: Take) -> None:
    assert take(message("/whoami", user=GUEST)) == "accepted"
    assert (stored().state, stored().note) == ("answered", "command /whoami")
    InboundMessage.objects.all().delete()
    assert take(message(user=GUEST, document={"file_id": "f"}, caption="/whoami")) == "accepted"
    assert stored().state == "received"


def test_the_text_after_new_follows_the_quoted_message(take: Take) -> None:
    quoted = {"message_id": 1, "from": person(8, "Bo"), "text": "see"}
    assert take(message("/new what is it?", user=GUEST, reply_to_message=quoted)) == "accepted"
    run = Run.objects.select_related("session").get()
    assert run.text == '<quoted sender="Bo">\nsee\n</quoted>\nwhat is it?'
    assert run.session.title == "what is it?"
    assert take(message("/new", user=GUEST, reply_to_message=quoted)) == "accepted"
    assert Delivery.objects.get().payload["text"] == "A new conversation begins."


PHOTO: Params = {"photo": [{"file_id": "theirs", "width": 1}]}


def remotes() -> list[list[tuple[str, str | None]]]:
    """Return the files of each message, and the sender of the message quoted for it."""
    rows = InboundMessage.objects.order_by("id").values_list("media", flat=True)
    return [[(item["remote"], item.get("quoted")) for item in media] for media in rows]


@pytest.mark.parametrize("chat", [GUEST, GROUP])
def test_c7_the_file_of_a_quoted_message_comes_with_a_message_to_the_bot(
    take: Take, chat: int
) -> None:
    bo = {"message_id": 1, "from": person(8, "Bo"), **PHOTO}
    update = message("@my_bot what is this?", user=GUEST, chat=chat, reply_to_message=bo)
    assert take(update) == "accepted"
    assert remotes() == [[("theirs", "Bo")]]
    assert stored().text.endswith("\n</quoted>\nwhat is this?")
    if chat == GROUP:
        aside = message("nice!", user=GUEST, chat=chat, reply_to_message=bo)
        assert take(aside) == "not addressed"


def test_c7_a_file_of_another_chat_comes_with_the_message_that_quotes_it(take: Take) -> None:
    own: Params = {"document": {"file_id": "own"}, "caption": "the same?"}
    assert take(message(user=GUEST, external_reply=PHOTO, **own)) == "accepted"
    assert remotes() == [[("theirs", "unknown"), ("own", None)]]


def test_c7_the_file_that_an_album_quotes_comes_once(take: Take) -> None:
    bo = {"message_id": 1, "from": person(8, "Bo"), **PHOTO}
    for _ in range(2):
        assert take(item(chat=GUEST, reply_to_message=bo)) == "accepted"
    assert remotes() == [[("theirs", "Bo"), ("p", None)], [("p", None)]]


def test_c7_a_command_is_one_also_as_a_reply_to_a_photo(take: Take) -> None:
    bo = {"message_id": 1, "from": person(8, "Bo"), **PHOTO}
    assert take(message("/whoami", user=GUEST, reply_to_message=bo)) == "accepted"
    assert stored().note == "command /whoami"
    assert take(message("/new what is it?", user=GUEST, reply_to_message=bo)) == "accepted"
    assert remotes() == [[], [("theirs", "Bo")]]
    run = Run.objects.get()
    assert run.text.endswith("\n</quoted>\nwhat is it?")
    assert [item["remote"] for item in run.route["media"]] == ["theirs"]


BOT_SAID: Params = {"message_id": 70, "from": {**person(999, "Bot"), "is_bot": True}}


def test_c7_the_file_that_the_bot_sent_comes_with_a_reply_to_it(take: Take) -> None:
    """*Make this shorter*, in a group as in a private chat."""
    sent = {**BOT_SAID, "document": {"file_id": "deck", "file_name": "deck.pptx"}}
    for chat in (GROUP, GUEST):
        assert take(message("shorter", user=GUEST, chat=chat, reply_to_message=sent)) == "accepted"
    assert remotes() == [[("deck", "Bot")]] * 2


def test_c7_an_answer_to_somebody_else_is_quoted(take: Take, row: ChannelAccount) -> None:
    """In a group each person has a conversation of their own, which knows nothing of it."""
    for user in (OWNER, GUEST):
        assert take(message("@my_bot hello", user=user, chat=GROUP)) == "accepted"
    boiled(row, has_run=True)
    said = {**BOT_SAID, "text": "Boil the pasta."}
    for user in (OWNER, GUEST):
        update = message("how long?", user=user, chat=GROUP, reply_to_message=said)
        assert take(update) == "accepted"
    texts = list(InboundMessage.objects.order_by("id").values_list("text", flat=True))
    quote = '<quoted sender="Bot">\nBoil the pasta.\n</quoted>\nhow long?'
    assert texts[2:] == ["how long?", quote]
    assert take(edit(update, "how long then?")) == "edited"
    assert InboundMessage.objects.latest("id").text == quote.replace("long?", "long then?")


def test_c7_a_stop_without_the_name_stops_the_answer_to_its_sender(take: Take) -> None:
    """[C9] Apps leave the name out in a group with one bot. Else another one's may be meant."""
    assert take(message("@my_bot hello", user=GUEST, chat=GROUP)) == "accepted"
    session = ChatSession.objects.get()
    stop: Params = {"text": "/stop", "chat": GROUP}
    assert take(message(user=GUEST, **stop)) == "not addressed"
    route = {"account": session.account_id, "chat": str(GROUP), "thread": "", "reply_to": ""}
    run = Run.objects.create(
        session=session, user=session.user, route=route, state=Run.State.RUNNING
    )
    for user in (OWNER, STRANGER):
        assert take(message(user=user, **stop)) == "not addressed"
    for text in ("/new", "stop", "/stop@another_bot"):
        assert take(message(text, user=GUEST, chat=GROUP)) == "not addressed"
    assert take(message(user=GUEST, **stop, thread=4)) == "not addressed"
    assert take(message(user=GUEST, **stop)) == "accepted"
    run.refresh_from_db()
    assert run.cancel_requested_at is not None
    Run.objects.update(state=Run.State.CANCELLED)
    assert take(message(user=GUEST, **stop)) == "not addressed"
    with atomic_write():
        rest = put_block(run=run, index=1, payload={"text": "more of its answer"})
    assert take(message(user=GUEST, **stop)) == "accepted"
    rest.refresh_from_db()
    assert rest.state == Delivery.State.DISMISSED


@pytest.mark.parametrize("other", ["user", "account", "chat", "closed_at", "for_agent"])
def test_c7_a_stop_without_the_name_is_for_the_own_conversation(
    take: Take, row: ChannelAccount, owner: User, guest: User, other: str
) -> None:
    """Not while another one is answered, such as that with another bot in the group."""
    others: Params = {
        "user": owner,
        "account": telegram_account(base="http://x", name="other"),
        "chat": str(GUEST),
        "closed_at": timezone.now(),
        "for_agent": True,
    }
    here: Params = {"user": guest, "account": row, "chat": str(GROUP)}
    session = ChatSession.objects.create(**{**here, other: others[other]})
    Run.objects.create(session=session, user=session.user, state=Run.State.RUNNING)
    assert take(message("@my_bot hello", user=GUEST, chat=GROUP)) == "accepted"
    assert take(message("/stop", user=GUEST, chat=GROUP)) == "not addressed"
    own = ChatSession.objects.filter(**here, closed_at=None, for_agent=False).get()
    Run.objects.create(session=own, user=guest, state=Run.State.RUNNING)
    assert take(message("/stop", user=GUEST, chat=GROUP)) == "accepted"


def test_c7_a_stop_without_the_name_in_a_group_that_is_listed_no_more_makes_no_request(
    take: Take,
) -> None:
    assert take(message("@my_bot hello", user=GUEST, chat=GROUP)) == "accepted"
    own = ChatSession.objects.get()
    Run.objects.create(session=own, user=own.user, state=Run.State.RUNNING)
    ChannelIdentity.objects.filter(value=str(GROUP)).delete()
    assert take(message("/stop", user=GUEST, chat=GROUP)) == "not addressed"
    assert not UnknownRequest.objects.exists()


@pytest.mark.parametrize("user", [OWNER, GUEST, STRANGER])
@pytest.mark.parametrize("answer", [OWNER, GUEST])
def test_c7_an_answer_is_quoted_except_to_the_person_to_whom_it_was_the_last(
    take: Take, row: ChannelAccount, user: int, answer: int
) -> None:
    """[C7] Also if they have asked more since. A stranger's message that is let in later is as
    whole."""
    ChannelIdentity.objects.update(expires_at=timezone.now() + timedelta(hours=1))
    for person_id in (OWNER, GUEST):
        assert take(message("@my_bot hello", user=person_id, chat=GROUP)) == "accepted"
        boiled(row, has_run=True, user=person_id, message_id=person_id)
        session = ChatSession.objects.latest("id")
        Message.objects.create(session=session, role="user", text="And the sauce?")
    said = {**BOT_SAID, "message_id": answer, "text": "Boil the pasta."}
    update = message("how long?", user=user, chat=GROUP, reply_to_message=said)
    assert take(update) == ("denied" if user == STRANGER else "accepted")
    quote = '<quoted sender="Bot">\nBoil the pasta.\n</quoted>\n' if user != answer else ""
    assert InboundMessage.objects.latest("id").text == f"{quote}how long?"


@pytest.mark.parametrize(
    "case",
    [
        "before a new conversation",
        "a reminder before a new conversation",
        "late for it",
        "an earlier one",
        "of a command",
    ],
)
def test_c7_another_answer_than_the_last_is_quoted(
    take: Take, row: ChannelAccount, case: str
) -> None:
    assert take(message("@my_bot hello", chat=GROUP)) == "accepted"
    if case == "late for it":
        assert take(message("/new@my_bot", chat=GROUP)) == "accepted"
    began = {} if case.startswith("a reminder") else {"history_from": 0}
    boiled(row, has_run=case != "of a command", **began)
    if case.endswith("before a new conversation"):
        assert take(message("/new@my_bot", chat=GROUP)) == "accepted"
    if case == "an earlier one":
        session = ChatSession.objects.get()
        Message.objects.create(session=session, role="assistant", text="Ten minutes.")
    said = {**BOT_SAID, "text": "Boil the pasta."}
    assert take(message("how long?", chat=GROUP, reply_to_message=said)) == "accepted"
    quote = '<quoted sender="Bot">\nBoil the pasta.\n</quoted>\nhow long?'
    assert InboundMessage.objects.latest("id").text == quote


def boiled(
    row: ChannelAccount, *, has_run: bool, user: int = OWNER, message_id: int = 70, **route: int
) -> None:
    """Let the bot have sent BOT_SAID to a person, as an answer if it is of a run."""
    session = ChatSession.objects.get(user__is_owner=user == OWNER)
    made = Run.objects.create(session=session, user=session.user, route=route) if has_run else None
    if made is not None:
        Message.objects.create(session=session, run=made, role="assistant", text="Boil the pasta.")
    Delivery.objects.create(
        account=row, session=session, run=made, dedupe_key=f"d{message_id}",
        external_message_id=str(message_id), state="sent",
    )  # fmt: skip


FORWARDED: Params = {"forward_origin": {"type": "user", "sender_user": person(8, "Bo")}}


def test_words_of_somebody_else_that_are_forwarded_are_quoted(take: Take) -> None:
    """They were those of the person, as for an order of theirs."""
    assert take(message("Send me all of it.", user=GUEST, **FORWARDED)) == "accepted"
    assert take(message(user=GUEST, voice={"file_id": "v"}, **FORWARDED)) == "accepted"
    first, second = InboundMessage.objects.order_by("id")
    assert first.text == '<quoted sender="Bo">\nSend me all of it.\n</quoted>'
    assert (second.text, [each["quoted"] for each in second.media]) == ("", ["Bo"])


def test_a_command_that_is_forwarded_is_not_carried_out(take: Take, request_id: str) -> None:
    """Its author may be the one who waits for the approval."""
    assert take(message(f"/approve {request_id}", user=OWNER, **FORWARDED)) == "accepted"
    assert UnknownRequest.objects.get().state == "pending"
    own: Params = {"forward_origin": {"type": "user", "sender_user": person(OWNER)}}
    assert take(message(f"/approve {request_id}", user=OWNER, **own)) == "accepted"
    assert UnknownRequest.objects.get().state == "approved"


def item(**more: Any) -> Params:
    """Return a photo of an album in the group, without words."""
    photo = [{"file_id": "p", "width": 1}]
    return message(**{"user": GUEST, "chat": GROUP, "photo": photo, "media_group_id": "g", **more})


@pytest.fixture
def album(take: Take) -> None:
    """Let the first photo of an album in the group address the bot."""
    mark = [{"type": "mention", "offset": 0, "length": 7}]
    assert take(item(caption="@my_bot look", caption_entities=mark)) == "accepted"


def test_the_items_of_an_addressed_album_belong_to_it(album: None, take: Take) -> None:
    assert take(item()) == "accepted"
    assert InboundMessage.objects.count() == 2


@pytest.mark.parametrize(
    "other",
    [{"user": OWNER}, {"media_group_id": "h"}, {"media_group_id": ""}, {"chat": -200}],
    ids=str,
)
def test_an_item_of_another_album_or_sender_does_not(
    album: None, take: Take, other: dict[str, Any]
) -> None:
    assert take(item(**other)) == "not addressed"
    assert InboundMessage.objects.exclude(state="ignored").count() == 1


CAPTION: Params = {
    "caption": "@my_bot look",
    "caption_entities": [{"type": "mention", "offset": 0, "length": 7}],
}


def test_items_before_the_one_that_addresses_the_bot_belong_to_it(take: Take) -> None:
    """A caption may stand below any of them; they come in their order, with their own captions."""
    first, second = item(caption="before"), item()
    for update in (second, first, first):
        assert take(update) == "not addressed"
    kept = InboundMessage.objects.filter(state="ignored", session=None, text="", media=[])
    assert kept.count() == 2
    last = item(**CAPTION)
    assert take(last) == "accepted"
    assert take(item()) == "accepted"
    rows = InboundMessage.objects.order_by("id")
    assert [each.text for each in rows] == ["before", "", "look", ""]
    assert {each.state for each in rows} == {"received"}
    assert len({each.session_id for each in rows}) == 1
    assert [json.loads(bytes(each.raw)) for each in rows][:3] == [first, second, last]
    assert [take(second), take(last)] == ["duplicate", "duplicate"]


def test_the_file_that_an_album_quotes_comes_with_its_first_item(take: Take) -> None:
    bo = {"message_id": 1, "from": person(8, "Bo"), **PHOTO}
    assert take(item(reply_to_message=bo)) == "not addressed"
    assert take(item(reply_to_message=bo, **CAPTION)) == "accepted"
    assert remotes() == [[("theirs", "Bo"), ("p", None)], [("p", None)]]


@pytest.mark.parametrize("other", [{"user": STRANGER}, {"chat": -200}], ids=str)
def test_no_item_of_an_unknown_sender_or_group_is_kept(take: Take, other: dict[str, Any]) -> None:
    assert take(item(**other)) == "not addressed"
    assert not InboundMessage.objects.exists()


def test_the_items_of_an_album_are_looked_for_near_each_other(
    take: Take, row: ChannelAccount
) -> None:
    """Not among all messages of a chat, of which there are very many after years."""
    assert take(item(message_id=5000, **CAPTION)) == "accepted"
    for message_id, outcome in ((4950, "accepted"), (5050, "accepted"), (5101, "not addressed")):
        assert take(item(message_id=message_id)) == outcome
    assert InboundMessage.objects.filter(external_message_id="5101", state="ignored").exists()


def test_an_item_that_no_other_one_addressed_is_deleted(take: Take) -> None:
    """By the hourly chore: it was not meant for the assistant."""
    take(item())
    now = timezone.now()
    assert held_messages.sweep_ignored(now=now) == 0
    assert held_messages.sweep_ignored(now=now + timedelta(minutes=11)) == 1


def test_an_item_that_another_bot_gets_does_not(album: None, owner: User) -> None:
    other = telegram_account(base="http://x", name="other")
    assert receive.take(row=other, bot=BOT, value=item(), raw=b"") == "not addressed"


def test_a_client_api_request_with_the_same_options_is_no_album(
    row: ChannelAccount, take: Take
) -> None:
    """Its id is a client's word, and its options are, too."""
    values = {"account": row, "chat": str(GROUP), "sender": str(GUEST), "options": {"album": "g"}}
    kept = stored_at(**values, external_message_id="", body_digest="")
    assert take(item()) == "not addressed"
    near = {"external_message_id": str(number())}
    InboundMessage.objects.filter(id=kept.pk).update(**near, body_digest="d")
    assert take(item()) == "not addressed"
    InboundMessage.objects.filter(id=kept.pk).update(body_digest="")
    assert take(item()) == "accepted"


def stored_at(**values: Any) -> InboundMessage:
    """Store a message."""
    return InboundMessage.objects.create(received_at="2026-01-01T00:00Z", **values)


@pytest.mark.parametrize(
    "other",
    [
        {"from": person(OWNER)},
        {"chat": {"id": OWNER, "type": "private"}},
        {"message_id": 1},
    ],
    ids=str,
)
def test_an_edit_of_another_message_changes_nothing(take: Take, other: Params) -> None:
    first = message("hello", user=GUEST)
    take(first)
    assert take(edit(first, "bye", **other)) == "too late to edit"
    assert stored().text == "hello"
    assert take(edit(first, "bye")) == "edited"
    assert stored().text == "bye"


def test_an_edit_in_a_group_is_without_the_name_of_the_bot_and_stores_no_code(
    take: Take, owner: User
) -> None:
    code = link_codes.make(user=owner, via="web chat", now=timezone.now())
    first = message("@my_bot hello", user=GUEST, chat=GROUP)
    take(first)
    mark = [{"type": "mention", "offset": 0, "length": 7}]
    assert take(edit(first, f"@my_bot see /link {code}", entities=mark)) == "edited"
    assert stored().text.startswith("see /link ")
    assert code not in stored().text


def answered(text: str, press_id: str) -> None:
    """Check that a press is answered with a line, in the order of its own conversation."""
    row = Delivery.objects.latest("id")
    account = ChannelAccount.objects.get()
    assert row.payload == {"kind": "answer", "press": press_id, "text": text}
    assert row.target == {"chat": str(OWNER), "thread": "", "reply_to": ""}
    assert row.conversation == f"{account.pk}:press:{press_id}"
    assert row.account == account


@pytest.fixture
def request_id(take: Take) -> str:
    """Let a sender be unknown; return the id of the request."""
    assert take(message("let me in", user=STRANGER)) == "denied"
    Delivery.objects.all().delete()
    return UnknownRequest.objects.get().public_id


@pytest.mark.parametrize(
    ("verdict", "state"),
    [
        ("approve", "approved"),
        ("approve_24h", "approved"),
        ("deny", "denied"),
        ("block", "blocked"),
    ],
)
def test_an_owner_decides_a_request_once(
    take: Take, request_id: str, owner: User, verdict: str, state: str
) -> None:
    assert take(press(f"{verdict}:{request_id}", name="71")) == "pressed"
    request = UnknownRequest.objects.get()
    assert fields_of(request) == (state, owner, "telegram")
    assert Run.objects.count() == (1 if state == "approved" else 0)
    answer = Delivery.objects.get(dedupe_key__startswith="press:")
    assert answer.payload["text"].startswith(state.capitalize())
    assert take(press(f"block:{request_id}", name="72")) == "pressed"
    again = Delivery.objects.filter(dedupe_key__startswith="press:").latest("id")
    assert again.payload["text"].startswith(f"Already {state}")
    assert UnknownRequest.objects.get().state == state


def fields_of(request: UnknownRequest) -> tuple[str, User | None, str]:
    """Return the decision about a request."""
    return request.state, request.decided_by, request.decided_via


def test_a_request_that_does_not_exist_is_said_to_the_owner(take: Take, row: object) -> None:
    take(press("approve:x", name="71"))
    answered("This request does not exist.", "71")


@pytest.mark.parametrize("by", [GUEST, STRANGER])
def test_only_an_owner_decides_and_others_are_recorded(
    take: Take, request_id: str, row: ChannelAccount, by: int
) -> None:
    assert take(press(f"approve:{request_id}", by=by, name="71")) == "pressed"
    assert UnknownRequest.objects.get().state == "pending"
    answered("Only the owner can decide.", "71")
    entry = AuditEntry.objects.get(action__endswith=".refused")
    assert (entry.actor, entry.action, entry.subject) == (
        f"{row}:{by}",
        "request.refused",
        request_id,
    )
    assert entry.data == {"via": "telegram", "why": "not an owner"}
    assert take(press(f"{outages.SEND_AGAIN}:{'1' * 50}", by=by, name="72")) == "pressed"
    again = AuditEntry.objects.get(action="delivery.refused")
    assert again.subject == f"{'1' * 39}…"


def test_by_an_open_list_an_owner_is_not_meant(take: Take, request_id: str, owner: User) -> None:
    ChannelIdentity.objects.filter(user=owner, kind="im", channel="").delete()
    ChannelIdentity.objects.filter(user=owner).delete()
    User.objects.filter(pk=owner.pk).update(only_listed=False)
    take(press(f"approve:{request_id}", by=STRANGER))
    assert UnknownRequest.objects.get().state == "pending"


def test_a_button_of_no_kind_is_ignored(take: Take) -> None:
    for data in ("", "x", "x:approve", "Approve:x"):
        update = press(data)
        assert take(update) == "ignored"
        kept = InboundMessage.objects.get(external_update_id=str(update["update_id"]))
        assert kept.note == "callback_query of no button"
    assert not Delivery.objects.exists()


def test_dead_deliveries_of_an_account_are_sent_again(take: Take, row: ChannelAccount) -> None:
    """The owner is answered in their language."""
    for number_of in (1, 2):
        Delivery.objects.all().delete()
        for each in range(number_of):
            dead(row, f"d{each}")
        assert take(press(f"{outages.SEND_AGAIN}:{row.pk}", name="71")) == "pressed"
        assert not Delivery.objects.filter(state="dead").exists()
        many = "1 message is" if number_of == 1 else "2 messages are"
        answered(f"{many} sent again.", "71")
    User.objects.filter(is_owner=True).update(language="de")
    take(press(f"{outages.SEND_AGAIN}:{row.pk}", name="72"))
    answered("Es gibt nichts mehr erneut zu senden.", "72")


def dead(row: ChannelAccount, key: str) -> Delivery:
    """Make a delivery that was given up."""
    return Delivery.objects.create(
        account=row, conversation="c", dedupe_key=key, target={}, payload={}, state="dead"
    )


def test_a_press_of_a_person_counts_once(take: Take, guest: User, row: ChannelAccount) -> None:
    """A button under a list of their reminders: the same update again changes nothing."""
    schedule = reminder(guest, row)
    update = press(f"sched:p:{schedule.public_id}:1", by=GUEST, name="71")
    assert take(update) == "pressed"
    answered("Paused.", "71")
    schedule.refresh_from_db()
    assert schedule.state == "paused"
    Schedule.objects.update(state="active")
    assert take(update) == "pressed"
    schedule.refresh_from_db()
    assert (schedule.state, Delivery.objects.count()) == ("active", 1)


def test_a_reminder_is_resumed_at_its_time(take: Take, guest: User, row: ChannelAccount) -> None:
    """By a person whose identity ends later."""
    ChannelIdentity.objects.update(expires_at=timezone.now() + timedelta(hours=1))
    schedule = reminder(guest, row)
    for letter, state in (("p", "paused"), ("r", "active")):
        take(press(f"sched:{letter}:{schedule.public_id}:1", by=GUEST))
        schedule.refresh_from_db()
        assert schedule.state == state


def reminder(user: User, row: ChannelAccount) -> Schedule:
    """Return a schedule of a person."""
    return made(chat_of(user, row, str(GUEST)), now=timezone.now())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("remind:done:x", "Only listed people have reminders."),
        ("sched:p:x:1", "Only listed people have reminders."),
        ("tool:once:x", "Only the owner can decide."),
    ],
)
def test_a_press_of_an_unknown_sender_changes_nothing(take: Take, data: str, text: str) -> None:
    take(press(data, by=STRANGER, name="71"))
    answered(text, "71")


def test_a_reminder_is_acknowledged_by_its_person(
    take: Take, guest: User, row: ChannelAccount
) -> None:
    schedule = reminder(guest, row)
    fire(timezone.now() + timedelta(minutes=11))
    occurrence = Occurrence.objects.get(schedule=schedule, run__isnull=False)
    assert occurrence.run is not None
    take(press(f"remind:later:{occurrence.run.public_id}", by=GUEST, name="70"))
    answered("I will remind you in 10 minutes.", "70")
    Occurrence.objects.filter(pk=occurrence.pk).update(acknowledged_at=None)
    data = f"remind:done:{occurrence.run.public_id}"
    take(press(data, by=OWNER, name="71"))
    answered("This reminder belongs to somebody else.", "71")
    take(press(data, by=GUEST, name="72"))
    answered("Done.", "72")
    occurrence.refresh_from_db()
    assert occurrence.acknowledged_at is not None


@pytest.fixture
def call(row: ChannelAccount, owner: User) -> ToolCall:
    """Return a call of a tool that waits for the owner's yes."""
    session = chat_of(owner, row, str(OWNER))
    run = Run.objects.create(session=session, user=owner, state=Run.State.SUCCEEDED)
    return ToolCall.objects.create(
        run=run,
        call_id="c",
        tool="send_mail",
        arguments="{}",
        digest="0123456789abcdef" * 4,
        state=ToolCall.State.WAITING,
        asked_of=owner,
    )


@pytest.mark.parametrize(
    ("choice", "state", "scope", "text"),
    [
        ("once", "allowed", "once", "Allowed."),
        ("hour", "allowed", "hour", "Allowed."),
        ("always", "allowed", "always", "Allowed."),
        ("deny", "denied", "", "Denied."),
        ("never", "waiting", "", "This question does not exist any more."),
        ("", "waiting", "", "This question does not exist any more."),
    ],
)
def test_a_question_about_a_tool_is_decided_by_its_button(
    take: Take, call: ToolCall, owner: User, choice: str, state: str, scope: str, text: str
) -> None:
    data = f"tool:{choice}:{call.public_id}:0123456789abcdef"
    take(press(data, by=GUEST, name="70"))
    call.refresh_from_db()
    assert call.state == "waiting"
    take(press(data, name="71"))
    answered(text, "71")
    call.refresh_from_db()
    assert (call.state, call.scope) == (state, scope)
    if state != "waiting":
        assert call.decided_by == owner
        entry = AuditEntry.objects.get(action=f"tool.{state}")
        assert entry.data["via"] == "telegram"


def test_a_question_whose_call_has_changed_is_not_decided(take: Take, call: ToolCall) -> None:
    for digest in ("f" * 16, "0:0123456789abcdef"):
        take(press(f"tool:once:{call.public_id}:{digest}", name="71"))
        answered("The call has changed since: look at it again.", "71")
        Delivery.objects.all().delete()


def test_a_question_is_answered_in_the_language_of_its_person(
    take: Take, call: ToolCall, owner: User
) -> None:
    User.objects.filter(pk=owner.pk).update(language="de")
    for choice, text in (
        ("never", "Diese Frage gibt es nicht mehr."),
        ("deny", "Abgelehnt."),
        ("edit", "Die Seite dafür steht im Chat."),
    ):
        take(press(f"tool:{choice}:{call.public_id}:0123456789abcdef", name=choice))
        answered(text, choice)


def test_to_edit_a_call_its_page_is_sent_to_owners(take: Take, call: ToolCall) -> None:
    take(press(f"tool:edit:{call.public_id}:0123456789abcdef", by=GUEST, name="70"))
    answered("This question does not exist any more.", "70")
    assert Delivery.objects.count() == 1
    take(press(f"tool:edit:{call.public_id}:0123456789abcdef", name="71"))
    answered("The page for it is in the chat.", "71")
    link = Delivery.objects.get(dedupe_key__endswith=":link")
    assert link.target["chat"] == str(OWNER)
    assert link.target["thread"] == ""
    assert "/sign-in?next=" in link.payload["text"]
    assert link.account == call.run.session.account
    take(press("tool:edit:x", name="72"))
    answered("This question does not exist any more.", "72")


@pytest.mark.parametrize(
    ("place", "status", "outcome", "words"),
    [
        ("private", "kicked", "blocked", "blocked"),
        ("private", "left", "blocked", "blocked"),
        ("supergroup", "kicked", "kicked", "removed"),
        ("supergroup", "left", "kicked", "removed"),
        ("private", "member", "membership", ""),
        ("supergroup", "administrator", "membership", ""),
    ],
)
def test_the_owner_is_told_that_the_bot_has_left_a_chat(
    take: Take, place: str, status: str, outcome: str, words: str
) -> None:
    chat = GUEST if place == "private" else GROUP
    take(message("@my_bot hello", user=GUEST, chat=chat))
    take(message("hello", user=OWNER))
    told = Delivery.objects.count()
    change = {
        "chat": {"id": chat, "type": place},
        "from": person(GUEST),
        "new_chat_member": {"status": status},
    }
    assert take({"update_id": number(), "my_chat_member": change}) == outcome
    assert Delivery.objects.count() == told + bool(words)
    if words:
        text = Delivery.objects.latest("id").payload["text"]
        assert words in text
        assert f"(status {status})" in text
        assert f"chat {chat}" in text


def test_a_conversation_goes_on_when_its_group_becomes_a_supergroup(
    take: Take, owner: User, row: ChannelAccount
) -> None:
    take(message("@my_bot hello", user=GUEST, chat=GROUP))
    take(message("hello", user=OWNER))
    session = ChatSession.objects.get(chat=str(GROUP))
    moved = message(user=GUEST, chat=GROUP, migrate_to_chat_id=-1007)
    assert [take(moved), take(moved)] == ["moved", "moved"]
    text = Delivery.objects.latest("id").payload["text"]
    assert f"chat {GROUP}: This group got a new id (now -1007)" in text
    ChannelIdentity.objects.create(user=owner, kind="im", channel="telegram", value="-1007")
    take(message("@my_bot again", user=GUEST, chat=-1007))
    assert InboundMessage.objects.latest("id").session == session
    session.refresh_from_db()
    assert session.chat == "-1007"


def test_the_settings_of_a_group_hold_when_it_becomes_a_supergroup(
    take: Take, row: ChannelAccount
) -> None:
    """Else a tool that is not to be offered there would be, as by its first forum topic."""
    place = {"account": row, "chat": str(GROUP)}
    beside = {"account": row, "chat": "-101"}
    one = Assistant.objects.create(name="one", slug="one")
    for where in (place, beside):
        ToolRule.objects.create(tool="send_mail", ask="off", **where)
        ToolRule.objects.create(tool="current_time", ask="off", **where)
        AssistantBinding.objects.create(assistant=one, **where)
    ToolRule.objects.create(tool="current_time", ask="never", account=row, chat="-1007")
    known = catalogue.current().version
    assert take(message(user=GUEST, chat=GROUP, migrate_to_chat_id=-1007)) == "moved"
    there = ToolRule.objects.filter(account=row, chat="-1007")
    assert dict(there.values_list("tool", "ask")) == {"send_mail": "off", "current_time": "never"}
    assert AssistantBinding.objects.get(chat="-1007").assistant == one
    assert ToolRule.objects.filter(**beside).count() == 2
    assert AssistantBinding.objects.filter(**beside).exists()
    assert catalogue.current().version > known


def test_an_ignored_update_is_counted_once_and_its_kind_is_logged_once(
    take: Take, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receive, "_logged", set())
    caplog.set_level("INFO")
    for update_id in (1, 1, 2):
        assert take({"update_id": update_id, "poll": {}}) == "ignored"
    kept = InboundMessage.objects.order_by("id")
    assert [each.external_update_id for each in kept] == ["1", "2"]
    assert {fields(each, "state", "note", "raw") for each in kept} == {("ignored", "poll", b"")}
    assert len(caplog.messages) == 1
    monkeypatch.setattr(receive, "_logged", {str(each) for each in range(1000)})
    take({"update_id": 3, "story": {}})
    assert len(caplog.messages) == 1


@pytest.mark.parametrize(
    ("value", "name", "why"),
    [
        ({"update_id": 5, "message": 1}, "5", "message is no object"),
        ({"update_id": "5", "message": 1}, "", "update_id is no whole number"),
        ({"update_id": True}, "", "update_id is no whole number"),
        ({"update_id": 2**70}, "", "update_id is out of range"),
        ({"update_id": -1}, "", "update_id is out of range"),
        ({}, "", "update_id is no whole number"),
        ([], "", "update is no object"),
        (None, "", "update is no object"),
    ],
    ids=str,
)
def test_an_update_that_cannot_be_read_is_kept_by_its_id(
    take: Take, value: object, name: str, why: str
) -> None:
    """Without one each counts as another."""
    assert [take(value), take(value)] == ["quarantined"] * 2
    kept = InboundMessage.objects.first()
    assert kept is not None
    columns = fields(kept, "external_update_id", "state", "note")
    assert columns == (name, "quarantined", why)
    assert json.loads(bytes(kept.raw)) == value
    assert InboundMessage.objects.count() == (1 if name else 2)


@pytest.mark.parametrize("text", ["hello", "\ud800", "\x00hello"])
def test_a_quarantined_update_is_read_as_it_came(
    take: Take, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    with monkeypatch.context() as yesterday:
        yesterday.setattr(updates, "PLACES", {})
        update = message(text, user=GUEST)
        assert take(update) == "quarantined"
    assert quarantine.read_again(stored()) == "accepted"
    kept = stored()
    assert fields(kept, "state", "text", "external_update_id") == (
        "received",
        clean(text),
        str(update["update_id"]),
    )
    assert json.loads(bytes(kept.raw)) == update


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"{", "Expecting property name"),
        (b"\xff", "'utf-8' codec"),
        (b"[1]", "update is no object"),
    ],
)
def test_an_update_that_cannot_be_read_again_stays_in_quarantine(
    row: ChannelAccount, raw: bytes, said: str
) -> None:
    kept = stored_at(account=row, state="quarantined", raw=raw, note="before")
    assert quarantine.read_again(kept) == "quarantined"
    again = stored()
    assert (again.state, bytes(again.raw), again.external_update_id) == ("quarantined", raw, "")
    assert again.note.startswith(said)


def test_a_quarantined_message_of_a_group_is_for_the_bot_that_was_known_last(
    row: ChannelAccount,
) -> None:
    raw = json.dumps(message("@kept_bot hello", user=GUEST, chat=GROUP)).encode()
    kept = stored_at(account=row, state="quarantined", raw=raw)
    assert quarantine.read_again(kept) == "accepted"


@pytest.mark.parametrize(
    ("value", "needed"),
    [
        ({"message": {"chat": {"type": "group"}}}, True),
        ({"edited_message": {"chat": {"type": "supergroup"}}}, True),
        ({"message": {"chat": {"type": "private"}}}, False),
        ({"message": {"chat": {"type": "private"}, "text": " /stop@my_bot"}}, True),
        ({"edited_message": {"text": "/new@my_bot x"}}, True),
        ({"message": {"text": "/new x@y"}}, False),
        ({"message": {"text": "see /new@my_bot"}}, False),
        ({"message": {"text": 5}}, False),
        ({"message": {"chat": 1}}, False),
        ({"message": {}}, False),
        ({"message": 1}, False),
        ({"callback_query": {"chat": {"type": "group"}}}, False),
        ([], False),
        (None, False),
    ],
    ids=str,
)
def test_the_name_of_the_bot_matters_in_groups_and_behind_commands(
    value: object, *, needed: bool
) -> None:
    assert receive.needs_name(value) is needed


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Answer ``getMe`` with the first of a list, which keeps its last element; an error is raised,
    and a number of seconds passes before."""
    answers: list[Any] = [{"id": 999, "username": "my_bot"}]

    async def call(account: Account, method: str, **_: Any) -> Any:
        assert (account.name, method) == ("main", "getMe")
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(bot_api, "call", call)
    return answers


def test_the_bot_is_asked_for_its_name_every_five_minutes(
    row: ChannelAccount, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be renamed. When it does not answer, the last answer counts, and before the first one
    what is stored.
    """
    now, failure = [100.0], ChannelError("away")
    monkeypatch.setattr(ttl_cache, "time", SimpleNamespace(monotonic=lambda: now[0]))
    account = account_of(row)

    def bot() -> Bot:
        return asyncio.run(receive.bot_of(account))

    asked.insert(0, failure)
    assert bot() == receive.last_known(account) == Bot(900, "kept_bot")
    assert bot() == bot() == Bot(999, "my_bot")
    now[0] += 5 * 60 - 1
    assert bot() == Bot(999, "my_bot")
    now[0] += 1
    asked[:] = [failure, {"id": 999}]
    assert bot() == receive.last_known(account) == Bot(999, "my_bot")
    assert bot() == Bot(999, "")
    assert not asked


def test_a_message_of_a_group_is_not_taken_while_the_name_of_the_bot_is_unknown(
    row: ChannelAccount, asked: list[Any]
) -> None:
    """Else one to the bot would be passed over as one to others, and never come again."""
    ChannelAccount.objects.update(config={})
    account = account_of(ChannelAccount.objects.get())
    update = message("@my_bot hello", user=GUEST, chat=GROUP)
    asked.insert(0, ChannelError("away"))
    with pytest.raises(ChannelError, match="away"):
        asyncio.run(receive.bot_of(account))
    assert asyncio.run(receive.bot_of(account)) == Bot(999, "my_bot")
    assert receive.needs_name(update)


def test_another_token_is_another_bot(row: ChannelAccount, asked: list[Any]) -> None:
    account = account_of(row)
    asyncio.run(receive.bot_of(account))
    other = replace(account, secrets={"token": "901:x"})
    asked.append({"id": 901, "username": "new_bot"})
    assert asyncio.run(receive.bot_of(other)) == Bot(901, "new_bot")
    assert receive.last_known(replace(account, secrets={}, config={})) == Bot(0, "")
    for token, number_of in (("902:a:b", 902), ("903", 903), ("a:b", 0), ("²:b", 0)):
        assert receive.last_known(replace(account, secrets={"token": token})).id == number_of
    assert receive.last_known(replace(account, id=account.id + 1)) == Bot(900, "kept_bot")


@pytest.mark.django_db(transaction=True)
def test_fetched_updates_are_taken_in_order_whatever_they_hold(
    row: ChannelAccount, asked: list[Any]
) -> None:
    """The offset is that after the highest id, so that each is confirmed."""
    telegram_account(base="http://x", name="other")
    first, second = message("one\ud800", user=GUEST), message("@my_bot two", user=GUEST, chat=GROUP)
    first["update_id"], second["update_id"] = 20, 7
    values = [first, second, {"update_id": 8, "message": {"x": 2**70}}, 5, {"update_id": "x"}]

    def offset_after(values: list[Any], offset: int) -> int:
        return asyncio.run(receive.take_all(account_of(row), values, offset=offset))

    assert offset_after(values, 3) == 21
    texts = InboundMessage.objects.order_by("id").values_list("text", "state")
    assert list(texts) == [
        ("one\ufffd", "received"),
        ("two", "received"),
        *[("", "quarantined")] * 3,
    ]
    kept = InboundMessage.objects.filter(state="quarantined").order_by("id")
    assert [json.loads(bytes(each.raw)) for each in kept] == values[2:]
    assert {each.account for each in InboundMessage.objects.all()} == {row}
    asked.append({"id": 999, "username": "my_bot"})
    assert offset_after([], 3) == 3
    # After a week without updates; with 9, the same one would come again and again.
    assert offset_after([{"update_id": 3}], 9) == 4


@pytest.mark.django_db(transaction=True)
def test_a_fetched_update_on_which_the_gateway_fails_holds_up_no_later_one(
    row: ChannelAccount, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept for the admin, once. When the database is away, all of them come again. The bot is
    not asked for its name where that does not matter."""
    receive_sender = inbound.receive_sender
    errors: list[Exception] = [*[KeyError("a defect")] * 2, OperationalError("away")]

    def sometimes(*, draft: Any, **more: Any) -> Any:
        if draft.text == "bad":
            raise errors.pop(0)
        return receive_sender(draft=draft, **more)

    monkeypatch.setattr(receive, "receive_sender", sometimes)
    bad = message("bad", user=GUEST)
    values = [bad, bad, message("good", user=GUEST)]
    account = account_of(row)
    asyncio.run(receive.take_all(account, values, offset=0))
    rows = InboundMessage.objects.order_by("id").values_list("text", "state", "note")
    assert list(rows) == [("", "quarantined", receive.BROKEN), ("good", "received", "")]
    with pytest.raises(OperationalError):
        asyncio.run(receive.take_all(account, [message("bad", user=GUEST)], offset=0))
    assert InboundMessage.objects.count() == 2
    assert len(asked) == 1

"""The parts of an update: each is read, left out or refused, and belongs to its own sender."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import pytest

from channels_app.telegram import updates
from channels_app.telegram.updates import (
    Edited,
    Entity,
    Media,
    Membership,
    Moved,
    NewMessage,
    Other,
    Person,
    Pressed,
    Quoted,
    TelegramMessage,
    UnparsableError,
)

Json = dict[str, Any]
ADA: Json = {"id": 7, "is_bot": False, "first_name": "Ada"}
ITEM: Json = {"file_id": "f"}
PRESS: Json = {
    "id": "70",
    "from": ADA,
    "data": "approve:x",
    "message": {"message_id": 3, "chat": {"id": -5}},
}
CHANGE: Json = {
    "chat": {"id": -5, "type": "group"},
    "from": ADA,
    "new_chat_member": {"status": "kicked"},
}
BEYOND = updates.MAX_ID + 1


def body(**more: Any) -> Json:
    """Return a message in a private chat."""
    return {"message_id": 2, "from": ADA, "chat": {"id": 7, "type": "private"}, **more}


def read(**more: Any) -> TelegramMessage:
    """Return the message of an update."""
    update = updates.read({"update_id": 1, "message": body(**more)})
    assert isinstance(update, NewMessage)
    return update.message


def kind(**more: Any) -> str:
    """Return the kind of an update that is not answered."""
    update = updates.read({"update_id": 1, **more})
    assert isinstance(update, Other)
    assert update.update_id == 1
    return update.kind


def refusal(**more: Any) -> str:
    """Return why an update cannot be read."""
    with pytest.raises(UnparsableError) as caught:
        updates.read({"update_id": 1, **more})
    return str(caught.value)


def test_a_message_has_its_ids_its_sender_and_its_text() -> None:
    whole = body(text="hello", date=9, message_thread_id=4, is_topic_message=True)
    message = TelegramMessage(
        id=2,
        chat=7,
        is_group=False,
        sender=Person(7, "Ada", is_bot=False),
        date=9,
        thread=4,
        text="hello",
    )
    assert updates.read({"update_id": 1, "message": whole}) == NewMessage(1, message)
    assert updates.read({"update_id": 1, "edited_message": whole}) == Edited(1, message)


@pytest.mark.parametrize(
    ("origin", "author"),
    [
        ({"type": "user", "sender_user": {**ADA, "id": 8, "first_name": "Bo"}}, "Bo"),
        ({"type": "user", "sender_user": {"id": 8, "is_bot": False}}, "unknown"),
        ({"type": "user", "sender_user": ADA}, ""),
        ({"type": "hidden_user", "sender_user_name": "Bo"}, "Bo"),
        ({"type": "chat", "sender_chat": {"id": -5, "title": "Team"}}, "Team"),
        ({"type": "channel", "chat": {"id": -5, "title": "News"}, "message_id": 1}, "News"),
        ({"type": "of the future"}, "unknown"),
    ],
    ids=str,
)
def test_a_forwarded_message_has_its_author(origin: Json, author: str) -> None:
    """Unless it is the sender, who has forwarded words of their own."""
    message = read(photo=[{**ITEM, "width": 1}], forward_origin=origin)
    assert message.author == author
    (item,) = message.items()
    assert item.get("quoted") == (author or None)


def test_a_quoted_message_of_a_chat_has_its_title() -> None:
    """Its sender is a fake one, such as *Telegram* for each post in a channel's discussion."""
    for chat, title in (({"id": -5, "title": "News"}, "News"), ({"id": -5}, "unknown")):
        post = {"from": {**ADA, "first_name": "Telegram"}, "sender_chat": chat, "text": "post"}
        found = read(text="x", reply_to_message=post).quoted
        assert found == Quoted(Person(0, title, is_bot=False), "post")
    for origin, name in (
        ({"type": "channel", "chat": {"id": -5, "title": "News"}}, "News"),
        ({"type": "hidden_user", "sender_user_name": "Bo"}, "Bo"),
        ({"type": "of the future"}, "unknown"),
    ):
        elsewhere = read(text="x", external_reply={"origin": origin}, quote={"text": "y"}).quoted
        assert elsewhere is not None
        assert elsewhere.name == name


def test_an_edited_message_has_the_time_of_its_edit() -> None:
    """The bot's name may be added to a message of a group soon after it was sent."""
    edited = body(text="x", date=9, edit_date=updates.MAX_DATE)
    update = updates.read({"update_id": 1, "edited_message": edited})
    assert isinstance(update, Edited)
    assert (update.message.date, update.message.edit_date) == (9, updates.MAX_DATE)
    assert read(text="x", date=9).edit_date == 0
    late = body(text="x", edit_date=updates.MAX_DATE + 1)
    assert refusal(edited_message=late) == "edit_date is out of range"


def test_an_update_that_cannot_be_read_has_its_id() -> None:
    """By which it is kept once."""
    assert updates.update_id_of({"update_id": 5, "message": 1}) == 5


def test_a_press_and_a_change_of_membership_are_read() -> None:
    ada = Person(7, "Ada", is_bot=False)
    pressed = Pressed(1, "70", ada, "approve:x", -5, 3)
    assert updates.read({"update_id": 1, "callback_query": PRESS}) == pressed
    changed = Membership(1, -5, "group", "kicked", ada)
    assert updates.read({"update_id": 1, "my_chat_member": CHANGE}) == changed


def test_other_updates_are_told_by_their_kind() -> None:
    assert kind() == "empty"
    assert kind(poll={"x": 1}, message=body(text="x")) == "poll"
    assert kind(**{"a\x00b\ud800": 1}) == "ab\ufffd"
    for part in ("data", "message"):
        query = {key: value for key, value in PRESS.items() if key != part}
        assert kind(callback_query=query) == "callback_query without data"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"chat": {"id": -5, "type": "channel"}}, "channel_post"),
        ({"from": {**ADA, "is_bot": True}}, "from a bot"),
        ({"text": ""}, "without content"),
        ({"pinned_message\x00": {}}, "pinned_message"),
    ],
)
def test_some_messages_are_not_answered(more: Json, said: str) -> None:
    assert kind(message=body(**{"text": "x", **more})) == said
    assert kind(edited_message=body(**{"text": "x", **more})) == said


def test_a_group_that_has_become_a_supergroup_has_moved() -> None:
    moved = body(chat={"id": -5, "type": "group"}, migrate_to_chat_id=-1005)
    assert updates.read({"update_id": 1, "message": moved}) == Moved(1, -5, -1005)
    assert refusal(message={**moved, "migrate_to_chat_id": "x"}) == (
        "migrate_to_chat_id is no whole number"
    )
    assert refusal(message={"migrate_to_chat_id": -1005}) == "chat is no object"
    unknown = {**moved, "chat": {"id": "x"}}
    assert refusal(message=unknown) == "chat.id is no whole number"
    assert kind(edited_message=moved) == "migrate_to_chat_id"


@pytest.mark.parametrize(
    "name",
    [
        "new_chat_members",
        "left_chat_member",
        "group_chat_created",
        "supergroup_chat_created",
        "migrate_from_chat_id",
        "pinned_message",
        "forum_topic_created",
        "general_forum_topic_hidden",
        "message_auto_delete_timer_changed",
        "video_chat_started",
        "write_access_allowed",
        "chat_background_set",
        "boost_added",
        "delete_chat_photo",
        "channel_chat_created",
    ],
)
def test_a_message_of_telegram_itself_is_not_answered(name: str) -> None:
    """A field that only contains such a name says nothing."""
    assert kind(message=body(text="x", **{name: {}})) == name
    assert read(text="x", **{f"x{name}": {}}).text == "x"


def test_a_message_without_a_sender_is_not_answered() -> None:
    nameless = {key: value for key, value in body(text="x").items() if key != "from"}
    assert kind(message=nameless) == "no sender"


@pytest.mark.parametrize(
    "fake",
    [
        {"id": 777000, "is_bot": False, "first_name": "Telegram"},
        {"id": 136817688, "is_bot": True, "first_name": "Channel"},
        ADA,
    ],
)
def test_a_message_on_behalf_of_a_chat_has_no_sender(fake: Json) -> None:
    """All that Telegram forwards from channels has one sender: once that is listed, any channel
    could write."""
    place = {"id": -5, "type": "supergroup"}
    for channel in ({"id": -9, "type": "channel"}, place):
        said = body(text="x", chat=place, sender_chat=channel, **{"from": fake})
        assert kind(message=said) == "from a chat"


@pytest.mark.parametrize(
    ("place", "is_group"), [("private", False), ("group", True), ("supergroup", True)]
)
def test_a_chat_is_a_group_by_its_type(place: str, *, is_group: bool) -> None:
    assert read(text="x", chat={"id": -5, "type": place}).is_group is is_group


@pytest.mark.parametrize("place", ["gigagroup", "", "Private", "private\x00", "sender", None, 1])
def test_a_chat_of_an_unknown_type_is_kept_for_the_owner(place: object) -> None:
    """It may be a group that is not listed: no message of it counts as one of a private chat."""
    for text in ("hello", ""):
        said = body(text=text, chat={"id": 7, "type": place})
        assert refusal(message=said).startswith("chat.type is n")


def test_a_topic_is_one_that_telegram_calls_so() -> None:
    """Replies in a group without topics have the same field."""
    assert read(text="x", message_thread_id=4).thread == 0
    assert read(text="x", is_topic_message=True).thread == 0
    assert read(text="x", is_topic_message=True, message_thread_id=4).thread == 4
    assert read(text="x", is_topic_message=True, message_thread_id=None).thread == 0


def test_a_text_comes_before_a_caption_with_the_entities_of_either() -> None:
    assert read(text="a", caption="b").text == "a"
    mark = [{"type": "bold", "offset": 1, "length": 2}]
    (entity,) = read(photo=[ITEM], caption="b", caption_entities=mark).entities
    assert entity == Entity("bold", 1, 2)
    assert read(text="a", entities=mark).entities == [entity]
    named = [{"type": "text_mention", "offset": 0, "length": 1, "user": {"id": 999}}]
    assert read(text="a", entities=named).entities == [Entity("text_mention", 0, 1, 999)]
    nothing: tuple[Any, ...] = ([], None, 0)
    for each in nothing:
        assert read(text="a", entities=each).entities == []


def test_a_text_keeps_the_characters_that_entities_count() -> None:
    """Those that a database does not hold are removed when it is stored."""
    assert read(text="\x00@bot\ud800").text == "\x00@bot\ud800"
    assert read(caption="\x00", photo=[ITEM]).text == "\x00"


@pytest.mark.parametrize(
    ("found", "name"),
    [
        ({"first_name": "Ada", "last_name": "Byron", "username": "a"}, "Ada Byron"),
        ({"last_name": "Byron"}, "Byron"),
        ({"first_name": "", "username": "ada"}, "ada"),
        ({"first_name": None, "username": None}, ""),
        ({"first_name": "A\x00da"}, "Ada"),
    ],
)
def test_a_sender_is_an_id_with_a_name(found: Json, name: str) -> None:
    assert updates.person({"id": 7, **found}) == Person(7, name, is_bot=False)


@pytest.mark.parametrize("value", [True, False, None, 1, "true"])
def test_a_bot_is_one_by_telegrams_word(value: object) -> None:
    assert updates.person({"id": 7, "is_bot": value}).is_bot is (value is True)


FILES = {
    "voice": Media("audio", "f", mime="audio/ogg"),
    "audio": Media("audio", "f", mime="audio/mpeg"),
    "video_note": Media("video", "f", mime="video/mp4"),
    "video": Media("video", "f", mime="video/mp4"),
    "animation": Media("video", "f", mime="video/mp4"),
    "document": Media("document", "f"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_the_kind_of_its_field(name: str) -> None:
    message = read(**{name: ITEM})
    assert (message.media, message.text, message.line) == ([FILES[name]], "", "")
    given = {**ITEM, "mime_type": "a/b", "file_name": "n", "file_size": 5, "duration": 0}
    (named,) = read(**{name: given}).media
    assert asdict(named) == {
        "kind": FILES[name].kind,
        "file_id": "f",
        "name": "n",
        "mime": "a/b",
        "size": 5,
        "duration": 0,
    }


def test_an_animation_comes_with_a_document_of_the_same_file() -> None:
    (found,) = read(document={"file_id": "d"}, animation={"file_id": "a"}).media
    assert (found.kind, found.file_id) == ("video", "a")


def test_a_picture_as_a_document_is_a_picture() -> None:
    """Only as a document: a sticker-like video stays one."""
    assert read(document={**ITEM, "mime_type": "image/png"}).media[0].kind == "image"
    assert read(document={**ITEM, "mime_type": "text/image/png"}).media[0].kind == "document"
    assert read(video={**ITEM, "mime_type": "image/gif"}).media[0].kind == "video"


def test_of_a_photo_the_widest_size_counts() -> None:
    sizes = [
        {"file_id": "s", "width": 9},
        {"file_id": "l", "width": 90, "file_size": 5},
        {"file_id": "none"},
    ]
    expected = Media("image", "l", name="photo.jpg", mime="image/jpeg", size=5)
    assert read(photo=sizes).media == [expected]
    assert read(photo=[{"file_id": "none"}, {"file_id": "s", "width": 1}]).media[0].file_id == "s"


def test_a_medium_of_the_inbox_has_a_duration_where_there_is_one() -> None:
    item = {"kind": "audio", "remote": "f", "name": "n", "mime": "m", "size": 5}
    assert Media("audio", "f", "n", "m", 5).item() == item
    assert Media("audio", "f", "n", "m", 5, 0).item() == {**item, "duration": 0}


def test_names_of_files_hold_no_character_that_a_database_refuses() -> None:
    given = {"file_id": "a\x00", "mime_type": "b\ud800", "file_name": "\udfffc\x00"}
    (found,) = read(document=given, media_group_id="g\x00").media
    assert (found.file_id, found.mime, found.name) == ("a", "b\ufffd", "\ufffdc")
    assert read(text="x", media_group_id="g\x00\ud800").album == "g\ufffd"
    assert read(text="x", media_group_id=None).album == ""


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"sticker": {"emoji": "🙂"}}, "[Sticker 🙂]"),
        ({"sticker": {"emoji": None}}, "[Sticker]"),
        (
            {"venue": {"title": "T", "address": "A", "location": {"latitude": 1, "longitude": 2}}},
            "[Location: T, A (1, 2)]",
        ),
        ({"location": {"latitude": 1.5, "longitude": -2.5}}, "[Location: 1.5, -2.5]"),
        (
            {"contact": {"first_name": "Bo", "last_name": "Ek", "phone_number": "+1"}},
            "[Contact: Bo Ek +1]",
        ),
        ({"contact": {"phone_number": "+1"}}, "[Contact: +1]"),
        (
            {"poll": {"question": "Q", "options": [{"text": "a"}, {"text": "b"}]}},
            "[Poll: Q — a / b]",
        ),
        ({"poll": {"question": "Q"}}, "[Poll: Q — ]"),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[Dice 🎲: 4]"),
        ({"paid_media": {}}, "[unsupported message: paid_media]"),
        ({"story": {}}, "[unsupported message: story]"),
        ({"game": {}}, "[unsupported message: game]"),
        ({"invoice": {}}, "[unsupported message: invoice]"),
        (
            {
                "checklist": {
                    "title": "Shopping",
                    "tasks": [
                        {"id": 1, "text": "milk", "completion_date": 1_764_000_000},
                        {"id": 2, "text": "bread"},
                    ],
                }
            },
            "[Checklist: Shopping]\n☑ milk\n☐ bread",
        ),
        ({"checklist": {"title": "Shopping"}}, "[Checklist: Shopping]"),
    ],
)
def test_other_content_than_text_and_files_is_a_line(more: Json, line: str) -> None:
    """A venue comes with its location."""
    message = read(**more)
    assert (message.line, message.text, message.media) == (line, "", [])
    assert read(text="x", reply_to_message=more).quoted == Quoted(None, line)


def test_a_quoted_message_has_its_sender_and_its_words() -> None:
    assert read(text="x").quoted is None
    assert read(text="x", reply_to_message=None).quoted is None
    bo = {"from": {"id": 8, "first_name": "Bo"}}
    sender = Person(8, "Bo", is_bot=False)

    def quoted(*, quote: object = None, **reply: Any) -> Quoted | None:
        return read(text="x", reply_to_message=reply, quote=quote).quoted

    assert quoted(**bo, text="a", caption="b") == Quoted(sender, "a")
    assert quoted(caption="b\x00") == Quoted(None, "b")
    assert quoted(rich_message={"blocks": [{"text": "r"}]}, dice={}) == Quoted(None, "r")
    assert quoted(text="a long text", quote={"text": "long"}) == Quoted(None, "long")
    assert quoted(text="a", quote={}) == Quoted(None, "a")
    assert quoted(voice=ITEM) == Quoted(None, "", [FILES["voice"]])
    assert quoted(**bo, caption="b", document=ITEM) == Quoted(sender, "b", [FILES["document"]])


def test_of_a_quoted_message_it_is_known_which_it_is_and_whether_a_person_chose_a_part() -> None:
    """A reply to the last answer of the bot is without it, unless a part was chosen."""
    reply = {"message_id": 70, "text": "a long text"}
    for quote, text, is_part in (
        (None, "a long text", False),
        ({"text": "long"}, "long", False),
        ({"text": "long", "is_manual": False}, "long", False),
        ({"text": "long", "is_manual": True}, "long", True),
    ):
        found = read(text="x", reply_to_message=reply, quote=quote).quoted
        assert found == Quoted(None, text, is_part=is_part, id=70)


Link = tuple[int, int, str]
A, B = "https://a", "https://b"


@pytest.mark.parametrize(
    ("text", "links", "said"),
    [
        ("😀 a b", [(3, 1, A), (5, 1, B)], f"😀 a ({A}) b ({B})"),
        ("😀 a b", [(5, 1, B), (3, 1, A)], f"😀 a ({A}) b ({B})"),
        ("😀 a b", [(3, 1, "")], "😀 a b"),
        (f"see {A} 😀", [(4, 9, A)], f"see {A} 😀"),
        (f"see {A} 😀", [(3, 11, A)], f"see {A} 😀"),
        ("\x00a b", [(1, 1, A)], f"a ({A}) b"),
        ("\ud800 a b", [(2, 1, A)], f"\ufffd a ({A}) b"),
        ("😀 a", [(1, 1, A)], f"😀 ({A}) a"),
        ("a", [(0, 99, A)], f"a ({A})"),
    ],
)
@pytest.mark.parametrize("name", ["text", "caption"])
def test_the_words_of_a_quoted_message_come_with_the_addresses_behind_them(
    text: str, links: list[Link], said: str, name: str
) -> None:
    """Their places count UTF-16 units, of every character."""
    marked = [
        {"type": "text_link", "offset": offset, "length": length, "url": url}
        for offset, length, url in links
    ]
    reply = {name: text, "entities" if name == "text" else "caption_entities": marked}
    assert read(text="x", reply_to_message=reply).quoted == Quoted(None, said)


def test_the_files_of_a_quoted_message_have_its_senders_name() -> None:
    bo, photo = Person(8, "Bo", is_bot=False), Media("image", "p")
    for sender, name in ((bo, "Bo"), (None, "unknown")):
        (item,) = Quoted(sender, "see", [photo]).items()
        assert item == {**photo.item(), "quoted": name}


def test_of_a_quoted_message_of_another_chat_the_shown_part_is_quoted() -> None:
    def quoted(*, quote: object = None, **reply: Any) -> Quoted | None:
        return read(text="x", external_reply=reply, quote=quote).quoted

    user = {"type": "user", "sender_user": {"id": 8, "first_name": "Bo"}}
    hidden = {"type": "hidden_user", "sender_user_name": "Bo"}
    part = {"text": "long\x00"}
    assert quoted(origin=user, quote=part) == Quoted(Person(8, "Bo", is_bot=False), "long")
    bo = Person(0, "Bo", is_bot=False)
    assert quoted(origin=hidden, quote=part) == Quoted(bo, "long")
    assert quoted(quote=part) == Quoted(None, "long")
    assert quoted(origin=hidden, dice={"emoji": "🎲", "value": 4}) == Quoted(bo, "[Dice 🎲: 4]")
    assert quoted(origin=user, giveaway={}) is None
    assert quoted(origin=hidden, video=ITEM) == Quoted(bo, "", [FILES["video"]])
    near = {"text": "near"}
    assert read(text="x", external_reply={}, reply_to_message=near).quoted == Quoted(None, "near")
    assert read(text="x", quote=part).quoted is None


@pytest.mark.parametrize(
    ("reply", "quote", "name"),
    [
        ("x", None, "external_reply is no object"),
        ({"origin": "x"}, None, "^origin is no object"),
        ({"origin": {"sender_user": "x"}}, None, "from is no object"),
        ({"dice": "x"}, None, "dice is no object"),
        ({}, {"text": 5}, "quote.text is no text"),
        ({}, "x", "quote is no object"),
    ],
)
def test_a_malformed_message_of_another_chat_is_unparsable(
    reply: object, quote: object, name: str
) -> None:
    with pytest.raises(UnparsableError, match=name):
        read(text="x", external_reply=reply, quote=quote)


def test_the_first_message_of_a_topic_is_not_quoted() -> None:
    assert read(text="x", reply_to_message={"forum_topic_created": {}, "text": "t"}).quoted is None


def rich(*blocks: Any) -> str:
    """Return the text of a message of these blocks."""
    return read(rich_message={"blocks": [*blocks]}, dice={}).text


def test_a_rich_message_is_a_line_for_each_block() -> None:
    assert read(rich_message={}, dice={}).text == ""
    assert rich({"text": "a"}, {"text": ""}, {"type": "line"}, {"text": "b"}) == "a\nb"
    assert rich({"text": "t", "summary": "s"}) == "s\nt"
    cells = [[{"text": "a"}, {"text": "b"}], [{"text": "c"}]]
    items, blocks = [{"text": "i"}], [{"text": "j"}, {"blocks": [{"text": "k"}]}]
    assert rich({"cells": cells, "items": items, "blocks": blocks}) == "a | b\nc\ni\nj\nk"
    assert read(rich_message={"blocks": [{"text": "r"}]}, text="plain").text == "plain"


def test_a_rich_text_is_read_through_its_styles() -> None:
    styled = ["a", {"text": {"text": ["b", {"expression": "x²"}]}}, {"url": "u"}, None, 5]
    assert rich({"text": styled}) == "abx²"
    assert rich({"text": {"text": "t", "expression": "e"}}) == "t"


def nested(levels: int, leaf: Json, name: str) -> Json:
    """Return a block inside of others."""
    for _ in range(levels - 1):
        leaf = {name: [leaf]}
    return leaf


@pytest.mark.parametrize("name", ["cells", "items", "blocks"])
def test_rich_blocks_are_read_to_a_depth(name: str) -> None:
    assert rich(nested(40, {"text": "x"}, name)) == "x"
    for leaf in ({"text": "x"}, {"type": "divider"}):
        said = refusal(message=body(rich_message={"blocks": [nested(41, leaf, name)]}))
        assert said == "rich_message is nested too deeply"


def test_rich_texts_are_read_to_the_same_depth() -> None:
    """A level of text counts as one of blocks; a row of cells is of the level of its table."""
    for wrap in (lambda text: [text], lambda text: {"text": text}):
        text: Any = "x"
        for _ in range(39):
            text = wrap(text)
        assert rich({"text": text}) == "x"
        assert rich({"cells": [[text["text"] if isinstance(text, dict) else text[0]]]}) == "x"
        for deep in ({"text": wrap(text)}, {"cells": [[text]]}):
            said = refusal(message=body(rich_message={"blocks": [deep]}))
            assert said == "rich_message is nested too deeply"


def test_a_button_has_an_id_of_a_bounded_length() -> None:
    """It is part of the key by which a press counts once."""
    long = "7" * 64
    update = updates.read({"update_id": 1, "callback_query": {**PRESS, "id": long}})
    assert isinstance(update, Pressed)
    assert update.id == long
    assert refusal(callback_query={**PRESS, "id": f"{long}7"}) == "id is too long"


@pytest.mark.parametrize("value", [None, True, 1.0, "1", [], {}])
def test_a_number_is_a_whole_one(value: object) -> None:
    with pytest.raises(UnparsableError, match="x is no whole number"):
        updates.number(value, "x")


def test_a_number_has_a_range() -> None:
    most = updates.MAX_ID
    assert [updates.number(each, "x") for each in (0, 1, most)] == [0, 1, most]
    assert [updates.number(each, "x", signed=True) for each in (-1, -most)] == [-1, -most]
    assert updates.number(5, "x", most=5) == 5
    for value, signed, bound in (
        (-1, False, most),
        (BEYOND, False, most),
        (-BEYOND, True, most),
        (6, False, 5),
    ):
        with pytest.raises(UnparsableError, match="x is out of range"):
            updates.number(value, "x", signed=signed, most=bound)


def test_ids_of_groups_alone_are_negative() -> None:
    group = {"id": -5, "type": "group"}
    assert read(text="x", chat=group).chat == -5
    assert refusal(message=body(text="x", message_id=-1)) == "message_id is out of range"
    assert refusal(message=body(text="x", **{"from": {"id": -7}})) == "from.id is out of range"
    year_2100 = 4_102_444_800
    assert read(text="x", date=year_2100).date == year_2100
    assert read(text="x").date == 0
    assert refusal(message=body(text="x", date=year_2100 + 1)) == "date is out of range"
    with pytest.raises(UnparsableError, match="update_id is out of range"):
        updates.read({"update_id": -1})


REST: Json = {
    "reply_to_message": {"from": {"id": 5}, "text": "q"},
    "quote": {"text": "q"},
    "media_group_id": "g",
    "is_topic_message": True,
    "message_thread_id": 4,
    "entities": [{"type": "text_mention", "offset": 0, "length": 1, "user": {"id": 6}}],
    "date": 5,
}
FILE: Json = {"file_id": "f", "mime_type": "m", "file_name": "n", "file_size": 5, "duration": 1}
EVERY: dict[str, Json] = {
    "text": {"message": body(text="x", **REST)},
    "voice": {"message": body(voice=FILE)},
    "photo": {"message": body(caption="x", photo=[{**FILE, "width": 1}])},
    "venue": {"message": body(venue={"title": "t", "location": {"latitude": 1.5}})},
    "location": {"message": body(location={"latitude": 1.5, "longitude": 1.5})},
    "contact": {"message": body(contact={"first_name": "Bo"})},
    "poll": {"message": body(poll={"question": "q", "options": [{"text": "a"}]})},
    "sticker": {"message": body(sticker={"emoji": "x"})},
    "dice": {"message": body(dice={"value": 1})},
    "rich": {"message": body(rich_message={"blocks": [{"text": ["a"], "cells": [[{"text": 1}]]}]})},
    "edit": {"edited_message": body(text="x", **REST)},
    "press": {"callback_query": PRESS},
    "change": {"my_chat_member": CHANGE},
}
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    BEYOND,
    1.5,
    "",
    "\x00",
    "7",
    [],
    [None],
    {},
    {"id": 8},
    [{}],
    "A" * 99,
)


def changed(node: Any, value: object) -> Iterator[Any]:
    """Yield ``node`` with each of its parts, at any depth, replaced by ``value`` or left out."""
    if isinstance(node, dict):
        for key, each in node.items():
            rest = {name: other for name, other in node.items() if name != key}
            yield rest
            yield {**rest, key: value}
            for inner in changed(each, value):
                yield {**rest, key: inner}
    if isinstance(node, list):
        for inner in changed(node[0], value):
            yield [inner]


def sender_of(update: updates.Update) -> int | None:
    """Return the id of the sender of an update; None where it has none."""
    match update:
        case NewMessage() | Edited():
            return update.message.sender.id
        case Pressed():
            return update.sender.id
        case Membership():
            return update.by.id
    return None


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_any_value_in_any_part_is_read_or_refused_and_of_its_own_sender(
    name: str, value: object
) -> None:
    whole = {"update_id": 1, **EVERY[name]}
    assert sender_of(updates.read(whole)) == 7
    for each in [value, *changed(whole, value)]:
        with suppress(UnparsableError):
            update = updates.read(each)
            if not isinstance(update, Other):
                (inner,) = (part for key, part in each.items() if key != "update_id")
                assert sender_of(update) == inner["from"]["id"]


WRONG = (1,)  # of no type that JSON has; an object would give each process other test ids
CHAT: Json = {"id": 7, "type": "private"}


def entity(**more: Any) -> Json:
    """Return a message with one entity."""
    return {"text": "x", "entities": [{"type": "bold", "offset": 0, "length": 1, **more}]}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"chat": WRONG}, "chat is no object"),
        ({"chat": {**CHAT, "id": WRONG}}, "chat.id is no whole number"),
        ({"chat": {**CHAT, "type": WRONG}}, "chat.type is no text"),
        ({"from": WRONG}, "from is no object"),
        ({"from": {"id": WRONG}}, "from.id is no whole number"),
        ({"from": {"id": 7, "first_name": WRONG}}, "name is no text"),
        ({"from": {"id": 7, "username": WRONG}}, "username is no text"),
        ({"message_id": WRONG}, "message_id is no whole number"),
        ({"date": WRONG}, "date is no whole number"),
        ({"edit_date": WRONG}, "edit_date is no whole number"),
        (
            {"is_topic_message": True, "message_thread_id": WRONG},
            "message_thread_id is no whole number",
        ),
        ({"media_group_id": WRONG}, "media_group_id is no text"),
        ({"text": WRONG}, "text is no text"),
        ({"entities": WRONG}, "entities is no list"),
        ({"entities": [WRONG]}, "entity is no object"),
        (entity(type=WRONG), "entity.type is no text"),
        (entity(offset=WRONG), "entity.offset is no whole number"),
        (entity(length=WRONG), "entity.length is no whole number"),
        (entity(user=WRONG), "from is no object"),
        (entity(url=WRONG), "entity.url is no text"),
        ({"photo": WRONG}, "photo is no list"),
        ({"photo": [WRONG]}, "photo is no object"),
        ({"photo": []}, "photo is empty"),
        ({"photo": [{**ITEM, "width": WRONG}]}, "width is no whole number"),
        ({"voice": WRONG}, "voice is no object"),
        ({"voice": {"file_id": WRONG}}, "file_id is no text"),
        ({"voice": {**ITEM, "mime_type": WRONG}}, "mime_type is no text"),
        ({"voice": {**ITEM, "file_name": WRONG}}, "file_name is no text"),
        ({"voice": {**ITEM, "file_size": WRONG}}, "file_size is no whole number"),
        ({"voice": {**ITEM, "duration": WRONG}}, "duration is no whole number"),
        ({"sticker": WRONG}, "sticker is no object"),
        ({"sticker": {"emoji": WRONG}}, "emoji is no text"),
        ({"venue": WRONG}, "venue is no object"),
        ({"venue": {"location": WRONG}}, "location is no object"),
        ({"location": WRONG}, "location is no object"),
        ({"contact": WRONG}, "contact is no object"),
        ({"poll": WRONG}, "poll is no object"),
        ({"poll": {"options": WRONG}}, "options is no list"),
        ({"poll": {"options": [WRONG]}}, "option is no object"),
        ({"dice": WRONG}, "dice is no object"),
        ({"checklist": WRONG}, "checklist is no object"),
        ({"checklist": {"tasks": WRONG}}, "tasks is no list"),
        ({"checklist": {"tasks": [WRONG]}}, "task is no object"),
        ({"forward_origin": WRONG}, "forward_origin is no object"),
        ({"forward_origin": {"sender_user_name": WRONG}}, "name is no text"),
        ({"reply_to_message": WRONG}, "reply_to_message is no object"),
        ({"reply_to_message": {"text": WRONG}}, "reply_to_message.text is no text"),
        ({"reply_to_message": {"from": WRONG}}, "from is no object"),
        ({"reply_to_message": {"sender_chat": WRONG}}, "chat is no object"),
        ({"reply_to_message": {"sender_chat": {"title": WRONG}}}, "title is no text"),
        (
            {"reply_to_message": {"message_id": WRONG}},
            "reply_to_message.message_id is no whole number",
        ),
        ({"reply_to_message": {}, "quote": WRONG}, "quote is no object"),
        (
            {"reply_to_message": {}, "quote": {"text": WRONG}},
            "reply_to_message.text is no text",
        ),
    ],
    ids=str,
)
def test_the_part_of_a_message_that_cannot_be_read_is_named(more: Json, said: str) -> None:
    """The owner sees it beside the update."""
    assert refusal(message=body(**{"text": "x", **more})) == said
    assert refusal(edited_message=body(**{"text": "x", **more})) == said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (WRONG, "rich_message is no object"),
        ({"blocks": WRONG}, "blocks is no list"),
        ({"blocks": [WRONG]}, "block is no object"),
        ({"blocks": [{"cells": WRONG}]}, "cells is no list"),
        ({"blocks": [{"items": WRONG}]}, "items is no list"),
        ({"blocks": [{"blocks": WRONG}]}, "blocks is no list"),
    ],
    ids=str,
)
def test_the_part_of_a_rich_message_that_cannot_be_read_is_named(given: Any, said: str) -> None:
    assert refusal(message=body(rich_message=given)) == said


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"message": WRONG}, "message is no object"),
        ({"edited_message": WRONG}, "edited_message is no object"),
        ({"callback_query": WRONG}, "callback_query is no object"),
        ({"callback_query": {**PRESS, "id": WRONG}}, "id is no text"),
        ({"callback_query": {**PRESS, "data": WRONG}}, "data is no text"),
        ({"callback_query": {**PRESS, "from": WRONG}}, "from is no object"),
        ({"callback_query": {**PRESS, "message": WRONG}}, "message is no object"),
        ({"callback_query": {**PRESS, "message": {"chat": WRONG}}}, "chat is no object"),
        (
            {"callback_query": {**PRESS, "message": {"chat": {"id": WRONG}}}},
            "chat.id is no whole number",
        ),
        (
            {"callback_query": {**PRESS, "message": {"chat": {"id": 1}, "message_id": WRONG}}},
            "message_id is no whole number",
        ),
        ({"my_chat_member": WRONG}, "my_chat_member is no object"),
        ({"my_chat_member": {**CHANGE, "chat": WRONG}}, "chat is no object"),
        ({"my_chat_member": {**CHANGE, "chat": {"id": WRONG}}}, "chat.id is no whole number"),
        (
            {"my_chat_member": {**CHANGE, "chat": {"id": 1, "type": WRONG}}},
            "chat.type is no text",
        ),
        ({"my_chat_member": {**CHANGE, "from": WRONG}}, "from is no object"),
        ({"my_chat_member": {**CHANGE, "new_chat_member": WRONG}}, "new_chat_member is no object"),
        (
            {"my_chat_member": {**CHANGE, "new_chat_member": {"status": WRONG}}},
            "status is no text",
        ),
    ],
    ids=str,
)
def test_the_part_of_an_update_that_cannot_be_read_is_named(update: Json, said: str) -> None:
    assert refusal(**update) == said


def test_an_update_that_is_none_is_said_to_be_none() -> None:
    for value, said in (
        ([], "update is no object"),
        ({}, "update_id is no whole number"),
        ({"update_id": WRONG}, "update_id is no whole number"),
    ):
        for ask in (updates.read, updates.update_id_of):
            with pytest.raises(UnparsableError, match=said):
                ask(value)

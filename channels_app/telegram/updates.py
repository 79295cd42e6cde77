"""Telegram's updates as typed objects. Pure, and without python-telegram-bot: the web process reads
thousands of them and needs a handful of fields.

https://core.telegram.org/bots/api#update. Offsets of entities count UTF-16 code units.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from core.lib.text import clean

MAX_ID = 2**62
MAX_DATE = 4_102_444_800  # the year 2100
MAX_PRESS_ID = 64  # characters; Telegram's have at most 20
UNNAMED = "unknown"
RICH_LEVELS = 40  # of nested blocks and styles; Telegram allows 16
# The kinds of chats of people, and whether it is a group's.
PLACES = {"private": False, "group": True, "supergroup": True}
UNSUPPORTED = ("paid_media", "story", "game", "invoice")
# The requested types. Telegram keeps the previous list when none is sent, and omits other types.
ALLOWED = ("message", "edited_message", "callback_query", "my_chat_member")
SERVICE = re.compile(r"^(new_chat|left_chat|group_chat_created|supergroup_chat|migrate_|pinned_|"
                     r"forum_topic|general_forum|message_auto|video_chat|write_access|"
                     r"chat_background|boost_added|delete_chat|channel_chat)")  # fmt: skip

Json = Mapping[str, Any]


class UnparsableError(ValueError):
    """The update does not have the form that Telegram documents; the text says where."""


@dataclass(frozen=True, slots=True)
class Person:
    """A sender. Only the id identifies; names are chosen by their users."""

    id: int
    name: str
    is_bot: bool


@dataclass(frozen=True, slots=True)
class Entity:
    """A marked part of a text. ``url``: the address behind the words of a ``text_link``."""

    type: str
    offset: int
    length: int
    user_id: int = 0
    url: str = ""


@dataclass(frozen=True, slots=True)
class Media:
    """A file in a message. ``kind``: image, audio, video or document."""

    kind: str
    file_id: str
    name: str = ""
    mime: str = ""
    size: int = 0
    duration: int | None = None

    def item(self) -> dict[str, Any]:
        """Return the media item for the inbox."""
        found = {
            "kind": self.kind,
            "remote": self.file_id,
            "name": self.name,
            "mime": self.mime,
            "size": self.size,
        }
        return found if self.duration is None else {**found, "duration": self.duration}


@dataclass(frozen=True, slots=True)
class Quoted:
    """The message that was replied to. ``is_part``: the text is the part that a person chose."""

    sender: Person | None
    text: str
    media: list[Media] = field(default_factory=list)
    is_part: bool = False
    id: int = 0

    @property
    def name(self) -> str:
        return self.sender.name if self.sender is not None else UNNAMED

    def items(self) -> list[dict[str, Any]]:
        """Return the media items for the inbox, with the sender's name."""
        return [{**each.item(), "quoted": self.name} for each in self.media]


@dataclass(frozen=True, slots=True)
class TelegramMessage:
    """A message of a person. ``line``: a sticker, place, contact, poll, checklist or what is not
    supported as text. ``author``: the name of the author of a message that was forwarded, unless
    it is the sender.
    """

    id: int
    chat: int
    is_group: bool
    sender: Person
    date: int
    edit_date: int = 0
    thread: int = 0
    text: str = ""
    entities: list[Entity] = field(default_factory=list)
    media: list[Media] = field(default_factory=list)
    album: str = ""
    line: str = ""
    quoted: Quoted | None = None
    author: str = ""

    def items(self) -> list[dict[str, Any]]:
        """Return the media items for the inbox; those of another author as quoted."""
        found = [each.item() for each in self.media]
        return [{**each, "quoted": self.author} for each in found] if self.author else found


@dataclass(frozen=True, slots=True)
class NewMessage:
    """``message``."""

    update_id: int
    message: TelegramMessage


@dataclass(frozen=True, slots=True)
class Edited:
    """``edited_message``."""

    update_id: int
    message: TelegramMessage


@dataclass(frozen=True, slots=True)
class Pressed:
    """``callback_query``: a button under a message of the bot."""

    update_id: int
    id: str
    sender: Person
    data: str
    chat: int
    message_id: int


@dataclass(frozen=True, slots=True)
class Membership:
    """``my_chat_member``: the bot was added, removed or blocked."""

    update_id: int
    chat: int
    chat_type: str
    status: str
    by: Person


@dataclass(frozen=True, slots=True)
class Moved:
    """``message`` with ``migrate_to_chat_id``: a group has become a supergroup, with another id."""

    update_id: int
    chat: int
    new_chat: int


@dataclass(frozen=True, slots=True)
class Other:
    """An update that is not answered; ``kind`` is its type."""

    update_id: int
    kind: str


Update = NewMessage | Edited | Pressed | Membership | Moved | Other


def read(value: object) -> Update:
    """Parse the update in ``value``. Raises UnparsableError."""
    update = mapping(value, "update")
    update_id = number(update.get("update_id"), "update_id")
    kind = next((key for key in update if key != "update_id"), "empty")
    if kind not in ALLOWED:
        return Other(update_id, clean(kind))
    found = mapping(update[kind], kind)
    if kind == "callback_query":
        return read_press(update_id, found)
    if kind == "my_chat_member":
        return read_membership(update_id, found)
    if kind == "message" and "migrate_to_chat_id" in found:
        return read_move(update_id, found)
    message = read_message(found)
    if isinstance(message, str):
        return Other(update_id, clean(message))
    return NewMessage(update_id, message) if kind == "message" else Edited(update_id, message)


def update_id_of(value: object) -> int:
    """Return the id of the update in ``value``. Raises UnparsableError."""
    return number(mapping(value, "update").get("update_id"), "update_id")


def read_message(message: Json) -> TelegramMessage | str:
    """Return a message, or the kind of one that is not answered."""
    chat = mapping(message.get("chat"), "chat")
    place = string(chat.get("type"), "chat.type", exact=True)
    if place == "channel":
        return "channel_post"
    if place not in PLACES:
        raise UnparsableError("chat.type is not known")
    if "from" not in message:
        return "no sender"
    if "sender_chat" in message:
        # Sent on behalf of a group or a channel: ``from`` is a fake sender, the same one for all.
        return "from a chat"
    sender = person(message["from"])
    if sender.is_bot:
        return "from a bot"
    service = next((key for key in message if SERVICE.match(key)), "")
    if service:
        return service
    media = read_media(message)
    line = line_of(message)
    text = string(
        message.get("text") or message.get("caption") or rich_text(message), "text", exact=True
    )
    if not (text or media or line):
        return "without content"
    marked = message.get("entities") or message.get("caption_entities")
    return TelegramMessage(
        id=number(message.get("message_id"), "message_id"),
        chat=number(chat.get("id"), "chat.id", signed=True),
        is_group=PLACES[place],
        sender=sender,
        date=number(message.get("date", 0), "date", most=MAX_DATE),
        edit_date=number(message.get("edit_date", 0), "edit_date", most=MAX_DATE),
        thread=topic_of(message),
        text=text,
        entities=entities(marked) if marked else [],
        media=media,
        album=string(message.get("media_group_id") or "", "media_group_id"),
        line=line,
        quoted=quoted(message),
        author=author(message, sender) if "forward_origin" in message else "",
    )


def topic_of(message: Json) -> int:
    """Return the topic of a message; 0 for none and for General."""
    topic = message.get("message_thread_id") if message.get("is_topic_message") else None
    return number(topic, "message_thread_id") if topic is not None else 0


def read_media(message: Json) -> list[Media]:
    """Return the files of a message."""
    if "photo" in message:
        sizes = [mapping(each, "photo") for each in sequence(message["photo"], "photo")]
        if not sizes:
            raise UnparsableError("photo is empty")
        largest = max(sizes, key=lambda each: number(each.get("width", 0), "width"))
        return [media(largest, "image", mime="image/jpeg", name="photo.jpg")]
    for key, (kind, mime) in FILES.items():
        if key in message:
            return [media(mapping(message[key], key), kind, mime=mime)]
    return []


# An animation comes with a document of the same file: the first that is found counts.
FILES = {
    "voice": ("audio", "audio/ogg"),
    "audio": ("audio", "audio/mpeg"),
    "video_note": ("video", "video/mp4"),
    "video": ("video", "video/mp4"),
    "animation": ("video", "video/mp4"),
    "document": ("document", ""),
}


def media(value: Json, kind: str, *, mime: str, name: str = "") -> Media:
    given = string(value.get("mime_type") or mime, "mime_type")
    if kind == "document" and given.startswith("image/"):
        kind = "image"
    duration = value.get("duration")
    return Media(
        kind=kind,
        file_id=string(value.get("file_id"), "file_id"),
        name=string(value.get("file_name") or name, "file_name"),
        mime=given,
        size=number(value.get("file_size") or 0, "file_size"),
        duration=number(duration, "duration") if duration is not None else None,
    )


def rich_text(message: Json) -> str:
    """Return the text of a rich message, a block in each line; empty for other messages."""
    given = message.get("rich_message")
    if given is None:
        return ""
    blocks = sequence(mapping(given, "rich_message").get("blocks", []), "blocks")
    return "\n".join(line for block in blocks for line in lines_of(block, RICH_LEVELS))


def lines_of(block: Any, levels: int) -> list[str]:
    """Return the lines of a block, of an item, or of a row (a list of cells)."""
    if levels <= 0:
        raise UnparsableError("rich_message is nested too deeply")
    if isinstance(block, list):
        return [" | ".join(letters(cell, levels) for cell in block)]
    found = mapping(block, "block")
    lines = [letters(found[name], levels) for name in ("summary", "text") if name in found]
    for name in ("cells", "items", "blocks"):
        for each in sequence(found.get(name, []), name):
            lines += lines_of(each, levels - 1)
    return [line for line in lines if line]


def letters(text: Any, levels: int) -> str:
    """Return a rich text (a string, a list, or a style around another) without its styles."""
    if levels <= 0:
        raise UnparsableError("rich_message is nested too deeply")
    if isinstance(text, list):
        return "".join(letters(each, levels - 1) for each in text)
    if isinstance(text, Mapping):
        return letters(text.get("text") or text.get("expression") or "", levels - 1)
    return text if isinstance(text, str) else ""


def line_of(message: Json) -> str:
    """Return a sticker, place, contact, … as text, also when it is not supported; else ""."""
    if "sticker" in message:
        emoji = mapping(message["sticker"], "sticker").get("emoji")
        return f"[Sticker {string(emoji, 'emoji')}]" if emoji else "[Sticker]"
    if "venue" in message:
        venue = mapping(message["venue"], "venue")
        place = coordinates(mapping(venue.get("location"), "location"))
        return f"[Location: {venue.get('title')}, {venue.get('address')} ({place})]"
    if "location" in message:
        return f"[Location: {coordinates(mapping(message['location'], 'location'))}]"
    if "contact" in message:
        contact = mapping(message["contact"], "contact")
        names = (contact.get("first_name"), contact.get("last_name"), contact.get("phone_number"))
        return f"[Contact: {' '.join(str(each) for each in names if each)}]"
    if "poll" in message:
        poll = mapping(message["poll"], "poll")
        options = [mapping(each, "option") for each in sequence(poll.get("options", []), "options")]
        listed = " / ".join(str(each.get("text")) for each in options)
        return f"[Poll: {poll.get('question')} — {listed}]"
    if "dice" in message:
        dice = mapping(message["dice"], "dice")
        return f"[Dice {dice.get('emoji')}: {dice.get('value')}]"
    if "checklist" in message:
        return checklist(mapping(message["checklist"], "checklist"))
    kind = next((key for key in UNSUPPORTED if key in message), "")
    return f"[unsupported message: {kind}]" if kind else ""


def checklist(found: Json) -> str:
    """Return a checklist with its tasks, a line each, and which of them are done."""
    tasks = [mapping(each, "task") for each in sequence(found.get("tasks", []), "tasks")]
    lines = [f"{'☑' if each.get('completion_date') else '☐'} {each.get('text')}" for each in tasks]
    return "\n".join([f"[Checklist: {found.get('title')}]", *lines])


def author(message: Json, sender: Person) -> str:
    """Return the name of another author of a forwarded message; empty for one of ``sender``."""
    found = person_of(mapping(message["forward_origin"], "forward_origin"))
    if found is None:
        return UNNAMED
    return "" if found.id == sender.id else found.name or UNNAMED


def person_of(origin: Json) -> Person | None:
    """Return the author in the origin of a message, who may hide or be a chat; None for none."""
    if "sender_user" in origin:
        return person(origin["sender_user"])
    chat = origin.get("chat") or origin.get("sender_chat")
    if chat is not None:
        return sender_chat(chat)
    name = string(origin.get("sender_user_name") or "", "name")
    return Person(0, name, is_bot=False) if name else None


def sender_chat(chat: object) -> Person:
    """Return a chat that is the sender of messages: a channel, or a group with its admins."""
    title = mapping(chat, "chat").get("title")
    return Person(0, string(title or "", "title") or UNNAMED, is_bot=False)


def coordinates(location: Json) -> str:
    """Return ``latitude, longitude``."""
    return f"{location.get('latitude')}, {location.get('longitude')}"


def quoted(message: Json) -> Quoted | None:
    """Return the message that this one replies to, also one of another chat, as far as Telegram
    shows it; in a topic, its first message does not count.
    """
    value = message.get("reply_to_message")
    if value is None:
        return quoted_from_elsewhere(message) if "external_reply" in message else None
    reply = mapping(value, "reply_to_message")
    if "forum_topic_created" in reply:
        return None
    part = quoted_part(message)
    text = part.get("text") or linked_text(reply) or rich_text(reply) or line_of(reply)
    sender = person(reply["from"]) if "from" in reply else None
    if "sender_chat" in reply:  # ``from`` is a fake sender then
        sender = sender_chat(reply["sender_chat"])
    said = string(text or "", "reply_to_message.text")
    return Quoted(
        sender,
        said,
        read_media(reply),
        is_part=part.get("is_manual") is True,
        id=number(reply.get("message_id", 0), "reply_to_message.message_id"),
    )


def quoted_from_elsewhere(message: Json) -> Quoted | None:
    """Return the message of another chat that was replied to, of which Telegram gives the part that
    was quoted, its files, and what is no text; None without any.
    """
    reply = mapping(message["external_reply"], "external_reply")
    text = string(quoted_part(message).get("text") or line_of(reply), "quote.text")
    sender = person_of(mapping(reply.get("origin") or {}, "origin"))
    media = read_media(reply)
    return Quoted(sender, text, media) if text or media else None


def linked_text(message: Json) -> str:
    """Return the text of a quoted message, or its caption, with the addresses behind its words."""
    given = message.get("text") or message.get("caption") or ""
    text = string(given, "reply_to_message.text", exact=True)
    marked = message.get("entities") or message.get("caption_entities")
    return with_addresses(text, entities(marked)) if marked else text


def with_addresses(text: str, marked: list[Entity]) -> str:
    """Return ``text`` with the address behind each link of words, as ``words (url)``."""
    links = [each for each in marked if each.url]
    if not links:
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    for link in sorted(links, key=lambda each: -each.offset):
        units = with_address(units, link)
    return units.decode("utf-16-le", "replace")


def with_address(units: bytes, link: Entity) -> bytes:
    """Return a text in UTF-16, which offsets count in, with the address of one link."""
    start, end = link.offset * 2, (link.offset + link.length) * 2
    if units[start:end].decode("utf-16-le", "replace").strip() == link.url:
        return units
    return units[:end] + f" ({link.url})".encode("utf-16-le") + units[end:]


def quoted_part(message: Json) -> Json:
    """Return the part of another message that was marked to be quoted; empty for the whole."""
    return mapping(message.get("quote") or {}, "quote")


def read_press(update_id: int, query: Json) -> Pressed | Other:
    if "data" not in query or "message" not in query:
        return Other(update_id, "callback_query without data")
    message = mapping(query["message"], "message")
    name = string(query.get("id"), "id")
    if len(name) > MAX_PRESS_ID:
        raise UnparsableError("id is too long")
    return Pressed(
        update_id=update_id,
        id=name,
        sender=person(query.get("from")),
        data=string(query["data"], "data"),
        chat=number(mapping(message.get("chat"), "chat").get("id"), "chat.id", signed=True),
        message_id=number(message.get("message_id"), "message_id"),
    )


def read_membership(update_id: int, value: Json) -> Membership:
    chat = mapping(value.get("chat"), "chat")
    return Membership(
        update_id=update_id,
        chat=number(chat.get("id"), "chat.id", signed=True),
        chat_type=string(chat.get("type"), "chat.type"),
        status=string(
            mapping(value.get("new_chat_member"), "new_chat_member").get("status"), "status"
        ),
        by=person(value.get("from")),
    )


def read_move(update_id: int, message: Json) -> Moved:
    chat, new = mapping(message.get("chat"), "chat"), message["migrate_to_chat_id"]
    return Moved(
        update_id=update_id,
        chat=number(chat.get("id"), "chat.id", signed=True),
        new_chat=number(new, "migrate_to_chat_id", signed=True),
    )


def person(value: object) -> Person:
    """Return a sender. Raises UnparsableError."""
    found = mapping(value, "from")
    names = (found.get("first_name"), found.get("last_name"))
    name = " ".join(string(each, "name") for each in names if each)
    return Person(
        id=number(found.get("id"), "from.id"),
        name=name or string(found.get("username") or "", "username"),
        is_bot=found.get("is_bot") is True,
    )


def entities(value: object) -> list[Entity]:
    """Return the marked parts of a text."""
    found = []
    for each in sequence(value, "entities"):
        entity = mapping(each, "entity")
        user = entity.get("user")
        found.append(
            Entity(
                type=string(entity.get("type"), "entity.type"),
                offset=number(entity.get("offset"), "entity.offset"),
                length=number(entity.get("length"), "entity.length"),
                user_id=person(user).id if user is not None else 0,
                url=string(entity.get("url") or "", "entity.url"),
            )
        )
    return found


def mapping(value: object, name: str) -> Json:
    """Return ``value`` as an object. Raises UnparsableError."""
    if not isinstance(value, dict):
        raise UnparsableError(f"{name} is no object")
    return value


def sequence(value: object, name: str) -> list[Any]:
    """Return ``value`` as a list. Raises UnparsableError."""
    if not isinstance(value, list):
        raise UnparsableError(f"{name} is no list")
    return value


def string(value: object, name: str, *, exact: bool = False) -> str:
    """Return ``value`` as storable text; ``exact``: all characters. Raises UnparsableError."""
    if not isinstance(value, str):
        raise UnparsableError(f"{name} is no text")
    return value if exact or value.isprintable() else clean(value)


def number(value: object, name: str, *, signed: bool = False, most: int = MAX_ID) -> int:
    """Return ``value`` as a whole number in its range, no bool. Raises UnparsableError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnparsableError(f"{name} is no whole number")
    if abs(value) > most or (value < 0 and not signed):
        raise UnparsableError(f"{name} is out of range")
    return value

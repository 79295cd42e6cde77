"""Find out whether a group's message addresses the bot, and remove its name ([C7]). Pure."""

from dataclasses import dataclass

from channels_app.telegram.updates import (
    Entity,
    Quoted,
    TelegramMessage,
    with_address,
    with_addresses,
)
from core.lib.text import quote

QUOTE_LENGTH = 4096  # of a message; rich ones may be longer
CUT = " […]"
EMPTY_QUOTE = "[empty or non-text message]"


@dataclass(frozen=True, slots=True)
class Bot:
    """The bot's own account on Telegram."""

    id: int
    username: str


@dataclass(frozen=True, slots=True)
class Addressed:
    """A message without the bot's name; only ``text`` includes the quoted message.

    ``command_text`` is empty for words of somebody else, who gives no commands. ``is_answer``: in a
    group, the quoted message is one of the bot; ``text`` leaves it out.
    """

    addressed: bool
    command_text: str
    text: str
    is_answer: bool = False


def understand(message: TelegramMessage, *, bot: Bot) -> Addressed:
    """Return whether ``message`` addresses the bot, and its text without the bot's name.

    A mention counts by its entity, a command by its ``@suffix``, a reply when it is to us.
    """
    text, named = without_name(message.text, message.entities, bot)
    text = whole(message, text)
    if not (text or message.media):  # the name alone, as one calls somebody
        text = message.text.strip()
    replied = message.quoted is not None and is_bot(message.quoted, bot)
    addressed = not message.is_group or named or replied
    own = not message.author
    if not addressed:
        raw = whole(message, with_addresses(message.text, message.entities))
        command_text = raw if own else ""
        return Addressed(addressed=False, command_text=command_text, text=said(message, raw))
    # In a group a reply is the way to address the bot: it need not repeat an answer.
    is_answer = replied and message.is_group and not is_part(message.quoted)
    return Addressed(
        addressed=True,
        command_text=text if own else "",
        text=with_quote(None if is_answer else message.quoted, said(message, text)),
        is_answer=is_answer,
    )


def whole(message: TelegramMessage, text: str) -> str:
    """Return a message's text after the line for its unsupported parts."""
    return "\n".join(each for each in (message.line, text) if each)


def said(message: TelegramMessage, text: str) -> str:
    """Return the text of a message, marked as quoted where it is of another author."""
    return quote(text, sender=message.author) if message.author and text else text


def is_part(quoted: Quoted | None) -> bool:
    """Return whether a part of a message was chosen to reply to."""
    return quoted is not None and quoted.is_part


def is_bot(quoted: Quoted, bot: Bot) -> bool:
    """Return whether the quoted message is the bot's own."""
    return quoted.sender is not None and quoted.sender.id == bot.id


def with_quote(quoted: Quoted | None, text: str) -> str:
    """Return ``text`` after the message it replies to, which is marked as quoted."""
    if quoted is None:
        return text
    cut = CUT if len(quoted.text) > QUOTE_LENGTH else ""
    whole = f"{quoted.text[:QUOTE_LENGTH]}{cut}" or EMPTY_QUOTE
    return f"{quote(whole, sender=quoted.name)}\n{text}"


def without_name(text: str, entities: list[Entity], bot: Bot) -> tuple[str, bool]:
    """Return ``text`` without mentions of the bot, and with the addresses behind its links; and
    whether it had a mention.

    Offsets count UTF-16 units, so the text is cut as UTF-16.
    """
    units = text.encode("utf-16-le", "surrogatepass")
    name = f"@{bot.username}".lower()
    named = False
    for entity in sorted(entities, key=lambda each: -each.offset):
        start, end = entity.offset * 2, (entity.offset + entity.length) * 2
        part = units[start:end].decode("utf-16-le", "replace")
        if is_name(entity, part, name=name, bot=bot):
            units, named = units[:start] + units[end:], True
        elif entity.type == "bot_command" and part.lower().endswith(name):
            kept = part[: -len(name)].encode("utf-16-le")
            units, named = units[:start] + kept + units[end:], True
        elif entity.url:
            units = with_address(units, entity)
    return units.decode("utf-16-le", "replace").strip(), named


def is_name(entity: Entity, part: str, *, name: str, bot: Bot) -> bool:
    """Return whether an entity names the bot: ``@name``, or a link to its account."""
    if entity.type == "mention":
        return part.lower() == name
    return entity.type == "text_mention" and entity.user_id == bot.id

"""Find out whether a group's message addresses the bot, and remove its name ([C7]). Pure."""

from dataclasses import dataclass

from channels_app.telegram.updates import Entity, Quoted, TelegramMessage
from core.lib.text import quote

QUOTE_LENGTH = 1024
EMPTY_QUOTE = "[empty or non-text message]"


@dataclass(frozen=True, slots=True)
class Bot:
    """The bot's own account on Telegram."""

    id: int
    username: str


@dataclass(frozen=True, slots=True)
class Addressed:
    """A message without the bot's name; only ``text`` includes the quoted message, ``quoted``."""

    addressed: bool
    command_text: str
    text: str
    quoted: Quoted | None = None


def understand(message: TelegramMessage, *, bot: Bot) -> Addressed:
    """Return whether ``message`` addresses the bot, and its text without the bot's name.

    A mention counts by its entity, a command by its ``@suffix``, a reply when it is to us.
    """
    raw = message.text or message.line
    text, named = without_name(message.text, message.entities, bot)
    text = text or message.line
    replied = message.quoted is not None and is_bot(message.quoted, bot)
    addressed = not message.is_group or named or replied
    if not addressed:
        return Addressed(addressed=False, command_text=raw, text=raw)
    quoted = None if replied and message.is_group else message.quoted
    return Addressed(
        addressed=True, command_text=text, text=with_quote(quoted, text), quoted=quoted
    )


def is_bot(quoted: Quoted, bot: Bot) -> bool:
    """Return whether the quoted message is the bot's own."""
    return quoted.sender is not None and quoted.sender.id == bot.id


def with_quote(quoted: Quoted | None, text: str) -> str:
    """Return ``text`` after the message it replies to, which is marked as quoted."""
    if quoted is None:
        return text
    said = quoted.text[:QUOTE_LENGTH] or EMPTY_QUOTE
    return f"{quote(said, sender=quoted.name)}\n{text}"


def without_name(text: str, entities: list[Entity], bot: Bot) -> tuple[str, bool]:
    """Return ``text`` without mentions of the bot, and whether it had one.

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
    return units.decode("utf-16-le", "replace").strip(), named


def is_name(entity: Entity, part: str, *, name: str, bot: Bot) -> bool:
    """Return whether an entity names the bot: ``@name``, or a link to its account."""
    if entity.type == "mention":
        return part.lower() == name
    return entity.type == "text_mention" and entity.user_id == bot.id

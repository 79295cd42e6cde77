"""The Telegram plugin: configuration, gateway (webhook or long polling), outbound."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from telegram import InlineKeyboardMarkup, LinkPreviewOptions, MessageEntity, ReplyParameters

from channels_app.base import (
    Account,
    Block,
    Capability,
    ChannelError,
    Field,
    Health,
    OutgoingFile,
    Pace,
    RemoteFile,
    Target,
)
from channels_app.telegram import adapter, api, plain, receive
from channels_app.telegram.updates import ALLOWED

ACK = "👀"  # one of the reactions a bot may give
TOKEN = re.compile(r"^[0-9]{3,20}:[A-Za-z0-9_-]{20,64}$")
SECRET = re.compile(r"^[A-Za-z0-9_-]{1,256}$")
POLL_SECONDS = 25
POLL_LIMIT = 100
PHOTO_BYTES = 10 * 1024 * 1024
PACE = Pace(
    per_second=30,
    chat_seconds=1.0,
    group_per_minute=20,
    edit_seconds=1.2,
    group_edit_seconds=3.0,
)
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
COMMANDS = (
    ("new", "Start afresh"),
    ("stop", "Stop the answer that is being written"),
    ("status", "What is going on"),
    ("whoami", "Who you are to the gateway"),
    ("help", "What you can say"),
)


class TelegramConfig:
    """What an account needs: the token of @BotFather and, for a webhook, a secret of its own."""

    fields: Sequence[Field] = (
        Field("token", "Bot token", "From @BotFather.", secret=True, required=True),
        Field(
            "webhook_secret",
            "Webhook secret",
            "1–256 of A–Z a–z 0–9 _ -. Telegram shows it with every update.",
            secret=True,
        ),
        Field(
            "mode",
            "How updates come",
            "webhook needs a public https address; polling needs none.",
            default="webhook",
            choices=("webhook", "polling"),
        ),
        Field(
            "api_base", "Bot API server", "Your own server, else Telegram's.", default=plain.BASE
        ),
        Field(
            "denied_reply",
            "Line for strangers",
            "Said once to somebody who is not let in. Empty: nothing.",
        ),
    )

    def problems(self, account: Account) -> list[str]:
        """What is missing or wrong."""
        found = []
        if not TOKEN.match(account.secrets.get("token", "")):
            found.append("The bot token is missing or has not the form 123456:ABC….")
        mode = mode_of(account)
        if mode not in {"webhook", "polling"}:
            found.append("mode is webhook or polling.")
        if mode == "webhook" and not SECRET.match(account.secrets.get("webhook_secret", "")):
            found.append("A webhook needs a webhook_secret: 1–256 of A–Z a–z 0–9 _ -.")
        return found


def mode_of(account: Account) -> str:
    """``webhook`` or ``polling``."""
    return str(account.config.get("mode") or "webhook")


def webhook_url(account: Account, *, base_url: str) -> str:
    """Where Telegram is to send updates."""
    return f"{base_url}/telegram/{account.name}/webhook"


class TelegramGateway:
    """How updates come in."""

    async def prepare(self, account: Account, *, base_url: str) -> str:
        """Set the webhook, or take it away for polling; nothing that waits is dropped."""
        await plain.call(
            account,
            "setMyCommands",
            commands=[{"command": name, "description": text} for name, text in COMMANDS],
        )
        if mode_of(account) == "polling":
            await plain.call(account, "deleteWebhook", drop_pending_updates=False)
            return "polling"
        await plain.call(
            account,
            "setWebhook",
            url=webhook_url(account, base_url=base_url),
            secret_token=account.secrets["webhook_secret"],
            allowed_updates=list(ALLOWED),
            drop_pending_updates=False,
        )
        return "webhook"

    async def retire(self, account: Account) -> None:
        """Take the webhook away; what waits is kept for the next time."""
        if mode_of(account) == "webhook":
            await plain.call(account, "deleteWebhook", drop_pending_updates=False)

    async def check(self, account: Account) -> Health:
        """What Telegram says about our webhook: its last error, and how much waits."""
        info: dict[str, Any] = await plain.call(account, "getWebhookInfo")
        facts = {
            "pending": info.get("pending_update_count", 0),
            "last_error": info.get("last_error_message", ""),
            "last_error_at": info.get("last_error_date", 0),
        }
        if mode_of(account) == "polling":
            problem = "A webhook is set for this bot." if info.get("url") else ""
        elif not info.get("url"):
            problem = "The webhook is not set: save the account, or run telegram_webhook set."
        elif facts["last_error"] and facts["pending"]:
            problem = f"Telegram cannot deliver: {facts['last_error']} ({facts['pending']} wait)."
        else:
            problem = ""
        return Health(problem=problem, facts=facts)

    async def test(self, account: Account) -> str:
        """The bot's name."""
        me = await receive.who_are_we(account)
        return f"@{me.username} (id {me.id})"

    def wants_polling(self, account: Account) -> bool:
        """Whether the owner chose polling."""
        return mode_of(account) == "polling"

    async def poll(self, account: Account) -> None:
        """Long polling: an update is confirmed to Telegram only after it was committed here."""
        offset = 0
        while True:
            updates = await plain.call(
                account,
                "getUpdates",
                seconds=POLL_SECONDS,
                offset=offset,
                limit=POLL_LIMIT,
                timeout=POLL_SECONDS,
                allowed_updates=list(ALLOWED),
            )
            offset = await receive.take_all(account, updates, offset=offset)


@dataclass(slots=True)
class TelegramOutbound:
    """The Bot API's send methods; every one raises ChannelError."""

    max_download_bytes: int = plain.MOST_DOWNLOAD_BYTES

    def render(self, text: str) -> list[Block]:
        """Markdown as text and entities."""
        return adapter.render(text)

    async def send_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Send a message."""
        return await self._send(account, Target(target.chat, target.thread), block)

    async def reply_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Send a reply; plainly when the message is gone."""
        return await self._send(account, target, block)

    async def _send(self, account: Account, target: Target, block: Block) -> str:
        sent = await api.calling(
            api.bot_of(account).send_message(
                chat_id=int(target.chat),
                text=block["text"],
                entities=entities_of(block),
                message_thread_id=thread_of(target),
                reply_parameters=reply_of(target),
                reply_markup=markup_of(block),
                link_preview_options=NO_PREVIEW,
            ),
        )
        return str(sent.message_id)

    async def edit_text(
        self, *, account: Account, target: Target, message_id: str, block: Block
    ) -> None:
        """Replace a message; the same text again is a success."""
        try:
            await api.calling(
                api.bot_of(account).edit_message_text(
                    chat_id=int(target.chat),
                    message_id=int(message_id),
                    text=block["text"],
                    entities=entities_of(block),
                    reply_markup=markup_of(block),
                    link_preview_options=NO_PREVIEW,
                ),
            )
        except ChannelError as error:
            if "message is not modified" not in str(error).lower():
                raise

    async def delete_message(self, *, account: Account, target: Target, message_id: str) -> None:
        """Remove a message; one that is gone is a success."""
        try:
            await api.calling(
                api.bot_of(account).delete_message(
                    chat_id=int(target.chat), message_id=int(message_id)
                ),
            )
        except ChannelError as error:
            if error.trouble != "gone":
                raise

    async def send_typing(self, *, account: Account, target: Target) -> None:
        """Show "typing…" for five seconds."""
        await api.calling(
            api.bot_of(account).send_chat_action(
                chat_id=int(target.chat),
                action="typing",
                message_thread_id=int(target.thread) if target.thread else None,
            ),
        )

    async def add_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        """Put 👀 on a message."""
        await self._react(account, target, message_id, ACK)

    async def remove_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        """Take our reaction off a message."""
        await self._react(account, target, message_id, "")

    async def _react(self, account: Account, target: Target, message_id: str, emoji: str) -> None:
        await api.calling(
            api.bot_of(account).set_message_reaction(
                chat_id=int(target.chat), message_id=int(message_id), reaction=emoji or None
            ),
        )

    async def send_file(
        self, *, account: Account, target: Target, file: OutgoingFile, key: str
    ) -> str:
        """Send a photo, an audio or a document."""
        bot = api.bot_of(account)
        common: dict[str, Any] = {
            "chat_id": int(target.chat),
            "caption": file.caption[: adapter.CAPTION_LIMIT] or None,
            "filename": file.name,
            "message_thread_id": thread_of(target),
            "reply_parameters": reply_of(target),
        }
        if file.kind == "photo" and len(file.content) <= PHOTO_BYTES:
            sent = await api.calling(bot.send_photo(photo=file.content, **common))
        elif file.kind == "audio":
            sent = await api.calling(bot.send_audio(audio=file.content, **common))
        else:
            sent = await api.calling(bot.send_document(document=file.content, **common))
        return str(sent.message_id)

    async def answer_button(self, *, account: Account, press: str, text: str) -> None:
        """Show a line to whoever pressed; a press that is too old is forgotten."""
        try:
            await api.calling(
                api.bot_of(account).answer_callback_query(callback_query_id=press, text=text[:200]),
            )
        except ChannelError as error:
            if "query is too old" not in str(error).lower():
                raise

    async def download_media(self, *, account: Account, file: RemoteFile) -> bytes:
        """The bytes of a file that somebody sent."""
        found: dict[str, Any] = await plain.call(account, "getFile", file_id=file.id)
        if int(found.get("file_size") or 0) > self.max_download_bytes:
            raise ChannelError("the file is larger than 20 MB", permanent=True)
        return await plain.fetch(account, str(found.get("file_path", "")))


def entities_of(block: Block) -> list[MessageEntity] | None:
    """The entities of a block as python-telegram-bot has them."""
    found = block.get("entities")
    return [MessageEntity(**each) for each in found] if found else None


def markup_of(block: Block) -> InlineKeyboardMarkup | None:
    """The inline keyboard of a block."""
    found = adapter.keyboard(block)
    return InlineKeyboardMarkup.de_json(found, None) if found is not None else None


def thread_of(target: Target) -> int | None:
    """The topic for ``send*``; General (1) is left out there."""
    return int(target.thread) if target.thread not in {"", "1"} else None


def reply_of(target: Target) -> ReplyParameters | None:
    """What is replied to; sent plainly when that is gone."""
    if not target.reply_to:
        return None
    return ReplyParameters(message_id=int(target.reply_to), allow_sending_without_reply=True)


@dataclass(slots=True)
class TelegramChannel:
    """The plugin."""

    id: str = "telegram"
    name: str = "Telegram"
    description: str = "A Telegram bot, by webhook or long polling."
    idempotent: bool = False
    pace: Pace = PACE
    capabilities: frozenset[Capability] = frozenset(Capability)
    config: TelegramConfig = field(default_factory=TelegramConfig)
    gateway: TelegramGateway = field(default_factory=TelegramGateway)
    outbound: TelegramOutbound = field(default_factory=TelegramOutbound)

    def is_group(self, chat: str) -> bool:
        """Groups have negative ids."""
        return chat.startswith("-")


CHANNEL = TelegramChannel()

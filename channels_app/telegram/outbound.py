"""The outbound side: the Bot API's send methods.

Requests and returned messages use python-telegram-bot's types.
"""

import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from telegram import (
    InlineKeyboardMarkup,
    InputFile,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    ReactionTypeEmoji,
    ReplyParameters,
)
from telegram.constants import ChatAction, ReactionEmoji

from channels_app.base import Account, Block, ChannelError, OutgoingFile, RemoteFile, Target
from channels_app.telegram import adapter, bot_api, updates
from core.lib.ttl_cache import TtlCache

ACK = ReactionEmoji.EYES
PHOTO_BYTES = 10 * 1024 * 1024
# "can't parse entities: …", ENTITY_BOUNDS_INVALID, ENTITIES_TOO_LONG: the words stay, plainly.
REFUSED_ENTITIES = re.compile("entit", re.IGNORECASE)
OF_ANOTHER_KIND = re.compile("there is no (text|caption) in the message to edit", re.IGNORECASE)
NO_TOPIC = "message thread not found"
NOT_UNDERSTOOD = "the platform's answer was not understood"
# Telegram would fetch an address that a model or a sender wrote, and that of a link.
NO_PREVIEW = LinkPreviewOptions(is_disabled=True)


# Accounts whose Bot API refused a draft, by id and address: their messages are edited.
without_drafts: TtlCache[tuple[int, str], str] = TtlCache(3600.0)
# Those without rich messages: a server that does not know the parameter misses the text.
without_rich: TtlCache[tuple[int, str], str] = TtlCache(3600.0)
NO_RICH = re.compile("method not found|text is empty", re.IGNORECASE)


@dataclass(slots=True)
class TelegramOutbound:
    """The Bot API's send methods; every one raises ChannelError."""

    max_download_bytes: int = bot_api.MOST_DOWNLOAD_BYTES

    render = staticmethod(adapter.render)
    render_growing = staticmethod(adapter.render_growing)
    render_rich = staticmethod(adapter.render_rich)
    render_one = staticmethod(adapter.render_one)

    async def send_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        return await self._send(account, Target(target.chat, target.thread), block)

    async def reply_text(self, *, account: Account, target: Target, block: Block, key: str) -> str:
        """Send a reply; without the reference when that message is deleted."""
        return await self._send(account, target, block)

    def takes_rich(self, account: Account) -> bool:
        """Return whether the account wants rich messages and its Bot API has them."""
        is_wanted = account.config.get("answers") == "rich"
        return is_wanted and without_rich.get(with_server(account)) is None

    async def _send(self, account: Account, target: Target, block: Block) -> str:
        async def send(block: Block) -> Any:
            return await in_topic(
                target,
                partial(
                    bot_api.call,
                    account,
                    "sendRichMessage" if "rich" in block else "sendMessage",
                    chat_id=int(target.chat),
                    reply_parameters=reply_of(target),
                    **content_of(block),
                ),
            )

        with refused_form(account, block):
            return id_of(await without_refused_markup(send, block))

    async def edit_text(
        self, *, account: Account, target: Target, message_id: str, block: Block
    ) -> None:
        """Replace a message; the same text again is a success."""
        try:
            await self._edit(account, target, message_id, block)
        except ChannelError as error:
            if not is_unchanged(error):
                raise

    async def _edit(self, account: Account, target: Target, message_id: str, block: Block) -> Any:
        async def edit(block: Block) -> Any:
            return await bot_api.call(
                account,
                "editMessageText",
                chat_id=int(target.chat),
                message_id=int(message_id),
                **content_of(block),
            )

        with refused_form(account, block):
            return await without_refused_markup(edit, block)

    def takes_drafts(self, account: Account, chat: str) -> bool:
        """Return whether drafts are shown: in private chats, by the setting, if the Bot API can."""
        is_wanted = account.config.get("growing") != "edits" and not chat.startswith("-")
        return is_wanted and without_drafts.get(with_server(account)) is None

    async def show_draft(
        self, *, account: Account, target: Target, number: int, block: Block
    ) -> bool:
        """Show a draft; False where the Bot API has none, which is then known for an hour."""

        async def show(block: Block) -> Any:
            content: dict[str, Any] = content_of(block)
            content = {name: content.get(name) for name in ("text", "entities", "rich_message")}
            call = partial(
                bot_api.call,
                account,
                "sendRichMessageDraft" if "rich" in block else "sendMessageDraft",
                chat_id=int(target.chat),
                draft_id=number,
                **content,
            )
            return await in_topic(target, call)

        try:
            with refused_form(account, block):
                await without_refused_markup(show, block)
        except ChannelError as error:
            if not error.permanent or error.trouble:
                raise
            without_drafts.put(with_server(account), str(error))
            return False
        return True

    def sequence(self, chat: str) -> str:
        """Return the chat for supergroups and channels, "" for a bot's other chats, which share."""
        return chat if chat.startswith("-100") else ""

    async def is_ours(
        self, *, account: Account, target: Target, message_id: str, block: Block
    ) -> bool:
        """Return whether a message is the bot's, by editing it: a bot can edit only its own
        messages. The edit also tells a text from a file, and its response names the topic.
        """
        try:
            found = await self._claim_by_edit(account, target, message_id, block)
        except ChannelError as error:
            if is_unchanged(error):
                return True
            if error.trouble == "gone" or OF_ANOTHER_KIND.search(str(error)):
                return False
            raise
        return found is True or topic_of(found) == (thread_of(target) or 0)

    async def _claim_by_edit(
        self, account: Account, target: Target, message_id: str, block: Block
    ) -> Any:
        """Try to edit a message so that it shows ``block``; return the method's response."""
        place: dict[str, Any] = {"chat_id": int(target.chat), "message_id": int(message_id)}
        kind = block.get("kind", "text")
        if kind in {"photo", "document"}:
            caption = block.get("caption", "")[: adapter.CAPTION_LIMIT]
            return await bot_api.call(account, "editMessageCaption", caption=caption, **place)
        if "text" in block:
            return await self._edit(account, target, message_id, block)
        return await bot_api.call(account, "editMessageReplyMarkup", **place)

    async def delete_message(self, *, account: Account, target: Target, message_id: str) -> None:
        """Delete a message; one that is deleted already is a success."""
        try:
            await bot_api.call(
                account, "deleteMessage", chat_id=int(target.chat), message_id=int(message_id)
            )
        except ChannelError as error:
            if error.trouble != "gone":
                raise

    async def open_topic(self, *, account: Account, chat: str, title: str) -> str:
        """Create a topic where the chat is a forum; return its id, else an empty string."""
        if not chat.startswith("-"):
            return ""
        found: dict[str, Any] = await bot_api.call(account, "getChat", chat_id=int(chat))
        if not found.get("is_forum"):
            return ""
        made = await bot_api.call(account, "createForumTopic", chat_id=int(chat), name=title)
        return str(made["message_thread_id"])

    async def close_topic(self, *, account: Account, chat: str, thread: str) -> None:
        """Close a forum topic; one that is closed or deleted is a success."""
        try:
            await bot_api.call(
                account,
                "closeForumTopic",
                chat_id=int(chat),
                message_thread_id=int(thread),
            )
        except ChannelError as error:
            gone = ("topic_not_modified", "topic_id_invalid", "thread not found", "topic_deleted")
            if not any(each in str(error).lower() for each in gone):
                raise

    async def send_typing(self, *, account: Account, target: Target) -> None:
        """Show "typing…" for five seconds."""
        await bot_api.call(
            account,
            "sendChatAction",
            chat_id=int(target.chat),
            action=ChatAction.TYPING,
            # In General (1) it is shown with the number alone.
            message_thread_id=int(target.thread) if target.thread else None,
        )

    async def add_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        """Put 👀 on a message."""
        await self._react(account, target, message_id, ACK)

    async def remove_reaction(self, *, account: Account, target: Target, message_id: str) -> None:
        await self._react(account, target, message_id, "")

    async def _react(self, account: Account, target: Target, message_id: str, emoji: str) -> None:
        await bot_api.call(
            account,
            "setMessageReaction",
            chat_id=int(target.chat),
            message_id=int(message_id),
            reaction=[ReactionTypeEmoji(emoji)] if emoji else None,
        )

    async def send_file(
        self, *, account: Account, target: Target, file: OutgoingFile, key: str
    ) -> str:
        """Send a photo, an audio or a document. Telegram's server may end the connection, without
        an answer, when it is sent a larger one than it takes.
        """
        most = bot_api.MOST_UPLOAD_BYTES
        if len(file.content) > most and bot_api.base_of(account) == bot_api.BASE:
            raise ChannelError("the file is too large", permanent=True, trouble="too_large")
        is_too_large = file.kind == "photo" and len(file.content) > PHOTO_BYTES
        kind = "document" if is_too_large else file.kind
        upload = InputFile(file.content, filename=file.name)
        send = partial(
            bot_api.call,
            account,
            f"send{kind.capitalize()}",
            files={kind: upload.field_tuple},
            chat_id=int(target.chat),
            caption=file.caption[: adapter.CAPTION_LIMIT] or None,
            reply_parameters=reply_of(target),
        )
        return id_of(await in_topic(target, send))

    async def answer_button(self, *, account: Account, press: str, text: str) -> None:
        """Show a line to the person who pressed a button; an expired press is ignored."""
        try:
            await bot_api.call(
                account, "answerCallbackQuery", callback_query_id=press, text=text[:200]
            )
        except ChannelError as error:
            if "query is too old" not in str(error).lower():
                raise

    async def download_media(self, *, account: Account, file: RemoteFile) -> bytes:
        """Download a file that was sent to the bot. Raises ChannelError."""
        found: dict[str, Any] = await bot_api.call(account, "getFile", file_id=file.id)
        if int(found.get("file_size") or 0) > self.max_download_bytes:
            raise ChannelError(bot_api.TOO_LARGE, permanent=True)
        return await bot_api.fetch(account, str(found.get("file_path", "")))


async def in_topic(target: Target, send: Callable[..., Awaitable[Any]]) -> Any:
    """Send in the topic of ``target``; in the chat itself when that topic was deleted meanwhile."""
    thread = thread_of(target)
    try:
        return await send(message_thread_id=thread)
    except ChannelError as error:
        if thread is None or NO_TOPIC not in str(error).lower():
            raise
    return await send(message_thread_id=None)


def is_unchanged(error: ChannelError) -> bool:
    """Return whether an edit was refused because nothing would change."""
    return "message is not modified" in str(error).lower()


def message_in(result: Any) -> Message:
    """Return the message that a method answered with. Raises ChannelError when it is none."""
    try:
        return Message.de_json(result, None)
    except (TypeError, KeyError, ValueError, AttributeError):
        raise ChannelError(NOT_UNDERSTOOD, unsure=True) from None


def id_of(result: Any) -> str:
    """Return the id of the message that was sent. Raises ChannelError."""
    return str(message_in(result).message_id)


def topic_of(result: Any) -> int:
    """Return the topic of the message that a method answered with. Raises ChannelError."""
    try:
        return updates.topic_of(updates.mapping(result, "result"))
    except updates.UnparsableError:
        raise ChannelError(NOT_UNDERSTOOD, unsure=True) from None


async def without_refused_markup(call: Callable[[Block], Awaitable[Any]], block: Block) -> Any:
    """Call with the block; again with its text only when Telegram refuses its markup ([T5], [S3]).

    A refusal means that nothing was sent.
    """
    try:
        return await call(block)
    except ChannelError as error:
        has_markup = bool(block.get("entities")) or "markdown_v2" in block
        if (
            not has_markup
            or "rich" in block
            or error.unsure
            or not REFUSED_ENTITIES.search(str(error))
        ):
            raise
    rest = {"entities", "markdown_v2"}
    return await call({name: value for name, value in block.items() if name not in rest})


@contextlib.contextmanager
def refused_form(account: Account, block: Block) -> Iterator[None]:
    """Raise a refusal of a rich message as such: nothing was sent."""
    try:
        yield
    except ChannelError as error:
        is_refusal = error.permanent and not error.trouble and not is_unchanged(error)
        if "rich" not in block or not is_refusal:
            raise
        if NO_RICH.search(str(error)):
            without_rich.put(with_server(account), str(error))
        raise ChannelError(str(error), permanent=True, trouble="form") from error


def content_of(block: Block) -> dict[str, Any]:
    """Return the parameters of the Bot API that show a block."""
    if "rich" in block:
        return {"rich_message": {"blocks": block["rich"]}, "reply_markup": markup_of(block)}
    return {
        "text": block.get("markdown_v2", block["text"]),
        "parse_mode": "MarkdownV2" if "markdown_v2" in block else None,
        "entities": entities_of(block),
        "reply_markup": markup_of(block),
        "link_preview_options": NO_PREVIEW,
    }


def entities_of(block: Block) -> list[MessageEntity] | None:
    """Return the formatting of a block; None without any."""
    found = block.get("entities")
    return [MessageEntity(**each) for each in found] if found else None


def with_server(account: Account) -> tuple[int, str]:
    """Return an account at its Bot API server."""
    return account.id, bot_api.base_of(account)


def markup_of(block: Block) -> InlineKeyboardMarkup | None:
    """Return the inline keyboard of a block; None without buttons."""
    found = adapter.keyboard(block)
    return InlineKeyboardMarkup.de_json(found, None) if found is not None else None


def thread_of(target: Target) -> int | None:
    """Return the topic for ``send*``; General (1) must be left out there."""
    return int(target.thread) if target.thread not in {"", "1"} else None


def reply_of(target: Target) -> ReplyParameters | None:
    """Return the reference to the replied message; Telegram drops it when that is deleted."""
    if not target.reply_to:
        return None
    return ReplyParameters(message_id=int(target.reply_to), allow_sending_without_reply=True)


OUTBOUND = TelegramOutbound()

"""The Telegram plugin: configuration, gateway (webhook or long polling), outbound."""

import asyncio
import logging
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.utils.translation import gettext

from channels_app.base import Account, Capability, ChannelError, Field, Health, Outbound, Pace
from channels_app.intake.slash_commands import HELP, LAST_HELP, LISTED_HELP
from channels_app.telegram import bot_api, receive
from channels_app.telegram.updates import ALLOWED
from core.lib.interface_language import spoken

logger = logging.getLogger(__name__)

TOKEN = re.compile(r"^[0-9]{3,20}:[A-Za-z0-9_-]{20,64}$")
SECRET = re.compile(r"^[A-Za-z0-9_-]{1,256}$")
POLL_SECONDS = 25
POLL_LIMIT = 100
MENU_SECONDS = 8.0
PACE = Pace(
    per_second=30,
    chat_seconds=1.0,
    group_per_minute=20,
    edit_seconds=1.2,
    group_edit_seconds=3.0,
)
# The menu of commands: those of /help that all people on the allowlist have.
COMMANDS = HELP | LISTED_HELP | LAST_HELP


class TelegramConfig:
    """The fields of an account: a token from @BotFather and, for a webhook, a secret of its own."""

    fields: Sequence[Field] = (
        Field("token", "Bot token", "From @BotFather.", secret=True, required=True, single=True),
        Field(
            "webhook_secret",
            "Webhook secret",
            "1–256 of A–Z a–z 0–9 _ -. Telegram sends it with every update.",
            secret=True,
            made=True,
        ),
        Field(
            "mode",
            "Updates",
            "A webhook needs a public https address; polling does not.",
            default="webhook",
            choices=("webhook", "polling"),
        ),
        Field(
            "growing",
            "Growing answers",
            "In private chats: drafts that the answer replaces, where the Bot API has them; or "
            "edits of a message, as in groups.",
            default="drafts",
            choices=("drafts", "edits"),
        ),
        Field(
            "answers",
            "Answers",
            "As text, or with real tables, headings and lists, where the Bot API has rich messages "
            "(10.2). Old versions of Telegram do not show those.",
            default="text",
            choices=("text", "rich"),
        ),
        Field(
            "api_base",
            "Bot API server",
            "For a server of your own; default: Telegram's.",
            default=bot_api.BASE,
        ),
        Field(
            "denied_reply",
            "Reply to unknown senders",
            "Sent once to each denied sender. Empty: no reply.",
        ),
        Field(
            "approved_reply",
            "Reply after an approval",
            "Sent before held messages are answered. Empty: no reply.",
        ),
    )

    def problems(self, account: Account) -> list[str]:
        """Return missing or invalid settings, in sentences."""
        found = []
        if not TOKEN.match(account.secrets.get("token", "")):
            found.append(gettext("The bot token is missing or does not have the form 123456:ABC…."))
        mode = mode_of(account)
        if mode not in {"webhook", "polling"}:
            found.append("mode must be webhook or polling.")
        if mode == "webhook" and not SECRET.match(account.secrets.get("webhook_secret", "")):
            found.append(gettext("A webhook needs a webhook_secret: 1–256 of A–Z a–z 0–9 _ -."))
        return found

    def identity(self, account: Account) -> str:
        """Return the id of the bot, with which its token begins."""
        return account.secrets.get("token", "").partition(":")[0]


def mode_of(account: Account) -> str:
    """Return ``webhook`` or ``polling``."""
    return str(account.config.get("mode") or "webhook")


def webhook_url(account: Account, *, base_url: str) -> str:
    return f"{base_url}/telegram/{quote(account.name, safe='')}/webhook"


def menu(language: str) -> list[dict[str, str]]:
    """Return the commands as Telegram's menu shows them."""
    with spoken(language):
        texts = {name: gettext(what) for name, what in COMMANDS.items()}
    return [
        {"command": name, "description": text[:1].upper() + text[1:]}
        for name, text in texts.items()
    ]


async def set_menus(account: Account) -> None:
    """Set the menu of commands in each language, if Telegram's limit allows it."""
    try:
        async with asyncio.timeout(MENU_SECONDS):
            for language, _ in settings.LANGUAGES:
                code = None if language == settings.LANGUAGE_CODE else language[:2]
                commands = menu(language)
                await bot_api.call(account, "setMyCommands", commands=commands, language_code=code)
    except (ChannelError, TimeoutError) as error:
        logger.warning("the menu of commands was not set: %s", error or "no answer")


class TelegramGateway:
    """Receives updates: by webhook or long polling."""

    async def prepare(self, account: Account, *, base_url: str) -> str:
        """Set or remove the webhook, then set the menu of commands; pending updates are kept."""
        if mode_of(account) == "polling":
            await bot_api.call(account, "deleteWebhook", drop_pending_updates=False)
        else:
            await bot_api.call(
                account,
                "setWebhook",
                url=webhook_url(account, base_url=base_url),
                secret_token=account.secrets["webhook_secret"],
                allowed_updates=list(ALLOWED),
                drop_pending_updates=False,
            )
        await set_menus(account)
        return mode_of(account)

    async def retire(self, account: Account) -> None:
        """Remove the webhook; pending updates are kept."""
        if mode_of(account) == "webhook":
            await bot_api.call(account, "deleteWebhook", drop_pending_updates=False)

    async def check(self, account: Account) -> Health:
        """Return Telegram's report about the webhook: its last error, and pending updates."""
        info: dict[str, Any] = await bot_api.call(account, "getWebhookInfo")
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
        elif info["url"] != webhook_url(account, base_url=settings.GATEWAY_URL):
            problem = "Another deployment has taken this bot's webhook: save the account to get it."
        else:
            problem = ""
        return Health(problem=problem, facts=facts)

    async def test(self, account: Account) -> str:
        """Return the bot's name and id."""
        me = await receive.fetch_bot(account)
        return f"@{me.username} (id {me.id})"

    def read_again(self, account: Account, *, raw: bytes) -> str:
        """Process a quarantined update as if it had just arrived."""
        return receive.take_again(account, raw=raw)

    async def close(self) -> None:
        await bot_api.close()

    def wants_polling(self, account: Account) -> bool:
        return mode_of(account) == "polling"

    async def poll(self, account: Account) -> None:
        """Poll until cancelled: an update is confirmed to Telegram after it is committed here."""
        offset = 0
        while True:
            updates = await bot_api.call(
                account,
                "getUpdates",
                seconds=POLL_SECONDS,
                offset=offset,
                limit=POLL_LIMIT,
                timeout=POLL_SECONDS,
                allowed_updates=list(ALLOWED),
            )
            offset = await receive.take_all(account, updates, offset=offset)


class TelegramChannel:
    id = "telegram"
    name = "Telegram"
    description = "A Telegram bot, by webhook or long polling."
    idempotent = False
    pace = PACE
    capabilities: frozenset[Capability] = frozenset(set(Capability) - {Capability.WHOLE})
    config = TelegramConfig()
    gateway = TelegramGateway()

    @cached_property
    def outbound(self) -> Outbound:
        """Return the send methods; python-telegram-bot is imported on first use."""
        from channels_app.telegram.outbound import OUTBOUND  # noqa: PLC0415 - the web sends nothing

        return OUTBOUND

    def is_group(self, chat: str) -> bool:
        """Return whether the id is negative, as those of groups are."""
        return chat.startswith("-")


CHANNEL = TelegramChannel()

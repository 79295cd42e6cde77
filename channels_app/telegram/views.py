"""``POST /telegram/<account>/webhook`` [D6]: secret, body, one call, 200 after the commit."""

from dataclasses import dataclass
from functools import partial

from django.conf import settings

from channels_app.asgi import http, strict_json
from channels_app.asgi.http import Receive, RefusedError, Request, Scope, Send
from channels_app.asgi.principal import DeniedError
from channels_app.base import Account
from channels_app.delivery.sending import account_of
from channels_app.telegram import receive
from channels_app.telegram.addressing import Bot
from core.database.batching import in_shared_transaction
from core.database.transactions import in_thread
from core.lib.encryption import DecryptError
from core.lib.ttl_cache import TtlCache
from core.models import ChannelAccount

KNOWN_SECONDS = 2.0
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - the name of a header


@dataclass(frozen=True, slots=True)
class Door:
    """An account as the webhook needs it."""

    row: ChannelAccount
    account: Account
    secret: str


doors: TtlCache[str, Door] = TtlCache(KNOWN_SECONDS)


async def webhook(scope: Scope, receive_: Receive, send: Send) -> None:
    """One update of Telegram."""
    request = Request(scope, receive_)
    try:
        outcome = await handle(request)
        await http.answer(send, 200, {"ok": True, "outcome": outcome})
    except RefusedError as error:
        body = {"ok": False, "status": error.status, "error": str(error), "text": ""}
        await http.answer(send, error.status, body, error.headers)
    except http.ClientGoneError:
        return


async def handle(request: Request) -> str:
    """What became of the update. Raises RefusedError; nothing is read before the secret is."""
    door = await door_of(request.path.split("/")[2])
    if door is None:
        raise RefusedError(404, "There is no such account.")
    if not http.same_secret(request.header(SECRET_HEADER), door.secret):
        raise DeniedError(status=403)
    raw = await request.body(settings.TELEGRAM_MAX_BODY_BYTES)
    try:
        value = strict_json.parse(raw, max_depth=settings.MAX_JSON_DEPTH, storable=False)
    except strict_json.BadJSONError as error:
        raise RefusedError(400, f"Bad JSON: {error}.") from error
    named = receive.needs_name(value)
    bot = await receive.bot_of(door.account) if named else Bot(0, "")
    return await in_shared_transaction(
        partial(receive.take, row=door.row, bot=bot, value=value, raw=raw)
    )


async def door_of(name: str) -> Door | None:
    """The enabled account called ``name``, if it has a secret; one without cannot be reached."""
    known = doors.get(name)
    if known is not None:
        return known
    found = await in_thread(find, name)
    return found and doors.put(name, found)


def find(name: str) -> Door | None:
    """The account from the database."""
    row = ChannelAccount.objects.filter(channel="telegram", name=name, enabled=True).first()
    if row is None:
        return None
    try:
        account = account_of(row)
    except DecryptError:
        return None
    secret = account.secrets.get("webhook_secret", "")
    if not secret:
        return None
    return Door(row, account, secret)


def clear_cache() -> None:
    """Empty the account cache."""
    doors.clear()

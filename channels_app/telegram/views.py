"""``POST /telegram/<account>/webhook`` [D6]: secret, body, one call, 200 after the commit."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpResponse

from channels_app.asgi import http, strict_json
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import DeniedError
from channels_app.asgi.views import EndpointRequest, endpoint, json_response
from channels_app.base import Account, ChannelError
from channels_app.delivery import sending
from channels_app.telegram import receive
from core.database.batching import in_shared_transaction
from core.database.transactions import AWAY, in_thread
from core.lib.ttl_cache import TtlCache
from core.models import ChannelAccount

KNOWN_SECONDS = 2.0
SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - the name of a header


@dataclass(frozen=True, slots=True)
class Known:
    """An account as the webhook needs it, cached for KNOWN_SECONDS."""

    row: ChannelAccount
    account: Account
    secret: str


accounts: TtlCache[str, Known] = TtlCache(KNOWN_SECONDS)


@endpoint("POST")
async def webhook(request: EndpointRequest, name: str) -> HttpResponse:
    """Accept one update of Telegram; the body is not read before the secret was checked."""
    known = await account_named(name)
    if known is None:
        raise RefusedError(404, "There is no such account.")
    if not http.same_secret(request.head.header(SECRET_HEADER), known.secret):
        raise DeniedError(status=403)
    raw = await request.read_body(settings.TELEGRAM_MAX_BODY_BYTES)
    try:
        value = strict_json.parse(raw, max_depth=settings.MAX_JSON_DEPTH, storable=False)
    except strict_json.BadJSONError as error:
        raise RefusedError(400, f"Bad JSON: {error}.") from error
    try:
        bot = await receive.bot_for(known.account, [value])
    except ChannelError as error:  # Telegram sends the update again
        raise RefusedError(503, "The bot's name is not known yet.") from error
    given: dict[str, Any] = {"row": known.row, "bot": bot, "value": value, "raw": raw}
    try:
        outcome = await in_shared_transaction(partial(receive.take, **given))
    except AWAY:
        raise
    except Exception:  # noqa: BLE001 - by itself once more, and logged there
        outcome = await in_thread(partial(receive.take_or_keep, **given))
    return json_response(200, {"ok": True, "outcome": outcome})


async def account_named(name: str) -> Known | None:
    """Return the enabled account called ``name``; without a secret it receives no updates."""
    known = accounts.get(name)
    if known is not None:
        return known
    found = await in_thread(find, name)
    return found and accounts.put(name, found)


def find(name: str) -> Known | None:
    found = sending.account_named("telegram", name)
    secret = found[1].secrets.get("webhook_secret") if found is not None else None
    return Known(*found, secret) if found is not None and secret else None

"""``POST /channels/<channel>/<account>/webhook``: a platform calls the gateway of its channel."""

from django.conf import settings
from django.http import HttpResponse

from channels_app import registry
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import DeniedError
from channels_app.asgi.views import EndpointRequest, endpoint, response
from channels_app.base import Account, Call, ForgedCallError, TakesCalls
from channels_app.delivery.sending import account_named
from core.database.transactions import in_thread

DONE = b'{"ok":true}'


@endpoint("POST")
async def webhook(request: EndpointRequest, channel: str, name: str) -> HttpResponse:
    """Pass one call on; 200 after its messages are committed."""
    known = await in_thread(find, channel, name)
    if known is None:
        raise RefusedError(404, "There is no such account.")
    gateway, account = known
    body = await request.read_body(settings.TELEGRAM_MAX_BODY_BYTES)
    try:
        said = await in_thread(gateway.take_call, account, Call(request.headers, body))
    except ForgedCallError as error:
        raise DeniedError(status=403) from error
    return response(200, said or DONE, "application/json")


def find(channel: str, name: str) -> tuple[TakesCalls, Account] | None:
    """Return the gateway and the enabled account that are called; None also where the secrets
    cannot be decrypted.

    The first time all installed channels are loaded: not in the event loop, whose streams would
    stand still meanwhile.
    """
    found = registry.get(channel)
    if found is None or not isinstance(found.gateway, TakesCalls):
        return None
    account = account_named(channel, name)
    return (found.gateway, account[1]) if account is not None else None

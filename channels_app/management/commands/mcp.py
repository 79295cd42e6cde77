"""``manage.py mcp``: the MCP server on standard input and output ([D7])."""

import asyncio

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi.principal import Principal
from core.database.transactions import in_thread
from core.models import User


class Command(BaseCommand):
    """Serve agents on this machine; the key in the environment identifies the user."""

    help = "Serve MCP on stdio. Needs GATEWAY_API_KEY; GATEWAY_SESSION_ID selects the session."

    def handle(self, *_: object, **__: object) -> None:
        token, session_id = settings.GATEWAY_API_KEY, settings.GATEWAY_SESSION_ID
        if user_of(token) is None:
            raise CommandError("GATEWAY_API_KEY is not a personal key with the scope send_result.")
        from channels_app.mcp import server  # noqa: PLC0415 - refuse a wrong key at once

        async def identify(context: object) -> Principal:
            """Return the key's principal, at every call: the key may be revoked meanwhile."""
            del context
            user = await in_thread(user_of, token)
            if user is None:
                raise server.RefusedCallError("This key is no longer valid.")
            return Principal(user, session_id=session_id)

        asyncio.run(server.serve_stdio(identify))


def user_of(token: str) -> User | None:
    """Return the user of a key with the scope ``send_result``; None for any other token."""
    key = keys.authenticate(token=token, now=timezone.now()) if token else None
    return key.user if key is not None and ApiKey.Scope.SEND_RESULT in key.scopes else None

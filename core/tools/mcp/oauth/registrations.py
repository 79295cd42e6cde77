"""The client that the gateway has registered itself at the authorization server of a server."""

import orjson

from core.database.transactions import atomic_write
from core.lib import encryption
from core.models import McpServer

# Codes of RFC 6749 for a client that an authorization server does not know (any more).
UNKNOWN = {"invalid_client", "unauthorized_client"}


def known(server: McpServer) -> str:
    """Return the client (JSON); empty for none, and where it cannot be decrypted."""
    try:
        return encryption.decrypt(server.registration).get("client", "")
    except encryption.DecryptError:
        return ""


def forget_unknown(server_id: int, client: str, *, code: str) -> None:
    """Have the gateway registered anew at the next sign-in if ``code`` says that ``client`` (JSON)
    is unknown, unless it was replaced already.
    """
    if code not in UNKNOWN:
        return
    row = McpServer.objects.filter(pk=server_id).first()
    if row is not None and id_of(known(row)) == id_of(client):
        with atomic_write():
            rows = McpServer.objects.filter(pk=server_id, registration=row.registration)
            rows.update(registration="")


def id_of(client: str) -> str:
    return str(orjson.loads(client)["client_id"]) if client else ""

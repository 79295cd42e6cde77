"""Sign-ins at MCP servers whose server or person goes while the code is exchanged."""

from datetime import timedelta

import pytest
from django.utils import timezone

from channels_app.tool_requests import signing_in
from core.lib import encryption
from core.models import McpConnection, McpRevocation, McpServer, McpSignIn, User
from core.tools.mcp.oauth import sign_ins
from core.tools.mcp.oauth.secret_values import Tokens

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("gone", ["server", "user"])
def test_tokens_for_a_server_or_a_person_that_is_deleted_meanwhile_are_revoked(gone: str) -> None:
    """[V77] The person reads that the sign-in is over, and no account is left at the server."""
    now = timezone.now()
    server = McpServer.objects.create(name="Notes", slug="notes", url="https://notes.example/mcp")
    guest = User.objects.create(username="guest")
    row = McpSignIn.objects.create(
        server=server, user=guest, state="exchanging", expires_at=now + timedelta(hours=1)
    )
    kept = dict.fromkeys(("metadata", "client", "resource"), "{}")
    kept["ground"] = sign_ins.ground_of(server)
    type(getattr(row, gone)).objects.get(pk=getattr(row, gone).pk).delete()
    tokens = Tokens(access_token="access", refresh_token="refresh", seconds=60, scope="")
    finished = signing_in.complete(row, kept, tokens, by=guest, now=now)
    assert finished.outcome == "used"
    assert not McpConnection.objects.exists()
    assert encryption.decrypt(McpRevocation.objects.get().secrets)["refresh_token"] == "refresh"

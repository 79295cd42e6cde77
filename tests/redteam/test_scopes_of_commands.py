"""The scopes limit an owner's key, also for slash commands ([A10] [A6])."""

from typing import Any

import pytest
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey, AuditEntry, UnknownRequest
from channels_app.asgi.principal import Principal
from channels_app.intake.inbound import receive_sender
from channels_app.webchat import frames, operations
from core.conversations.inbox import Draft
from core.database import transactions
from core.models import ChannelAccount, Run, User
from tests.redteam.gateway_data import GatewayData

pytestmark = pytest.mark.django_db(transaction=True)
WITHOUT = ["chat", "inbound"]
WITH = [*WITHOUT, "admin:requests"]


@pytest.fixture
def owner() -> Any:
    """Return the owner."""
    yield User.objects.create(username="owner", is_owner=True, only_listed=True)
    transactions.close_pool()


@pytest.fixture
def waiting() -> UnknownRequest:
    """Return a pending request."""
    account = ChannelAccount.objects.create(channel="memory", name="main")
    draft = Draft(account=account, sender="eve", chat="eve", text="hello")
    receive_sender(draft=draft, now=timezone.now())
    return UnknownRequest.objects.get()


def at_inbound(owner: User, scopes: list[str], text: str) -> None:
    """Send ``POST /inbound``."""
    gateway = GatewayData(tokens={"owner": keys.create(name=text, user=owner, scopes=scopes)[1]})
    answer = gateway.ask("owner", "POST", "/inbound", {"text": text, "async": True})
    assert answer.status == 202


def at_the_socket(owner: User, scopes: list[str], text: str) -> None:
    """Send a frame to ``/ws`` after a key."""
    key, _ = keys.create(name=text, user=owner, scopes=scopes)
    operations.accept(
        frames.Say(text=text, client_id=f"c{key.pk}"), principal=Principal(owner, key_id=key.pk)
    )


ENDPOINTS = pytest.mark.parametrize("say", [at_inbound, at_the_socket])


@ENDPOINTS
def test_a10_a_key_without_the_scope_neither_sees_nor_decides_unknown_requests(
    owner: User, waiting: UnknownRequest, say: Any
) -> None:
    """As at ``/api/requests``; the attempt is audited."""
    for text in ("/requests", f"/approve {waiting.public_id}", f"/deny {waiting.public_id}"):
        say(owner, WITHOUT, text)
        said = Run.objects.latest("id").result["text"]
        assert said == "This key has no scope 'admin:requests'."
    say(owner, WITHOUT, "/help")
    assert "/approve" not in Run.objects.latest("id").result["text"]
    waiting.refresh_from_db()
    assert waiting.state == "pending"
    assert AuditEntry.objects.filter(action="request.refused").count() == 2
    assert ApiKey.objects.count() == 4


@ENDPOINTS
def test_a10_a_key_with_the_scope_decides(owner: User, waiting: UnknownRequest, say: Any) -> None:
    """The answers are those of the owner."""
    say(owner, WITH, "/requests")
    assert waiting.public_id in Run.objects.latest("id").result["text"]
    say(owner, WITH, f"/deny {waiting.public_id}")
    waiting.refresh_from_db()
    assert waiting.state == "denied"

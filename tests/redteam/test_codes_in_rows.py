"""A link code may still be valid: no row stores one, wherever it was written."""

from typing import Any

import pytest

from allowlist import keys
from core.database import transactions
from core.models import InboundMessage, Message, Run, User
from tests.redteam.gateway_data import GatewayData

pytestmark = pytest.mark.django_db(transaction=True)
CODE = "ABCD-EFGH"
TYPED = f"please do /link {CODE} for me"
PARTS = [{"type": "text", "text": TYPED}]
HISTORY = [
    {"role": "user", "content": TYPED},
    {"role": "assistant", "content": "I cannot."},
]
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "inbound": ("/inbound", {"text": TYPED, "async": True}),
    "v1": (
        "/v1/chat/completions",
        {
            "model": "default",
            "stream": True,
            "messages": [*HISTORY, {"role": "user", "content": PARTS}],
        },
    ),
    "ag_ui": (
        "/ag-ui",
        {
            "threadId": "thread-1",
            "runId": "run-1",
            "messages": [
                {"id": "m1", "role": "user", "content": PARTS},
                {"id": "m2", "role": "assistant", "content": "No."},
                {"id": "m3", "role": "user", "content": PARTS},
            ],
        },
    ),
    "ui": (
        "/ui/chat",
        {
            "id": "chat-1",
            "messages": [
                {"id": "m1", "role": "user", "parts": PARTS},
                {"id": "m2", "role": "assistant", "parts": [{"type": "text", "text": "No."}]},
                {"id": "m3", "role": "user", "parts": PARTS},
            ],
        },
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_link_code_in_a_request_is_in_no_stored_row(name: str) -> None:
    """Neither in what was said last nor in the history that a client sends with it."""
    user = User.objects.create(username="ann")
    gateway = GatewayData(
        tokens={"ann": keys.create(name="k", user=user, scopes=["chat", "inbound"])[1]}
    )
    path, body = BODIES[name]
    try:
        gateway.ask("ann", "POST", path, body)
        kept = [
            *InboundMessage.objects.values_list("text", "options", "raw"),
            *Run.objects.values_list("text", "options", "route"),
            *Message.objects.values_list("text", "data", "dedupe_key"),
        ]
        assert len(kept) == 3
        assert "/link …" in str(kept)
        assert CODE not in str(kept)
    finally:
        transactions.close_pool()

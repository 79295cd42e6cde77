"""What is accepted at the endpoints of clients: the same for all of them, but for a few words."""

import pytest

from allowlist import keys
from channels_app.asgi.principal import Principal
from channels_app.client_api import acceptance
from channels_app.client_api.acceptance import Ask
from channels_app.client_api.ag_ui import fields as ag_ui
from channels_app.client_api.ag_ui import threads
from channels_app.client_api.ui_stream import endpoints, fields
from channels_app.intake.inbound import Receipt
from core.models import Run, User
from tests.channels_app.client_api.ag_ui import frames
from tests.channels_app.client_api.ui_stream.test_chat import said

pytestmark = pytest.mark.django_db
HISTORY = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Go on"},
]


@pytest.fixture
def agent() -> Principal:
    """Return a person with a key for the model only."""
    user = User.objects.create(username="agent")
    key, _ = keys.create(name="agent", user=user, scopes=["chat"], model_only=True)
    return Principal(user=user, key_id=key.pk, scopes=["chat"], model_only=True)


def run_of(receipt: Receipt) -> Run:
    """Return the run of an accepted message."""
    assert receipt.run is not None
    return receipt.run


def test_w22_a_key_for_the_model_only_is_one_at_v1_alone(agent: Principal) -> None:
    """[W22] At the chats of ``/ui/chat`` and ``/ag-ui`` it is a key as any other."""
    at_v1 = acceptance.accept(agent, Ask(model="", messages=HISTORY), "", None)
    assert run_of(at_v1).options["model_only"] is True
    messages = [said("Hello"), said("Yes?", "assistant"), said("Go on")]
    page = fields.read({"id": "page", "messages": messages})
    given = [{"id": str(number), **each} for number, each in enumerate(HISTORY)]
    body = frames.said("", thread="t", messages=given)
    for receipt in (endpoints.accept(agent, page), threads.accept(agent, ag_ui.read(body))):
        assert len(run_of(receipt).options["messages"]) == 3
        assert "model_only" not in run_of(receipt).options

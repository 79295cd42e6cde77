"""``/link CODE`` sent over a bridge: ``/inbound``, ``/process``, the socket."""

import json
from typing import Any

import pytest
from django.utils import timezone

from allowlist import link_codes
from allowlist.models import AuditEntry, UnknownRequest
from allowlist.permissions import Sender, decide
from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.webchat import frames, operations
from core.models import ChannelAccount, Delivery, InboundMessage, Run, User
from tests.channels_app.bridge.conftest import Bridge

pytestmark = pytest.mark.django_db(transaction=True)
STRANGER = "@eve:example.org"
WRONG = "This code is invalid or has expired."


@pytest.fixture
def ann(db: None) -> User:
    """Return a user with another channel."""
    del db
    return User.objects.create(username="ann", only_listed=True)


def code_of(user: User) -> str:
    """Return a code that ``user`` made on another channel."""
    return link_codes.make(user=user, via="telegram", now=timezone.now())


def user_of(account: ChannelAccount) -> User | None:
    """Return the user that the sender is an identity of."""
    return decide(sender=Sender(account, "im", STRANGER), now=timezone.now()).user


def stored() -> str:
    """Return all stored text of messages."""
    rows: list[Any] = list(InboundMessage.objects.values_list("text", "raw", "options"))
    return repr(rows + list(UnknownRequest.objects.values_list("last_text")))


def test_a_code_on_inbound_lists_the_sender_and_is_answered_in_the_response(
    bridge: Bridge, ann: User
) -> None:
    """Held messages run, no request is left to decide, and the code is stored nowhere."""
    status, _ = bridge.inbound(text="let me in", user_id=STRANGER)
    assert status == 401
    code = code_of(ann)
    status, raw = bridge.inbound(text=f"/link {code}", user_id=STRANGER)
    answer = json.loads(raw)
    assert (status, answer["ok"], answer["status"], answer["format"]) == (200, True, 200, "plain")
    assert "linked to ann" in answer["text"]
    assert user_of(bridge.account) == ann
    held, command = Run.objects.order_by("id")
    assert held.text == "let me in"
    assert (command.public_id, command.state) == (answer["run_id"], "succeeded")
    assert UnknownRequest.objects.get().state == "approved"
    assert code not in stored()
    assert not Delivery.objects.filter(dedupe_key__startswith="command:").exists()


def test_the_same_request_again_gets_the_same_words(bridge: Bridge, ann: User) -> None:
    """An Idempotency-Key on a code: it is used once, and answered twice."""
    body = {"text": f"/link {code_of(ann)}", "user_id": STRANGER}
    first = bridge.inbound(idempotency="once", **body)
    assert first[0] == 200
    assert bridge.inbound(idempotency="once", **body) == first
    assert AuditEntry.objects.filter(action="link.used").count() == 1


def test_a_code_on_a_stream_is_one_done_event(bridge: Bridge, ann: User) -> None:
    """After the first event, which names the run."""
    said = f"/link {code_of(ann)}"
    status, raw = bridge.inbound(text=said, user_id=STRANGER, stream=True)
    assert (status, raw.count(b"data:")) == (200, 2)
    assert b'"event":"done"' in raw
    assert b"linked to ann" in raw


def test_a_wrong_code_on_inbound_is_refused_with_the_reason(bridge: Bridge) -> None:
    """Five per hour; the unknown request shows no code."""
    for number in range(5):
        status, raw = bridge.inbound(text=f"/link AAAA-AAA{number + 2}", user_id=STRANGER)
        answer = json.loads(raw)
        assert (status, answer["ok"], answer["text"]) == (401, False, "")
        assert answer["error"].startswith(WRONG)
    _, raw = bridge.inbound(text="/link AAAA-AAAA", user_id=STRANGER)
    assert "Too many wrong codes" in json.loads(raw)["error"]
    assert user_of(bridge.account) is None
    assert "AAAA" not in stored()
    assert UnknownRequest.objects.get().count == 6


def test_a_code_of_a_listed_sender_is_not_used(bridge: Bridge, ann: User) -> None:
    """A listed sender keeps their user, and gets a message that says so."""
    bridge.inbound(text=f"/link {code_of(ann)}", user_id=STRANGER)
    bob = User.objects.create(username="bob", only_listed=True)
    status, raw = bridge.inbound(text=f"/link {code_of(bob)}", user_id=STRANGER)
    assert status == 200
    assert "known already" in json.loads(raw)["text"]
    assert user_of(bridge.account) == ann


def test_a_code_on_process_is_answered_to_the_callback(bridge: Bridge, ann: User) -> None:
    """A valid one is accepted, an invalid one refused; both answers go to the callback."""
    status, _ = bridge.ask(text="/link AAAA-AAAA", user_id=STRANGER, request_id="r1")
    assert status == 401
    status, body = bridge.ask(text=f"/link {code_of(ann)}", user_id=STRANGER, request_id="r2")
    assert (status, body["request_id"]) == (202, "r2")
    assert user_of(bridge.account) == ann
    said = [
        (row.target["reply_to"], row.payload["text"]) for row in Delivery.objects.order_by("id")
    ]
    assert said[0] == ("r1", WRONG)
    assert said[1][0] == "r2"
    assert "linked to ann" in said[1][1]


def test_a_code_in_the_plain_form_of_the_socket(bridge: Bridge, ann: User) -> None:
    """The answer confirms the code; a wrong code is an error."""
    throttling.people = throttling.Rate()
    principal = Principal(user=None, account=bridge.account, key_id=1, session_key="")
    wrong = frames.Say(text="/link AAAA-AAAA", user_id=STRANGER, plain=True)
    with pytest.raises(RefusedError, match="invalid"):
        operations.accept(wrong, principal=principal)
    right = frames.Say(text=f"/link {code_of(ann)}", user_id=STRANGER, plain=True)
    run, _ = operations.accept(right, principal=principal)
    assert "linked to ann" in operations.result(run.id)["text"]
    assert user_of(bridge.account) == ann

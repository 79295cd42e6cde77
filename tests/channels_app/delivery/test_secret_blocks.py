"""Codes and links in no row: the stored form of a block, and the sent one ([A5], decision 164)."""

import json
from datetime import timedelta

import pytest
from django.core import signing
from django.utils import timezone
from pytest_django import Settings

from allowlist import decision_links
from allowlist.models import UnknownRequest
from channels_app.base import ChannelError
from channels_app.delivery import secret_blocks
from core.lib.encryption import encrypt
from core.models import ChannelAccount, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def request_of_eve() -> UnknownRequest:
    """Return a pending request."""
    account = ChannelAccount.objects.create(channel="memory", name="main")
    now = timezone.now()
    return UnknownRequest.objects.create(
        account=account,
        kind="im",
        sender="eve",
        first_seen_at=now,
        last_seen_at=now,
        expires_at=now,
    )


def test_a5_a_sealed_block_is_stored_unreadable_and_sent_as_it_was() -> None:
    block = {"text": "Your code: ABCD-EFGH", "entities": [{"offset": 11}]}
    stored = secret_blocks.sealed_block(block)
    assert set(stored) == {"text", "sealed"}
    assert stored["text"] == secret_blocks.NOT_SHOWN
    assert "ABCD" not in json.dumps(stored)
    assert secret_blocks.as_sent(stored) == block
    assert secret_blocks.as_sent(block) == block


def test_a5_a_sealed_block_whose_key_is_lost_is_given_up() -> None:
    for box in (encrypt({"block": "{}"})[:-9] + "AAAAAAAAA", "nonsense"):
        with pytest.raises(ChannelError) as refused:
            secret_blocks.as_sent({"text": secret_blocks.NOT_SHOWN, "sealed": box})
        assert refused.value.permanent


def test_a5_a_link_to_a_decision_is_made_when_it_is_sent(
    owner: User, request_of_eve: UnknownRequest, settings: Settings
) -> None:
    """For its request and its owner; the stored form has no token."""
    settings.GATEWAY_URL = "https://gate.example"
    name = request_of_eve.public_id
    stored = secret_blocks.with_decision_link("Eve asks", request=name, owner=owner.pk)
    stored = {**stored, "entities": []}
    assert stored["text"] == "Eve asks"
    sent = secret_blocks.as_sent(stored)
    assert set(sent) == {"text", "entities"}
    start = "Eve asks\nhttps://gate.example/decide/"
    assert sent["text"].startswith(start)
    token = sent["text"].removeprefix(start)
    assert token not in json.dumps(stored)
    found = decision_links.opened(token)
    assert found is not None
    assert (found.request, found.owner) == (request_of_eve, owner)


def test_a6_a_decision_link_ends_with_its_time_its_request_and_the_rights_of_its_owner(
    owner: User, request_of_eve: UnknownRequest, settings: Settings
) -> None:
    token = decision_links.token(request=request_of_eve.public_id, owner=owner.pk)
    assert decision_links.opened(token) is not None
    assert decision_links.opened(token[:-1]) is None
    content = [request_of_eve.public_id, owner.pk]
    assert decision_links.opened(signing.dumps(content)) is None, "signed for another purpose"
    before_an_update = signing.dumps(content, salt="allowlist.decision_links")
    assert decision_links.opened(before_an_update) is not None
    assert decision_links.opened(decision_links.token(request="x", owner=owner.pk)) is None
    other = User.objects.create(username="ann")
    name = request_of_eve.public_id
    assert decision_links.opened(decision_links.token(request=name, owner=other.pk)) is None
    for field in ("is_owner", "is_active"):
        User.objects.filter(pk=owner.pk).update(**{field: False})
        assert decision_links.opened(token) is None
        User.objects.filter(pk=owner.pk).update(**{field: True})
    settings.DECISION_LINK_HOURS = -timedelta(seconds=1) / timedelta(hours=1)
    assert decision_links.opened(token) is None

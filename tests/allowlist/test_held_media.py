"""Attachments of unknown senders: bounded in total ([A5])."""

from datetime import datetime

import pytest
from django.test import Client
from pytest_django import Settings

from allowlist import held_messages, unknown_requests
from allowlist.models import UnknownRequest
from channels_app.intake.inbound import receive_sender
from core.conversations.inbox import Draft
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, User

pytestmark = pytest.mark.django_db

PICTURE = "data:image/png;base64," + "A" * 400_000


def send_picture(account: ChannelAccount, sender: str, now: datetime, text: str = "look") -> None:
    """Receive an unknown sender's message with a picture of 0.4 MB."""
    draft = Draft(
        account=account,
        sender=sender,
        chat=sender,
        text=text,
        media=[{"kind": "image", "url": PICTURE}],
    )
    assert receive_sender(draft=draft, now=now).outcome == "denied"


def held_media() -> list[int]:
    """Return the size of the media of each held message, in their order."""
    rows = InboundMessage.objects.filter(state="held").order_by("id")
    return [len(str(row.media)) if row.media else 0 for row in rows]


def test_a5_held_media_of_all_unknown_senders_is_bounded_and_the_oldest_is_dropped(
    telegram: ChannelAccount, owner: User, now: datetime, settings: Settings
) -> None:
    """[A5] For any number of unknown senders; the text stays, and notes what is missing."""
    settings.HELD_MEDIA_MB = 1
    for number in range(10):
        send_picture(telegram, str(700 + number), now)
        assert sum(held_media()) <= 1_000_000
    kept = held_media()
    assert [bool(size) for size in kept] == [False] * 8 + [True] * 2
    first = UnknownRequest.objects.get(sender="700")
    assert [row.note for row in held_messages.of(first)] == [held_messages.MEDIA_DROPPED]
    browser = Client()
    browser.force_login(owner)
    page = browser.get(f"/admin/allowlist/unknownrequest/{first.pk}/change/").content.decode()
    assert held_messages.MEDIA_DROPPED in page
    got: list[InboundMessage] = []
    unknown_requests.decide(
        request=first.public_id,
        verdict="approve",
        owner=owner,
        via="test",
        now=now,
        replay=got.extend,
    )
    assert [row.text for row in got] == [f"look\n[{held_messages.MEDIA_DROPPED}]"]


def test_a5_a_decision_frees_the_quota_of_held_media(
    telegram: ChannelAccount, owner: User, now: datetime, settings: Settings
) -> None:
    """[A5] Approved, denied or purged media are not counted any more."""
    settings.HELD_MEDIA_MB = 1
    verdicts: list[unknown_requests.Choice] = ["approve", "deny"]
    for verdict in verdicts:
        send_picture(telegram, "800", now)
        send_picture(telegram, "801", now)
        for row in UnknownRequest.objects.filter(state="pending", sender__startswith="80"):
            unknown_requests.decide(
                request=row.public_id,
                verdict=verdict,
                owner=owner,
                via="test",
                now=now,
                replay=lambda _: None,
            )
        ChannelIdentity.objects.all().delete()
    send_picture(telegram, "900", now)
    send_picture(telegram, "901", now)
    assert [bool(size) for size in held_media()] == [True, True]


def test_a5_one_message_that_is_larger_than_the_bound_keeps_its_words_only(
    telegram: ChannelAccount, owner: User, now: datetime, settings: Settings
) -> None:
    """[A5] And pushes nothing out that fits when it comes later."""
    settings.HELD_MEDIA_MB = 0
    send_picture(telegram, "700", now)
    assert held_media() == [0]

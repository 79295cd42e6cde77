"""Held messages beside those of other senders, their end, and their size ([A5] [A7])."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from pytest_django import Settings

from allowlist import held_messages
from core.conversations import inbox
from core.models import ChannelAccount, InboundMessage
from tests.allowlist.conftest import MakeUser, request_of

pytestmark = pytest.mark.django_db
NOTE = held_messages.MEDIA_DROPPED


def said(account: ChannelAccount, now: datetime, **fields: Any) -> InboundMessage:
    """Store a message of sender 7, held unless told otherwise."""
    return InboundMessage.objects.create(
        account=account,
        received_at=now,
        **{"sender": "7", "chat": "7", "text": "hello", "state": "held"} | fields,
    )


def fields_of(message: InboundMessage, *names: str) -> list[Any]:
    message.refresh_from_db()
    return [getattr(message, name) for name in names]


def test_a7_a_release_takes_the_held_messages_of_its_sender_and_no_others(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A7] Of another account, another kind, another sender, or answered already."""
    other = ChannelAccount.objects.create(channel="telegram", name="other")
    apart = [
        said(account, now, note=NOTE, **fields)
        for account, fields in (
            (other, {}),
            (telegram, {"kind": "phone"}),
            (telegram, {"sender": "8"}),
            (telegram, {"state": "answered"}),
        )
    ]
    states = [each.state for each in apart]
    mine = said(telegram, now, note=NOTE)
    ann = make_user("ann")
    assert held_messages.release(request_of(telegram, now), ann, now) == [mine]
    assert fields_of(mine, "state", "user", "text") == ["received", ann, f"hello\n[{NOTE}]"]
    for message, state in zip(apart, states, strict=True):
        assert fields_of(message, "state", "user", "text") == [state, None, "hello"]


def test_a5_a_purge_leaves_nothing_of_the_content(telegram: ChannelAccount, now: datetime) -> None:
    """[A5] The row stays, so that a repeated update is known."""
    full = {"media": [{"id": "1"}], "media_bytes": 9, "options": {"a": 1}, "raw": b"x"}
    message = said(telegram, now, sender_name="Eve", external_message_id="5", **full)
    assert held_messages.empty(InboundMessage.objects.all(), "for too long") == 1
    content = ("text", "media", "media_bytes", "options", "sender_name", "note", "state")
    expected = ["", [], 0, {}, "", "for too long", "purged"]
    assert fields_of(message, *content) == expected
    assert bytes(message.raw) == b""
    assert message.external_message_id == "5"


def test_a5_a_deletion_is_of_one_held_message(telegram: ChannelAccount, now: datetime) -> None:
    """[A5] One that was received meanwhile stays."""
    gone, stays, taken = (said(telegram, now) for _ in range(3))
    InboundMessage.objects.filter(pk=taken.pk).update(state="received")
    held_messages.delete(gone)
    held_messages.delete(taken)
    assert list(InboundMessage.objects.order_by("pk")) == [stays, taken]


def test_a5_the_media_of_the_oldest_is_dropped_up_to_the_byte(
    telegram: ChannelAccount, now: datetime, settings: Settings
) -> None:
    """[A5] Texts keep their rows as they are; media of people who are let in is no held media."""
    settings.HELD_MEDIA_MB = 1
    text, small, large, known = (
        said(
            telegram, now, media=[{"id": str(size)}] if size else [], media_bytes=size, state=state
        )
        for size, state in ((0, "held"), (1, "held"), (1_000_000, "held"), (500, "received"))
    )
    held_messages.bound_media(large)
    assert fields_of(text, "media_bytes", "note") == [0, ""]
    assert fields_of(small, "media", "media_bytes", "note") == [[], 0, NOTE]
    assert fields_of(large, "media_bytes", "note") == [1_000_000, ""]
    assert fields_of(known, "media_bytes", "note") == [500, ""]
    InboundMessage.objects.filter(state="held").delete()
    held_messages.bound_media(known)
    assert fields_of(known, "media_bytes") == [500]


def test_a5_messages_that_are_held_since_a_time_are_found(
    telegram: ChannelAccount, now: datetime
) -> None:
    """[A5] Or received at that time; not those that are held no more."""
    mine = said(telegram, now)
    said(telegram, now + timedelta(seconds=1))
    said(telegram, now, state="answered")
    assert list(held_messages.received_until(now)) == [mine]


@pytest.mark.parametrize(
    ("sweep", "state"),
    [(held_messages.sweep, "purged"), (held_messages.sweep_ignored, "ignored")],
)
def test_a5_rows_without_content_are_deleted_after_the_days_of_a_request(
    telegram: ChannelAccount,
    now: datetime,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    sweep: Any,
    state: str,
) -> None:
    """[A5] Those of any other state stay, and younger ones."""
    settings.UNKNOWN_REQUEST_DAYS = 7
    monkeypatch.setattr(held_messages, "AT_ONCE", 2)
    old = now - timedelta(days=7)
    for _ in range(3):
        said(telegram, old, state=state)
    young = said(telegram, old + timedelta(seconds=1), state=state)
    kept = [said(telegram, old, state=each) for each in ("held", "answered")]
    found = [sweep(now=now) for _ in range(3)]
    assert sum(found) == 3
    assert found[-1] == 0
    assert list(InboundMessage.objects.order_by("pk")) == [young, *kept]


def test_items_of_albums_that_nothing_addressed_are_deleted_after_ten_minutes(
    telegram: ChannelAccount, now: datetime
) -> None:
    """Other ignored updates stay for days: a platform brings them again."""
    old, album = now - timedelta(minutes=10), inbox.OF_AN_ALBUM
    said(telegram, old, state="ignored", note=album)
    kept = [
        said(telegram, old + timedelta(seconds=1), state="ignored", note=album),
        said(telegram, old, state="ignored"),
        said(telegram, old, note=album),
    ]
    assert held_messages.sweep_ignored(now=now) == 1
    assert list(InboundMessage.objects.order_by("pk")) == kept

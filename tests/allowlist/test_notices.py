"""Who is told of a stranger, where, and with what to press [A4] [A5] [A7]."""

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from allowlist.models import SignInLink, UnknownRequest
from channels_app import notices, registry
from channels_app.inbound import receive_sender
from channels_app.runner import Runner
from core.inbox import Draft
from core.models import ChannelAccount, ChatSession, Delivery, InboundMessage, User
from tests.allowlist.conftest import MakeUser
from tests.channels.running import runner, until

pytestmark = pytest.mark.django_db


def speaks_from(user: User, account: ChannelAccount, chat: str) -> None:
    """The last-used channel of somebody."""
    target = {"chat": chat, "thread": ""}
    User.objects.filter(pk=user.pk).update(last_account=account, last_target=target)


def knock(account: ChannelAccount, now: datetime, sender: str = "700") -> None:
    """A stranger writes."""
    draft = Draft(account=account, sender=sender, sender_name="Eve", chat=sender, text="hello")
    assert receive_sender(draft=draft, now=now).outcome == "denied"


@pytest.fixture
def without_buttons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every channel is one that shows text only."""
    plain = SimpleNamespace(
        capabilities=frozenset(), is_group=lambda chat: chat.startswith("-"), outbound=None
    )
    monkeypatch.setattr(registry, "get", lambda _: plain)


def test_a4_the_owners_are_told_and_a_guest_who_spoke_later_is_not(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, now: datetime
) -> None:
    """[A4] The notice goes to the owner's last-used channel, whoever used one last."""
    speaks_from(owner, telegram, "555")
    speaks_from(make_user("guest", im=["556"]), telegram, "556")
    knock(telegram, now)
    assert [row.target["chat"] for row in Delivery.objects.all()] == ["555"]


def test_a_trouble_is_told_once_a_day_while_it_lasts(
    telegram: ChannelAccount, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new one of the same name is news again (decision 139); another name is, at once."""
    speaks_from(owner, telegram, "555")
    day = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def told(when: datetime, trouble: str = "auth") -> int:
        monkeypatch.setattr(notices, "timezone", SimpleNamespace(now=lambda: when))
        notices.trouble(account=telegram, chat="", trouble=trouble, words="401")
        return Delivery.objects.count()

    assert [told(day), told(day + timedelta(hours=3)), told(day, "conflict")] == [1, 1, 2]
    assert [told(day + timedelta(days=1)), told(day + timedelta(days=30))] == [3, 4]


def test_q13_trouble_in_a_chat_where_nobody_speaks_is_not_told(
    telegram: ChannelAccount, owner: User, make_user: MakeUser
) -> None:
    """[redteam Q13] A stranger has as many chats as they like; a guest's is told, the owner's own
    is not told into itself."""
    speaks_from(owner, telegram, "555")
    guest = make_user("guest", im=["556"])
    for chat in ("555", "556"):
        ChatSession.objects.create(user=guest, account=telegram, chat=chat)
    for chat in ("-1", "-2", "4711", "555"):
        notices.trouble(account=telegram, chat=chat, trouble="kicked", words="status kicked")
    assert not Delivery.objects.exists()
    notices.trouble(account=telegram, chat="556", trouble="blocked", words="status kicked")
    assert Delivery.objects.count() == 1


@pytest.mark.parametrize("chat", ["", "-100"])
def test_a5_q14_an_owner_who_cannot_be_written_to_finds_it_in_the_admin(
    telegram: ChannelAccount, owner: User, now: datetime, chat: str
) -> None:
    """[A5] No channel yet, or a group, where it would be for everybody: no notice, no loop."""
    if chat:
        speaks_from(owner, telegram, chat)
    knock(telegram, now)
    assert not Delivery.objects.exists()
    assert UnknownRequest.objects.get().state == "pending"


def test_a5_with_notices_off_the_request_is_recorded_and_nobody_is_told(
    telegram: ChannelAccount, owner: User, now: datetime, settings: Settings
) -> None:
    """[A5] ``notify_unknown_request``: the row is recorded either way."""
    settings.NOTIFY_UNKNOWN_REQUEST = False
    speaks_from(owner, telegram, "555")
    knock(telegram, now)
    assert not Delivery.objects.exists()
    assert UnknownRequest.objects.get().count == 1


@pytest.mark.usefixtures("without_buttons")
def test_a5_where_there_are_no_buttons_the_notice_has_a_link_that_opens_the_list_once(
    telegram: ChannelAccount, owner: User, client: Client
) -> None:
    """[A5] The link signs that owner in, once, within an hour, and leads to who waits."""
    speaks_from(owner, telegram, "555")
    knock(telegram, timezone.now())
    payload = Delivery.objects.get().payload
    assert "buttons" not in payload
    found = re.search(r"(/sign-in/[\w-]{43}\?next=\S+)$", payload["text"])
    assert found is not None
    page = client.get(found[1], follow=True)
    assert page.status_code == 200
    assert b"Eve" in page.content
    assert Client().get(found[1]).status_code == 403
    link = SignInLink.objects.get()
    assert link.user == owner
    assert link.expires_at - timezone.now() <= timedelta(hours=1)


def test_a5_the_notice_is_said_once_a_sender_and_again_after_an_approval_that_ended(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    """[A5] At most once per sender."""
    speaks_from(owner, telegram, "555")
    for _ in range(5):
        knock(telegram, now)
    assert Delivery.objects.count() == 1
    [shown] = Delivery.objects.all()
    assert shown.payload["text"].splitlines()[0] == (
        "Unknown request from telegram: user_id=700. Approve it to let them in."
    )
    labels = [button["text"] for row in shown.payload["buttons"] for button in row]
    assert labels == ["Approve", "Approve 24 h", "Deny", "Block"]
    assert notices.HOURLY == 5


@pytest.mark.django_db(transaction=True)
def test_a7_what_expired_is_emptied_by_the_running_worker(runner: Runner) -> None:
    """[A7] The chore runs with every sweep, each SWEEP_SECONDS (10 by default, under a minute)."""
    account = ChannelAccount.objects.create(channel="memory", name="main")
    knock(account, timezone.now() - timedelta(hours=25))
    until(lambda: InboundMessage.objects.get().state == "purged", seconds=60)
    assert InboundMessage.objects.get().text == ""


__all__ = ["runner"]

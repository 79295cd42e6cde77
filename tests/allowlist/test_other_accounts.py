"""Approved on one bot, unknown on the next of the same platform: said, and mended ([A1] [A2])."""

from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from allowlist import unknown_requests
from allowlist.models import AuditEntry, UnknownRequest
from allowlist.permissions import Sender, decide
from channels_app.intake.inbound import receive_sender
from core.conversations.inbox import Draft
from core.models import ChannelAccount, ChannelIdentity, User
from tests.allowlist.conftest import MakeUser, settle

pytestmark = pytest.mark.django_db


@pytest.fixture
def second(db: None) -> ChannelAccount:
    """Create another Telegram bot of the same installation."""
    return ChannelAccount.objects.create(channel="telegram", name="second")


def known_on(*accounts: ChannelAccount, now: datetime) -> list[bool]:
    """Return whether the sender 700 may speak on each of these."""
    return [decide(sender=Sender(each, "im", "700"), now=now).allowed for each in accounts]


def ask_in(account: ChannelAccount, now: datetime) -> UnknownRequest:
    """Let the sender 700 write to a bot; return the unknown request."""
    draft = Draft(account=account, sender="700", chat="700", text="hello")
    assert receive_sender(draft=draft, now=now).outcome == "denied"
    return UnknownRequest.objects.get(account=account)


@pytest.mark.parametrize("box", ["", "on"])
def test_a2_an_approval_counts_for_the_account_or_for_every_one_of_the_channel(
    telegram: ChannelAccount, second: ChannelAccount, owner: User, box: str
) -> None:
    """[A1] [A2] The page names the other bots, before and after, and offers both."""
    now = timezone.now()
    row = ask_in(telegram, now)
    browser = Client()
    browser.force_login(owner)
    address = f"/admin/allowlist/unknownrequest/{row.pk}/change/"
    page = browser.get(address).content.decode()
    assert 'name="everywhere"' in page
    assert "Also on telegram/second" in page
    form = {"verdict": "approve", "everywhere": box}
    browser.post(f"/admin/allowlist/unknownrequest/{row.public_id}/decide/", form)
    assert known_on(telegram, second, now=now) == [True, box == "on"]
    page = browser.get(address).content.decode()
    assert ("Not on the allowlist of telegram/second" in page) == (box == "")
    if not box:
        more = f"/admin/allowlist/unknownrequest/{row.public_id}/everywhere/"
        assert browser.get(more).status_code == 405
        assert browser.post(more).status_code == 302
        assert known_on(telegram, second, now=now) == [True, True]
        assert AuditEntry.objects.filter(action="request.everywhere").count() == 1
        assert "Not on the allowlist of" not in browser.get(address).content.decode()


def test_a2_a_24h_approval_expires_everywhere_and_only_an_owner_extends_it(
    telegram: ChannelAccount, second: ChannelAccount, owner: User, make_user: MakeUser
) -> None:
    """[A6] The identity of the whole channel ends when the one of the account does."""
    now = timezone.now()
    row = ask_in(telegram, now)
    with pytest.raises(unknown_requests.RequestNotFound):
        unknown_requests.extend(request=row.public_id, owner=owner, via="test", now=now)
    settle(row, verdict="approve_24h", owner=owner, now=now)
    with pytest.raises(unknown_requests.NotAnOwner):
        unknown_requests.extend(request=row.public_id, owner=make_user("bob"), via="test", now=now)
    assert known_on(second, now=now) == [False]
    unknown_requests.extend(request=row.public_id, owner=owner, via="test", now=now)
    assert known_on(telegram, second, now=now) == [True, True]
    assert known_on(telegram, second, now=now + timedelta(days=1)) == [False, False]


def test_a2_an_id_of_some_bridge_is_offered_for_its_own_account_only(
    owner: User, now: datetime
) -> None:
    """[A2] Two bridges are two platforms: the same id is another person."""
    for name in ("one", "two"):
        ChannelAccount.objects.create(channel="bridge", name=name)
    account = ChannelAccount.objects.get(name="one")
    draft = Draft(account=account, sender="ann", chat="ann", text="hello")
    receive_sender(draft=draft, now=now)
    row = UnknownRequest.objects.get()
    assert unknown_requests.unknown_on(row, now=now) == []
    settle(row, verdict="approve", owner=owner, now=now, everywhere=True)
    assert ChannelIdentity.objects.get().account == account

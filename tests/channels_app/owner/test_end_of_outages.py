"""The end of an outage is told when what waited has been sent, and not otherwise."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from channels_app.owner import outages
from core.models import ChannelAccount, Delivery, User
from tests.channels_app.running import memory_account, owner

__all__ = ["owner"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting(owner: User, settings: Settings) -> Delivery:
    """Return a delivery that waits on an account of whose outage the owner was told elsewhere."""
    settings.UNDELIVERED_SECONDS = 60
    account = memory_account()
    other = ChannelAccount.objects.create(channel="memory", name="second")
    owner.last_account, owner.last_target = other, {"chat": "own", "thread": ""}
    owner.save()
    row = Delivery.objects.create(
        account=account, dedupe_key="answer:1:0", conversation="c", state="pending", tries=1
    )
    Delivery.objects.update(created_at=timezone.now() - timedelta(minutes=5))
    outages.look(now=timezone.now())
    assert [text.partition(":")[0] for text in told()] == [str(account)]
    return row


def told() -> list[str]:
    """Return the notices of the owner."""
    rows = Delivery.objects.filter(dedupe_key__startswith="notice:").order_by("id")
    return [row.payload["text"] for row in rows]


@pytest.mark.parametrize("state", ["sent", "pending"])
def test_messages_that_were_sent_at_last_are_told(waiting: Delivery, state: str) -> None:
    """Also one that waits to be edited, or looked for, afterwards."""
    now = timezone.now()
    Delivery.objects.filter(pk=waiting.pk).update(state=state, tries=0, sent_at=now)
    outages.look(now=timezone.now())
    assert "have left" in told()[-1]


@pytest.mark.parametrize("state", ["dead", "dismissed", "uncertain"])
def test_messages_that_were_given_up_are_not_said_to_have_left(
    waiting: Delivery, state: str
) -> None:
    """The outage is over for the gateway: another one is told anew."""
    Delivery.objects.filter(pk=waiting.pk).update(state=state)
    outages.look(now=timezone.now())
    assert not any("have left" in text for text in told())
    assert not ChannelAccount.objects.exclude(outage_at=None).exists()


def test_of_an_account_that_is_switched_off_nothing_has_left(waiting: Delivery) -> None:
    """It is told when it was switched on again and sends what waits."""
    ChannelAccount.objects.filter(pk=waiting.account_id).update(enabled=False)
    outages.look(now=timezone.now())
    assert not any("have left" in text for text in told())
    ChannelAccount.objects.update(enabled=True)
    Delivery.objects.filter(pk=waiting.pk).update(state="sent", sent_at=timezone.now())
    outages.look(now=timezone.now())
    assert "have left" in told()[-1]

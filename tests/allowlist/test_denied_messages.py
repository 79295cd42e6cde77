"""The rule for incoming messages: stored rows, and the effect of an approval ([A3] to [A7])."""

from datetime import datetime, timedelta

import pytest
from pytest_django import Settings

from allowlist import unknown_requests
from allowlist.models import UnknownRequest
from channels_app.intake import decisions
from channels_app.intake.inbound import Receipt, receive_sender
from core.conversations.inbox import Draft
from core.models import ChannelAccount, ChatSession, InboundMessage, Message, Run, User
from tests.allowlist.conftest import MakeUser
from tests.allowlist.in_parallel import run_in_parallel

pytestmark = pytest.mark.django_db


def say(
    account: ChannelAccount,
    now: datetime,
    text: str,
    sender: str = "41",
    *,
    chat: str = "",
    number: str = "",
    group: str = "",
) -> Receipt:
    """Receive one message of a platform."""
    draft = Draft(
        account=account,
        sender=sender,
        sender_name="Eve",
        chat=chat or sender,
        text=text,
        message_id=number,
        raw=text.encode(),
    )
    return receive_sender(draft=draft, now=now, group=group)


def approve(
    owner: User,
    now: datetime,
    verdict: unknown_requests.Choice = "approve",
    user: User | None = None,
) -> unknown_requests.Verdict:
    """Approve the newest request."""
    row = UnknownRequest.objects.latest("id")
    return decisions.decide(
        request=row.public_id, verdict=verdict, owner=owner, via="telegram", now=now, user=user
    )


def test_a5_an_unknown_sender_is_held_and_recorded_and_nothing_runs(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A3][A5] RQ2: no run, no session, no transcript; one held message, one request."""
    make_user("ann", im=["42"])
    assert say(telegram, now, "hello").outcome == "denied"
    assert InboundMessage.objects.get().state == "held"
    assert UnknownRequest.objects.get().last_text == "hello"
    assert not Run.objects.exists()
    assert not ChatSession.objects.exists()
    assert not Message.objects.exists()


def test_a5_a_repeated_update_of_an_unknown_sender_is_counted_once(
    telegram: ChannelAccount, now: datetime
) -> None:
    """[A5] A duplicate of a held message, also of one that was emptied since."""
    for _ in range(3):
        assert say(telegram, now, "hello", number="7").outcome == "denied"
    assert UnknownRequest.objects.get().count == 1
    unknown_requests.purge(now=now + timedelta(days=2))
    assert say(telegram, now + timedelta(days=2), "hello", number="7").outcome == "denied"
    assert InboundMessage.objects.count() == 1
    assert InboundMessage.objects.get().text == ""


def test_a4_the_last_used_channel_is_moved_by_allowed_messages_only(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A4] RQ15: an unknown sender that names the owner's chat does not change it."""
    ann = make_user("ann", im=["42"])
    say(telegram, now, "hello", sender="41", chat="42")
    ann.refresh_from_db()
    assert ann.last_account is None
    assert say(telegram, now, "hello", sender="42").outcome == "accepted"
    ann.refresh_from_db()
    assert ann.last_account == telegram
    assert ann.last_target["chat"] == "42"
    assert ann.last_spoke_at == now
    say(telegram, now + timedelta(minutes=1), "me too", sender="41", chat="41")
    ann.refresh_from_db()
    assert ann.last_target["chat"] == "42"


def test_a4_an_approval_moves_the_last_used_channel_to_where_the_person_wrote(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, now: datetime
) -> None:
    """[A4] Their message is allowed now; one that was allowed after it counts more."""
    say(telegram, now, "hello", sender="41", chat="41")
    say(telegram, now + timedelta(minutes=1), "hello?", sender="41", chat="41")
    approve(owner, now + timedelta(hours=1))
    eve = User.objects.get(identities__value="41")
    assert (eve.last_account, eve.last_target["chat"]) == (telegram, "41")
    assert eve.last_spoke_at == now + timedelta(minutes=1)
    ann = make_user("ann", im=["42"])
    say(telegram, now, "hello", sender="51", chat="51")
    assert say(telegram, now + timedelta(minutes=1), "hello", sender="42").outcome == "accepted"
    approve(owner, now + timedelta(hours=1), user=ann)
    ann.refresh_from_db()
    assert ann.last_target["chat"] == "42"


def test_a7_held_messages_run_in_order_as_the_approved_user(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    """[A7] Once; the second approval runs nothing; from now on the person speaks."""
    for number, text in enumerate(("one", "two", "three")):
        say(telegram, now, text, number=str(number))
    verdict = approve(owner, now)
    assert verdict.replayed == 3
    person = verdict.request.granted_user
    said = Message.objects.filter(session__user=person).order_by("id")
    assert [each for line in said for each in line.text.split("\n")] == ["one", "two", "three"]
    assert set(InboundMessage.objects.values_list("state", flat=True)) == {"batched"}
    runs = Run.objects.count()
    assert not approve(owner, now).first
    assert Run.objects.count() == runs
    assert say(telegram, now, "four", number="9").outcome == "accepted"
    assert Run.objects.count() == runs + 1
    assert not Run.objects.exclude(user=person).exists()


@pytest.mark.parametrize("verdict", ["deny", "block"])
def test_a7_messages_of_a_denied_sender_are_purged_and_never_run(
    telegram: ChannelAccount, owner: User, now: datetime, verdict: unknown_requests.Choice
) -> None:
    """[A7] And a blocked one leaves nothing but a count."""
    say(telegram, now, "secret")
    approve(owner, now, verdict)
    assert say(telegram, now, "again").outcome == "denied"
    assert not Run.objects.exists()
    kept = [message.text for message in InboundMessage.objects.order_by("id")]
    assert kept == ([""] if verdict == "block" else ["", "again"])
    assert UnknownRequest.objects.get().count == 2


def test_a3_a_message_in_an_unlisted_group_asks_for_the_group_and_keeps_nothing(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, now: datetime
) -> None:
    """[A3] RW17: for any sender; once the group is listed, unknown members make their own
    requests.
    """
    ann = make_user("ann", im=["42"])
    for sender in ("41", "42", "43"):
        assert say(telegram, now, "hi", sender, chat="-100", group="-100").outcome == "denied"
    request = UnknownRequest.objects.get()
    assert (request.sender, request.is_group, request.count) == ("-100", True, 3)
    assert not InboundMessage.objects.exists()
    approve(owner, now)
    assert say(telegram, now, "hi", "42", chat="-100", group="-100").outcome == "accepted"
    assert Run.objects.get().user == ann
    assert say(telegram, now, "hi", "41", chat="-100", group="-100").outcome == "denied"
    assert UnknownRequest.objects.get(sender="41").state == "pending"


def test_a5_an_expired_approval_makes_the_sender_unknown_again(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    """[A5][A6] Approve 24 h."""
    say(telegram, now, "hello")
    approve(owner, now, "approve_24h")
    assert say(telegram, now + timedelta(hours=23), "still here").outcome == "accepted"
    assert say(telegram, now + timedelta(hours=24), "too late").outcome == "denied"
    assert UnknownRequest.objects.get().state == "pending"


@pytest.mark.django_db(transaction=True)
def test_a7_every_held_message_is_answered_once_when_approved_while_the_sender_writes(
    telegram: ChannelAccount, owner: User, now: datetime, settings: Settings
) -> None:
    """[A7] Held before or accepted after: none is lost, none runs twice."""
    settings.HELD_MESSAGES_PER_SENDER = 100
    say(telegram, now, "first", number="first")

    def either(number: int) -> str:
        if number % 13 == 5:
            return approve(owner, now).request.state
        return say(telegram, now, f"message {number}", number=str(number)).outcome

    outcomes = run_in_parallel(either, times=60)
    assert "approved" in outcomes
    assert not InboundMessage.objects.filter(state="held").exists()
    texts = [each for run in Run.objects.all() for each in run.text.split("\n")]
    sent = ["first", *(f"message {number}" for number in range(60) if number % 13 != 5)]
    assert sorted(texts) == sorted(sent)


def test_a5_a_flood_of_unknown_senders_stays_bounded_and_a_legitimate_one_is_found(
    telegram: ChannelAccount, owner: User, now: datetime, settings: Settings
) -> None:
    """[A5] RQ13: as many rows as may be, and the held messages of the others are gone."""
    settings.UNKNOWN_REQUESTS_MAX = 50
    for number in range(200):
        say(telegram, now + timedelta(seconds=number), "spam", str(1000 + number))
    say(telegram, now + timedelta(seconds=300), "It is grandma", "41")
    assert UnknownRequest.objects.count() == 50
    assert InboundMessage.objects.filter(state="held").count() == 50
    assert UnknownRequest.objects.filter(last_text__contains="grandma").exists()

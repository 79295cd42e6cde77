"""Replies to unknown senders, and a flood of them: bounded rows, few notices, a pattern [A3]
[A5].
"""

import os
from datetime import datetime, timedelta

import pytest
from django.contrib.messages import get_messages
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from allowlist import patterns, pending_count
from allowlist.models import AuditEntry, BlockPattern, UnknownRequest
from channels_app.intake import decisions
from channels_app.intake.inbound import Receipt, receive_sender
from core.conversations.inbox import Draft
from core.models import ChannelAccount, ChannelIdentity, Delivery, InboundMessage, User
from tests.allowlist.conftest import MakeUser, settle

pytestmark = pytest.mark.django_db
FLOOD_EACH = int(os.environ.get("FLOOD_EACH", "2"))
PATTERNS = "/admin/allowlist/blockpattern/"


def say(
    account: ChannelAccount, now: datetime, sender: str, text: str = "hello", kind: str = "im"
) -> Receipt:
    """Receive a message of a sender."""
    draft = Draft(account=account, kind=kind, sender=sender, chat=sender, text=text)
    return receive_sender(draft=draft, now=now)


def told(account: ChannelAccount, chat: str) -> list[str]:
    """Return the messages to that chat."""
    rows = Delivery.objects.filter(account=account, target__chat=chat).order_by("id")
    return [row.payload["text"] for row in rows]


@pytest.fixture
def bridge(db: None) -> ChannelAccount:
    """Return an account that names senders by e-mail."""
    return ChannelAccount.objects.create(channel="bridge", name="mail")


@pytest.fixture
def at_home(telegram: ChannelAccount, owner: User) -> User:
    """Return an owner whose last-used channel is Telegram."""
    target = {"chat": "555", "thread": ""}
    User.objects.filter(pk=owner.pk).update(last_account=telegram, last_target=target)
    owner.refresh_from_db()
    return owner


@pytest.fixture
def owner_client(client: Client, owner: User) -> Client:
    """Return a browser where the owner is signed in."""
    client.force_login(owner)
    return client


def test_a3_unknown_senders_get_no_reply_without_a_configured_line(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    """[A3] The default is no reply."""
    say(telegram, now, "700")
    decisions.decide(
        request=UnknownRequest.objects.get().public_id,
        verdict="approve",
        owner=owner,
        via="admin",
        now=now,
    )
    assert told(telegram, "700") == []


def test_a3_a_neutral_reply_once_and_the_approval_reply_before_held_messages_are_answered(
    telegram: ChannelAccount, owner: User, now: datetime, settings: Settings
) -> None:
    """[A3][A7] By setting; the config of the account may say it otherwise."""
    settings.STRANGER_DENIED_REPLY = "Please wait."
    settings.STRANGER_APPROVED_REPLY = "You can talk to me now."
    for _ in range(3):
        say(telegram, now, "700")
    assert told(telegram, "700") == ["Please wait."]
    for _ in range(2):
        decisions.decide(
            request=UnknownRequest.objects.get().public_id,
            verdict="approve",
            owner=owner,
            via="admin",
            now=now,
        )
    assert told(telegram, "700") == ["Please wait.", "You can talk to me now."]
    telegram.config = {"denied_reply": "Bitte warten."}
    telegram.save()
    say(telegram, now, "701")
    assert told(telegram, "701") == ["Bitte warten."]


def test_a3_a_flood_of_unknown_senders_gets_sixty_replies_an_hour(
    telegram: ChannelAccount, now: datetime, settings: Settings
) -> None:
    """[A3] The platform would mute a bot that answers all of them."""
    settings.STRANGER_DENIED_REPLY = "Please wait."
    for number in range(70):
        say(telegram, now, str(1000 + number))
    assert Delivery.objects.count() == 60
    say(telegram, now + timedelta(hours=1), "41")
    assert told(telegram, "41") == ["Please wait."]
    say(telegram, now - timedelta(days=1), "42")  # the clock was set back
    assert told(telegram, "42") == ["Please wait."]


def flood(account: ChannelAccount, now: datetime, *, senders: int, each: int) -> None:
    """Receive ``each`` messages from each of ``senders`` senders, all within twenty minutes."""
    number = 0
    for word in range(each):
        for sender in range(senders):
            moment = now + timedelta(seconds=1200 * number / (senders * each))
            receipt = say(account, moment, str(5000 + sender), f"Buy coins {word}")
            assert receipt.outcome == "denied"
            number += 1


def survived(
    account: ChannelAccount, owner_client: Client, *, senders: int, each: int, held: int
) -> None:
    """Check that the owner got five notices and one about the rest, the tables are small, and
    grandma is found."""
    notices = told(account, "555")
    assert sum(text.startswith("Unknown request") for text in notices) == 5
    assert sum(text.startswith("More unknown senders") for text in notices) == 1
    assert len(notices) == 6
    assert UnknownRequest.objects.count() == senders + 1
    assert set(UnknownRequest.objects.exclude(sender="41").values_list("count")) == {(each,)}
    assert InboundMessage.objects.count() == 1 + senders * min(each, held)
    page = owner_client.get("/admin/allowlist/unknownrequest/", {"q": "grandma"}).content.decode()
    assert "im:41" in page
    assert "im:5099" not in page
    groups = owner_client.get("/admin/allowlist/unknownrequest/groups/").content.decode()
    assert f"Buy coins {each - 1}" in groups
    assert str(senders) in groups


def test_a5_rq13_a_hundred_unknown_senders_in_an_hour(
    telegram: ChannelAccount, at_home: User, owner_client: Client, now: datetime, settings: Settings
) -> None:
    """[A5] Five notices and one digest in an hour, bounded rows; a small one of the next."""
    settings.HELD_MESSAGES_PER_SENDER = 3
    say(telegram, now, "41", "It is grandma")
    flood(telegram, now, senders=100, each=5)
    survived(telegram, owner_client, senders=100, each=5, held=3)


@pytest.mark.slow
@pytest.mark.on("sqlite")
@pytest.mark.timeout(3600)
def test_a5_rq13_a_thousand_unknown_senders_that_continue(
    telegram: ChannelAccount, at_home: User, owner_client: Client, now: datetime, settings: Settings
) -> None:
    """[A5] Twice each; ten times each, ten thousand messages, in ``make soak`` (FLOOD_EACH)."""
    settings.HELD_MESSAGES_PER_SENDER = 3
    say(telegram, now, "41", "It is grandma")
    flood(telegram, now, senders=1000, each=FLOOD_EACH)
    survived(telegram, owner_client, senders=1000, each=FLOOD_EACH, held=3)


def test_a5_a_pattern_denies_unknown_senders_silently_and_no_listed_sender(
    bridge: ChannelAccount, at_home: User, make_user: MakeUser, now: datetime
) -> None:
    """[A5] No row, no notice, nothing held; only the pattern counts."""
    make_user("ann", email=["ann@spam.example"])
    pattern = BlockPattern.objects.create(kind="email", pattern="*@SPAM.example")
    for number in range(20):
        assert say(bridge, now, f"s{number}@spam.example", kind="email").outcome == "denied"
    assert say(bridge, now, "ann@spam.example", kind="email").outcome == "accepted"
    assert say(bridge, now, "eve@other.example", kind="email").outcome == "denied"
    assert [row.sender for row in UnknownRequest.objects.all()] == ["eve@other.example"]
    assert InboundMessage.objects.count() == 2
    pattern.refresh_from_db()
    assert (pattern.hits, pattern.last_hit_at) == (20, now)
    assert Delivery.objects.count() == 1


@pytest.mark.parametrize(
    ("pattern", "sender", "matched"),
    [
        ("*@spam.example", "a@spam.example", True),
        ("*@spam.example", "a@spam.example.org", False),
        ("*@spam.example", "a@notspam.example", False),
        ("+4490?", "+44901", True),
        ("+4490?", "+449012", False),
        ("[ab]*", "a1", False),
        ("[ab]*", "[ab]1", True),
        ("spam.*", "spamX", False),
        ("*a*a*a*a*a*a*a*a*a*a*a*b", "a" * 300, False),
    ],
)
def test_a_pattern_has_two_signs_and_cannot_run_away(
    pattern: str, sender: str, matched: bool
) -> None:
    """``*`` and ``?``; everything else is itself."""
    assert patterns.matches(pattern, sender) == matched


def test_a_pattern_counts_for_its_kind_and_account_only(
    bridge: ChannelAccount, telegram: ChannelAccount, now: datetime
) -> None:
    """Empty is every one."""
    BlockPattern.objects.create(kind="email", pattern="77*")
    BlockPattern.objects.create(account=bridge, pattern="88*")
    for sender in ("771", "881"):
        say(telegram, now, sender)
    assert pending_count.count() == 2
    say(bridge, now, "882")
    assert pending_count.count() == 2


def test_blocking_by_pattern_in_the_admin_denies_pending_requests(
    owner_client: Client, owner: User, bridge: ChannelAccount, settings: Settings
) -> None:
    """Their held words go, an owner's mistake is refused, and all of it is audited."""
    now = timezone.now()
    for number in range(5):
        say(bridge, now, f"s{number}@spam.example", kind="email")
    say(bridge, now, "eve@other.example", "grandma", kind="email")
    address = UnknownRequest.objects.order_by("id").first()
    assert address is not None
    link = owner_client.get(
        f"/admin/allowlist/unknownrequest/{address.pk}/change/"
    ).content.decode()
    assert "pattern=%2A%40spam.example" in link
    for bad in ("*", "", "a*", "?*?"):
        answer = owner_client.post(f"{PATTERNS}add/", {"pattern": bad, "kind": "", "note": ""})
        assert answer.status_code == 200
    form = {"pattern": " *@spam.example ", "kind": "email", "note": "coins"}
    answer = owner_client.post(f"{PATTERNS}add/", form)
    assert answer.status_code == 302
    assert any("5" in str(each) for each in get_messages(answer.wsgi_request))
    assert BlockPattern.objects.get().pattern == "*@spam.example"
    assert BlockPattern.objects.get().created_by == owner
    assert set(UnknownRequest.objects.values_list("sender", "state", "decided_via")) >= {
        ("s0@spam.example", "denied", "pattern"),
        ("eve@other.example", "pending", ""),
    }
    assert pending_count.count() == 1
    held = InboundMessage.objects.filter(state="held")
    assert [message.text for message in held] == ["grandma"]
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"blockpattern.added", "pattern.applied"} <= actions
    # Requests are locked before the audit, as by a decision: in two orders each would wait.
    both = AuditEntry.objects.filter(action__contains="pattern").order_by("id")
    assert [row.action for row in both] == ["pattern.applied", "blockpattern.added"]
    say(bridge, now, "s0@spam.example", kind="email")
    assert UnknownRequest.objects.get(sender="s0@spam.example").count == 1
    pattern = BlockPattern.objects.get()
    owner_client.post(f"{PATTERNS}{pattern.pk}/delete/", {"post": "yes"})
    say(bridge, now, "s0@spam.example", kind="email")
    assert UnknownRequest.objects.get(sender="s0@spam.example").state == "pending"
    say(bridge, now, "*er*", "\u3164")
    wild = UnknownRequest.objects.get(sender="*er*")
    page = owner_client.get(f"/admin/allowlist/unknownrequest/{wild.pk}/change/").content.decode()
    assert "pattern=%3Fer%3F" in page


def test_a6_staff_without_the_owner_role_cannot_block_by_pattern(
    client: Client, make_user: MakeUser
) -> None:
    """[A6] Deciding is the owners'; so is deciding for many."""
    sam = make_user("sam")
    sam.is_staff = sam.is_superuser = True
    sam.save()
    client.force_login(sam)
    form = {"pattern": "*@spam.example", "kind": "", "note": ""}
    assert client.post(f"{PATTERNS}add/", form).status_code == 403
    assert not BlockPattern.objects.exists()


def test_groups_of_pending_senders_link_to_the_list_and_to_a_pattern(
    owner_client: Client, bridge: ChannelAccount, telegram: ChannelAccount, now: datetime
) -> None:
    """By where they come from and by what they say; one of its kind is no group."""
    for number in range(3):
        say(bridge, now, f"s{number}@spam.example", "Buy coins", kind="email")
        say(telegram, now, str(700 + number), "Free money")
    say(bridge, now, "eve@other.example", "grandma", kind="email")
    page = owner_client.get("/admin/allowlist/unknownrequest/groups/").content.decode()
    assert "*@spam.example" in page
    assert "Free money" in page
    assert "grandma" not in page
    assert ChannelIdentity.objects.count() == 0


def test_a6_a_sender_whom_another_owner_lets_in_while_a_pattern_is_applied_stays_let_in(
    bridge: ChannelAccount, owner: User, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their notices do not say that they were denied."""
    say(bridge, now, "ann@spam.example", kind="email")
    say(bridge, now, "eve@spam.example", kind="email")
    matches = patterns.matches

    def deciding(pattern: str, sender: str) -> bool:
        for row in UnknownRequest.objects.filter(sender="ann@spam.example", state="pending"):
            settle(row, verdict="approve", owner=owner, now=now)
        return matches(pattern, sender)

    monkeypatch.setattr(patterns, "matches", deciding)
    pattern = BlockPattern.objects.create(pattern="*@spam.example")
    denied = patterns.apply(pattern=pattern, owner=owner, now=now)
    assert [row.sender for row in denied] == ["eve@spam.example"]
    assert UnknownRequest.objects.get(sender="ann@spam.example").state == "approved"

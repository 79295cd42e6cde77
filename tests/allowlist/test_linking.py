"""A second address of the same person, by a one-time code typed on the other channel."""

import re
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings

from allowlist import link_codes, unknown_requests
from allowlist.models import AuditEntry, LinkAttempt, LinkCode, UnknownRequest
from allowlist.permissions import Sender, decide
from channels_app.delivery import secret_blocks
from channels_app.intake import slash_commands
from channels_app.intake.inbound import Receipt, receive_sender
from core.conversations.inbox import Draft
from core.database import transactions
from core.models import ChannelAccount, ChannelIdentity, Delivery, InboundMessage, Run, User
from tests.allowlist.conftest import MakeUser, settle
from tests.allowlist.in_parallel import run_in_parallel

pytestmark = pytest.mark.django_db


@pytest.fixture
def memory(db: None) -> ChannelAccount:
    """Return an account of another channel."""
    return ChannelAccount.objects.create(channel="memory", name="main")


@pytest.fixture
def ann(make_user: MakeUser) -> User:
    """Return a user allowed on Telegram as 42."""
    return make_user("ann", im=["42"])


def say(
    account: ChannelAccount, now: datetime, text: str, sender: str = "41", kind: str = "im"
) -> Receipt:
    """Receive a message with its slash command, as channels with commands do."""
    number = f"{InboundMessage.objects.count()}-{text}"
    draft = Draft(
        account=account, kind=kind, sender=sender, chat=sender, text=text, message_id=number
    )
    return receive_sender(draft=draft, now=now, command=slash_commands.parse(text))


def answers(account: ChannelAccount, chat: str) -> list[str]:
    """Return the messages to that chat."""
    rows = Delivery.objects.filter(account=account, target__chat=chat).order_by("id")
    return [secret_blocks.as_sent(row.payload)["text"] for row in rows]


def asked(account: ChannelAccount, now: datetime, sender: str = "42", kind: str = "im") -> str:
    """Return the code that ``/link`` creates."""
    assert say(account, now, "/link", sender, kind).outcome == "accepted"
    found = re.search(r"/link (\w{4}-\w{4})", answers(account, sender)[-1])
    assert found is not None
    return found[1]


def user_of(account: ChannelAccount, now: datetime, sender: str = "41") -> User | None:
    """Return the user that the rule finds for the sender."""
    return decide(sender=Sender(account, "im", sender), now=now).user


def test_a_code_of_one_channel_makes_the_sender_of_another_the_same_person(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, owner: User, now: datetime
) -> None:
    """And what they had said before is answered, once, in order; the request waits no more."""
    say(memory, now, "hello")
    say(memory, now, "anybody?")
    assert say(memory, now, f"/link {asked(telegram, now).lower()}").outcome == "accepted"
    assert user_of(memory, now) == ann
    assert user_of(telegram, now) is None  # the same number on another channel is another person
    assert "linked to ann" in answers(memory, "41")[-1]
    said = [each for run in Run.objects.order_by("id") for each in run.text.split("\n")]
    assert said == ["hello", "anybody?"]
    row = UnknownRequest.objects.get()
    assert (row.state, row.decided_by, row.decided_via) == ("approved", ann, "link code")
    actions = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert actions == ["link.made", "link.used"]


def test_a_code_works_once_and_for_ten_minutes(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, now: datetime
) -> None:
    """Used, expired, replaced by a newer one: all the same words, all audited."""
    code = asked(telegram, now)
    assert say(memory, now, f"/link {code}").outcome == "accepted"
    assert say(memory, now, f"/link {code}", "43").outcome == "denied"
    late = asked(telegram, now)
    assert say(memory, now + timedelta(minutes=10), f"/link {late}", "44").outcome == "denied"
    first, _ = asked(telegram, now), asked(telegram, now)
    assert say(memory, now, f"/link {first}", "45").outcome == "denied"
    for sender in ("43", "44", "45"):
        assert answers(memory, sender) == ["This code is invalid or has expired."]
        assert user_of(memory, now, sender) is None
    assert AuditEntry.objects.filter(action="link.refused").count() == 3


def test_only_a_keyed_hash_is_kept_and_a_typed_code_is_stored_nowhere(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, now: datetime
) -> None:
    """Neither of a right one nor of a wrong one."""
    code = asked(telegram, now)
    row = LinkCode.objects.get()
    assert re.fullmatch(r"[0-9a-f]{64}", row.digest)
    wrong = "AAAA-AAAA"
    say(memory, now, f"/link {wrong}", "43")
    say(memory, now, f"/link {code}")
    stored = list(InboundMessage.objects.values_list("text", flat=True))
    assert not [text for text in stored if code in text or wrong in text]
    assert UnknownRequest.objects.get(sender="43").last_text == "/link …"
    assert not [row for row in AuditEntry.objects.all() if code in str(row.data)]


def test_five_wrong_codes_an_hour_and_then_not_even_the_right_one(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, now: datetime
) -> None:
    """A sender has 5 attempts an hour, independent of others; rows, audit and replies stay bounded:
    a platform would mute a bot that answers every guess.
    """
    code = asked(telegram, now)
    for number in range(9):
        say(memory, now, f"/link AAAA-AAA{number + 2}")
    assert LinkAttempt.objects.count() == 5
    say(memory, now, f"/link {code}")
    assert user_of(memory, now) is None
    words = "This code is invalid or has expired."
    assert answers(memory, "41") == [words] * 4 + [
        f"{words} That was the last attempt for an hour."
    ]
    assert AuditEntry.objects.filter(action="link.refused").count() == 5
    later = now + timedelta(hours=1)
    say(memory, later, f"/link {asked(telegram, later)}")
    assert user_of(memory, later) == ann
    assert not LinkAttempt.objects.exists()


def test_wrong_codes_of_a_time_before_which_the_clock_was_set_back_do_not_count(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, now: datetime
) -> None:
    """Else their sender could link nothing until it gets there; of 200, no sender could."""
    ahead = now + timedelta(days=365)
    for number in range(5):
        say(memory, ahead, f"/link AAAA-AAA{number + 2}")
    say(memory, now, f"/link {asked(telegram, now)}")
    assert user_of(memory, now) == ann


def test_an_account_is_held_to_200_wrong_codes_an_hour(
    memory: ChannelAccount, ann: User, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many senders guess no faster than one."""
    monkeypatch.setattr(link_codes, "ACCOUNT_ATTEMPTS", 10)
    for number in range(15):
        say(memory, now, "/link AAAA-AAAA", str(100 + number))
    assert LinkAttempt.objects.count() == 10


def test_a_blocked_sender_and_a_group_link_nothing(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, owner: User, now: datetime
) -> None:
    """An owner's block is stronger than a guest's code; a group would read the code."""
    say(memory, now, "hello")
    row = UnknownRequest.objects.get()
    settle(row, verdict="block", owner=owner, now=now)
    say(memory, now, f"/link {asked(telegram, now)}")
    assert user_of(memory, now) is None
    ChannelIdentity.objects.create(user=owner, kind="im", channel="telegram", value="-100")
    draft = Draft(account=telegram, sender="42", chat="-100", text="/link", message_id="g")
    receive_sender(draft=draft, now=now, group="-100", command=slash_commands.parse("/link"))
    assert "private chat" in answers(telegram, "-100")[-1]


def test_an_identity_linked_by_a_24h_approval_expires_with_it(
    telegram: ChannelAccount, memory: ChannelAccount, owner: User, now: datetime
) -> None:
    """[A6] Approve 24 h is not made longer by a code."""
    say(telegram, now, "hello", "50")
    row = UnknownRequest.objects.get()
    settled = settle(row, verdict="approve_24h", owner=owner, now=now)
    say(memory, now, f"/link {asked(telegram, now, '50')}")
    assert user_of(memory, now) == settled.granted_user
    assert user_of(memory, now + timedelta(hours=24)) is None


def test_an_address_that_is_written_in_another_way_is_linked_for_no_longer(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, now: datetime
) -> None:
    """A bridge passes on an address as its platform has it."""
    end = now + timedelta(hours=24)
    ann.identities.create(kind="email", value="ann@example.org", expires_at=end)
    code = asked(memory, now, "Ann@Example.org", "email")
    say(telegram, now, f"/link {code}", "51")
    assert user_of(telegram, end - timedelta(seconds=1), "51") == ann
    assert user_of(telegram, end, "51") is None


def test_a_lasting_identity_is_linked_for_ever_though_another_one_has_expired(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, now: datetime
) -> None:
    """As of a person who was let in for a day on this bot, and later on each one."""
    ann.identities.create(
        kind="im", channel="telegram", account=telegram, value="42", expires_at=now
    )
    say(memory, now, f"/link {asked(telegram, now)}")
    assert user_of(memory, now + timedelta(days=300)) == ann


def test_of_two_identities_that_end_the_later_one_counts(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, now: datetime
) -> None:
    ends = [now + timedelta(hours=1), now + timedelta(hours=2)]
    ann.identities.update(expires_at=ends[1])
    ann.identities.create(
        kind="im", channel="telegram", account=telegram, value="42", expires_at=ends[0]
    )
    say(memory, now, f"/link {asked(telegram, now)}")
    assert user_of(memory, ends[0]) == ann
    assert user_of(memory, ends[1]) is None


def test_a_listed_sender_stays_linked_and_uses_no_code(
    telegram: ChannelAccount, memory: ChannelAccount, make_user: MakeUser, ann: User, now: datetime
) -> None:
    """A code moves no sender from one user to another."""
    bob = make_user("bob", im=["60"])
    code = asked(telegram, now)
    say(memory, now, f"/link {code}", "60")
    assert user_of(memory, now, "60") == bob
    assert "known already" in answers(memory, "60")[-1]
    assert LinkCode.objects.get().used_at is None


@pytest.mark.parametrize(("setting", "allowed"), [("off", False), ("owners", False)])
def test_the_owner_may_switch_codes_off(
    telegram: ChannelAccount,
    ann: User,
    now: datetime,
    settings: Settings,
    setting: str,
    allowed: bool,
) -> None:
    """For all users, or for guests."""
    settings.LINK_CODES = setting
    say(telegram, now, "/link", "42")
    assert ("/link " in answers(telegram, "42")[-1]) == allowed
    assert not LinkCode.objects.exists()


def test_the_owner_hears_of_an_address_that_was_linked(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, owner: User, now: datetime
) -> None:
    """[A4] On their own last-used channel."""
    target = {"chat": "555", "thread": ""}
    User.objects.filter(pk=owner.pk).update(last_account=telegram, last_target=target)
    say(memory, now, f"/link {asked(telegram, now)}")
    assert answers(telegram, "555") == [
        "ann linked another address with a code: 41 on memory/main."
    ]


@pytest.mark.django_db(transaction=True)
def test_a_code_that_twenty_senders_type_at_once_links_one(
    telegram: ChannelAccount, memory: ChannelAccount, ann: User, now: datetime
) -> None:
    """One UPDATE decides."""
    code = link_codes.make(user=ann, via="web chat", now=now)

    def attempt(number: int) -> bool:
        address = link_codes.Address(memory, "im", str(100 + number))
        with transactions.atomic_write():
            try:
                link_codes.use(code=code, address=address, now=now)
            except link_codes.WrongCode:
                return False
            return True

    assert run_in_parallel(attempt, times=20).count(True) == 1
    assert ChannelIdentity.objects.filter(account=memory).count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_codes_that_are_asked_for_at_once_one_is_left(ann: User, now: datetime) -> None:
    """A page that is open twice shows one that counts; the other gives no access as her."""
    run_in_parallel(
        lambda _: link_codes.make(user=ann, via="web chat", now=now), times=4, threads=4
    )
    assert LinkCode.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer")
@pytest.mark.parametrize("is_right", [True, False])
def test_a_code_and_a_decision_about_its_sender_at_once_are_both_carried_out(
    telegram: ChannelAccount,
    memory: ChannelAccount,
    ann: User,
    owner: User,
    now: datetime,
    monkeypatch: pytest.MonkeyPatch,
    is_right: bool,
) -> None:
    """Both lock the request before the audit: in two orders each would wait for the other."""
    say(memory, now, "hello")
    code = asked(telegram, now) if is_right else "AAAA-AAAA"
    row = UnknownRequest.objects.get()
    has_audit, has_request = threading.Event(), threading.Event()
    typists: set[int] = set()
    lock, claim = transactions.lock_until_commit, unknown_requests._claim

    def locking(number: int) -> None:
        lock(number)
        if threading.get_ident() in typists:
            has_audit.set()
            has_request.wait(0.3)

    def claiming(*given: Any) -> bool:
        found = claim(*given)
        has_request.set()
        has_audit.wait(0.3)
        return found

    def act(number: int) -> str:
        if number:
            return settle(row, verdict="deny", owner=owner, now=now).state
        typists.add(threading.get_ident())
        return say(memory, now, f"/link {code}").outcome

    monkeypatch.setattr(transactions, "lock_until_commit", locking)
    monkeypatch.setattr(unknown_requests, "_claim", claiming)
    outcome, state = run_in_parallel(act, times=2, threads=2)
    assert outcome == ("accepted" if is_right else "denied")
    assert state in {"approved", "denied", "pending"}

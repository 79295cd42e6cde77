"""Unknown requests: recorded [A5], decided once [A6], replayed once [A7]."""

from datetime import datetime, timedelta

import pytest
from pytest_django import Settings

from allowlist import held_messages, pending_count, unknown_requests
from allowlist.identities import InvalidIdentity
from allowlist.models import AuditEntry, UnknownRequest
from allowlist.permissions import Sender
from allowlist.permissions import decide as may_speak
from core.database import transactions
from core.lib.text import quote
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, User
from tests.allowlist.conftest import Hold, MakeUser
from tests.allowlist.in_parallel import run_in_parallel
from tests.statements import before_each

pytestmark = pytest.mark.django_db

State = InboundMessage.State


class Replays:
    """Notes what was handed over for replay."""

    def __init__(self) -> None:
        self.batches: list[list[InboundMessage]] = []

    def __call__(self, messages: list[InboundMessage]) -> None:
        """Take one batch."""
        self.batches.append(messages)

    @property
    def texts(self) -> list[str]:
        """Return the texts of every message, in order."""
        return [message.text for batch in self.batches for message in batch]


@pytest.fixture
def replays() -> Replays:
    """Return a replay function that remembers."""
    return Replays()


def record_request(
    account: ChannelAccount, now: datetime, sender: str = "41", **more: object
) -> UnknownRequest:
    """Record a denied message of an unknown sender."""
    given: dict[str, object] = {"sender_name": "Eve", "chat": sender, "text": "let me in"} | more
    denied = unknown_requests.DeniedMessage(account, "im", sender, **given)  # type: ignore[arg-type]
    return unknown_requests.record(denied, now=now)


def decide(
    row: UnknownRequest,
    verdict: unknown_requests.Choice,
    owner: User,
    now: datetime,
    replay: Replays,
    user: User | None = None,
) -> unknown_requests.Verdict:
    """Decide a request in the admin as the owner."""
    return unknown_requests.decide(
        request=row.public_id,
        verdict=verdict,
        owner=owner,
        via="admin",
        now=now,
        replay=replay,
        user=user,
    )


def allowed(account: ChannelAccount, sender: str, now: datetime) -> User | None:
    """Return the user of ``sender``, by the rule."""
    return may_speak(sender=Sender(account, "im", sender), now=now).user


def test_a5_one_row_a_sender_with_first_last_count_and_name(
    telegram: ChannelAccount, now: datetime
) -> None:
    """[A5] First seen, last seen, count, the name the platform gave, the last text."""
    later = now + timedelta(minutes=5)
    first = record_request(telegram, now, text="hello")
    second = record_request(telegram, later, text="hello again", sender_name="Mallory")
    assert first.pk == second.pk
    row = UnknownRequest.objects.get()
    assert (row.first_seen_at, row.last_seen_at, row.count) == (now, later, 2)
    assert (row.sender_name, row.last_text, row.state) == ("Mallory", "hello again", "pending")
    assert row.public_id == first.public_id


def test_a5_rows_are_unique_by_account_kind_and_sender(
    telegram: ChannelAccount, now: datetime
) -> None:
    """[A5] One row per (account, kind, sender)."""
    other = ChannelAccount.objects.create(channel="telegram", name="second")
    record_request(telegram, now)
    record_request(telegram, now, sender="43")
    record_request(other, now)
    unknown_requests.record(
        unknown_requests.DeniedMessage(account=telegram, kind="phone", sender="+4917612345678"),
        now=now,
    )
    assert pending_count.count() == 4


@pytest.mark.parametrize("said", ["let me in", ""])
def test_a5_the_words_of_an_unknown_sender_are_shown_without_those_that_they_quote(
    telegram: ChannelAccount, now: datetime, said: str
) -> None:
    """A quote can be longer than the notice. A forwarded message has no other words."""
    quoted = quote("hello " * 50, sender="Bo")
    row = record_request(telegram, now, text=f"{quoted}\n{said}")
    assert row.last_text.startswith(said or "hello hello")


def test_a5_text_of_an_unknown_sender_is_one_short_line(
    telegram: ChannelAccount, now: datetime
) -> None:
    """[A5] RQ12: one line, 200 characters, no control or format characters, no NUL."""
    row = record_request(
        telegram,
        now,
        text="*bold*\n\nSystem: approved ✅\x00\u202e" + "x" * 10_000,
        sender_name="Eve\r\n\u202eRoot\ud800",
    )
    row.refresh_from_db()
    assert row.last_text.startswith("*bold* System: approved ✅")
    assert len(row.last_text) == 200
    assert all(character.isprintable() for character in row.last_text + row.sender_name)


def test_a5_senders_are_recorded_in_their_normal_form(
    telegram: ChannelAccount, owner: User, replays: Replays, now: datetime
) -> None:
    """[A2][A5] Two spellings are one sender, and the held message is found under it."""
    bridge = ChannelAccount.objects.create(channel="bridge", name="mail")
    for spelling in ("Eve@Example.com", " eve@example.COM "):
        message = InboundMessage.objects.create(
            account=bridge,
            kind="email",
            sender=spelling,
            text=spelling,
            state=State.HELD,
            received_at=now,
        )
        row = unknown_requests.record(
            unknown_requests.DeniedMessage(
                account=bridge, kind="email", sender=spelling, message=message
            ),
            now=now,
        )
    assert UnknownRequest.objects.get().sender == "eve@example.com"
    decide(row, "approve", owner, now, replays)
    assert replays.texts == ["Eve@Example.com", " eve@example.COM "]
    assert may_speak(sender=Sender(bridge, "email", "EVE@example.com"), now=now).allowed


def test_a5_a_sender_that_can_never_be_listed_is_seen_but_not_approved(
    telegram: ChannelAccount, owner: User, replays: Replays, now: datetime
) -> None:
    """[A2][A5] The owner sees the request; approving names the reason and changes nothing."""
    row = record_request(telegram, now, sender="@eve\n")
    assert row.sender == "@eve"
    with pytest.raises(InvalidIdentity):
        decide(row, "approve", owner, now, replays)
    row.refresh_from_db()
    assert row.state == "pending"
    assert not ChannelIdentity.objects.exists()


@pytest.mark.parametrize("unseen", ["\u200b", "\u202e", "\u3164", "\x1b", "\n"])
def test_rq12_an_id_with_an_invisible_character_is_not_the_one_that_it_looks_like(
    owner: User, hold: Hold, replays: Replays, now: datetime, unseen: str
) -> None:
    """[A2] Its held messages are no words of that sender, who is let in."""
    bridge = ChannelAccount.objects.create(channel="bridge", name="chat")
    rows = []
    for sender in (f"bob{unseen}b", "bob b"):
        message = hold(sender=sender, text=f"of {sender}", account=bridge)
        denied = unknown_requests.DeniedMessage(bridge, "im", sender, message=message)
        rows.append(unknown_requests.record(denied, now=now))
    false, true = rows
    assert false.sender == f"bob⟨U+{ord(unseen):04X}⟩b"
    with pytest.raises(InvalidIdentity):
        decide(false, "approve", owner, now, replays)
    decide(true, "approve", owner, now, replays)
    assert replays.texts == ["of bob b"]
    assert not may_speak(sender=Sender(bridge, "im", f"bob{unseen}b"), now=now).allowed


def test_a5_at_most_20_messages_of_a_sender_are_held(
    telegram: ChannelAccount, hold: Hold, owner: User, replays: Replays, now: datetime
) -> None:
    """[A5] The last ones; older ones leave no row, however many a sender writes."""
    for number in range(23):
        message = hold(sender="41", text=f"message {number}")
        row = unknown_requests.record(
            unknown_requests.DeniedMessage(
                account=telegram, kind="im", sender="41", message=message
            ),
            now=now,
        )
    assert held_messages.of(row).count() == 20
    assert InboundMessage.objects.count() == 20
    decide(row, "approve", owner, now, replays)
    assert replays.texts == [f"message {number}" for number in range(3, 23)]


def test_a6_approve_lists_the_sender_for_a_new_person_marked_only_listed(
    telegram: ChannelAccount, owner: User, replays: Replays, now: datetime
) -> None:
    """[A1][A6] Decision, identity and audit row; the person has no password."""
    row = record_request(telegram, now)
    verdict = decide(row, "approve", owner, now, replays)
    assert verdict.first
    person = allowed(telegram, "41", now)
    assert person is not None
    assert person.only_listed
    assert not person.has_usable_password()
    assert not person.is_staff
    assert not person.is_owner
    assert str(person) == "Eve"
    assert verdict.request.granted_user == person
    identity = ChannelIdentity.objects.get()
    assert (identity.account, identity.channel, identity.expires_at) == (telegram, "telegram", None)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject) == ("request.approve", row.public_id)
    assert entry.data["user"] == person.pk
    assert f"user:{owner.pk}" in entry.actor


def test_a6_approve_for_an_existing_person(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, replays: Replays, now: datetime
) -> None:
    """[A6] The identity is added to that user's list; no user is created."""
    ann = make_user("ann", im=["42"])
    decide(record_request(telegram, now), "approve", owner, now, replays, user=ann)
    assert allowed(telegram, "41", now) == ann
    assert User.objects.count() == 2


def test_a6_approve_24h_expires_and_the_next_request_is_of_the_same_user(
    telegram: ChannelAccount, owner: User, replays: Replays, now: datetime
) -> None:
    """[A6] Approve 24 h; afterwards the sender is unknown again, and then the same person."""
    tomorrow = now + timedelta(hours=24)
    first = record_request(telegram, now)
    verdict = decide(first, "approve_24h", owner, now, replays)
    end = f" Valid until {tomorrow:%Y-%m-%d %H:%M} UTC."
    assert verdict.standing.endswith(end)
    late = decide(first, "deny", owner, now, replays)
    assert (late.first, late.text.endswith(end)) == (False, True)
    person = allowed(telegram, "41", tomorrow - timedelta(seconds=1))
    assert person is not None
    assert allowed(telegram, "41", tomorrow) is None
    assert decide(first, "deny", owner, tomorrow, replays).text.endswith(end)
    again = record_request(telegram, tomorrow)
    assert (again.pk, again.state) == (first.pk, "pending")
    assert again.public_id != first.public_id
    verdict = decide(again, "approve", owner, tomorrow, replays)
    assert "alid" not in verdict.standing
    assert allowed(telegram, "41", tomorrow + timedelta(days=400)) == person


@pytest.mark.parametrize(("verdict", "state"), [("deny", "denied"), ("block", "blocked")])
def test_a7_deny_and_block_purge_held_messages(
    telegram: ChannelAccount,
    owner: User,
    hold: Hold,
    replays: Replays,
    now: datetime,
    verdict: unknown_requests.Choice,
    state: str,
) -> None:
    """[A7] On denial the content is purged immediately; no access is granted and nothing runs."""
    row = record_request(telegram, now, message=hold(sender="41", text="secret"))
    result = decide(row, verdict, owner, now, replays)
    assert result.request.state == state
    message = InboundMessage.objects.get()
    assert (message.state, message.text, message.media) == (State.PURGED, "", [])
    assert bytes(message.raw) == b""
    assert result.request.last_text == ""
    assert allowed(telegram, "41", now) is None
    assert replays.batches == []


def test_a6_a_denied_sender_may_become_pending_again_but_old_buttons_stay_invalid(
    telegram: ChannelAccount, owner: User, replays: Replays, now: datetime
) -> None:
    """[A6] Single use: the public id of a decision decides nothing twice. Told once ([A5])."""
    old = record_request(telegram, now)
    UnknownRequest.objects.update(notified_at=now)
    decide(old, "deny", owner, now, replays)
    again = record_request(telegram, now)
    assert (again.state, again.count, again.notified_at) == ("pending", 2, now)
    with pytest.raises(unknown_requests.RequestNotFound):
        decide(old, "approve", owner, now, replays)
    assert allowed(telegram, "41", now) is None


def test_a5_a_blocked_sender_is_only_counted(
    telegram: ChannelAccount, owner: User, hold: Hold, replays: Replays, now: datetime
) -> None:
    """[A5] Not back to pending, no text kept, nothing held."""
    decide(record_request(telegram, now), "block", owner, now, replays)
    row = record_request(telegram, now, text="again", message=hold(sender="41", text="again"))
    assert (row.state, row.count, row.last_text) == ("blocked", 2, "")
    assert not InboundMessage.objects.exists()
    assert pending_count.count() == 0


def test_a6_the_second_decision_gets_the_first_ones_user_time_and_channel(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, replays: Replays, now: datetime
) -> None:
    """[A6] First decision wins. RQ9."""
    other = make_user("second")
    User.objects.filter(pk=other.pk).update(is_owner=True)
    other.refresh_from_db()
    row = record_request(telegram, now)
    first = unknown_requests.decide(
        request=row.public_id, verdict="deny", owner=owner, via="telegram", now=now, replay=replays
    )
    assert first.text == "Denied by owner at 2026-03-01 12:00 UTC via telegram."
    second = decide(row, "approve", other, now + timedelta(hours=1), replays)
    assert not second.first
    assert second.text == "Already denied by owner at 2026-03-01 12:00 UTC via telegram."
    assert AuditEntry.objects.count() == 1
    assert allowed(telegram, "41", now) is None


def test_a6_only_owners_decide(
    telegram: ChannelAccount, make_user: MakeUser, replays: Replays, now: datetime
) -> None:
    """[A6] RW18: an unknown sender's tap changes nothing and is recorded."""
    row = record_request(telegram, now)
    with pytest.raises(unknown_requests.NotAnOwner):
        decide(row, "approve", make_user("guest"), now, replays)
    row.refresh_from_db()
    assert row.state == "pending"
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.subject) == ("request.refused", row.public_id)
    assert entry.data == {"via": "admin", "why": "not an owner"}


def test_a6_a_deactivated_owner_cannot_decide(
    telegram: ChannelAccount, owner: User, replays: Replays, now: datetime
) -> None:
    """[A9]"""
    owner.is_active = False
    with pytest.raises(unknown_requests.NotAnOwner):
        decide(record_request(telegram, now), "approve", owner, now, replays)


@pytest.mark.parametrize("forged", ["", "1", "x" * 22, "' OR 1=1 --", "\x00" * 500])
def test_a6_a_forged_request_id_is_refused_and_recorded(
    owner: User, replays: Replays, now: datetime, forged: str
) -> None:
    """[A6] Forged callback data."""
    with pytest.raises(unknown_requests.RequestNotFound):
        unknown_requests.decide(
            request=forged, verdict="approve", owner=owner, via="telegram", now=now, replay=replays
        )
    assert AuditEntry.objects.get().action == "request.refused"


@pytest.mark.parametrize("word", ["", "promote", "APPROVE", "approve "])
def test_a6_there_are_four_decisions(word: str) -> None:
    """[A6] Anything else is none."""
    with pytest.raises(unknown_requests.RequestNotFound):
        unknown_requests.choice(word)


def test_a6_a_request_expires_after_7_days(
    telegram: ChannelAccount, owner: User, hold: Hold, replays: Replays, now: datetime
) -> None:
    """[A6][A7] Its buttons are dead at once, the chore marks it, a new message opens it again."""
    row = record_request(telegram, now)
    week = now + timedelta(days=7)
    verdict = decide(row, "approve", owner, week, replays)
    assert not verdict.first
    assert verdict.text == "This request has expired."
    unknown_requests.purge(now=week)
    row.refresh_from_db()
    assert (row.state, row.last_text) == ("expired", "")
    assert not decide(row, "approve", owner, week, replays).first
    assert record_request(telegram, week).state == "pending"


def test_a5_held_messages_are_emptied_after_24_hours(
    telegram: ChannelAccount, owner: User, hold: Hold, replays: Replays, now: datetime
) -> None:
    """[A5] By the chore; and an approval before the chore came does not replay them."""
    record_request(telegram, now, message=hold(sender="41", text="old"))
    day = now + timedelta(hours=24)
    row = record_request(telegram, day, message=hold(sender="41", text="new", at=day))
    decide(row, "approve", owner, day, replays)
    assert replays.texts == ["new"]
    hold(sender="43", text="forgotten")
    assert unknown_requests.purge(now=day - timedelta(seconds=1)) == 0
    assert unknown_requests.purge(now=day) == 1
    assert unknown_requests.purge(now=day) == 0
    assert InboundMessage.objects.get(sender="43").text == ""
    assert InboundMessage.objects.count() == 3
    unknown_requests.purge(now=now + timedelta(days=7))
    assert {message.text for message in InboundMessage.objects.all()} == {"new"}


def test_a7_held_messages_run_in_order_as_that_person(
    telegram: ChannelAccount, owner: User, hold: Hold, replays: Replays, now: datetime
) -> None:
    """[A7] Received again, with their user; those of others stay held."""
    for text in ("one", "two", "three"):
        row = record_request(telegram, now, message=hold(sender="41", text=text))
    other = hold(sender="43", text="other")
    verdict = decide(row, "approve", owner, now, replays)
    assert replays.texts == ["one", "two", "three"]
    assert verdict.replayed == 3
    for message in InboundMessage.objects.filter(sender="41"):
        assert message.state == State.RECEIVED
        assert message.user == verdict.request.granted_user
    other.refresh_from_db()
    assert other.state == State.HELD


def test_a6_nothing_is_kept_when_the_replay_fails(
    telegram: ChannelAccount, owner: User, hold: Hold, now: datetime
) -> None:
    """[A6] One transaction: a decision without its replay never exists."""
    row = record_request(telegram, now, message=hold(sender="41", text="hello"))

    def broken(_: list[InboundMessage]) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk"):
        unknown_requests.decide(
            request=row.public_id,
            verdict="approve",
            owner=owner,
            via="admin",
            now=now,
            replay=broken,
        )
    row.refresh_from_db()
    assert row.state == "pending"
    assert not AuditEntry.objects.exists()
    assert not ChannelIdentity.objects.exists()
    assert held_messages.of(row).count() == 1


def test_a3_an_unlisted_group_is_one_request_and_keeps_nothing(
    telegram: ChannelAccount,
    owner: User,
    make_user: MakeUser,
    hold: Hold,
    replays: Replays,
    now: datetime,
) -> None:
    """[A3] RW17: one request for the group, for all its senders; approving lists the group."""
    ann = make_user("ann", im=["42"])
    for text in ("hi", "anybody?"):
        message = hold(sender="42", text=text)
        row = unknown_requests.record(
            unknown_requests.DeniedMessage(
                telegram, "im", "-1001", is_group=True, chat="-1001", text=text, message=message
            ),
            now=now,
        )
    assert UnknownRequest.objects.count() == 1
    assert not InboundMessage.objects.exists()
    decide(row, "approve", owner, now, replays)
    assert replays.texts == []
    group = Sender(telegram, "im", "42", "-1001")
    assert may_speak(sender=group, now=now).user == ann
    assert User.objects.count() == 2


def test_a5_the_rows_are_bounded_and_the_least_useful_go_first(
    telegram: ChannelAccount,
    owner: User,
    hold: Hold,
    replays: Replays,
    now: datetime,
    settings: Settings,
) -> None:
    """[A5] RQ13: denied rows before waiting ones, blocked ones never; held messages go too."""
    settings.UNKNOWN_REQUESTS_MAX = 10
    decide(record_request(telegram, now, sender="1"), "block", owner, now, replays)
    decide(record_request(telegram, now, sender="2"), "deny", owner, now, replays)
    for number in range(3, 13):
        moment = now + timedelta(seconds=number)
        record_request(
            telegram, moment, sender=str(number), message=hold(sender=str(number), text="hi")
        )
    senders = {row.sender: row.state for row in UnknownRequest.objects.all()}
    assert len(senders) == 10
    assert senders["1"] == "blocked"
    assert "2" not in senders
    assert "3" not in senders
    assert {"4", "12"} <= set(senders)
    assert not InboundMessage.objects.filter(sender="3").exists()


def test_a5_a_request_that_is_decided_meanwhile_is_not_evicted(
    telegram: ChannelAccount, now: datetime, settings: Settings
) -> None:
    """Its row is locked before its messages, as by its decision."""
    settings.UNKNOWN_REQUESTS_MAX = 1
    row = record_request(telegram, now, sender="1")
    decided = UnknownRequest.objects.filter(pk=row.pk)
    with before_each('"id" IN', lambda: decided.update(state="blocked")) as found:
        record_request(telegram, now, sender="2")
    assert 'FROM "allowlist_unknownrequest"' in found[0]
    assert decided.exists()


def test_a5_a_sender_approved_meanwhile_stays_approved(
    telegram: ChannelAccount, owner: User, replays: Replays, now: datetime
) -> None:
    """[A5] Denied by the rule, approved before the record: the caller is told to ask again."""
    decide(record_request(telegram, now), "approve", owner, now, replays)
    row = record_request(telegram, now)
    assert row.state == "approved"
    assert row.count == 1
    assert allowed(telegram, "41", now) is not None


def test_a3_a_group_approved_meanwhile_stays_approved(
    telegram: ChannelAccount, owner: User, replays: Replays, now: datetime
) -> None:
    """The owner is not asked for it a second time; when its right has ended they are."""
    denied = unknown_requests.DeniedMessage(telegram, "im", "-1001", is_group=True, chat="-1001")
    row = unknown_requests.record(denied, now=now)
    decide(row, "approve_24h", owner, now, replays)
    assert unknown_requests.record(denied, now=now).state == "approved"
    later = now + timedelta(hours=24)
    assert unknown_requests.record(denied, now=later).state == "pending"


def test_a9_a_revoked_sender_makes_a_new_request(
    telegram: ChannelAccount, owner: User, replays: Replays, now: datetime
) -> None:
    """[A5][A9] Approved once, then removed: a new request, of which the owner is told again."""
    first = record_request(telegram, now)
    UnknownRequest.objects.update(notified_at=now)
    decide(first, "approve", owner, now, replays)
    ChannelIdentity.objects.all().delete()
    again = record_request(telegram, now)
    assert (again.state, again.notified_at, again.decided_by) == ("pending", None, None)


@pytest.mark.django_db(transaction=True)
def test_a6_200_presses_at_once_are_one_decision_one_identity_one_replay_one_audit_row(
    telegram: ChannelAccount, owner: User, hold: Hold, replays: Replays, now: datetime
) -> None:
    """[A6][A7] Telegram, web chat and admin at the same instant; the others get the first
    decision.
    """
    for text in ("one", "two"):
        row = record_request(telegram, now, message=hold(sender="41", text=text))

    def press(number: int) -> unknown_requests.Verdict:
        return unknown_requests.decide(
            request=row.public_id,
            verdict="approve",
            owner=owner,
            via=("telegram", "web", "admin")[number % 3],
            now=now,
            replay=replays,
        )

    verdicts = run_in_parallel(press, times=200)
    assert [verdict.first for verdict in verdicts].count(True) == 1
    assert ChannelIdentity.objects.count() == 1
    assert replays.texts == ["one", "two"]
    assert AuditEntry.objects.count() == 1
    assert User.objects.count() == 2
    [winner] = [verdict for verdict in verdicts if verdict.first]
    assert {v.request.decided_via for v in verdicts} == {winner.request.decided_via}
    assert all("owner" in verdict.text for verdict in verdicts)


@pytest.mark.django_db(transaction=True)
def test_a6_approve_deny_and_block_at_once_have_one_winner(
    telegram: ChannelAccount, owner: User, hold: Hold, replays: Replays, now: datetime
) -> None:
    """[A6] RQ9: approve and deny at once; the effects are those of the winner."""
    row = record_request(telegram, now, message=hold(sender="41", text="hello"))
    choices: tuple[unknown_requests.Choice, ...] = ("approve", "deny", "block", "approve_24h")
    verdicts = run_in_parallel(
        lambda number: decide(row, choices[number % 4], owner, now, replays), times=40
    )
    assert [verdict.first for verdict in verdicts].count(True) == 1
    row.refresh_from_db()
    let_in = row.state == "approved"
    assert (allowed(telegram, "41", now) is not None) == let_in
    assert bool(replays.texts) == let_in
    assert AuditEntry.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a5_concurrent_messages_make_one_row(telegram: ChannelAccount, now: datetime) -> None:
    """[A5] The count is exact under concurrency."""
    run_in_parallel(lambda _: record_request(telegram, now), times=100)
    row = UnknownRequest.objects.get()
    assert row.count == 100


@pytest.mark.django_db(transaction=True)
def test_a7_no_message_stays_held_when_the_owner_approves_while_it_arrives(
    telegram: ChannelAccount, owner: User, hold: Hold, replays: Replays, now: datetime
) -> None:
    """[A7] Either the approval replays it, or its sender is told to be asked about again."""
    first = record_request(telegram, now)

    def either(number: int) -> str:
        if number == 10:
            return decide(first, "approve", owner, now, replays).request.state
        with transactions.atomic_write():
            message = hold(sender="41", text=str(number))
            row = record_request(telegram, now, message=message)
            if row.state == "approved":
                message.delete()  # intake checks the rule again, and the message is accepted
            return row.state

    states = run_in_parallel(either, times=40)
    assert "approved" in states
    assert UnknownRequest.objects.get().state == "approved"
    assert not InboundMessage.objects.filter(state=State.HELD).exists()

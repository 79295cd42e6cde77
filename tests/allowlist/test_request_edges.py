"""Requests of unknown senders beside those of others: their rows, their words, their end ([A5]
[A6]).
"""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from pytest_django import Settings

from allowlist import pending_count, unknown_requests
from allowlist.models import AuditEntry, BlockPattern, UnknownRequest
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, User
from tests.allowlist.conftest import Hold, MakeUser, request_of, settle
from tests.statements import before_each

pytestmark = pytest.mark.django_db
DAY, WEEK, SECOND = timedelta(days=1), timedelta(days=7), timedelta(seconds=1)


def denied(account: ChannelAccount, now: datetime, **fields: Any) -> UnknownRequest:
    """Record a denied message, of im sender 7 unless told otherwise."""
    given = {"kind": "im", "sender": "7"} | fields
    return unknown_requests.record(unknown_requests.DeniedMessage(account, **given), now=now)


def fresh(row: UnknownRequest) -> UnknownRequest:
    return UnknownRequest.objects.get(pk=row.pk)


def entry_of(action: str) -> AuditEntry:
    """Return the last entry of the audit, which must be of ``action``."""
    entry = AuditEntry.objects.latest("id")
    assert entry.action == action
    return entry


@pytest.fixture
def bridge(db: None) -> ChannelAccount:
    """Return an account that names senders of any kind."""
    return ChannelAccount.objects.create(channel="bridge", name="bridge")


def test_a5_the_same_address_of_another_kind_is_another_sender(
    bridge: ChannelAccount, now: datetime
) -> None:
    kinds = ("im", "email")
    rows = [denied(bridge, now, kind=each, sender="ann@example.com") for each in kinds]
    again = [denied(bridge, now, kind=each, sender="ann@example.com") for each in kinds]
    assert [row.pk for row in again] == [row.pk for row in rows]
    assert [(row.kind, row.count) for row in again] == [("im", 2), ("email", 2)]


def test_a5_the_end_of_a_request_that_is_too_far_ahead_is_brought_near(
    telegram: ChannelAccount, now: datetime
) -> None:
    """The clock was set back. One that was decided ends no more."""
    waits, over = (request_of(telegram, now, sender=each) for each in "78")
    UnknownRequest.objects.update(expires_at=Now() + 10 * WEEK)
    UnknownRequest.objects.filter(pk=over.pk).update(state="denied")
    unknown_requests.bring_near()
    soon = UnknownRequest.objects.filter(expires_at__lte=Now() + WEEK, expires_at__gt=Now() + DAY)
    assert [row.pk for row in soon] == [waits.pk]


def test_a5_a_first_message_is_kept_with_its_sender_chat_and_times(
    telegram: ChannelAccount, now: datetime
) -> None:
    row = fresh(denied(telegram, now, sender_name="Eve", chat="c\x007", text="hello"))
    assert (row.account, row.kind, row.sender, row.is_group) == (telegram, "im", "7", False)
    assert (row.first_seen_at, row.last_seen_at, row.expires_at) == (now, now, now + WEEK)
    assert (row.count, row.state) == (1, "pending")
    assert (row.sender_name, row.chat, row.last_text) == ("Eve", "c7", "hello")


def test_a5_the_first_messages_of_a_sender_in_two_processes_are_one_request(
    telegram: ChannelAccount, now: datetime
) -> None:
    with before_each('INTO "allowlist_unknownrequest"', lambda: denied(telegram, now)):
        row = denied(telegram, now + SECOND, text="hello")
    assert (row.pk, row.count) == (UnknownRequest.objects.get().pk, 2)
    row = fresh(row)
    assert (row.count, row.last_seen_at, row.last_text) == (2, now + SECOND, "hello")


def test_a5_a_message_without_name_chat_or_words_keeps_those_of_before(
    telegram: ChannelAccount, now: datetime
) -> None:
    """The longest that are stored fit into their columns."""
    long = "n" * 400
    row = fresh(denied(telegram, now, sender_name=long, chat=long, text=long))
    assert [len(each) for each in (row.sender_name, row.chat, row.last_text)] == [200, 128, 200]
    again = fresh(denied(telegram, now + SECOND))
    kept = ("sender_name", "chat", "last_text", "public_id", "expires_at")
    assert [getattr(again, each) for each in kept] == [getattr(row, each) for each in kept]
    assert (again.count, again.last_seen_at) == (2, now + SECOND)


def test_a5_a_message_that_a_pattern_denies_leaves_nothing(
    telegram: ChannelAccount, hold: Hold, now: datetime
) -> None:
    """A request that waits already was before the pattern, and stays."""
    BlockPattern.objects.create(kind="im", pattern="77*")
    gone = denied(telegram, now, sender="771", message=hold(sender="771", text="spam"))
    assert gone.state == "blocked"
    assert not UnknownRequest.objects.exists()
    assert (gone.account, gone.kind, gone.sender) == (telegram, "im", "771")
    assert not InboundMessage.objects.exists()
    request_of(telegram, now + WEEK, sender="772")
    waits = denied(telegram, now, sender="772", message=hold(sender="772", text="hello"))
    assert (waits.state, waits.count) == ("pending", 1)
    assert InboundMessage.objects.get().text == "hello"
    pattern = BlockPattern.objects.get()
    assert (pattern.hits, pattern.last_hit_at) == (1, now)


def test_a5_a_request_that_is_over_is_a_new_one_with_the_next_message(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    """At its last moment; no old button decides it, and nothing is left of the decision."""
    first = denied(telegram, now)
    assert denied(telegram, now + WEEK - SECOND).public_id == first.public_id
    second = denied(telegram, now + WEEK)
    assert second.public_id != first.public_id
    assert second.expires_at == now + 2 * WEEK
    settle(second, verdict="deny", owner=owner, now=now + WEEK)
    third = fresh(denied(telegram, now + WEEK + DAY))
    assert (third.state, third.expires_at) == ("pending", now + 2 * WEEK + DAY)
    assert (third.decided_at, third.decided_by, third.decided_via) == (None, None, "")
    assert third.public_id != second.public_id


@pytest.mark.parametrize("field", ["notice_at", "notified_at"])
def test_a5_the_owner_is_told_anew_of_a_request_without_an_answer_not_of_a_denied_one(
    telegram: ChannelAccount, owner: User, now: datetime, field: str
) -> None:
    """A notice of its own days had no answer, or the request was seen on a page."""
    row = denied(telegram, now)
    UnknownRequest.objects.update(**{field: now})
    assert getattr(denied(telegram, now + WEEK - SECOND), field) == now
    again = denied(telegram, now + WEEK)
    assert (again.public_id != row.public_id, getattr(again, field)) == (True, None)
    UnknownRequest.objects.update(**{field: now + WEEK})
    settle(again, verdict="deny", owner=owner, now=now + WEEK)
    for weeks in (2, 3):
        later = denied(telegram, now + weeks * WEEK)
        assert (later.state, getattr(later, field)) == ("pending", now + WEEK)
        unknown_requests.purge(now=now + (weeks + 1) * WEEK)
        assert fresh(later).state == "expired"


def test_a5_a_request_has_just_begun_with_the_message_that_made_it(
    telegram: ChannelAccount, now: datetime
) -> None:
    assert unknown_requests.has_just_begun(denied(telegram, now))
    assert not unknown_requests.has_just_begun(denied(telegram, now + SECOND))
    assert unknown_requests.has_just_begun(denied(telegram, now + WEEK))


def test_a5_open_pages_count_again_when_a_request_begins_and_only_then(
    telegram: ChannelAccount, owner: User, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[int] = []
    monkeypatch.setattr(pending_count, "changed", lambda: counted.append(1))
    for at in (now, now + SECOND, now + WEEK, now + WEEK + SECOND):
        row = denied(telegram, at)
    assert len(counted) == 2
    settle(row, verdict="block", owner=owner, now=now + WEEK)
    denied(telegram, now + WEEK)
    assert len(counted) == 3


def test_a6_a_decision_is_recorded_with_its_owner_time_channel_and_data(
    telegram: ChannelAccount, owner: User, hold: Hold, now: datetime
) -> None:
    """[A6] In the row and in the audit; of an approval with its person, end and messages."""
    row = denied(telegram, now, message=hold(sender="7", text="hello"))
    others = [denied(telegram, now, sender=each) for each in "89"]
    decided = unknown_requests.decide(
        request=row.public_id,
        verdict="approve_24h",
        owner=owner,
        via="x" * 40,
        now=now + SECOND,
        replay=lambda _: None,
    ).request
    assert (decided.decided_at, decided.decided_by) == (now + SECOND, owner)
    assert (decided.decided_via, decided.notified_at) == ("x" * 32, now + SECOND)
    person = decided.granted_user
    assert person is not None
    entry = entry_of("request.approve_24h")
    assert (entry.subject, entry.actor) == (row.public_id, f"user:{owner.pk} owner")
    assert entry.data == {
        "via": "x" * 40,
        "sender": "im:7",
        "user": person.pk,
        "until": str(now + SECOND + DAY),
        "replayed": 1,
    }
    UnknownRequest.objects.filter(pk=others[0].pk).update(notified_at=now)
    assert settle(others[0], verdict="deny", owner=owner, now=now + SECOND).notified_at == now
    assert entry_of("request.deny").data == {"via": "admin", "sender": "im:8"}
    assert fresh(others[1]).state == "pending"


def test_a6_an_approval_everywhere_is_in_the_audit_as_one(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    settle(denied(telegram, now), verdict="approve", owner=owner, now=now, everywhere=True)
    assert entry_of("request.approve").data["on"] == "every account of telegram"
    identity = ChannelIdentity.objects.get()
    assert (identity.account, identity.channel, identity.value) == (None, "telegram", "7")


def test_a6_a_decision_of_no_request_is_refused_and_recorded(owner: User, now: datetime) -> None:
    """[A6] Its id as one line of bearable length."""
    for forged, subject in (("a\n" * 100, "a " * 19 + "a…"), ("x" * 22, "x" * 22)):
        with pytest.raises(unknown_requests.RequestNotFound):
            unknown_requests.decide(
                request=forged,
                verdict="deny",
                owner=owner,
                via="web",
                now=now,
                replay=lambda _: None,
            )
        entry = entry_of("request.refused")
        assert entry.subject == subject
        assert entry.actor == f"user:{owner.pk} owner"
        assert entry.data == {"via": "web", "why": "no such request"}
        assert entry.at == now


def test_a6_the_decision_of_an_owner_that_is_gone_keeps_its_time_and_channel(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    row = settle(denied(telegram, now), verdict="deny", owner=owner, now=now)
    User.objects.all().delete()
    said = unknown_requests.Verdict(fresh(row), first=True)
    assert said.text == "Denied by somebody at 2026-03-01 12:00 UTC via admin."
    assert said.standing == said.text
    later = unknown_requests.Verdict(fresh(row), first=False)
    assert later.text == "Already denied by somebody at 2026-03-01 12:00 UTC via admin."


def test_a6_an_approved_sender_is_a_person_named_as_the_platform_names_them(
    telegram: ChannelAccount, bridge: ChannelAccount, owner: User, now: datetime
) -> None:
    """[A6] Or as their address; a user that was deactivated since is replaced."""
    rows = [
        denied(telegram, now, sender=each, sender_name=name)
        for each, name in (("7", "Eve"), ("8", ""))
    ]
    people = [settle(row, verdict="approve", owner=owner, now=now).granted_user for row in rows]
    assert [each and each.display_name for each in people] == ["Eve", "8"]
    for each in people:
        assert each is not None
        assert each.username.startswith("telegram-")
        assert len(each.username) == len("telegram-") + 10
        assert (each.only_listed, each.has_usable_password()) == (True, False)
    long = denied(bridge, now, sender="x" * 300)
    named = settle(long, verdict="approve", owner=owner, now=now).granted_user
    assert named is not None
    assert len(named.display_name) == 100
    ChannelIdentity.objects.all().delete()
    User.objects.filter(pk=people[0].pk).update(is_active=False)  # type: ignore[union-attr]
    again = [denied(telegram, now, sender=each) for each in "78"]
    found = [settle(row, verdict="approve", owner=owner, now=now).granted_user for row in again]
    assert found[0] not in people
    assert found[1] == people[1]


def test_a3_an_approved_group_is_listed_for_the_owner_by_its_id(
    bridge: ChannelAccount, owner: User, now: datetime
) -> None:
    """[A3] On its own account only, whatever was asked for."""
    row = denied(bridge, now, sender="-100", is_group=True)
    assert (
        settle(row, verdict="approve", owner=owner, now=now, everywhere=True).granted_user == owner
    )
    identity = ChannelIdentity.objects.get()
    assert (identity.user, identity.kind, identity.value) == (owner, "im", "-100")
    assert (identity.account, identity.channel) == (bridge, "bridge")
    assert unknown_requests.unknown_on(fresh(row), now=now) == []


def test_a6_a_second_approval_for_a_person_moves_the_end_of_the_first(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, now: datetime
) -> None:
    settle(denied(telegram, now), verdict="approve_24h", owner=owner, now=now)
    assert denied(telegram, now + DAY - SECOND).state == "approved"
    settle(denied(telegram, now + DAY), verdict="approve", owner=owner, now=now + DAY)
    assert ChannelIdentity.objects.get().expires_at is None


def test_a2_the_other_accounts_that_would_deny_a_sender_are_enabled_ones_of_the_channel(
    telegram: ChannelAccount, bridge: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    new = [ChannelAccount.objects.create(channel="telegram", name=each) for each in "cba"]
    ChannelAccount.objects.create(channel="telegram", name="off", enabled=False)
    ann = make_user("ann")
    ChannelIdentity.objects.create(
        user=ann, kind="im", value="7", account=new[1], expires_at=now + DAY
    )
    assert unknown_requests.unknown_on(denied(telegram, now), now=now) == [new[0], new[2]]
    ids = [denied(bridge, now, kind="email", sender="a@b.example"), denied(bridge, now)]
    assert [unknown_requests.is_known_everywhere(each) for each in ids] == [True, False]


def test_a6_listing_elsewhere_is_recorded_and_needs_an_approval_that_holds(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, now: datetime
) -> None:
    """[A6] For the person, and until the end, of the identity on the request's own account."""
    elsewhere = ChannelAccount.objects.create(channel="telegram", name="other")
    ann, bob = make_user("ann"), make_user("bob")
    own: dict[str, Any] = {"user": ann, "account": telegram, "kind": "im", "value": "7"}
    others: list[dict[str, Any]] = [
        {"user": bob},
        {"account": elsewhere},
        {"kind": "phone"},
        {"value": "8"},
    ]
    for each in others:
        ChannelIdentity.objects.create(expires_at=now + WEEK, **(own | each))
    row = denied(telegram, now)
    unknown_requests.decide(
        request=row.public_id,
        verdict="approve_24h",
        owner=owner,
        via="web",
        now=now,
        replay=lambda _: None,
        user=ann,
    )
    unknown_requests.extend(request=row.public_id, owner=owner, via="web", now=now + SECOND)
    everywhere = ChannelIdentity.objects.get(account=None)
    assert (everywhere.user, everywhere.expires_at) == (ann, now + DAY)
    entry = entry_of("request.everywhere")
    assert (entry.subject, entry.actor) == (row.public_id, f"user:{owner.pk} owner")
    end = {"user": ann.pk, "until": str(now + DAY)}
    assert entry.data == {"via": "web", "sender": "im:7"} | end
    assert entry.at == now + SECOND
    for is_group in (False, True):
        other = denied(telegram, now, sender="-100" if is_group else "9", is_group=is_group)
        settle(other, verdict="approve", owner=owner, now=now)
        if not other.is_group:
            ChannelIdentity.objects.filter(value="9").delete()
        with pytest.raises(unknown_requests.RequestNotFound):
            unknown_requests.extend(request=other.public_id, owner=owner, via="web", now=now)
    again = denied(telegram, now + WEEK)  # the approval has ended, its identity is there
    with pytest.raises(unknown_requests.RequestNotFound):
        unknown_requests.extend(request=again.public_id, owner=owner, via="web", now=now + WEEK)
    with pytest.raises(unknown_requests.NotAnOwner):
        unknown_requests.extend(request="x" * 100, owner=bob, via="web", now=now + SECOND)
    entry = entry_of("request.refused")
    assert (entry.subject, entry.actor) == ("x" * 39 + "…", f"user:{bob.pk} bob")
    assert (entry.data, entry.at) == ({"via": "web", "why": "not an owner"}, now + SECOND)


def test_a6_unblocked_senders_are_recorded_one_by_one(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, now: datetime
) -> None:
    """[A6] Nothing is left of the decision; a request that is not blocked stays as it is."""
    rows = [denied(telegram, now, sender=each) for each in "789"]
    for row in rows[:2]:
        settle(row, verdict="block", owner=owner, now=now)
    settle(rows[2], verdict="deny", owner=owner, now=now)
    UnknownRequest.objects.update(notice_at=now)
    everything = UnknownRequest.objects.order_by("-pk")
    with pytest.raises(unknown_requests.NotAnOwner):
        unknown_requests.unblock(everything, owner=make_user("bob"), via="web", now=now + SECOND)
    entry = entry_of("request.refused")
    assert (entry.subject, entry.data["via"], entry.at) == ("", "web", now + SECOND)
    found = unknown_requests.unblock(everything, owner=owner, via="web", now=now + SECOND)
    assert [row.pk for row in found] == [row.pk for row in rows[:2]]
    for row in map(fresh, rows[:2]):
        assert row.state == "expired"
        assert (row.decided_at, row.decided_by, row.decided_via) == (None, None, "")
        assert (row.notice_at, row.notified_at) == (None, None)
    assert fresh(rows[2]).state == "denied"
    entries = list(AuditEntry.objects.filter(action="request.unblock").order_by("id"))
    assert [(each.subject, each.data) for each in entries] == [
        (row.public_id, {"via": "web", "sender": f"im:{row.sender}"}) for row in rows[:2]
    ]
    assert {(each.actor, each.at) for each in entries} == {(f"user:{owner.pk} owner", now + SECOND)}


def test_a6_a_sender_whom_another_owner_unblocks_meanwhile_is_recorded_once(
    telegram: ChannelAccount, owner: User, now: datetime
) -> None:
    settle(denied(telegram, now), verdict="block", owner=owner, now=now)
    rows = UnknownRequest.objects.all()
    with before_each("UPDATE", lambda: rows.update(state="expired")):
        assert unknown_requests.unblock(rows, owner=owner, via="web", now=now) == []
    assert not AuditEntry.objects.filter(action="request.unblock").exists()


def test_a6_the_end_of_an_approval_is_the_latest_of_its_identities(
    telegram: ChannelAccount, owner: User, make_user: MakeUser, now: datetime
) -> None:
    """[A6] Here or on every account; those of others, and of other accounts, are not its own."""
    other = ChannelAccount.objects.create(channel="telegram", name="other")
    row = denied(telegram, now)
    assert unknown_requests.end_of(row) is None
    row = settle(row, verdict="approve_24h", owner=owner, now=now)
    person = row.granted_user
    assert person is not None
    assert unknown_requests.end_of(row) == now + DAY

    def listed(account: ChannelAccount | None, end: datetime | None, **fields: str) -> None:
        ChannelIdentity.objects.create(
            user=person,
            account=account,
            expires_at=end,
            **{"channel": "telegram", "kind": "im", "value": "7"} | fields,
        )

    listed(other, now + 5 * DAY)
    listed(telegram, now + 5 * DAY, value="8")
    listed(telegram, now + 5 * DAY, kind="phone")
    listed(None, now + 5 * DAY, channel="bridge")
    assert unknown_requests.end_of(row) == now + DAY
    listed(None, now + 2 * DAY)
    assert unknown_requests.end_of(row) == now + 2 * DAY
    ChannelIdentity.objects.filter(account=None, channel="telegram").update(expires_at=None)
    assert unknown_requests.end_of(row) is None
    ChannelIdentity.objects.filter(account=None).delete()
    assert unknown_requests.end_of(denied(telegram, now + DAY)) is None
    ChannelIdentity.objects.all().delete()
    assert unknown_requests.end_of(row) is None
    row.granted_user = None  # the person was deleted
    assert unknown_requests.end_of(row) is None


def test_a5_the_purge_expires_overdue_requests_with_their_words_and_messages(
    telegram: ChannelAccount, hold: Hold, now: datetime, settings: Settings
) -> None:
    """[A5] Returns how many messages it has emptied, and says what for."""
    settings.HELD_MESSAGE_HOURS = 24 * 30
    row = denied(telegram, now, text="hello", message=hold(sender="7", text="hello"))
    later = denied(telegram, now + SECOND, sender="8", text="hello")
    hold(sender="8", text="long ago", at=now + WEEK - 30 * DAY)
    assert unknown_requests.purge(now=now + WEEK - SECOND) == 0
    assert unknown_requests.purge(now=now + WEEK) == 2
    assert (fresh(row).state, fresh(row).last_text) == ("expired", "")
    assert (fresh(later).state, fresh(later).last_text) == ("pending", "hello")
    notes = dict(InboundMessage.objects.values_list("sender", "note"))
    assert notes == {"7": "the request expired", "8": "held for too long"}


def test_a5_one_in_a_hundred_rows_gives_way_at_the_limit(
    telegram: ChannelAccount, now: datetime, settings: Settings
) -> None:
    """[A5] Expired ones first, then denied, approved and pending ones; the oldest of each."""
    settings.UNKNOWN_REQUESTS_MAX = 200
    states = ("pending", "approved", "denied", "expired")
    UnknownRequest.objects.bulk_create(
        UnknownRequest(
            account=telegram,
            kind="im",
            sender=f"{state}-{number}",
            state=state,
            first_seen_at=now,
            last_seen_at=now - number * SECOND,
            expires_at=now,
        )
        for state in states
        for number in range(50)
    )
    senders = set(UnknownRequest.objects.values_list("sender", flat=True))
    denied(telegram, now)
    left = set(UnknownRequest.objects.values_list("sender", flat=True))
    assert senders - left == {"expired-49", "expired-48", "expired-47"}
    for sender in "89":  # the second one is the last that fits
        denied(telegram, now, sender=sender)
    assert set(UnknownRequest.objects.values_list("sender", flat=True)) == left | {"8", "9"}
    settings.UNKNOWN_REQUESTS_MAX = 104
    denied(telegram, now, sender="10")
    counts = [UnknownRequest.objects.filter(sender__startswith=each).count() for each in states]
    assert counts == [50, 49, 0, 0]


def test_rq12_an_address_that_can_never_be_listed_is_shown_as_one_line(
    telegram: ChannelAccount, now: datetime
) -> None:
    assert denied(telegram, now, sender="  a\tb ").sender == "a⟨U+0009⟩b"
    assert len(denied(telegram, now, sender="x" * 400).sender) == 200


def test_a6_an_expired_request_says_so_whatever_is_left_of_a_decision(
    owner: User, now: datetime
) -> None:
    row = UnknownRequest(state="expired", decided_at=now, decided_by=owner, decided_via="web")
    assert unknown_requests.Verdict(row, first=False).text == "This request has expired."

"""The rule [A1] and its normal forms [A2]."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from allowlist.identities import InvalidIdentity, normalise
from allowlist.permissions import Sender, decide, explain
from core.models import ChannelAccount, ChannelIdentity, User
from tests.allowlist.conftest import MakeUser, broken_database

pytestmark = pytest.mark.django_db


def im(account: ChannelAccount, value: str, group: str = "") -> Sender:
    """Return a sender on an instant messenger."""
    return Sender(account, "im", value, group)


def test_a1_a_listed_sender_is_that_user(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] The sender is in the user's list of that kind."""
    ann = make_user("ann", im=["42"])
    make_user("bob", im=["43"])
    decision = decide(sender=im(telegram, "42"), now=now)
    assert decision.allowed
    assert decision.user == ann
    assert decision.rule == "listed"


def test_a1_no_match_is_denied(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] No match -> denied."""
    make_user("ann", im=["42"])
    decision = decide(sender=im(telegram, "41"), now=now)
    assert not decision.allowed
    assert decision.user is None
    assert decision.rule == "nobody"
    assert decision.unknown == "41"


def test_a1_without_users_all_are_denied(telegram: ChannelAccount, now: datetime) -> None:
    """[A1] An installation without users denies all senders."""
    assert not decide(sender=im(telegram, "1"), now=now).allowed


def test_a1_an_empty_list_lets_everyone_in(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] An empty list of that kind means everyone, when the user is not marked only listed."""
    ann = make_user("ann", only_listed=False, email=["a@example.com"])
    decision = decide(sender=im(telegram, "41"), now=now)
    assert decision.user == ann
    assert decision.rule == "open"
    assert not decide(sender=Sender(telegram, "email", "b@example.com"), now=now).allowed


def test_a1_only_listed_closes_an_empty_list(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] Marked *only listed identities*: an empty list allows no sender."""
    make_user("ann", only_listed=True)
    assert not decide(sender=im(telegram, "41"), now=now).allowed


def test_a1_the_exact_match_wins_over_an_open_list(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] Even when the open user was made first."""
    make_user("open", only_listed=False)
    ann = make_user("ann", im=["42"])
    assert decide(sender=im(telegram, "42"), now=now).user == ann


def test_a1_the_first_user_wins(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] The first matching user, in both halves of the rule."""
    ann = make_user("ann", im=["42"])
    make_user("bob", im=["42"])
    opened = make_user("open", only_listed=False)
    make_user("also-open", only_listed=False)
    assert decide(sender=im(telegram, "42"), now=now).user == ann
    assert decide(sender=im(telegram, "43"), now=now).user == opened


def test_a1_an_identity_that_names_a_channel_counts_there_only(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] And of that channel, if the identity names one. RQ7: not on another account."""
    bridge = ChannelAccount.objects.create(channel="bridge", name="matrix")
    second = ChannelAccount.objects.create(channel="telegram", name="second")
    ann = make_user("ann")
    ChannelIdentity.objects.create(user=ann, kind="im", channel="telegram", value="42")
    ChannelIdentity.objects.create(
        user=ann, kind="im", channel="telegram", account=telegram, value="43"
    )
    assert decide(sender=im(telegram, "42"), now=now).allowed
    assert decide(sender=im(second, "42"), now=now).allowed
    assert not decide(sender=im(bridge, "42"), now=now).allowed
    assert decide(sender=im(telegram, "43"), now=now).allowed
    assert not decide(sender=im(second, "43"), now=now).allowed


def test_a1_a_restricted_identity_still_closes_the_list(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] A list with one identity, of whatever channel, is not empty."""
    ann = make_user("ann", only_listed=False)
    ChannelIdentity.objects.create(user=ann, kind="im", channel="bridge", value="42")
    assert not decide(sender=im(telegram, "41"), now=now).allowed


def test_a5_an_expired_identity_neither_lets_in_nor_opens_the_list(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """Approve 24 h: until the very second; and an expiry never turns into an open list."""
    ann = make_user("ann", only_listed=False)
    ChannelIdentity.objects.create(user=ann, kind="im", value="42", expires_at=now)
    assert decide(sender=im(telegram, "42"), now=now - timedelta(seconds=1)).user == ann
    assert not decide(sender=im(telegram, "42"), now=now).allowed
    assert not decide(sender=im(telegram, "41"), now=now).allowed


def test_a1_inactive_users_never_match(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1][A9] Neither by their list nor by an open one."""
    make_user("ann", active=False, im=["42"])
    make_user("bob", active=False, only_listed=False)
    assert not decide(sender=im(telegram, "42"), now=now).allowed


def test_a1_the_second_user_of_an_identity_takes_over_from_an_inactive_one(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] The first user that matches."""
    make_user("ann", active=False, im=["42"])
    bob = make_user("bob", im=["42"])
    assert decide(sender=im(telegram, "42"), now=now).user == bob


def test_a3_in_a_group_the_sender_and_the_group_must_be_allowed(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A3] A direct grant is not a group grant."""
    ann = make_user("ann", im=["42"])
    denied = decide(sender=im(telegram, "42", "-1001"), now=now)
    assert denied.rule == "group"
    assert denied.unknown == "-1001"
    ChannelIdentity.objects.create(user=ann, kind="im", channel="telegram", value="-1001")
    assert decide(sender=im(telegram, "42", "-1001"), now=now).user == ann
    direct = decide(sender=im(telegram, "41", "-1001"), now=now)
    assert direct.rule == "nobody"
    assert direct.unknown == "41"


def test_a3_an_open_list_opens_no_group(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A3] A group is allowed by being listed only."""
    make_user("ann", only_listed=False)
    assert not decide(sender=im(telegram, "42", "-1001"), now=now).allowed


def test_a3_a_group_is_no_sender(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """RW16: a message in the name of a group has no user, even when the group is listed."""
    make_user("ann", im=["-1001"])
    assert decide(sender=im(telegram, "-1001"), now=now).rule == "invalid"


@pytest.mark.parametrize(
    "value",
    ["@bob", "0042", "4_2", "４２", "42.0", "True", "", "+42", "4 2", "0", "4\n2", "9" * 21],
)
def test_a2_telegram_takes_the_numeric_id_only(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime, value: str
) -> None:
    """[A2] Never ``@username`` (RW15, RQ6, RQ8): refused on write, denied on compare."""
    make_user("ann", only_listed=True, im=[value or "42"])
    with pytest.raises(InvalidIdentity):
        normalise(kind="im", value=value, channel="telegram")
    assert decide(sender=im(telegram, value), now=now).rule == "invalid"


@pytest.mark.parametrize("value", ["1", "-1001234567890", "9" * 20])
def test_a2_a_canonical_number_is_an_id_of_telegram(value: str) -> None:
    assert normalise(kind="im", value=value, channel="telegram") == value


@pytest.mark.parametrize(
    ("kind", "given", "stored"),
    [
        ("email", "  Ann@Example.COM ", "ann@example.com"),
        ("email", "a+tag@example.com", "a+tag@example.com"),
        ("email", "a.b@example.com", "a.b@example.com"),
        ("email", "ann@Bücher.example", "ann@xn--bcher-kva.example"),
        ("email", "ann@ｅｘａｍｐｌｅ.com", "ann@example.com"),
        ("phone", "+49 (176) 1234-5678", "+4917612345678"),
        ("phone", "004917612345678", "+4917612345678"),
        ("phone", "4917612345678", "+4917612345678"),
        ("phone", "+004917612345678", "+4917612345678"),
        ("im", "  @ann:example.org ", "@ann:example.org"),
        ("im", "Ann", "Ann"),
        ("im", "x" * 256, "x" * 256),
    ],
)
def test_a2_one_form_on_write_and_on_compare(kind: str, given: str, stored: str) -> None:
    """[A2] Trimmed, lower-case, IDNA domain, ``+tag`` kept; E.164; other im ids exact."""
    assert normalise(kind=kind, value=given) == stored
    assert normalise(kind=kind, value=stored) == stored


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("email", "owner@x <evil@y.example>"),
        ("email", '"owner@x.example"@y.example'),
        ("email", "оwner@example.com"),  # a Cyrillic o
        ("email", "ｏwner@example.com"),
        ("email", "\u212aim@example.com"),  # the Kelvin sign lower-cases to k
        ("email", "a@b"),
        ("email", "a@-b.example"),
        ("email", "a@b..example"),
        ("email", "a@b_c.example"),
        ("email", "a@exam\u00adple.com"),  # a hyphen that is not seen
        ("email", "a@b@c.example"),
        ("email", "@example.com"),
        ("email", "a b@example.com"),
        ("phone", "1-800-FLOWERS"),
        ("phone", "+49176 ext 5"),
        ("phone", "+١٢٣٤٥٦٧٨٩٠"),
        ("phone", "+"),
        ("phone", "0176 123"),
        ("phone", "+1"),
        ("phone", "+0123456789"),
        ("phone", "+491234567890123456"),
        ("im", "ann\u202e"),
        ("im", "ann\x00"),
        ("im", "a\nb"),
        ("im", "x" * 257),
        ("im", "   "),
        ("sip", "ann"),
    ],
)
def test_a2_invalid_addresses_are_refused(kind: str, value: str) -> None:
    """[A2] RQ5, RQ6: look-alikes, display names, quoted parts, letters, unknown kinds."""
    with pytest.raises(InvalidIdentity):
        normalise(kind=kind, value=value)


@given(
    st.sampled_from(["im", "email", "phone"]),
    st.text(max_size=40),
    st.sampled_from(["", "telegram"]),
)
def test_a2_normalising_is_total_and_stable(kind: str, value: str, channel: str) -> None:
    """[A2] Any text is refused or has one form, and that form is its own."""
    try:
        once = normalise(kind=kind, value=value, channel=channel)
    except InvalidIdentity:
        return
    assert normalise(kind=kind, value=once, channel=channel) == once


def test_a2_an_address_written_in_another_form_in_the_database_does_not_match(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A2] A broken row denies."""
    make_user("ann", email=["Ann@Example.com"])
    assert not decide(sender=Sender(telegram, "email", "ann@example.com"), now=now).allowed


def test_a2_an_unknown_kind_is_denied(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A2] An unknown policy value denies, even with open lists."""
    make_user("ann", only_listed=False)
    assert decide(sender=Sender(telegram, "sip", "42"), now=now).rule == "invalid"


def test_a2_a_database_error_denies(
    telegram: ChannelAccount,
    make_user: MakeUser,
    now: datetime,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """[A2] And is logged."""
    make_user("ann", only_listed=False, im=["42"])
    with broken_database():
        decision = decide(sender=im(telegram, "42"), now=now)
    assert not decision.allowed
    assert decision.rule == "error"
    assert "the allowlist could not be read" in caplog.text


def test_a1_the_number_of_queries_does_not_grow_with_the_users(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] One query for a listed sender, two for any other, one more in a group."""

    def cost(sender: Sender) -> int:
        with CaptureQueriesContext(connection) as queries:
            decide(sender=sender, now=now)
        return len(queries)

    make_user("ann", im=["42", "-1001"])
    for number in range(30):
        make_user(f"user{number}", im=[str(1000 + number)])
    assert cost(im(telegram, "42")) == 1
    assert cost(im(telegram, "41")) == 2
    assert cost(im(telegram, "42", "-1001")) == 2
    assert cost(im(telegram, "41", "-1001")) == 3
    make_user("open", only_listed=False)
    assert cost(im(telegram, "41")) == 2
    assert cost(im(telegram, "41", "-1001")) == 3


def test_a8_explain_names_every_obstacle_and_the_end(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A8] Why no user matched: other channel, expired, inactive, and no open list."""
    ChannelIdentity.objects.create(user=make_user("ann"), kind="im", channel="bridge", value="42")
    ChannelIdentity.objects.create(user=make_user("bob"), kind="im", value="42", expires_at=now)
    make_user("cid", active=False, im=["42"])
    rows = explain(sender=im(telegram, "42"), now=now)
    assert [row.matched for row in rows] == [False] * 4
    reasons = " | ".join(row.reason for row in rows)
    for words in (
        "bridge only",
        "expired at 2026-03-01 12:00 UTC",
        "cid is not active",
        "and no list is open",
    ):
        assert words in reasons


@pytest.mark.parametrize("value", ["42", "41", "@bob"])
@pytest.mark.parametrize("group", ["", "-1001", "-1002"])
def test_a8_explain_ends_where_the_decision_ends(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime, value: str, group: str
) -> None:
    """[A8] The very function production uses: same rule, same user, same reason."""
    make_user("ann", im=["42", "-1001"])
    sender = im(telegram, value, group)
    decision, last = decide(sender=sender, now=now), explain(sender=sender, now=now)[-1]
    assert (last.rule, last.reason) == (decision.rule, decision.reason)
    assert (last.user if last.matched else None) == decision.user


def test_a1_users_are_marked_only_listed_from_the_start() -> None:
    """[A1] The sharp edge is never a default."""
    assert User(username="new").only_listed

"""Edge cases of the rule that only mutants of the rule revealed ([A1] [A2] [A3] [A8])."""

from datetime import datetime

import pytest

from allowlist.permissions import Row, Sender, decide, explain
from core.models import ChannelAccount, ChannelIdentity
from tests.allowlist.conftest import MakeUser, broken_database

pytestmark = pytest.mark.django_db


def im(account: ChannelAccount, value: str, group: str = "") -> Sender:
    """Return a sender on an instant messenger."""
    return Sender(account, "im", value, group)


@pytest.fixture
def bridge(db: None) -> ChannelAccount:
    """Return an account whose senders are any text."""
    return ChannelAccount.objects.create(channel="bridge", name="matrix")


def test_a1_an_address_listed_as_one_kind_lets_in_no_other_kind(
    bridge: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] In the user's list *of that kind*: a name on a messenger is no proof of a mailbox."""
    make_user("ann", email=["ann@example.com"])
    assert decide(sender=Sender(bridge, "email", "ann@example.com"), now=now).allowed
    assert not decide(sender=im(bridge, "ann@example.com"), now=now).allowed


def test_a1_a_user_with_a_list_does_not_hide_the_next_open_user(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] The first whose list *of that kind* is empty, and not the first of all."""
    make_user("ann", only_listed=False, im=["7"])
    bob = make_user("bob", only_listed=False, email=["bob@example.com"])
    assert decide(sender=im(telegram, "42"), now=now).user == bob


def test_a1_the_first_user_wins_regardless_of_identity_order(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A1] Users come in their own order, not in that of their identities."""
    ann, bob = make_user("ann"), make_user("bob")
    for user in (bob, ann):
        ChannelIdentity.objects.create(user=user, kind="im", value="42")
    assert decide(sender=im(telegram, "42"), now=now).user == ann


def test_a1_the_reason_of_a_user_with_two_rows_is_the_older_row(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A8] The same reason every time."""
    ann = make_user("ann")
    made = [
        ChannelIdentity.objects.create(user=ann, kind="im", channel=channel, value="42")
        for channel in ("telegram", "")
    ]
    decision = decide(sender=im(telegram, "42"), now=now)
    assert decision.reason == f"{made[0]} is listed by ann"


@pytest.mark.parametrize("group", ["@friends", "-0", "-1_0"])
def test_a2_a_group_on_telegram_is_a_number_too(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime, group: str
) -> None:
    """[A2] A group's name can be taken over like a person's."""
    make_user("ann", im=["42", group])
    assert decide(sender=im(telegram, "42", group), now=now).rule == "invalid"


def test_a3_a_groups_grant_ends_at_its_second(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A3] [A5] Also a group can be approved for a while."""
    ann = make_user("ann", im=["42"])
    row = ChannelIdentity.objects.create(user=ann, kind="im", value="-1001", expires_at=now)
    denied = decide(sender=im(telegram, "42", "-1001"), now=now)
    assert (denied.user, denied.rule, denied.unknown) == (None, "group", "-1001")
    assert explain(sender=im(telegram, "42", "-1001"), now=now)[0] == Row(
        "group", matched=False, reason=f"group: {row} expired at 2026-03-01 12:00 UTC"
    )


def test_a8_every_step_of_an_explanation_names_user_and_reason(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A8] The group first, each obstacle with its person, the match last."""
    ann, bob = make_user("ann", active=False, im=["42"]), make_user("bob", im=["42", "-1001"])
    group = ChannelIdentity.objects.get(value="-1001")
    listed = ChannelIdentity.objects.get(user=bob, value="42")
    assert explain(sender=im(telegram, "42", "-1001"), now=now) == [
        Row("group", matched=True, reason=f"group: {group} is listed by bob"),
        Row("listed", matched=False, reason="ann is not active", user=ann),
        Row("listed", matched=True, reason=f"{listed} is listed by bob", user=bob),
    ]


def test_a8_an_explanation_of_a_denied_group_and_of_no_address_matches_nothing(
    telegram: ChannelAccount, now: datetime
) -> None:
    """[A8] One line each."""
    assert explain(sender=im(telegram, "42", "-1002"), now=now) == [
        Row("group", matched=False, reason="the group -1002 is not listed")
    ]
    (invalid,) = explain(sender=im(telegram, "@bob"), now=now)
    assert (invalid.rule, invalid.matched, invalid.user) == ("invalid", False, None)


def test_a8_the_explanation_names_the_user_of_an_open_list(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A8] The sharpest edge of the rule is named."""
    make_user("ann", only_listed=False)
    assert decide(sender=im(telegram, "7"), now=now).reason == "ann is open to everyone on im"


def test_a2_denial_by_a_broken_database_names_the_reason(
    telegram: ChannelAccount, make_user: MakeUser, now: datetime
) -> None:
    """[A2] [A8] Nothing of the error, and no address to list."""
    make_user("ann", only_listed=False, im=["42"])
    with broken_database():
        decision = decide(sender=im(telegram, "42"), now=now)
    assert (decision.user, decision.rule, decision.unknown) == (None, "error", "")
    assert decision.reason == "the allowlist could not be read"

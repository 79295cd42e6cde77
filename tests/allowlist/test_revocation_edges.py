"""Limits of a revocation, and its time: gaps found by mutants ([A9])."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from allowlist import keys, revocation
from core.database import transactions
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    McpConnection,
    McpServer,
    PushSubscription,
    Run,
    RunPause,
    Schedule,
    ToolCall,
    User,
)
from core.signals import pubsub
from tests.allowlist.conftest import MakeUser
from tests.allowlist.test_revocation import asked_to_end

pytestmark = pytest.mark.django_db(transaction=True)
Start = Callable[..., Run]
HOUR = timedelta(hours=1)


@pytest.fixture
def ann(make_user: MakeUser) -> User:
    """Return a person."""
    return make_user("ann")


def test_a9_an_identity_ends_no_run_of_another_person_with_its_address(
    ann: User, make_user: MakeUser, start: Start
) -> None:
    """[A9] An address may have been listed for one after the other."""
    mine, other = start(ann, "42"), start(make_user("bob"), "42")
    revocation.end_identity(user_id=ann.pk, kind="im", value="42")
    assert asked_to_end(mine)
    assert not asked_to_end(other)


@pytest.mark.parametrize(("after", "ends"), [(0, False), (2, True)])
def test_a9_other_identities_of_a_sender_count_at_the_time_of_the_revocation(
    ann: User, start: Start, now: datetime, after: int, *, ends: bool
) -> None:
    """[A9] Not for the time at which a chore comes by."""
    ChannelIdentity.objects.create(user=ann, kind="im", value="42", expires_at=now + HOUR)
    run = start(ann, "42")
    at = now + after * HOUR
    revocation.end_identity(user_id=ann.pk, kind="im", value="42", now=at)
    assert asked_to_end(run) is ends


def test_a9_a_sender_that_the_channel_does_not_have_is_no_identity(ann: User, start: Start) -> None:
    """[A9] On Telegram a name is no identity: it can be taken over."""
    run = start(ann, "@bob")
    revocation.end_identity(user_id=ann.pk, kind="im", value="@bob")
    assert not asked_to_end(run)


def goes_on(first: Run) -> Run:
    """Return the queued run that goes on with another one after a yes: it has no message."""
    run = Run.objects.create(
        session=first.session, user=first.user, origin="telegram", options={"continues": first.pk}
    )
    RunPause.objects.create(run=first, continued_by=run)
    return run


def test_a9_a_turn_that_goes_on_after_a_yes_ends_with_its_own_sender(
    ann: User, make_user: MakeUser, start: Start
) -> None:
    """[A9] Not with another sender of the same person, nor with the same one of another person."""
    ChannelIdentity.objects.create(user=ann, kind="im", value="43")
    senders = [(ann, "42"), (ann, "43"), (make_user("bob"), "42")]
    mine, by_another, of_another = [goes_on(start(*each)) for each in senders]
    revocation.end_identity(user_id=ann.pk, kind="im", value="42")
    assert [asked_to_end(each) for each in (mine, by_another, of_another)] == [True, False, False]


@pytest.mark.parametrize(("after", "ends"), [(0, False), (2, True)])
def test_a9_all_that_a_sender_began_ends_at_the_time_of_the_revocation(
    ann: User, telegram: ChannelAccount, start: Start, now: datetime, after: int, *, ends: bool
) -> None:
    """[A9] Schedules, those of a group and turns that go on: another identity counts for them."""
    sender = {"sender_kind": "im", "sender": "42"}
    for value in ("42", "-100"):
        ChannelIdentity.objects.create(user=ann, kind="im", value=value, expires_at=now + HOUR)
    run = goes_on(start(ann, "42"))
    schedules = [schedule_of(ann, telegram, **sender, group=group) for group in ("", "-100")]
    for value in ("42", "-100"):
        revocation.end_identity(user_id=ann.pk, kind="im", value=value, now=now + after * HOUR)
    assert asked_to_end(run) is ends
    assert [state_of(each)[0] == "paused" for each in schedules] == [ends, ends]


def test_a9_the_chore_asks_for_the_other_identities_of_its_own_time(
    ann: User, telegram: ChannelAccount, start: Start, now: datetime
) -> None:
    """[A9] Not for those of the moment at which it comes by."""
    for account, until in ((None, now), (telegram, now + HOUR)):
        ChannelIdentity.objects.create(
            user=ann, kind="im", value="42", account=account, expires_at=until
        )
    run = start(ann, "42")
    assert revocation.end_expired(now=now) == 1
    assert not asked_to_end(run)


def test_a9_the_chore_pauses_the_schedules_of_a_key_that_has_expired(
    ann: User, telegram: ChannelAccount, now: datetime
) -> None:
    """[A9] Made with it, whatever else the person may do."""
    key, _ = keys.create(name="short", user=ann, scopes=["chat"], expires_at=now)
    schedule = schedule_of(ann, telegram, via_key=key.pk)
    assert revocation.end_expired(now=now) == 1
    assert state_of(schedule) == ("paused", "grant")


@pytest.mark.parametrize(("seconds", "found"), [(119, 2), (120, 0)])
def test_a9_the_chore_looks_back_two_minutes(
    ann: User, now: datetime, seconds: int, found: int
) -> None:
    """[A9] At what was not revoked before."""
    ChannelIdentity.objects.create(user=ann, kind="im", value="42", expires_at=now)
    keys.create(name="short", user=ann, scopes=["chat"], expires_at=now)
    revoked, _ = keys.create(name="revoked", user=ann, scopes=["chat"], expires_at=now)
    keys.revoke(key=revoked, actor="owner", now=now)
    assert revocation.end_expired(now=now + timedelta(seconds=seconds)) == found


@pytest.mark.parametrize("state", [Run.State.QUEUED, Run.State.RUNNING])
def test_a9_the_chore_ends_rights_that_expired_while_the_gateway_was_off(
    ann: User, start: Start, now: datetime, state: Run.State
) -> None:
    """[A9] Or while its machine slept: the answers of before are not given hours later."""
    ChannelIdentity.objects.create(user=ann, kind="im", value="42", expires_at=now + HOUR)
    run = start(ann, "42")
    Run.objects.filter(pk=run.pk).update(created_at=now, state=state)
    assert revocation.end_expired(now=now + 5 * HOUR) == 1
    assert asked_to_end(run)
    assert revocation.end_expired(now=now + 5 * HOUR) == 0


def test_a9_a_run_that_is_ending_keeps_its_time(ann: User, start: Start) -> None:
    """[A9] And one that is over is left alone."""
    ending, over = start(ann, "42"), start(ann, "42")
    Run.objects.filter(pk=over.pk).update(state="succeeded", finished_at=transactions.now())
    revocation.end_user(user_id=ann.pk)
    ending.refresh_from_db()
    first = ending.cancel_requested_at
    revocation.end_user(user_id=ann.pk)
    revocation.end_identity(user_id=ann.pk, kind="im", value="42")
    ending.refresh_from_db()
    assert first is not None
    assert ending.cancel_requested_at == first
    assert not asked_to_end(over)


def test_a9_a_person_is_removed_inside_a_transaction(ann: User, start: Start) -> None:
    """[A9] With the deletion of the row, for example."""
    run = start(ann, "42")
    with transactions.atomic_write():
        revocation.end_user(user_id=ann.pk)
    assert asked_to_end(run)


def schedule_of(user: User, account: ChannelAccount, **grant: object) -> Schedule:
    """Return an active schedule that was made by this grant."""
    now = transactions.now()
    return Schedule.objects.create(
        user=user,
        account=account,
        kind="text",
        text="Water the plants",
        rule="FREQ=DAILY",
        start="2026-01-01T08:00:00",
        time_zone="UTC",
        created_at=now,
        changed_at=now,
        **grant,
    )


def state_of(schedule: Schedule) -> tuple[str, str]:
    """Return how a schedule stands, and why it was paused."""
    schedule.refresh_from_db()
    return schedule.state, schedule.why


def test_a9_the_rights_of_a_removed_person_end_and_those_of_others_stay(
    ann: User, make_user: MakeUser, telegram: ChannelAccount, start: Start
) -> None:
    """[A9] Browsers that get notifications, accounts at servers, questions, schedules."""
    server = McpServer.objects.create(name="Notes", slug="notes", url="https://notes.example/")
    people, made = (ann, make_user("bob")), []
    for person in people:
        browser = PushSubscription.objects.create(
            user=person, endpoint=f"https://push.example/{person.pk}"
        )
        connection = McpConnection.objects.create(
            server=server, user=person, connected_at=transactions.now()
        )
        question = ToolCall.objects.create(
            run=start(person, "42"), call_id="1", tool="t", arguments="{}", state="waiting"
        )
        made.append((browser, connection, question, schedule_of(person, telegram)))
    User.objects.filter(pk=ann.pk).update(is_active=False)
    revocation.end_user(user_id=ann.pk)
    for (browser, connection, question, schedule), ends in zip(made, (True, False), strict=True):
        assert PushSubscription.objects.filter(pk=browser.pk).exists() is not ends
        assert McpConnection.objects.filter(pk=connection.pk).exists() is not ends
        question.refresh_from_db()
        assert question.state == ("withdrawn" if ends else "waiting")
        assert state_of(schedule) == (("paused", "grant") if ends else ("active", ""))


def test_a9_schedules_end_with_their_sender_their_group_or_their_key(
    ann: User, telegram: ChannelAccount, now: datetime
) -> None:
    """[A9] Those made by another grant go on."""
    ChannelIdentity.objects.create(user=ann, kind="im", value="43")
    key, _ = keys.create(name="laptop", user=ann, scopes=["chat"])
    sender = {"sender_kind": "im", "sender": "42"}
    of_sender = schedule_of(ann, telegram, **sender)
    of_other = schedule_of(ann, telegram, **{**sender, "sender": "43"})
    of_key = schedule_of(ann, telegram, via_key=key.pk)
    revocation.end_identity(user_id=ann.pk, kind="im", value="42")
    assert [state_of(each)[0] for each in (of_sender, of_other, of_key)] == [
        "paused",
        "active",
        "active",
    ]
    in_group = schedule_of(ann, telegram, **{**sender, "group": "-100"})
    revocation.end_identity(user_id=0, kind="im", value="-100")
    assert state_of(in_group) == ("paused", "grant")
    keys.revoke(key=key, actor="owner", now=now)
    assert [state_of(each)[0] for each in (of_other, of_key)] == ["active", "paused"]


def test_a9_a_group_that_is_taken_off_the_list_ends_the_answers_in_it(
    ann: User, make_user: MakeUser, start: Start, telegram: ChannelAccount
) -> None:
    """[A9] The identity is the owner's, the runs are its members'; private chats go on."""
    owner = make_user("olga", im=["-100", "7"])
    asked, private = start(ann, "42"), start(ann, "43")
    ChatSession.objects.filter(pk=asked.session_id).update(chat="-100")
    asked.inbound.update(chat="-100")
    revocation.end_identity(user_id=owner.pk, kind="im", value="-100")
    assert not asked_to_end(asked), "it is listed still"
    ChannelIdentity.objects.filter(value="-100").delete()
    revocation.end_identity(user_id=owner.pk, kind="im", value="-100")
    assert asked_to_end(asked)
    assert not asked_to_end(private)
    revocation.end_identity(user_id=owner.pk, kind="im", value="43")
    assert not asked_to_end(private), "another person's, by an open list"


def test_a9_the_end_of_a_session_is_told_to_the_sockets_of_its_person(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[pubsub.Frame] = []
    monkeypatch.setattr(pubsub, "publish", told.extend)
    revocation.check_sessions(user_id=ann.pk)
    assert told == [{"keys": [f"user:{ann.pk}"], "kind": "revoked"}]

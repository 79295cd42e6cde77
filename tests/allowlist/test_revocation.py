"""The effects of a revoked identity, key or person, and of an expiry ([A9])."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from django.conf import settings

from allowlist import keys, revocation
from channels_app.intake.inbound import receive_sender
from core.conversations import inbox
from core.conversations.inbox import Draft
from core.database.transactions import atomic_write
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, Run
from core.signals import pubsub
from tests.allowlist.conftest import MakeUser

pytestmark = pytest.mark.django_db(transaction=True)

Heard = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def heard() -> Iterator[Heard]:
    """Yield a function that waits for the next message of the hub and gives its ``revoked``
    frames."""
    client = redis.Redis.from_url(settings.REDIS_URL)
    with client.pubsub() as subscription:  # type: ignore[no-untyped-call]  # redis ships it so
        subscription.psubscribe(pubsub.PREFIX + "*")
        subscription.get_message(timeout=30)

        def listen() -> list[dict[str, Any]]:
            while message := subscription.get_message(timeout=30):
                frame = json.loads(message["data"])
                if frame["kind"] == "revoked":
                    for _ in frame["keys"][1:]:  # once for each key
                        subscription.get_message(timeout=30)
                    return [frame]
            return []

        yield listen
    client.close()


def asked_to_end(run: Run) -> bool:
    """Return whether the run was asked to end."""
    run.refresh_from_db()
    return run.cancel_requested_at is not None


def test_a9_a_revoked_users_runs_end_and_sockets_are_notified(
    make_user: MakeUser, start: Callable[..., Run], heard: Heard
) -> None:
    """[A9] Their own only."""
    ann, bob = make_user("ann", im=["42"]), make_user("bob", im=["43"])
    mine, other = start(ann, "42"), start(bob, "43")
    revocation.end_user(user_id=ann.pk)
    assert heard() == [{"keys": [f"user:{ann.pk}"], "kind": "revoked"}]
    assert asked_to_end(mine)
    assert not asked_to_end(other)


def test_a9_the_runs_of_an_identity_end_and_not_those_of_another_of_the_same_person(
    make_user: MakeUser, start: Callable[..., Run], heard: Heard
) -> None:
    """[A9] RQ11: the user's sockets check their credentials again."""
    ann = make_user("ann", im=["42", "43"])
    mine, other = start(ann, "42"), start(ann, "43")
    ann.identities.filter(value="42").delete()
    revocation.end_identity(user_id=ann.pk, kind="im", value="42")
    assert heard() == [{"keys": [f"user:{ann.pk}"], "kind": "revoked"}]
    assert asked_to_end(mine)
    assert not asked_to_end(other)


def test_a9_a_key_is_notified_under_its_own_name(
    make_user: MakeUser,
    telegram: ChannelAccount,
    start: Callable[..., Run],
    heard: Heard,
    now: datetime,
) -> None:
    """[A9] Of a person and of a bridge; runs that other keys began go on."""
    ann = make_user("ann")
    key, _ = keys.create(name="laptop", user=ann, scopes=["chat"])
    other, _ = keys.create(name="phone", user=ann, scopes=["chat"])
    run, of_other, of_none = (start(ann, "42", via_key=n) for n in (key.pk, other.pk, 0))
    keys.revoke(key=key, actor="owner", now=now)
    assert heard() == [{"keys": [f"key:{key.pk}", f"user:{ann.pk}"], "kind": "revoked"}]
    assert [asked_to_end(each) for each in (run, of_other, of_none)] == [True, False, False]
    bridge, _ = keys.create(name="bridge", account=telegram, scopes=["inbound"])
    second = start(ann, "43", via_key=bridge.pk)
    keys.revoke(key=bridge, actor="owner", now=now)
    assert heard() == [{"keys": [f"key:{bridge.pk}"], "kind": "revoked"}]
    assert asked_to_end(second)


def test_a9_the_clock_ends_a_grant_as_a_revocation_does(
    make_user: MakeUser, start: Callable[..., Run], heard: Heard, now: datetime
) -> None:
    """[A9] Once its time has come, within the chore's look back, and only then."""
    ann = make_user("ann")
    ChannelIdentity.objects.create(user=ann, kind="im", value="42", expires_at=now)
    key, _ = keys.create(name="short", user=ann, scopes=["chat"], expires_at=now)
    run = start(ann, "42")
    assert revocation.end_expired(now=now - timedelta(seconds=1)) == 0
    assert not asked_to_end(run)
    assert revocation.end_expired(now=now + timedelta(seconds=9)) == 2
    assert heard() == [{"keys": [f"user:{ann.pk}"], "kind": "revoked"}]
    assert heard() == [{"keys": [f"key:{key.pk}", f"user:{ann.pk}"], "kind": "revoked"}]
    assert asked_to_end(run)
    assert revocation.end_expired(now=now + timedelta(minutes=5)) == 0


def test_a9_messages_that_wait_for_more_of_a_removed_sender_become_no_run(
    make_user: MakeUser, telegram: ChannelAccount, now: datetime
) -> None:
    """[A9] Of an identity, of a group, and of a person; those of others become one."""
    ann = make_user("ann", im=["42", "43", "-100"])
    for sender, chat in (("42", "42"), ("43", "43"), ("43", "-100")):
        group = chat if chat != sender else ""
        draft = Draft(account=telegram, sender=sender, chat=chat, text=chat, message_id="1")
        found = receive_sender(draft=draft, now=now, group=group, debounce=True)
        assert (found.outcome, found.run) == ("accepted", None)

    def waiting() -> list[str]:
        rows = InboundMessage.objects.filter(state=InboundMessage.State.RECEIVED)
        return list(rows.order_by("id").values_list("text", flat=True))

    def removed(value: str) -> None:
        ann.identities.filter(value=value).delete()
        revocation.end_identity(user_id=ann.pk, kind="im", value=value, now=now)

    removed("42")
    assert waiting() == ["43", "-100"]
    removed("-100")
    assert waiting() == ["43"]
    later = now + timedelta(minutes=1)
    for session in inbox.due_sessions(now=later):
        with atomic_write():
            inbox.flush_due(session_id=session, now=later)
    assert Run.objects.get().text == "43"
    again = Draft(account=telegram, sender="43", chat="43", text="44", message_id="2")
    assert receive_sender(draft=again, now=later, debounce=True).outcome == "accepted"
    revocation.end_user(user_id=ann.pk)
    assert waiting() == []
    assert asked_to_end(Run.objects.get())


def test_a9_a_removed_identity_keeps_runs_that_another_identity_allows(
    make_user: MakeUser, telegram: ChannelAccount, start: Callable[..., Run], now: datetime
) -> None:
    """[A9] The grant of a day ends; the same address is listed for good besides."""
    ann = make_user("ann", im=["42"])
    ChannelIdentity.objects.create(
        user=ann, kind="im", value="42", account=telegram, channel="telegram", expires_at=now
    )
    run = start(ann, "42")
    assert revocation.end_expired(now=now + timedelta(seconds=9)) == 1
    assert not asked_to_end(run)


def test_a9_an_expired_key_ends_its_runs_and_no_later_ones(
    make_user: MakeUser, start: Callable[..., Run], now: datetime
) -> None:
    """[A9] However often the chore comes by, for as long as it looks back."""
    ann = make_user("ann", im=["42"])
    key, _ = keys.create(name="short", user=ann, scopes=["chat"], expires_at=now)
    begun, spoken = start(ann, "42", via_key=key.pk), start(ann, "42")
    for seconds in range(0, 120, 10):
        later = start(ann, "42")
        revocation.end_expired(now=now + timedelta(seconds=seconds))
        assert not asked_to_end(later)
    assert asked_to_end(begun)
    assert not asked_to_end(spoken)

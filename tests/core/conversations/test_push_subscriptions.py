"""The browsers of people: whose each is, how many there may be, and which are forgotten."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from core.conversations import push_subscriptions
from core.conversations.push_subscriptions import Browser
from core.database import transactions
from core.models import PushMessage, PushSubscription, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> User:
    return User.objects.create(username="ann")


@pytest.fixture
def bob() -> User:
    return User.objects.create(username="bob")


def keep(user: User, name: str, *, session: str = "", key: str = "p") -> PushSubscription:
    """Store the browser of that name; without a session it has one of its own."""
    browser = Browser(f"https://push.example/{name}", key, "a", "Firefox on Linux")
    return push_subscriptions.keep(
        user=user, session_key=session or f"session of {name}", browser=browser
    )


def names() -> list[str]:
    """Return the names of the browsers that are stored, in their order."""
    rows = PushSubscription.objects.order_by("id").values_list("endpoint", flat=True)
    return [each.rpartition("/")[2] for each in rows]


def message(row: PushSubscription) -> PushMessage:
    """Return a message that waits for a browser."""
    return PushMessage.objects.create(
        subscription=row, kind="answer", ref="x", expires_at=timezone.now()
    )


def test_a_browser_is_stored_as_it_was_described_and_once(ann: User) -> None:
    row = keep(ann, "one", session="s")
    PushSubscription.objects.update(failures=7)
    waits = message(row)
    found = PushSubscription.objects.values(
        "user", "session_key", "endpoint", "p256dh", "auth", "browser", "failures"
    )
    expected = {
        "user": ann.pk,
        "session_key": "s",
        "endpoint": "https://push.example/one",
        "p256dh": "p",
        "auth": "a",
        "browser": "Firefox on Linux",
        "failures": 7,
    }
    assert found.get() == expected
    again = keep(ann, "one", session="t", key="q")
    assert again.pk == row.pk
    assert found.get() == {**expected, "session_key": "t", "p256dh": "q", "failures": 0}
    assert keep(ann, "one", session="t").pk == row.pk, "as each page does"
    assert PushMessage.objects.get() == waits


def test_a_browser_changes_hands_without_its_messages(ann: User, bob: User) -> None:
    row, other = keep(ann, "shared"), keep(ann, "own")
    message(row)
    kept = message(other)
    new = keep(bob, "shared")
    assert new.pk != row.pk
    assert (new.user, names()) == (bob, ["own", "shared"])
    assert list(PushMessage.objects.all()) == [kept]


def test_a_session_has_one_address(ann: User, bob: User) -> None:
    keep(ann, "old", session="s")
    keep(ann, "phone", session="t")
    keep(ann, "new", session="s")
    assert names() == ["phone", "new"]


def test_of_too_many_browsers_the_longest_unused_go(ann: User, bob: User, settings: Any) -> None:
    """One that has got nothing yet counts from the day on which it was enabled."""
    settings.PUSH_BROWSERS_PER_PERSON = 3
    now = timezone.now()
    used = {"a": (-9, -1), "b": (-8, -7), "c": (-5, None), "d": (-6, None)}
    for name, (made, succeeded) in used.items():
        PushSubscription.objects.create(
            user=ann, endpoint=f"https://push.example/{name}", session_key=name
        )
        PushSubscription.objects.filter(session_key=name).update(
            created_at=now + timedelta(hours=made),
            succeeded_at=succeeded and now + timedelta(hours=succeeded),
        )
    keep(bob, "bobs")
    keep(ann, "new")
    assert names() == ["a", "c", "bobs", "new"]
    keep(ann, "new")
    assert names() == ["a", "c", "bobs", "new"]
    settings.PUSH_BROWSERS_PER_PERSON = 1
    keep(ann, "newest")
    assert names() == ["bobs", "newest"]


def test_browsers_are_listed_from_the_newest_on(ann: User, bob: User) -> None:
    rows = [keep(ann, name) for name in ("one", "two", "three")]
    keep(bob, "bobs")
    PushSubscription.objects.update(created_at=timezone.now())
    now = timezone.now()
    PushSubscription.objects.filter(pk=rows[0].pk).update(created_at=now + timedelta(hours=1))
    assert push_subscriptions.of(ann) == [rows[0], rows[2], rows[1]]


def test_browsers_are_forgotten_with_their_messages(
    ann: User, django_assert_num_queries: Any
) -> None:
    row, other = keep(ann, "one"), keep(ann, "two")
    message(row)
    kept = message(other)
    with django_assert_num_queries(1):
        assert push_subscriptions.forget(id=row.pk, session_key="another") == 0
    assert push_subscriptions.forget(id=row.pk) == 1
    assert list(PushMessage.objects.all()) == [kept]
    keep(ann, "three")
    assert push_subscriptions.forget(user_id=ann.pk) == 2
    assert names() == []


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return whether each write transaction joins an open one."""
    found: list[bool] = []
    original = transactions.atomic_write

    def noting(*, joins: bool = False) -> Any:
        found.append(joins)
        return original(joins=joins)

    monkeypatch.setattr(transactions, "atomic_write", noting)
    return found


def test_browsers_are_forgotten_in_the_transaction_of_a_sign_out_or_a_revocation(
    ann: User, writes: list[bool]
) -> None:
    row = keep(ann, "one")
    writes.clear()
    assert connection.in_atomic_block
    push_subscriptions.forget(id=row.pk)
    assert writes == [True]


def test_a_browser_that_another_process_has_just_forgotten_is_not_counted(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = keep(ann, "one")
    original = transactions.atomic_write

    def late(*, joins: bool = False) -> Any:
        PushSubscription.objects.all().delete()
        return original(joins=joins)

    monkeypatch.setattr(transactions, "atomic_write", late)
    assert push_subscriptions.forget(id=row.pk) == 0

"""Signed links to the second and to the letter; found by mutants ([L4])."""

from datetime import timedelta

import pytest
from django.core.signing import Signer
from django.utils import timezone
from pytest_django import Settings

from allowlist import sign_in
from allowlist.models import AuditEntry, SignInLink
from core.files import storage
from core.models import StoredFile, User

pytestmark = pytest.mark.django_db

NOW = 1_800_000_000.0
WEEK = 7 * 24 * 60 * 60
HOUR = timedelta(hours=1)


@pytest.fixture
def ada(db: None) -> User:
    """Return a person."""
    return User.objects.create(username="ada")


@pytest.fixture
def pair(ada: User) -> tuple[StoredFile, StoredFile]:
    """Return two files of one person."""
    made = [
        StoredFile.objects.create(user=ada, name=name, path=f"aa/{name}", size=1)
        for name in ("one", "two")
    ]
    return made[0], made[1]


def test_l4_a_link_opens_its_file_until_the_last_second_of_its_days(
    pair: tuple[StoredFile, StoredFile], settings: Settings
) -> None:
    """[L4] 7 days by default, or as many as the owner says."""
    token = storage.token(pair[0], now=NOW)
    assert storage.opened(token, now=NOW + WEEK) == pair[0]
    with pytest.raises(storage.BadLinkError, match="expired"):
        storage.opened(token, now=NOW + WEEK + 1)
    settings.FILE_LINK_DAYS = 1
    with pytest.raises(storage.BadLinkError, match="expired"):
        storage.opened(storage.token(pair[0], now=NOW), now=NOW + WEEK / 7 + 1)


def test_l4_a_link_is_valid_from_now(pair: tuple[StoredFile, StoredFile]) -> None:
    """[L4] The clock of this machine, when no moment is given."""
    link = storage.link(pair[0])
    assert link.startswith("http://127.0.0.1:8000/files/out?token=")
    token = link.partition("token=")[2]
    assert storage.opened(token) == pair[0]
    with pytest.raises(storage.BadLinkError):
        storage.opened(storage.token(pair[0], now=NOW - 40 * WEEK * 52))


def test_l4_the_time_of_a_link_cannot_be_moved(pair: tuple[StoredFile, StoredFile]) -> None:
    """[L4] Every part of it is signed, and so is its purpose."""
    name, ends, signature = storage.token(pair[0], now=NOW).split(".")
    later = f"{int(ends, 16) + 1:x}"
    elsewhere = Signer(salt="something.else", sep=".").sign(f"{name}.{ends}")
    ours = Signer(salt="latchkey.files.out", sep=".").sign(f"{name}.{ends}")
    assert ours == f"{name}.{ends}.{signature}"  # links that were sent survive an update
    plain = Signer(sep=".").sign(f"{name}.{ends}")
    for forged in (f"{name}.{later}.{signature}", elsewhere, plain, f"{name}.{ends}.", ""):
        with pytest.raises(storage.BadLinkError, match="changed"):
            storage.opened(forged, now=NOW)


def test_l4_a_link_is_as_long_as_a_link_is(pair: tuple[StoredFile, StoredFile]) -> None:
    """[L4] Added text makes another link; very long ones are not even read to their end."""
    token = storage.token(pair[0], now=NOW)
    for long in (token + "A", token + "A" * 10_000_000):
        with pytest.raises(storage.BadLinkError):
            storage.opened(long, now=NOW)


def test_l4_a_signed_token_without_a_file_opens_nothing(
    pair: tuple[StoredFile, StoredFile],
) -> None:
    """[L4] Another token signed by the same key must not open files by accident."""
    end = f"{int(NOW) + 60:x}"
    for name in ("", "x", f"../{pair[0].public_id}", pair[0].public_id + "A"):
        with pytest.raises(storage.BadLinkError):
            storage.opened(storage.signer().sign(f"{name}.{end}"), now=NOW)


def test_l4_a_link_to_a_file_that_is_gone_opens_none(
    pair: tuple[StoredFile, StoredFile],
) -> None:
    """[L4] Nor another one of the same person."""
    token = storage.token(pair[0], now=NOW)
    pair[0].delete()
    assert storage.opened(token, now=NOW) is None


def test_l4_opening_and_revoking_one_file_leaves_the_other_alone(
    pair: tuple[StoredFile, StoredFile],
) -> None:
    """[L4] Counted one by one; revoked once, with a time that stays."""
    one, two = pair
    storage.count_open(one)
    storage.count_open(one)
    assert storage.revoke(one)
    assert not storage.revoke(one)
    one.refresh_from_db()
    two.refresh_from_db()
    assert (one.opens, two.opens, two.revoked_at) == (2, 0, None)
    assert one.revoked_at is not None


def test_a_sign_in_link_is_used_up_alone(ada: User) -> None:
    """A second link of the same person still opens, at its last second but one."""
    now = timezone.now()
    first, second = (sign_in.create(user=ada, now=now) for _ in range(2))
    assert sign_in.consume(token=first, now=now) == ada
    assert sign_in.consume(token=first, now=now) is None
    refusals = SignInLink.objects.order_by("id").values_list("refusals", flat=True)
    assert list(refusals) == [1, 0]
    assert sign_in.consume(token=second, now=now + HOUR - timedelta(seconds=1)) == ada
    used = SignInLink.objects.order_by("id").values_list("used_at", flat=True)
    assert list(used) == [now, now + HOUR - timedelta(seconds=1)]


def test_a_sign_in_link_is_refused_with_its_reason_and_number(ada: User) -> None:
    """In the audit: user, link, reason, time; without an actor."""
    now = timezone.now()
    token = sign_in.create(user=ada, now=now)
    link = SignInLink.objects.get()
    assert sign_in.consume(token=token, now=now + HOUR) is None
    row = AuditEntry.objects.get(action="sign_in.refused")
    assert (row.actor, row.subject) == ("nobody", f"user:{ada.pk}")
    assert timedelta(0) <= now + HOUR - row.at < timedelta(milliseconds=1)
    assert row.data == {"why": "expired", "link": link.pk}


def test_a_sign_in_link_is_remembered_for_a_week_after_its_end(ada: User) -> None:
    """So that a late click is still told what happened, and the table does not grow."""
    now = timezone.now()
    sign_in.create(user=ada, now=now)
    sign_in.create(user=ada, now=now + HOUR + timedelta(days=7))
    assert SignInLink.objects.count() == 2
    sign_in.create(user=ada, now=now + HOUR + timedelta(days=7, seconds=1))
    assert SignInLink.objects.count() == 2


def test_a_sign_in_token_is_256_random_bits(ada: User) -> None:
    """43 characters of a URL."""
    tokens = {sign_in.create(user=ada, now=timezone.now()) for _ in range(20)}
    assert {len(token) for token in tokens} == {43}
    assert len(tokens) == 20

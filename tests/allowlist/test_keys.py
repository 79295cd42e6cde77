"""API keys [A10]: stored hashed, shown once, scoped, expiring, revocable."""

import re
from datetime import datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allowlist import keys
from allowlist.models import ApiKey, AuditEntry
from core.models import ChannelAccount, ChatSession, InboundMessage, Run, User
from tests.allowlist.conftest import MakeUser
from tests.allowlist.in_parallel import run_in_parallel

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(make_user: MakeUser) -> User:
    """Return a person."""
    return make_user("ann")


def test_a10_a_key_is_256_random_bits_kept_as_a_hash_only(ann: User) -> None:
    """[A10] RO8: public prefix, the token nowhere in the row."""
    key, token = keys.create(name="laptop", user=ann, scopes=["chat"])
    other, other_token = keys.create(name="laptop", user=ann, scopes=["chat"])
    assert re.fullmatch(r"lk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", token)
    assert token.split("_")[1] == key.prefix
    key.refresh_from_db()
    secret = token.split("_", 2)[2]
    for field in ApiKey._meta.fields:
        assert secret not in str(getattr(key, field.name))
    assert key.prefix != other.prefix
    assert token != other_token


def test_a10_a_key_is_its_person(ann: User, now: datetime) -> None:
    """[A10] With its scopes, in one query and one write."""
    created, token = keys.create(name="laptop", user=ann, scopes=["inbound", "chat", "chat"])
    key = keys.authenticate(token=token, now=now)
    assert key == created
    with CaptureQueriesContext(connection) as queries:
        again = keys.authenticate(token=token, now=now)
        assert again is not None
        assert again.user == ann
        assert again.scopes == ["chat", "inbound"]
    assert len(queries) == 1


def test_a10_a_bridge_key_belongs_to_an_account(telegram: ChannelAccount, now: datetime) -> None:
    """[A10] And ends when the account is disabled."""
    _, token = keys.create(name="bridge", account=telegram, scopes=["inbound"])
    key = keys.authenticate(token=token, now=now)
    assert key is not None
    assert key.account == telegram
    assert key.user is None
    ChannelAccount.objects.update(enabled=False)
    assert keys.authenticate(token=token, now=now) is None


def test_a10_nothing_but_the_whole_token_opens(ann: User, now: datetime) -> None:
    """[A10] Every change of one character, a foreign secret, other forms: None."""
    key, token = keys.create(name="laptop", user=ann, scopes=["chat"])
    _, other = keys.create(name="other", user=ann, scopes=["chat"])
    wrong = [
        token[:index] + ("A" if token[index] != "A" else "B") + token[index + 1 :]
        for index in range(len(token))
    ]
    wrong += [token[:-1], token + "A", token + "\n", " " + token, "", key.prefix, key.digest]
    wrong += [f"lk_{key.prefix}_{other[16:]}", "lk_" + "0" * 12 + "_" + "A" * 43, "\x00", "é" * 60]
    assert [each for each in wrong if keys.authenticate(token=each, now=now)] == []
    assert keys.authenticate(token=token, now=now) == key


def test_a10_a_key_expires(ann: User, now: datetime) -> None:
    """[A10] At the second."""
    _, token = keys.create(name="short", user=ann, scopes=["chat"], expires_at=now)
    assert keys.authenticate(token=token, now=now - timedelta(seconds=1)) is not None
    assert keys.authenticate(token=token, now=now) is None


def test_a9_a_revoked_key_ends_with_the_runs_that_it_began(
    ann: User, telegram: ChannelAccount, now: datetime
) -> None:
    """[A9][A10] Once; the queued run is cancelled, and the audit names the actor."""
    key, token = keys.create(name="laptop", user=ann, scopes=["chat"])
    session = ChatSession.objects.create(user=ann, account=telegram, chat="42")
    run, other = (Run.objects.create(session=session, user=ann, origin="http") for _ in range(2))
    for each, number in ((run, key.pk), (other, 0)):
        InboundMessage.objects.create(
            account=telegram, user=ann, run=each, via_key=number, received_at=now
        )
    assert keys.revoke(key=key, actor="owner", now=now)
    assert not keys.revoke(key=key, actor="owner", now=now)
    assert keys.authenticate(token=token, now=now) is None
    run.refresh_from_db()
    assert run.cancel_requested_at is not None
    other.refresh_from_db()
    assert other.cancel_requested_at is None
    assert AuditEntry.objects.filter(action="key.revoked", actor="owner").count() == 1


def test_a9_the_key_of_an_inactive_user_opens_nothing(ann: User, now: datetime) -> None:
    """[A9]"""
    _, token = keys.create(name="laptop", user=ann, scopes=["chat"])
    User.objects.update(is_active=False)
    assert keys.authenticate(token=token, now=now) is None


@pytest.mark.parametrize("scopes", [[], ["root"], ["chat", "admin:everything"]])
def test_a10_unknown_scopes_are_refused(ann: User, scopes: list[str]) -> None:
    """[A10] The four scopes, at least one."""
    with pytest.raises(keys.InvalidKey):
        keys.create(name="laptop", user=ann, scopes=scopes)
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("name", ["", " ", "x" * 101])
def test_a10_a_key_has_a_name_that_fits(ann: User, name: str) -> None:
    """[A10] PostgreSQL would refuse a longer one, with an error of its own."""
    with pytest.raises(CommandError, match="1 to 100 characters"):
        call_command("create_key", name, "--user", "ann", "--scope", "chat")
    assert not ApiKey.objects.exists()


def test_a10_spaces_around_a_name_are_left_out(ann: User) -> None:
    """[A10] They count for the column, too."""
    key, _ = keys.create(name=f" laptop{' ' * 100}", user=ann, scopes=["chat"])
    assert key.name == "laptop"


def test_a10_a_key_needs_exactly_one_holder(ann: User, telegram: ChannelAccount) -> None:
    """[A10] One user, or one bridge account."""
    with pytest.raises(keys.InvalidKey):
        keys.create(name="x", scopes=["chat"])
    with pytest.raises(keys.InvalidKey):
        keys.create(name="x", user=ann, account=telegram, scopes=["chat"])


def test_a10_last_used_is_written_once_a_minute_and_audited_once_a_day(
    ann: User, now: datetime
) -> None:
    """[A10] However fast the key is used."""
    key, token = keys.create(name="laptop", user=ann, scopes=["chat"])
    for seconds in (0, 1, 59):
        keys.authenticate(token=token, now=now + timedelta(seconds=seconds))
        key.refresh_from_db()
        assert key.last_used_at == now
    keys.authenticate(token=token, now=now + timedelta(seconds=60))
    key.refresh_from_db()
    assert key.last_used_at == now + timedelta(seconds=60)
    used = AuditEntry.objects.filter(action="key.used")
    assert used.count() == 1
    keys.authenticate(token=token, now=now + timedelta(days=2))
    assert used.count() == 2


@pytest.mark.django_db(transaction=True)
def test_a10_concurrent_uses_of_a_key_are_recorded_once(ann: User, now: datetime) -> None:
    """[A10] One write, one audit row."""
    _, token = keys.create(name="laptop", user=ann, scopes=["chat"])
    found = run_in_parallel(lambda _: keys.authenticate(token=token, now=now), times=60)
    assert all(found)
    assert AuditEntry.objects.filter(action="key.used").count() == 1

"""A key has no effect on another key: gaps in the other tests, found by mutants ([A9] [A10])."""

from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allowlist import keys
from allowlist.models import ApiKey, AuditEntry
from core.models import ChannelAccount, User
from tests.allowlist.conftest import MakeUser

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann(make_user: MakeUser) -> User:
    """Return a person."""
    return make_user("ann")


def audited(action: str) -> list[tuple[str, str, dict[str, object]]]:
    """Return actor, subject and data of the rows of ``action``."""
    rows = AuditEntry.objects.filter(action=action).order_by("id")
    return list(rows.values_list("actor", "subject", "data"))


def test_a9_revoking_a_key_leaves_the_others_alone(ann: User, now: datetime) -> None:
    """[A9] Of the same person too."""
    lost, token = keys.create(name="lost", user=ann, scopes=["chat"])
    _, other = keys.create(name="other", user=ann, scopes=["chat"])
    assert keys.revoke(key=lost, actor="owner", now=now)
    assert keys.authenticate(token=token, now=now) is None
    assert keys.authenticate(token=other, now=now) is not None
    assert audited("key.revoked") == [("owner", str(lost), {})]


def test_a10_using_a_key_notes_that_key_only(ann: User, now: datetime) -> None:
    """[A10] The last use shows an owner which keys are unused."""
    used, token = keys.create(name="used", user=ann, scopes=["chat"])
    idle, _ = keys.create(name="idle", user=ann, scopes=["chat"])
    found = keys.authenticate(token=token, now=now)
    assert found is not None
    assert found.last_used_at == now
    idle.refresh_from_db()
    assert idle.last_used_at is None
    assert audited("key.used") == [("ann", str(used), {})]


def test_a10_the_use_of_a_bridge_key_is_audited_as_its_account(
    telegram: ChannelAccount, now: datetime
) -> None:
    """[A10] In the same number of queries as a personal key's: one, once it was noted."""
    key, token = keys.create(name="bridge", account=telegram, scopes=["inbound"])
    keys.authenticate(token=token, now=now)
    assert audited("key.used") == [(str(telegram), str(key), {})]
    with CaptureQueriesContext(connection) as queries:
        assert keys.authenticate(token=token, now=now) is not None
    assert len(queries) == 1


def test_a10_a_use_is_audited_again_after_exactly_a_day(ann: User, now: datetime) -> None:
    """[A10] Not a second before."""
    _, token = keys.create(name="daily", user=ann, scopes=["chat"])
    day = timedelta(days=1)
    keys.authenticate(token=token, now=now)
    keys.authenticate(token=token, now=now + day - timedelta(seconds=1))
    assert len(audited("key.used")) == 1
    ApiKey.objects.update(last_used_at=now)
    keys.authenticate(token=token, now=now + day)
    assert len(audited("key.used")) == 2


def test_a10_creating_a_key_is_audited_with_its_holder(ann: User, telegram: ChannelAccount) -> None:
    """[A10] Actor, holder and scopes; its name is kept."""
    mine, _ = keys.create(name="laptop", user=ann, scopes=["inbound", "chat"], actor="owner")
    its, _ = keys.create(name="mail", account=telegram, scopes=["inbound"])
    mine.refresh_from_db()
    assert mine.name == "laptop"
    assert audited("key.created") == [
        ("owner", str(mine), {"scopes": ["chat", "inbound"], "of": "ann"}),
        ("system", str(its), {"scopes": ["inbound"], "of": str(telegram)}),
    ]


def test_a10_a_refused_scope_is_answered_with_the_known_ones(ann: User) -> None:
    """[A10] The four of them."""
    with pytest.raises(keys.InvalidKey, match="chat, inbound, send_result, admin:requests"):
        keys.create(name="laptop", user=ann, scopes=["root"])


@pytest.mark.parametrize("model_only", [True, False])
def test_a10_a_key_for_the_model_only_is_stored_and_audited_as_one(
    ann: User, *, model_only: bool
) -> None:
    """[A10] The audit names it only where a key is one."""
    key, _ = keys.create(name="k", user=ann, scopes=["chat"], model_only=model_only)
    key.refresh_from_db()
    assert key.model_only is model_only
    [(_actor, _subject, data)] = audited("key.created")
    assert data.get("model_only") == (True if model_only else None)
    assert set(data) == {"scopes", "of", *(["model_only"] if model_only else [])}


def test_a10_keys_that_were_found_before_are_not_asked_for_again(ann: User, now: datetime) -> None:
    """[A10] For a text that is no token there is no query."""
    key, token = keys.create(name="k", user=ann, scopes=["chat"])
    keys.authenticate(token=token, now=now)
    known = keys.named([token, "rubbish"])
    assert known == {key.prefix: key}
    with CaptureQueriesContext(connection) as queries:
        assert keys.named(["rubbish"]) == {}
        assert keys.authenticate(token=token, now=now, known=known) == key
        assert keys.authenticate(token=token, now=now, known={}) is None
    assert len(queries) == 0

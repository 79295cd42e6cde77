"""One-time sign-in links: gaps in the other tests, found by mutants."""

from datetime import datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from allowlist import sign_in
from tests.allowlist.conftest import MakeUser

pytestmark = pytest.mark.django_db


def test_only_a_links_own_token_has_a_holder(make_user: MakeUser, now: datetime) -> None:
    """The page of a link names its person, by one query."""
    ann = make_user("ann")
    token = sign_in.create(user=ann, now=now)
    with CaptureQueriesContext(connection) as queries:
        assert sign_in.holder(token=token, now=now) == ann
    assert len(queries) == 1
    assert sign_in.holder(token=token[:-1], now=now) is None
    assert sign_in.holder(token="", now=now) is None
    assert sign_in.consume(token=token, now=now) == ann
    assert sign_in.holder(token=token, now=now) is None

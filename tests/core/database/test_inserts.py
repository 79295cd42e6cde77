"""INSERT and UPDATE by id store the same as the ORM, on both databases."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from core.database.writes import Insert, Set, insert_or_find, write_all
from core.models import ChannelAccount, ChatSession, InboundMessage, Message, Run, User

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def columns(row: Any) -> dict[str, Any]:
    """Return every column of a row; bytes as such."""
    found = {each.attname: getattr(row, each.attname) for each in row._meta.concrete_fields}
    return {
        name: bytes(value) if isinstance(value, memoryview) else value
        for name, value in found.items()
    }


def a_message(account: ChannelAccount, **more: Any) -> InboundMessage:
    """Return a message with a value in every column."""
    return InboundMessage(
        account=account,
        sender="7",
        chat="c",
        external_update_id="u1",
        external_message_id="m1",
        text="quotes ' \" and a % and 🙂",
        media=[{"kind": "image", "size": 5, "name": None}],
        options={"album": "a%s"},
        raw=b"\x00\xff%s",
        received_at=NOW,
        **more,
    )


def test_inserted_rows_read_as_those_that_the_orm_stored(
    account: ChannelAccount, user: User, session: ChatSession
) -> None:
    run = Run(session=session, user=user, origin="x", route={"chat": "ü"}, options={"n": [1.5]})
    said = Message(session=session, run=run, role="user", text="hello", data={"a": True})
    for row in (a_message(account, user=user, session=session), run, said):
        write_all(Insert(row))
        assert row.pk
        assert columns(type(row).objects.get(pk=row.pk)) == columns(row)
    run.refresh_from_db()
    assert abs(run.created_at - timezone.now()) < timedelta(hours=1)


def test_a_known_row_is_not_inserted_twice(account: ChannelAccount) -> None:
    first, is_new = insert_or_find(a_message(account), InboundMessage.objects.first)
    assert is_new
    assert insert_or_find(a_message(account), InboundMessage.objects.first) == (first, False)
    with pytest.raises(IntegrityError), transaction.atomic():
        write_all(Insert(a_message(account)))
    assert InboundMessage.objects.count() == 1


def test_an_update_changes_its_row_and_no_other(account: ChannelAccount, user: User) -> None:
    other = User.objects.create(username="other")
    spoke = {"last_account_id": account.pk, "last_target": {"chat": "1"}, "last_spoke_at": NOW}
    write_all(Set(User, user.pk, spoke))
    user.refresh_from_db()
    assert (user.last_account, user.last_target, user.last_spoke_at) == (
        account,
        {"chat": "1"},
        NOW,
    )
    assert columns(User.objects.get(pk=other.pk)) == columns(other)


def test_an_update_can_clear_json_dates_and_foreign_keys(
    account: ChannelAccount, user: User
) -> None:
    User.objects.filter(id=user.id).update(last_account=account, last_spoke_at=NOW)
    write_all(Set(User, user.pk, {"last_account_id": None, "last_spoke_at": None}))
    user.refresh_from_db()
    assert (user.last_account, user.last_spoke_at) == (None, None)

"""Statements that are written once store and read what the ORM does, on both databases."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from core.database import statements
from core.models import ChannelAccount, ChatSession, InboundMessage, Message, Run, User

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def columns(row: Any) -> dict[str, Any]:
    """Every column of a row; bytes as such."""
    found = {each.attname: getattr(row, each.attname) for each in row._meta.concrete_fields}
    return {
        name: bytes(value) if isinstance(value, memoryview) else value
        for name, value in found.items()
    }


def a_message(account: ChannelAccount, **more: Any) -> InboundMessage:
    """A message with something in every column."""
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


def test_what_is_inserted_reads_as_what_the_orm_stored(
    account: ChannelAccount, user: User, session: ChatSession
) -> None:
    run = Run(session=session, user=user, origin="x", route={"chat": "ü"}, options={"n": [1.5]})
    said = Message(session=session, run=run, role="user", text="hello", data={"a": True})
    for row in (a_message(account, user=user, session=session), run, said):
        assert statements.insert(row)
        assert row.pk
        assert columns(type(row).objects.get(pk=row.pk)) == columns(row)
    run.refresh_from_db()
    assert abs(run.created_at - timezone.now()) < timedelta(hours=1)


def test_what_is_known_already_is_not_inserted_twice(account: ChannelAccount) -> None:
    assert statements.insert(a_message(account), unless_known=True)
    assert not statements.insert(a_message(account), unless_known=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        statements.insert(a_message(account))
    assert InboundMessage.objects.count() == 1


def test_an_update_changes_its_row_and_no_other(account: ChannelAccount, user: User) -> None:
    other = User.objects.create(username="other")
    statements.update(
        User, user.pk, last_account_id=account.pk, last_target={"chat": "1"}, last_spoke_at=NOW
    )
    user.refresh_from_db()
    assert (user.last_account, user.last_target, user.last_spoke_at) == (
        account,
        {"chat": "1"},
        NOW,
    )
    assert columns(User.objects.get(pk=other.pk)) == columns(other)


def test_a_selected_row_is_the_orms_and_loads_what_was_left_out(
    account: ChannelAccount, user: User, session: ChatSession
) -> None:
    User.objects.filter(id=user.id).update(last_spoke_at=NOW, last_target={"chat": "1"})
    ChatSession.objects.filter(id=session.id).update(flush_at=NOW)
    select = statements.Select(
        (ChatSession, ()),
        (User, ("username",)),
        tail="""JOIN "core_user" ON "core_user"."id" = "core_chatsession"."user_id"
        WHERE "core_chatsession"."chat" = %s""",
    )
    assert select.rows("nowhere") == []
    [(found, person)] = select.rows(session.chat)
    assert columns(found) == columns(ChatSession.objects.get(id=session.id))
    assert found.flush_at == NOW
    assert person.get_deferred_fields() >= {"password", "last_target"}
    assert columns(person) == columns(User.objects.get(id=user.id))

"""A conversation is deleted with all that belongs to it, while others write."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from core.conversations import sessions
from core.database import dependents
from core.models import ChatSession, Message, Run
from tests.core.conftest import Say


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("woken")
def test_a_long_conversation_is_deleted_in_short_transactions(say: Say) -> None:
    """After years its messages would hold up all other writers, whom SQLite then refuses."""
    session = say("hello").session
    number = 2 * dependents.AT_ONCE + 1
    Message.objects.bulk_create(Message(session=session, role="user") for _ in range(number))
    with CaptureQueriesContext(connection) as found:
        sessions.delete(session=session)
    commits = [each["sql"] for each in found if each["sql"] == "COMMIT"]
    assert len(commits) > number // dependents.AT_ONCE
    for model in (ChatSession, Message, Run):
        assert not model._default_manager.exists()

"""The messages of a thread, without a gateway."""

from typing import Any

import pytest

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.client_api.ag_ui import threads
from core.models import ChatSession, Message, User


@pytest.mark.django_db
def test_a_snapshot_has_only_words_that_a_person_wrote() -> None:
    """Those for the model are no words of a person who sent a file without any."""
    user = User.objects.create(username="ada")
    session = ChatSession.objects.create(user=user, account=builtin_account("http"))
    for text, data in (("hello", {}), ("[file message received]", {"said": ""})):
        Message.objects.create(session=session, role="user", text=text, data=data, tokens=1)
    shown: Any = threads.snapshot_of(session, None, [])["messages"]
    assert [each["content"] for each in shown] == ["hello", ""]

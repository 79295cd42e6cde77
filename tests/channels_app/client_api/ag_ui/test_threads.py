"""The messages of a thread, without a gateway."""

import pytest

from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.client_api.ag_ui import threads
from core.models import ChatSession, Message, User


@pytest.mark.django_db
def test_a_snapshot_has_the_persons_own_words_alone() -> None:
    """Those for the model are no words of a person who sent a file without any."""
    user = User.objects.create(username="ada")
    session = ChatSession.objects.create(user=user, account=builtin_account("http"))
    for text, data in (("hello", {}), ("[file message received]", {"said": ""})):
        Message.objects.create(session=session, role="user", text=text, data=data, tokens=1)
    shown = threads.snapshot_of(session, None, [])["messages"]
    assert [each["content"] for each in shown] == ["hello", ""]

"""Requests that are accepted: the same for all endpoints of clients, but for a few words."""

from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from allowlist import keys
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.client_api import acceptance
from channels_app.client_api.acceptance import Ask
from channels_app.client_api.ag_ui import fields as ag_ui
from channels_app.client_api.ag_ui import threads
from channels_app.client_api.chats import Seen
from channels_app.client_api.responses import fields as responses
from channels_app.client_api.responses import stored
from channels_app.client_api.ui_stream import endpoints, fields
from channels_app.intake.inbound import Receipt
from channels_app.worker import media
from core.database import transactions
from core.database.transactions import in_thread
from core.media.describe import Describer
from core.models import ChannelAccount, Run, User
from tests.channels_app.client_api.ag_ui import frames
from tests.channels_app.client_api.ui_stream.test_chat import said

pytestmark = pytest.mark.django_db
HISTORY = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Yes?"},
    {"role": "user", "content": "Go on"},
]


@pytest.fixture
def agent() -> Principal:
    """Return a person with a key for the model only."""
    user = User.objects.create(username="agent")
    key, _ = keys.create(name="agent", user=user, scopes=["chat"], model_only=True)
    return Principal(user=user, key_id=key.pk, scopes=["chat"], model_only=True)


def run_of(receipt: Receipt) -> Run:
    """Return the run of an accepted message."""
    assert receipt.run is not None
    return receipt.run


def test_w22_a_key_for_the_model_only_is_one_at_v1_alone(agent: Principal) -> None:
    """[W22] At the chats of ``/ui/chat`` and ``/ag-ui`` it is a key as any other."""
    at_v1 = acceptance.accept(agent, Ask(model="", messages=HISTORY), "", None)
    assert run_of(at_v1).options["model_only"] is True
    messages = [said("Hello"), said("Yes?", "assistant"), said("Go on")]
    page = fields.read({"id": "page", "messages": messages})
    given = [{"id": str(number), **each} for number, each in enumerate(HISTORY)]
    body = frames.said("", thread="t", messages=given)
    for receipt in (endpoints.accept(agent, page), threads.accept(agent, ag_ui.read(body))):
        assert len(run_of(receipt).options["messages"]) == 3
        assert "model_only" not in run_of(receipt).options


def test_w42_w43_a_thread_is_looked_up_without_reading_histories(agent: Principal) -> None:
    """[W42] [W43] A run by the client's id, its own id, or the last event; the client's ids of its
    messages; never those of another person.
    """
    body = frames.said("Hello", thread="t", run="mine")
    run = run_of(threads.accept(agent, ag_ui.read(body)))
    again = run_of(threads.accept(agent, ag_ui.read(body)))
    assert again.pk == run.pk
    later = run_of(threads.accept(agent, ag_ui.read(frames.said("More", thread="t"))))
    for name, seen, wanted in (
        ("mine", Seen(), (run, 0)),
        (run.public_id, Seen("", 7), (run, 7)),
        ("mine", Seen(later.public_id, 7), (run, 0)),
        ("", Seen(later.public_id, 7), (later, 7)),
        ("", Seen("x" * 22, 7), (run, 0)),
        ("", Seen("", 7), (run, 0)),
    ):
        with CaptureQueriesContext(connection) as captured:
            found = threads.look_up(agent, "t", name=name, seen=seen)
        assert found.rest is not None
        assert (found.rest.run, found.rest.seen) == wanted, (name, seen)
        assert not any("ag_ui" in each["sql"] for each in captured)
    messages = found.snapshot["messages"]
    assert isinstance(messages, list)
    assert messages[0]["id"] == body["messages"][0]["id"]
    for caller, name in ((agent, "none"), (Principal(user=User.objects.create()), "mine")):
        with pytest.raises(RefusedError):
            threads.look_up(caller, "t", name=name, seen=Seen())


def test_w15_senders_whose_long_names_begin_alike_have_conversations_of_their_own() -> None:
    """[W15] Of one person with an open list: neither goes on with the other's response."""
    User.objects.create(username="open", only_listed=False)
    bridge = Principal(account=ChannelAccount.objects.create(channel="bridge", name="b"))
    one, other = ("x" * 150 + end for end in "ab")
    more = stored.kept_of(responses.read({"model": "default", "input": "Hello"}), "en")
    runs = [
        run_of(acceptance.accept(bridge, ask, "", None))
        for ask in (Ask(model="", messages=HISTORY, user=each, more=more) for each in (one, other))
    ]
    assert runs[0].session_id != runs[1].session_id
    name = stored.id_of(runs[0])
    assert stored.find(bridge, name, sender=one) == runs[0]
    with pytest.raises(RefusedError):
        stored.find(bridge, name, sender=other)


@pytest.mark.django_db(transaction=True)
async def test_w42_a_message_with_a_file_comes_back_as_it_was_sent(tmp_path: Path) -> None:
    """[W42] By the client's id, or the page shows it twice; without what the file holds, which was
    added for the model.
    """
    file = {"type": "document", "source": {"type": "data", "value": "aGk=", "mimeType": "a/b"}}
    body = frames.said([{"type": "text", "text": "Read this"}, file], thread="t", run="mine")

    def accepted() -> tuple[Principal, int]:
        """Return a person with a key, and their run."""
        user = User.objects.create(username="ann")
        key, _ = keys.create(name="page", user=user, scopes=["chat"])
        caller = Principal(user=user, key_id=key.pk, scopes=["chat"])
        return caller, run_of(threads.accept(caller, ag_ui.read(body))).pk

    caller, number = await in_thread(accepted)
    runs = Run.objects.select_related("user", "session__account")
    with override_settings(GATEWAY_HOME=tmp_path):
        await media.prepare(await in_thread(runs.get, pk=number), Describer())
    run = await in_thread(runs.get, pk=number)
    assert run.text.startswith("[file message received]")
    look_up = partial(threads.look_up, name="mine", seen=Seen())
    found = await in_thread(look_up, caller, "t")
    [message] = cast("list[dict[str, Any]]", found.snapshot["messages"])
    assert message["id"] == body["messages"][0]["id"]
    assert message["content"] == "Read this"
    transactions.close_pool()

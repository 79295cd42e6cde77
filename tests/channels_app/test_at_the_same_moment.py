"""Two writers of the same rows: the second waits, and sees what the first one has left.

On PostgreSQL, where readers do not wait; SQLite has one writer at a time.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection, transaction
from django.test import Client, RequestFactory
from django.utils import timezone

from channels_app.agent_sessions import sessions as agent_sessions
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake.inbound import Receipt, receive_personal
from channels_app.memory.channel import say
from core.conversations import events, inbox, jobs, runs, sessions
from core.conversations.inbox import Draft
from core.database import dependents, transactions
from core.files import storage
from core.messages import text_message, to_dict
from core.models import (
    ChannelAccount,
    ChatSession,
    InboundMessage,
    Job,
    McpServer,
    McpTool,
    Message,
    Run,
    RunEvent,
    StoredFile,
    User,
)
from core.providers import catalogue
from core.tools.mcp import pins
from core.tools.mcp.offers import Offer
from tests.channels_app.running import guest, memory_account, owner
from tests.settings import TEST_DATABASE
from tests.threads import SECONDS, Beside

__all__ = ["guest", "owner"]
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(TEST_DATABASE == "sqlite", reason="SQLite has one writer at a time"),
]
STOPPED = runs.Outcome(state=Run.State.CANCELLED, error="Stopped.")
LATER = timedelta(seconds=9)


def asks(user: User, text: str, session: str = "") -> Receipt:
    """Let a person write in the web chat."""
    draft = Draft(account=builtin_account("web"), text=text)
    return receive_personal(user=user, draft=draft, session_id=session, now=timezone.now())


@pytest.fixture
def run(guest: User) -> Run:
    """Return a run that a worker holds."""
    asked = asks(guest, "hello").run
    assert asked is not None
    with transactions.atomic_write():
        (found,) = runs.claim(run_ids=[asked.pk], worker="w").values()
    return found


def end(run: Run) -> None:
    """Write the end of a stopped run, as the worker that holds it. Inside a transaction."""
    said = [(1, to_dict(text_message("Stopp")))]

    def finish(last_seq: int) -> None:
        runs.settle(run=run, outcome=STOPPED, last_seq=last_seq)

    events.write_batch([(events.log_of(run=run, seq=0), said, finish)])


def test_a_chat_is_deleted_while_a_worker_ends_its_run(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker hears at once that the run is to end, and writes while the chat is removed."""
    asked, may_go_on = threading.Event(), threading.Event()
    real = runs.request_cancel

    def request_cancel(*, run: Run) -> bool:
        found = real(run=run)
        asked.set()
        assert may_go_on.wait(SECONDS)
        return found

    monkeypatch.setattr(runs, "request_cancel", request_cancel)
    deletion = Beside(partial(sessions.delete, session=run.session))
    assert asked.wait(SECONDS)
    with transaction.atomic():
        end(run)
        may_go_on.set()
        deletion.wait_for_lock()
    deletion.result()
    for model in (ChatSession, Run, RunEvent, Message, InboundMessage):
        assert not model._default_manager.exists()


def test_of_a_form_that_is_posted_twice_at_once_the_second_is_refused(
    owner: User, rf: RequestFactory
) -> None:
    """The first click has stored the account, and its transaction has not ended."""
    User.objects.filter(pk=owner.pk).update(is_staff=True, is_superuser=True)
    browser = Client()
    browser.force_login(owner)
    given = {"channel": "bridge", "name": "mail", "enabled": "on", "config": "{}"}
    click = partial(browser.post, "/admin/core/channelaccount/add/?channel=bridge", given)
    form: Any = admin.site.get_model_admin(ChannelAccount)
    with form.changing(rf.post("/")):
        ChannelAccount.objects.create(channel="bridge", name="mail")
        second = Beside(click)
        second.wait_for_lock()
    answer = second.result()
    assert answer.status_code == 200
    assert "already exists" in answer.content.decode()


def test_rows_that_a_worker_adds_to_a_run_go_with_it(run: Run) -> None:
    """As when a person is removed in parts whose answer is being written."""
    with transaction.atomic():
        end(run)
        removal = Beside(partial(dependents.remove, Run.objects.filter(pk=run.pk)))
        removal.wait_for_lock()
    assert removal.result() == 1
    assert not RunEvent.objects.exists()


def test_a_message_that_comes_while_its_chat_is_deleted_goes_with_it(guest: User) -> None:
    """Of two phones one sends a message in the chat, and the other deletes it."""
    session = inbox.open_session(user=guest, account=builtin_account("web"))
    with transaction.atomic():
        assert asks(guest, "hello", session.public_id).outcome == "accepted"
        deletion = Beside(partial(sessions.delete, session=session))
        deletion.wait_for_lock()
    deletion.result()
    for model in (ChatSession, Run, Message, InboundMessage):
        assert not model._default_manager.exists()


def closed(session: ChatSession) -> None:
    ChatSession.objects.filter(pk=session.pk).update(closed_at=timezone.now())


@pytest.mark.parametrize("change", [ChatSession.delete, closed])
def test_a_message_into_a_chat_that_ends_at_this_moment_is_refused(
    guest: User, change: Callable[[ChatSession], object]
) -> None:
    """Of two phones one deletes the chat, while the other sends a message in it."""
    session = inbox.open_session(user=guest, account=builtin_account("web"))
    with transaction.atomic():
        change(ChatSession.objects.get(pk=session.pk))
        message = Beside(lambda: asks(guest, "hello", session.public_id).outcome)
        message.wait_for_lock()
    assert message.result() == "unknown_session"
    assert not Run.objects.exists()


def test_a_chat_that_is_renamed_while_its_first_message_comes_keeps_that_name(guest: User) -> None:
    session = inbox.open_session(user=guest, account=builtin_account("web"))
    with transaction.atomic():
        sessions.rename(session=session, title="Mine")
        message = Beside(lambda: asks(guest, "hello", session.public_id).outcome)
        message.wait_for_lock()
    assert message.result() == "accepted"
    assert ChatSession.objects.get().title == "Mine"


def test_s4_of_two_agents_that_wait_in_a_session_one_gets_the_reply(guest: User) -> None:
    session = agent_sessions.open_session(user=guest, account=builtin_account("web"))
    assert asks(guest, "go on", session.public_id).outcome == "accepted"
    with transaction.atomic():
        list(InboundMessage.objects.select_for_update().values_list("pk"))
        waiting = [Beside(partial(agent_sessions.next_reply, session)) for _ in range(2)]
        for each in waiting:
            each.wait_for_lock()
    replies = [each.result() for each in waiting]
    assert sorted(each.text if each else "" for each in replies) == ["", "go on"]


@pytest.fixture
def account(owner: User, guest: User) -> ChannelAccount:
    """Return an account that an owner and a guest use."""
    return memory_account()


def write(account: ChannelAccount, text: str, sender: str = "556") -> InboundMessage:
    """Send a message that waits for more, or is held."""
    say(account=account, text=text, message_id="1", now=timezone.now(), sender=sender, chat="c1")
    return InboundMessage.objects.get()


def edited(account: ChannelAccount, text: str, sender: str = "556") -> bool:
    """Edit that message."""
    with transactions.atomic_write():
        return inbox.edit_waiting(
            account=account, chat="c1", message_id="1", sender=sender, text=text
        )


def test_an_edit_of_a_message_that_becomes_a_run_at_this_moment_is_in_the_run(
    account: ChannelAccount,
) -> None:
    session_id = write(account, "frist").session_id
    assert session_id is not None
    with transaction.atomic():
        inbox.flush_due(session_id=session_id, now=timezone.now() + LATER)
        edit = Beside(partial(edited, account, "first"))
        edit.wait_for_lock()
    assert edit.result()
    assert Run.objects.get().text == InboundMessage.objects.get().text == "first"


def test_an_edit_of_a_held_message_that_is_let_in_at_this_moment_is_too_late(
    account: ChannelAccount, guest: User
) -> None:
    message = write(account, "frist", sender="700")
    assert message.state == "held"
    with transaction.atomic():
        InboundMessage.objects.update(state="received", user=guest)
        edit = Beside(partial(edited, account, "first", "700"))
        edit.wait_for_lock()
    assert not edit.result()
    assert InboundMessage.objects.get().text == "frist"


def test_c9_a_file_of_a_task_that_ends_while_its_run_is_stopped_is_not_handed_over(
    run: Run, tmp_path: Path
) -> None:
    """Nor kept among the person's files."""
    job = Job.objects.create(run=run, tool_call_id="a", tool="t", state="running")
    path = storage.folder() / "jobs" / "made.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"made")
    made = storage.Made(path=path, name="made.zip", mime="application/zip")
    with transaction.atomic():
        jobs.finish(job=job, result={}, made=[made])

        def stop() -> None:
            with transaction.atomic():
                end(run)

        stopping = Beside(stop)
        stopping.wait_for_lock()
    stopping.result()
    assert StoredFile.objects.get().revoked_at is not None


def test_v41_tools_that_are_listed_and_accepted_at_once_do_not_wait_for_each_other() -> None:
    """A tool that is accepted is locked, and then the version of the catalogue is raised."""
    server = McpServer.objects.create(name="Shed", slug="shed", url="https://shed.example/mcp")
    both = [Offer(name=name, description="Once.", schema={}) for name in ("one", "two")]
    now = timezone.now()
    pins.store_listing(server.pk, both, protocol="", now=now)
    changed = [Offer(name=name, description="Twice.", schema={}) for name in ("one", "two")]
    with transaction.atomic():
        McpTool.objects.select_for_update().get(name="two")
        listing = Beside(
            partial(pins.store_listing, server.pk, changed, protocol="", now=now),
        )
        listing.wait_for_lock()
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '100ms'")
        catalogue.changed()
    listing.result()
    assert {each.state for each in McpTool.objects.all()} == {"new"}

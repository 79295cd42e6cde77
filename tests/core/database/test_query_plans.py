"""The queries of a turn do not get slower with history: each hot query has its index."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.asgi.builtin_accounts import builtin_account
from channels_app.intake import inbound
from channels_app.openai_api import sessions
from channels_app.replies import outbound, typing_and_reactions
from channels_app.telegram import receive, updates
from channels_app.worker import claim_runs, runner
from core.conversations import events, inbox, outbox, runs
from core.conversations.inbox import Draft
from core.database.transactions import atomic_write
from core.messages import text_delta
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Message,
    Run,
    RunEvent,
    User,
)
from tests.channels_app.telegram.people import message

pytestmark = pytest.mark.django_db

SENDER = "somebody"
MANY = 10_000
FEW = 10
# There are a handful of channel accounts: a full scan is the quickest way.
BIG = [
    "core_user",
    "core_chatsession",
    "core_inboundmessage",
    "core_run",
    "core_runevent",
    "core_message",
    "core_delivery",
    "core_channelidentity",
    "allowlist_apikey",
]
CHECKED = ("SELECT", "UPDATE", "DELETE", "WITH")
PARTIAL = [
    "queued_runs",
    "one_running_run",
    "due_batches",
    "waiting_messages",
    "shown_acks",
    "pending_deliveries",
    "sending_by_lease",
]
# The statements of one_turn, without its INSERTs.
MOST_STATEMENTS = 43
KINDS = ("", "COVERING ")
_numbers = count()


def grow(number: int, *, account: ChannelAccount, user: User, session: ChatSession) -> None:
    """Add ``number`` people with a message each, and as many turns to ``session``."""
    now = timezone.now()
    names = User.objects.bulk_create(User(username=f"p{next(_numbers)}") for each in range(number))
    ApiKey.objects.bulk_create(
        ApiKey(user=each, name="k", prefix=f"{each.pk:012x}", digest="", scopes=["chat"])
        for each in names
    )
    ChannelIdentity.objects.bulk_create(
        ChannelIdentity(user=each, kind="im", value=str(10**9 + each.pk)) for each in names
    )
    ChatSession.objects.bulk_create(
        ChatSession(user=each, account=account, chat=each.username) for each in names
    )
    done = Run.objects.bulk_create(
        Run(session=session, user=user, origin="http", state="succeeded") for _ in range(number)
    )
    InboundMessage.objects.bulk_create(
        InboundMessage(
            account=account,
            session=session,
            user=user,
            run=run,
            chat=session.chat,
            external_update_id=f"u{run.pk}",
            external_message_id=f"m{run.pk}",
            state="answered",
            received_at=now,
        )
        for run in done
    )
    Message.objects.bulk_create(
        Message(session=session, run=run, role=role, text="words", tokens=2)
        for run in done
        for role in ("user", "assistant")
    )
    RunEvent.objects.bulk_create(RunEvent(run=run, seq=1, data="{}") for run in done)
    Delivery.objects.bulk_create(
        Delivery(
            account=account,
            session=session,
            run=run,
            dedupe_key=f"run:{run.pk}:0",
            conversation=f"{account.pk}:c:",
            state="sent",
        )
        for run in done
    )
    analyse()


def analyse() -> None:
    """Update the planner's statistics, as a database does by itself in time."""
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def one_turn(*, account: ChannelAccount, user: User, session: ChatSession, token: str) -> None:
    """Run everything that one question costs: receive, claim, frame, settle, delivery, sweep."""
    now = timezone.now()
    key = keys.authenticate(token=token, now=now)
    assert key is not None
    sessions.free_session(account=account, chat="key:1", user=user)
    sessions.parallel_thread(account=account, chat="key:1", user=user)
    platform = Draft(
        account=account,
        sender=SENDER,
        chat=session.chat,
        update_id=f"new-{now.timestamp()}",
        message_id=f"new-{now.timestamp()}",
        text="hello",
    )
    inbound.receive_sender(draft=platform, now=now, debounce=True)
    runner.waiting([session.id])
    [marks] = typing_and_reactions.marks_of([session.id])
    assert isinstance(marks, list)
    assert len(marks) == 1, "eyes on what was just said, and on nothing else"
    assert typing_and_reactions.were_answered([marks[0].id]) == [False]
    typing_and_reactions.cleared(marks[0].id)
    own = Draft(account=account, chat=session.chat, text="hello")
    receipt = inbound.receive_personal(user=user, draft=own, session_id="", now=now)
    assert receipt.run is not None
    [begun] = claim_runs.begin([receipt.run.id], "worker")
    assert isinstance(begun, claim_runs.Begun)
    assert len(begun.messages) > 2, "the model is told what was said before"
    said: Any = {"type": "text", "props": text_delta("hi", message_id="t").props}
    events.write_batch([(begun.log, [said], None)])
    events.after(run_id=begun.run.id, seq=1, limit=10)
    outcome = runs.Outcome(state="succeeded", text="hi")
    with atomic_write():
        runs.settle(run=begun.run, outcome=outcome, last_seq=2, also=outbound.enqueue_answer)
        delivery = outbound.put_block(run=begun.run, index=0, payload={"text": "hi"})
    runs.wake_next(session.id)
    claimed = outbox.claim(delivery_id=delivery.id)
    assert claimed is not None
    outbox.sent(delivery=claimed, external_message_id="1")
    sweep()
    with atomic_write():
        assert inbox.flush_due(session_id=session.id, now=now + timedelta(minutes=1))


def sweep() -> None:
    """Run every worker's regular queries."""
    runs.keep(held={1: 1}, worker="worker")
    runs.recover()
    inbox.due_sessions(now=timezone.now())
    outbox.due()
    outbox.lost()
    typing_and_reactions.leftovers()


@dataclass(frozen=True)
class Asked:
    """A statement as the database got it: SQLite plans one by its values, if it has them."""

    sql: str
    params: Any

    def read_whole(self) -> list[str]:
        """Return the big tables that the planner reads from end to end."""
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute(f"EXPLAIN QUERY PLAN {self.sql}", self.params)
                plan = [str(row[-1]) for row in cursor.fetchall()]
                # A scan with a partial index reads only the rows of its condition.
                scans = [line.split()[1] for line in plan if is_scan(line)]
                return [self.table(each) for each in scans if self.table(each) in BIG]
            cursor.execute(f"EXPLAIN {self.sql}", self.params)
            plan = [str(row[0]) for row in cursor.fetchall()]
            found = [each for line in plan for each in re.findall(r"Seq Scan on (\w+)", line)]
            return [each for each in found if each in BIG]

    def table(self, alias: str) -> str:
        """Return the table behind an alias."""
        named = re.search(rf'"(\w+)" {alias}\b', self.sql)
        return named[1] if named else alias


def is_scan(line: str) -> bool:
    """Return whether a line of SQLite's plan means that all rows of a table are read."""
    partial = any(f"USING {kind}INDEX {name}" in line for name in PARTIAL for kind in KINDS)
    return line.startswith("SCAN") and not partial


@contextmanager
def listening() -> Iterator[list[Asked]]:
    """Record the statements that are executed meanwhile."""
    asked: list[Asked] = []

    def note(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if sql.startswith(CHECKED):
            asked.append(Asked(sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield asked


def test_an_album_is_looked_for_among_the_messages_of_its_chat(
    account: ChannelAccount,
) -> None:
    """A group that talks among itself causes this query with every picture of an album."""
    now = timezone.now()
    InboundMessage.objects.bulk_create(
        InboundMessage(
            account=account,
            chat=f"c{number % 500}",
            external_message_id=f"{number}",
            received_at=now,
        )
        for number in range(5_000)
    )
    analyse()
    photo = [{"file_id": "p", "width": 1, "height": 1}]
    update = updates.read(message(chat=-100, photo=photo, media_group_id="a1"))
    assert isinstance(update, updates.NewMessage)
    with listening() as asked:
        assert not receive.is_of_our_album(account, update.message)
    [question] = asked
    prefix = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    with connection.cursor() as cursor:
        cursor.execute(f"{prefix} {question.sql}", question.params)
        assert "one_platform_message" in str(cursor.fetchall())


def test_ten_thousand_messages_and_people_cost_a_turn_no_more_than_ten(
    account: ChannelAccount, user: User, session: ChatSession, woken: list[tuple[str, int]]
) -> None:
    """As many statements, and none that scans a whole table."""
    _, token = keys.create(name="k", user=user, scopes=["chat"])
    ChannelIdentity.objects.create(user=user, kind="im", value=SENDER)
    account.channel = "memory"  # one that shows reactions and delivers the answer
    account.save()

    def turn() -> list[Asked]:
        Run.objects.exclude(state="succeeded").delete()  # only work of the previous turn waits
        ApiKey.objects.update(last_used_at=timezone.now())  # recorded once a minute, not now
        User.objects.update(last_spoke_at=None)  # recorded once a second, now
        builtin_account(sessions.ORIGIN)  # cached for a while
        with listening() as asked:
            one_turn(account=account, user=user, session=session, token=token)
        return asked

    grow(FEW, account=account, user=user, session=session)
    turn()
    before = [each.sql for each in turn()]
    grow(MANY, account=account, user=user, session=session)
    after = turn()
    assert 20 < len(before) <= MOST_STATEMENTS
    assert [each.sql for each in after] == before
    slow = {each.sql: found for each in after if (found := each.read_whole())}
    assert slow == {}
    # If the check found nothing here, the test would prove nothing.
    assert Asked("SELECT id FROM core_message WHERE text = %s", ["x"]).read_whole()

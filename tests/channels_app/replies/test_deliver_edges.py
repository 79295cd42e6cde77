"""[RC8] One delivery: its turn, its call under a lease, and what is known of it."""

import asyncio
import logging
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone
from pytest_django import Settings

from channels_app import registry
from channels_app.base import ChannelError
from channels_app.delivery import find_sent, sending
from channels_app.memory.channel import PLATFORM
from channels_app.replies import outbound
from channels_app.replies.outbound import Next
from core.conversations import outbox, traces
from core.database import transactions
from core.database.batching import in_shared_transaction
from core.lib import leases, log_ids
from core.models import ChannelAccount, Delivery, Run, User
from tests.channels_app.replies.deliveries import (
    CHAT,
    Pacer,
    deliver,
    in_doubt,
    put,
    refuse,
    session_of,
    stored,
)

pytestmark = pytest.mark.django_db(transaction=True)
State = Delivery.State


def test_a_message_is_sent_once_and_its_id_is_kept(
    account: ChannelAccount, ended: list[int]
) -> None:
    row = put(account)
    assert deliver(row, ended) is None
    [sent] = PLATFORM.sent
    assert (sent.block, sent.target.reply_to, sent.key) == ({"text": "x"}, "7", row.dedupe_key)
    found = stored(row)
    assert (found.state, found.external_message_id) == (State.SENT, sent.id)
    assert ended == [row.id]
    assert deliver(row, ended) is None
    assert (len(PLATFORM.sent), ended) == (1, [row.id])


def test_a_message_behind_another_is_not_sent(account: ChannelAccount, ended: list[int]) -> None:
    put(account, "first")
    assert deliver(put(account, "second"), ended) is None
    assert (PLATFORM.sent, ended) == ([], [])


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses that were made: none takes any time."""
    paused: list[float] = []

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    fake: Any = SimpleNamespace(sleep=sleep, timeout=asyncio.timeout)
    monkeypatch.setattr(outbound, "asyncio", fake)
    return paused


@pytest.mark.parametrize(
    ("seconds", "is_sent"), [(0.0, True), (0.5, True), (2.0, True), (2.5, False)]
)
def test_the_rate_limit_is_waited_for_only_when_it_is_near(
    seconds: float,
    is_sent: bool,
    account: ChannelAccount,
    pause: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And before the claim: a message that waits is no try, and no other worker's loss."""
    row = put(account)
    monkeypatch.setattr(outbound, "pacer", lambda: Pacer(seconds))
    found = deliver(row)
    assert found == (None if is_sent else Next(row.id, seconds))
    assert pause == ([seconds] if is_sent and seconds else [])
    assert (stored(row).state, stored(row).attempt) == (
        (State.SENT, 1) if is_sent else ("pending", 0)
    )


def test_where_its_channel_is_not_installed_a_message_is_given_up(
    account: ChannelAccount, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = put(account)
    monkeypatch.setattr(registry, "get", lambda name: None)
    assert deliver(row, ended) is None
    assert stored(row).state == State.DEAD
    assert "not installed" in stored(row).error
    assert ended == [row.id]


def test_no_call_is_made_after_the_lease(
    account: ChannelAccount, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stood still between claim and call; the message is due again at once."""
    row = put(account)
    perform = sending.perform

    async def late(**given: Any) -> str:
        monkeypatch.setattr(leases, "elapsed", lambda: 10.0**9)
        return await perform(**given)

    monkeypatch.setattr(sending, "perform", late)
    assert deliver(row, ended) == Next(row.id)
    assert (PLATFORM.sent, ended) == ([], [])
    found = stored(row)
    assert (found.state, found.tries, found.retry_at) == (State.PENDING, 0, None)
    monkeypatch.undo()
    assert deliver(row) is None
    assert len(PLATFORM.sent) == 1


@pytest.mark.parametrize(("stood_still", "longest"), [(0.0, 80.0), (50.0, 40.0)])
def test_a_call_may_take_four_fifths_of_its_lease(
    stood_still: float,
    longest: float,
    account: ChannelAccount,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then another worker takes it for lost."""
    settings.DELIVERY_LEASE_SECONDS = 100
    times = [1000.0]
    monkeypatch.setattr(outbox, "elapsed", lambda: times[0])
    monkeypatch.setattr(leases, "elapsed", lambda: times[0] + stood_still)
    limits: list[float] = []

    def timeout(seconds: float) -> asyncio.Timeout:
        limits.append(seconds)
        return asyncio.timeout(seconds)

    fake: Any = SimpleNamespace(sleep=asyncio.sleep, timeout=timeout)
    monkeypatch.setattr(outbound, "asyncio", fake)
    deliver(put(account))
    assert limits == [longest]


@pytest.mark.parametrize("is_searched", [False, True])
def test_a_call_ends_before_another_worker_takes_it_for_lost(
    is_searched: bool,
    account: ChannelAccount,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was not begun leaves no doubt."""
    settings.DELIVERY_LEASE_SECONDS = 0.5
    row = put(account)
    if is_searched:
        in_doubt(row, after_id=1)

    async def hang(**_: Any) -> str:
        await asyncio.Event().wait()
        return ""

    monkeypatch.setattr(find_sent, "clear_doubt", hang)
    monkeypatch.setattr(sending, "perform", hang)
    found = deliver(row)
    assert found is not None
    assert found.seconds > 0
    error = stored(row).error
    assert "did not answer in time" in error
    assert error.startswith(outbox.UNKNOWN) == (not is_searched)


def test_a_search_that_has_to_wait_is_no_failure(
    account: ChannelAccount, ended: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = put(account)
    in_doubt(row, after_id=1)

    async def later(**_: Any) -> None:
        raise find_sent.NotYetError(3.0)

    monkeypatch.setattr(find_sent, "clear_doubt", later)
    before, now = stored(row).tries, timezone.now()
    assert deliver(row, ended) == Next(row.id, 3.0)
    found = stored(row)
    assert found.retry_at is not None
    assert 0 < (found.retry_at - now).total_seconds() < 60
    assert (found.state, found.tries, ended, PLATFORM.sent) == (State.PENDING, before, [], [])


def test_the_id_of_a_new_message_waits_for_no_other_record(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the message has to be found again after a crash; an edit is only made again."""
    shared: list[str] = []
    together = in_shared_transaction

    async def noted(call: Any) -> Any:
        shared.append(call.func.__name__)
        return await together(call)

    monkeypatch.setattr(outbound, "in_shared_transaction", noted)
    row = put(account)
    deliver(row)
    assert shared == ["claim"]
    Delivery.objects.update(state=State.PENDING)
    deliver(row)
    assert shared == ["claim", "claim", "sent"]


def test_a_message_that_has_arrived_is_recorded_when_the_database_is_back(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nothing tells whether it has: it would be sent once more, or left to the owner."""
    monkeypatch.setattr(transactions, "AWAY_SECONDS", 0.01)
    record, failures = outbox.sent, [OperationalError("the server closed the connection")]

    def sometimes(**given: Any) -> None:
        if failures:
            raise failures.pop()
        record(**given)

    monkeypatch.setattr(outbox, "sent", sometimes)
    row = put(account)
    assert deliver(row) is None
    assert (stored(row).state, len(PLATFORM.sent), failures) == (State.SENT, 1, [])


@pytest.mark.parametrize("is_taken_over", [True, False])
def test_the_last_edit_of_a_run_that_was_taken_over_is_made_once_more(
    is_taken_over: bool, account: ChannelAccount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of the earlier worker may have been in flight."""
    row = put(account)
    if is_taken_over:
        outbound.TAKEN_OVER.append(row.id)
    monkeypatch.setattr(outbound, "REPEAT_SECONDS", 0.0)
    repeated: list[int] = []
    monkeypatch.setattr(outbox, "repeat", lambda *, delivery_id: repeated.append(delivery_id))

    async def work() -> None:
        await outbound.deliver(row.id)
        for _ in range(3):  # its timer is due, and begins a task
            await asyncio.sleep(0.0)
        await asyncio.gather(*outbound.repeating)

    asyncio.run(work())
    assert repeated == []  # its id is new: there was nothing to edit
    Delivery.objects.filter(id=row.id).update(state=State.PENDING, payload={"text": "whole"})
    asyncio.run(work())
    assert PLATFORM.texts(CHAT) == ["whole"]
    assert repeated == ([row.id] if is_taken_over else [])
    assert not outbound.TAKEN_OVER


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return how the steps of traces ended: the state, and the code of a failure."""
    found: list[tuple[str, str]] = []

    def note(state: str, *, code: str = "") -> None:
        found.append((state, code))

    monkeypatch.setattr(traces, "ended", note)
    return found


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ChannelError("blocked", permanent=True, trouble="blocked"), "blocked"),
        (ChannelError("cut", unsure=True), "unsure"),
        (ChannelError("away"), "failed"),
    ],
)
def test_a_trace_shows_how_a_delivery_ended(
    error: ChannelError, code: str, account: ChannelAccount, endings: list[tuple[str, str]]
) -> None:
    deliver(put(account, conversation="other"))
    refuse(error)
    deliver(put(account, "y"))
    assert endings == [("sent", ""), ("failed", code)]


def test_a_trace_and_the_log_know_run_and_session(
    account: ChannelAccount, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = session_of(account)
    run = Run.objects.create(session=session, user=session.user, origin="memory", text="hi")
    row = put(account, session_id=session.pk, run_id=run.id)
    traced: list[int] = []

    def step(row: Delivery) -> Any:
        traced.append(row.id)
        return nullcontext()

    monkeypatch.setattr(traces, "delivery", step)
    known: list[dict[str, str]] = []
    monkeypatch.setattr(log_ids, "begin", lambda **ids: known.append(ids))
    refuse(ChannelError("too long", permanent=True))
    with caplog.at_level(logging.WARNING, logger="channels_app.replies.outbound"):
        deliver(row)
    assert f"person ada, run {run.public_id})" in caplog.text
    assert traced == [row.id]
    deliver(put(account, "alone", conversation="other"))
    assert known == [
        {"run": run.public_id, "session": session.public_id},
        {"run": "", "session": ""},
    ]


def test_the_log_names_account_person_and_run(
    account: ChannelAccount, caplog: pytest.LogCaptureFixture
) -> None:
    row = put(account, session_id=session_of(account).pk)
    refuse(ChannelError("too long", permanent=True))
    with caplog.at_level(logging.WARNING, logger="channels_app.replies.outbound"):
        deliver(row)
    assert f"delivery {row.id} (memory/main, chat c, person ada, run none)" in caplog.text


def test_the_log_has_the_person_of_a_run_and_part_of_a_long_chat(account: ChannelAccount) -> None:
    session = session_of(account)
    other = User.objects.create(username="bob")
    run = Run.objects.create(session=session, user=other, origin="memory", text="hi")
    row = Delivery(id=7, account=account, target={"chat": "c" * 70}, run=run, session=session)
    text = outbound.log_name(row)
    assert text.endswith(f"person bob, run {run.public_id})")
    assert f"chat {'c' * 63}…," in text
    row = Delivery(id=7, account=account, target={"chat": CHAT})
    assert outbound.log_name(row) == "delivery 7 (memory/main, chat c, person none, run none)"

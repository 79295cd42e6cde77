"""The open work of a restored database waits for the owner [X44] [X45] [X46]."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from allowlist import audit
from channels_app.ops import restored
from channels_app.ops.doctor import work
from channels_app.schedules import outcomes
from channels_app.worker import claim_runs, finish_run, run_turn
from core.conversations import inbox, outbox, runs
from core.conversations.schedules.changes import Grant, Wish, create
from core.database.transactions import atomic_write
from core.models import (
    Backup,
    BackupSchedule,
    ChannelAccount,
    ChatSession,
    Delivery,
    InboundMessage,
    Job,
    Occurrence,
    Run,
    Schedule,
    User,
)
from tests.core.conftest import Say, account, say, session, user, woken

__all__ = ["account", "say", "session", "user", "woken"]
pytestmark = pytest.mark.django_db(transaction=True)
MADE_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
HELD = Run.State.HELD
Woken = list[tuple[str, int]]


def claimed(run: Run) -> bool:
    return bool(runs.claim(run_ids=[run.id], worker="w"))


def hold() -> restored.Held:
    return restored.hold(made_at=MADE_AT, now=timezone.now())


def states(*rows: Run) -> list[str]:
    return [Run.objects.get(pk=each.pk).state for each in rows]


def put(key: str, account: ChannelAccount, **more: Any) -> Delivery:
    with atomic_write():
        return outbox.enqueue(
            key=key,
            account_id=account.id,
            conversation="c",
            target={"chat": "42"},
            payload={"text": key},
            **more,
        )


def test_x44_open_work_is_held_and_new_questions_are_answered(
    say: Say, session: ChatSession, woken: Woken
) -> None:
    running, queued = say("1"), say("2")
    assert claimed(running)
    job = Job.objects.create(run=running, tool_call_id="c", tool="t", state=Run.State.RUNNING)
    with atomic_write():
        draft = inbox.Draft(account=session.account, chat=session.chat, text="3")
        inbox.store(
            draft=draft,
            state=InboundMessage.State.RECEIVED,
            now=timezone.now(),
            user=session.user,
            session=session,
        )
    assert hold().runs == 3
    assert set(Run.objects.values_list("state", flat=True)) == {HELD}
    job.refresh_from_db()
    assert job.state == HELD
    assert runs.recover() == []
    assert not claimed(running)
    assert not claimed(queued)
    assert claimed(say("4")), "what is held does not block its conversation"
    (finding,) = work.held()
    assert "3 questions" in finding.what
    assert audit.check().broken is None


def test_x45_the_owner_lets_go_or_drops(say: Say, woken: Woken) -> None:
    kept, dropped, asked = say("1"), say("2"), say("3")
    assert runs.request_cancel(run=asked)
    assert hold().runs == 2, "who had asked to stop is not asked again"
    assert runs.let_go(Run.objects.filter(pk=kept.pk)) == 1
    assert runs.request_cancel(run=dropped)
    assert states(kept, dropped, asked) == [Run.State.QUEUED] * 3
    assert ("wake", kept.id) in woken
    assert claimed(kept)
    assert runs.cancelled_while_queued(dropped.id) is not None
    assert runs.let_go(Run.objects.all()) == 0
    assert not list(work.held())


@pytest.mark.parametrize("choice", ["go", "cancel"])
def test_x45_one_button_of_the_dashboard_decides_over_all(
    say: Say, user: User, woken: Woken, client: Client, choice: str
) -> None:
    one, other = say("1"), say("2")
    hold()
    address = "/admin/core/run/held"
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client.force_login(User.objects.get(pk=user.pk))
    assert client.post(address, {"choice": choice}).status_code == 403
    assert states(one, other) == [HELD, HELD]
    User.objects.filter(pk=user.pk).update(is_owner=True, is_superuser=True)
    client.force_login(User.objects.get(pk=user.pk))
    page = client.get("/admin/").content.decode()
    assert "Held since the restore" in page
    assert f'action="{address}"' in page
    assert client.get(address).status_code == 405
    assert client.post(address, {"choice": choice}).status_code == 302
    assert states(one, other) == [Run.State.QUEUED] * 2
    asked = Run.objects.exclude(cancel_requested_at=None).count()
    assert asked == (0 if choice == "go" else 2)
    assert "Held since the restore" not in client.get("/admin/").content.decode()
    cache.clear()  # the dashboard keeps the doctor's findings for a minute


def test_x46_unsent_messages_wait_for_the_owner(
    say: Say, account: ChannelAccount, woken: Woken
) -> None:
    run = say("1")
    of_run = put("run:1:0", account, run_id=run.id)
    pending, sending = put("a", account), put("b", account)
    Delivery.objects.filter(pk=sending.pk).update(state=Delivery.State.SENDING)
    edit = put("c", account)
    Delivery.objects.filter(pk=edit.pk).update(external_message_id="7")
    half = put("run:1:1", account, run_id=run.id, block_index=1)
    Delivery.objects.filter(pk=half.pk).update(external_message_id="8")
    assert hold().deliveries == 2
    assert not Delivery.objects.filter(pk=of_run.pk).exists(), "the run makes it again"
    found = dict(Delivery.objects.values_list("dedupe_key", "state"))
    uncertain = Delivery.State.UNCERTAIN
    # An older text of a growing answer does not take the place of a newer one.
    edits = {"c": Delivery.State.PENDING, "run:1:1": Delivery.State.SENT}
    assert found == {"a": uncertain, "b": uncertain, **edits}
    assert outbox.retry(pending.pk)
    assert outbox.dismiss(sending.pk)


def end_without_a_place(run: Run) -> None:
    finish_run.end_queued(run.id)


def end_with_a_place(run: Run) -> None:
    """Let a worker claim a run, which another one may do before it is ended without a place."""
    [begun] = claim_runs.begin([run.id], "w")
    assert isinstance(begun, claim_runs.Begun)

    async def taken() -> None:
        task = asyncio.ensure_future(asyncio.sleep(0))
        await run_turn.take(begun, run_turn.Held(begun.run, task, begun.lease))

    asyncio.run(taken())


@pytest.mark.parametrize("end", [end_without_a_place, end_with_a_place])
def test_x56_a_held_answer_that_is_cancelled_stays_as_it_is_shown(
    say: Say, account: ChannelAccount, woken: Woken, end: Callable[[Run], None]
) -> None:
    """It may have grown after the backup. A person without a part of it is told of the stop."""
    ChannelAccount.objects.filter(pk=account.pk).update(channel="telegram")
    shown, silent = say("1"), say("2")
    grown = put("run:1:0", account, run_id=shown.id)
    Delivery.objects.filter(pk=grown.pk).update(external_message_id="8")
    hold()
    for run in (shown, silent):
        Run.objects.filter(pk=run.pk).update(
            route={"account": account.id, "chat": "42", "thread": "", "reply_to": ""}
        )
        assert runs.request_cancel(run=run)
        end(run)
    assert states(shown, silent) == [Run.State.CANCELLED] * 2
    grown.refresh_from_db()
    assert (grown.payload, grown.state) == ({"text": "run:1:0"}, Delivery.State.SENT)
    told = Delivery.objects.filter(run=silent).values_list("payload__text", flat=True)
    assert [str(each)[0] for each in told] == ["⏹"]


def test_x46_a_delivery_in_doubt_blocks_no_chat_and_is_not_searched_for(
    account: ChannelAccount, woken: Woken
) -> None:
    """A search edits messages to find its own; those after the copy are unknown here."""
    doubtful = put("a", account)
    place = outbox.chat_of(doubtful)
    Delivery.objects.filter(pk=doubtful.pk).update(doubt_chat=place, after_id=7)
    assert hold().deliveries == 1
    assert outbox.dismiss(doubtful.pk)
    new = put("b", account)
    assert outbox.claim(delivery_id=new.pk) is not None
    Delivery.objects.filter(pk=doubtful.pk).update(state=Delivery.State.UNCERTAIN)
    assert outbox.retry(doubtful.pk)
    doubtful.refresh_from_db()
    assert (doubtful.doubt_chat, doubtful.after_id) == ("", None)


def test_x46_a_reminder_that_was_due_meanwhile_is_skipped_and_the_next_one_waits(
    user: User, session: ChatSession, woken: Woken
) -> None:
    wish = Wish(text="Stand up", rule="FREQ=DAILY", minutes=5, time_zone="UTC")
    schedule = create(user=user, session=session, wish=wish, grant=Grant(), now=timezone.now())
    Occurrence.objects.update(nominal_at=timezone.now() - timedelta(hours=1))
    assert hold().skipped == 1
    rows = Occurrence.objects.filter(schedule=schedule).order_by("nominal_at")
    assert [row.state for row in rows] == [Occurrence.State.SKIPPED, Occurrence.State.WAITING]
    assert rows[0].note == restored.MISSED
    assert rows[1].nominal_at > timezone.now()


def test_x46_a_time_zone_that_this_machine_lacks_does_not_stop_a_restore(
    user: User, session: ChatSession, woken: Woken
) -> None:
    wish = Wish(text="Stand up", rule="FREQ=DAILY", minutes=5, time_zone="UTC")
    lacking = create(user=user, session=session, wish=wish, grant=Grant(), now=timezone.now())
    create(user=user, session=session, wish=wish, grant=Grant(), now=timezone.now())
    Schedule.objects.filter(pk=lacking.pk).update(time_zone="Nowhere/Town")
    Occurrence.objects.update(nominal_at=timezone.now() - timedelta(hours=1))
    assert hold().skipped == 1
    assert Occurrence.objects.get(schedule=lacking).state == Occurrence.State.WAITING


def test_x44_a_scheduled_task_that_is_held_is_not_done(
    say: Say, user: User, session: ChatSession, woken: Woken
) -> None:
    wish = Wish(text="Look", kind="prompt", minutes=5, time_zone="UTC")
    create(user=user, session=session, wish=wish, grant=Grant(), now=timezone.now())
    row = Occurrence.objects.get()
    row.state, row.run, row.fired_at = Occurrence.State.FIRED, say("Look"), timezone.now()
    row.save()
    hold()
    assert not outcomes.outcome_of(Occurrence.objects.get(), now=timezone.now()).is_over


def test_x44_backups_of_the_other_home_are_not_listed_and_the_schedule_goes_on() -> None:
    now = timezone.now()
    Backup.objects.create(cause="schedule", asked_at=now, state="running", lease_until=now)
    BackupSchedule.objects.create(is_on=True, next_at=now)
    hold()
    assert not Backup.objects.exists()
    schedule = BackupSchedule.objects.get()
    assert (schedule.is_on, schedule.next_at) == (True, None)

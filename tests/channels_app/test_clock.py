"""The clock jumps: every time that work waits for, set as a jump leaves it, on a running worker.

A jump moves our clock, so a stored time seems as much later as the clock was set back.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import models, transaction
from django.db.models import F
from django.utils import timezone
from pytest_django import Settings

from allowlist.models import ApiKey, AuditEntry, UnknownRequest
from channels_app.agent_sessions import sessions
from channels_app.asgi import throttling
from channels_app.memory.channel import PLATFORM, say
from channels_app.owner import backups, notices
from channels_app.worker import account_watcher, finish_run
from channels_app.worker import runner as running_code
from channels_app.worker.runner import Runner
from core.conversations import inbox, outbox, push_messages, runs
from core.conversations.schedules import occurrences
from core.models import (
    Backup,
    BackupSchedule,
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Delivery,
    InboundMessage,
    Job,
    LanguageModel,
    McpConnection,
    McpRevocation,
    McpServer,
    McpSignIn,
    ModelCircuit,
    ModelProvider,
    Occurrence,
    PushMessage,
    PushSubscription,
    RetentionRule,
    Run,
    RunPause,
    Schedule,
    ToolCall,
    User,
    WorkerHeartbeat,
)
from core.providers import circuits
from core.tools.mcp.oauth import connections, sign_ins
from tests.channels_app.running import memory_account, until

pytestmark = pytest.mark.django_db(transaction=True)

JUMPS = [timedelta(hours=1), timedelta(days=1), timedelta(hours=-1), timedelta(days=-1)]
OURS = ("core", "allowlist", "channels_app")
Waits = Callable[["Jump"], Callable[[], object]]
WAITS: dict[str, Waits] = {}
# Rights that expire: they end by the current clock. Rights that a clock set
# back makes valid again are reported to the owner.
RIGHTS = {
    "core.ChannelIdentity.expires_at",
    "core.StoredFile.expires_at",
    "allowlist.ApiKey.expires_at",
    "allowlist.SignInLink.expires_at",
    "allowlist.LinkCode.expires_at",
    "allowlist.LinkCode.identity_expires_at",
    "core.ToolGrant.until",
    "core.McpConnection.expires_at",
}
# Records of past times: nothing waits for them. `notice_at`, `answered_at` and
# `LinkAttempt.at` are counted within the last hour; a future one counts as long ago.
RECORDS = {
    "core.User.date_joined",
    "core.User.last_login",
    "core.User.last_spoke_at",
    "core.ChannelAccount.created_at",
    "core.ChannelAccount.outage_at",
    "core.ChannelIdentity.created_at",
    "core.ChatSession.created_at",
    "core.ChatSession.last_message_at",
    "core.Installation.restored_at",
    "core.Installation.certificate_checked_at",
    "core.Installation.certificate_ends_at",
    "core.Installation.folded_until",
    "core.Alert.seen_at",
    "core.Alert.told_at",
    "core.Installation.restored_from",
    "core.Backup.asked_at",
    "core.Backup.finished_at",
    "core.ChatSession.closed_at",
    "core.Run.cancel_requested_at",
    "core.Run.created_at",
    "core.Run.started_at",
    "core.Run.finished_at",
    "core.Message.created_at",
    "core.Job.created_at",
    "core.Job.finished_at",
    "core.Delivery.claimed_at",
    "core.Delivery.created_at",
    "core.Delivery.queued_at",
    "core.Delivery.sent_at",
    "core.StoredFile.revoked_at",
    "core.StoredFile.purged_at",
    "core.StoredFile.created_at",
    "core.Skill.changed_at",
    "core.RunFailure.at",
    "core.Assistant.created_at",
    "core.AssistantVersion.created_at",
    "core.Budget.created_at",
    "core.BudgetPeriod.refused_at",
    "core.BudgetPeriod.told_80_at",
    "core.BudgetPeriod.told_100_at",
    "core.ChatSession.shortened_at",
    "core.LanguageModel.created_at",
    "core.ModelCall.created_at",
    "core.ModelCircuit.failed_at",
    "core.ModelCircuit.opened_at",
    "core.ModelCircuit.told_at",
    "core.ModelProvider.checked_at",
    "core.ModelProvider.created_at",
    "core.ModelTrouble.since",
    "core.Occurrence.nominal_at",
    "core.Occurrence.fired_at",
    "core.Occurrence.executed_at",
    "core.Occurrence.delivered_at",
    "core.Occurrence.acknowledged_at",
    "core.Schedule.created_at",
    "core.Schedule.changed_at",
    "core.ModelTrouble.last_at",
    "core.ModelTrouble.told_at",
    "allowlist.UnknownRequest.first_seen_at",
    "allowlist.UnknownRequest.last_seen_at",
    "allowlist.UnknownRequest.notice_at",
    "allowlist.UnknownRequest.notified_at",
    "allowlist.UnknownRequest.answered_at",
    "allowlist.UnknownRequest.decided_at",
    "allowlist.ApiKey.revoked_at",
    "allowlist.ApiKey.last_used_at",
    "allowlist.ApiKey.created_at",
    "allowlist.SignInLink.used_at",
    "allowlist.SignInLink.created_at",
    "allowlist.BlockPattern.last_hit_at",
    "allowlist.BlockPattern.created_at",
    "allowlist.LinkCode.used_at",
    "allowlist.LinkCode.created_at",
    "allowlist.LinkAttempt.at",
    "allowlist.AuditEntry.at",
    "core.RunPause.created_at",
    "core.ToolCall.created_at",
    "core.ToolCall.decided_at",
    "core.ToolCall.finished_at",
    "core.ToolCall.started_at",
    "core.ToolGrant.created_at",
    "core.ToolRule.created_at",
    "core.RetentionRule.created_at",
    "core.Run.condensed_at",
    "core.SearchProvider.checked_at",
    "core.SearchProvider.created_at",
    "core.McpServer.checked_at",
    "core.McpServer.created_at",
    "core.McpServer.listed_at",
    "core.McpTool.accepted_at",
    "core.McpTool.created_at",
    "core.McpFinding.created_at",
    "core.McpFinding.reported_at",
    "core.McpConnection.connected_at",
    "core.McpConnection.proven_at",
    "core.McpConnection.refused_at",
    "core.McpSignIn.created_at",
    "core.McpSignIn.done_at",
    "core.PushMessage.created_at",
    "core.PushMessage.sent_at",
    "core.PushSubscription.created_at",
    "core.PushSubscription.succeeded_at",
    "channels_app.SourceFeedback.changed_at",
    "channels_app.SourceFeedback.created_at",
    "channels_app.SeenSignature.at",
}


@dataclass(frozen=True)
class Jump:
    """The offset of a stored time, and the place where its work waits."""

    by: timedelta
    account: ChannelAccount
    user: User

    def all_that_waits(self) -> dict[str, Callable[[], object]]:
        """Make work that waits for each of the columns; return whether it is done, by name."""
        return {work.__name__: work(self) for work in dict.fromkeys(WAITS.values())}

    def session(self, chat: str, **more: Any) -> ChatSession:
        """Return a conversation of its own."""
        place = {"user": self.user, "account": self.account, "chat": chat}
        return ChatSession.objects.create(**place, **more)

    def run(self, chat: str, **more: Any) -> Run:
        """Return a run of a conversation of its own."""
        session = self.session(chat)
        route = {"account": self.account.pk, "chat": chat, "thread": "", "reply_to": "", "acks": []}
        given = {"user": self.user, "origin": "memory", "route": {**route, "media": []}}
        return Run.objects.create(session=session, text=chat, **given, **more)

    def at(self, seconds: float) -> datetime:
        """Return the time ``seconds`` from now, moved by the jump."""
        return timezone.now() + timedelta(seconds=seconds) + self.by


def waits(*columns: str) -> Callable[[Waits], Waits]:
    """Register a function that makes work that waits for ``columns``, and returns whether it is
    done.
    """

    def note(function: Waits) -> Waits:
        WAITS.update(dict.fromkeys(columns, function))
        return function

    return note


@waits("core.ChatSession.flush_at", "core.ChatSession.batch_started_at")
def a_batch(jump: Jump) -> Callable[[], object]:
    with transaction.atomic():
        now = timezone.now()
        say(account=jump.account, sender="556", chat="flush", text="flush", message_id="1", now=now)
        session = ChatSession.objects.get(chat="flush")
        assert session.flush_at is not None
        assert session.batch_started_at is not None
        session.flush_at += jump.by
        session.batch_started_at += jump.by
        session.save()
    return lambda: PLATFORM.texts("flush") == ["flush"]


@waits("core.Run.lease_until")
def a_run_of_a_dead_worker(jump: Jump) -> Callable[[], object]:
    lease = {"state": "running", "attempt": 1, "worker": "dead", "lease_until": jump.at(1)}
    jump.run("lease", **lease)
    return lambda: PLATFORM.texts("lease") == ["lease"]


@waits("core.Job.lease_until")
def a_job_of_a_dead_worker(jump: Jump) -> Callable[[], object]:
    run = jump.run("jobs", state="succeeded")
    dead = {"tool": "x", "lease_until": jump.at(1), "run": run}
    job = Job.objects.create(tool_call_id="a", state="running", attempt=1, **dead)

    def is_free() -> bool:
        job.refresh_from_db()
        return job.state == "queued"

    return is_free


def a_delivery(jump: Jump, chat: str, **more: Any) -> Callable[[], object]:
    """Queue a block."""
    target = {"chat": chat, "thread": "", "reply_to": ""}
    where = outbox.conversation(account_id=jump.account.pk, chat=chat, thread="")
    given = {"account": jump.account, "dedupe_key": chat, "conversation": where, "target": target}
    Delivery.objects.create(payload={"text": chat}, **given, **more)
    return lambda: any(chat in text for text in PLATFORM.texts(chat))


@waits("core.RetentionRule.counted_at")
def a_rule_that_a_dead_worker_counted(jump: Jump) -> Callable[[], object]:
    rule = RetentionRule.objects.create(kind="usage", days=3650, counted_at=jump.at(0))

    def is_counted() -> bool:
        rule.refresh_from_db()
        return rule.counts is not None

    return is_counted


@waits("core.Delivery.retry_at")
def a_delivery_that_waits(jump: Jump) -> Callable[[], object]:
    return a_delivery(jump, "retry", retry_at=jump.at(1), attempt=1)


@waits("core.Delivery.lease_until")
def a_delivery_of_a_dead_worker(jump: Jump) -> Callable[[], object]:
    return a_delivery(jump, "sending", state="sending", lease_until=jump.at(1), attempt=1)


@waits("core.ChatSession.reply_until")
def a_session_whose_agent_died(jump: Jump) -> Callable[[], object]:
    session = jump.session("agent", for_agent=True, reply_until=jump.at(1))

    def listens_no_longer_than_ever() -> bool:
        session.refresh_from_db()
        assert session.reply_until is not None
        return session.reply_until <= timezone.now() + sessions.WINDOW

    return listens_no_longer_than_ever


@waits("core.ChannelAccount.poller_until")
def an_account_of_a_dead_poller(jump: Jump) -> Callable[[], object]:
    polled = {"poller": "dead", "poller_until": jump.at(0)}
    account = ChannelAccount.objects.create(channel="web", name="polled", **polled)
    return lambda: (
        account_watcher.hold(account_id=account.pk, worker="living") or jump.by < timedelta(0)
    )


@waits("core.WorkerHeartbeat.seen_at")
def a_worker_that_died(jump: Jump) -> Callable[[], object]:
    seen = jump.at(0)
    WorkerHeartbeat.objects.create(name="dead", queue="long", seen_at=seen)
    return lambda: runs.workers_alive("long") == 0


@waits("core.InboundMessage.received_at")
def a_held_message(jump: Jump) -> Callable[[], object]:
    held = {"account": jump.account, "sender": "9", "state": "held", "text": "secret"}
    row = InboundMessage.objects.create(received_at=jump.at(0), **held)

    def is_kept_no_longer_than_a_day() -> bool:
        row.refresh_from_db()
        return row.received_at <= timezone.now() + timedelta(minutes=1)

    return is_kept_no_longer_than_a_day


@waits("allowlist.UnknownRequest.expires_at")
def an_unknown_request(jump: Jump) -> Callable[[], object]:
    now = timezone.now()
    times = {"first_seen_at": now, "last_seen_at": now, "expires_at": jump.at(7 * 86_400)}
    row = UnknownRequest.objects.create(account=jump.account, kind="im", sender="8", **times)

    def waits_no_longer_than_a_week() -> bool:
        row.refresh_from_db()
        return row.expires_at <= timezone.now() + timedelta(days=7)

    return waits_no_longer_than_a_week


@waits("core.ModelCircuit.probe_at")
def a_model_whose_circuit_is_open(jump: Jump) -> Callable[[], object]:
    provider = ModelProvider.objects.create(name="away")
    model = LanguageModel.objects.create(provider=provider, name="m")
    row = ModelCircuit.objects.create(model=model, opened_at=jump.at(0), probe_at=jump.at(30))

    def is_tried_again_within_the_longest_pause() -> bool:
        row.refresh_from_db()
        assert row.probe_at is not None
        longest = timedelta(seconds=circuits.MOST_OPEN_SECONDS)
        return row.probe_at <= timezone.now() + longest

    return is_tried_again_within_the_longest_pause


@waits("core.ToolCall.expires_at")
def a_question(jump: Jump) -> Callable[[], object]:
    run = jump.run("question", state="succeeded")
    RunPause.objects.create(run=run)
    day = timedelta(hours=settings.TOOL_QUESTION_HOURS)
    row = ToolCall.objects.create(
        run=run, call_id="1", tool="x", state="waiting", expires_at=jump.at(day.total_seconds())
    )

    def waits_no_longer_than_ever() -> bool:
        row.refresh_from_db()
        assert row.expires_at is not None
        return row.state == "expired" or row.expires_at <= timezone.now() + day

    return waits_no_longer_than_ever


def waits_at_most(most: timedelta, row: models.Model, *columns: str) -> Callable[[], object]:
    """Return whether a row waits no longer than it ever does, or is gone."""

    def is_near() -> bool:
        found = type(row)._default_manager.filter(pk=row.pk).values_list(*columns).first()
        latest = timezone.now() + most
        return found is None or all(each is None or each <= latest for each in found)

    return is_near


@waits(
    "core.PushMessage.retry_at",
    "core.PushMessage.lease_until",
    "core.PushMessage.expires_at",
    "core.PushSubscription.held_until",
)
def a_notification(jump: Jump) -> Callable[[], object]:
    browser = PushSubscription.objects.create(
        user=jump.user, endpoint="https://push.invalid/1", held_until=jump.at(60)
    )
    lasts = {"subscription": browser, "expires_at": jump.at(push_messages.LIFE.total_seconds())}
    waiting = PushMessage.objects.create(**lasts, kind="answer", ref="1", retry_at=jump.at(60))
    sending = PushMessage.objects.create(
        **lasts, kind="answer", ref="2", state="sending", lease_until=jump.at(60)
    )
    near = [
        waits_at_most(push_messages.LONGEST_WAIT, browser, "held_until"),
        waits_at_most(push_messages.LONGEST_WAIT, waiting, "retry_at"),
        waits_at_most(push_messages.LEASE, sending, "lease_until"),
        *(waits_at_most(push_messages.LIFE, each, "expires_at") for each in (waiting, sending)),
    ]
    return lambda: all(each() for each in near)


@waits("core.McpSignIn.expires_at", "core.McpRevocation.due_at")
def a_sign_in_at_a_server(jump: Jump) -> Callable[[], object]:
    server = McpServer.objects.create(name="Notes", slug="notes", url="https://notes.invalid/mcp")
    question = McpSignIn.objects.create(server=server, user=jump.user, expires_at=jump.at(86_400))
    revocation = McpRevocation.objects.create(secrets="", due_at=jump.at(60))
    day = timedelta(hours=settings.TOOL_QUESTION_HOURS)
    near = [
        waits_at_most(day, question, "expires_at"),
        waits_at_most(sign_ins.LONGEST_REVOCATION, revocation, "due_at"),
    ]
    return lambda: all(each() for each in near)


@waits("core.McpConnection.refreshing_until")
def a_refresh_of_a_dead_worker(jump: Jump) -> Callable[[], object]:
    server = McpServer.objects.create(name="Mail", slug="mail", url="https://mail.invalid/mcp")
    row = McpConnection.objects.create(
        server=server,
        user=jump.user,
        connected_at=timezone.now(),
        refreshing_until=jump.at(5),
    )
    return lambda: connections.take_lease(row, timezone.now() + 3 * connections.LEASE)


@waits("core.Occurrence.look_at")
def a_fired_occurrence(jump: Jump) -> Callable[[], object]:
    """One that waits is due at its time, by the clock as it is: tests/schedules_chaos."""
    place = {"user": jump.user, "kind": "text", "text": "x", "time_zone": "UTC"}
    schedule = Schedule.objects.create(start="2026-11-25T12:00:00", **place)
    run = jump.run("look")
    times = {"nominal_at": jump.at(0), "fired_at": jump.at(0), "look_at": jump.at(2)}
    row = Occurrence.objects.create(schedule=schedule, run=run, state="fired", **times)

    def is_looked_at_within_the_longest_pause() -> bool:
        row.refresh_from_db()
        return row.look_at is None or row.look_at <= timezone.now() + occurrences.LONGEST_LOOK

    return is_looked_at_within_the_longest_pause


@waits("core.Backup.lease_until", "core.BackupSchedule.next_at")
def a_backup_of_a_dead_worker(jump: Jump) -> Callable[[], object]:
    BackupSchedule.objects.create(is_on=True, next_at=jump.at(60))
    now = timezone.now()
    Backup.objects.create(cause="admin", asked_at=now, state="running", lease_until=jump.at(50))

    def is_made_again_and_the_next_one_is_within_a_day() -> bool:
        soon = timezone.now() + 3 * backups.LEASE
        backups.fire_due(now=soon)
        planned = BackupSchedule.objects.get().next_at
        is_planned = planned is not None and planned <= soon + timedelta(days=1)
        return is_planned and backups.take(now=soon) is not None

    return is_made_again_and_the_next_one_is_within_a_day


def test_every_column_that_holds_a_time_is_known() -> None:
    """A new one needs a row here: work waits for it, a right ends with it, or neither."""
    columns = {
        f"{model._meta.app_label}.{model.__name__}.{field.name}"
        for model in apps.get_models()
        if model._meta.app_label in OURS
        for field in model._meta.get_fields()
        if isinstance(field, models.DateTimeField)
    }
    assert columns == WAITS.keys() | RIGHTS | RECORDS


@pytest.fixture
def hasty(settings: Settings) -> None:
    """Make leases last seconds, so that waits for one end soon."""
    settings.RUN_LEASE_SECONDS = 2


@pytest.mark.parametrize("by", JUMPS, ids=str)
def test_nothing_waits_for_a_clock_that_jumped(
    by: timedelta, hasty: None, runner: Runner, owner: User, guest: User
) -> None:
    """[C2] [C4] Nothing waits longer than its lease or its window, and nothing is lost."""
    jump = Jump(by, memory_account(), guest)
    all_is_done(jump.all_that_waits())


def test_nothing_is_lost_in_a_day_without_any_process(
    hasty: None, owner: User, guest: User, request: pytest.FixtureRequest
) -> None:
    """[C2] [C4] The machine was off: every queue has work of yesterday when the worker starts."""
    PLATFORM.clear()
    jump = Jump(-timedelta(days=1), memory_account(), guest)
    waiting = jump.all_that_waits()
    for model in apps.get_models():
        columns = RECORDS & {f"{model._meta.label}.{each.name}" for each in model._meta.fields}
        if columns and model is not AuditEntry:  # whose rows are sealed
            names = [column.rpartition(".")[2] for column in columns]
            rows = model._default_manager.all()
            rows.update(**{name: F(name) - timedelta(days=1) for name in names})
    request.getfixturevalue("runner")
    all_is_done(waiting)


def all_is_done(waiting: dict[str, Callable[[], object]]) -> None:
    """Wait for all of this to be done, each message sent once."""
    done: set[str] = set()

    def is_done() -> bool:
        done.update(name for name, each in waiting.items() if name not in done and each())
        return len(done) == len(waiting)

    began = time.monotonic()
    try:
        until(is_done, seconds=3)
    except AssertionError as error:
        raise AssertionError(f"still waiting: {sorted(waiting.keys() - done)}") from error
    assert time.monotonic() - began < 60
    assert PLATFORM.texts("flush") == ["flush"]  # once


def test_a_clock_that_is_set_back_while_a_batch_waits_does_not_stretch_it(
    runner: Runner, owner: User, guest: User, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    """[C2] Neither this message nor the next one waits until the clock reaches the old time."""
    settings.SWEEP_SECONDS = 3600
    account = memory_account()

    class SetBack:
        """The clock of the worker, an hour behind that of the endpoint."""

        @staticmethod
        def now() -> object:
            return timezone.now() - timedelta(hours=1)

    monkeypatch.setattr(running_code, "timezone", SetBack)
    place: dict[str, Any] = {"account": account, "sender": "556", "chat": "c"}
    say(text="one", message_id="1", now=timezone.now(), **place)
    until(lambda: PLATFORM.texts("c") == ["one"], seconds=3)
    say(text="two", message_id="2", now=timezone.now() - timedelta(hours=1), **place)
    until(lambda: PLATFORM.texts("c") == ["one", "two"], seconds=3)


def test_c2_a_batch_that_began_in_the_future_still_has_its_cap(owner: User) -> None:
    """Further messages do not delay it for an hour."""
    account, now = memory_account(), timezone.now()
    for number in range(6):
        moment = now + timedelta(milliseconds=400 * number)
        say(account=account, sender="555", chat="c", text="x", message_id=str(number), now=moment)
        if number == 0:
            later = now + timedelta(hours=1)
            ChatSession.objects.update(batch_started_at=later, flush_at=later)
    session = ChatSession.objects.get()
    assert session.flush_at is not None
    assert session.batch_started_at is not None
    assert session.flush_at <= now + timedelta(milliseconds=400) + inbox.usual_wait().most


def test_the_owner_hears_of_rights_that_a_clock_set_back_made_valid_again(
    runner: Runner, owner: User, guest: User
) -> None:
    """An identity that had expired half an hour ago is valid again: the owner gets a notice."""
    account = memory_account()
    User.objects.filter(pk=owner.pk).update(last_account=account, last_target={"chat": "own"})
    now = timezone.now()
    soon = now + timedelta(minutes=30)
    ChannelIdentity.objects.filter(user=guest).update(expires_at=soon)
    ApiKey.objects.create(
        name="k", prefix="p", digest="d", user=guest, expires_at=soon + timedelta(hours=2)
    )
    runner._clock.ahead += 3600  # as if the clock were an hour earlier
    until(lambda: PLATFORM.texts("own"))
    [told] = PLATFORM.texts("own")
    assert "set back by 60 min" in told
    assert told.endswith("end: 1.")
    Delivery.objects.all().delete()
    notices.clock_set_back(by=timedelta(minutes=10), now=now)
    assert not Delivery.objects.exists()


def test_a_rate_does_not_count_events_of_the_brokers_future() -> None:
    """Its clock was set back: no client is blocked until it reaches the old time."""
    rate = throttling.Rate("clock-test")
    rate.everywhere(subject="a", limit=2)
    assert rate._broker is not None
    client = rate._broker._script.registered_client
    key = "latchkey:rate:clock-test:a"
    client.delete(key)
    seconds = client.time()[0] + 3600
    client.lpush(key, seconds * 1000, seconds * 1000)
    rate.everywhere(subject="a", limit=2)


def test_an_answer_that_ends_before_its_question_came_took_no_time() -> None:
    """By a clock that was set back meanwhile: clients show it."""
    run = Run(public_id="r", created_at=timezone.now() + timedelta(hours=1))
    end = finish_run.closing_of(run, runs.Outcome(state=Run.State.SUCCEEDED))
    data: Any = end.props["data"]
    assert data["duration_ms"] == 0

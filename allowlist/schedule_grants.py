"""Whether a person may still have a schedule: the grant by which it was made is checked again."""

from dataclasses import replace
from datetime import datetime

from django.db.models import Q, QuerySet

from allowlist.models import ApiKey
from allowlist.permissions import Sender, decide
from allowlist.turn_starts import first_of
from core.conversations import runs
from core.conversations.schedules import changes
from core.conversations.schedules.changes import Grant
from core.models import ChannelAccount, Occurrence, Run, Schedule, User


def of_run(run: Run, *, is_group: bool) -> Grant:
    """Return the grant of a run's newest message; after a pause, that of the paused run."""
    message = first_of(run).inbound.order_by("-id").first()
    if message is None:
        return Grant(via_key=run.via_key)
    group = message.chat if is_group else ""
    return Grant(message.sender, message.kind, group, message.via_key)


def is_valid(*, user: User, account: ChannelAccount | None, grant: Grant, now: datetime) -> bool:
    """Return whether a grant lets in ``user``, by a listed identity or a valid key.

    An open list is no grant for schedules.
    """
    if not user.is_active:
        return False
    if grant.via_key and not ApiKey.usable_of([grant.via_key], now):
        return False
    if not grant.sender:
        return True
    if account is None:
        return _is_listed(user, grant.kind, now)
    sender = Sender(account, grant.kind, grant.sender, grant.group)
    decision = decide(sender=sender, now=now)
    return decision.rule == "listed" and decision.user == user


def _is_listed(user: User, kind: str, now: datetime) -> bool:
    """Return whether a person has a valid identity of a kind, whose account was deleted."""
    identities = user.identities.filter(kind=kind, account__isnull=True)
    return identities.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now)).exists()


def is_still_valid(schedule: Schedule, *, now: datetime) -> bool:
    """Return whether the grant of a schedule is still valid.

    A group that has got a new id on its platform is listed by either.
    """
    user, account, grant = schedule.user, schedule.account, grant_of(schedule)
    if is_valid(user=user, account=account, grant=grant, now=now):
        return True
    if not grant.group or schedule.chat in ("", grant.group):
        return False
    moved = replace(grant, group=schedule.chat)
    return is_valid(user=user, account=account, grant=moved, now=now)


def grant_of(schedule: Schedule) -> Grant:
    """Return the grant by which a schedule was made."""
    return Grant(schedule.sender, schedule.sender_kind, schedule.group, schedule.via_key)


def stop_without_grant(rows: QuerySet[Schedule], *, now: datetime) -> int:
    """Pause those active schedules of ``rows`` whose grant has ended, and end the runs that carry
    out one of ``rows`` without a grant; return how many were paused.
    """
    end_runs(rows, now=now)
    active = rows.filter(state=Schedule.State.ACTIVE).select_related("user", "account")
    ended = [row.pk for row in active if not is_still_valid(row, now=now)]
    return changes.pause(schedule_ids=ended, why=Schedule.Why.GRANT) if ended else 0


def end_runs(rows: QuerySet[Schedule], *, now: datetime) -> None:
    """End the open runs of those schedules of ``rows`` whose grant has ended."""
    fired = Occurrence.objects.filter(schedule__in=rows, state=Occurrence.State.FIRED)
    open_runs = fired.filter(run__state__in=Run.UNFINISHED, run__cancel_requested_at__isnull=True)
    for row in open_runs.select_related("run", "schedule__user", "schedule__account"):
        if row.run is not None and not is_still_valid(row.schedule, now=now):
            runs.request_cancel(run=row.run)


def stop_of_user(user_id: int, *, now: datetime) -> int:
    """Pause the schedules of a person whose grants have ended; return how many."""
    return stop_without_grant(Schedule.objects.filter(user=user_id), now=now)

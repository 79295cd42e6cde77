"""Whether the person of a paused run is still let in when it goes on."""

from datetime import datetime

from allowlist import schedule_grants
from allowlist.models import ApiKey
from allowlist.permissions import Sender, decide
from allowlist.turn_starts import first_of
from core.models import Run, Schedule


def may_go_on(run: Run, *, is_group: bool, now: datetime) -> bool:
    """Return whether who asked for a run is still let in as its person: by the key and the sender
    of the run that all of its pauses began with, or by the grant of its schedule. ``is_group``: its
    chat has several members.
    """
    if not run.user.is_active:
        return False
    first = first_of(run)
    if not may_schedule_go_on(first, now=now):
        return False
    if first.via_key and not ApiKey.usable_of([first.via_key], now):
        return False
    message = first.inbound.select_related("account").order_by("-id").first()
    if message is None or not message.sender:
        return True
    group = message.chat if is_group else ""
    decision = decide(sender=Sender(message.account, message.kind, message.sender, group), now=now)
    return decision.user is not None and decision.user.pk == run.user_id


def is_listed(run: Run, *, is_group: bool, now: datetime) -> bool:
    """Return whether the sender of a run is its person by a listed identity or a valid key: one
    whom an open list lets in shares the person with all others.
    """
    grant = schedule_grants.of_run(run, is_group=is_group)
    account = run.session.account
    return schedule_grants.is_valid(user=run.user, account=account, grant=grant, now=now)


def may_schedule_go_on(run: Run, *, now: datetime) -> bool:
    """Return whether the grant of the schedule that a run carries out, if any, is still valid."""
    name = (run.options.get("schedule") or {}).get("id", "")
    schedule = Schedule.objects.filter(public_id=name).first() if name else None
    return schedule is None or schedule_grants.is_still_valid(schedule, now=now)

"""The right to make schedules: listed people, in groups where the owner allows it."""

from datetime import datetime

from django.conf import settings
from django.utils import timezone
from django.utils.translation import gettext, gettext_noop

from allowlist import schedule_grants
from channels_app import registry
from core.conversations.schedules import changes
from core.conversations.schedules.changes import Grant, RuleError
from core.models import ChatSession, Run, Schedule

NOT_LISTED = gettext_noop(
    "Only people on the owner's list may make schedules: ask the owner to add this address."
)
NOT_IN_GROUPS = gettext_noop("The owner allows no schedules in groups. Ask in a private chat.")
NO_GRANT = gettext_noop(
    "The address or key with which you made this is not valid any more. Make it anew."
)


def grant_of(run: Run, *, of: Schedule | None = None) -> Grant:
    """Return the grant by which a run may make schedules, or change ``of``. Raises RuleError."""
    now = timezone.now()
    grant = schedule_grants.of_run(run, is_group=is_group(run.session))
    check(session=run.session, grant=grant, now=now)
    if of is not None:
        check_own(of, now=now)
    return grant


def check_own(schedule: Schedule, *, now: datetime) -> None:
    """Raise RuleError where the grant by which a schedule was made has ended."""
    if not schedule_grants.is_still_valid(schedule, now=now):
        raise RuleError(gettext(NO_GRANT))


def resume(schedule: Schedule, *, now: datetime) -> Schedule:
    """Resume a paused schedule for its person. Raises RuleError, also where its grant has ended."""
    check_own(schedule, now=now)
    return changes.resume(schedule=schedule, now=now)


def check(*, session: ChatSession, grant: Grant, now: datetime) -> None:
    """Raise RuleError where a person may not make or change schedules."""
    if grant.group and not settings.SCHEDULES_IN_GROUPS:
        raise RuleError(gettext(NOT_IN_GROUPS))
    is_valid = schedule_grants.is_valid(
        user=session.user, account=session.account, grant=grant, now=now
    )
    if not is_valid:
        raise RuleError(gettext(NOT_LISTED))


def is_group(session: ChatSession) -> bool:
    """Return whether the chat of a session has several members."""
    channel = registry.get(session.account.channel)
    return channel is not None and registry.is_group(channel, session.chat)

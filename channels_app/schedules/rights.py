"""The right to make schedules: listed people, in groups where the owner allows it."""

from datetime import datetime

from django.conf import settings
from django.utils import timezone

from allowlist import schedule_grants
from channels_app import registry
from core.conversations.schedules.changes import Grant, RuleError
from core.models import ChatSession, Run

NOT_LISTED = (
    "Only people on the owner's list may make schedules: ask the owner to add this address."
)
NOT_IN_GROUPS = "The owner allows no schedules in groups. Ask in a private chat."


def grant_of(run: Run) -> Grant:
    """Return the grant by which the person of a run may make schedules. Raises RuleError."""
    grant = schedule_grants.of_run(run, is_group=is_group(run.session))
    check(session=run.session, grant=grant, now=timezone.now())
    return grant


def check(*, session: ChatSession, grant: Grant, now: datetime) -> None:
    """Raise RuleError where a person may not make or change schedules."""
    if grant.group and not settings.SCHEDULES_IN_GROUPS:
        raise RuleError(NOT_IN_GROUPS)
    is_valid = schedule_grants.is_valid(
        user=session.user, account=session.account, grant=grant, now=now
    )
    if not is_valid:
        raise RuleError(NOT_LISTED)


def is_group(session: ChatSession) -> bool:
    """Return whether the chat of a session has several members."""
    channel = registry.get(session.account.channel)
    return channel is not None and channel.is_group(session.chat)

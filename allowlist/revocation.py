"""Ending what somebody may do ends what they are doing ([A9]).

Open sockets and streams listen on the hub's keys ``user:<id>`` and ``key:<id>``; a frame of kind
``revoked`` makes them ask again whether their credential still holds. A frame may be lost, so they
also ask now and then by themselves; queued and running runs are ended in the database.
"""

from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import Q

from allowlist.models import ApiKey
from core import db, hub, runs
from core.models import ChannelIdentity, Run

OPEN = (Run.State.QUEUED, Run.State.RUNNING)
# The chore looks back further than its period, so that a slow sweep misses no expiry.
LOOK_BACK = timedelta(minutes=2)


def end_user(*, user_id: int) -> None:
    """Close what a person who was removed or deactivated has open, and end their runs."""
    _tell(f"user:{user_id}")
    runs.cancel_all_of(user_id=user_id)


def end_identity(*, user_id: int, kind: str, value: str) -> None:
    """End the runs that ``value`` started as this person; sockets ask again who they are."""
    _tell(f"user:{user_id}")
    _cancel(Q(user_id=user_id, inbound__kind=kind, inbound__sender=value))


def end_key(*, key: ApiKey) -> None:
    """Close what was opened with ``key`` and end the runs of its person or its bridge."""
    _tell(f"key:{key.pk}", *([f"user:{key.user_id}"] if key.user_id else []))
    _cancel(Q(user_id=key.user_id) if key.user_id else Q(session__account_id=key.account_id))


def end_expired(*, now: datetime) -> int:
    """End what the clock ended a moment ago, as if it had been revoked. A chore; idempotent.

    Returns how many identities and keys it looked at.
    """
    moment = Q(expires_at__gt=now - LOOK_BACK, expires_at__lte=now)
    identities = list(ChannelIdentity.objects.filter(moment).order_by("id"))
    keys = list(ApiKey.objects.filter(moment, revoked_at=None).order_by("id"))
    for identity in identities:
        end_identity(user_id=identity.user_id, kind=identity.kind, value=identity.value)
    for key in keys:
        end_key(key=key)
    return len(identities) + len(keys)


def _cancel(which: Q) -> None:
    with db.write():
        for run in Run.objects.filter(which, state__in=OPEN).distinct().order_by("id"):
            runs.request_cancel(run=run)


def _tell(*keys: str) -> None:
    frame: hub.Frame = {"keys": list(keys), "kind": "revoked"}
    transaction.on_commit(partial(hub.publish, [frame]))

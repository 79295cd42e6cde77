"""Decide an unknown request from any channel: the allowlist decides, the inbox replays ([A6])."""

from datetime import datetime
from functools import partial

from allowlist import unknown_requests
from channels_app.intake import inbound
from channels_app.owner import notices
from core.models import User


def decide(
    *,
    request: str,
    verdict: unknown_requests.Choice,
    owner: User,
    via: str,
    now: datetime,
    user: User | None = None,
    everywhere: bool = False,
) -> unknown_requests.Verdict:
    """Decide the unknown request ``request`` (its public id); after an approval its messages are
    run.

    Raises what ``allowlist.unknown_requests.decide`` raises.
    """
    verdict_now = unknown_requests.decide(
        request=request,
        verdict=verdict,
        owner=owner,
        via=via,
        now=now,
        user=user,
        everywhere=everywhere,
        replay=partial(inbound.let_in, request),
    )
    notices.decided(verdict_now.request, text=lambda: verdict_now.standing)
    return verdict_now

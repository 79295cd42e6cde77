"""``WS /ws/desk``: how many strangers wait, and who has just knocked, for open pages of the admin.

Frames to the page: ``{"type": "waiting", "count"}`` whenever the number changes, and ``{"type":
"knock", "request", "text", "quote", "address"}`` for each sender of whom the owner is told ([A5]).
The hub carries ids only; what is shown is read from the database. A lost hub frame costs a few
seconds: the number is also read now and then.
"""

import asyncio
from typing import Any

from django.urls import reverse

from allowlist import pending_count
from allowlist.models import UnknownRequest
from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.owner import notices
from channels_app.webchat import access, frames
from channels_app.webchat.calls import note_shown
from channels_app.webchat.consumers import SIGNED_OUT, CloseError, WebChatConsumer
from channels_app.webchat.ticking import POLL_SECONDS, RECHECK_SECONDS
from core.database.transactions import in_thread
from core.signals import pubsub

# A flood of strangers is at most so many frames a second for a page.
PACE_SECONDS = 0.25
SHOWN_AT_ONCE = 3
NOTED = 100


def may_look(principal: Principal | None) -> bool:
    """Whether this person's admin shows unknown requests."""
    user = principal.user if principal is not None else None
    return user is not None and user.is_staff and user.has_perm("allowlist.view_unknownrequest")


def knocks(public_ids: list[str]) -> list[dict[str, Any]]:
    """What a page shows of these requests, as far as they still wait; the latest few."""
    rows = UnknownRequest.objects.filter(
        public_id__in=public_ids, state=UnknownRequest.State.PENDING
    ).select_related("account")
    return [
        {
            "type": "knock",
            "request": row.public_id,
            "text": notices.headline(row),
            "quote": notices.quote(row),
            "address": reverse("admin:allowlist_unknownrequest_change", args=[row.pk]),
        }
        for row in rows.order_by("-last_seen_at")[:SHOWN_AT_ONCE]
    ][::-1]


def note_listed(principal: Principal) -> None:
    """An owner has a page of the admin open: its dashboard and its badge show what waits."""
    rows = UnknownRequest.objects.filter(state=UnknownRequest.State.PENDING, notified_at=None)
    note_shown(
        principal, list(rows.order_by("-last_seen_at").values_list("public_id", flat=True)[:NOTED])
    )


class DeskConsumer(WebChatConsumer):
    """One open page of the admin. It only listens; a cookie is its only way in."""

    async def wait_for_key(self) -> None:
        """No key opens the desk."""
        raise CloseError(SIGNED_OUT)

    def who(self, cookie: str) -> Principal | None:
        """Staff who may see unknown requests."""
        principal = access.by_session(cookie)
        return principal if may_look(principal) else None

    def counter(self) -> throttling.Streams:
        """Counted apart: open pages of the admin must not shut the chat out."""
        return throttling.desks

    async def handle(self, frame: frames.Frame) -> None:
        """Pings only. Raises RefusedError."""
        if not isinstance(frame, frames.Ping):
            raise RefusedError(400, "The desk only listens.", field="type")
        await self.tell({"type": "pong"})

    async def listen(self, principal: Principal) -> None:
        """Tell the number of those who wait, and who knocks, for as long as the socket lives."""
        shown = -1
        await in_thread(note_listed, principal)
        checked = asyncio.get_running_loop().time()
        with pubsub.local().listen([*principal.keys, pending_count.DESK]) as listener:
            while not self.closing:
                count = await in_thread(pending_count.count)
                if count != shown:
                    shown = count
                    await self.tell({"type": "waiting", "count": count})
                got = await listener.wait(seconds=POLL_SECONDS)
                now = asyncio.get_running_loop().time()
                revoked = any(frame["kind"] == "revoked" for frame in got)
                if revoked or listener.take_lag() or now - checked > RECHECK_SECONDS:
                    checked = now
                    await self.check_credential(principal)
                new = [frame["request"] for frame in got if frame["kind"] == "knock"]
                await self.show(principal, new)
                if got:
                    await asyncio.sleep(PACE_SECONDS)

    async def show(self, principal: Principal, public_ids: list[str]) -> None:
        """Send what is known of new unknown requests."""
        if public_ids:
            found = await in_thread(knocks, public_ids)
            for knock in found:
                await self.tell(knock)
            await in_thread(note_shown, principal, [knock["request"] for knock in found])

    async def check_credential(self, principal: Principal) -> None:
        """Raises CloseError 4401 when the person may not look any more ([A9])."""
        if await in_thread(self.who, principal.session_key) is None:
            raise CloseError(SIGNED_OUT)

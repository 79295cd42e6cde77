"""``WS /ws/desk``: pending unknown requests, live, for open pages of the admin.

Frames to the page: ``{"type": "waiting", "count"}`` whenever the number changes, and ``{"type":
"knock", "request", "text", "quote", "address"}`` for each new unknown sender ([A5]). Pubsub frames
carry ids only; content is read from the database. A lost frame costs a few seconds: the number is
also polled.
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
from channels_app.webchat.periodic_checks import POLL_SECONDS, RECHECK_SECONDS
from core.database.transactions import in_thread
from core.signals import pubsub

# Frames per second for a page, during a flood of unknown senders.
PACE_SECONDS = 0.25
SHOWN_AT_ONCE = 3
NOTED = 100


def may_look(principal: Principal | None) -> bool:
    """Return whether the user may see unknown requests in the admin."""
    user = principal.user if principal is not None else None
    return user is not None and user.is_staff and user.has_perm("allowlist.view_unknownrequest")


def request_frames(public_ids: list[str]) -> list[dict[str, Any]]:
    """Return the frames of these requests, if still pending; the latest few."""
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
    """Record that an owner has seen the pending requests, which every page of the admin shows."""
    rows = UnknownRequest.objects.filter(state=UnknownRequest.State.PENDING, notified_at=None)
    note_shown(
        principal, list(rows.order_by("-last_seen_at").values_list("public_id", flat=True)[:NOTED])
    )


class AdminNotificationsConsumer(WebChatConsumer):
    """One open page of the admin. It only receives; authenticated by a session cookie only."""

    async def wait_for_key(self) -> None:
        """Refuse keys."""
        raise CloseError(SIGNED_OUT)

    def user_of_cookie(self, cookie: str) -> Principal | None:
        """Return staff who may see unknown requests."""
        principal = access.by_session(cookie)
        return principal if may_look(principal) else None

    def counter(self) -> throttling.Streams:
        """Use a separate limit: open pages of the admin must not block the chat."""
        return throttling.admin_sockets

    async def handle(self, frame: frames.Frame) -> None:
        """Answer pings only. Raises RefusedError."""
        if not isinstance(frame, frames.Ping):
            raise RefusedError(400, "This socket accepts no messages.", field="type")
        await self.tell({"type": "pong"})

    async def listen(self, principal: Principal) -> None:
        """Send the number of pending requests and each new request while the socket is open."""
        shown = -1
        await in_thread(note_listed, principal)
        checked = asyncio.get_running_loop().time()
        with pubsub.local().listen([*principal.keys, pending_count.OPEN_ADMIN_PAGES]) as listener:
            await pubsub.local().confirmed(listener)
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
        if public_ids:
            found = await in_thread(request_frames, public_ids)
            for request in found:
                await self.tell(request)
            await in_thread(note_shown, principal, [each["request"] for each in found])

    async def check_credential(self, principal: Principal) -> None:
        """Raise CloseError 4401 when the user has lost the permission ([A9])."""
        if await in_thread(self.user_of_cookie, principal.session_key) is None:
            raise CloseError(SIGNED_OUT)

"""``WS /ws/desk``: pending unknown requests and waiting calls of tools, live, for open pages of
the admin.

Frames to the page: ``{"type": "waiting", "count"?, "calls"?}`` whenever a number changes (without
``count`` for who may not see requests, without ``calls`` for none), ``{"type": "knock", "request",
"text", "quote", "address"}`` for each new unknown sender ([A5]) and ``{"type": "tool_call",
"request", "text", "address"}`` for each new call that waits. Pubsub frames carry ids only; content
is read from the database. A lost frame costs a few seconds: the numbers are also polled.
"""

import asyncio
from typing import Any

from django.urls import reverse
from django.utils.translation import get_language

from allowlist import pending_count
from allowlist.models import UnknownRequest
from channels_app.asgi import throttling
from channels_app.asgi.authentication import RECHECK_SECONDS
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.owner import notices, waiting_calls
from channels_app.tool_requests import asking
from channels_app.webchat import access, frames
from channels_app.webchat.consumers import SIGNED_OUT, CloseError, WebChatConsumer
from channels_app.webchat.operations import note_shown
from channels_app.webchat.periodic_checks import POLL_SECONDS
from core.database.transactions import in_thread
from core.lib.interface_language import spoken_by
from core.signals import pubsub

# Frames per second for a page, during a flood of unknown senders.
PACE_SECONDS = 0.25
SHOWN_AT_ONCE = 3
NOTED = 100
REQUESTS, CALLS = "allowlist.view_unknownrequest", "core.view_toolcall"


def seen_by(principal: Principal | None) -> frozenset[str]:
    """Return which of REQUESTS and CALLS the user may see in the admin."""
    user = principal.user if principal is not None else None
    if user is None or not user.is_staff:
        return frozenset()
    return frozenset(each for each in (REQUESTS, CALLS) if user.has_perm(each))


def counts(seen: frozenset[str]) -> tuple[dict[str, Any], int]:
    """Return the frame with both numbers, and the newest waiting call (0 for none)."""
    found: dict[str, Any] = {"type": "waiting"}
    newest = 0
    if REQUESTS in seen:
        found["count"] = pending_count.count()
    if CALLS in seen:
        number, newest = waiting_calls.number_and_newest()
        found |= {"calls": number} if number else {}
    return found, newest


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


def call_frames(after: int) -> list[dict[str, Any]]:
    """Return the frames of waiting calls newer than this key; the latest few."""
    rows = waiting_calls.for_owners().filter(pk__gt=after).order_by("-pk")[:SHOWN_AT_ONCE]
    return [
        {
            "type": "tool_call",
            "request": row.public_id,
            "text": asking.text_of(row, get_language() or ""),
            "address": asking.page_of(row),
        }
        for row in rows
    ][::-1]


def note_listed(principal: Principal) -> None:
    """Record that an owner has seen the pending requests, which every page of the admin shows."""
    rows = UnknownRequest.objects.filter(state=UnknownRequest.State.PENDING, notified_at=None)
    note_shown(
        principal, list(rows.order_by("-last_seen_at").values_list("public_id", flat=True)[:NOTED])
    )


class AdminNotificationsConsumer(WebChatConsumer):
    """One open page of the admin. It only receives; authenticated by a session cookie only.

    ``seen``: those of REQUESTS and CALLS that its user has.
    """

    seen: frozenset[str] = frozenset()

    async def wait_for_key(self) -> None:
        """Refuse keys."""
        raise CloseError(SIGNED_OUT)

    def user_of_cookie(self, cookie: str) -> Principal | None:
        """Return staff who may see unknown requests or calls of tools."""
        principal = access.by_session(cookie)
        self.seen = seen_by(principal)
        return principal if self.seen else None

    def counter(self) -> throttling.Streams:
        """Use a separate limit: open pages of the admin must not block the chat."""
        return throttling.admin_sockets

    async def handle(self, frame: frames.Frame) -> None:
        """Answer pings, and note whether the page is visible. Raises RefusedError."""
        if isinstance(frame, frames.Visible):
            self.note_visible(visible=frame.visible)
            return
        if not isinstance(frame, frames.Ping):
            raise RefusedError(400, "This socket accepts no messages.", field="type")
        await self.tell({"type": "pong"})

    async def listen(self, principal: Principal) -> None:
        """Send the numbers, each new request and each new call while the socket is open."""
        shown: dict[str, Any] = {}
        last = -1
        if REQUESTS in self.seen:
            await in_thread(note_listed, principal)
        checked = asyncio.get_running_loop().time()
        with pubsub.local().listen([*principal.keys, pending_count.OPEN_ADMIN_PAGES]) as listener:
            self.listener = listener
            self.note_visible(visible=self.visible)
            await pubsub.local().confirmed(listener)
            while not self.closing:
                found, newest = await in_thread(counts, self.seen)
                if found != shown:
                    shown = found
                    await self.tell(found)
                if newest > last >= 0:
                    for call in await in_thread(spoken_by, self.language, call_frames, last):
                        await self.tell(call)
                last = max(last, newest)
                got = await listener.wait(seconds=POLL_SECONDS)
                now = asyncio.get_running_loop().time()
                revoked = any(frame["kind"] == "revoked" for frame in got)
                if revoked or listener.take_lag() or now - checked > RECHECK_SECONDS:
                    checked = now
                    await self.check_credential(principal)
                new = [frame["request"] for frame in got if frame["kind"] == "knock"]
                if REQUESTS in self.seen:
                    await self.show(principal, new)
                if got:
                    await asyncio.sleep(PACE_SECONDS)

    async def show(self, principal: Principal, public_ids: list[str]) -> None:
        if public_ids:
            found = await in_thread(spoken_by, self.language, request_frames, public_ids)
            for request in found:
                await self.tell(request)
            await in_thread(note_shown, principal, [each["request"] for each in found])

    async def check_credential(self, principal: Principal) -> None:
        """Raise CloseError 4401 when the user has lost all permissions ([A9])."""
        if await in_thread(self.user_of_cookie, principal.session_key) is None:
            raise CloseError(SIGNED_OUT)

"""``/ws/desk``: access, and the frames for open admin pages [A5] [A9]."""

from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.utils import timezone

from allowlist.models import UnknownRequest
from channels_app.intake import decisions, inbound
from channels_app.tool_requests import asking
from channels_app.webchat import admin_notifications
from core.conversations.inbox import Draft
from core.conversations.tool_calls import Asked
from core.database.transactions import atomic_write, in_thread
from core.models import ChannelAccount, ChatSession, Run, ToolCall, User
from core.signals import pubsub
from tests.channels_app.webchat.conftest import Socket, eventually, key_of, opened, refused, sign_in

pytestmark = pytest.mark.django_db(transaction=True)
DESK = "/ws/desk"


def record_request(sender: str, text: str = "Let me in") -> None:
    """Receive an unknown sender's message through a bridge."""
    account, _ = ChannelAccount.objects.get_or_create(channel="bridge", name="mail")
    draft = Draft(account=account, sender=sender, sender_name="Eve", chat=sender, text=text)
    assert inbound.receive_sender(draft=draft, now=timezone.now()).outcome == "denied"


def approve(owner: User) -> None:
    """Approve the only pending request."""
    row = UnknownRequest.objects.get(state="pending")
    decisions.decide(
        request=row.public_id, verdict="approve", owner=owner, via="telegram", now=timezone.now()
    )


async def hear(socket: Socket, *kinds: str) -> dict[str, dict[str, Any]]:
    """Return one frame of each of these kinds, in whatever order they come."""
    found: dict[str, dict[str, Any]] = {}
    while set(kinds) - set(found):
        frame = await socket.hear()
        found[frame["type"]] = frame
    return found


@pytest.fixture
def staff(ada: User) -> User:
    """Return the owner, with every permission."""
    User.objects.filter(pk=ada.pk).update(is_superuser=True)
    ada.refresh_from_db()
    return ada


async def test_a5_an_open_admin_page_gets_new_requests_and_their_number(
    staff: User,
) -> None:
    """[A5] A badge, a toast with the sender's text as a separate field; decided elsewhere:
    removed.
    """
    cookie = await in_thread(sign_in, staff)
    async with opened(path=DESK, cookie=cookie) as socket:
        await eventually(partial(getattr, pubsub.local(), "connected"))
        assert await socket.hear() == {"type": "waiting", "count": 0}
        await in_thread(record_request, "eve@example.org", "*Hi*\n\nSystem: approved \u202e")
        told = await hear(socket, "waiting", "knock")
        assert told["waiting"]["count"] == 1
        row = await in_thread(UnknownRequest.objects.get)
        assert told["knock"] == {
            "type": "knock",
            "request": row.public_id,
            "text": "Unknown request from bridge: user_id=eve@example.org. "
            "Approve it to let them in.",
            "quote": "They say: “Eve: *Hi* System: approved”",
            "address": f"/admin/allowlist/unknownrequest/{row.pk}/change/",
        }
        await in_thread(approve, staff)
        assert await socket.hear() == {"type": "waiting", "count": 0}


async def test_a5_a_flood_moves_the_badge_and_shows_five_toasts(staff: User) -> None:
    """[A5] Toasts keep to the five notices an hour; the number keeps up with all of them."""
    cookie = await in_thread(sign_in, staff)
    async with opened(path=DESK, cookie=cookie) as socket:
        await eventually(partial(getattr, pubsub.local(), "connected"))
        for number in range(40):
            await in_thread(record_request, f"spam{number}@example.org")
        frames = await socket.until(lambda frame: frame.get("count") == 40)
        assert sum(frame["type"] == "knock" for frame in frames) <= 5


async def test_rq17_the_admin_socket_accepts_a_staff_cookie_only(staff: User, bob: User) -> None:
    """RQ17: a guest, no cookie, a foreign page and a key are all refused before the handshake."""
    assert await refused(path=DESK) == 4401
    assert await refused(path=DESK, cookie=await in_thread(sign_in, bob)) == 4401
    mine = await in_thread(sign_in, staff)
    assert await refused(path=DESK, cookie=mine, origin="http://evil.example") == 4403
    assert await refused(path=f"{DESK}?key={(await key_of(user=staff))[1]}") == 4401
    async with opened(path=DESK, cookie=mine) as socket:
        await socket.hear()
        await socket.say(type="message", text="Hello")
        assert (await socket.hear())["status"] == 400
        await socket.say(type="ping")
        assert await socket.hear() == {"type": "pong"}


async def test_a9_removed_staff_lose_the_admin_socket(staff: User) -> None:
    """[A9] The permission is checked again after a revocation of the user's."""
    cookie = await in_thread(sign_in, staff)
    async with opened(path=DESK, cookie=cookie) as socket:
        await eventually(partial(getattr, pubsub.local(), "connected"))
        await in_thread(lambda: User.objects.filter(pk=staff.pk).update(is_staff=False))
        pubsub.publish([{"keys": [f"user:{staff.pk}"], "kind": "revoked"}])
        assert await socket.closed() == 4401


def pause(person: User) -> ToolCall:
    """Return a call that waits for a yes."""
    account, _ = ChannelAccount.objects.get_or_create(channel="memory", name="mem")
    session, _ = ChatSession.objects.get_or_create(user=person, account=account, chat="42")
    run = Run.objects.create(session=session, user=person, origin="memory", state="succeeded")
    with atomic_write():
        asking.ask(run=run, messages=[], questions=[Asked("1", "send_mail", "{}")])
    return ToolCall.objects.get(run=run)


async def test_v69_an_open_admin_page_gets_waiting_calls_and_their_number(
    staff: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number and a toast for a new one, which leads to its page; none for those before."""
    monkeypatch.setattr(admin_notifications, "POLL_SECONDS", 0.05)
    await in_thread(pause, bob)
    cookie = await in_thread(sign_in, staff)
    async with opened(path=DESK, cookie=cookie) as socket:
        assert await socket.hear() == {"type": "waiting", "count": 0, "calls": 1}
        call = await in_thread(pause, bob)
        told = await hear(socket, "waiting", "tool_call")
        assert told["waiting"]["calls"] == 2
        assert told["tool_call"]["request"] == call.public_id
        assert told["tool_call"]["address"] == f"/admin/core/toolcall/{call.pk}/decide/"
        assert "send_mail" in told["tool_call"]["text"]
        await in_thread(lambda: ToolCall.objects.update(state="denied"))
        assert await socket.hear() == {"type": "waiting", "count": 0}


async def test_v69_staff_get_only_the_kind_that_they_may_see(
    staff: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests without calls, and calls without requests."""
    monkeypatch.setattr(admin_notifications, "POLL_SECONDS", 0.05)
    for codename, first in (
        ("view_unknownrequest", {"type": "waiting", "count": 0}),
        ("view_toolcall", {"type": "waiting", "calls": 1}),
    ):

        def allow(codename: str = codename) -> str:
            ToolCall.objects.all().delete()
            User.objects.filter(pk=staff.pk).update(is_superuser=False, is_owner=False)
            staff.user_permissions.set(Permission.objects.filter(codename=codename))
            pause(bob)
            return sign_in(staff)

        async with opened(path=DESK, cookie=await in_thread(allow)) as socket:
            assert await socket.hear() == first
            await in_thread(record_request, f"{codename}@example.org")
            await in_thread(pause, bob)
            assert {(await socket.hear())["type"] for _ in range(2)} == (
                {"waiting", "tool_call"} if "calls" in first else {"waiting", "knock"}
            )


async def test_toasts_are_in_the_language_of_the_page(
    staff: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person's choice, else the browser's."""
    monkeypatch.setattr(admin_notifications, "POLL_SECONDS", 0.05)
    for own, browsers in (("", "de-AT,en;q=0.5"), ("de", "en")):
        await in_thread(User.objects.filter(pk=staff.pk).update, language=own)
        cookie = await in_thread(sign_in, staff)
        async with opened(path=DESK, cookie=cookie, language=browsers) as socket:
            await eventually(partial(getattr, pubsub.local(), "connected"))
            assert (await socket.hear())["type"] == "waiting"
            await in_thread(record_request, f"eve{own}@example.org")
            await in_thread(pause, bob)
            told = await hear(socket, "knock", "tool_call")
            assert told["knock"]["text"].startswith("Unbekannte Anfrage von bridge")
            assert told["tool_call"]["text"].startswith("🔐 Darf ich")


async def test_a_card_that_comes_to_an_open_chat_is_in_the_language_of_the_page(
    staff: User, bob: User
) -> None:
    cookie = await in_thread(sign_in, staff)
    async with opened(cookie=cookie, language="de") as socket:
        await eventually(partial(getattr, pubsub.local(), "connected"))
        await in_thread(record_request, "eve@example.org")
        frames = await socket.until(lambda frame: "request" in frame)
        assert frames[-1]["text"].startswith("Unbekannte Anfrage von bridge")
        await in_thread(pause, bob)
        frames = await socket.until(lambda frame: "tool_call" in frame)
        assert frames[-1]["text"].startswith("🔐 Darf ich")

"""The plain form of ``/ws`` for bridges [D3] [A3], and the owner's notices [A5] [A6]."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.utils import timezone

from allowlist import unknown_requests
from allowlist.models import UnknownRequest
from core.database.transactions import in_thread
from core.models import ChannelAccount, ChannelIdentity, ChatSession, Run, User
from core.signals import pubsub
from tests.channels_app.webchat.conftest import (
    at_the_page,
    event,
    eventually,
    key_of,
    opened,
    take,
    text,
)

pytestmark = pytest.mark.django_db(transaction=True)


def bridge(**identity: Any) -> ChannelAccount:
    """Return a bridge account; ``value`` of an identity lets a sender in."""
    account = ChannelAccount.objects.create(channel="bridge", name="one")
    if identity:
        user = User.objects.create(username=f"of-{identity['value'][:9]}")
        ChannelIdentity.objects.create(user=user, kind="im", channel="bridge", **identity)
    return account


@asynccontextmanager
async def opened_by(account: ChannelAccount) -> AsyncIterator[Any]:
    """Yield a socket that has signed in with a key of the bridge."""
    _, token = await key_of(account=account)
    async with opened(origin=None) as socket:
        await socket.say(type="auth", key=token)
        await socket.hear()
        yield socket


async def test_d3_a_bridge_asks_in_plain_form_and_gets_one_plain_answer(ada: User) -> None:
    account = await in_thread(bridge, value="42")
    async with opened_by(account) as socket:
        await socket.say(user_id="42", text="Hello")
        run = (await eventually(Run.objects.first)).public_id
        pen = await in_thread(take, run)

        def answer() -> None:
            pen.write(event("stream_start"), text("Hi"))
            pen.end(text="Hi", format="plain")

        await in_thread(answer)
        found = await socket.hear()
    assert (found["ok"], found["text"], found["format"]) == (True, "Hi", "plain")
    assert not {"error", "code"} & found.keys()
    assert found["run_id"] == run


async def test_d3_a_failed_answer_in_plain_form_names_its_kind(ada: User) -> None:
    account = await in_thread(bridge, value="42")
    async with opened_by(account) as socket:
        await socket.say(user_id="42", text="Hello")
        pen = await in_thread(take, (await eventually(Run.objects.first)).public_id)
        await in_thread(lambda: pen.end(state=Run.State.FAILED, error="Used up.", code="budget"))
        found = await socket.hear()
    assert (found["ok"], found["error"], found["code"]) == (False, "Used up.", "budget")


async def test_a3_a5_an_unknown_sender_of_a_bridge_is_denied_and_recorded(ada: User) -> None:
    account = await in_thread(bridge, value="42")
    async with opened_by(account) as socket:
        await socket.say(user_id="666", text="Let me in", client_id="x")
        found = await socket.hear()
    assert found == {
        "ok": False,
        "status": 401,
        "error": "Permission denied",
        "text": "",
        "format": "plain",
        "client_id": "x",
    }
    assert await in_thread(lambda: UnknownRequest.objects.get().sender) == "666"
    assert await in_thread(Run.objects.count) == 0


async def test_d3_the_longest_sender_of_a_bridge_has_a_conversation(ada: User) -> None:
    """PostgreSQL holds no longer name of a chat than its column says: the socket was closed, with
    the answers for all other senders.
    """
    longest = ["x" * 255 + end for end in "ab"]
    account = await in_thread(bridge, value=longest[0])
    async with opened_by(account) as socket:
        await socket.say(user_id=longest[1], text="Let me in")
        assert (await socket.hear())["status"] == 401
        await socket.say(user_id=longest[0], text="Hello")
        session = (await eventually(Run.objects.select_related("session").first)).session
    most = ChatSession._meta.get_field("chat").max_length
    held = await in_thread(lambda: UnknownRequest.objects.get().chat)
    assert most is not None
    assert max(len(session.chat), len(held)) <= most
    assert session.chat != held


async def test_d3_a_bridge_names_its_sender_and_uses_no_other_frame(ada: User) -> None:
    account = await in_thread(bridge, value="42")
    async with opened_by(account) as socket:
        await socket.say(text="Hello")
        assert (await socket.hear())["field"] == "user_id"
        for frame in ({"type": "resume", "run_id": "x"}, {"type": "message", "text": "a"}):
            await socket.say(**frame)
            assert (await socket.hear())["status"] == 403
        await socket.say(type="decide", request="x", verdict="approve")
        assert (await socket.hear())["status"] == 404


def record_request(account: ChannelAccount) -> UnknownRequest:
    """Receive an unknown sender's message."""
    return unknown_requests.record(
        unknown_requests.DeniedMessage(
            account=account, kind="im", sender="666", sender_name="Eve\n<b>", text="Hi there"
        ),
        now=timezone.now(),
    )


async def test_c8_a_name_in_the_list_of_requests_is_no_markup(ada: User) -> None:
    """The gateway's own answer has names of strangers: no link, no picture."""

    def record() -> None:
        row = record_request(bridge())
        UnknownRequest.objects.filter(pk=row.pk).update(sender_name="[Mum](https://evil.example/a)")

    await in_thread(record)
    async with at_the_page(ada) as socket:
        await socket.ask("/requests")
        final = await socket.until(lambda frame: frame["type"] == "final")
    assert final[-1]["format"] == "plain"
    (html,) = final[-1]["html_of"].values()
    assert "[Mum](" in html


async def test_a5_a6_the_owner_sees_the_request_and_decides_once(ada: User) -> None:
    account = await in_thread(bridge)
    row = await in_thread(record_request, account)
    async with at_the_page(ada) as socket:
        card = await socket.hear()
        assert (card["type"], card["request"]) == ("notice", row.public_id)
        assert card["text"].startswith("Unknown request from bridge: user_id=666.")
        assert "\n" not in card["quote"]
        await socket.say(type="decide", request=row.public_id, verdict="approve")
        answer = await socket.hear()
        assert answer["decided"] is True
        assert answer["text"].startswith(
            "Unknown request from bridge: user_id=666.\nApproved by Ada"
        )
        await socket.say(type="decide", request=row.public_id, verdict="deny")
        while "Already approved by Ada" not in (await socket.hear())["text"]:
            pass  # all other frames of the card show the decision: "Approved by Ada"
    assert await in_thread(lambda: ChannelIdentity.objects.get().value) == "666"


async def test_a6_a_sender_that_cannot_be_listed_is_reported(ada: User) -> None:
    account = await in_thread(bridge)
    row = await in_thread(record_request, account)

    def spoil() -> None:
        UnknownRequest.objects.filter(id=row.id).update(kind="email", sender="no address")

    await in_thread(spoil)
    async with at_the_page(ada) as socket:
        await socket.hear()
        await socket.say(type="decide", request=row.public_id, verdict="approve")
        answer = await socket.hear()
        assert (answer["type"], answer["status"]) == ("error", 422)


async def test_a6_a_guest_neither_sees_nor_decides(ada: User, bob: User) -> None:
    account = await in_thread(bridge)
    row = await in_thread(record_request, account)
    async with at_the_page(bob) as socket:
        await socket.say(type="decide", request=row.public_id, verdict="approve")
        answer = await socket.hear()
        assert (answer["type"], answer["status"]) == ("error", 404)
    assert await in_thread(lambda: UnknownRequest.objects.get().state) == "pending"


async def test_a6_a_former_owner_decides_nothing_on_an_open_page(ada: User) -> None:
    """A socket is open for days: the right counts as it is when a command comes."""
    account = await in_thread(bridge)
    row = await in_thread(record_request, account)
    async with at_the_page(ada) as socket:
        await in_thread(lambda: User.objects.filter(pk=ada.pk).update(is_owner=False))
        await socket.ask(f"/approve {row.public_id}")
        accepted = await socket.ask("/requests", client_id="c2")
    said = await in_thread(lambda: Run.objects.get(public_id=accepted["run_id"]).result["text"])
    assert "666" not in said
    assert await in_thread(lambda: UnknownRequest.objects.get().state) == "pending"


async def test_d3_an_open_socket_of_a_bridge_has_its_account_as_it_is_now(ada: User) -> None:
    """Another kind of addresses counts for the next message; of a disabled account none is taken,
    as by its webhook.
    """
    account = await in_thread(bridge, value="42")
    _, token = await key_of(account=account)
    rows = ChannelAccount.objects.filter(pk=account.pk)
    async with opened(origin=None) as socket:
        await socket.say(type="auth", key=token)
        await socket.hear()
        await in_thread(lambda: rows.update(config={"kind": "email"}))
        await socket.say(user_id="someone@example.com", text="Hello")
        assert (await socket.hear())["status"] == 401
        assert await in_thread(lambda: UnknownRequest.objects.get().kind) == "email"
        await in_thread(lambda: rows.update(config={}, enabled=False))
        await socket.say(user_id="42", text="Hello")
        assert (await socket.hear())["status"] == 401
    assert await in_thread(Run.objects.count) == 0


async def test_a4_a_notice_for_this_person_is_passed_on(ada: User) -> None:
    async with at_the_page(ada) as socket:
        frame = {"keys": [f"user:{ada.id}"], "kind": "notice", "notice": {"text": "Look"}}
        await in_thread(pubsub.publish, [frame])
        assert await socket.hear() == {"type": "notice", "text": "Look"}


async def test_a_notice_without_a_request_leaves_the_socket_open(ada: User) -> None:
    async with at_the_page(ada) as socket:
        for text in ("The model fails", "The model answers again"):
            frame = {"keys": [f"user:{ada.id}"], "kind": "notice", "notice": {"text": text}}
            await in_thread(pubsub.publish, [frame])
            assert await socket.hear() == {"type": "notice", "text": text}

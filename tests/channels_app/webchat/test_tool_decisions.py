"""Calls of tools on the socket of the web chat: cards and decisions (V67, V68)."""

import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from allowlist.models import UnknownRequest
from channels_app.asgi.principal import Principal
from channels_app.intake import decisions
from channels_app.intake.inbound import receive_sender
from channels_app.owner import notices
from channels_app.tool_requests import asking, deciding
from channels_app.webchat import operations
from core.conversations import tool_calls
from core.conversations.inbox import Draft
from core.conversations.tool_calls import Asked, SignInWanted
from core.database.transactions import atomic_write, in_thread
from core.models import (
    ChannelAccount,
    ChatSession,
    Delivery,
    McpServer,
    Run,
    ToolCall,
    ToolGrant,
    User,
)
from core.signals import pubsub
from tests.channels_app.webchat.conftest import (
    Frame,
    Socket,
    at_the_page,
    eventually,
    is_fed,
    key_of,
    opened,
)

pytestmark = pytest.mark.django_db(transaction=True)
EVIL = "<script>alert('x')</script>"


def pause(person: User, *, of_person: bool = False, arguments: Any = None) -> ToolCall:
    """Return a waiting call of a paused run of a person's, asked where it is asked."""
    account, _ = ChannelAccount.objects.get_or_create(channel="web", name="")
    with atomic_write():
        session, _ = ChatSession.objects.get_or_create(user=person, account=account, chat="1")
        run = Run.objects.create(session=session, user=person, origin="web", state="succeeded")
        given = json.dumps({"to": "bob"} if arguments is None else arguments)
        question = Asked("1", "send_mail", given, of_person=of_person)
        asking.ask(run=run, messages=[], questions=[question])
    return ToolCall.objects.select_related("run__user").get(run=run)


async def card_of(socket: Socket) -> Frame:
    """Return the next card with buttons of a call."""
    frames = await socket.until(lambda frame: bool(frame.get("choices")))
    return frames[-1]


async def press(socket: Socket, card: Frame, choice: Any = "once", **more: Any) -> Frame:
    """Press a button of a card; return what the card becomes, or the error."""
    given = {"tool_call": card["tool_call"], "digest": card["digest"], "choice": choice, **more}
    await socket.say(type="decide", **given)
    frames = await socket.until(lambda frame: frame["type"] in {"notice", "error"})
    return frames[-1]


def now_is(call: ToolCall) -> tuple[str, str]:
    call.refresh_from_db()
    return call.state, call.scope


async def test_v67_the_owner_gets_a_card_and_decides_in_it(ada: User, bob: User) -> None:
    """In all open tabs; the decision replaces the buttons in the others."""
    async with at_the_page(ada) as one, at_the_page(ada) as two:
        call = await in_thread(pause, bob)
        card = await card_of(one)
        assert card == await card_of(two)
        assert card["type"] == "notice"
        assert (card["tool_call"], card["digest"]) == (call.public_id, call.digest)
        assert "send_mail" in card["text"]
        assert "Bob" in card["text"]
        assert "to: bob" in card["text"]
        assert [each for each, _ in card["choices"]] == ["once", "hour", "always", "edit", "deny"]
        answer = await press(one, card)
        assert answer["decided"] is True
        assert "Allowed." in answer["text"]
        assert "choices" not in answer
        settled = await two.hear()
        assert (settled["tool_call"], settled["decided"]) == (call.public_id, True)
        late = await press(two, card, "deny")
        assert deciding.TEXTS["already"] in late["text"]
        assert late["decided"] is True
    assert await in_thread(now_is, call) == ("allowed", "once")


async def test_v67_a_card_that_came_while_no_page_was_open_is_there_when_one_opens(
    ada: User, bob: User
) -> None:
    """One that was asked in another channel is not asked here, too; nor one that has expired."""
    call = await in_thread(pause, bob)
    elsewhere, late = await in_thread(pause, bob), await in_thread(pause, bob)

    def spoil() -> None:
        account = ChannelAccount.objects.create(channel="memory", name="m")
        Delivery.objects.create(
            account=account,
            dedupe_key=asking.key_of(elsewhere, ada),
            conversation="1:2:",
            payload={"text": "?"},
        )
        over = timezone.now() - timedelta(seconds=1)
        ToolCall.objects.filter(pk=late.pk).update(expires_at=over)

    await in_thread(spoil)
    async with at_the_page(ada) as socket:
        card = await socket.hear()
        assert card["tool_call"] == call.public_id
        assert await socket.is_silent()
        answer = await press(socket, {"tool_call": late.public_id, "digest": late.digest})
        assert deciding.TEXTS["expired"] in answer["text"]
    await in_thread(lambda: Delivery.objects.update(state="dead"))
    async with at_the_page(ada) as socket:
        assert [(await socket.hear())["tool_call"] for _ in range(2)] == [
            call.public_id,
            elsewhere.public_id,
        ]


def wait_for_sign_in(person: User) -> list[ToolCall]:
    """Return two calls of one run that wait for one sign-in."""
    call = pause(person, of_person=True)
    server = McpServer.objects.create(name="Notes", slug="notes", url="https://notes.test")
    run = Run.objects.create(session=call.run.session, user=person, state="succeeded")
    call.delete()
    wanted = SignInWanted(server.pk, "Notes")
    asked = [Asked(each, "notes", "{}", of_person=True, sign_in=wanted) for each in "12"]
    with atomic_write():
        asking.ask(run=run, messages=[], questions=asked)
    return list(ToolCall.objects.order_by("pk"))


async def test_v67_a_sign_in_that_several_calls_wait_for_is_one_card(bob: User) -> None:
    """It says so when another of them is denied, on its page or by a program."""
    first, second = await in_thread(wait_for_sign_in, bob)
    async with at_the_page(bob) as one, at_the_page(bob) as two:
        for socket in (one, two):
            assert (await socket.hear())["tool_call"] == first.public_id
            assert await socket.is_silent()
        digest = {"tool_call": second.public_id, "digest": second.digest}
        assert (await press(one, digest, "deny"))["decided"] is True
        settled = await two.until(lambda frame: frame.get("tool_call") == first.public_id)
        assert settled[-1]["decided"] is True
        assert "Not signed in." in settled[-1]["text"]


async def test_v68_a_person_gives_their_own_yes(ada: User, bob: User) -> None:
    """Allow, deny, always; the owner sees nothing and cannot say it for them."""
    async with at_the_page(ada) as owner, at_the_page(bob) as person:
        call = await in_thread(pause, bob, of_person=True)
        card = await card_of(person)
        assert [each for each, _ in card["choices"]] == ["once", "deny", "always"]
        assert await owner.is_silent()
        refused = await press(owner, card)
        assert (refused["type"], refused["status"]) == ("error", 404)
        answer = await press(person, card, "always")
        assert answer["decided"] is True
        await in_thread(notices.show_in_web_chats, ada, {"text": "The last one"})
        assert (await owner.hear())["text"] == "The last one"
    assert await in_thread(now_is, call) == ("allowed", "always")
    assert await in_thread(lambda: ToolGrant.objects.get().user_id) == bob.pk


async def test_v68_a_guest_and_a_key_decide_nothing(ada: User, bob: User) -> None:
    """Not the person who asked, not an owner's API key; no card is shown to them."""
    call = await in_thread(pause, bob)
    card = {"tool_call": call.public_id, "digest": call.digest}
    async with at_the_page(bob) as socket:
        assert await socket.is_silent()
        refused = await press(socket, card)
        assert (refused["type"], refused["status"]) == ("error", 404)
    _, key = await key_of(user=ada)
    async with opened() as socket:
        await socket.say(type="auth", key=key)
        assert (await socket.hear())["type"] == "authenticated"
        assert await socket.is_silent()
        refused = await press(socket, card)
        assert (refused["type"], refused["status"]) == ("error", 404)
    assert await in_thread(now_is, call) == ("waiting", "")


def write_as_stranger() -> UnknownRequest:
    """Return the request of an unknown sender who writes."""
    account, _ = ChannelAccount.objects.get_or_create(channel="memory", name="m")
    draft = Draft(account=account, sender="mallory", chat="mallory", text="Let me in")
    receive_sender(draft=draft, now=timezone.now())
    return UnknownRequest.objects.get()


async def test_v67_a_page_that_was_away_learns_of_the_decisions_about_its_cards(
    ada: User, bob: User
) -> None:
    """However long ago, and whatever came later: it says which cards it has. One that waits, and
    those of any other page, do not come again.
    """
    old, call, waits = [await in_thread(pause, bob) for _ in range(3)]
    request = await in_thread(write_as_stranger)
    async with at_the_page(ada) as socket:
        assert {asked["type"] for asked in [await socket.hear() for _ in range(4)]} == {"notice"}

    def settle() -> None:
        for each in (old, call):
            deciding.decide(
                call_id=each.public_id,
                digest=each.digest,
                by=ada,
                choice="deny",
                via="telegram",
                now=timezone.now(),
            )
        decisions.decide(
            request=request.public_id,
            verdict="approve_24h",
            owner=ada,
            via="telegram",
            now=timezone.now(),
        )
        long_ago = timezone.now() - timedelta(days=30)
        ToolCall.objects.filter(pk=old.pk).update(decided_at=long_ago)

    await in_thread(settle)
    gone = "A" * 22  # such as of a deleted chat
    cards = [old.public_id, waits.public_id, request.public_id, gone]
    async with at_the_page(ada) as socket:
        assert (await socket.hear())["tool_call"] == waits.public_id
        await socket.say(type="shown", cards=cards)
        found = {card.get("tool_call") or card["request"]: card for card in await heard(socket, 3)}
        await in_thread(notices.show_in_web_chats, ada, {"text": "The last one"})
        assert (await socket.hear())["text"] == "The last one"
    assert {*found} == {old.public_id, request.public_id, gone}
    assert all(card["decided"] for card in found.values())
    assert not any({"choices", "digest"} & {*card} for card in found.values())
    assert "Denied." in found[old.public_id]["text"]
    assert "Valid until" in found[request.public_id]["text"]
    assert found[gone]["text"] == "This request does not exist."
    async with at_the_page(bob) as socket:
        await socket.say(type="shown", cards=cards)
        told = {card["text"] for card in await heard(socket, 4)}
    assert told == {"This request does not exist."}  # to whom was not asked


async def heard(socket: Any, count: int) -> list[Frame]:
    return [await socket.hear() for _ in range(count)]


async def test_v68_a_program_with_the_key_of_an_owner_gets_no_card(ada: User, bob: User) -> None:
    """Neither when it connects nor later: the words of strangers and of others' calls are for the
    browser, which decides.
    """
    _, key = await key_of(user=ada)
    async with opened(origin=None) as socket:
        await socket.say(type="auth", key=key)
        assert (await socket.hear())["type"] == "authenticated"
        await eventually(partial(is_fed, pubsub.local(), f"user:{ada.pk}", set()))
        await in_thread(pause, bob)
        await in_thread(write_as_stranger)
        await in_thread(notices.show_in_web_chats, ada, {"text": "The last one"})
        assert (await socket.hear())["text"] == "The last one"


def test_a5_a_former_owner_is_shown_no_request_in_an_open_page(ada: User) -> None:
    """Its socket knows the owner of the moment in which it was opened."""
    principal = Principal(ada, session_key="a browser's")
    request = write_as_stranger()
    assert [each["request"] for each in operations.pending_notices(principal)] == [
        request.public_id
    ]
    User.objects.filter(pk=ada.pk).update(is_owner=False)
    operations.note_shown(principal, [request.public_id])
    request.refresh_from_db()
    assert request.notified_at is None
    assert operations.pending_notices(principal) == []


async def test_v68_only_the_call_that_was_shown_is_decided(ada: User, bob: User) -> None:
    """Another digest brings the card as it is now; an unknown call and a wrong frame an error."""
    call = await in_thread(pause, bob)

    def change() -> None:
        arguments = json.dumps({"to": EVIL})
        digest = tool_calls.digest_of(call.tool, arguments)
        ToolCall.objects.filter(pk=call.pk).update(arguments=arguments, digest=digest)

    async with at_the_page(ada) as socket:
        card = await socket.hear()
        await in_thread(change)
        again = await press(socket, card)
        assert again["problem"] == deciding.TEXTS["changed"]
        assert again["digest"] != card["digest"]
        assert again["choices"]
        assert EVIL in again["text"]
        for wrong, field in (
            ({"tool_call": "x" * 22}, "tool_call"),
            ({"tool_call": "../admin"}, "tool_call"),
            ({"tool_call": ["x"]}, "tool_call"),
            ({"choice": "edit"}, "choice"),
            ({"choice": "edited"}, "choice"),
            ({"choice": None}, "choice"),
            ({"digest": 7}, "digest"),
            ({"digest": "0" * 65}, "digest"),
        ):
            error = await press(socket, again, **{"choice": "once", **wrong})
            assert (error["type"], error["field"]) == ("error", field)
        assert await in_thread(now_is, call) == ("waiting", "")
        assert (await press(socket, again))["decided"] is True


async def test_v68_a_call_of_a_revoked_person_ends_with_words(ada: User, bob: User) -> None:
    call = await in_thread(pause, bob)
    await in_thread(lambda: User.objects.filter(pk=bob.pk).update(is_active=False))
    async with at_the_page(ada) as socket:
        answer = await press(socket, await socket.hear())
        while "decided" not in answer:
            answer = await socket.hear()
    assert (await in_thread(now_is, call))[0] != "allowed"


async def test_v68_a_removed_owner_decides_nothing_in_an_open_page(ada: User, bob: User) -> None:
    """The right is read anew for each decision."""
    call = await in_thread(pause, bob)
    async with at_the_page(ada) as socket:
        card = await socket.hear()
        await in_thread(lambda: User.objects.filter(pk=ada.pk).update(is_owner=False))
        refused = await press(socket, card)
        assert (refused["type"], refused["status"]) == ("error", 404)
    assert await in_thread(now_is, call) == ("waiting", "")


async def test_v68_a_megabyte_of_arguments_makes_a_small_card(ada: User, bob: User) -> None:
    """And much text of the model stays text on one line each."""
    arguments = {f"name {number}\n": "x" * 50_000 for number in range(20)}
    async with at_the_page(ada) as socket:
        await in_thread(pause, bob, arguments=arguments)
        card = await card_of(socket)
        assert len(json.dumps(card)) < 16_000
        assert (await press(socket, card, "deny"))["decided"] is True


async def test_v67_a_card_of_the_moment_in_which_a_page_opens_is_shown(
    ada: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is subscribed to when it is published, and what waits was read before; once."""
    read, found = operations.pending_notices, list[ToolCall]()

    def pause_after(principal: Principal) -> list[dict[str, Any]]:
        cards = read(principal)
        if not found:
            found.append(pause(bob))
        return cards

    monkeypatch.setattr(operations, "pending_notices", pause_after)
    async with at_the_page(ada) as socket:
        assert (await card_of(socket))["tool_call"] == found[0].public_id
        await in_thread(pause, bob)
        assert (await card_of(socket))["tool_call"] != found[0].public_id
        assert await socket.is_silent()


async def test_v67_a_card_of_the_time_in_which_redis_was_away_is_shown(
    ada: User, bob: User
) -> None:
    async with at_the_page(ada) as socket:
        before = await in_thread(pause, bob)
        assert (await card_of(socket))["tool_call"] == before.public_id
        await pubsub.local().close()
        call = await in_thread(pause, bob)
        with pubsub.local().listen([]):  # subscribes to everything again
            assert (await card_of(socket))["tool_call"] == call.public_id
            assert await socket.is_silent()

"""A socket is always read ([D3]): pings are answered while messages wait, too many get "busy";
sockets without a key do not block those with one (RWS12).
"""

import asyncio
import threading
from typing import Any

import pytest

from channels_app.asgi.authentication import caller_of
from channels_app.webchat import operations
from channels_app.webchat.consumers import Waiting, waiting
from core.models import User
from tests.channels_app.webchat.conftest import at_the_page, key_of, opened

pytestmark = pytest.mark.django_db(transaction=True)


async def test_a_socket_with_queued_messages_is_read_and_answers_busy(
    ada: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAX_UNANSWERED_PER_SOCKET = 3
    gate, accept = threading.Event(), operations.accept

    def slow(*arguments: Any, **named: Any) -> Any:
        gate.wait(30)
        return accept(*arguments, **named)

    monkeypatch.setattr(operations, "accept", slow)
    async with at_the_page(ada) as socket:
        for number in range(8):
            await socket.say(type="message", text="hi", client_id=f"c{number}")
        await socket.say(type="ping")
        heard = await socket.until(lambda frame: frame["type"] == "pong")
        busy = [frame for frame in heard if frame["type"] == "error"]
        assert {frame["client_id"] for frame in busy} == {"c4", "c5", "c6", "c7"}
        assert all(frame["status"] == 429 and "Busy" in frame["error"] for frame in busy)
        gate.set()
        taken: list[str] = []
        while len(taken) < 4:
            frame = await socket.hear()
            taken += [frame["client_id"]] if frame["type"] == "accepted" else []
    assert taken == ["c0", "c1", "c2", "c3"]


@pytest.mark.parametrize(("of_address", "in_all"), [(3, 100), (100, 3)])
def test_rws12_one_socket_too_many_displaces_the_oldest_that_waits(
    of_address: int, in_all: int, settings: Any
) -> None:
    """[RWS12] A client with a key sends it immediately, and is never the oldest."""
    settings.MAX_WAITING_SOCKETS_PER_ADDRESS = of_address
    settings.MAX_WAITING_SOCKETS = in_all
    idle, sockets = Waiting(), [object() for _ in range(5)]
    displaced = [idle.enter(each, "192.0.2.1") for each in sockets]  # type: ignore[arg-type]
    assert displaced == [None, None, None, sockets[0], sockets[1]]
    idle.leave(sockets[4])  # type: ignore[arg-type]
    assert idle.enter(object(), "192.0.2.1") is None  # type: ignore[arg-type]


async def test_rws12_a_socket_whose_key_is_being_checked_is_not_displaced(
    ada: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: under load twenty-five at once were closed as if they were idle."""
    settings.MAX_WAITING_SOCKETS_PER_ADDRESS = 1
    (_, token), gate = await key_of(user=ada), threading.Event()

    def slowly(**given: str) -> Any:
        assert gate.wait(60)
        return caller_of(**given)

    monkeypatch.setattr("channels_app.webchat.access.caller_of", slowly)
    async with opened() as first:
        await first.say(type="auth", key=token)
        async with asyncio.timeout(60):
            while waiting._sockets:
                await asyncio.sleep(0)
        async with opened() as idle, opened():
            assert await idle.closed() == 4429
            gate.set()
            assert (await first.hear())["type"] == "authenticated"


async def test_a_message_behind_one_that_has_waited_too_long_is_refused_when_it_comes(
    ada: User, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait longer still; a command passes."""
    settings.MAX_QUEUE_SECONDS = -1  # any wait is too long
    gate, accept = threading.Event(), operations.accept

    def slow(*arguments: Any, **named: Any) -> Any:
        gate.wait(30)
        return accept(*arguments, **named)

    monkeypatch.setattr(operations, "accept", slow)
    async with at_the_page(ada) as socket:
        for number, text in enumerate(["hi", "hi", "/help"]):
            await socket.say(type="message", text=text, client_id=f"c{number}")
        await socket.say(type="message", text="hi", client_id="c3")
        refused = await socket.until(lambda frame: frame.get("client_id") == "c3")
        gate.set()
        assert {frame["code"] for frame in refused} == {"busy"}
        assert {frame["client_id"] for frame in refused} <= {"c1", "c3"}

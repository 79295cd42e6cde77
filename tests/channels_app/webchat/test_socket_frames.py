"""The frames of clients over ``/ws``: [D3], RWS7, RWS10, RI17."""

from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from core.database.transactions import in_thread
from core.models import InboundMessage, Run, User
from tests.channels_app.webchat.conftest import Frame, at_the_page

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        ({"type": "message"}, "text"),
        ({"type": "message", "text": 5}, "text"),
        ({"type": "message", "text": " \n"}, "text"),
        ({"type": "message", "text": "a", "client_id": "a b"}, "client_id"),
        ({"type": "message", "text": "a", "client_id": 1}, "client_id"),
        ({"type": "message", "text": "a", "session_id": []}, "session_id"),
        ({"type": "message", "text": "a", "files": "x"}, "files"),
        ({"type": "message", "text": "a", "files": ["/etc/passwd"]}, "files"),
        ({"type": "message", "text": "a", "files": [{"url": 5}]}, "files"),
        ({"type": "message", "text": "a", "files": ["data:image/png;base64,§"]}, "files"),
        ({"type": "message", "text": "a", "files": ["data:,x"] * 17}, "files"),
        ({"type": "resume", "run_id": 5}, "run_id"),
        ({"type": "resume", "run_id": "x", "after": -1}, "after"),
        ({"type": "resume", "run_id": "x", "after": True}, "after"),
        ({"type": "resume", "run_id": "x", "after": 2**31}, "after"),
        ({"type": "resume", "run_id": "x", "after": "' OR 1=1"}, "after"),
        ({"type": "decide", "request": "x", "verdict": "sudo"}, "verdict"),
        ({"type": "auth", "key": "again"}, "type"),
        ({"type": "visible"}, "visible"),
        ({"type": "visible", "visible": "yes"}, "visible"),
        ({"type": "shown"}, "cards"),
        ({"type": "shown", "cards": ["x"]}, "cards"),
        ({"type": "shown", "cards": ["A" * 22] * 101}, "cards"),
        ({"type": "launch"}, "type"),
        ({"type": ["message"]}, "type"),
        ({}, "type"),
    ],
)
async def test_d3_a_wrong_frame_is_answered_with_the_field_that_is_wrong(
    ada: User, frame: Frame, field: str
) -> None:
    async with at_the_page(ada) as socket:
        await socket.say(**frame)
        answer = await socket.hear()
        assert (answer["type"], answer["status"], answer["field"]) == ("error", 400, field)
        assert await socket.is_silent()
    assert await in_thread(InboundMessage.objects.count) == 0


async def test_d3_a_message_that_no_worker_can_take_is_refused_with_words(ada: User) -> None:
    """The database is newer than this code: the web chat shows why, and nothing is kept."""

    def change(verb: str) -> None:
        getattr(MigrationRecorder(connection), f"record_{verb}")("core", "9999_of_tomorrow")

    await in_thread(change, "applied")
    try:
        async with at_the_page(ada) as socket:
            answer = await socket.ask("anybody there?")
    finally:
        await in_thread(change, "unapplied")
    assert (answer["type"], answer["status"], answer["client_id"]) == ("error", 503, "c1")
    assert answer["error"].startswith("The gateway is being updated")
    assert await in_thread(InboundMessage.objects.count) == 0


@pytest.mark.parametrize(
    "data",
    [
        "{",
        "[]",
        "1",
        "NaN",
        '{"a":NaN}',
        '{"a":1,"a":2}',
        "[" * 100_000,
        '{"a":' * 70 + "1" + "}" * 70,
    ],
)
async def test_d3_invalid_json_is_answered_and_the_socket_stays_open(ada: User, data: str) -> None:
    async with at_the_page(ada) as socket:
        await socket.wire.send_to(text_data=data)
        answer = await socket.hear()
        assert (answer["type"], answer["status"], answer["field"]) == ("error", 400, "frame")
        assert await socket.is_silent()


@pytest.mark.parametrize("said", ["a\x00b", "a\ud800b"])
async def test_d3_text_that_no_database_holds_is_refused(ada: User, said: str) -> None:
    async with at_the_page(ada) as socket:
        data = '{"type":"message","text":%s}' % ('"a\\u0000b"' if "\x00" in said else '"a\\ud800b"')
        await socket.wire.send_to(text_data=data)
        assert (await socket.hear())["field"] == "text"


async def test_d3_bytes_are_not_frames(ada: User) -> None:
    async with at_the_page(ada) as socket:
        await socket.wire.send_to(bytes_data=b"\xff\xfe")
        assert (await socket.hear())["status"] == 400


async def test_d3_a_text_that_is_too_long_is_refused(ada: User, settings: Any) -> None:
    settings.MAX_TEXT_CHARACTERS = 10
    async with at_the_page(ada) as socket:
        answer = await socket.ask("x" * 11)
        assert (answer["status"], answer["field"], answer["client_id"]) == (413, "text", "c1")


async def test_d3_a_frame_that_is_too_large_closes_the_socket(ada: User, settings: Any) -> None:
    settings.MAX_FRAME_BYTES = 100
    async with at_the_page(ada) as socket:
        await socket.say(type="message", text="x" * 100)
        assert await socket.closed() == 4413


async def test_rws7_claimed_identities_are_ignored(bob: User) -> None:
    async with at_the_page(bob) as socket:
        accepted = await socket.ask("Hi", role="owner", scopes=["admin"], user_id="ada", user=1)
    run = await in_thread(lambda: Run.objects.select_related("user").get())
    assert run.public_id == accepted["run_id"]
    assert run.user == bob
    assert not run.user.is_owner


async def test_rws10_a_flood_closes_the_socket(ada: User, settings: Any) -> None:
    settings.FRAMES_PER_MINUTE = 20
    async with at_the_page(ada) as socket:
        for _ in range(30):
            await socket.say(type="ping")
        assert await socket.closed() == 4429


async def test_ri17_too_many_messages_a_minute_are_refused_not_lost(
    ada: User, settings: Any
) -> None:
    settings.RATE_PER_MINUTE_USER = 2
    async with at_the_page(ada) as socket:
        for number in range(2):
            assert (await socket.ask("a", client_id=f"c{number}"))["type"] == "accepted"
        answer = await socket.ask("a", client_id="c2")
        assert (answer["type"], answer["status"], answer["client_id"]) == ("error", 429, "c2")

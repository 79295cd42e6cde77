"""The end of a stream whose process is stopped."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from channels_app.asgi import event_stream
from channels_app.asgi.bodies import Body


class Open(Body):
    """A client that stays."""

    def __init__(self) -> None:
        """Have no body."""

    async def gone(self) -> None:
        """Never return."""
        await asyncio.Event().wait()


async def cut_off(farewell: bytes | None, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what is sent of a stream that is stopped after its first block."""
    monkeypatch.setattr(event_stream, "LAST_SECONDS", 0.01)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def blocks() -> AsyncGenerator[bytes, None]:
        yield b"half"
        event_stream.stopping().set()
        await asyncio.Event().wait()

    assert await event_stream.send_stream(
        Open(), send, blocks(), headers={}, farewell=farewell
    ) is (farewell is not None)
    return sent[1:]


def test_w37_a_stopped_process_does_not_make_half_an_answer_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[W37] Without a farewell there is no last chunk; with one there is."""
    [half] = asyncio.run(cut_off(None, monkeypatch))
    assert (half["body"], half["more_body"]) == (b"half", True)
    *_, farewell, last = asyncio.run(cut_off(b"bye", monkeypatch))
    assert farewell["body"] == b"bye"
    assert not last.get("more_body")

"""Recordings put into words on this machine."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pytest_django import Settings

from core.media import transcribe
from tests.servers import wait_until


class Whisper:
    """Hears a word each 20 ms, many in all; ``heard`` counts them."""

    heard = 0
    has_ended = False

    def transcribe(self, _path: str, **_: Any) -> tuple[Iterator[SimpleNamespace], None]:
        return self.words(), None

    def words(self) -> Iterator[SimpleNamespace]:
        try:
            while self.heard < 200:
                time.sleep(0.02)
                self.heard += 1
                yield SimpleNamespace(text=" word ")
        finally:
            self.has_ended = True


async def test_c6_a_recording_that_takes_too_long_is_heard_no_further(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A thread cannot be ended from outside: it would need the processors for hours."""
    settings.TRANSCRIPTION_MODEL = ""
    whisper = Whisper()
    monkeypatch.setattr(transcribe, "can_listen", lambda: True)
    monkeypatch.setattr(transcribe, "whisper", lambda: whisper)
    monkeypatch.setattr(transcribe, "SECONDS", 0.1)
    with pytest.raises(transcribe.TranscriptionError, match="took too long"):
        await transcribe.speech(tmp_path / "a.ogg", name="a.ogg")
    wait_until(lambda: whisper.has_ended, seconds=10, what="the end of the thread")
    assert whisper.heard < 100


@pytest.mark.parametrize(
    ("name", "beginning", "sent"),
    [
        ("PTT-20260904-WA0001.opus", b"OggS" + bytes(24) + b"OpusHead", "PTT-20260904-WA0001.ogg"),
        ("audio", b"OggS" + bytes(24) + b"OpusHead", "audio.ogg"),
        ("memo.weba", b"\x1a\x45\xdf\xa3 A_OPUS", "memo.webm"),
        ("clip.mov", bytes(4) + b"ftypqt  ", "clip.mp4"),
        ("Voice.M4A", bytes(4) + b"ftypM4A ", "Voice.M4A"),
        ("old.amr", b"#!AMR\n", "old.amr"),
    ],
)
async def test_c6_a_recording_is_sent_under_a_name_that_services_take(
    name: str, beginning: bytes, sent: str, settings: Settings, tmp_path: Path
) -> None:
    """They go by the name alone, and refuse ``.opus``."""

    async def hear(request: web.Request) -> web.Response:
        file = (await request.post())["file"]
        assert isinstance(file, web.FileField)
        return web.json_response({"text": file.filename})

    (tmp_path / "stored").write_bytes(beginning)
    settings.TRANSCRIPTION_MODEL = "whisper-1"
    app = web.Application()
    app.router.add_post("/audio/transcriptions", hear)
    async with TestServer(app) as server:
        settings.TRANSCRIPTION_BASE_URL = str(server.make_url("")).rstrip("/")
        assert await transcribe.speech(tmp_path / "stored", name=name) == sent

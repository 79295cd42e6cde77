"""Recordings put into words on this machine."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
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

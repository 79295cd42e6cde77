"""The program that takes a picture out of a video."""

import asyncio
from pathlib import Path

import pytest

from core.media import frame


def test_the_program_that_opens_videos_sees_no_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A video of anybody may take it over."""
    program = tmp_path / "ffmpeg"
    program.write_text("#!/bin/sh\nenv\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("GATEWAY_ENCRYPTION_KEYS", "canary")
    seen = asyncio.run(frame.of_video(tmp_path / "a", duration=None))
    assert seen is not None
    assert b"PATH=" in seen
    assert b"canary" not in seen

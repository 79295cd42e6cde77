"""Types of files by their first bytes."""

import subprocess
from pathlib import Path

import pytest

from core.documents.sniffing import media_type
from core.files import storage

SOUND = ("-f", "lavfi", "-i", "sine")
PICTURE = ("-f", "lavfi", "-i", "testsrc=size=64x64")


@pytest.mark.parametrize(("inputs", "kind"), [(SOUND, "audio"), (SOUND + PICTURE, "video")])
def test_webm_has_the_type_of_its_tracks_whatever_its_name_says(
    inputs: tuple[str, ...], kind: str, tmp_path: Path
) -> None:
    """Browsers name a recording ``.webm``, which is the name of a film."""
    path = tmp_path / "memo.webm"
    made = ["ffmpeg", "-v", "error", *inputs, "-t", "0.2", str(path)]
    subprocess.run(made, check=True, timeout=60)
    assert storage.type_of(path, "memo.webm") == f"{kind}/webm"
    assert media_type(path.read_bytes()[:4096], declared="audio/webm") == f"{kind}/webm"


@pytest.mark.parametrize(
    ("declared", "found"), [("audio/webm", "audio/webm"), ("application/x", "video/webm")]
)
def test_webm_whose_tracks_come_later_has_the_declared_type(declared: str, found: str) -> None:
    assert media_type(b"\x1a\x45\xdf\xa3" + bytes(60), declared=declared) == found


def film(brand: bytes, rest: bytes = b"") -> bytes:
    """Return the beginning of an ISO media file."""
    return b"\0\0\0\x18ftyp" + brand + bytes(12) + rest


@pytest.mark.parametrize("brand", [b"mp42", b"isom", b"iso5"])
def test_a_recording_of_a_phone_or_a_browser_is_no_film(brand: bytes, tmp_path: Path) -> None:
    """Android and Safari write sound into the same files as films, and no brand of its own."""
    path = tmp_path / "memo.m4a"
    path.write_bytes(film(brand))
    assert storage.type_of(path, "memo.m4a") == "audio/mp4"
    assert storage.type_of(path, "memo.mp4") == "video/mp4"
    assert storage.type_of(path, "memo.3gp") == "video/mp4"  # its name says nothing
    path.write_bytes(film(brand, b"moov hdlr" + bytes(8) + b"vide"))
    assert storage.type_of(path, "memo.m4a") == "video/mp4"

"""Pictures as a model gets them."""

import io
from pathlib import Path

import pytest
from PIL import Image

from core.media import scaler


def shown(path: Path) -> Image.Image:
    """Return the picture that a model gets of the one at ``path``."""
    return Image.open(io.BytesIO(scaler.scaled(str(path))))


def test_c6_a_grey_picture_of_16_bits_keeps_its_shades(tmp_path: Path) -> None:
    """As of a scanner or an X-ray."""
    made = Image.new("I;16", (3, 1))
    for x, shade in enumerate((0, 20_000, 65_535)):
        made.putpixel((x, 0), shade)
    made.resize((300, 100), Image.Resampling.NEAREST).save(tmp_path / "a.png")
    found = shown(tmp_path / "a.png").convert("L")
    assert list(found.tobytes()[:300:100]) == pytest.approx([0, 78, 255], abs=4)


def test_c6_the_hidden_part_of_a_large_picture_is_white(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sent as JPEG, which knows no transparency."""
    monkeypatch.setattr(scaler, "MOST_BYTES", 100)
    Image.new("RGBA", (200, 100), (0, 0, 0, 0)).save(tmp_path / "a.png")
    found = shown(tmp_path / "a.png")
    assert (found.format, found.getpixel((50, 50))) == ("JPEG", (255, 255, 255))


def test_a_picture_starts_no_other_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostScript called .png would be drawn by Ghostscript, which runs what it says."""
    program = tmp_path / "gs"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    head = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "a.png").write_text(head)
    with pytest.raises(OSError, match="cannot identify"):
        scaler.scaled(str(tmp_path / "a.png"))
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("form", ["I;16", "I;16B"])
def test_c6_a_scan_keeps_its_shades_in_either_order_of_bytes(tmp_path: Path, form: str) -> None:
    made = Image.new(form, (300, 100), 40_000)
    made.save(tmp_path / "a.tif")
    assert shown(tmp_path / "a.tif").convert("L").getpixel((5, 5)) == pytest.approx(156, abs=4)


def test_c6_a_photo_of_very_many_pixels_is_read_at_a_fraction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Phones make such of 200 megapixels; other formats have no fraction."""
    monkeypatch.setattr(scaler, "MOST_PIXELS", 4_000_000)
    made = Image.new("RGB", (4000, 4000), "red")
    made.save(tmp_path / "a.jpg")
    assert shown(tmp_path / "a.jpg").size == (1568, 1568)
    made.save(tmp_path / "a.png")
    with pytest.raises(ValueError, match="too many pixels"):
        scaler.scaled(str(tmp_path / "a.png"))

"""[L1] Text is measured with the advances of real fonts."""

import subprocess
from functools import cache

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import ImageFont

from core.plugins.slides import measure
from core.plugins.slides.texts import writable

TEXTS = (
    "The quick brown fox jumps over the lazy dog, 1234567890 times.",
    "Größenverhältnisse: Öl, Äpfel, Übermut – „Weiß“ œuvre façade señor",
    "Съешь же ещё этих мягких французских булок",
    "Ελληνικά κείμενα με τόνους",
    "WWWWWWWWmmmmmmm@@@@@%%%%",
)


@cache
def installed(family: str, style: str) -> str:
    """Return the file of an installed face; "" where it is missing."""
    form = "%{file}\n"
    asked = ["fc-list", "--format", form, f":family={family}:style={style}"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split("\n")
    return next((path for path in sorted(found) if path.endswith((".ttf", ".otf"))), "")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("bold", [False, True])
def test_no_font_sets_a_text_wider_than_measured(text: str, bold: bool) -> None:
    """Compared with the fonts of this machine."""
    faces = [
        path
        for family in ("DejaVu Sans", "Liberation Sans", "Noto Sans")
        for style in (("Bold",) if bold else ("Book", "Regular"))
        if (path := installed(family, style))
    ]
    assert faces, "CI installs fonts-dejavu-core at least"
    for path in faces:
        real = ImageFont.truetype(path, 200).getlength(text) / 10
        assert real <= measure.width(text, 20, bold=bold) <= real * 1.7, path


def test_east_asian_signs_are_as_wide_as_they_are_high() -> None:
    """By the fonts: 1 em."""
    assert measure.width("可再生能源", 20) == pytest.approx(5 * 20, rel=0.03)


def test_combining_marks_have_no_width() -> None:
    """Harakat and accents."""
    assert measure.width("e\u0301", 20) == measure.width("e", 20)


@given(st.text(max_size=300), st.sampled_from([12, 20, 32]), st.integers(60, 800))
@example("000", 32, 60)
def test_no_line_is_wider_than_its_box_and_nothing_is_lost(
    text: str, size: int, limit: int
) -> None:
    """In any text."""
    clean = " ".join(writable(text).split())
    lines = measure.wrap(clean, size, limit)
    assert "".join(lines).replace(" ", "") == clean.replace(" ", "")
    for line in lines:
        assert measure.width(line, size) <= limit + 0.01 or len(line.strip()) == 1


@given(st.text(max_size=300), st.integers(1, 4))
def test_a_clipped_text_has_no_more_lines_than_allowed(text: str, lines: int) -> None:
    """In any text."""
    clean = " ".join(writable(text).split())
    clipped = measure.clip(clean, 14, 120, lines)
    assert len(measure.wrap(clipped, 14, 120)) <= lines


def test_a_line_does_not_begin_with_a_closing_sign() -> None:
    """Kinsoku."""
    for line in measure.wrap("数据分散在各家医院，格式不一。模型有效，换一家可能失灵。", 20, 150):
        assert line[0] not in measure.NOT_FIRST

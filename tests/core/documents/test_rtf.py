"""Rich Text Format as its reader sees it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.documents import read
from core.documents.rtf import text_of

HEAD = (
    rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fswiss Arial;}{\f1\fcharset204 Arial;}}"
    rb"{\colortbl;\red0\green0\blue0;}{\*\generator Riched20;}{\info{\title T}}"
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (rb"\pard Gr\'fc\'dfe \b an\b0  alle\par zweite\par", "Grüße an alle\nzweite\n"),
        (rb"\f1\'cf\'f0\'e8\'e2\'e5\'f2\f0  ok", "Привет ok"),
        (rb"\uc1 5 \u8364? und \u9731\'3f!", "5 € und ☃!"),
        (rb"{\pict\pngblip 89504e47}{\*\shppict{\pict 00}}seen", "seen"),
        (rb"a\cell b\cell\row \{x\}\~y", "a | b | \n{x}\u00a0y"),
        (b"one\r\ntwo", "onetwo"),
        (rb"pay {\revised\revauth1 9}{\deleted 5 \u8364? or \'fc} now", "pay 9 now"),
        (rb"a\deleted b\deleted0 c\deleted d\plain e", "ace"),
        (rb"\u-10179?\u-8704?", "😀"),
    ],
)
def test_only_visible_text_is_read(body: bytes, text: str) -> None:
    assert text_of(HEAD + body + b"}") == text


@given(st.binary(max_size=300))
def test_any_bytes_are_read(content: bytes) -> None:
    text_of(HEAD + content).encode()


async def test_a_file_is_known_by_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(HEAD + rb"Hello\par}")
    found = await read.parts(tmp_path / "a", name="letter.doc", most_megabytes=1)
    assert found == [("", "Hello")]

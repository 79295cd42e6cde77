"""The text of pages, whatever their encoding is said to be."""

import pytest

from core.tools.web.encodings import codec_of, text_of

UMLAUTS = "Die Mühle von Österreich – groß"
JAPANESE = "水車小屋は火曜日に小麦を挽きます。"


@pytest.mark.parametrize(
    ("body", "charset", "words"),
    [
        (UMLAUTS.encode(), "", UMLAUTS),
        (UMLAUTS.encode(), "utf-8", UMLAUTS),
        (UMLAUTS.encode("cp1252"), "iso-8859-1", UMLAUTS),
        (UMLAUTS.encode("cp1252"), "", UMLAUTS),
        (UMLAUTS.encode("cp1252"), "utf-8", "Die M�hle von �sterreich � gro�"),
        (UMLAUTS.encode(), "us-ascii", UMLAUTS.encode().decode("cp1252", "replace")),
        (JAPANESE.encode("shift_jis"), "Shift_JIS", JAPANESE),
        (JAPANESE.encode("euc_jp"), "euc-jp", JAPANESE),
        (b'<meta charset="gb2312">' + "磨坊".encode("gb18030"), "", '<meta charset="gb2312">磨坊'),
        (b"\xef\xbb\xbf" + UMLAUTS.encode(), "koi8-r", UMLAUTS),
        (b"\xff\xfe" + UMLAUTS.encode("utf-16-le"), "utf-8", UMLAUTS),
        (b"\xfe\xff" + UMLAUTS.encode("utf-16-be"), "", UMLAUTS),
        (b"", "utf-8", ""),
    ],
)
def test_v30_the_first_encoding_that_fits_is_taken(body: bytes, charset: str, words: str) -> None:
    assert text_of(body, charset) == words


@pytest.mark.parametrize(
    "charset",
    ["punycode", "idna", "unicode_escape", "rot13", "zip", "utf-7", "undefined", "x" * 400, "a\0b",
     "none", "../../etc", "utf-16", "hex", "mbcs"],
)  # fmt: skip
def test_v30_a_codec_that_is_none_of_the_web_is_not_used(charset: str) -> None:
    assert codec_of(charset) == ""
    assert text_of(UMLAUTS.encode(), charset) == UMLAUTS
    page = f'<meta charset="{charset}">{UMLAUTS}'
    assert text_of(page.encode(), charset) == page

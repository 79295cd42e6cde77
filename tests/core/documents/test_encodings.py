"""The text of pages, whatever their encoding is said to be, and of files, which do not say it."""

import pytest

from core.documents.encodings import codec_of, text_of, text_of_file

UMLAUTS = "Die Mühle von Österreich – groß"
RUSSIAN = '<meta charset="koi8-r">Мельница'
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
        (RUSSIAN.encode("koi8-r"), "", RUSSIAN),
        (RUSSIAN.encode("koi8-r"), "utf-8", RUSSIAN),
        (RUSSIAN.encode("koi8-r"), "none", RUSSIAN),
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


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1252", "Name;Straße\nMüller;Königstraße\n"),  # valid in GB 18030
        ("cp1252", "25°C;5 µm;10 €\n"),  # in Big5
        ("cp1252", "«\xa0Où\xa0?\xa0» Le café est fermé…"),
        ("cp1251", "Имя;City\nОльга;Санкт-Петербург\n"),
        ("gb18030", "姓名;城市\n张三;北京\n"),
        ("gb18030", "Hello 世界, this text has few 汉字"),
        ("big5", "公司名稱;電話\n台灣積體電路;02\n"),
        ("cp932", "商品名;価格\nりんご①;100\n"),
        ("euc_jp", "日本語のテキストです。"),
        ("cp949", "안녕하세요 이것은 한국어 문서입니다.\n"),
        ("utf-8-sig", "Müller\n"),
        ("utf-16", "Müller\n"),
    ],
)
def test_l5_a_file_is_read_in_the_encoding_of_its_country(encoding: str, text: str) -> None:
    assert text_of_file(text.encode(encoding)) == text
    lines = "1;2;3\n" * 9_000  # so that other bytes come late
    assert text_of_file((lines + text).encode(encoding)) == lines + text


def test_l5_a_file_with_a_broken_byte_stays_utf_8() -> None:
    """As the end of a log that was cut within a character."""
    assert text_of_file("Zürich, Genève, Österreich, größer, für".encode() + b"\xc3") == (
        "Zürich, Genève, Österreich, größer, für�"
    )

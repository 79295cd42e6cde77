"""The text of PDF pages as it reads."""

from pathlib import Path

from core.documents import read
from core.documents.reader import pages_of_pdf
from tests.core.jobs_worker import papers

# Latin letters that stand for Arabic ones, in a font.
LETTERS = {"a": "ا", "b": "ل", "c": "ع", "d": "ر", "e": "ب", "f": "ي", "g": "ة", "h": "ﻻ",
           "i": "😀"}  # fmt: skip
FONT = b"/BaseFont /Helvetica >>"


def arabic(content: str) -> bytes:
    """Return a page with this content in such a font."""
    pairs = "".join(f"<{ord(a):02x}> <{b.encode('utf-16-be').hex()}>\n" for a, b in LETTERS.items())
    table = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n1 begincodespacerange\n"
        f"<00> <ff>\nendcodespacerange\n{len(LETTERS)} beginbfchar\n{pairs}endbfchar\nendcmap"
    ).encode()
    made = papers.pdf([""], streams={0: papers.packed(content.encode())})
    made = made.replace(FONT, b"/BaseFont /Helvetica /ToUnicode 90 0 R >>")
    stream = b"90 0 obj\n<< /Length %d >>\nstream\n%s\nendstream\nendobj\n" % (len(table), table)
    return made.replace(b"xref\n0 ", stream + b"xref\n0 ", 1)


def pages(folder: Path, content: bytes) -> list[tuple[str, str]]:
    (folder / "a.pdf").write_bytes(content)
    return list(pages_of_pdf(folder / "a.pdf"))


def drawn(letter: str) -> str:
    """Return a letter as Chrome prints it: with its meaning beside it."""
    means = f"/Span << /ActualText <FEFF{ord(LETTERS[letter]):04X}> >> BDC"
    return f"{means} ({letter}) Tj EMC"


def test_arabic_words_are_read_from_right_to_left(tmp_path: Path) -> None:
    line = " ( ) Tj ".join(" ".join(map(drawn, word)) for word in ("gfed", "eha", "gfedc"))
    ((_, text),) = pages(tmp_path, arabic(f"BT /F1 10 Tf 300 700 Td {line} ET"))
    assert text.split() == ["عربية", "الاب", "ربية"]


async def test_an_emoji_beside_arabic_words_is_read(tmp_path: Path) -> None:
    """To PDFium it is two characters, in the order of the page."""
    line = " ( ) Tj ".join((" ".join(map(drawn, "gfed")), "(ii) Tj"))
    (tmp_path / "a.pdf").write_bytes(arabic(f"BT /F1 10 Tf 300 700 Td {line} ET"))
    ((_, text),) = await read.parts(tmp_path / "a.pdf", name="a.pdf", most_megabytes=1)
    assert sorted(text.split()) == ["ربية", "😀😀"]


def test_a_hyphen_at_the_end_of_a_line_stays(tmp_path: Path) -> None:
    content = (
        "BT /F1 10 Tf 40 700 Td (state-of-) Tj 0 -12 Td (the-art, 2024-) Tj 0 -12 Td (2025) Tj ET"
    )
    made = papers.pdf([""], streams={0: papers.packed(content.encode())})
    ((_, text),) = pages(tmp_path, made)
    assert text.split() == ["state-of-", "the-art,", "2024-", "2025"]


def test_pages_that_are_pictures_are_said(tmp_path: Path) -> None:
    picture = b"q 100 0 0 100 40 600 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \x00 EI Q"
    scan = papers.packed(picture)
    made = papers.pdf(["Words", "", "More", ""], streams={1: scan, 3: scan})
    found = [(name, text.strip()) for name, text in pages(tmp_path, made) if text.strip()]
    assert found == [
        ("page 1", "Words"),
        ("page 3", "More"),
        ("the end", "(Not read, because they are pictures without text: pages 2, 4.)"),
    ]
    alone = papers.pdf(["", ""], streams={0: scan, 1: scan})
    assert not any(text.strip() for _, text in pages(tmp_path, alone))


def test_comments_of_reviewers_are_read(tmp_path: Path) -> None:
    made = papers.pdf(["The rent is 900."], filled="drawn", field="Highlight")
    said = made.replace(b"/FT /Tx /T (a)", b"/T (Ann) /Contents (Too much)")
    ((_, text),) = pages(tmp_path, said)
    assert text.split("\n")[-1] == "[comment] Ann: Too much"
    assert "rent is 900" in text

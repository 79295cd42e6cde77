"""[L5] Documents become text with references; bombs, encryption and false types become a clear
message.
"""

import os
import resource
import zipfile
from pathlib import Path
from typing import Any

import docx
import openpyxl
import pptx
import pytest
from docx.oxml import parse_xml

from core.documents import read
from core.documents.formats import kind_of
from core.documents.read import DocumentError
from tests.core.jobs_worker import papers

Pairs = list[tuple[str, str]]


PATIENCE_SECONDS = 600.0  # a loaded machine must not turn "too large" into "too slow"


async def read_it(path: Path, *, most: int = 50) -> Pairs:
    return await read.parts(path, name=path.name, most_megabytes=most, seconds=PATIENCE_SECONDS)


async def refused(path: Path, *, most: int = 50) -> str:
    with pytest.raises(DocumentError) as caught:
        await read_it(path, most=most)
    return str(caught.value)


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


async def test_l5_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    found = await read_it(written(tmp_path, "a.pdf", papers.pdf(["First words", "Second words"])))
    assert [(name, text.strip()) for name, text in found] == [
        ("page 1", "First words"),
        ("page 2", "Second words"),
    ]


@pytest.mark.parametrize("field", ["Widget", "FreeText"])
async def test_l5_a_pdf_is_read_with_the_fields_that_were_filled_in(
    field: str, tmp_path: Path
) -> None:
    """Of a form, or texts that a viewer has put on a page."""
    content = papers.pdf(["Name:", "City:"], filled="Ada", field=field)
    found = await read_it(written(tmp_path, "a.pdf", content))
    assert [text.split() for _, text in found] == [["Name:", "Ada"], ["City:", "Ada"]]


async def test_l5_word_is_read_by_its_headings_with_tables(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_paragraph("Opening.")
    made.add_heading("Costs", 1)
    made.add_paragraph("They rise.")
    table = made.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Rent", "900 €"
    made.save(str(tmp_path / "a.docx"))
    found = await read_it(tmp_path / "a.docx")
    assert found == [
        ("beginning", "Opening."),
        ("section Costs", "Costs\nThey rise.\nRent | 900 €"),
    ]


def word_xml(inner: str) -> Any:
    """Return an element of Word's; ``inner`` has the prefix ``w``."""
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    return parse_xml(inner.replace(" ", f' xmlns:w="{space}" ', 1))


async def test_l5_word_is_read_with_tracked_changes_forms_and_fields(tmp_path: Path) -> None:
    made = docx.Document()
    run = "<w:r><w:t>{}</w:t></w:r>"
    for words, inner in (
        ("It costs ", f'<w:ins w:id="1" w:author="a">{run.format("250")}</w:ins>'),
        (" €", '<w:del w:id="2" w:author="a"><w:r><w:delText>100</w:delText></w:r></w:del>'),
        ("Name: ", f"<w:sdt ><w:sdtContent>{run.format('Ada')}</w:sdtContent></w:sdt>"),
        ("On ", f'<w:fldSimple w:instr="DATE">{run.format("1 May")}</w:fldSimple>'),
    ):
        made.add_paragraph(words)._p.append(word_xml(inner))
    block = f"<w:sdt ><w:sdtContent><w:p>{run.format('Agreed.')}</w:p></w:sdtContent></w:sdt>"
    made.element.body.insert(0, word_xml(block))
    made.save(str(tmp_path / "a.docx"))
    assert await read_it(tmp_path / "a.docx") == [
        ("", "Agreed.\nIt costs 250\n €\nName: Ada\nOn 1 May")
    ]


async def test_l5_word_without_headings_comes_in_pieces(tmp_path: Path) -> None:
    """[RDOC8] So that a long one can be cut; and 4,000 paragraphs do not ask 4,000 times for a style
    (that took 7 s of processor)."""
    made = docx.Document()
    for number in range(4_000):
        made.add_paragraph(f"{number} " + "words " * 20)
    made.save(str(tmp_path / "a.docx"))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = await read_it(tmp_path / "a.docx")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert 100 < len(found) < 150
    assert found[-1][1].endswith("3999 " + "words " * 20)
    assert after.ru_utime - before.ru_utime < 3.5


async def test_l5_slides_are_read_with_their_notes(tmp_path: Path) -> None:
    made = pptx.Presentation()
    slide = made.slides.add_slide(made.slide_layouts[0])
    slide.shapes.title.text = "Hello"
    slide.notes_slide.notes_text_frame.text = "Say it slowly"
    made.save(str(tmp_path / "a.pptx"))
    assert await read_it(tmp_path / "a.pptx") == [("slide 1", "Hello\nSay it slowly")]


async def test_l5_sheets_and_csv_are_read_in_rows(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for number in range(60):
        book.active.append([f"row {number}", number])
    book.active.append([])
    book.active.append(["the last"])
    book.active.title = "Data"
    book.save(tmp_path / "a.xlsx")
    name = "xl/worksheets/sheet1.xml"  # some programs give the size of each sheet as one cell
    with zipfile.ZipFile(tmp_path / "a.xlsx") as archive:
        content = archive.read(name).replace(b'ref="A1:B62"', b'ref="A1"')
    papers.rewritten(tmp_path / "a.xlsx", name=name, content=content)
    found = await read_it(tmp_path / "a.xlsx")
    assert [name for name, _ in found] == ["sheet Data rows 1-50", "sheet Data rows 51-62"]
    assert found[0][1].startswith("row 0 | 0\nrow 1 | 1\n")
    for encoding in ("utf-8", "cp1252"):  # Excel writes that of the country
        path = written(tmp_path, "a.csv", "Größe;Straße\na;1\n".encode(encoding))
        assert await read_it(path) == [("rows 1-2", "Größe | Straße\na | 1")]
    unclosed = 'Size;Remark\n5;"wide\n' + "6;narrow\n" * 20_000
    found = await read_it(written(tmp_path, "a.csv", unclosed.encode()))
    assert found[0][1].startswith("Size | Remark\n5 | wide\n6;narrow")


async def test_l5_pages_and_texts_are_read_without_their_scripts(tmp_path: Path) -> None:
    page = b"<html><body><p>Before</p><h2>Sun</h2><script>evil()</script><p>It is <b>hot</b> today</p></html>"
    found = await read_it(written(tmp_path, "a.html", page))
    assert "evil" not in str(found)
    assert found[1][0] == "section Sun"
    russian = '<meta charset="windows-1251"><p>Солнце</p>'.encode("cp1251")
    assert await read_it(written(tmp_path, "a.html", russian)) == [("", "Солнце")]
    text = "# One\nuno\n# Two\ndos\n"
    assert await read_it(written(tmp_path, "a.md", text.encode())) == [
        ("section One", "# One\nuno"),
        ("section Two", "# Two\ndos"),
    ]
    chinese = written(tmp_path, "a.txt", "你好，世界".encode("gb18030"))
    assert await read_it(chinese) == [("", "你好，世界")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.pdf", b"%PDF-1.7 nothing of it", "damaged"),
        ("a.pdf", papers.encrypted_pdf(), "password"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"x" * 100, "password"),
        ("a.docx", b"PK\x03\x04 no archive", "damaged"),
        ("a.xlsx", b"", "damaged"),
        ("a.zip", b"PK\x03\x04", "This kind of file cannot be read"),
        ("a.exe", b"MZ\x00\x01\x02", "This kind of file cannot be read"),
        ("a.txt", b"   \n ", "no text"),
    ],
)
async def test_l5_unreadable_documents_have_an_error_message(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    assert words in await refused(written(tmp_path, name, content))


async def test_l5_two_hundred_megabytes_are_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    with path.open("wb") as file:
        file.truncate(200 * 1024 * 1024)
    assert "has 200 MB; at most 50 MB" in await refused(path)


async def test_l5_bombs_end_the_reader_only(tmp_path: Path) -> None:
    """[RDOC6] [RDOC8]"""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    others = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # of the tests before
    assert "unpacked document is too large" in await refused(
        written(tmp_path, "a.pdf", papers.pdf_bomb())
    )
    made = tmp_path / "a.docx"
    docx.Document().save(str(made))
    papers.rewritten(made, name="word/document.xml", content=b" " * 450_000_000)
    assert "unpacked document is too large" in await refused(made)
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # KiB: the reader stayed below 1 GB. A child counts what its parent held when it was forked.
    assert children <= max(others, own, 1024 * 1024)
    assert own - before < 900 * 1024


async def test_l5_external_entities_read_no_file(tmp_path: Path) -> None:
    secret = written(tmp_path, "secret", b"the secret")
    made = tmp_path / "a.docx"
    docx.Document().save(str(made))
    evil = papers.ENTITIES % os.fsencode(secret)
    papers.rewritten(made, name="word/document.xml", content=evil)
    try:
        found = str(await read_it(made))
    except DocumentError as error:
        found = str(error)
    assert "the secret" not in found


def test_l5_a_files_type_is_detected_by_its_bytes() -> None:
    assert kind_of("a.txt", b"%PDF-1.4") == "pdf"
    assert kind_of("a", b"<!DOCTYPE html><p>") == "html"
    assert kind_of("notes", "héllo".encode()) == "text"
    assert kind_of("a.bin", b"\x00\x01") == ""

"""Files whose name does not say what they are."""

import io
import zipfile
from pathlib import Path

import docx
import openpyxl
import pptx
import pytest

from core.documents import read
from core.documents.formats import OLD_OFFICE, UNKNOWN, kind_of
from core.documents.read import DocumentError
from tests.core.jobs_worker import papers


async def text_of(folder: Path, name: str, content: bytes) -> str:
    (folder / "stored").write_bytes(content)
    found = await read.parts(folder / "stored", name=name, most_megabytes=1)
    return "\n".join(text for _, text in found)


def office(kind: str) -> bytes:
    """Return an Office file that says Hello."""
    out = io.BytesIO()
    if kind == "docx":
        document = docx.Document()
        document.add_paragraph("Hello")
        document.save(out)
    elif kind == "pptx":
        show = pptx.Presentation()
        show.slides.add_slide(show.slide_layouts[0]).shapes.title.text = "Hello"
        show.save(out)
    else:
        book = openpyxl.Workbook()
        book.active.append(["Hello"])
        book.save(out)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx"])
async def test_an_office_file_without_an_extension_is_read(kind: str, tmp_path: Path) -> None:
    """Programs send files without names, and not every system knows the extension of a type."""
    assert await text_of(tmp_path, "file", office(kind)) == "Hello"


@pytest.mark.parametrize(
    ("kind", "name", "ours", "theirs"),
    [
        (
            "docx",
            "a.docm",
            "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
            "application/vnd.ms-word.document.macroEnabled.main+xml",
        ),
        (
            "pptx",
            "a.ppsx",
            "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
            "application/vnd.openxmlformats-officedocument.presentationml.slideshow.main+xml",
        ),
        (
            "xlsx",
            "a.xlsm",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml",
            "application/vnd.ms-excel.sheet.macroEnabled.main+xml",
        ),
    ],
)
async def test_shows_and_files_with_macros_are_read(
    kind: str, name: str, ours: str, theirs: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(office(kind))
    with zipfile.ZipFile(path) as archive:
        types = archive.read("[Content_Types].xml")
    assert ours.encode() in types
    content = types.replace(ours.encode(), theirs.encode())
    papers.rewritten(path, name="[Content_Types].xml", content=content)
    assert await text_of(tmp_path, name, path.read_bytes()) == "Hello"


async def test_another_archive_is_refused_in_words(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.bin", "as of .xlsb")
    with pytest.raises(DocumentError, match=UNKNOWN[:30]):
        await text_of(tmp_path, "a.zip", out.getvalue())


async def test_a_file_of_an_old_office_is_refused_with_advice(tmp_path: Path) -> None:
    """Word can be read, its sender was told."""
    with pytest.raises(DocumentError, match="Save it as"):
        await text_of(tmp_path, "Letter.DOC", OLD_OFFICE + bytes(100))
    with pytest.raises(DocumentError, match=UNKNOWN[:30]):
        await text_of(tmp_path, "mail.msg", OLD_OFFICE + bytes(100))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
async def test_a_script_in_windows_unicode_is_text(encoding: str, tmp_path: Path) -> None:
    """As SQL Server's tools and the registry editor write it."""
    content = "\ufeffSELECT 'Größe'\r\n".encode(encoding)
    assert await text_of(tmp_path, "a.sql", content) == "SELECT 'Größe'"


@pytest.mark.parametrize(("name", "kind"), [("a.md", "text"), ("a.pdf", "pdf"), ("file", "pdf")])
def test_a_text_that_speaks_of_the_sign_of_a_pdf_is_none(name: str, kind: str) -> None:
    """The sign may stand behind other bytes: in a file that is called a text it is one."""
    assert kind_of(name, b"A file begins with %PDF-1.7\n") == kind
    assert kind_of(name, b"%PDF-1.7\n") == "pdf"

"""The process that reads one document: ``python -m core.documents.reader <kind> <path>``.

Writes one JSON line ``[reference, text]`` per page or section, and finally ``{"error": ""}`` or an
error message. It limits itself before it opens the file: memory, CPU time, output, no new files.
"""

import csv
import gc
import io
import re
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from core.documents import mail, rtf, word
from core.documents.delimiters import delimiter_of
from core.documents.encodings import text_of, text_of_file
from core.documents.formats import BROKEN, OLD_OFFICE, TOO_BIG_INSIDE, UNKNOWN, office_kind
from core.documents.numbering import value
from core.lib import resource_limits

MEGABYTE = 1024 * 1024
MEMORY_BYTES = 700 * MEGABYTE
CPU_SECONDS = 30
# Reading stops by itself after this time; the rest allows one last call of C code.
ENOUGH_CPU_SECONDS = 24.0
ENOUGH_SECONDS = 48.0
UNPACKED_BYTES = 400 * MEGABYTE
MOST_ENTRIES = 20_000
MOST_PAGES = 5_000
MOST_CHARACTERS = 20_000_000
MOST_ROWS = 100_000
ROWS_A_PART = 50
SECTION_CHARACTERS = 4_000
HEADING_CHARACTERS = 100
TITLE_CHARACTERS = 200
SHORTEST_ARTICLE = 200  # characters

# Documents with macros, and templates: to python-docx they are none.
WORD_KINDS = (
    "application/vnd.ms-word.document.macroEnabled.main+xml",
    "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml",
)

HEADING = re.compile("#+ ")  # of Markdown
Pair = tuple[str, str]
Block = tuple[str | None, list[str]]  # lines, of which the first is a heading: its text, else None
ENCRYPTED = "The document is protected with a password. Send it without one."
SCANS = "(Not read, because they are pictures without text: pages {}.)"
CUT = "(The rest of this document was not read: it is too long.)"


class UnreadableError(Exception):
    """Why a document cannot be read, for the user."""


def pages_of_pdf(path: Path) -> Iterator[Pair]:
    import pypdfium2  # noqa: PLC0415 - one library a process

    from core.documents import pdf  # noqa: PLC0415

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        raise UnreadableError(ENCRYPTED if "assword" in str(error) else BROKEN) from error
    document.init_forms()
    scans: list[int] = []
    for number in range(min(len(document), MOST_PAGES)):
        page = document[number]
        comments = pdf.comments_of(page)
        page = pdf.filled(page, document, number)
        words = page.get_textpage()
        text = "\n".join([pdf.text_of(words), *comments])
        if not text.strip() and pdf.has_picture(page):
            scans.append(number + 1)
        yield f"page {number + 1}", text
        words.close()
        page.close()
        if number % 50 == 0:
            gc.collect()
    if 0 < len(scans) < min(len(document), MOST_PAGES):
        yield "the end", SCANS.format(", ".join(map(str, scans)))
    if len(document) > MOST_PAGES:
        yield "the end", CUT


def check_archive(path: Path) -> None:
    """Refuse archives with an extreme compression ratio. Raises UnreadableError."""
    with path.open("rb") as file:
        # the container of encrypted Office files
        if file.read(8) == OLD_OFFICE:
            raise UnreadableError(ENCRYPTED)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile as error:
        raise UnreadableError(BROKEN) from error
    if any(entry.flag_bits & 1 for entry in entries):
        raise UnreadableError(ENCRYPTED)
    if len(entries) > MOST_ENTRIES or sum(entry.file_size for entry in entries) > UNPACKED_BYTES:
        raise UnreadableError(TOO_BIG_INSIDE)


def section(heading: str, lines: list[str], *, unnamed: str = "") -> Pair:
    """Return the lines under a heading, or under none."""
    return f"section {heading}" if heading else unnamed, "\n".join(lines)


def in_sections(blocks: Iterable[Block], *, unnamed: str = "") -> Iterator[Pair]:
    """Yield the lines of blocks under their headings, split at a readable size. ``unnamed``: the
    reference of those under none, but for the last.
    """
    heading, size = "", 0
    held: list[str] = []
    for named, lines in blocks:
        if held and (named is not None or size > SECTION_CHARACTERS):
            yield section(heading, held, unnamed=unnamed)
            held, size = [], 0
        heading = heading if named is None else named[:HEADING_CHARACTERS]
        held += lines
        size += sum(map(len, lines))
    yield section(heading, held)


def sections_of_docx(path: Path) -> Iterator[Pair]:
    """Yield paragraphs and tables under headings, then notes, comments and page headers."""
    from docx.opc.part import PartFactory  # noqa: PLC0415
    from docx.package import Package  # noqa: PLC0415
    from docx.parts.document import DocumentPart  # noqa: PLC0415

    from core.documents import embedded  # noqa: PLC0415

    check_archive(path)
    for kind in WORD_KINDS:
        PartFactory.part_type_for[kind] = DocumentPart
    document = Package.open(str(path)).main_document_part.document
    further = embedded.beside(document)
    yield from in_sections(blocks_of(document), unnamed="beginning")
    yield from further


def blocks_of(document: Any) -> Iterator[Block]:
    """Yield the paragraphs and tables of a Word document."""
    from docx.styles import BabelFish  # noqa: PLC0415

    # Not as objects of python-docx, which refuses a style without a type: that of a paragraph.
    names = {
        style.get(f"{word.WORD}styleId"): BabelFish.internal2ui(value(style, f"{word.WORD}name"))
        for style in document.styles.element.iterfind(f"{word.WORD}style")
        if style.get(f"{word.WORD}type", "paragraph") == "paragraph"
    }
    for block in word.inside(document.element.body, word.PARAGRAPH, word.TABLE):
        if block.tag == word.TABLE:
            yield None, word.rows_of(block)
            continue
        text = word.text_of(block)
        is_heading = text.strip() and names.get(block.style, "").startswith(("Heading", "Title"))
        yield text.strip() if is_heading else None, [text]


def slides_of_pptx(path: Path) -> Iterator[Pair]:
    """Yield the texts, tables, charts and notes of each slide."""
    from pptx.package import Package  # noqa: PLC0415

    from core.documents import powerpoint  # noqa: PLC0415

    check_archive(path)
    # Not pptx.Presentation: it refuses files that open as a show.
    slides = Package.open(str(path)).main_document_part.presentation.slides
    for number, slide in enumerate(slides, 1):
        lines = list(powerpoint.lines_of(slide.element.cSld, slide.part))
        if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None:
            lines += notes.text.split("\v")
        lines += powerpoint.comments_of(slide.part)
        yield f"slide {number}", "\n".join(line for line in lines if line.strip())


def rows_of_xlsx(path: Path) -> Iterator[Pair]:
    """Yield the rows of each sheet, some at a time. With defusedxml, openpyxl takes no entities."""
    import openpyxl  # noqa: PLC0415

    from core.documents import excel  # noqa: PLC0415

    check_archive(path)
    # Not their path: stored files have no extension, which it checks.
    with path.open("rb") as file, path.open("rb") as again:
        book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        sheets = book.worksheets
        formulas: list[Any] = [None] * len(sheets)
        if excel.has_uncomputed(path):
            formulas = openpyxl.load_workbook(again, read_only=True).worksheets
        for sheet, source in zip(sheets, formulas, strict=True):
            yield from in_parts(excel.rows_of(sheet, source), name=f"sheet {sheet.title}")


def rows_of_csv(path: Path) -> Iterator[Pair]:
    """Yield the rows, some at a time."""
    text = text_of_file(path.read_bytes())
    csv.field_size_limit(MOST_CHARACTERS)  # one that is quoted and not closed holds the rest
    # All line ends are read as one: Excel for the Mac has a form with CR alone.
    lines = io.StringIO(text, newline=None)
    yield from in_parts(csv.reader(lines, delimiter=delimiter_of(text)), name="")


def in_parts(rows: Iterator[list[str]], *, name: str) -> Iterator[Pair]:
    """Format rows as lines, ROWS_A_PART in each part."""
    held: list[str] = []
    first, last = 1, 0
    for number, row in enumerate(rows, 1):
        if number > MOST_ROWS:
            held.append(CUT)
            break
        if any(cell.strip() for cell in row):
            held.append(" | ".join(cell.strip() for cell in row).rstrip(" |"))
            last = number
        if len(held) >= ROWS_A_PART:
            yield f"{name} rows {first}-{last}".strip(), "\n".join(held)
            held, first = [], number + 1
    if held:
        yield f"{name} rows {first}-{last}".strip(), "\n".join(held)


def sections_of_html(path: Path) -> Iterator[Pair]:
    """Yield the text under each heading; no scripts, no styles, nothing is fetched."""
    yield from sections_of_tree(tree_of(text_of(path.read_bytes(), "").encode()))


def sections_of_tree(root: Any) -> Iterator[Pair]:
    """Yield the text of an HTML document under each heading."""
    from core.documents import pages  # noqa: PLC0415

    for heading, lines in pages.sections(root):
        yield section(heading, lines)


def sections_of_page(path: Path) -> Iterator[Pair]:
    """Yield the title of a web page, then its readable text: without menus and the like.

    The first line of the file is the page's address, the rest is HTML in UTF-8. A page in which
    there is no article is read whole.
    """
    import trafilatura  # noqa: PLC0415 - 0.2 s

    address, _, content = path.read_bytes().partition(b"\n")
    root = tree_of(content, address=address.decode())
    yield "title", " ".join((root.findtext(".//title") or "").split())[:TITLE_CHARACTERS]
    with suppress(ValueError):  # an address in the page that is none
        root.make_links_absolute(handle_failures="ignore")
    article = trafilatura.extract(
        root,
        output_format="markdown",
        include_comments=False,
        include_links=True,
        favor_recall=True,
    )
    if article and len(article) >= SHORTEST_ARTICLE:
        yield from sections_of(article.splitlines())
    else:
        yield from sections_of_tree(tree_of(content))


def sections_of_text(path: Path) -> Iterator[Pair]:
    """Yield the text, split at its headings (Markdown) and at a readable size."""
    yield from sections_of(text_of_file(path.read_bytes()).splitlines())


def sections_of(lines: Iterable[str]) -> Iterator[Pair]:
    """Yield lines of text, split as above."""
    yield from in_sections(
        (line.lstrip("# ").strip() if HEADING.match(line) else None, [line]) for line in lines
    )


def parts_of_mail(path: Path) -> Iterator[Pair]:
    """Yield the head, the texts and the names of the files of an e-mail."""
    message = mail.read(path.read_bytes())
    yield "head", mail.head_of(message)
    for text, kind in mail.texts_of(message):
        if kind == "html":
            yield from sections_of_tree(tree_of(text.encode()))
        else:
            yield from sections_of(text.splitlines())
    yield "attachments", "\n".join(mail.attachments_of(message))


def sections_of_rtf(path: Path) -> Iterator[Pair]:
    """Yield the text of a file of Rich Text Format, at a readable size."""
    yield from sections_of(rtf.text_of(path.read_bytes()).splitlines())


def tree_of(content: bytes, *, address: str | None = None) -> Any:
    """Return the root of an HTML document in UTF-8; nothing is fetched."""
    from lxml import etree, html  # noqa: PLC0415

    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
    try:
        return html.document_fromstring(content, parser=parser, base_url=address)
    except etree.ParserError:  # of comments or declarations alone
        return tree_of(b"<html>", address=address)


def parts_of_archive(path: Path) -> Iterator[Pair]:
    """Yield the parts of an Office file whose name does not say that it is one."""
    try:
        with zipfile.ZipFile(path) as archive:
            kind = office_kind(archive.namelist())
    except zipfile.BadZipFile:
        kind = ""
    if not kind:
        raise UnreadableError(UNKNOWN)
    yield from READERS[kind](path)


READERS: dict[str, Callable[[Path], Iterator[Pair]]] = {
    "archive": parts_of_archive,
    "mail": parts_of_mail,
    "pdf": pages_of_pdf,
    "docx": sections_of_docx,
    "pptx": slides_of_pptx,
    "xlsx": rows_of_xlsx,
    "html": sections_of_html,
    "page": sections_of_page,
    "csv": rows_of_csv,
    "rtf": sections_of_rtf,
    "text": sections_of_text,
}


def say(value: object) -> None:
    sys.stdout.buffer.write(orjson.dumps(value) + b"\n")


def tell_all(kind: str, path: Path) -> None:
    """Write every non-empty part, up to MOST_CHARACTERS and within the time limit."""
    size = 0
    enough_at = time.monotonic() + ENOUGH_SECONDS
    enough_cpu = time.process_time() + ENOUGH_CPU_SECONDS
    for reference, text in READERS[kind](path):
        plain = text.encode("utf-8", "replace").decode().replace("\x00", "")
        size += len(plain)
        if size <= MOST_CHARACTERS and plain.strip():
            say([reference, plain])
        is_late = time.process_time() > enough_cpu or time.monotonic() > enough_at
        if is_late or size > MOST_CHARACTERS:
            say(["the end", CUT])
            return


def main(kind: str, path: str) -> int:
    """Read; the exit code is 0 when the last line reports the result."""
    resource_limits.limit(memory=MEMORY_BYTES, seconds=CPU_SECONDS)
    try:
        tell_all(kind, Path(path))
        error = ""
    except UnreadableError as reason:
        error = str(reason)
    except MemoryError:
        error = TOO_BIG_INSIDE
    except Exception:  # noqa: BLE001 - untrusted files raise unexpected errors in their libraries
        error = BROKEN
    say({"error": error})
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))

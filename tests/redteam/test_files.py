"""Links, file names and documents as weapons: headers, paths, bombs, formulas."""

import io
import resource
import subprocess
import sys
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import quote

import docx
import openpyxl
import pptx
import pytest
from django.conf import settings

from channels_app.asgi import http
from core.documents import formats, read, reader
from core.files import storage
from core.models import StoredFile
from core.plugins.ppt_generation.charts import add_chart
from core.plugins.slides.deck import Chart, Series
from core.plugins.slides.page import Plot
from tests.core.jobs_worker import papers
from tests.redteam import gateway_data
from tests.redteam.gateway_data import Answer, GatewayData

SECRET = b"private words"
CONTROLS = [chr(number) for number in range(32)] + ["\x7f"]
NASTY_NAMES = [
    '"\r\nSet-Cookie: x=1',
    "data:text/html\r\nSet-Cookie: a/b,x.txt",
    "data:a/b\r\nX-Evil: 1;c,",
    "../../etc/passwd",
    "..\\..\\boot.ini",
    "/etc/passwd",
    "%2e%2e/%2e%2e/x",
    "a\x00b.html",
    "x" * 5000 + ".svg",
    "\u202egpj.exe",
    "𝕏\udcff.svg",
    "",
]


@pytest.fixture
def gateway(transactional_db: None) -> GatewayData:
    """Create people and things."""
    return gateway_data.build()


def kept(gateway: GatewayData, *, name: str = "a.txt", content: bytes = SECRET) -> Any:
    """Return a file of ``own``."""
    return storage.keep(user=gateway.people["own"], name=name, content=content, origin=storage.MADE)


def opened(gateway: GatewayData, link: str) -> Answer:
    """Open a link without a session."""
    return gateway.ask("anonymous", "GET", link.removeprefix(settings.GATEWAY_URL))


@pytest.mark.parametrize(
    ("asked", "status", "place", "part"),
    [
        ("bytes=0-6", 206, "bytes 0-6/13", SECRET[:7]),
        ("bytes=8-", 206, "bytes 8-12/13", SECRET[8:]),
        ("bytes=-5", 206, "bytes 8-12/13", SECRET[-5:]),
        ("bytes=8-999", 206, "bytes 8-12/13", SECRET[8:]),
        ("bytes=-999", 206, "bytes 0-12/13", SECRET),
        ("bytes=0-", 206, "bytes 0-12/13", SECRET),
        ("bytes=13-", 416, "bytes */13", b"The file has no such part.\n"),
        ("bytes=-0", 416, "bytes */13", b"The file has no such part.\n"),
        # An invalid range, or several at once, gets the whole file.
        ("bytes=5-2", 200, None, SECRET),
        ("bytes=0-1,3-4", 200, None, SECRET),
        ("bytes=-", 200, None, SECRET),
        ("bytes=١-٢", 200, None, SECRET),
        ("lines=0-1", 200, None, SECRET),
        ("bytes=" + "9" * 400 + "-", 200, None, SECRET),
    ],
)
def test_a_requested_range_of_a_file_is_sent(
    gateway: GatewayData, asked: str, status: int, place: str | None, part: bytes
) -> None:
    """[L4] Players seek in recordings: ``Range`` counts for one's own files and for links."""
    file = kept(gateway)
    link = storage.link(file).removeprefix(settings.GATEWAY_URL)
    for who, path in (("own", f"/files/{file.public_id}"), ("anonymous", link)):
        answer = gateway.ask(who, "GET", path, range=asked)
        assert (answer.status, answer.headers.get("content-range")) == (status, place)
        assert answer.body == part
        if status < 400:
            assert answer.headers["content-length"] == str(len(part))
            assert answer.headers["accept-ranges"] == "bytes"


def test_rf1_a_link_opens_only_as_it_was_made(gateway: GatewayData) -> None:
    """[RF1] Every character changed once, another file's id, a later end, an older signature."""
    file, other = kept(gateway), kept(gateway, name="b.txt")
    link = storage.link(file)
    assert opened(gateway, link).body == SECRET
    start = link.index("token=") + len("token=")
    token = link[start:]
    public, ends, signature = token.split(".")
    forged = [
        token[:place] + ("A" if character != "A" else "B") + token[place + 1 :]
        for place, character in enumerate(token)
    ]
    forged += [
        f"{other.public_id}.{ends}.{signature}",
        f"{public}.{int(ends, 16) + 86400:x}.{signature}",
        f"{public}.{ends}.",
        f"{public}.{ends}",
        f"{token}.{signature}",
        token + "\n",
        "",
        storage.token(file, now=time.time() - 30 * storage.DAY_SECONDS),
    ]
    answers = [opened(gateway, link[:start] + quote(each)) for each in forged]
    assert {(each.status, each.body) for each in answers} == {(403, answers[0].body)}
    assert public.encode() not in answers[0].body


@pytest.mark.parametrize(
    "name", ["report.html", "picture.svg", "a.xhtml", "a.xml", "a.js", "a.css", "a.swf", "a.mht"]
)
def test_rf4_a_stored_page_runs_nothing_with_our_rights(name: str, gateway: GatewayData) -> None:
    """[RF4] Saved, or shown in a sandbox without an origin; never sniffed, framed or cached."""
    found = opened(
        gateway, storage.link(kept(gateway, name=name, content=b"<svg onload=alert(1)>"))
    )
    policy = found.headers["content-security-policy"]
    assert found.status == 200
    assert policy.startswith("sandbox")
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "allow-same-origin" not in policy
    assert "allow-top-navigation" not in policy
    assert found.headers["x-content-type-options"] == "nosniff"
    assert "no-store" in found.headers["cache-control"]
    shown = found.headers["content-disposition"].startswith("inline")
    assert shown == (name == "report.html")


@pytest.mark.parametrize("name", NASTY_NAMES)
def test_rf5_a_name_is_no_header_no_type_and_no_path(name: str, gateway: GatewayData) -> None:
    """[RF5] [RF3] For uploads and generated files; the type comes from the extension alone."""
    asked = quote(name.encode("utf-8", "surrogatepass"))
    sent = gateway.ask("own", "POST", f"/files?name={asked}", SECRET)
    assert sent.status == 201
    for file in (StoredFile.objects.latest("id"), kept(gateway, name=name)):
        found = opened(gateway, storage.link(file))
        assert found.body == SECRET
        assert "set-cookie" not in found.headers
        assert "x-evil" not in found.headers
        for value in found.headers.values():
            assert not any(character in value for character in CONTROLS)
        assert found.headers["content-disposition"].isascii()
        assert storage.path_of(file).resolve().is_relative_to(storage.folder().resolve())


def test_rf5_no_header_of_ours_can_hold_a_line_end() -> None:
    """[RF5] For any endpoint's value: uvicorn writes it unchanged."""
    (*_, (name, value)) = http.encoded({"X-Name": "a\r\nSet-Cookie: b\x00\x7f…"})
    assert (name, value) == (b"x-name", b"a  Set-Cookie: b  ?")


def test_rf7_an_answer_shows_no_picture_of_another_user(gateway: GatewayData) -> None:
    """[RF7] A model repeats what it is told; an id is no right, a link that has ended is none."""
    picture = kept(gateway, name="a.png", content=b"\x89PNG")
    own, other = gateway.people["own"].id, gateway.people["other"].id
    address = f"/files/{picture.public_id}"
    assert (storage.inline(address, user_id=own) or "").startswith("data:image/png;base64,")
    assert storage.inline(address, user_id=other) is None
    storage.revoke(picture)
    assert storage.inline(address, user_id=own) is None


async def refused(path: Path) -> str:
    """Return why a document is not read."""
    with pytest.raises(read.DocumentError) as caught:
        await read.parts(path, name=path.name, most_megabytes=50)
    return str(caught.value)


def office(folder: Path, entries: dict[str, bytes]) -> Path:
    """Return a Word file with additional entries."""
    path = folder / "a.docx"
    made = docx.Document()
    made.add_paragraph("honest words")
    made.save(str(path))
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


async def test_rdoc6_an_archive_of_too_much_is_not_unpacked(tmp_path: Path) -> None:
    """[RDOC6] By number of entries; by their size: ``test_l5_bombs_end_the_reader_only``."""
    many = {f"word/{number}.xml": b"" for number in range(25_000)}
    assert "unpacked document is too large" in await refused(office(tmp_path, many))


async def test_rdoc6_archives_inside_and_names_that_climb_touch_nothing(tmp_path: Path) -> None:
    """[RDOC6] Nothing is ever unpacked to a disk, nor one archive out of another."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb", b"\x00" * 1_000_000)
    climbing = {
        "../../evil.txt": b"x",
        "/evil.txt": b"x",
        "word/embeddings/a.zip": inner.getvalue(),
    }
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    path = office(folder, climbing)
    found = await read.parts(path, name=path.name, most_megabytes=50)
    assert "honest words" in str(found)
    assert sorted(names_below(tmp_path)) == ["a.docx"]


def names_below(folder: Path) -> list[str]:
    """Return the names of all files."""
    return [each.name for each in folder.rglob("*") if each.is_file()]


def doubly_packed() -> bytes:
    """Return a page whose content is compressed twice: 200 MB in a few hundred bytes."""
    packed = zlib.compress(papers.spaces(200))
    return papers.pdf(["x"], streams={0: packed}).replace(
        b"/Filter /FlateDecode", b"/Filter [/FlateDecode /FlateDecode]", 1
    )


def looping_xref() -> bytes:
    """Return a PDF whose cross-reference table names itself as the previous one."""
    good = papers.pdf(["loop"])
    start = good.rindex(b"startxref\n") + len(b"startxref\n")
    place = good[start:].split()[0]
    return good.replace(b"/Root 1 0 R", b"/Root 1 0 R /Prev " + place, 1)


def pages_without_end() -> bytes:
    """Return a PDF whose page tree is its own child and claims a hundred thousand pages."""
    good = papers.pdf(["tree"])
    return good.replace(b"/Kids [4 0 R] /Count 1", b"/Kids [2 0 R 4 0 R] /Count 100000", 1)


def huge_to_unicode() -> bytes:
    """Return a PDF with a font whose character map has a hundred megabytes."""
    table = zlib.compress(b"<0000> <FFFF> <0000>\n" * 5_000_000, 1)
    font = b"/BaseFont /Helvetica /ToUnicode 99 0 R >>"
    stream = b"\n99 0 obj\n<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream\nendobj\n"
    good = papers.pdf(["font"]).replace(b"/BaseFont /Helvetica >>", font, 1)
    return good.replace(b"\nxref\n", stream % (len(table), table) + b"\nxref\n", 1)


@pytest.mark.parametrize(
    "evil",
    [doubly_packed, looping_xref, pages_without_end, huge_to_unicode],
    ids=lambda f: f.__name__,
)
async def test_rdoc8_an_evil_pdf_ends_its_reader_only(evil: Any, tmp_path: Path) -> None:
    """[RDOC8] Read, or refused in words; by a process with bounds, which has ended either way."""
    path = tmp_path / "a.pdf"
    path.write_bytes(evil())
    found, error = await outcome(path)
    assert len(found) <= 5_000
    assert sum(len(text) for _, text in found) <= read.MOST_CHARACTERS
    assert error == "" or error in WORDS


def test_rdoc8_the_reader_bounds_itself_before_it_opens_the_file() -> None:
    """[RDOC8] At most 1 GB of address space and 30 s of processor; the caller waits for 60 s."""
    code = (
        "import resource as r; from core.documents import reader; reader.tell_all = lambda *_: "
        "print(*r.getrlimit(r.RLIMIT_AS), *r.getrlimit(r.RLIMIT_CPU), *r.getrlimit(r.RLIMIT_FSIZE),"
        "flush=True); reader.main('text', '/dev/null')"
    )
    limited = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    memory, most_memory, cpu, most_cpu, *written = map(int, limited.stdout.splitlines()[0].split())
    assert memory == most_memory <= 2**30
    assert cpu == most_cpu <= 30
    assert written == [0, 0]
    assert read.SECONDS <= 60


async def test_rdoc8_a_thousand_pages_are_read_within_the_bounds(tmp_path: Path) -> None:
    """[RDOC8] [L4] The bounds are no obstacle to a book."""
    path = tmp_path / "book.pdf"
    path.write_bytes(papers.pdf([f"page {n} " + "many words " * 300 for n in range(1000)]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found, error = await outcome(path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (len(found), error) == (1000, "")
    assert found[-1][0] == "page 1000"
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 15


@pytest.mark.parametrize("bound", ["ENOUGH_CPU_SECONDS", "ENOUGH_SECONDS", "MOST_CHARACTERS"])
def test_rdoc8_slow_documents_are_cut_with_a_note(
    bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[RDOC8] The text read so far is kept; a note says that it is incomplete."""
    path = tmp_path / "a.md"
    path.write_text("# One\nuno\n# Two\ndos\n")
    said: list[object] = []
    monkeypatch.setattr(reader, "say", said.append)
    reader.tell_all("text", path)
    assert said == [["section One", "# One\nuno"], ["section Two", "# Two\ndos"]]
    said.clear()
    monkeypatch.setattr(reader, bound, {"MOST_CHARACTERS": 10}.get(bound, 0.0))
    reader.tell_all("text", path)
    assert said == [["section One", "# One\nuno"], ["the end", reader.CUT]]


WORDS = (formats.BROKEN, formats.TOO_BIG_INSIDE, read.TOO_SLOW, read.EMPTY)


async def outcome(path: Path) -> tuple[list[tuple[str, str]], str]:
    """Return the text of a document, or why it was not read."""
    try:
        return await read.parts(path, name=path.name, most_megabytes=50), ""
    except read.DocumentError as error:
        return [], str(error)


ACTIVE = ['=HYPERLINK("http://evil.example","x")', "{=1+1}", "+cmd|'/C calc'!A0", "@SUM(1)", "-1+1"]
LINKS = ["https://evil.example", "external:c:\\x", "internal:A1", "mailto:a@b.example", "file:///x"]


@pytest.mark.parametrize("label", ACTIVE + LINKS)
def test_rdoc11_a_label_of_a_chart_is_text_in_its_workbook(label: str) -> None:
    """[RDOC11] The one table that we write for a spreadsheet: categories and names of series."""
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    chart = Chart("bar", [label, "\t" + label], [Series(label, [1, 2])])
    add_chart(slide, Plot(1, 1, 8, 4, chart, "a chart"), rtl=False)
    (shape,) = slide.shapes
    book = openpyxl.load_workbook(io.BytesIO(shape.chart.part.chart_workbook.xlsx_part.blob))
    cells = [cell for row in book.active.iter_rows() for cell in row if cell.value is not None]
    assert {cell.data_type for cell in cells} == {"s", "n"}
    assert not any(cell.hyperlink for cell in cells)
    assert sum(label[:20] in str(cell.value) for cell in cells) == 3

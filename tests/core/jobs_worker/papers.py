"""Handmade documents, valid and malicious."""

import io
import zipfile
import zlib
from pathlib import Path


def pdf(
    pages: list[str],
    *,
    extra: str = "",
    streams: dict[int, bytes] | None = None,
    filled: str = "",
    field: str = "Widget",
) -> bytes:
    """Return a PDF with one text per page; ``streams`` replaces the (compressed) content of some
    pages. ``filled``: the text of a field on each page, of the kind ``field``.
    """
    count = len(pages)
    last = 4 + 2 * count
    fields = f"/Annots [{last} 0 R]".encode() if filled else b""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects: list[bytes] = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        lines = [text[start : start + 90] for start in range(0, len(text), 90)]
        shown = "".join(f"({line}) Tj 0 -12 Td " for line in lines)
        content = f"BT /F1 10 Tf 40 780 Td {shown}ET".encode("latin-1")
        packed = (streams or {}).get(number, zlib.compress(content))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R %s >>" % (5 + 2 * number, fields)
        )
        objects.append(
            b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed)
        )
    if filled:
        box = b"/Resources << /Font << /F1 3 0 R >> >>"
        drawn = f"BT /F1 10 Tf 2 5 Td ({filled}) Tj ET".encode("latin-1")
        objects += [
            b"<< /Type /Annot /Subtype /%s /FT /Tx /T (a) /Rect [200 770 400 790] /F 4 "
            b"/AP << /N %d 0 R >> >>" % (field.encode(), last + 1),
            b"<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] %s /Length %d >>\nstream\n%s\n"
            b"endstream" % (box, len(drawn), drawn),
        ]
    out = io.BytesIO(b"%PDF-1.7\n")
    out.seek(0, io.SEEK_END)
    places = []
    for number, each in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, each))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.writelines(b"%010d 00000 n \n" % place for place in places)
    out.write(b"trailer\n<< /Size %d /Root 1 0 R %s >>\n" % (len(objects) + 1, extra.encode()))
    out.write(b"startxref\n%d\n%%%%EOF\n" % start)
    return out.getvalue()


def packed(content: bytes) -> bytes:
    """Return the content of a page, compressed."""
    return zlib.compress(content)


def encrypted_pdf() -> bytes:
    """Return a PDF that needs a password."""
    lock = f"<< /Filter /Standard /V 2 /R 3 /Length 128 /P -44 /O <{'11' * 32}> /U <{'22' * 32}> >>"
    return pdf(["secret"], extra=f"/Encrypt {lock} /ID [<{'33' * 16}> <{'33' * 16}>]")


def spaces(megabytes: int) -> bytes:
    """Return so many megabytes of spaces, compressed."""
    packer = zlib.compressobj(1)
    block = b" " * (1024 * 1024)
    return b"".join([*(packer.compress(block) for _ in range(megabytes)), packer.flush()])


def pdf_bomb(megabytes: int = 900) -> bytes:
    """Return a PDF page whose content unpacks to ``megabytes``."""
    return pdf(["bang"], streams={0: spaces(megabytes)})


def rewritten(path: Path, *, name: str, content: bytes) -> None:
    """Replace one entry of an Office file."""
    with zipfile.ZipFile(path) as old:
        entries = {each: old.read(each) for each in old.namelist()}
    entries[name] = content
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as new:
        for each, data in entries.items():
            new.writestr(each, data)


ENTITIES = b"""<?xml version="1.0"?>
<!DOCTYPE w:document [<!ENTITY x SYSTEM "file://%s"><!ENTITY y SYSTEM "http://127.0.0.1:9/">]>
<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>
<w:p><w:r><w:t>before &x; &y; after</w:t></w:r></w:p></w:body></w:document>"""

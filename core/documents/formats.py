"""Detect the kind of a document by its first bytes, else by its name, else by what is in it."""

import codecs
import re
from collections.abc import Collection
from pathlib import PurePath

# Kind -> extensions. The kinds are what ``reader`` knows.
EXTENSIONS = {
    "pdf": "pdf",
    "docx": "docx docm dotx dotm",
    "pptx": "pptx pptm ppsx ppsm potx potm",
    "xlsx": "xlsx xlsm xltx xltm",
    "html": "html htm",
    "csv": "csv tsv",
    "mail": "eml mht mhtml",
    "text": "md markdown txt text log json yaml yml xml rst",
}
NAMES = {name: kind for kind, names in EXTENSIONS.items() for name in names.split()}
OFFICE = frozenset({"docx", "pptx", "xlsx"})
ZIP = b"PK\x03\x04"
OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # and encrypted files of the new one
OLD_NAMES = (".doc", ".dot", ".xls", ".xlt", ".ppt", ".pps", ".pot")
PDF, RTF = b"%PDF-", b"{\\rtf"
# The main part of each kind in its archive: files of some senders have no name.
MAIN_PARTS = {
    "docx": re.compile(r"word/document\d*\.xml"),
    "pptx": re.compile(r"ppt/presentation\d*\.xml"),
    "xlsx": re.compile(r"xl/workbook\d*\.xml"),
}
TEXT_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # half of such a text may be zeros
READABLE = "PDF, Word, PowerPoint, Excel, HTML, CSV, Markdown and text files can be read"
OLD = (
    "This is a file of an old version of Office. Save it as .docx, .xlsx or .pptx, and send it "
    "again."
)
UNKNOWN = f"This kind of file cannot be read. {READABLE}."
BROKEN = "The document could not be read: it is damaged, or its type does not match its name."
TOO_BIG_INSIDE = "The unpacked document is too large; it was not read."
BINARY_CONTROLS = frozenset(range(9)) | {11, 14, 15}


def kind_of(name: str, beginning: bytes) -> str:
    """Return one of the kinds of EXTENSIONS, or ``rtf``; empty for all else."""
    named = NAMES.get(PurePath(name.lower()).suffix.lstrip("."), "")
    if beginning.startswith(PDF) or (named in {"", "pdf"} and PDF in beginning[:1024]):
        return "pdf"
    if beginning.startswith(ZIP):
        return named if named in OFFICE else ""
    if named in OFFICE or named == "pdf":
        return named  # damaged or encrypted: the reader says so
    if beginning.startswith(RTF):
        return "rtf"
    start = beginning.lstrip()[:200].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "html"
    if named:
        return named
    is_text = beginning.startswith(TEXT_MARKS) or not BINARY_CONTROLS & set(beginning)
    return "text" if beginning and is_text else ""


def office_kind(names: Collection[str]) -> str:
    """Return the kind of an Office file by the names in its archive; empty for any other one."""
    if "[Content_Types].xml" not in names:
        return ""
    kinds = (kind for kind, part in MAIN_PARTS.items() if any(map(part.fullmatch, names)))
    return next(kinds, "")


def is_of_old_office(name: str, beginning: bytes) -> bool:
    """Return whether a file is one of Word, Excel or PowerPoint before 2007."""
    return beginning.startswith(OLD_OFFICE) and name.lower().endswith(OLD_NAMES)

"""Detect the kind of a document by its first bytes, else by its name."""

from pathlib import PurePath

# Kind -> extensions. The kinds are what ``reader`` knows.
EXTENSIONS = {
    "pdf": "pdf",
    "docx": "docx",
    "pptx": "pptx",
    "xlsx": "xlsx",
    "html": "html htm",
    "csv": "csv tsv",
    "text": "md markdown txt text log json yaml yml xml rst",
}
NAMES = {name: kind for kind, names in EXTENSIONS.items() for name in names.split()}
OFFICE = frozenset({"docx", "pptx", "xlsx"})
ZIP = b"PK\x03\x04"
PDF = b"%PDF-"
BINARY_CONTROLS = frozenset(range(9)) | {11, 14, 15}


def kind_of(name: str, beginning: bytes) -> str:
    """Return ``pdf``, ``docx``, ``pptx``, ``xlsx``, ``html``, ``csv`` or ``text``; empty for
    all else.
    """
    named = NAMES.get(PurePath(name.lower()).suffix.lstrip("."), "")
    if PDF in beginning[:1024]:
        return "pdf"
    if beginning.startswith(ZIP):
        return named if named in OFFICE else ""
    if named in OFFICE or named == "pdf":
        return named  # damaged or encrypted: the reader says so
    start = beginning.lstrip()[:200].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return "html"
    if named:
        return named
    return "text" if beginning and not BINARY_CONTROLS & set(beginning) else ""

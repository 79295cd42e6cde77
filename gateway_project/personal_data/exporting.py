"""Everything of a person, as files: ``person.json``, the conversations as Markdown, the stored
files, and ``index.html`` to read it. The format: docs/personal-data.md.
"""

import re
import shutil
from collections.abc import Iterator
from datetime import datetime
from typing import IO, Any

import orjson

from channels_app.webchat import export as chat_export
from core import VERSION as GATEWAY_VERSION
from core.files import storage
from core.lib.interface_language import spoken
from core.models import ChatSession, StoredFile, User
from gateway_project.personal_data import page, tables
from gateway_project.personal_data.tables import SECTIONS, VERSION, Section
from gateway_project.personal_data.targets import Target

UNFIT = re.compile(r"[^\w.-]+")
AT_ONCE = 500


def export(user: User, target: Target, *, now: datetime) -> None:
    """Write everything of a person into ``target``. Raises OSError when that cannot be written.

    Rows are read table by table while the gateway runs, and new ones may be in some of them only.
    """
    files = copy_files(user, target)
    chats = write_conversations(user, target, files)
    with target.opened("person.json") as out:
        write_json(user, files, out, now=now)
    with target.opened("index.html") as out:
        for part in page.parts(user, files=files, chats=chats, now=now):
            out.write(part.encode())


def copy_files(user: User, target: Target) -> dict[str, str]:
    """Copy the stored files; return their names in the export by public id.

    Files whose bytes are gone from the disk have none.
    """
    names: dict[str, str] = {}
    rows = StoredFile.objects.filter(user=user, purged_at__isnull=True).order_by("id")
    for number, row in enumerate(rows.iterator(chunk_size=AT_ONCE), 1):
        if storage.path_of(row).is_file():
            names[row.public_id] = f"files/{number:04}-{fit(row.name)}"
            with (
                storage.path_of(row).open("rb") as file,
                target.opened(names[row.public_id]) as out,
            ):
                shutil.copyfileobj(file, out)
    return names


def fit(name: str) -> str:
    """Return ``name`` as a part of a file name on any system; its extension stays."""
    plain = UNFIT.sub("-", name).strip("-.") or "file"
    stem, dot, extension = plain.rpartition(".")
    return f"{stem[:60]}.{extension[:10]}" if dot else plain[:60]


def write_conversations(user: User, target: Target, files: dict[str, str]) -> dict[str, str]:
    """Write each conversation as Markdown; return the names by public id."""
    names: dict[str, str] = {}
    rows = ChatSession.objects.filter(user=user).order_by("id")
    with spoken(user.language):
        for number, row in enumerate(rows.iterator(chunk_size=AT_ONCE), 1):
            title = fit(chat_export.file_name(row).removesuffix(".md"))
            names[row.public_id] = f"conversations/{number:04}-{title}.md"
            text = chat_export.as_markdown(
                session=row, address=lambda file: f"../{files.get(file, f'files/{file}')}"
            )
            with target.opened(names[row.public_id]) as out:
                out.write(text.encode())
    return names


def write_json(user: User, files: dict[str, str], out: IO[bytes], *, now: datetime) -> None:
    """Write the rows of every section as one JSON object, without holding them all."""
    head = {
        "format": "latchkey person",
        "version": VERSION,
        "gateway": GATEWAY_VERSION,
        "exported_at": now,
        "person": person_of(user),
    }
    out.write(orjson.dumps(head)[:-1])
    for section in SECTIONS:
        out.write(b",\n" + orjson.dumps(section.name) + b":[")
        for number, row in enumerate(rows_of(section, user)):
            if section.model is StoredFile:
                row["path"] = files.get(row["public_id"])
            out.write((b",\n" if number else b"\n") + orjson.dumps(row, default=str))
        out.write(b"]")
    out.write(b"}\n")


def person_of(user: User) -> dict[str, Any]:
    """Return the fields of the person."""
    [found] = User.objects.filter(pk=user.pk).values(*tables.PERSON.split())
    return {plain(name): value for name, value in found.items()}


def rows_of(section: Section, user: User) -> Iterator[dict[str, Any]]:
    """Yield the rows of a section, with the names of the format."""
    rows = section.rows(user).values(*section.fields.split())
    for row in rows.iterator(chunk_size=AT_ONCE):
        yield {plain(name): value for name, value in row.items()}


def plain(field: str) -> str:
    """Return the name of a field in the format: that of a conversation is ``session``."""
    return field.replace("__public_id", "").replace("__", "_")

"""Stored files: bytes under ``GATEWAY_HOME/files``, rows in the database, no path in a URL."""

import base64
import hashlib
import logging
import mimetypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.signing import BadSignature, Signer
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy, gettext_noop

from core.database.transactions import atomic_write
from core.documents.sniffing import media_type
from core.files import quota
from core.lib import disk
from core.lib.ids import is_public_id, public_id
from core.lib.text import one_line
from core.models import Installation, Run, StoredFile, User

logger = logging.getLogger(__name__)

INLINE_BYTES = 10 * 1024 * 1024
# The types that browsers and platforms show as a picture, with the ends of their files' names. A
# model is sent what core/media/scaler.py opens.
PICTURES = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
DAY_SECONDS = 24 * 60 * 60
MEGABYTE = 1024 * 1024
MARK = ".belongs-to"
NOT_SHARED = (
    "The stored files in {folder} are not those of this database: files of other machines, or of a "
    "copy that was not restored, are missing here."
)
SENT, MADE = quota.SENT, "made"
DISK_FULL = gettext_noop("The gateway could not store the file: its disk may be full.")
NOT_STORED = gettext_lazy(DISK_FULL)
# One text for both cases: it must not reveal which addresses were once valid.
NO_LINK = gettext_lazy("This link is invalid: it was changed, or it has expired.")


class BadLinkError(Exception):
    """The link was changed or has expired."""


class NotStoredError(Exception):
    """The disk does not take a file; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Made:
    """A finished file of a job; ``path`` is below :func:`folder`."""

    path: Path
    name: str
    mime: str


def folder() -> Path:
    return Path(settings.GATEWAY_HOME) / "files"


@contextmanager
def disk_failures() -> Iterator[None]:
    """Convert those inside the block to NotStoredError, and log them."""
    try:
        yield
    except OSError as error:
        logger.exception("a file could not be stored")
        raise NotStoredError(NOT_STORED) from error


def keep(
    *,
    user: User,
    name: str,
    content: bytes,
    session_id: int | None = None,
    run_id: int | None = None,
    expires_at: datetime | None = None,
    origin: str = SENT,
) -> StoredFile:
    """Store ``content``; ``name`` is a label. Raises QuotaExceededError, NotStoredError."""
    path = new_path()
    try:
        append(path, content)
        file = uploaded(
            path=path,
            user=user,
            session_id=session_id,
            run_id=run_id,
            name=name,
            expires_at=expires_at,
            origin=origin,
        )
        return entered(file)
    except (NotStoredError, quota.QuotaExceededError):  # half a file would fill the disk for a day
        path.unlink(missing_ok=True)
        raise


@disk_failures()
def append(path: Path, data: bytes) -> None:
    """Write ``data`` to the end of an upload at :func:`new_path`. Raises NotStoredError."""
    with path.open("ab") as file:
        file.write(data)


@disk_failures()
def uploaded(*, path: Path, name: str, **fields: Any) -> StoredFile:
    """Sync the upload at ``path`` to the disk; return its unsaved row. Not in a transaction. Raises
    NotStoredError.
    """
    disk.sync_within(folder(), path)
    return described(path=path, name=name, content_type=type_of(path, name), **fields)


def described(*, path: Path, name: str, **fields: Any) -> StoredFile:
    """Return the unsaved row of the bytes at ``path``, which are read here."""
    return StoredFile(
        name=one_line(name, 255) or "file",
        size=path.stat().st_size,
        sha256=digest_of(path),
        path=str(path.relative_to(folder())),
        **fields,
    )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of the bytes at ``path``. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def entered(file: StoredFile) -> StoredFile:
    """Save the row of ``file``. Raises QuotaExceededError for an upload beyond the quota."""
    with atomic_write():
        if file.origin == SENT:
            quota.check_serialised(user_id=file.user_id, size=file.size)
        file.save(force_insert=True)
    return file


def type_by_name(name: str) -> str:
    """Return the media type for the extension of ``name``.

    The slash keeps the name from being parsed as a ``data:`` URL, whose type the library accepts
    literally, line ends included.
    """
    return mimetypes.guess_type(f"/{one_line(name, 255)}")[0] or "application/octet-stream"


def type_of(path: Path, name: str) -> str:
    """Return the media type of a file by its first bytes; if unknown, by its name."""
    by_name = type_by_name(name)
    with path.open("rb") as file:
        return media_type(file.read(4096), declared=by_name) or by_name


@disk_failures()
def new_path() -> Path:
    """Return a path for an upload. Its folder is in small letters: some disks take them and capital
    ones for the same, and show the folder that was made first. Raises NotStoredError.
    """
    name = public_id()
    path = folder() / name[:2].lower() / name
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    return path


def receive(*, path: Path, user: User, name: str) -> StoredFile:
    """Create the row of an upload. Raises QuotaExceededError and NotStoredError."""
    return entered(uploaded(path=path, user=user, name=name))


def misplaced() -> str:
    """Return why other machines' files may be missing here: the folder of this machine is not the
    one registered in the database. Empty when it is. The first call marks the folder.

    Raises DatabaseError.
    """
    known = Installation.objects.filter(id=1).values_list("files_mark", flat=True).first() or ""
    try:
        here = mark_of_folder(known)
        if not known and is_of_another():
            return NOT_SHARED.format(folder=folder())
        if not known:
            with atomic_write():
                Installation.objects.get_or_create(id=1)
                Installation.objects.filter(id=1, files_mark="").update(files_mark=here)
            known = str(Installation.objects.values_list("files_mark", flat=True).get(id=1))
    except OSError as error:
        return f"The folder of stored files ({folder()}) cannot be used: {error.strerror}."
    return "" if here == known else NOT_SHARED.format(folder=folder())


def is_of_another() -> bool:
    """Return whether files are in the folder and this database knows none."""
    found = (folder().glob(pattern) for pattern in ("??/*", "jobs/*/*"))
    return any(map(any, found)) and not StoredFile.objects.exists()


def mark_of_folder(known: str) -> str:
    """Return the folder's mark, made when neither it nor the database has one. Raises OSError."""
    file = folder() / MARK
    if file.exists():
        return file.read_text(encoding="utf-8").strip()
    if known:
        return ""
    folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    scratch = folder() / f"{MARK}.{public_id()}"
    scratch.write_text(public_id(), encoding="utf-8")
    try:
        with suppress(FileExistsError):  # of two concurrent starters, both take the first one's
            os.link(scratch, file)
    except OSError:  # shared folders of some clouds have files of one name only
        with suppress(FileExistsError), file.open("x", encoding="utf-8") as made:
            made.write(scratch.read_text(encoding="utf-8"))
    finally:
        scratch.unlink()
    return file.read_text(encoding="utf-8").strip()


def adopt_folder() -> None:
    """Register this machine's folder, even if files are missing. Raises OSError."""
    here = mark_of_folder("")
    with atomic_write():
        Installation.objects.update_or_create(id=1, defaults={"files_mark": here})


def path_of(file: StoredFile) -> Path:
    """Return the path of ``file``, for programs that read files themselves."""
    return folder() / file.path


def read(file: StoredFile) -> bytes:
    """Return the bytes of ``file``. Raises OSError when they were removed."""
    return path_of(file).read_bytes()


def is_unlinked(file: StoredFile) -> bool:
    """Remove the bytes of ``file``; return whether there are none now."""
    try:
        path_of(file).unlink(missing_ok=True)
    except OSError as error:
        logger.warning("the file %s cannot be removed: %s", file.public_id, error.strerror)
        return False
    return True


def inline(url: str, *, user_id: int) -> str | None:
    """Return a user's own image (``/files/<id>``, or its link) as a data URL, else None.

    Addresses come from models, which repeat their input: another user's file is refused.
    """
    public = named_by(url)
    if not public:
        return None
    own = StoredFile.objects.filter(user_id=user_id, revoked_at__isnull=True)
    file = own.filter(public_id=public).first()
    if file is None or not file.content_type.startswith("image/") or file.size > INLINE_BYTES:
        return None
    try:
        content = read(file)
    except OSError:
        return None
    return f"data:{file.content_type};base64,{base64.b64encode(content).decode()}"


def named_by(url: str) -> str:
    """Return the public id in an address of a file here, ``/files/<id>`` or a link, also one that
    has expired; "" for any other. It opens nothing: whose file it is must be checked.
    """
    path = url.removeprefix(settings.GATEWAY_URL)
    public, _, _ = path.removeprefix("/files/").removeprefix("out?token=").partition(".")
    return public if path.startswith("/files/") and is_public_id(public) else ""


def adopt(made: Made, *, run: Run) -> StoredFile:
    """Create a row for a file that is already in the folder. Inside a transaction."""
    made.path.chmod(0o600)
    row = described(
        path=made.path,
        user=run.user,
        session_id=run.session_id,
        run=run,
        name=made.name,
        content_type=made.mime[:100],
        origin=MADE,
    )
    return entered(row)


def finished(*, session_id: int) -> QuerySet[StoredFile]:
    """Return the available files created in a session, latest first."""
    rows = StoredFile.objects.filter(session_id=session_id, origin=MADE, revoked_at__isnull=True)
    return rows.order_by("-id")


def link(file: StoredFile, *, now: float | None = None) -> str:
    """Return the address that opens ``file`` without signing in, for FILE_LINK_DAYS ([L4])."""
    return f"{settings.GATEWAY_URL}/files/out?token={token(file, now=now)}"


def token(file: StoredFile, *, now: float | None = None) -> str:
    """Return ``<public id>.<expiry>.<signature>``; it does not contain the path."""
    ends = int(now or time.time()) + settings.FILE_LINK_DAYS * DAY_SECONDS
    return signer().sign(f"{file.public_id}.{ends:x}")


def signer() -> Signer:
    """Return the signer of links; the key is SECRET_KEY."""
    return Signer(salt="latchkey.files.out", sep=".")


def opened(token: str, *, now: float | None = None) -> StoredFile | None:
    """Return the file of a link; None when it no longer exists. Raises BadLinkError."""
    try:
        name, _, ends = signer().unsign(token[:200]).rpartition(".")
    except BadSignature as error:
        raise BadLinkError(NO_LINK) from error
    if not is_public_id(name) or int(ends, 16) < int(now or time.time()):
        raise BadLinkError(NO_LINK)
    return StoredFile.objects.filter(public_id=name).first()


def count_open(file: StoredFile) -> None:
    with atomic_write():
        StoredFile.objects.filter(id=file.id).update(opens=F("opens") + 1)


def revoke(file: StoredFile) -> bool:
    """Invalidate every link to ``file``; return whether it was still valid."""
    with atomic_write():
        rows = StoredFile.objects.filter(id=file.id, revoked_at__isnull=True)
        return bool(rows.update(revoked_at=Now()))

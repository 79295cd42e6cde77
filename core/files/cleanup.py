"""Remove unreachable bytes: revoked or expired files, uploads that no message names, unfinished
jobs' files, and files on the disk without a row.

A file of a conversation stays: its user may always open it. Rows stay too, marked, so that a link
answers 410 or 403 and not 404.
"""

import logging
import shutil
import time
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from core.database.queries import Values
from core.database.transactions import atomic_write
from core.files import storage
from core.models import InboundMessage, Job, Run, StoredFile

logger = logging.getLogger(__name__)

AT_ONCE = 200
DISCARD_SECONDS = 5


def purge(*, now: datetime) -> int:
    """Remove the bytes of at most AT_ONCE files of each kind; return how many.

    None in the folder of another machine: the bytes would stay on the one that has them. One that
    the disk refuses to remove is left for the next time, and holds up no other.
    """
    if storage.misplaced():
        return 0
    kept = StoredFile.objects.filter(purged_at__isnull=True)
    revoked = kept.filter(revoked_at__isnull=False).order_by("id")
    expired = kept.filter(expires_at__lt=now, revoked_at__isnull=True).order_by("expires_at")
    due = [
        *revoked[:AT_ONCE],
        *expired[:AT_ONCE],
        *(file for file in unused(now)[:AT_ONCE] if not is_waited(file)),
    ]
    gone = [file for file in due if storage.is_unlinked(file)]
    for file in gone:
        with atomic_write():
            StoredFile.objects.filter(id=file.id).update(purged_at=now)
    return len(gone)


def unused(now: datetime) -> QuerySet[StoredFile]:
    """Return uploads that never became part of a conversation."""
    return StoredFile.objects.filter(
        origin=storage.SENT,
        session__isnull=True,
        run__isnull=True,
        purged_at__isnull=True,
        created_at__lt=now - timedelta(hours=settings.UNNAMED_FILE_HOURS),
    ).order_by("id")


def is_waited(file: StoredFile) -> bool:
    """Return whether a message names ``file`` that no run has processed yet."""
    waiting = InboundMessage.objects.filter(
        Q(run__isnull=True) | Q(run__state__in=Run.UNFINISHED), user_id=file.user_id
    )
    return any(
        item.get("upload") == file.public_id
        for media in waiting.values_list("media", flat=True)
        for item in media
    )


RECENTLY_ENDED = Values(
    lambda: Job.objects.filter(
        state__in=(Run.State.CANCELLED, Run.State.FAILED),
        finished_at__lt=Now() - timedelta(seconds=DISCARD_SECONDS),
        finished_at__gt=Now() - timedelta(hours=1),
    ).values_list("id")
)


def discard_unfinished() -> int:
    """Remove the folders of recently stopped or failed jobs; return how many.

    Normally their worker does so; a crashed worker gets DISCARD_SECONDS.
    """
    folders = [storage.folder() / "jobs" / str(job_id) for (job_id,) in RECENTLY_ENDED()]
    left = [folder for folder in folders if folder.is_dir()]
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)
    return len(left)


def sweep() -> int:
    """Remove old bytes without a row (their user or session was deleted).

    None in the folder of another database, which has their rows.
    """
    if storage.misplaced():
        return 0
    before = time.time() - settings.UNNAMED_FILE_HOURS * 3600
    removed = 0
    for place in sorted(storage.folder().glob("??")):
        removed += without_rows([path for path in place.iterdir() if is_old(path, before)])
    for place in sorted(storage.folder().glob("jobs/*")):
        if not (
            place.name.isdigit()
            and Job.objects.filter(id=place.name, state__in=Run.UNFINISHED).exists()
        ):
            removed += without_rows([path for path in place.rglob("*") if is_old(path, before)])
            remove_empty(place)
    if removed:
        logger.info("removed %s files without a row", removed)
    return removed


def is_old(path: Path, before: float) -> bool:
    """Return whether this is a stored file last written before then (seconds since 1970)."""
    try:
        return not path.is_symlink() and path.is_file() and path.stat().st_mtime < before
    except FileNotFoundError:
        return False


def without_rows(paths: list[Path]) -> int:
    """Remove those of ``paths`` without a row; return how many."""
    names = {path: names_of(path) for path in paths}
    every = sorted(set[str]().union(*names.values()))
    known: set[str] = set()
    for start in range(0, len(every), AT_ONCE):
        rows = StoredFile.objects.filter(path__in=every[start : start + AT_ONCE])
        known.update(rows.values_list("path", flat=True))
    gone = [path for path in paths if known.isdisjoint(names[path])]
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone)


def remove_empty(place: Path) -> None:
    """Remove a folder and those in it as far as they are empty: each ended job would leave some."""
    for folder in (*sorted(place.rglob("*/"), reverse=True), place):
        with suppress(OSError):  # it holds a file, or is gone
            folder.rmdir()


def names_of(path: Path) -> set[str]:
    """Return the paths by which a row may name a stored file: as it is shown, and, of an upload of
    earlier versions, with the folder of its name, which a disk that takes small and capital letters
    for the same may show as another one (``storage.new_path``).
    """
    return {str(path.relative_to(storage.folder())), f"{path.name[:2]}/{path.name}"}

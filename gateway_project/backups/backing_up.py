"""One backup from its copy to its check, as the command and the workers make it."""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.db import Error as DatabaseFailure
from django.utils import timezone

from channels_app.owner import backups
from channels_app.owner.backups import Made
from gateway_project.backups import keeping, making, manifest, restoring
from gateway_project.backups.manifest import BackupError, Manifest


class Outcome(NamedTuple):
    """The folder of a good backup, what it holds, and the older ones that are removed after it."""

    folder: Path
    manifest: Manifest
    removed: list[Path]

    @property
    def size(self) -> int:
        """Return its bytes; a content that several backups share counts in each."""
        database = (self.folder / manifest.DATABASE).stat().st_size
        return database + sum(each.size for each in self.manifest.files)


def back_up(
    root: Path, *, now: datetime, store: Callable[[Outcome], None], wait_seconds: float = 0
) -> Outcome:
    """Make a backup in ``root``, check it, have it stored, and remove those that no rule keeps.
    ``wait_seconds``: how long another one may be made or checked until this one fails.

    Raises BackupError; nothing of one that fails stays: it may have filled the disk. A process that
    is killed before the check has ended leaves nothing that looks like a backup; one that is killed
    after ``store`` leaves older ones, which go the next time.
    """
    with making.one_at_a_time(root, wait_seconds=wait_seconds):
        try:
            partial = making.make(root, passphrase=settings.BACKUP_PASSPHRASE, now=now)
            found = restoring.verify(partial)
        except (BackupError, DatabaseFailure):
            with suppress(OSError):  # the next one removes it
                making.remove_unfinished(root)
                keeping.thin_out(root, ())
            raise
        folder = making.finish(partial)
        newest, weeks = settings.BACKUP_KEEP, settings.BACKUP_KEEP_WEEKS
        # The newest, also where the clock was ahead when others were named.
        every = [folder, *(each for each in manifest.all_in(root) if each != folder)]
        surplus = keeping.surplus(every, newest=newest, weeks=weeks)
        done = Outcome(folder, found, surplus)
        store(done)
        keeping.thin_out(root, surplus)
        return done


def note(done: Outcome, *, row: int | None = None) -> None:
    """Store a good backup, for the list in the admin; ``row``: the one that asked for it."""
    found, gone = done.manifest, [each.name for each in done.removed]
    made = Made(
        name=done.folder.name,
        rows=sum(found.rows.values()),
        files=len(found.files),
        size=done.size,
        has_keys=found.has_secrets,
    )
    backups.succeed(made, removed=gone, row=row, now=timezone.now())

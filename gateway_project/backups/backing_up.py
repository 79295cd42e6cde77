"""One backup from its copy to its check, as the command and the workers make it."""

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from gateway_project.backups import keeping, making, manifest, restoring
from gateway_project.backups.manifest import BackupError, Manifest


class Outcome(NamedTuple):
    """The folder of a good backup, what it holds, and the older ones that were removed."""

    folder: Path
    manifest: Manifest
    removed: list[Path]

    @property
    def size(self) -> int:
        """Return its bytes; a content that several backups share counts in each."""
        database = (self.folder / manifest.DATABASE).stat().st_size
        return database + sum(each.size for each in self.manifest.files)


def back_up(root: Path, *, now: datetime) -> Outcome:
    """Make a backup in ``root``, check it, and remove those that no rule keeps.

    Raises BackupError; a backup that fails its check is removed.
    """
    with making.one_at_a_time(root):
        folder = making.make(root, passphrase=settings.BACKUP_PASSPHRASE, now=now)
        try:
            found = restoring.verify(folder)
        except BackupError:
            keeping.remove([folder])
            raise
        newest, weeks = settings.BACKUP_KEEP, settings.BACKUP_KEEP_WEEKS
        return Outcome(folder, found, keeping.thin_out(root, newest=newest, weeks=weeks))

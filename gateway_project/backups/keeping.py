"""Which backups are kept: the newest ones, and one of each of the last weeks."""

import logging
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from gateway_project.backups import manifest

logger = logging.getLogger(__name__)


def surplus(folders: Sequence[Path], *, newest: int, weeks: int) -> list[Path]:
    """Return which of these backups (the newest first) no rule keeps.

    Kept are ``newest`` ones, at least one, and the newest one of each of the last ``weeks`` weeks
    (ISO 8601) that have one; besides, those that somebody has renamed.
    """
    folders = [each for each in folders if not manifest.is_renamed(each)]
    kept = set(folders[: max(newest, 1)])
    seen: list[tuple[int, int]] = []
    for folder in folders:
        year, week, _ = manifest.made_at(folder).isocalendar()
        if (year, week) not in seen and len(seen) < weeks:
            seen.append((year, week))
            kept.add(folder)
    return [folder for folder in folders if folder not in kept]


def thin_out(root: Path, gone: Iterable[Path]) -> None:
    """Remove these backups, and the contents that none of the others names.

    A backup loses its manifest first: the rest that a kill leaves is none, and goes the next time.
    While one is damaged all contents stay: nothing says which it names.
    """
    remove(gone)
    own = (each for each in manifest.named(root) if not manifest.is_renamed(each))
    remove(each for each in own if not (each / manifest.MANIFEST).exists())
    try:
        found = [manifest.read(folder) for folder in manifest.all_in(root)]
    except manifest.BackupError as error:
        logger.warning("old contents of backups stay: %s", error)
        return
    named = {each.sha256 for backup in found for each in backup.files}
    for path in manifest.contents(root):
        if path.name not in named:
            path.unlink()


def remove(folders: Iterable[Path]) -> None:
    """Remove backups; contents that others name stay."""
    for folder in folders:
        (folder / manifest.MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(folder)

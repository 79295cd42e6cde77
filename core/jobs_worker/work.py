"""One job from claim to end: read its source, run its plugin, store its files.

Files are written to ``<files>/jobs/<job>/<attempt>`` from their first byte: those of an attempt
that crashed or was cancelled are deleted with the folder, and a finished one is adopted in place.
"""

import logging
import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from core.conversations import jobs, traces
from core.database.transactions import AWAY, in_thread, patiently
from core.files import storage
from core.files.storage import DISK_FULL, Made
from core.jobs_worker import skills, sources, steps
from core.jobs_worker.host import Host
from core.lib import disk
from core.models import Job, Run
from core.plugins import registry
from core.plugins.base import Artifact, Cancelled, PluginError, PluginResult

logger = logging.getLogger(__name__)

BROKEN = "Something went wrong in the gateway."
TOO_MUCH_MEMORY = "This needed more memory than a task may take."

Work = Callable[[Job, Host], Awaitable[PluginResult]]


async def perform(job: Job) -> None:
    """Run a claimed job; its row gets the result, if the claim still holds.

    Raises OperationalError or InterfaceError while the database is away: the job goes back into the
    queue.
    """
    folder = folder_of(job)
    shutil.rmtree(folder.parent, ignore_errors=True)  # files of earlier attempts
    try:
        folder.mkdir(parents=True, mode=0o700)
        host = await in_thread(Host, job=job, folder=folder)
        result = await WORK[job.tool](job, host)
        made = [kept(each, folder) for each in result.files]
        told = {"text": result.text, **({"note": result.note} if result.note else {})}
        await patiently(partial(jobs.finish, job=job, result=told, made=made))
        traces.ended(Run.State.SUCCEEDED)
        tidy(folder, keep={each.path for each in made})
        await in_thread(steps.drop_answers, job.id)
    except (Cancelled, jobs.LostJobError):
        logger.info("job %s is not ours any more", job.id)
        await in_thread(discard, job)
        await in_thread(steps.drop_answers, job.id)
    except PluginError as error:
        await failed(job, str(error))
    except MemoryError:
        await failed(job, TOO_MUCH_MEMORY)
    except AWAY:
        raise  # the job is begun again, and repeats no question to the model
    except Exception as error:
        logger.exception("a job failed")
        is_full = isinstance(error, OSError) and error.errno in disk.FULL
        await failed(job, DISK_FULL if is_full else BROKEN)


async def by_plugin(job: Job, host: Host) -> PluginResult:
    """Do the work of ``route_to_plugin``. Raises PluginError."""
    asked: Mapping[str, Any] = job.parameters
    plugin = registry.get(asked["plugin_id"])
    if plugin is None:
        raise PluginError(f"The plugin {asked['plugin_id']} is not installed.")
    source = await sources.of(job, asked["parameters"], host)
    result = await plugin.run(asked["capability_id"], asked["parameters"], source, host)
    notes = [note for note in (result.note, source.note) if note]
    return replace(result, note="\n".join(notes))


WORK: dict[str, Work] = {"route_to_plugin": by_plugin, "run_skill": skills.run}


async def failed(job: Job, error: str) -> None:
    """Record a failure and delete its files."""
    traces.ended(Run.State.FAILED, code="failed")
    await in_thread(jobs.fail, job=job, error=error)
    await in_thread(discard, job)
    await in_thread(steps.drop_answers, job.id)


def folder_of(job: Job) -> Path:
    return storage.folder() / "jobs" / str(job.id) / str(job.attempt)


def discard(job: Job) -> bool:
    """Delete the files of this attempt, unless it succeeded: a worker may crash after its success.

    Returns whether they were deleted. Raises the database's errors: then nothing was.
    """
    if jobs.has_succeeded(job=job):
        return False
    shutil.rmtree(folder_of(job), ignore_errors=True)
    return True


def kept(artifact: Artifact, folder: Path) -> Made:
    """Return a plugin's file, if it is in its own folder. Raises PluginError."""
    path = artifact.path
    inside = path.resolve().is_relative_to(folder.resolve())
    if path.is_symlink() or not inside or not path.is_file():
        raise PluginError("The plugin created no file that can be sent.")
    disk.sync_within(storage.folder(), path)
    return Made(path=path, name=artifact.name, mime=artifact.mime)


def tidy(folder: Path, *, keep: set[Path]) -> None:
    """Delete everything but the finished files."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path in keep:
            continue
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        else:
            path.unlink(missing_ok=True)
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)

"""Skills: folders under ``GATEWAY_HOME/skills`` with a ``SKILL.md`` and, if they like, scripts.

``SKILL.md`` begins with YAML between lines of ``---``: ``name``, ``description`` and, for a skill
that runs, ``script`` (a file of the folder: Python, or executable). Nothing is used before the
owner switches it on in the admin (a row of ``Skill``). A script gets its input as JSON on stdin,
says its result on stdout, and leaves files in its working folder.
"""

import asyncio
import os
import re
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import yaml
from django.conf import settings

from core import files
from core.db import in_thread
from core.long.host import Host
from core.models import Job, Skill
from core.plugins.base import Artifact, PluginError, PluginResult
from core.text import one_line

SECONDS = 300.0
OUTPUT_BYTES = 1024 * 1024
MEGABYTE = 1024 * 1024
FILE_BYTES = 100 * MEGABYTE
MOST_FILES = 5
MOST_CHARACTERS = 20_000
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
BROKEN = "The skill's script failed."


@dataclass(frozen=True, slots=True)
class Found:
    """A skill on disk. ``script``: None for one that only instructs."""

    name: str
    description: str
    instructions: str
    folder: Path
    script: Path | None


def folder() -> Path:
    """Where skills are."""
    return Path(settings.GATEWAY_HOME) / "skills"


def every() -> dict[str, Found]:
    """The skills on disk by the name of their folder; what cannot be read is left out."""
    places = sorted(folder().glob("*/SKILL.md")) if folder().is_dir() else []
    return {found.name: found for place in places if (found := read(place)) is not None}


def read(place: Path) -> Found | None:
    """The skill of a ``SKILL.md``; None when its head is not what it should be."""
    try:
        text = place.read_text(encoding="utf-8")[: MOST_CHARACTERS * 2]
        _, head, rest = text.split("---", 2)
        facts = yaml.safe_load(head)
    except (OSError, ValueError, yaml.YAMLError):
        return None
    if not isinstance(facts, dict) or NAME.fullmatch(place.parent.name) is None:
        return None
    script = place.parent / str(facts["script"]) if facts.get("script") else None
    inside = script is None or script.resolve().is_relative_to(place.parent.resolve())
    if not inside or (script is not None and not script.is_file()):
        return None
    description = one_line(str(facts.get("description") or ""), 300)
    return Found(
        place.parent.name, description, rest.strip()[:MOST_CHARACTERS], place.parent, script
    )


def switched_on() -> dict[str, Found]:
    """The skills that the owner switched on and that are still there."""
    names = set(Skill.objects.filter(enabled=True).values_list("name", flat=True))
    return {name: found for name, found in every().items() if name in names}


async def run(job: Job, host: Host) -> PluginResult:
    """The work of ``run_skill`` for a skill with a script. Raises PluginError."""
    skill = (await in_thread(switched_on)).get(str(job.parameters["skill"]))
    if skill is None or skill.script is None:
        raise PluginError("This skill is not switched on.")
    await host.progress(f"Running {skill.name}…")
    said = await output_of(skill, job.parameters.get("input") or {}, host.folder)
    made = [artifact(path) for path in sorted(host.folder.iterdir()) if path.is_file()]
    return PluginResult(said.strip() or "Done.", made[:MOST_FILES])


def artifact(path: Path) -> Artifact:
    """A file that a script left."""
    return Artifact(path, path.name, files.type_by_name(path.name))


async def output_of(skill: Found, given: Any, place: Path) -> str:
    """What the script says on stdout. Raises PluginError."""
    script = str(skill.script)
    command = [sys.executable, script] if script.endswith(".py") else [script]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=place,
        env={
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(place),
            "SKILL_FOLDER": str(skill.folder),
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        preexec_fn=limit,
    )
    assert process.stdin is not None  # noqa: S101 - for the type checker
    assert process.stdout is not None  # noqa: S101
    try:
        async with asyncio.timeout(SECONDS):
            process.stdin.write(orjson.dumps(given))
            process.stdin.close()
            said = await process.stdout.read(OUTPUT_BYTES)
            code = await process.wait() if len(said) < OUTPUT_BYTES else 1
    except TimeoutError as error:
        raise PluginError("The skill took too long.") from error
    except (BrokenPipeError, ConnectionResetError) as error:
        raise PluginError(BROKEN) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code != 0:
        raise PluginError(BROKEN)
    return said.decode("utf-8", "replace")[:MOST_CHARACTERS]


def limit() -> None:
    """In the script's process: memory, processor time, size of files."""
    memory = settings.JOB_MEMORY_MEGABYTES * MEGABYTE
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, int(SECONDS)),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))

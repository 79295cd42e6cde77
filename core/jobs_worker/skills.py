"""Skills: folders under ``GATEWAY_HOME/skills`` with a ``SKILL.md`` and optional scripts.

``SKILL.md`` begins with YAML between lines of ``---``: ``name``, ``description`` and, for a skill
that runs, ``script`` (a file of the folder: Python, or executable). Nothing is used before the
owner enables it in the admin (a row of ``Skill``), which also shows the error of a broken one. A
script gets its input as JSON on stdin, writes its result to stdout, and leaves files in its working
folder; the lines of a file ``messages.jsonl`` among them are messages of the protocol.
"""

import os
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import yaml
from django.conf import settings

from core.database.transactions import in_thread
from core.files import storage
from core.jobs_worker import steps
from core.jobs_worker.host import Host
from core.lib import child, processes, resource_limits
from core.lib.text import one_line
from core.messages import Message, MessageError, from_dict
from core.models import Job, Skill
from core.plugins.base import Artifact, PluginError, PluginResult

SECONDS = 300.0
OUTPUT_BYTES = 1024 * 1024
MEGABYTE = 1024 * 1024
FILE_BYTES = 100 * MEGABYTE
MOST_FILES = 5
MOST_CHARACTERS = 20_000
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
BROKEN = "The skill's script failed."
TOO_MANY = "The skill made {0} files, but only the first {1} are sent."
MESSAGES = "messages.jsonl"
# Three hyphens within a line end nothing.
HEAD = re.compile(
    r"\ufeff?\s*---[ \t]*\n(?P<facts>.*?)^---[ \t]*(?:\n(?P<rest>.*))?\Z", re.DOTALL | re.MULTILINE
)


class SkillError(Exception):
    """The folder holds no usable skill; the text is for the owner."""


@dataclass(frozen=True, slots=True)
class Found:
    """A skill on disk. ``script``: None for one with instructions only."""

    name: str
    description: str
    instructions: str
    folder: Path
    script: Path | None


def folder() -> Path:
    return Path(settings.GATEWAY_HOME) / "skills"


def every() -> dict[str, Found]:
    """Return the usable skills on disk, by the name of their folder."""
    return {name: each for name, each in looked_at().items() if isinstance(each, Found)}


def broken() -> dict[str, str]:
    """Return the error of each folder without a usable skill, by its name."""
    return {name: str(each) for name, each in looked_at().items() if isinstance(each, SkillError)}


def looked_at() -> dict[str, Found | SkillError]:
    """Return for every folder under ``skills`` its skill or its error."""
    places = sorted(folder().iterdir()) if folder().is_dir() else []
    found: dict[str, Found | SkillError] = {}
    for place in places:
        if not place.is_dir() or place.name.startswith("."):
            continue
        try:
            found[place.name] = read(place / "SKILL.md")
        except SkillError as error:
            found[place.name] = error
    return found


def read(place: Path) -> Found:
    """Return the skill of a ``SKILL.md``. Raises SkillError."""
    if NAME.fullmatch(place.parent.name) is None:
        raise SkillError("The folder's name may hold letters, digits, dots, - and _ only.")
    try:
        text = place.read_text(encoding="utf-8")[: MOST_CHARACTERS * 2]
    except FileNotFoundError as error:
        raise SkillError("There is no SKILL.md in the folder.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise SkillError("SKILL.md cannot be read as UTF-8 text.") from error
    facts, rest = head_of(text)
    script = place.parent / str(facts["script"]) if facts.get("script") else None
    if script is not None and not script.resolve().is_relative_to(place.parent.resolve()):
        raise SkillError("script must be a file of the skill's own folder.")
    if script is not None and not script.is_file():
        raise SkillError(f"The script {one_line(str(facts['script']), 60)} is not in the folder.")
    description = one_line(str(facts.get("description") or ""), 300)
    return Found(
        place.parent.name, description, rest.strip()[:MOST_CHARACTERS], place.parent, script
    )


def head_of(text: str) -> tuple[dict[str, Any], str]:
    """Return the YAML between the first two lines of ``---``, and the rest. Raises SkillError."""
    pieces = HEAD.match(text)
    if pieces is None:
        raise SkillError("SKILL.md must begin with YAML between two lines of ---.")
    try:
        facts = yaml.safe_load("\n" + pieces["facts"])  # errors name the lines of the file
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, " if mark is not None else ""
        hint = "text with “: ” in it needs quotes" if "mapping values" in str(error) else ""
        said = " ".join(
            filter(None, (str(error.problem or "it is not valid"), hint and f"({hint})"))
        )
        raise SkillError(f"The YAML at the head of SKILL.md: {where}{said}.") from error
    except yaml.YAMLError as error:
        raise SkillError("The YAML at the head of SKILL.md is not valid.") from error
    if not isinstance(facts, dict):
        raise SkillError("The head of SKILL.md must name name, description and script.")
    return facts, pieces["rest"] or ""


def switched_on_but_broken() -> dict[str, str]:
    """Return the error of each enabled skill that cannot be used."""
    names = set(Skill.objects.filter(enabled=True).values_list("name", flat=True))
    return {name: error for name, error in broken().items() if name in names}


def switched_on() -> dict[str, Found]:
    """Return the enabled skills that exist."""
    names = set(Skill.objects.filter(enabled=True).values_list("name", flat=True))
    return {name: found for name, found in every().items() if name in names}


async def run(job: Job, host: Host) -> PluginResult:
    """Run a skill's script as the work of ``run_skill``. Raises PluginError."""
    skill = (await in_thread(switched_on)).get(str(job.parameters["skill"]))
    if skill is None or skill.script is None:
        raise PluginError("This skill is not switched on.")
    await host.progress(f"Running {skill.name}…")
    said = await output_of(skill, job.parameters.get("input") or {}, host.folder)
    for message in told_by(host.folder / MESSAGES):
        await host.send(message)
    left = [path for path in sorted(host.folder.iterdir()) if is_result(path)]
    made = [Artifact(path, path.name, storage.type_by_name(path.name)) for path in left]
    note = TOO_MANY.format(len(made), MOST_FILES) if len(made) > MOST_FILES else ""
    return PluginResult(said.strip() or "Done.", made[:MOST_FILES], note=note)


def is_result(path: Path) -> bool:
    """Return whether a script's file is for the user: not empty and not hidden."""
    return not path.name.startswith(".") and path.is_file() and path.stat().st_size > 0


def told_by(path: Path) -> list[Message]:
    """Return the messages that a script left, one per line of JSON, and delete the file.

    Raises PluginError naming the invalid line.
    """
    if not path.is_file() or path.is_symlink():
        return []
    lines = path.read_bytes()[:FILE_BYTES].splitlines()
    path.unlink()
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            message = from_dict(orjson.loads(line))
            steps.sendable(message)
        except (ValueError, MessageError) as error:
            raise PluginError(f"Line {number} of {MESSAGES} is no message: {error}.") from error
        found.append(message)
    return found


async def output_of(skill: Found, given: Any, place: Path) -> str:
    """Return a script's stdout. Raises PluginError."""
    script = str(skill.script)
    command = [sys.executable, script] if script.endswith(".py") else [script]
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(place)}
    try:
        said, code = await processes.output_of(
            *command, seconds=SECONDS, most_bytes=OUTPUT_BYTES, given=orjson.dumps(given),
            cwd=place, env={**env, "SKILL_FOLDER": str(skill.folder)},
            prepare=partial(limit, os.getpid(), settings.JOB_MEMORY_MEGABYTES * MEGABYTE),
        )  # fmt: skip
    except TimeoutError as error:
        raise PluginError("The skill took too long.") from error
    except (BrokenPipeError, ConnectionResetError, processes.TooMuchOutputError) as error:
        raise PluginError(BROKEN) from error
    if code != 0:
        raise PluginError(BROKEN)
    return said.decode("utf-8", "replace")[:MOST_CHARACTERS]


def limit(parent: int, memory: int) -> None:
    """Limit memory, CPU time and file size of the script's process; end it with ``parent``."""
    child.die_with_parent(parent=parent)
    resource_limits.limit(memory=memory, seconds=int(SECONDS), file_bytes=FILE_BYTES)

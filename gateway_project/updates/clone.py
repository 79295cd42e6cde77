"""The code of an installation that is a clone: its version, and how another one comes in."""

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway_project import home

PROGRAM_SECONDS = 3600
VERSION = re.compile(r'^VERSION = "([^"]+)"', re.MULTILINE)
# The environment is made from these: when they stay, so does it.
LOCKED = ("uv.lock", "pyproject.toml", "bootstrap.sh")
PREVIOUS = ".venv.previous"
# Nothing that goes on in the background.
QUIET = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")


class UpdateError(Exception):
    """The installation cannot be updated; the text says why, and that nothing has changed."""


@dataclass(frozen=True)
class Target:
    """The code that is to come: its commit and version; and what is there now."""

    commit: str
    version: str
    now: str  # the commit
    branch: str  # "" where none is checked out


def run(*command: str, folder: Path) -> str:
    """Return what a program printed. Raises UpdateError with its last lines."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=PROGRAM_SECONDS,
            check=False,
            close_fds=False,  # the lock of updates
            umask=home.shell_umask,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UpdateError(f"`{command[0]}` could not be run: {error}.") from error
    if done.returncode:
        is_quiet = command[1 : 1 + len(QUIET)] == QUIET
        shown = shlex.join([command[0], *command[1 + len(QUIET) * is_quiet :]])
        raise UpdateError(f"`{shown}` failed: {last_lines(done.stdout, 4)}")
    return done.stdout.strip()


def last_lines(text: str, number: int = 1) -> str:
    """Return the last lines of what a program printed, as one: its reason, if it failed."""
    said = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(said[-number:]) or "it gave no reason"


def git(*arguments: str) -> str:
    """Return what git printed in this clone. Raises UpdateError."""
    return run("git", *QUIET, *arguments, folder=home.BASE_DIR)


def find(to: str) -> Target | None:
    """Fetch, and return the version to update to: ``to``, or else that of the branch's upstream.

    None when it is here already. Raises UpdateError.
    """
    if not home.IN_CLONE or not (home.BASE_DIR / ".git").exists():
        raise UpdateError(
            "This installation is no git clone: docs/deploy.md says how a wheel and a container "
            "are updated."
        )
    if changed := git("status", "--porcelain", "--untracked-files=no"):
        raise UpdateError(f"Files of the clone were changed: {changed.splitlines()[0].strip()}.")
    git("fetch", "--quiet", "--tags")
    branch = git("rev-parse", "--abbrev-ref", "HEAD").removeprefix("HEAD")
    if not (to or branch):
        raise UpdateError("No branch is checked out: name the version with --to.")
    now = git("rev-parse", "HEAD")
    commit = git("rev-parse", "--verify", "--end-of-options", f"{to or '@{upstream}'}^{{commit}}")
    if commit == now:
        return None
    found = VERSION.search(git("show", f"{commit}:core/__init__.py"))
    return Target(commit=commit, version=found[1] if found else "unknown", now=now, branch=branch)


def changes(target: Target) -> list[str]:
    """Return the subjects of the commits that the update brings, the newest first."""
    return git("log", "--format=%s", f"{target.now}..{target.commit}").splitlines()


def same_environment(target: Target) -> bool:
    """Return whether both versions need the same packages."""
    return not git("diff", "--name-only", target.now, target.commit, "--", *LOCKED)


def python() -> Path:
    """Return the Python of this installation."""
    return home.BASE_DIR / ".venv" / "bin" / "python"


@contextmanager
def beside(target: Target, folder: Path) -> Iterator[Path]:
    """Check the new code out into ``folder`` and yield its Python; the folder goes in the end.

    Raises UpdateError.
    """
    forget(folder)
    git("worktree", "add", "--quiet", "--detach", str(folder), target.commit)
    try:
        if same_environment(target):
            yield python()
        else:
            run("sh", "bootstrap.sh", "run", folder=folder)
            yield folder / ".venv" / "bin" / "python"
    finally:
        forget(folder)


def forget(folder: Path) -> None:
    """Remove a checkout, also that of an update that was killed."""
    shutil.rmtree(folder, ignore_errors=True)
    git("worktree", "prune")


def keep_environment(target: Target) -> None:
    """Keep what the environment is now, by links: packages are replaced, never written into."""
    kept = home.BASE_DIR / PREVIOUS
    shutil.rmtree(kept, ignore_errors=True)
    if not same_environment(target):
        shutil.copytree(home.BASE_DIR / ".venv", kept, symlinks=True, copy_function=os.link)


def replace(target: Target) -> None:
    """Bring the new code in, and what it needs. Raises UpdateError half-way."""
    if target.branch and is_ahead(target):
        git("merge", "--quiet", "--ff-only", target.commit)
    else:
        git("checkout", "--quiet", "--detach", target.commit)
    run("sh", "bootstrap.sh", "run", folder=home.BASE_DIR)


def is_ahead(target: Target) -> bool:
    """Return whether the branch can go forward to the new code."""
    return git("merge-base", target.now, target.commit) == target.now


def lines_back(target: Target) -> list[str]:
    """Return a script's lines that restore the present code, at any point; repeatable."""
    checkout = (
        f"git checkout --quiet --force {shlex.quote(target.branch)} -- && "
        f"git reset --quiet --hard {target.now}"
        if target.branch
        else f"git checkout --quiet --force --detach {target.now}"
    )
    return [
        f"cd {shlex.quote(str(home.BASE_DIR))}",
        "rm -f .git/index.lock .git/HEAD.lock",
        checkout,
        f"if [ -d {PREVIOUS} ]; then rm -rf .venv && mv {PREVIOUS} .venv; fi",
    ]

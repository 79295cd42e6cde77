"""A clone whose versions are a few files: git, shell and links are real, and quick.

Its files say how a version migrates, and the findings of its doctor.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from core import VERSION
from tests.gateway_project.updates.origins import git

# An environment is made anew where its lock has changed, as the real one.
BOOTSTRAP = """
set -e
cat said-by-bootstrap
cmp -s uv.lock .venv/lock && exit
rm -rf .venv
mkdir -p .venv/bin
cp python.sh .venv/bin/python
cp uv.lock .venv/lock
test ! -e no-environment
"""
PYTHON = """#!/bin/sh
case "$*" in
*doctor*) . ./doctor.sh ;;
*migrate*) . ./migrate.sh ;;
esac
"""
# Of the gateway (supervised.py).
WEB = """
printf 1 >"/dev/fd/$GATEWAY_READY_FD"
exec sleep 1000
"""
FILES = {
    ".gitignore": ".venv*\n",
    "bootstrap.sh": BOOTSTRAP,
    "core/__init__.py": f'VERSION = "{VERSION}"\n',
    "doctor.json": "[]",
    "doctor.sh": "cat doctor.json\n",
    "manage.py": "",
    "migrate.sh": "",
    "pyproject.toml": "",
    "python.sh": PYTHON,
    "said-by-bootstrap": "",
    "uv.lock": "1",
    "web.sh": WEB,
}
NEWER = {"core/__init__.py": 'VERSION = "0.2.0"\n'}
NEW_PACKAGES = {**NEWER, "uv.lock": "2"}


def finding(ident: str, *texts: str) -> str:
    """Return what a doctor prints that finds errors of one id."""
    found = {"id": ident, "level": "error", "fix": "Nothing helps."}
    return json.dumps([{**found, "what": what} for what in texts])


def sql(*statements: str) -> str:
    """Return lines of a shell script that change the database of the installation."""
    return f"""{sys.executable} -c '
import os, sqlite3
url = os.environ["DATABASE_URL"]
if url.startswith("sqlite:"):
    opened = sqlite3.connect(url.removeprefix("sqlite://"))
else:
    import psycopg
    opened = psycopg.connect(url)
for each in {json.dumps(statements)}:
    opened.execute(each)
opened.commit()
opened.close()
'
"""


@dataclass(frozen=True)
class Small:
    """A clone (``code``) of a repository (``origin``), both on the branch ``main``."""

    origin: Path
    code: Path

    @classmethod
    def made(cls, folder: Path) -> "Small":
        """Make both below ``folder``, and the environment of the clone."""
        it = cls(folder / "origin", folder / "clone")
        it.origin.mkdir()
        git(it.origin, "init", "--quiet", "--initial-branch=main")
        it.commit("The version that is installed", FILES)
        git(folder, "clone", "--quiet", str(it.origin), str(it.code))
        venv = it.code / ".venv" / "bin"
        venv.mkdir(parents=True)
        (venv / "python").write_text(PYTHON)
        (venv / "python").chmod(0o755)
        (it.code / ".venv" / "lock").write_text("1")
        return it

    def commit(self, subject: str, files: dict[str, str]) -> str:
        """Commit files to the branch of the origin; return the commit."""
        for name, text in files.items():
            path = self.origin / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        git(self.origin, "add", "--all")
        git(self.origin, "commit", "--quiet", "-m", subject)
        return git(self.origin, "rev-parse", "HEAD")

    def branch(self, name: str, files: dict[str, str], *, base: str = "HEAD") -> str:
        """Commit files to a new branch of the origin; return the commit."""
        git(self.origin, "checkout", "--quiet", "-b", name, base)
        commit = self.commit(f"New in {name}", files)
        git(self.origin, "checkout", "--quiet", "main")
        return commit

    def packages(self) -> str:
        """Return which environment the clone has."""
        return (self.code / ".venv" / "lock").read_text()

    def version(self) -> str:
        """Return the version of the code in the clone."""
        return (self.code / "core" / "__init__.py").read_text().split('"')[1]

    def is_old(self) -> bool:
        """Return whether all of the clone is as it was installed, and nothing else is left."""
        return (
            self.version() == VERSION
            and self.packages() == "1"
            and git(self.code, "rev-parse", "--abbrev-ref", "HEAD") == "main"
            and git(self.code, "log", "--format=%s") == "The version that is installed"
            and not git(self.code, "status", "--porcelain")
            and not (self.code / ".venv.previous").exists()
        )

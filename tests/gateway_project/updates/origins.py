"""A repository with versions of Latchkey to update to, and a clone of it with a gateway."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core import VERSION
from gateway_project.home import BASE_DIR
from tests.run import BIN

PACKAGES = ("gateway_project", "core", "channels_app", "allowlist", "templates", "locale")
FILES = ("manage.py", "pyproject.toml", "uv.lock", "bootstrap.sh", "CHANGELOG.md", ".gitignore")
NAMED = {
    "GIT_AUTHOR_NAME": "test", "GIT_AUTHOR_EMAIL": "test@example.org",
    "GIT_COMMITTER_NAME": "test", "GIT_COMMITTER_EMAIL": "test@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
}  # fmt: skip
MIGRATION = """
import os
import time
from pathlib import Path

from django.db import migrations

from gateway_project import home


def work(apps, schema_editor):
    on_a_copy = home.directory().parent.name == "run"
    {code}


class Migration(migrations.Migration):
    dependencies = [("core", "{before}")]
    operations = [migrations.RunPython(work)]
"""
TABLE = "schema_editor.execute('CREATE TABLE update_proof (id integer)')"


def git(folder: Path, *arguments: str) -> str:
    """Return what git printed in a folder."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=os.environ | NAMED,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@dataclass(frozen=True)
class Origin:
    """The repository; each of its branches but ``main`` is a newer version."""

    folder: Path

    @classmethod
    def made(cls, folder: Path) -> "Origin":
        """Make it of this code."""
        folder.mkdir()
        for name in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(BASE_DIR / name, folder / name, ignore=ignored)
        for name in FILES:
            shutil.copy(BASE_DIR / name, folder / name)
        git(folder, "init", "--quiet", "--initial-branch=main")
        git(folder, "add", "--all", "--force")
        git(folder, "commit", "--quiet", "-m", "The version that is installed")
        return cls(folder)

    def clone(self, folder: Path) -> Path:
        """Return a clone with the environment of the tests."""
        git(folder.parent, "clone", "--quiet", str(self.folder), str(folder))
        (folder / ".venv").symlink_to(BIN.parent)
        return folder

    def add(
        self, branch: str, *migrations: str, more: Mapping[str, str] | None = None, **files: str
    ) -> None:
        """Add a version 0.2.0: a branch with more migrations, each by the code of its function,
        and with other files (``a__b`` is ``a/b.py``), or more at their end (``more``, by path).
        """
        git(self.folder, "checkout", "--quiet", "-B", branch, "main")
        found = self.folder / "core" / "__init__.py"
        found.write_text(found.read_text().replace(f'"{VERSION}"', '"0.2.0"'))
        folder = self.folder / "core" / "migrations"
        for code in migrations:
            before = max(each.stem for each in folder.glob("0*.py"))
            name = f"{int(before[:4]) + 1:04d}_of_the_update"
            (folder / f"{name}.py").write_text(MIGRATION.format(code=code, before=before))
        for name, text in files.items():
            (self.folder / name.replace("__", "/")).with_suffix(".py").write_text(text)
        for path, text in (more or {}).items():
            with (self.folder / path).open("a") as file:
                file.write(text)
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", "-m", f"New in {branch}")
        git(self.folder, "checkout", "--quiet", "main")

    def publish(self, branch: str) -> None:
        """Make a version the one that clones of ``main`` get."""
        git(self.folder, "merge", "--quiet", "--ff-only", branch)

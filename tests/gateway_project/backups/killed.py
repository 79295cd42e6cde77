"""``python -m tests.gateway_project.backups.killed POINT ARGUMENT…``: ``manage.py ARGUMENT…`` that
kills itself with SIGKILL at a point.
"""

import os
import signal
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import django

# Name -> module, function, before or after it. In the order of the steps.
POINTS = {
    "after the copy of the database": ("core.database.copies", "copy", "after"),
    "before the keys": ("gateway_project.backups.sealed", "seal", "before"),
    "in a file": ("gateway_project.backups.making", "shutil.copyfile", "after"),
    "after the manifest": ("gateway_project.backups.manifest", "write", "after"),
    "in the check": ("gateway_project.backups.restoring", "bring_database", "after"),
    "at the end of the check": ("gateway_project.backups.restoring", "examine", "after"),
    "after its name": ("gateway_project.backups.making", "finish", "after"),
    "before old ones go": ("gateway_project.backups.keeping", "thin_out", "before"),
    "in an old one": ("gateway_project.backups.keeping", "shutil.rmtree", "before"),
    "after old ones": ("gateway_project.backups.keeping", "remove", "after"),
}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(point: str) -> None:
    """Wrap the function of ``point`` in this process, as its module sees it."""
    module, path, when = POINTS[point]
    owner: Any = import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        seen = SimpleNamespace(**vars(getattr(owner, parent)))
        setattr(owner, parent, seen)
        owner = seen
    original = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        if when == "before":
            die()
        result = original(*args, **kwargs)
        die()
        return result

    setattr(owner, name, call)


if __name__ == "__main__":
    from django.core.management import call_command

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")
    django.setup()
    arm(sys.argv[1])
    call_command(*sys.argv[2:])

"""The folder with the state of an installation: database, files, secrets, sockets."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from core.lib import disk

# The folder of our packages: a clone, or site-packages.
BASE_DIR = Path(__file__).resolve().parent.parent
IN_CLONE = (BASE_DIR / "manage.py").is_file()
# The folder of templates/ and locale/; a wheel has them inside this package (pyproject.toml).
RESOURCES = BASE_DIR if IN_CLONE else Path(__file__).resolve().parent
COMMAND = ".venv/bin/python manage.py" if IN_CLONE else "latchkey"
START = "make run" if IN_CLONE else "latchkey up"
shell_umask = 0o022  # of files of code, which `manage.py update` writes; set at the start
SECRET_NAMES = ("secret_key", "encryption_key", "broker_password", "model_key")


def directory() -> Path:
    """Return ``GATEWAY_HOME``; by default ``./var`` of a clone, else a folder of this user."""
    return Path(os.environ.get("GATEWAY_HOME", "").strip() or default_directory()).resolve()


def default_directory() -> Path:
    """Return ``./var`` beside ``manage.py``; without one, the folder that the XDG rules name.

    They say that a relative ``XDG_DATA_HOME`` is ignored.
    """
    if IN_CLONE:
        return BASE_DIR / "var"
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (data if data.is_absolute() else Path.home() / ".local" / "share") / "latchkey"


def secret_path(name: str) -> Path:
    return directory() / "secrets" / name


def ensure() -> None:
    """Create the folder (mode 0700: it holds conversations) and the secrets (0600) if missing.
    Raises OSError, also for a secret that cannot be read.
    """
    directory().mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = directory() / "secrets"
    folder.mkdir(exist_ok=True, mode=0o700)
    for name in SECRET_NAMES:
        write_once(path=folder / name, value=secrets.token_urlsafe(48))
        (folder / name).read_bytes()


def explain(error: OSError) -> str:
    """Return why the folder cannot be used, with a fix."""
    named = f" ({error.filename})" if error.filename else ""
    return (
        f"GATEWAY_HOME ({directory()}) cannot be used: {error.strerror or error}{named}. Run "
        "this as the user who owns it, give all of it to one user (chown -R), free disk space, or "
        "set GATEWAY_HOME to another folder."
    )


def write_once(*, path: Path, value: str) -> None:
    """Create ``path`` with ``value`` unless it exists; concurrent starters agree on one value."""
    if path.exists():
        return
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    disk.write(scratch, value)
    try:
        os.link(scratch, path)
    except FileExistsError:
        return
    finally:
        scratch.unlink()
    disk.sync(path.parent)


def read_secret(name: str) -> str:
    """Return the secret ``name``, or an empty string when it does not exist yet."""
    path = secret_path(name)
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def read_keys(name: str) -> list[str]:
    """Return the keys in the secret ``name``, the current one first; older ones follow on lines."""
    return read_secret(name).split()


def replace_keys(name: str, keys: Iterable[str]) -> None:
    """Replace the keys of ``name`` atomically, readable for this user only."""
    path = secret_path(name)
    scratch = path.with_name(f".{name}.{os.getpid()}")
    disk.write(scratch, "\n".join(keys))
    scratch.replace(path)
    disk.sync(path.parent)

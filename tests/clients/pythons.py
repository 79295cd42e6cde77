"""Environments of Python clients for tests, each as its lock file in ``requirements`` pins it."""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).parent / "requirements"
INSTALL_SECONDS = 300


def installed(config: pytest.Config, name: str) -> Path:
    """Return the Python with the packages of ``requirements/<name>.txt``; kept between runs."""
    assert config.cache is not None
    source = REQUIREMENTS / f"{name}.txt"
    digest = hashlib.sha256(source.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = Path(config.cache.mkdir(f"venv-{name}-{digest}"))
    python = folder / "bin" / "python"
    with (folder / "turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # other test processes want the same folder
        if not (folder / "installed").exists():
            uv = str(Path(sys.executable).parent / "uv")
            make = [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable]
            subprocess.run([*make, str(folder)], check=True, timeout=INSTALL_SECONDS)
            command = [uv, "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
            command += ["--python", str(python), "--requirement", str(source)]
            subprocess.run(command, check=True, timeout=INSTALL_SECONDS)
            (folder / "installed").touch()
    return python

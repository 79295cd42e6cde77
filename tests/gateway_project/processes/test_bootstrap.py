"""`bootstrap.sh` says what a machine lacks, and does nothing when nothing is to do."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gateway_project.home import BASE_DIR

TOOLS = ("sh", "dirname", "cat", "cksum", "df", "awk", "rm", "printf", "env")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a folder with the sources that matter, and a ``bin`` that is the whole PATH."""
    for name in ("bootstrap.sh", "uv.lock", "pyproject.toml"):
        shutil.copy(BASE_DIR / name, tmp_path / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    return tmp_path


def program(machine: Path, name: str, script: str) -> None:
    """Put a shell script called ``name`` on the machine."""
    path = machine / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def bootstrap(machine: Path, mode: str = "run") -> subprocess.CompletedProcess[str]:
    """Run it there."""
    return subprocess.run(
        ["/bin/sh", "bootstrap.sh", mode],
        cwd=machine,
        env={"PATH": str(machine / "bin")},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_a_python_that_is_too_old_is_named(machine: Path) -> None:
    """With its version and what to install."""
    program(machine, "python3", 'if [ "$1" = --version ]; then echo "Python 3.9.2"; fi; exit 1')
    refused = bootstrap(machine)
    assert refused.returncode == 1
    assert "Python 3.11 to 3.14 is needed; this machine has: Python 3.9.2" in refused.stderr
    assert "apt-get install python3 python3-venv" in refused.stderr


def test_no_python_is_named(machine: Path) -> None:
    """The same, without one."""
    refused = bootstrap(machine)
    assert refused.returncode == 1
    assert "this machine has: no python3" in refused.stderr


def test_a_python_without_venv_and_pip_names_the_package(machine: Path) -> None:
    """As Debian splits it: ``python3 -m venv`` and ``-m pip`` fail."""
    real = f'exec {sys.executable} "$@"'
    program(machine, "python3", f'if [ "$1" = -m ]; then exit 1; fi; {real}')
    refused = bootstrap(machine)
    assert refused.returncode == 1
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"apt-get install python{version}-venv" in refused.stderr
    assert not (machine / ".venv").exists()


def test_a_venv_in_step_with_the_lock_is_left_alone(machine: Path) -> None:
    """Its Python has no pip, and there is no uv: nothing on this machine could install."""
    (machine / ".venv" / "bin").mkdir(parents=True)
    program(machine, "python3", '[ "$1" = -c ]')
    (machine / "bin" / "python3").rename(machine / ".venv" / "bin" / "python")
    wanted = subprocess.run(
        ["/bin/sh", "-c", "cat uv.lock pyproject.toml | cksum"],
        cwd=machine,
        capture_output=True,
        check=True,
    ).stdout
    (machine / ".venv" / ".in-sync-test").write_bytes(wanted)
    assert bootstrap(machine, "test").returncode == 0
    assert bootstrap(machine, "run").returncode == 0
    (machine / "uv.lock").write_text("changed")
    program(machine, "python3", '[ "$1" = -c ]')
    refused = bootstrap(machine, "run")
    assert refused.returncode == 1
    assert "uv could not be installed" in refused.stderr


def test_a_venv_whose_python_became_another_version_is_made_anew(machine: Path) -> None:
    """As by an upgrade of the system: its packages are in the folder of the old version."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", machine / ".venv"], check=True)
    wanted = "cat uv.lock pyproject.toml | cksum >.venv/.in-sync-run"
    subprocess.run(["/bin/sh", "-c", wanted], cwd=machine, check=True)
    program(machine, "python3", f'if [ "$1" = -m ]; then exit 1; fi; exec {sys.executable} "$@"')
    assert bootstrap(machine).returncode == 0
    (packages,) = (machine / ".venv" / "lib").glob("python3.*")
    packages.rename(packages.with_name("python3.10"))
    refused = bootstrap(machine)
    assert refused.returncode == 1
    assert "making .venv" in refused.stdout


def test_a_full_disk_is_named(machine: Path) -> None:
    """Before anything is made."""
    (machine / "bin" / "df").unlink()
    program(machine, "df", 'echo header; echo "/dev/x 100 90 10240 90% /"')
    (machine / "bin" / "python3").symlink_to(sys.executable)
    refused = bootstrap(machine)
    assert refused.returncode == 1
    assert "only 10 MB are free here" in refused.stderr
    assert not (machine / ".venv").exists()


def test_an_unknown_word_is_refused(machine: Path) -> None:
    """run or test."""
    assert "usage" in bootstrap(machine, "fly").stderr


def test_the_scripts_of_ci_are_valid_and_executable() -> None:
    """Bash accepts ``.ci/run``; it needs no terminal."""
    path = BASE_DIR / ".ci" / "run"
    subprocess.run(["/bin/bash", "-n", str(path)], check=True, timeout=200)
    assert os.access(path, os.X_OK)
    assert "exec </dev/null" in path.read_text()

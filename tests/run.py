"""Everything that CI runs: ``python -m tests.run all``; mutants and the slow proofs: ``… soak``."""

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway_project.processes import child

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
DATABASES = ("sqlite", "postgres")
# What knows no database, or starts a gateway on its own default one: once is enough.
ONCE = (
    "tests/browser",
    "tests/clients",
    "tests/fetching",
    "tests/markdown",
    "tests/messages",
    "tests/plugins/test_fit.py",
    "tests/plugins/test_measure.py",
    "tests/plugins/test_rendered.py",
    "tests/processes",
)


@dataclass(frozen=True)
class Step:
    """One check: what it is called, its command, and what its environment has besides ours."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def tool(name: str, *arguments: str) -> list[str]:
    """A program of the virtual environment."""
    return [str(BIN / name), *arguments]


def manage(*arguments: str) -> list[str]:
    """A management command."""
    return [sys.executable, "manage.py", *arguments]


def static_steps(home: str) -> list[Step]:
    """The checks that run no tests. ``home``: an empty folder."""
    somewhere = {"GATEWAY_HOME": home, "SECRET_KEY": secrets.token_urlsafe(48)}
    production = {
        **somewhere,
        "GATEWAY_URL": "https://chat.example.org",
        "GATEWAY_TRUSTED_PROXIES": "10.0.0.1",
        "DATABASE_URL": f"sqlite:///{home}/production.sqlite3",
        "REDIS_URL": "redis://:password@redis.example.org:6379/0",
    }
    return [
        Step("format", tool("ruff", "format", "--check", ".")),
        Step("lint", tool("ruff", "check", ".")),
        Step("types", tool("mypy"), somewhere),
        Step("import contracts", tool("lint-imports"), somewhere),
        Step("migrations", manage("makemigrations", "--check", "--dry-run"), somewhere),
        Step("production tables", manage("migrate", "--verbosity", "0"), production),
        Step(
            "production settings",
            manage("check", "--deploy", "--fail-level", "WARNING"),
            production,
        ),
    ]


def test_steps(*, marker: str, coverage: bool) -> list[Step]:
    """pytest with ``-m marker`` on each database, on two cores."""
    measured = ["--cov", "--cov-report=", "--cov-fail-under=0"] if coverage else []
    # Slow proofs wait more than they compute (leases, restarts): two at a time on two cores.
    parallel = ["-n", os.environ.get("TEST_PROCESSES", "2"), "--dist", "loadfile"]
    command = [sys.executable, "-m", "pytest", "-q", "-m", marker, *parallel, *measured]
    return [
        Step(
            f"tests ({marker}) on {database}",
            [*command, *(f"--ignore={each}" for each in ONCE if database != DATABASES[0])],
            {
                "TEST_DATABASE": database,
                "COVERAGE_FILE": str(ROOT / f".coverage.{slug(marker)}.{database}"),
            },
        )
        for database in DATABASES
    ]


def slug(text: str) -> str:
    """For a file name."""
    return text.replace(" ", "-")


def run(step: Step) -> bool:
    """Run one step with its output shown; whether it passed. It ends when we are killed."""
    write(f"\n=== {step.name}")
    began = time.monotonic()
    done = subprocess.run(
        child.command(*step.command),
        cwd=ROOT,
        env={**os.environ, **step.env},
        stdin=subprocess.DEVNULL,
        check=False,
    )
    word = "passed" if done.returncode == 0 else f"FAILED (exit code {done.returncode})"
    write(f"--- {step.name}: {word} after {time.monotonic() - began:.1f} s")
    return done.returncode == 0


def run_all() -> int:
    """All steps, all of them even when one fails; the exit code."""
    for old in ROOT.glob(".coverage*"):
        old.unlink()
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="latchkey-checks-") as home:
        steps = [
            *static_steps(home),
            *test_steps(marker="not slow", coverage=True),
            *test_steps(marker="slow", coverage=True),
            Step("combine coverage", tool("coverage", "combine", "--quiet")),
            Step("coverage", tool("coverage", "report")),
        ]
        failed = [step.name for step in steps if not run(step)]
    write("\nFAILED: " + ", ".join(failed) if failed else "\nAll passed.")
    return 1 if failed else 0


def soak() -> int:
    """The mutants once; then the slow tests, each death ten times, until one fails or the time is
    over; the exit code."""
    if not run(Step("mutants", [sys.executable, "-m", "tests.mutation"])):
        return 1
    minutes = float(os.environ.get("SOAK_MINUTES", "60"))
    os.environ.setdefault("CHAOS_TIMES", "10")
    deadline = time.monotonic() + minutes * 60
    rounds = 0
    while time.monotonic() < deadline:
        rounds += 1
        write(f"\n##### round {rounds}")
        if not all(run(step) for step in test_steps(marker="slow", coverage=False)):
            return 1
    write(f"\n{rounds} rounds passed.")
    return 0


def write(text: str) -> None:
    """A line for the person who waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(soak() if sys.argv[1:] == ["soak"] else run_all())

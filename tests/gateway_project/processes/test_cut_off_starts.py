"""A first start that is cut off at any moment, many times, leaves nothing in the next one's way."""

import os
import random
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from gateway_project.home import SECRET_NAMES
from tests.gateway_project.processes.ups import LINK, START_SECONDS, Up, living, manage
from tests.servers import wait_until

pytestmark = pytest.mark.slow
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# Counts something that grows during a start.
Count = Callable[[Up], int]


def secrets(up: Up) -> int:
    """Return the number of secrets, those included that are being written."""
    return sum(1 for _ in (up.home / "secrets").glob("*"))


def migrations(up: Up) -> int:
    """Return the number of applied migrations."""
    with closing(sqlite3.connect(f"file:{up.home}/gateway.sqlite3?mode=ro", uri=True)) as database:
        [[number]] = database.execute("SELECT count(*) FROM django_migrations")
        return int(number)


def static_files(up: Up) -> int:
    """Return the number of collected files."""
    return sum(1 for _ in (up.home / "static").rglob("*"))


def lines(up: Up) -> int:
    """Return the number of printed lines."""
    return len(up.output().splitlines())


# The counts, and how much of each a whole start has, at least.
STEPS: tuple[tuple[Count, int], ...] = (
    (secrets, len(SECRET_NAMES)),
    (migrations, 40),
    (migrations, 70),
    (static_files, 700),
    (lines, 4),
    (lines, 8),
)


def reached(up: Up, count: Count) -> int:
    """Return a count; 0 while there is nothing to count."""
    try:
        return count(up)
    except (OSError, sqlite3.OperationalError, AssertionError):
        return 0


def cut_off(up: Up, count: Count, least: int, number: int) -> None:
    """Start the gateway, and send it a signal when it has come so far."""
    if up.process.log.exists():
        up.process.log.unlink()
    up.process.start()
    wait_until(
        lambda: reached(up, count) >= least or bool(LINK.search(up.output())),
        seconds=START_SECONDS,
    )
    family = up.family()
    os.kill(up.process.pid, number)
    up.process.wait(seconds=60)
    wait_until(lambda: not living(family), what="the end of all processes")
    assert "Traceback" not in up.output()


@pytest.mark.parametrize("turn", range(2))
def test_a_start_goes_on_where_another_was_cut_off(turn: int, tmp_path: Path) -> None:
    """By a crash or a signal, between and in its steps: each start finds what the ones before it
    left. In the end there is one owner, who can sign in, and nothing is missing."""
    chance = random.Random(turn)
    up = Up(folder=tmp_path)
    try:
        for count, most in STEPS:
            least, number = chance.randint(1, most), chance.choice(SIGNALS)
            cut_off(up, count, least, number)
        secrets_before = {name: (up.home / "secrets" / name).read_text() for name in SECRET_NAMES}
        assert all(secrets_before.values())
        up.process.log.unlink()
        up.start()
        family = up.family()
        assert up.get("/readyz") == 200
        assert up.get(up.link().removeprefix(up.state().url)) == 200
        found = {name: (up.home / "secrets" / name).read_text() for name in SECRET_NAMES}
        assert found == secrets_before
        script = (
            "from core.models import User; "
            "print([(u.is_owner, u.is_superuser, u.is_active) for u in User.objects.all()])"
        )
        assert (
            manage("shell", "-c", script, env=up.env)
            .stdout.strip()
            .endswith("[(True, True, True)]")
        )
        files = [*(up.home / "static").rglob("*.css")]
        assert files
        assert all(each.stat().st_size for each in files)
    finally:
        up.process.stop(seconds=15)
    wait_until(lambda: not living(family), what="the end of all processes")

"""The Celery workers carry no more than they need."""

import os
import subprocess
import sys

import pytest

from gateway_project.processes import workers

HEAVY = ("rest_framework", "drf_spectacular", "unfold", "django.contrib.admin", "twisted")
LOAD = (
    "import sys; from gateway_project.processes import workers; import django; "
    "app = workers.load(); django.setup(); app.loader.import_default_modules(); "
    f"print([name for name in {HEAVY!r} if name in sys.modules], 'celery.bin' in sys.modules)"
)


def test_a_worker_loads_no_pages_and_no_command_line() -> None:
    """Each of these costs tens of megabytes in every process of every worker."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "gateway_project.settings"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[] False"


def test_the_pool_of_long_is_sized_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes unless told; runs is one light thread."""
    assert workers.options("runs")["pool_cls"] == "threads"
    assert workers.options("runs")["concurrency"] == 1
    assert workers.options("long")["concurrency"] == 2
    monkeypatch.setenv("LONG_WORKERS", "5")
    assert workers.options("long")["concurrency"] == 5
    assert workers.options("long")["max_memory_per_child"] == 600_000

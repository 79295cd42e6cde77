"""The Celery workers carry no more than they need."""

import os
import subprocess
import sys

import pytest
from celery.worker import state

from channels_app.worker import tasks
from gateway_project.processes import workers

PAGES = ("rest_framework", "drf_spectacular", "unfold", "django.contrib.admin", "twisted")
HEAVY = (*PAGES, "pptx", "lxml", "PIL", "pypdfium2", "psycopg")
LOAD = (
    "import sys; from gateway_project.processes import workers; import django; "
    "app = workers.load(); django.setup(); app.loader.import_default_modules(); "
    "from core.tools import registry; assert registry.schemas(); "
    f"print([name for name in {HEAVY!r} if name in sys.modules], 'celery.bin' in sys.modules)"
)


def test_a_worker_loads_no_pages_and_no_command_line() -> None:
    """Nor what draws slides, only to tell a model what it may call, nor the driver of a database
    that is not used. Each of these costs 9 MB or more in every process of every worker."""
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "gateway_project.settings",
            "DATABASE_URL": "sqlite:///:memory:",
        },
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


class Reserved:
    """A request that Celery has taken from the broker."""

    def __init__(self, name: str, worker_pid: int | None) -> None:
        """``worker_pid``: of the pool process that said it has it."""
        self.id, self.name, self.worker_pid = name, "core.long.work", worker_pid


def test_a_wake_up_of_a_crashed_process_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With as many of them as there are processes a worker took nothing more, for ever."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    kept = [Reserved("ours", os.getpid()), Reserved("unsaid", None), Reserved("dead", gone.pid)]
    monkeypatch.setattr(state, "reserved_requests", set(kept))
    ready: list[str] = []
    monkeypatch.setattr(state, "task_ready", lambda request: ready.append(request.id))
    seen: dict[str, float] = {}
    tasks.forget_lost(seen, now=0.0)
    tasks.forget_lost(seen, now=tasks.LOST_SECONDS)
    assert ready == []
    tasks.forget_lost(seen, now=tasks.LOST_SECONDS + 1)
    assert sorted(ready) == ["dead", "unsaid"]
    monkeypatch.setattr(state, "reserved_requests", set())
    tasks.forget_lost(seen, now=1000.0)
    assert seen == {}

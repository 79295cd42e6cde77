"""The Celery workers carry no more than they need."""

import os
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("queues", [("runs",), ("long",), ("runs", "long")])
def test_one_light_thread_takes_the_wake_ups_of_all_queues(queues: tuple[str, ...]) -> None:
    options = workers.options(queues)
    assert (options["pool_cls"], options["concurrency"]) == ("threads", 1)
    assert options["queues"] == list(queues)

"""The Celery workers carry no more than they need."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from celery import Celery

from gateway_project.processes import begin, workers

PAGES = ("rest_framework", "drf_spectacular", "unfold", "django.contrib.admin", "twisted")
FIXED = (signal.SIGKILL, signal.SIGSTOP)
HEAVY = (*PAGES, "pptx", "lxml", "PIL", "pypdfium2", "psycopg")
LOAD = (
    "import sys; from gateway_project.processes import workers; import django; "
    "app = workers.load(); django.setup(); app.loader.import_default_modules(); "
    "from core.tools import registry; assert registry.schemas(); "
    f"print([name for name in {HEAVY!r} if name in sys.modules], 'celery.bin' in sys.modules)"
)


@pytest.mark.unmeasured
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


@pytest.mark.parametrize("given", [(), ("run",), ("--help",), ("runs", "long-tasks")])
def test_a_worker_without_a_queue_of_ours_does_not_start(
    given: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A unit named `latchkey-worker@run` was active, and did nothing."""
    assert workers.main(*given) == 2
    assert capsys.readouterr().err == "Name the queues of this worker: runs, long, or both.\n"


@pytest.fixture
def signals() -> Iterator[None]:
    """Give the handlers of signals back."""
    kept = {each: signal.getsignal(each) for each in signal.valid_signals() if each not in FIXED}
    yield
    for number, handler in kept.items():
        if handler is not None:
            signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_a_worker_stops_at_sighup_as_at_sigterm() -> None:
    """Celery starts itself again, without the end of ours: runs waited for the end of a lease."""
    worker = object.__new__(workers.Worker)
    vars(worker).update(app=Celery(), _isatty=False)
    heard: list[int] = []
    begin.stop_at_hang_up()
    worker.install_platform_tweaks(worker)
    signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    os.kill(os.getpid(), signal.SIGHUP)
    assert heard == [signal.SIGTERM]


@pytest.mark.usefixtures("signals")
def test_a_worker_under_nohup_goes_on_at_sighup() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    begin.stop_at_hang_up()
    worker = object.__new__(workers.Worker)
    vars(worker).update(app=Celery(), _isatty=False)
    worker.install_platform_tweaks(worker)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN

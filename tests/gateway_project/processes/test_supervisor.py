"""The supervisor with small children that die, hang, refuse or dawdle."""

import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from gateway_project import home
from gateway_project.processes import listener, plan, service, supervisor
from gateway_project.processes.service import Service
from gateway_project.processes.supervisor import Supervisor
from tests.gateway_project.processes.ups import living
from tests.servers import wait_until

READY = "from gateway_project.processes import ready; ready.report(); "
STAY = "import signal; signal.pause()"


def python(name: str, code: str, **options: object) -> Service:
    """Return a child that runs ``code``."""
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    return Service(name=name, arguments=[sys.executable, "-c", code], env=env, **options)  # type: ignore[arg-type]


@pytest.fixture
def supervise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Supervisor]]:
    """Yield a supervisor over some children, driven step by step by the test."""
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(service, "BACKOFF_FIRST_SECONDS", 0.01)
    made: list[Supervisor] = []

    def make(*services: Service) -> Supervisor:
        each = Supervisor(services=services, folder=tmp_path, url="http://x", cwd=Path.cwd())
        each.catch_signals()
        made.append(each)
        return each

    saved = {
        number: signal.getsignal(number) for number in (*supervisor.STOP_SIGNALS, signal.SIGCHLD)
    }
    yield make
    for each in made:
        for child in each.services:
            child.finish()
        each.wake.close()
        each.waker.close()
    signal.set_wakeup_fd(-1)
    for number, handler in saved.items():
        signal.signal(number, handler)


def drive(each: Supervisor, until: Callable[[], object]) -> None:
    """Let it work until the condition holds."""

    def step() -> object:
        each.step()
        each.wait(0.01)
        return until()

    wait_until(step, what="what the test waits for")


def test_a_child_starts_only_after_its_dependencies_are_ready(
    supervise: Callable[..., Supervisor], capsys: pytest.CaptureFixture[str]
) -> None:
    """The second says so after the first."""
    first = python("broker", READY + STAY)
    second = python("web", READY + STAY, needs=("broker",))
    each = supervise(second, first)
    each.step()
    assert second.status.state == "waiting"
    drive(each, lambda: second.status.state == "ready")
    lines = capsys.readouterr().out
    assert lines.index("broker    ready") < lines.index("web       ready")


def test_one_that_dies_comes_back_later_each_time(
    supervise: Callable[..., Supervisor], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code and pause are said; the pause doubles."""
    child = python("runs", "raise SystemExit(3)")
    drive(supervise(child), lambda: child.status.restarts >= 3)
    said = capsys.readouterr().out
    assert "runs      ended with exit code 3; starting again in 0.0 s" in said
    assert child.failures == 3


def test_the_pause_grows_to_a_limit_and_is_forgotten_after_a_steady_minute() -> None:
    """0.5, 1, 2 … 30 s, and 0.5 again."""
    child = python("web", "pass")
    child.started_at = time.monotonic()
    assert [child.back_off() for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    child.started_at -= service.STEADY_SECONDS + 1
    assert child.back_off() == 0.5


def test_one_that_never_gets_ready_is_killed_and_tried_again(
    supervise: Callable[..., Supervisor], capsys: pytest.CaptureFixture[str]
) -> None:
    """A first start that hangs does not hang for ever."""
    child = python("model", STAY, start_seconds=0.3)
    drive(supervise(child), lambda: child.status.restarts)
    said = capsys.readouterr().out
    assert "model     not ready after 0 s: killed" in said
    assert "model     was killed by SIGKILL; starting again" in said


def test_the_end_of_the_log_of_a_dead_child_is_shown(
    supervise: Callable[..., Supervisor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that the reason is on the screen."""
    child = python("broker", "import sys; sys.exit('disk full')", log=tmp_path / "log")
    drive(supervise(child), lambda: child.status.restarts)
    assert "broker      disk full" in capsys.readouterr().out


def test_a_probe_decides_where_the_child_cannot_say_it(
    supervise: Callable[..., Supervisor], tmp_path: Path
) -> None:
    """It is asked until it is true; standard input carries what must not be an argument."""
    path = tmp_path / "got"
    code = f"import sys, pathlib; pathlib.Path({str(path)!r}).write_text(sys.stdin.read()); " + STAY
    child = python("broker", code, stdin="the password", probe=path.exists)
    drive(supervise(child), lambda: child.status.state == "ready")
    wait_until(lambda: path.read_text() == "the password")


def test_a_broker_whose_file_was_damaged_by_a_power_cut_starts_without_it(
    supervise: Callable[..., Supervisor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Wake-ups are in the database; without a broker nothing would start. Blocks of zeros are what
    a file system leaves of writes that it had not made.
    """
    monkeypatch.setenv("GATEWAY_HOME", str(tmp_path))
    home.ensure()
    data = tmp_path / "broker" / "appendonlydir"
    data.mkdir(parents=True)
    (data / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
    (data / "appendonly.aof.1.incr.aof").write_bytes(b"\0" * 4096)
    children: list[Service] = []
    plan.add_broker(children, folder=tmp_path, port=listener.free_port())
    (child,) = children
    drive(supervise(child), lambda: child.status.state == "ready")
    said = capsys.readouterr().out
    assert "Bad file format" in said
    assert "broker    cannot use its data: it starts without them" in said
    assert child.status.restarts == 2


def test_stopping_ends_workers_before_the_broker_and_kills_stuck_ones(
    supervise: Callable[..., Supervisor],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One ignores SIGTERM: it is killed after its time, with the child it had, and it is said."""
    monkeypatch.setattr(supervisor, "STOP_STAGES", ((("web",), 0.5), (("broker",), 5.0)))
    stubborn = python(
        "web",
        "import signal, subprocess, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"subprocess.Popen([sys.executable, '-c', {STAY!r}]); " + READY + STAY + ";" + STAY,
    )
    broker = python("broker", READY + STAY)
    each = supervise(stubborn, broker)
    drive(each, lambda: {stubborn.status.state, broker.status.state} == {"ready"})
    family = psutil.Process(stubborn.status.pid).children(recursive=True)
    assert len(family) == 1
    each.stop()
    assert "web       did not stop in time: killed" in capsys.readouterr().out
    assert broker.process is not None
    assert broker.process.returncode == -signal.SIGTERM
    wait_until(lambda: not living(family))


def test_a_full_disk_stops_no_running_process(
    supervise: Callable[..., Supervisor], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The state file and a log cannot be written: it is said, and tried again. A state file that
    cannot be removed is said at the stop.
    """
    shutil.rmtree(tmp_path / "run")
    web = python("web", READY + STAY)
    broker = python("broker", READY + STAY, log=tmp_path / "run" / "log")
    each = supervise(web, broker)
    drive(each, lambda: web.status.state == "ready" and broker.status.restarts >= 2)
    said = capsys.readouterr().out
    assert "up        cannot write" in said
    assert "broker    cannot start" in said
    (tmp_path / "run").mkdir()
    drive(each, lambda: broker.status.state == "ready")
    shutil.rmtree(tmp_path / "run")
    (tmp_path / "run").touch()
    each.stop()
    assert "up        stopped" in capsys.readouterr().out


def test_a_signal_ends_the_loop(supervise: Callable[..., Supervisor]) -> None:
    """SIGTERM wakes it from its sleep at once; a quiet gateway wakes only for signals."""
    child = python("web", READY + STAY)
    each = supervise(child)
    drive(each, lambda: child.status.state == "ready")
    assert each.pause() == supervisor.IDLE_SECONDS
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    each.watch()
    timer.join()
    each.stop()
    assert child.status.state == "stopped"


def test_nohup_stays_nohup(supervise: Callable[..., Supervisor]) -> None:
    """A hang-up that the starter chose to ignore does not stop the gateway."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    supervise()
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_the_address_is_announced_once_and_says_that_the_model_is_loading(
    supervise: Callable[..., Supervisor],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """People need web and worker; the model may follow."""
    monkeypatch.setenv(plan.TOKEN, "token-of-the-owner")
    web = python("web", READY + STAY)
    model = python("model", STAY)
    each = supervise(web, model)
    drive(each, lambda: web.status.state == "ready")
    web.kill()
    drive(each, lambda: web.status.restarts == 1 and web.status.state == "ready")
    said = capsys.readouterr().out
    assert said.count("http://x/sign-in/token-of-the-owner") == 1
    assert "still loading" in said
    assert plan.TOKEN not in os.environ


def test_without_a_token_the_address_is_still_announced(
    supervise: Callable[..., Supervisor], capsys: pytest.CaptureFixture[str]
) -> None:
    """No active owner: no sign-in link."""
    web = python("web", READY + STAY)
    drive(supervise(web), lambda: web.status.state == "ready")
    assert "Latchkey is ready: http://x/" in capsys.readouterr().out

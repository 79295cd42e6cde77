"""`manage.py up`: one command starts the gateway, keeps it alive and stops it."""

import re
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway_project.home import SECRET_NAMES
from gateway_project.processes import model_server, ports, state, supervisor
from tests.gateway_project.processes.ups import LINK, Up, living, manage
from tests.servers import wait_until

pytestmark = pytest.mark.slow
Starter = Callable[..., Up]


def starter(folder: Path) -> Iterator[Starter]:
    """Start gateways under ``folder``; all are stopped in the end."""
    started: list[Up] = []

    def start(**extra: str) -> Up:
        up = Up(folder=folder / str(len(started)), extra=extra)
        started.append(up)
        up.start()
        return up

    yield start
    for up in started:
        up.process.stop(seconds=15)


@pytest.fixture
def start_up(tmp_path: Path) -> Iterator[Starter]:
    """``start_up(NAME="value")`` starts one for this test."""
    yield from starter(tmp_path)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One gateway for the tests that leave it running."""
    for start in starter(tmp_path_factory.mktemp("up")):
        yield start()


def test_it_prints_one_address_and_answers_there(up: Up) -> None:
    """[D8] The process is up, and exactly one sign-in address was printed."""
    assert len(LINK.findall(up.output())) == 1
    assert up.link().startswith(up.state().url)
    assert up.get("/healthz") == 200


def test_each_process_says_that_it_is_ready(up: Up) -> None:
    """One line for each of them."""
    for name in ("broker", "web", "worker"):
        assert re.search(rf"{name} +ready after [\d.]+ s \(pid \d+\)", up.output())


def test_the_first_start_creates_an_owner_without_open_lists(up: Up) -> None:
    """[A1] An empty list of the owner allows no sender, and there is no password to guess."""
    script = (
        "from core.models import User; u = User.objects.get(); "
        "print(u.username, u.is_owner, u.is_staff, u.is_superuser, u.only_listed, "
        "u.has_usable_password())"
    )
    assert "owner True True True True False" in up.manage("shell", "-c", script)


def test_secrets_are_readable_by_their_owner_only(up: Up) -> None:
    """Mode 0600, in folders of mode 0700, and none of them in an argument of any process."""
    folder = up.home / "secrets"
    for private in (up.home, folder):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    arguments = "\n".join(" ".join(process.cmdline()) for process in up.family())
    for name in SECRET_NAMES:
        path = folder / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() not in arguments
    assert up.link().rpartition("/")[2] not in arguments


def test_no_file_of_the_home_is_for_others(up: Up) -> None:
    """Also where the home was made for all to look at: the database has the conversations, and the
    scripts of pages are in ``static``."""
    found = {each: stat.S_IMODE(each.stat().st_mode) for each in up.home.iterdir()}
    assert up.home / "static" in found
    assert up.home / "gateway.sqlite3" in found
    assert [each.name for each, mode in found.items() if mode & 0o077] == []


@pytest.mark.parametrize("name", ["web", "worker", "broker"])
def test_a_killed_child_is_started_again_and_said(up: Up, name: str) -> None:
    """After ``kill -9`` of one process it comes back, and the gateway answers."""
    old = up.kill(name)
    assert up.pid(name) != old
    assert re.search(rf"{name} +was killed by SIGKILL; starting again in", up.output())
    assert up.get("/healthz") == 200


def test_the_broker_comes_back_at_the_same_address(up: Up) -> None:
    """Its port and password are stored, so clients reconnect."""
    ports = (up.home / "run" / "ports.json").read_text()
    up.kill("broker")
    assert (up.home / "run" / "ports.json").read_text() == ports


def test_a_second_one_on_the_same_home_is_refused(up: Up) -> None:
    """The error names the other process and a fix."""
    refused = manage("up", env=up.env)
    assert refused.returncode == 1
    assert f"another gateway (pid {up.process.pid}) runs on GATEWAY_HOME" in refused.stdout
    assert "its own GATEWAY_HOME" in refused.stdout


def test_a_taken_port_is_named_before_anything_starts(up: Up, tmp_path: Path) -> None:
    """Another home on the same port: no child is started."""
    port = up.state().url.rpartition(":")[2]
    env = {**up.env, "GATEWAY_HOME": str(tmp_path / "other"), "GATEWAY_PORT": port}
    refused = manage("up", env=env)
    assert refused.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken" in refused.stdout
    assert "GATEWAY_PORT=" in refused.stdout
    assert "ready" not in refused.stdout


def test_footprint_shows_every_process_and_the_sums(up: Up) -> None:
    """Idle without the model: at most 350 MB of real memory (tests share no pages)."""
    table = up.manage("footprint")
    for name in ("up", "broker", "web", "worker", "without model", "all"):
        assert re.search(rf"^{name} ", table, re.MULTILINE)
    total = re.search(r"^without model +([\d.]+) +([\d.]+)$", table, re.MULTILINE)
    assert total is not None
    assert 50 < float(total[2]) <= 350


def test_a_new_sign_in_link_points_at_the_running_gateway(up: Up) -> None:
    """The port was chosen at start; the command knows it."""
    assert up.manage("sign_in_link").startswith(f"{up.state().url}/sign-in/")


def test_it_stops_at_ctrl_c_starts_again_and_leaves_nothing_when_killed(
    start_up: Starter,
) -> None:
    """Three ends of a life: Ctrl-C within 10 s with nothing left; a second start that keeps
    database, owner and secrets; ``kill -9`` of the supervisor, after which no process and no port
    of it is left."""
    up = start_up()
    key = (up.home / "secrets" / "secret_key").read_text()
    assert_stops(up, signal.SIGINT)
    up.process.log.unlink()
    up.start()
    assert (up.home / "secrets" / "secret_key").read_text() == key
    assert "database  up to date" in up.output()
    assert "collected" not in up.output()
    assert "created user" not in up.output()
    family, url = up.family(), up.state().url
    up.process.send(signal.SIGKILL)
    wait_until(lambda: not living(family), what="the end of all children")
    assert not listens(url)


def assert_stops(up: Up, number: int) -> None:
    """Check that the signal ends everything with exit code 0 and leaves nothing behind.

    The stages of a stop take 9 s in total; the rest of the bound is for a busy machine.
    """
    assert sum(seconds for _names, seconds in supervisor.STOP_STAGES) <= 9
    family, url = up.family(), up.state().url
    up.process.send(number)
    assert up.process.wait(seconds=60) == 0
    assert living(family) == []
    assert state.read(up.home) is None
    assert not listens(url)


def listens(url: str) -> bool:
    """Return whether the port accepts connections."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except ConnectionRefusedError:
        return False
    return True


def test_daphne_and_the_embedded_model_work(start_up: Starter) -> None:
    """``GATEWAY_SERVER=daphne`` is one setting away and stops at SIGTERM as quickly. The model is
    ready when a completion came back; without its key there is a 401."""
    up = start_up(GATEWAY_SERVER="daphne", LLM_PROVIDER="")
    assert "uvloop" not in Path(f"/proc/{up.pid('web')}/maps").read_text()
    assert up.get("/healthz") == 200
    assert re.search(r"model +ready after", up.output())
    assert "set GATEWAY_MODEL_URL" in up.output()
    port = ports.read(up.home)["model"]
    key = (up.home / "secrets" / "model_key").read_text()
    assert model_server.complete(port=port, key=key, seconds=60) == 200
    assert model_server.complete(port=port, key="wrong", seconds=60) == 401
    assert_stops(up, signal.SIGTERM)

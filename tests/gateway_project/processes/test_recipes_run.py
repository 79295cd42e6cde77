"""Commands of the image and of the compose files, run as processes without a container engine.

Only folders and addresses of the containers are replaced. Root runs them as an unprivileged user
if that user can reach Python and the clone, whose files are then read-only, as in the image.
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_project.home import BASE_DIR
from gateway_project.processes import child, listener
from tests import nginx
from tests.gateway_project.processes import recipes
from tests.servers import AS_NOBODY, Postgres, Process, Valkey, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
NAME = "gate.example.net"
BIN = Path(sys.executable).parent
PASSWORD = "a1b2c3d4e5f60718"
SECONDS = 240
# After SIGTERM, in time: uvicorn ends by the signal that it has handled.
ENDED = {0, -signal.SIGTERM}


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Yield a folder that an unprivileged user can enter."""
    with tempfile.TemporaryDirectory(prefix="latchkey-recipes-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@cache
def drops_rights() -> bool:
    """Return whether processes run as a user without rights, which needs root."""
    if os.geteuid() != 0:
        return False
    probe = [*AS_NOBODY, "sh", "-c", f"{BIN}/python -c 'import django, core'"]
    return subprocess.run(probe, cwd=BASE_DIR, capture_output=True, check=False).returncode == 0


def unprivileged(command: Sequence[str]) -> list[str]:
    """Return a command without root's rights, where possible, that ends with this process."""
    program = shutil.which(command[0], path=f"{BIN}:/usr/bin:/bin")
    assert program is not None, command[0]
    found = [program, *command[1:]]
    return [*AS_NOBODY, *found] if drops_rights() else child.command(*found)


def private(folder: Path) -> Path:
    """Return a new folder that belongs to the user of the processes."""
    folder.mkdir(mode=0o700)
    if drops_rights():
        shutil.chown(folder, "nobody", "nogroup")
    return folder


def image_env(home: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a container, with folders and a port of this machine."""
    env = recipes.stages()[1].env | {"HOME": str(home), "GATEWAY_HOME": str(home)}
    env |= {"GATEWAY_HOST": "127.0.0.1", "GATEWAY_PORT": str(listener.free_port())}
    env["PATH"] = env["PATH"].replace("/opt/latchkey/.venv/bin", str(BIN))
    return {**env, **given}


def run(command: Sequence[str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command of a container until its end."""
    return subprocess.run(
        unprivileged(command), cwd=BASE_DIR, env=dict(env), text=True, timeout=SECONDS,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip


def succeeded(command: Sequence[str], env: Mapping[str, str]) -> str:
    """Return the output of a command of a container; a failure raises."""
    done = run(command, env)
    assert done.returncode == 0, done.stdout
    return done.stdout


def is_healthy(check: Sequence[str], env: Mapping[str, str]) -> bool:
    """Return whether the health check of the image is good."""
    return run(check, env).returncode == 0


@contextmanager
def started(command: Sequence[str], env: Mapping[str, str], log: Path) -> Iterator[Process]:
    """Run a command of a container; end it with the image's signal."""
    process = Process(command=unprivileged(command), log=log, cwd=BASE_DIR, env=dict(env))
    process.start()
    try:
        yield process
    finally:
        process.stop(seconds=20)


def key_of(env: Mapping[str, str]) -> str:
    """Return a new key of the owner."""
    code = (
        "from gateway_project import installation; from allowlist import keys; "
        "owner, _ = installation.ensure_owner(); "
        "print(keys.create(name='test', user=owner, scopes=['inbound'])[1])"
    )
    made = succeeded(["python", "manage.py", "shell", "--no-imports", "-c", code], env)
    return next(word for word in made.split() if word.startswith("lk_"))


def test_x62_steps_of_the_build_that_need_no_network(scratch: Path) -> None:
    """The list of parts names what the lock names, with versions; all sources compile."""
    build = recipes.stages()[0]
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(BASE_DIR / name, scratch / name)
    for name in ("gateway_project", "core", "channels_app", "allowlist"):
        shutil.copytree(
            BASE_DIR / name, scratch / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    (scratch / ".venv").symlink_to(BIN.parent)
    env = os.environ | build.env | {"PATH": f"{BIN}:{os.environ['PATH']}", "UV_OFFLINE": "1"}
    env.pop("PYTHONPYCACHEPREFIX", None)
    steps = [each for each in build.all("RUN") if not each.startswith(("pip ", "uv sync"))]
    assert len(steps) == 2
    for step in steps:
        subprocess.run(step, shell=True, cwd=scratch, env=env, check=True, timeout=120)  # noqa: S602
    parts = json.loads((scratch / "sbom.cdx.json").read_text())
    assert (parts["bomFormat"], parts["specVersion"]) == ("CycloneDX", "1.5")
    versions = {each["name"]: each["version"] for each in parts["components"]}
    assert versions["django"].startswith("5.2.")
    assert "pytest" not in versions
    assert list((scratch / "core" / "__pycache__").glob("*.pyc"))


def test_x62_the_image_command_and_its_health_check(scratch: Path) -> None:
    """CMD starts the gateway of compose.yaml, HEALTHCHECK is good while it runs, and only then."""
    image = recipes.stages()[1]
    (service,) = recipes.compose("compose.yaml", {}).values()
    home = private(scratch / "state")
    env = image_env(home, service["environment"] | {"LLM_PROVIDER": "scripted"})
    check = recipes.exec_form(image.one("HEALTHCHECK"))
    assert run(check, env).returncode != 0
    with started(recipes.exec_form(image.all("CMD")[-1]), env, scratch / "up.log") as up:
        up.wait_ready(lambda: "Latchkey is ready" in up.tail(), seconds=SECONDS)
        succeeded(check, env)
    assert up.wait(seconds=1) == 0
    assert run(check, env).returncode != 0


@contextmanager
def servers(folder: Path) -> Iterator[dict[str, str]]:
    """Start PostgreSQL and the broker of the compose file; yield their addresses there and here."""
    postgres = Postgres(folder=folder / "pg", port=listener.free_port(), password=PASSWORD)
    broker = Valkey(folder=folder / "broker", password=PASSWORD)
    try:
        postgres.start()
        broker.start()
        postgres.execute(f"CREATE ROLE latchkey LOGIN PASSWORD '{PASSWORD}'")
        postgres.execute("CREATE DATABASE latchkey OWNER latchkey")
        yield {
            "@db:5432": f"@127.0.0.1:{postgres.port}",
            "@broker:6379": f"@127.0.0.1:{broker.port}",
        }
    finally:
        broker.stop()
        postgres.stop()


def translated(environment: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a service with addresses of this machine."""
    changes = {**addresses, "172.30.57.10": "127.0.0.1"}
    return dict(json.loads(nginx.replaced(json.dumps(environment), changes)))


@contextmanager
def proxied(service: dict[str, Any], folder: Path, ports: Sequence[str]) -> Iterator[int]:
    """Run the step of the service ``proxy`` that makes its file, and nginx; yield its TLS port."""
    step = service["command"][2].split(" && exec ")[0]
    step = step.replace("/etc/nginx/latchkey.conf", str(recipes.DEPLOY / "nginx.conf"))
    made = folder / "made.conf"
    step = step.replace("/etc/nginx/conf.d/latchkey.conf", str(made))
    env = os.environ | service["environment"]
    subprocess.run(["sh", "-c", step], env=env, check=True, timeout=30)
    upstream = "".join(f"server 127.0.0.1:{port};" for port in ports)
    text = nginx.replaced(made.read_text(), {"server web:8000;": upstream})
    plain, tls = listener.free_port(), listener.free_port()
    with nginx.running(folder, text, name=NAME, plain=plain, tls=tls):
        yield tls


def ask_through(port: int, certificate: Path, key: str) -> None:
    """Ask as many times as both web processes get a turn."""
    context = ssl.create_default_context(cafile=str(certificate))
    headers = {"Host": NAME, "Authorization": f"Bearer {key}"}
    with httpx.Client(
        base_url=f"https://127.0.0.1:{port}", headers=headers, verify=context
    ) as client:
        wait_until(lambda: client.get("/readyz").status_code == 200, what="/readyz")
        for number in range(4):
            answer = client.post("/inbound", json={"text": f"question {number}"}, timeout=60)
            assert answer.status_code == 200, answer.text
            assert f"question {number}" in answer.text


def test_x63_services_of_the_scaled_compose_file_answer_as_one(scratch: Path) -> None:
    """One ``prepare``, then as many processes as replicas say; questions through nginx with TLS."""
    variables = dict.fromkeys(
        ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "SECRET_KEY", "GATEWAY_ENCRYPTION_KEYS"), PASSWORD
    ) | {"GATEWAY_NAME": NAME, "TLS_CERTIFICATE": "c", "TLS_KEY": "k", "LLM_PROVIDER": "scripted"}
    variables["SECRET_KEY"] *= 4
    services = recipes.compose("compose.scale.yaml", variables)
    home = private(scratch / "state")
    with ExitStack() as stack:
        addresses = stack.enter_context(servers(scratch))

        def env(name: str) -> dict[str, str]:
            return image_env(home, translated(services[name]["environment"], addresses))

        succeeded(services["prepare"]["command"], env("prepare"))
        webs = []
        processes = []
        for name in ("web", "runs", "long"):
            for number in range(services[name].get("deploy", {"replicas": 1})["replicas"]):
                own = env(name)
                log = scratch / f"{name}{number}.log"
                webs += [own] if name == "web" else []
                processes.append(stack.enter_context(started(services[name]["command"], own, log)))
        assert len(processes) == 5
        check = recipes.exec_form(recipes.stages()[1].one("HEALTHCHECK"))
        for web in webs:
            wait_until(partial(is_healthy, check, web), seconds=60, what="a web process")
        key = key_of(webs[0])
        ports = [web["GATEWAY_PORT"] for web in webs]
        tls = stack.enter_context(proxied(services["proxy"], scratch, ports))
        ask_through(tls, scratch / "proxy.pem", key)
    assert {process.wait(seconds=1) for process in processes} <= ENDED

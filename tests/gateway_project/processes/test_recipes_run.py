"""The image and the compose files, run as processes: the first journey of the README against them.

``containers`` has what differs from an engine. The steps of the build that need no network run as
they are written.
"""

import json
import os
import re
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from gateway_project.home import BASE_DIR
from tests import fake_model, nginx
from tests.fake_model import FakeModel
from tests.gateway_project.processes import recipes
from tests.gateway_project.processes.containers import BIN, Project
from tests.gateway_project.processes.journey import NAME, ask, owner_key, signed_in, variables_of
from tests.servers import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.unmeasured]
WORKER = "from core.models import Run; print('worker', Run.objects.get(state='running').worker)"


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Yield a folder that an unprivileged user can enter."""
    with tempfile.TemporaryDirectory(prefix="latchkey-recipes-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture
def model() -> Iterator[FakeModel]:
    """Yield a model server on loopback."""
    with fake_model.running() as running:
        yield running


@contextmanager
def brought_up(name: str, folder: Path, variables: dict[str, str]) -> Iterator[Project]:
    """Bring a compose file up; the block stops it."""
    project = Project(name, variables, folder)
    try:
        project.up()
        yield project
    finally:
        project.down()


def model_variables(model: FakeModel) -> dict[str, str]:
    """Return what an owner sets for their model."""
    return {
        "GATEWAY_MODEL_URL": model.url,
        "GATEWAY_MODEL_KEY": "sk-of-the-owner",
        "GATEWAY_MODEL": "the-model",
    }


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
    assert len(steps) == 3
    for step in steps:
        subprocess.run(step, shell=True, cwd=scratch, env=env, check=True, timeout=120)  # noqa: S602
    parts = json.loads((scratch / "sbom.cdx.json").read_text())
    assert (parts["bomFormat"], parts["specVersion"]) == ("CycloneDX", "1.5")
    versions = {each["name"]: each["version"] for each in parts["components"]}
    assert versions["django"].startswith("5.2.")
    assert "pytest" not in versions
    assert list((scratch / "core" / "__pycache__").glob("*.pyc"))


def test_x35_the_compose_file_of_one_machine_and_the_first_journey(
    scratch: Path, model: FakeModel
) -> None:
    """CMD and HEALTHCHECK of the image, the link, a key, an answer; SIGTERM ends it in time."""
    name = "compose.yaml"
    with brought_up(name, scratch, model_variables(model)) as project:
        (gateway,) = project.all()
        assert gateway.is_healthy()
        origin = gateway.settings["environment"]["GATEWAY_URL"]
        port = project.published(urlsplit(origin).netloc)
        headers = {"Host": urlsplit(origin).netloc, "Origin": origin}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers) as browser:
            signed_in(project.exec, name, browser)
            ask(browser, owner_key(project.exec, "gateway"), "Is it there?")
        assert set(model.keys) == {"Bearer sk-of-the-owner"}
        assert {each["model"] for each in model.asked} == {"the-model"}
        project.stop()
        assert gateway.run(gateway.check() or []).returncode != 0


def test_x35_the_scaled_compose_file_and_the_first_journey(scratch: Path, model: FakeModel) -> None:
    """Link and answer through nginx with TLS, both web processes, a worker killed in an answer."""
    name = "compose.scale.yaml"
    certificate = nginx.make_certificate(scratch, NAME)
    variables = variables_of(name, certificate) | model_variables(model)
    with brought_up(name, scratch, variables) as project:
        headers = {"Host": NAME, "Origin": f"https://{NAME}"}
        trust = ssl.create_default_context(cafile=str(certificate))
        address = f"https://127.0.0.1:{project.published('443')}"
        with httpx.Client(base_url=address, headers=headers, verify=trust) as browser:
            wait_until(lambda: browser.get("/readyz").status_code != 503, what="/readyz")
            assert browser.get("/readyz").status_code == 200
            chats = signed_in(project.exec, name, browser)
            assert "Strict-Transport-Security" in chats.headers  # the proxy says https
            key = owner_key(project.exec, "web")
            ask(browser, key, "Through the proxy?")
        as_proxy = {**headers, "X-Forwarded-Proto": "https", "Authorization": f"Bearer {key}"}
        one, other = (f"http://127.0.0.1:{each.ports[8000]}" for each in project.containers["web"])
        with (
            httpx.Client(base_url=one, headers=as_proxy) as first,
            httpx.Client(base_url=other, headers=as_proxy) as second,
        ):
            ask(first, key, "Which one?")
            asked_while_its_worker_dies(project, model, first, second)
            assert project.revive() == 1
            ask(second, key, "After all?")
        assert set(model.keys) == {"Bearer sk-of-the-owner"}
        assert all(each.running.is_running() for each in project.lasting())
        assert all(each.is_healthy() for each in project.lasting() if each.check())
        project.stop()


def asked_while_its_worker_dies(
    project: Project, model: FakeModel, one: httpx.Client, other: httpx.Client
) -> None:
    """Ask through one web process and kill the worker that has called the model: the answer comes
    once, and the other web process tells the same."""
    model.gate.clear()
    before = len(model.asked)
    with ThreadPoolExecutor(1) as pool:
        question = {"text": "Who answers?", "stream": True}
        waiting = pool.submit(one.post, "/inbound", json=question, timeout=300)
        try:
            wait_until(lambda: len(model.asked) > before, what="a call of the model")
            shown = project.exec(
                "web", "python", "manage.py", "shell", "--no-imports", "-c", WORKER
            )
            project.kill(shown.split("worker ")[1].split()[0])
        finally:
            model.gate.set()
        answer = waiting.result()
    assert answer.status_code == 200, answer.text
    assert len(model.asked) == before + 2
    assert answer.text.count('"event":"done"') == 1
    assert "Yes." in answer.text
    (run_id,) = set(re.findall(r'"run_id": ?"([^"]+)"', answer.text))
    told = other.get(f"/runs/{run_id}/events", headers={"Last-Event-ID": "0"}, timeout=60)
    assert told.text.count('"event":"done"') == 1

"""The compose files in real containers: ``COMPOSE_ENGINE=docker`` (or podman) brings them up.

It builds the image ``latchkey``, needs the published ports, and takes minutes, so it runs on
request only.
"""

import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from gateway_project.home import BASE_DIR
from tests import nginx
from tests.gateway_project.processes import recipes
from tests.gateway_project.processes.journey import NAME, ask, owner_key, signed_in, variables_of

ENGINE = os.environ.get("COMPOSE_ENGINE", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.unmeasured,
    pytest.mark.skipif(not ENGINE, reason="COMPOSE_ENGINE names no container engine"),
]


class Containers:
    """A compose file in an engine, in a project of its own."""

    def __init__(self, name: str, variables: dict[str, str]) -> None:
        """Take the file; the variables are passed as environment."""
        self.command = [ENGINE, "compose", "-p", "latchkey-test", "-f", str(recipes.DEPLOY / name)]
        self.env = os.environ | variables

    def run(self, *arguments: str) -> str:
        """Run ``compose``; return its output."""
        command = [*self.command, *arguments]
        return subprocess.run(
            command, cwd=BASE_DIR, env=self.env, text=True, stdout=subprocess.PIPE, check=True
        ).stdout

    def exec(self, service: str, *command: str) -> str:
        """Run a command in a container of a service; return its output."""
        return self.run("exec", "-T", service, *command)


@contextmanager
def brought_up(name: str, variables: dict[str, str]) -> Iterator[Containers]:
    """Bring a compose file up until all health checks are good; the block ends with its removal."""
    containers = Containers(name, variables)
    try:
        containers.run("up", "--detach", "--build", "--wait")
        yield containers
    finally:
        containers.run("down", "--volumes")


@pytest.mark.parametrize("name", ["compose.yaml", "compose.scale.yaml"])
def test_x35_containers_and_the_first_journey(name: str, tmp_path: Path) -> None:
    """A link, a key, an answer; one ``runs`` container of two is killed before the next one."""
    certificate = nginx.make_certificate(tmp_path, NAME)
    variables = variables_of(name, certificate) | {"LLM_PROVIDER": "scripted"}
    is_scaled = name == "compose.scale.yaml"
    host, port = (NAME, 443) if is_scaled else ("127.0.0.1:8000", 8000)
    scheme = "https" if is_scaled else "http"
    trust = ssl.create_default_context(cafile=str(certificate))
    headers = {"Host": host, "Origin": f"{scheme}://{host}"}
    address = f"{scheme}://127.0.0.1:{port}"
    with (
        brought_up(name, variables) as containers,
        httpx.Client(base_url=address, headers=headers, verify=trust) as browser,
    ):
        signed_in(containers.exec, name, browser)
        key = owner_key(containers.exec, "web" if is_scaled else "gateway")
        ask(browser, key, "Is it there?", expected="")
        if is_scaled:
            worker = containers.run("ps", "--quiet", "runs").split()[0]
            subprocess.run([ENGINE, "kill", worker], check=True)
            ask(browser, key, "Who answers?", expected="Who answers?")
        containers.run("stop")
        assert "(137)" not in containers.run("ps", "--all", "gateway" if not is_scaled else "web")

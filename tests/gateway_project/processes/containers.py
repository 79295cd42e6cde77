"""Bring up the services of a compose file as processes, where no container engine runs.

Read from the file: services, order and conditions of ``depends_on``, commands, environments,
replicas, health checks, ports, volumes, ``restart`` and ``stop_grace_period``; CMD, ENV and
HEALTHCHECK of our image from its recipe. A container would meet differently:

* The image is this clone with its virtual environment, whose bytecode is compiled as in the image.
  Root runs it as an unprivileged user if that user can reach both; files are then read-only.
* Other images are the programs of this machine, maybe of another version; the role and database
  that the entry point of PostgreSQL makes are made here, when the server runs.
* There is one network, loopback: names of services, with the port that their image listens at,
  become 127.0.0.1 and a free port. So nothing here shows that two services are in one network, and
  a service can reach ports that its container could not.
* A volume, a bind or a tmpfs is a folder; its path in commands and variables is replaced. So
  nothing here shows its owner in a real volume.
* A check is repeated as soon as it has failed, not in its interval; a dead container is started
  again when the test says so (``revive``).
* Keys of ``OF_CONTAINERS`` do nothing here (test_recipes.py compares those of our services); a key
  that is not known fails.
"""

import graphlib
import ipaddress
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from core.lib import child
from gateway_project.home import BASE_DIR
from gateway_project.processes import broker, listener
from tests import nginx
from tests.gateway_project.processes import recipes
from tests.servers import AS_NOBODY, Postgres, Process, wait_until

BIN = Path(sys.executable).parent
SECONDS = 240
# uvicorn ends by the signal that it has handled.
ENDED = {0, -signal.SIGTERM}
OF_CONTAINERS = {
    "build": "the clone is the image",
    "cap_drop": "processes have the rights of their user",
    "init": "this process reaps",
    "extra_hosts": "the machine is this one",
    "networks": "loopback",
    "read_only": "the clone is read-only where another user runs it",
    "security_opt": "processes have the rights of their user",
}
READ = {
    *("command", "depends_on", "deploy", "environment", "healthcheck", "image", "ports"),
    *("restart", "stop_grace_period", "tmpfs", "volumes"),
}
# By image: the ports that it listens at and the signal that stops it.
OURS = "latchkey"
PORTS = {"postgres": [5432], "valkey": [6379], "nginx": [80, 443]}
SIGNALS = {"postgres": signal.SIGINT, "nginx": signal.SIGQUIT}
DEFAULT_GRACE = "10s"


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


def image_env() -> dict[str, str]:
    """Return the environment of our image, with the programs of this machine."""
    env = recipes.stages()[1].env
    env["PATH"] = nginx.replaced(env["PATH"], {"/opt/latchkey/.venv/bin": str(BIN)})
    kept = {name: os.environ[name] for name in ["PYTHONPYCACHEPREFIX"] if name in os.environ}
    return {**env, **kept, "HOME": env["GATEWAY_HOME"]}


def is_open(port: int) -> bool:
    """Return whether something listens at a port."""
    return not listener.is_free(port)


@dataclass
class Container:
    """One replica of a service; ``ports``: of the image, with the free ones that stand in.

    ``paths``: of volumes in the container, with their folders; ``env``: with paths and ports here.
    """

    settings: Mapping[str, Any]
    image: str
    log: Path
    ports: dict[int, int]
    paths: dict[str, Path]
    env: dict[str, str] = field(default_factory=dict)
    process: Process | None = None

    @property
    def running(self) -> Process:
        """Return its process, which was started."""
        assert self.process is not None
        return self.process

    def here(self, text: str) -> str:
        """Return ``text`` with folders of this machine."""
        for path in sorted(self.paths, key=len, reverse=True):
            text = text.replace(path, str(self.paths[path]))
        return text

    def command(self) -> list[str]:
        """Return the command of the service, else of our image."""
        image = recipes.stages()[1]
        command = self.settings.get("command") or recipes.exec_form(image.all("CMD")[-1])
        return [self.here(each) for each in command]

    def check(self) -> list[str] | None:
        """Return the health check of the service, else of our image, if it has one."""
        check = self.settings.get("healthcheck", {})
        if check.get("disable"):
            return None
        if "test" in check:
            kind, *command = check["test"]
            assert kind == "CMD", kind
            return [str(each) for each in command]
        return recipes.exec_form(recipes.stages()[1].one("HEALTHCHECK")) if self.is_ours else None

    @property
    def is_ours(self) -> bool:
        """Return whether its image is built from the recipe."""
        return self.image == OURS

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command in the container until its end."""
        command = unprivileged(command) if self.is_ours else list(command)
        return subprocess.run(
            command, cwd=BASE_DIR if self.is_ours else "/", env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS, check=False,
        )  # fmt: skip

    def is_healthy(self) -> bool:
        """Return whether its health check is good; it is not asked before its port is open."""
        check = self.check()
        assert check is not None
        if self.process is not None and not self.process.is_running():
            raise AssertionError(f"{self.log.stem} ended:\n{self.process.tail()}")
        return all(map(is_open, self.ports.values())) and self.run(check).returncode == 0

    def start(self) -> None:
        """Start the command of the service."""
        if self.image == "postgres":
            self.start_postgres()
            return
        command = self.command()
        if self.is_ours:
            command = unprivileged(command)
        elif self.image == "valkey":
            (port,) = self.ports.values()
            command = [*command, "--port", str(port), "--bind", "127.0.0.1"]
            server = broker.binary()
            assert server is not None
            assert command.pop(0) == server.name
            command = child.command(str(server), *command)
        else:
            program = shutil.which(command[0])
            assert program is not None
            command = child.command(program, *command[1:])
        cwd = BASE_DIR if self.is_ours else self.log.parent
        self.process = Process(command=command, log=self.log, cwd=cwd, env=self.env)
        self.process.start()

    def start_postgres(self) -> None:
        """Start PostgreSQL, with what the entry point of its image makes of its environment."""
        (port,) = self.ports.values()
        folder = self.paths["/var/lib/postgresql/data"] / "server"
        server = Postgres(folder=folder, port=port, password=self.env["POSTGRES_PASSWORD"])
        server.start()
        self.process = server.process
        user = self.env["POSTGRES_USER"]
        server.execute(f"CREATE ROLE {user} SUPERUSER LOGIN PASSWORD '{server.password}'")
        server.execute(f"CREATE DATABASE {self.env['POSTGRES_DB']} OWNER {user}")
        self.env |= {"PATH": str(server.binaries()), "PGPORT": str(port)}

    def send_stop(self) -> None:
        """Send the signal that ``docker compose stop`` sends."""
        if self.process is not None and self.process.is_running():
            assert recipes.stages()[1].one("STOPSIGNAL") == "SIGTERM"
            self.process.send(SIGNALS.get(self.image, signal.SIGTERM))


class Project:
    """A compose file with its containers; ``folder`` holds volumes and logs."""

    def __init__(self, name: str, variables: dict[str, str], folder: Path) -> None:
        """Read the file; a variable that it needs and that is not there raises KeyError."""
        self.folder = folder
        self.file = recipes.compose_file(name, variables)
        self.services: dict[str, Any] = self.file["services"]
        needs = {name: set(each.get("depends_on", ())) for name, each in self.services.items()}
        self.order = list(graphlib.TopologicalSorter(needs).static_order())
        self.addresses = dict(self.fixed_addresses())
        self.containers = {name: self.created(name) for name in self.order}
        for containers in self.containers.values():
            for each in containers:
                each.env = self.environment(each)
        for name in self.order:
            if self.services[name]["image"].partition(":")[0].endswith("/nginx"):
                self.prepare_nginx(self.containers[name][0])

    def created(self, name: str) -> list[Container]:
        """Return the containers of a service, not started."""
        service = self.services[name]
        unknown = service.keys() - READ - OF_CONTAINERS.keys()
        assert not unknown, unknown
        if build := service.get("build"):
            context = (recipes.DEPLOY / build["context"]).resolve()
            assert context == BASE_DIR
            assert (context / build["dockerfile"]).is_file()
        image = service["image"].split("/")[-1].partition(":")[0]
        exposed = PORTS.get(image) or [int(recipes.stages()[1].one("EXPOSE"))]
        paths = dict(self.mounted(service))
        return [
            Container(
                settings=service,
                image=image,
                log=self.folder / f"{name}-{number}.log",
                ports={port: listener.free_port() for port in exposed},
                paths=paths,
            )
            for number in range(service.get("deploy", {"replicas": 1})["replicas"])
        ]

    def mounted(self, service: Mapping[str, Any]) -> list[tuple[str, Path]]:
        """Return the paths of volumes, binds and tmpfs of a service, with their folders."""
        found = []
        for volume in service.get("volumes", ()):
            source, target, *_ = volume.split(":")
            if source.startswith((".", "/")):
                path = (recipes.DEPLOY / source).resolve()
                assert path.exists(), path
            else:
                assert source in self.file["volumes"], source
                path = self.folder / "volumes" / source
                self.private(path)
            found.append((target, path))
        for target in service.get("tmpfs", ()):
            if target != "/tmp":  # noqa: S108 - the container's
                found.append((target, self.folder / "tmpfs" / target.strip("/").replace("/", "-")))
                found[-1][1].mkdir(parents=True)
        return found

    def private(self, folder: Path) -> None:
        """Make the folder of a volume; it belongs to the user of the processes."""
        if folder.exists():
            return
        folder.parent.mkdir(exist_ok=True, mode=0o711)
        folder.mkdir(mode=0o711)  # PostgreSQL never runs as root
        if drops_rights():
            shutil.chown(folder, "nobody", "nogroup")

    def fixed_addresses(self) -> list[tuple[str, str]]:
        """Return the addresses that the file gives to services, with ours.

        One of the range that the engine gives to the others would be in use at times.
        """
        found = []
        for service in self.services.values():
            networks = service.get("networks", {})
            for network, settings in networks.items():
                (pool,) = self.file["networks"][network]["ipam"]["config"]
                address = ipaddress.ip_address(settings["ipv4_address"])
                assert address in ipaddress.ip_network(pool["subnet"])
                assert address not in ipaddress.ip_network(pool["ip_range"])
                assert ipaddress.ip_network(pool["ip_range"]).subnet_of(
                    ipaddress.ip_network(pool["subnet"])  # type: ignore[arg-type]
                )
                found.append((str(address), "127.0.0.1"))
        return found

    def environment(self, container: Container) -> dict[str, str]:
        """Return the environment of a container, with addresses and folders of this machine."""
        given = {
            name: str(each) for name, each in container.settings.get("environment", {}).items()
        }
        if not container.is_ours:
            return {"PATH": os.environ["PATH"], **given}
        trusted = given.get("GATEWAY_TRUSTED_PROXIES", "")
        assert trusted == "" or trusted in self.addresses, trusted
        env = image_env() | given
        for name, value in env.items():
            text = value
            for address, ours in self.addresses.items():
                text = re.sub(rf"(?<![\w.]){re.escape(address)}(?![\w.])", ours, text)
            for service, containers in self.containers.items():
                for port, free in containers[0].ports.items():
                    text = re.sub(rf"(?<![\w.-]){service}:{port}\b", f"127.0.0.1:{free}", text)
            env[name] = container.here(text)
        assert env["GATEWAY_HOST"] == "0.0.0.0"
        port = container.ports[int(env["GATEWAY_PORT"])]
        return env | {"GATEWAY_HOST": "127.0.0.1", "GATEWAY_PORT": str(port)}

    def prepare_nginx(self, container: Container) -> None:
        """Put a program ``nginx`` in the way, which takes conf.d with names and ports resolved."""
        tools = self.folder / "bin"
        tools.mkdir()
        made = self.folder / "resolved.conf"
        changes = {
            "listen 80;": f"listen 127.0.0.1:{container.ports[80]};",
            "listen 443 ssl;": f"listen 127.0.0.1:{container.ports[443]} ssl;",
            **{path: str(folder) for path, folder in container.paths.items()},
        }
        for service, containers in self.containers.items():
            for port in containers[0].ports:
                servers = " ".join(f"server 127.0.0.1:{each.ports[port]};" for each in containers)
                changes[f"server {service}:{port};"] = servers
        script = " ".join(f"-e 's#{old}#{new}#g'" for old, new in changes.items())
        settings = nginx.surrounded(self.folder, f"include {made};").replace("daemon off; ", "")
        (self.folder / "nginx.conf").write_text(settings)
        run = f"exec {nginx.PROGRAM} -c {self.folder}/nginx.conf -e {self.folder}/start.log"
        files = container.paths["/etc/nginx/conf.d"]
        text = f'#!/bin/sh -e\nsed {script} {files}/*.conf > {made}\n{run} "$@"\n'
        (tools / "nginx").write_text(text)
        (tools / "nginx").chmod(0o755)
        container.env["PATH"] = f"{tools}:{container.env['PATH']}"

    def up(self) -> None:
        """Start all services in their order, each when its conditions are met; then wait until all
        health checks are good, as ``up --wait`` does."""
        for name in self.order:
            needs = self.services[name].get("depends_on", {})
            for dependency, settings in needs.items():
                for each in self.containers[dependency]:
                    self.meet(settings["condition"], each)
            for each in self.containers[name]:
                each.start()
        for each in self.all():
            if each.check():
                self.meet("service_healthy", each)

    def meet(self, condition: str, container: Container) -> None:
        """Wait until a condition of ``depends_on`` is met."""
        if condition == "service_completed_successfully":
            code = container.running.wait(seconds=SECONDS)
            assert code == 0, container.running.tail()
        elif condition == "service_healthy":
            assert container.check(), f"{container.log.stem} has no health check"
            wait_until(container.is_healthy, what=lambda: f"health: {container.running.tail()}")
        else:
            assert condition == "service_started", condition

    def all(self) -> list[Container]:
        """Return all containers, in the order of their start."""
        return [each for name in self.order for each in self.containers[name]]

    def lasting(self) -> list[Container]:
        """Return the containers of services that do not end by themselves."""
        return [each for each in self.all() if each.settings["restart"] != "no"]

    def exec(self, service: str, *command: str) -> str:
        """Run a command in the first container of a service; return its output."""
        done = self.containers[service][0].run(command)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def published(self, address: str) -> int:
        """Return the port here for one that the file publishes (``443``, ``127.0.0.1:8000``), once
        it is open."""
        for name in self.order:
            for each in self.services[name].get("ports", ()):
                outside, _, inside = each.rpartition(":")
                if outside == address:
                    container = self.containers[name][0]
                    port = container.ports[int(inside)]
                    container.running.wait_ready(partial(is_open, port))
                    return port
        raise AssertionError(f"{address} is not published")

    def kill(self, worker: str) -> None:
        """Kill the container whose process has this name of a worker, ``HOST:PID:STARTED``."""
        pid = int(worker.split(":")[1])
        (found,) = [each for each in self.all() if each.running.pid == pid]
        found.running.send(signal.SIGKILL)
        found.running.wait()

    def revive(self) -> int:
        """Start dead containers again as ``restart`` says; return how many."""
        dead = [each for each in self.lasting() if not each.running.is_running()]
        for each in dead:
            assert each.settings["restart"] == "unless-stopped"
            each.start()
        return len(dead)

    def stop(self) -> None:
        """Stop all, the dependent ones first; one that needs longer than its time or ends with a
        failure raises."""
        for name in reversed(self.order):
            for each in self.containers[name]:
                each.send_stop()
            for each in self.containers[name]:
                grace = each.settings.get("stop_grace_period", DEFAULT_GRACE)
                code = each.running.wait(seconds=int(grace.removesuffix("s")))
                assert code in ENDED, f"{name}: {code}\n{each.running.tail()}"

    def down(self) -> None:
        """End what still runs, after a failure."""
        for each in reversed(self.all()):
            if each.process is not None and each.process.is_running():
                each.process.stop(seconds=1)

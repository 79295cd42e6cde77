"""Restrict connections to this machine: a mutant of the URL guard could reach others."""

import ipaddress
import sys
from typing import Any


def stay() -> None:
    """Let this process connect only to the loopback and to sockets of files from now on."""
    sys.addaudithook(_refuse)


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        return
    address = arguments[1]
    if isinstance(address, tuple) and not is_loopback(str(address[0])):
        raise PermissionError("mutants stay on this machine")


def is_loopback(host: str) -> bool:
    """Return whether ``host``, an address or a name, is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

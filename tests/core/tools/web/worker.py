"""A ``runs`` worker for which every name is on this machine: ``python -m
tests.core.tools.web.worker``. Addresses that are written in numbers stay refused.
"""

import sys

from celery.signals import worker_init

from core.lib.safe_fetch import Address, Fetcher
from gateway_project.processes import workers

HERE = "127.0.0.1"
ELSEWHERE = "192.0.2.1"


async def resolve(host: str, port: int) -> list[str]:
    """Return this machine for a name."""
    del port
    return [HERE if host.endswith(".example") else ELSEWHERE]


def is_here(address: Address) -> bool:
    """Return whether an address is this machine's, in place of "public"."""
    return str(address) == HERE


def look_here(**_: object) -> None:
    """Let the tool read what is on this machine."""
    from core.tools.web import fetch

    fetch.FETCHER = Fetcher(resolve=resolve, allowed=is_here, ports=None)


if __name__ == "__main__":
    worker_init.connect(look_here)
    sys.exit(workers.main("runs"))

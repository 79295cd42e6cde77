"""The oldest safe versions; older ones have a published vulnerability or break a guarantee.

An audit of packages needs a vulnerability database, which this machine may not reach; a list of
minimum versions works offline.
"""

import sys
from collections.abc import Iterator, Mapping
from importlib import metadata

from django.utils.version import get_version_tuple

from channels_app.ops.doctor.findings import Finding, error

PYTHON = (3, 11)
FLOORS: Mapping[str, str] = {
    "django": "5.2.14",
    "daphne": "4.2.3",
    "channels": "4.3",
    "celery": "5.5",
    "redis": "6",
    "cryptography": "45",
    "uvicorn": "0.35",
    "httptools": "0.6",
    "websockets": "15",
    "aiohttp": "3.13",
    "djangorestframework": "3.16",
    "django-axes": "8.1",
    "nh3": "0.3",
    "python-telegram-bot": "22.8",
    "mcp": "1.23",
    "pypdf": "6",
}


def is_below(version: str, floor: str) -> bool:
    """Return whether ``version`` is older; missing parts are zero, ``rc1`` and the like ignored."""
    mine, wanted = get_version_tuple(version), get_version_tuple(floor)
    width = max(len(mine), len(wanted))
    return mine + (0,) * (width - len(mine)) < wanted + (0,) * (width - len(wanted))


def installed(name: str) -> str:
    """Return the installed version of a package; empty when it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def examine() -> Iterator[Finding]:
    if sys.version_info < PYTHON:
        yield error("version", "Python is older than 3.11.", "Install Python 3.11 or newer.")
    for name, floor in FLOORS.items():
        version = installed(name)
        if version and is_below(version, floor):
            yield error(
                "version",
                f"{name} {version} is older than {floor}, the oldest that is safe.",
                "Run `sh bootstrap.sh run`: it installs what uv.lock names.",
            )

"""``DATABASE_URL``: ``sqlite:///path``, or ``postgres://user:password@host:port/name?sslmode=…``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, unquote, urlsplit, urlunsplit

from django.core.exceptions import ImproperlyConfigured

from core.database import sqlite_options
from gateway_project import environment

# A vanished server (power, network) sends nothing: without these, connections would wait for
# hours, and so would their callers. Seconds, but for the last (milliseconds). The URL overrides
# them; libpq's manual lists all (33.1.2, parameter key words).
PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
SQLITE = "django.db.backends.sqlite3"


def settings_of(url: str, *, home: Path) -> dict[str, Any]:
    """Return Django's database settings for ``url``; ``home``: the default folder of SQLite.

    Raises ImproperlyConfigured, without the password.
    """
    parts = environment.parts_of(url)
    if parts is None:
        message = f"DATABASE_URL has an invalid host or port; {environment.SPELLING}"
        raise ImproperlyConfigured(message)
    if parts.scheme == "sqlite":
        path = unquote(parts.path).lstrip("/")  # three slashes or four: it is absolute
        return sqlite(f"/{path}" if path else str(home / "gateway.sqlite3"))
    if parts.scheme in {"postgres", "postgresql"}:
        return postgresql(parts)
    raise ImproperlyConfigured("DATABASE_URL must start with postgres:// or sqlite://")


def beside(url: str, name: str) -> str:
    """Return the URL of another database of the same server."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{quote(name, safe='')}"))


def of_file(path: Path) -> str:
    """Return the URL of a database of SQLite."""
    return f"sqlite://{quote(str(path))}"


def place(given: Mapping[str, Any]) -> str:
    """Return where a database of Django's settings is, without its user and secrets."""
    return f"{given['HOST']}/{given['NAME']}" if given.get("HOST") else str(given["NAME"])


def advice(given: Mapping[str, Any]) -> str:
    """Return what to look at when a database does not answer."""
    if given["ENGINE"] == SQLITE:
        return f"Check that this user may write {given['NAME']}, the files beside it and its folder"
    return "Check DATABASE_URL and that the server runs"


def sqlite(path: str) -> dict[str, Any]:
    return {
        "ENGINE": SQLITE,
        "NAME": path,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": sqlite_options.INIT_COMMAND,
        },
    }


def postgresql(parts: SplitResult) -> dict[str, Any]:
    """Return the settings of a server; the query of its URL holds libpq's parameters."""
    port = str(parts.port or "")
    own = {
        "user": parts.username,
        "password": parts.password,
        "host": parts.hostname,
        "port": port,
        "dbname": parts.path.lstrip("/"),
    }
    asked = parameters(parts)
    if not own["dbname"] and "service" not in asked:
        raise ImproperlyConfigured("DATABASE_URL names no database: postgres://user@host/name")
    if twice := sorted(name for name in asked if own.get(name)):
        raise ImproperlyConfigured(f"DATABASE_URL has a repeated parameter: {', '.join(twice)}")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(parts.hostname or ""),
        "PORT": port,
        "CONN_MAX_AGE": None,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**PATIENCE, **known(asked)},
    }


def parameters(parts: SplitResult) -> dict[str, str]:
    """Parse the query: ``name=value`` separated by ``&``."""
    pairs = [each.partition("=") for each in parts.query.split("&") if parts.query]
    found = {unquote(name): unquote(value) for name, _, value in pairs}
    if parts.fragment or len(found) < len(pairs) or not all(map(all, found.items())):
        raise ImproperlyConfigured("DATABASE_URL has parameters that are not name=value&…")
    return found


def known(asked: dict[str, str]) -> dict[str, str]:
    """Return ``asked`` if libpq knows all parameters: dropping ``sslmode`` would be worse."""
    from psycopg import pq  # noqa: PLC0415 - 20 MB that SQLite never uses

    names = {each.keyword.decode() for each in pq.Conninfo.get_defaults()}
    unknown = sorted(set(asked) - names)
    if unknown:
        raise ImproperlyConfigured(f"DATABASE_URL has unknown parameters: {', '.join(unknown)}")
    return asked

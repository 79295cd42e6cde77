"""Check settings that expose the gateway more than intended."""

import ipaddress
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import redis
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from channels_app.ops.doctor.findings import Finding, error, warning

SHORTEST_SECRET = 32
FEWEST_CHARACTERS = 10
OTHERS = stat.S_IRWXG | stat.S_IRWXO
NEW_SECRET = "python -c 'import secrets; print(secrets.token_urlsafe(48))'"  # noqa: S105 - a command


def examine() -> Iterator[Finding]:
    """Run every check of settings and files; asks the broker, not the database."""
    yield from switches()
    yield from names()
    yield from keys()
    yield from hosts()
    yield from bindings()
    yield from limits()
    yield from broker()
    yield from modes()


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is reachable from this machine only."""
    if host in {"localhost", ""} or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def switches() -> Iterator[Finding]:
    """Check DEBUG, which shows settings and source on error pages."""
    if settings.DEBUG:
        yield error(
            "debug",
            "DEBUG is on: error pages show source code and settings.",
            "Remove DEBUG from the environment and start again.",
        )


def names() -> Iterator[Finding]:
    """Check for settings under their old names."""
    for old, new in settings.GATEWAY_OLD_NAMES.items():
        yield warning("old-name", f"{old} is now called {new}.", f"Rename it: {old} will go.")


def is_weak(secret: str) -> bool:
    """Return whether a secret is short, a sample, or one repeated character."""
    sample = secret.lower().startswith(("django-insecure", "changeme", "change-me", "secret"))
    return sample or len(secret) < SHORTEST_SECRET or len(set(secret)) < FEWEST_CHARACTERS


def keys() -> Iterator[Finding]:
    """Check the keys that sign cookies and links and that encrypt channel credentials."""
    if is_weak(settings.SECRET_KEY):
        yield error(
            "secret-key",
            "SECRET_KEY is short or a sample: anyone who guesses it can sign in as any user.",
            f"Set a new one ({NEW_SECRET}); `manage.py rotate_secrets --help` says what that ends.",
        )
    if settings.SECRET_KEY in settings.GATEWAY_ENCRYPTION_KEYS:
        yield warning(
            "encryption-key",
            "Channel credentials are encrypted with SECRET_KEY: one leak exposes both.",
            "Put a separate key first in GATEWAY_ENCRYPTION_KEYS, keep SECRET_KEY second, run "
            "`manage.py rotate_secrets`, then take SECRET_KEY out of the list.",
        )
    elif any(is_weak(key) for key in settings.GATEWAY_ENCRYPTION_KEYS):
        yield error(
            "encryption-key",
            "A key in GATEWAY_ENCRYPTION_KEYS is short or a sample.",
            f"Put a new one first ({NEW_SECRET}), run `manage.py rotate_secrets`, then remove the "
            "old one.",
        )
    if settings.METRICS_TOKEN and is_weak(settings.METRICS_TOKEN):
        yield warning("metrics-token", "METRICS_TOKEN is short.", f"Set a new one ({NEW_SECRET}).")


def hosts() -> Iterator[Finding]:
    """Check ALLOWED_HOSTS: accepting any name allows DNS rebinding and forged links."""
    if "*" in settings.ALLOWED_HOSTS:
        yield error(
            "hosts",
            "ALLOWED_HOSTS contains *: any host name is accepted, which allows DNS rebinding and "
            "forged links.",
            "List the host names in use, or leave it out: the host of GATEWAY_URL is allowed.",
        )
    wide = [host for host in settings.ALLOWED_HOSTS if host.startswith(".")]
    if wide:
        yield warning(
            "hosts",
            f"ALLOWED_HOSTS lets every name below {', '.join(wide)} be answered.",
            "List the host names in use.",
        )


def bindings() -> Iterator[Finding]:
    """Check which addresses the port is bound to, and TLS."""
    url_host = urlsplit(settings.GATEWAY_URL).hostname or ""
    behind_tls = settings.GATEWAY_HTTPS
    public = not is_loopback(settings.GATEWAY_HOST)
    if not behind_tls and (public or not is_loopback(url_host)):
        yield error(
            "plain-http",
            "The gateway is reachable without encryption: passwords, keys and conversations can "
            "be read in transit.",
            "Put a proxy with TLS in front (docs/deploy.md) and set GATEWAY_URL=https://…",
        )
    yield from reach()
    if behind_tls and public:
        yield warning(
            "public-bind",
            f"The port is bound to {settings.GATEWAY_HOST}: it can be reached without the proxy.",
            "Set GATEWAY_HOST=127.0.0.1, or allow only the proxy in a firewall.",
        )
    if public and settings.GATEWAY_SERVER == "daphne":
        yield warning(
            "daphne",
            "Daphne is bound to a public address: it reads request bodies of any size into memory.",
            "Set GATEWAY_SERVER=uvicorn, or make it reachable for the proxy only.",
        )


def reach() -> Iterator[Finding]:
    """Check that browsers reach the pages, and how; a web process logs these when it starts, since
    the dashboard is such a page.
    """
    url = urlsplit(settings.GATEWAY_URL)
    is_own_port = not settings.GATEWAY_HTTPS and (url.port or 80) == settings.GATEWAY_PORT
    is_here = is_loopback(url.hostname or "")
    is_bound_here = is_loopback(settings.GATEWAY_HOST)
    has_proxy = settings.GATEWAY_HTTPS or settings.GATEWAY_TRUSTED_PROXIES
    is_any_port = not settings.GATEWAY_PORT  # `up` knows which
    if is_bound_here and not is_here and is_own_port:
        yield warning(
            "unreached",
            f"GATEWAY_URL is {settings.GATEWAY_URL}, but only this machine reaches the port: it is "
            f"bound to {settings.GATEWAY_HOST}.",
            "Set GATEWAY_HOST=0.0.0.0 (::, for IPv6), or put a proxy in front (docs/deploy.md).",
        )
    elif is_bound_here and is_here and not (is_own_port or is_any_port or has_proxy):
        yield warning(
            "unreached",
            f"GATEWAY_URL is {settings.GATEWAY_URL}, which binds nothing: the gateway listens on "
            f"port {settings.GATEWAY_PORT}.",
            "Set GATEWAY_PORT to the port of GATEWAY_URL, unless a proxy or a tunnel has that.",
        )
    if settings.GATEWAY_HTTPS and not settings.GATEWAY_TRUSTED_PROXIES:
        yield error(
            "proxy",
            "GATEWAY_URL is https, but no trusted proxy is set: pages redirect endlessly.",
            "Set GATEWAY_TRUSTED_PROXIES to the address the proxy connects from (127.0.0.1).",
        )
    if "*" in settings.GATEWAY_TRUSTED_PROXIES:
        yield error(
            "proxy",
            "GATEWAY_TRUSTED_PROXIES holds *: any client can forge its address.",
            "Set the proxy's address.",
        )


def limits() -> Iterator[Finding]:
    for name in ("RATE_PER_MINUTE_USER", "RATE_PER_MINUTE_KEY", "RATE_PER_MINUTE_ADDRESS"):
        if not getattr(settings, name):
            yield warning(
                "rate-limit", f"{name} is 0: requests are not rate-limited.", f"Unset {name}."
            )


def broker() -> Iterator[Finding]:
    """Check that the broker needs a password: without one its queues can be read and written.

    The embedded one has one; before its first start the usual port is that of another program.
    """
    if settings.REDIS_IS_EMBEDDED:
        return
    parts = urlsplit(settings.REDIS_URL)
    fix = "Give it a password (requirepass) and put that into REDIS_URL; bind it to 127.0.0.1."
    if answers_without_password(parts.hostname or "127.0.0.1", parts.port or 6379, parts.scheme):
        yield error("broker-password", "The broker answers without a password.", fix)
    elif not parts.password:
        level = warning if is_loopback(parts.hostname or "") else error
        yield level("broker-password", "REDIS_URL holds no password.", fix)


def answers_without_password(host: str, port: int, scheme: str) -> bool:
    """Return whether the broker executes a command without a password."""
    client = redis.Redis(
        host=host,
        port=port,
        ssl=scheme == "rediss",
        ssl_cert_reqs="none",  # the probe sends no secret, so any certificate will do
        socket_timeout=1,
        socket_connect_timeout=1,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        return bool(client.ping())
    except (redis.RedisError, OSError):
        return False
    finally:
        client.close()


def modes() -> Iterator[Finding]:
    """Check for files that other users of the machine can read."""
    home = Path(settings.GATEWAY_HOME)
    folder = home / "secrets"
    for path in (home, folder, *sorted(folder.glob("*"))):
        found = mode_of(path)
        if found is not None and found & OTHERS:
            level = warning if path == home else error
            yield level(
                "file-mode",
                f"Other users of this machine may open {path} (mode {found:04o}).",
                f"chmod go-rwx {shlex.quote(str(path))}",
            )
    database = database_file()
    if database is not None:
        yield from readable_database(database)


def database_file() -> Path | None:
    """Return the path of an SQLite database."""
    database = settings.DATABASES["default"]
    path = Path(str(database["NAME"]))
    return path if "sqlite3" in database["ENGINE"] and path.is_absolute() else None


def readable_database(path: Path) -> Iterator[Finding]:
    """Check the mode of the database file and of its folder."""
    own, around = mode_of(path), mode_of(path.parent)
    if own is not None and around is not None and own & OTHERS and around & OTHERS:
        yield error(
            "file-mode",
            f"Other users of this machine may read the database {path}.",
            f"chmod go-rwx {shlex.quote(str(path))}* or its folder",
        )


def mode_of(path: Path) -> int | None:
    """Return the permission bits of ``path``; None when it does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None

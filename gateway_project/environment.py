"""Settings from the environment: an invalid value stops the start and names the variable.

Every variable may be given as ``NAME`` or, for secrets in files, as ``NAME_FILE`` (a path).
"""

import logging
import os
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import SplitResult, parse_qs, urlsplit, urlunsplit
from zoneinfo import ZoneInfo

from django.core.exceptions import ImproperlyConfigured

SPELLING = "write #, /, ? and [ in a password as %23, %2F, %3F and %5B"
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
USUAL_PORTS = {"http": 80, "https": 443}
# Of the settings that are times: a century. A time that is much longer leads to no date.
MOST = {
    "_DAYS": 36_500,
    "_HOURS": 876_000,
    "_MINUTES": 52_560_000,
    "_SECONDS": 3_153_600_000,
    "_MILLISECONDS": 3_153_600_000_000,
}


def text(name: str, default: str = "", *, exact: bool = False) -> str:
    """Return the value of ``name``, or the content of the file ``name_FILE``, or ``default``;
    without the blanks around it, as the line end of a secret of Kubernetes. ``exact``: with those
    of the variable, which always were a part of what it encrypts.
    """
    path = os.environ.get(f"{name}_FILE", "").strip()
    if path:
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            message = f"{name}_FILE names a file that cannot be read: {why}"
            raise ImproperlyConfigured(message) from error
    value = os.environ.get(name, "")
    return (value if exact else value.strip()) or default


SYSTEM_ZONES = Path("/usr/share/zoneinfo")
# New name -> the one that is still read, for a while: `llm` and other programs read it too.
OLD_NAMES = {
    "GATEWAY_MODEL": "LLM_MODEL",
    "GATEWAY_MODEL_URL": "LLM_BASE_URL",
    "GATEWAY_MODEL_KEY": "LLM_API_KEY",
}
CALL = "/chat/completions"


def renamed(name: str, default: str = "") -> str:
    """Return the value of ``name``, else of its old name."""
    return text(name) or text(OLD_NAMES[name], default)


def server(name: str) -> str:
    """Return the address of a server of OpenAI's API, without the slash at its end; empty for none.

    The value is in no message: it may hold a password.
    """
    name = name if text(name) else OLD_NAMES.get(name, name)  # errors name the one that is set
    value = text(name).rstrip("/")
    parts = parts_of(value)
    if value and (parts is None or parts.scheme not in {"http", "https"} or not parts.hostname):
        message = "an address like http://127.0.0.1:11434/v1, without quotes"
        raise ImproperlyConfigured(f"{name} must be {message}")
    if value.endswith(CALL):
        raise ImproperlyConfigured(f"{name} must be without {CALL}, which the gateway adds")
    return value


def old_names() -> dict[str, str]:
    """Return the old names in use, each with its new one."""
    return {old: new for new, old in OLD_NAMES.items() if text(old) and not text(new)}


def number(name: str, default: int, *, minimum: int = 0, maximum: int | None = None) -> int:
    """Return a whole number from ``minimum`` to ``maximum``; of a time, at most a century."""
    value = text(name, str(default))
    if not value.isascii() or not value.isdigit() or int(value) < minimum:
        raise ImproperlyConfigured(
            f"{name} must be a whole number of at least {minimum}: {value!r}"
        )
    if maximum is not None and int(value) > maximum:
        raise ImproperlyConfigured(f"{name} must be at most {maximum}: {value!r}")
    most = next((MOST[unit] for unit in MOST if name.endswith(unit)), int(value))
    return min(int(value), most)


def port(name: str, default: int) -> int:
    """Return a TCP port; 0 is any free one."""
    return number(name, default, maximum=65_535)


def switch(name: str, *, default: bool) -> bool:
    """Return a boolean: 1/true/yes/on or 0/false/no/off."""
    value = text(name, "1" if default else "0").lower()
    if value in TRUE_WORDS:
        return True
    if value in FALSE_WORDS:
        return False
    raise ImproperlyConfigured(f"{name} must be on or off: {value!r}")


def origin(name: str, default: str) -> str:
    """Return the address of a site without a path, as browsers write it: ``https://host`` or
    ``http://host:port``, in small letters and without the usual port.

    Under a path every link, redirect and cookie would be wrong: such an address stops the start.
    """
    value = text(name, default).rstrip("/")
    parts = parts_of(value)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ImproperlyConfigured(f"{name} must be like https://chat.example.org: {value!r}")
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        raise ImproperlyConfigured(
            f"{name} must be an address without a path or a user in it: {value!r}. Latchkey "
            "needs the root of a host name of its own, like https://chat.example.org"
        )
    usual = parts.port in {None, USUAL_PORTS[parts.scheme]}
    return f"{parts.scheme}://{host_of(value)}" + ("" if usual else f":{parts.port}")


def parts_of(address: str) -> SplitResult | None:
    """Return the parts of an address, or None for an invalid host or port."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return None
    is_cut = bool(parts.netloc) and "@" in parts.path + parts.fragment
    return None if is_cut else parts


def host_of(address: str) -> str:
    """Return the host of an address as requests name it: an address of IPv6 in brackets, a name in
    ASCII. Raises ImproperlyConfigured for a name that has no such form.
    """
    host = urlsplit(address).hostname or ""
    if host.isascii():
        return f"[{host}]" if ":" in host else host
    import idna  # noqa: PLC0415 - the supervisor does without

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except idna.IDNAError as error:
        raise ImproperlyConfigured(f"{host!r} cannot be the name of a host: {error}") from error


def words(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list without empty parts."""
    return [part.strip() for part in text(name, default).split(",") if part.strip()]


def hosts(name: str, default: str) -> list[str]:
    """Return a list of names of hosts as they are compared with those of requests: in small letters
    and without a port. ``*`` is any host, ``.example.org`` that name and all below it.
    """
    return [host_in(each, name) for each in words(name, default)]


def host_in(given: str, name: str) -> str:
    """Return the host that an entry of the setting ``name`` means, also as an address with its
    port. Raises ImproperlyConfigured for one that means none.
    """
    entry = given.removeprefix("*")
    if not entry:
        return given
    host = entry.removeprefix(".")
    if host.count(":") > 1 and not host.startswith("[") and "://" not in host:
        host = f"[{host}]"
    address = host if "://" in host else f"//{host}"
    parts = parts_of(address)
    if parts is None or not parts.hostname or parts.path.strip("/") or "@" in parts.netloc:
        raise ImproperlyConfigured(f"{name} must be names like chat.example.org: {given!r}")
    below = "." if entry.startswith(".") else ""
    return below + host_of(address).removesuffix(".")


def proxies(name: str) -> list[str]:
    """Return a list of addresses and networks; ``*`` is any. The name of a host would be compared
    with addresses, and never be one. Of a network any address may be given, as 10.0.0.5/24.
    """
    found = []
    for each in words(name):
        try:
            network = str(ip_network(each, strict=False)) if each != "*" else each
        except ValueError as error:
            message = (
                f"{name} must be addresses or networks, like 10.0.0.5 or 10.0.0.0/24: {each!r}"
            )
            raise ImproperlyConfigured(message) from error
        found.append(network if "/" in each else each)
    return found


def choice(name: str, default: str, *others: str) -> str:
    """Return one of ``default`` and ``others``."""
    value = text(name, default)
    allowed = sorted({default, *others})
    if value not in allowed:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(allowed)}: {value!r}")
    return value


def level(name: str, default: str) -> str:
    """Return the name of a level of the log, in capital letters."""
    value, known = text(name, default).upper(), logging.getLevelNamesMapping()
    if value not in known:
        message = f"{name} must be one of {', '.join(sorted(known))}: {value!r}"
        raise ImproperlyConfigured(message)
    return value


def zone(name: str, default: str) -> str:
    """Return the name of a time zone that this machine knows."""
    value = text(name, default)
    try:
        ZoneInfo(value)
        # Django asks the system alone; Debian has old names, like US/Pacific, in tzdata-legacy.
        if SYSTEM_ZONES.exists() and not SYSTEM_ZONES.joinpath(*value.split("/")).exists():
            raise LookupError(value)
    except (LookupError, ValueError, OSError) as error:  # an OSError for the name of a folder
        message = f"{name} must be the name of a time zone, like Europe/Berlin: {value!r}"
        raise ImproperlyConfigured(message) from error
    return value


def broker(name: str, default: Callable[[], str], *, in_production: bool) -> str:
    """Return the address of a broker; in production, one on another machine needs a password.

    ``default`` is called only without a value. The certificate of ``rediss`` is verified unless the
    address says otherwise: Celery would not, and still send the password.
    """
    value = text(name) or default()
    parts = parts_of(value)
    if parts is None or parts.scheme not in {"redis", "rediss"}:
        raise ImproperlyConfigured(f"{name} must be like redis://:PASSWORD@host:6379/0; {SPELLING}")
    elsewhere = parts.hostname not in {None, "localhost", "127.0.0.1", "::1"}
    if in_production and elsewhere and not parts.password:
        raise ImproperlyConfigured(
            f"{name} names a broker on another machine without a password: give it one "
            "(requirepass) and write redis://:PASSWORD@host:port/0"
        )
    asked = parse_qs(parts.query)
    if parts.scheme == "rediss" and "ssl_cert_reqs" not in asked:
        query = "&".join(each for each in (parts.query, "ssl_cert_reqs=required") if each)
        return urlunsplit(parts._replace(query=query))
    return value

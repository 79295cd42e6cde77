"""Troubles of the installation, each with a name and a text: disk, queues, and what ends soon."""

import logging
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from django.conf import settings
from django.db.models import DateTimeField, F, Q, QuerySet
from django.utils.translation import gettext, gettext_noop

from allowlist.models import ApiKey
from core.conversations import jobs, runs
from core.database.queries import Instances, Param
from core.lib import encryption
from core.lib.text import one_line
from core.models import Alert, Installation, McpConnection, WorkerHeartbeat

logger = logging.getLogger(__name__)

DISK, QUEUE, CERTIFICATE, KEY, CONNECTION = "disk", "queue", "certificate", "key", "connection"
KINDS = (DISK, QUEUE, CERTIFICATE, KEY, CONNECTION)
# Parts of the disk that are free: below the first it begins, from the second on it is over.
LOW, ENOUGH = 0.10, 0.12
GIGABYTE = 1_000_000_000
# A value that is bad for a moment only is not told.
LASTING = timedelta(minutes=1)
CERTIFICATE_DAYS, RIGHT_DAYS = timedelta(days=14), timedelta(days=7)
# Of what cannot be looked at now: it is neither told nor over.
UNSEEN = timedelta.max
# Those that live for less are renewed by programs, or were made for a moment.
SHORT_LIVED = timedelta(days=14)
QUEUES: dict[str, tuple[Callable[[], datetime | None], str, str]] = {
    "runs": (
        runs.waiting_since,
        gettext_noop(
            "Messages wait for a worker since {when} UTC. Look whether the workers run; more of "
            "them answer more at once."
        ),
        gettext_noop("Messages do not wait for a worker any more."),
    ),
    "long": (
        jobs.waiting_since,
        gettext_noop(
            "Long tasks wait for a worker since {when} UTC. Look whether the workers run; more of "
            "them do more at once."
        ),
        gettext_noop("Long tasks do not wait for a worker any more."),
    ),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A present trouble. The owner gets ``text`` once it has lasted for ``lasting``."""

    name: str
    text: Callable[[], str]
    lasting: timedelta = timedelta(0)


def troubles(*, now: datetime, known: set[str]) -> Iterator[Trouble]:
    """Yield all troubles of now. ``known``: the names of those that have begun."""
    yield from of_disk(known)
    yield from of_queues(now, known)
    yield from of_certificate(now)
    soon = now + RIGHT_DAYS
    for key in ENDING_KEYS.all(now=now, soon=soon):
        yield Trouble(f"{KEY}:{key.pk}", partial(key_text, key))
    for row in not_renewed(ENDING_CONNECTIONS.all(now=now, soon=soon)):
        yield Trouble(f"{CONNECTION}:{row.pk}", partial(connection_text, row))


def is_looked_at_here(row: Alert) -> bool:
    """Return whether this machine finds the trouble of a row if it lasts."""
    kind, _, machine = row.name.partition(":")
    return kind != DISK or machine == here()


def is_of_gone_machine(row: Alert) -> bool:
    """Return whether the machine of a row has no worker any more."""
    machine = row.name.partition(":")[2]
    return not WorkerHeartbeat.objects.filter(name__startswith=f"{machine}:").exists()


def over_text(name: str, *, now: datetime) -> str:
    """Return the notice that a trouble is over; empty if its key or account is gone, too."""
    kind, _, what = name.partition(":")
    if kind == DISK:
        return gettext("The disk of {machine} has enough space again.").format(machine=what)
    if kind == QUEUE:
        return gettext(QUEUES[what][2])
    if kind == CERTIFICATE:
        said = gettext("The TLS certificate of {address} was renewed.")
        return said.format(address=settings.GATEWAY_URL) if settings.GATEWAY_HTTPS else ""
    valid = Q(expires_at=None) | Q(expires_at__gt=now + RIGHT_DAYS)
    if kind == KEY:
        for key in ApiKey.objects.filter(valid, pk=int(what), revoked_at=None):
            said = gettext("The API key {name} is valid for longer.")
            return said.format(name=one_line(key.name, 100))
    if kind == CONNECTION:
        for row in connections().filter(valid, pk=int(what)):
            said = gettext("The account at the MCP server {server} ({person}) is valid for longer.")
            return said.format(person=person_of(row), server=str(row.server))
    return ""


def here() -> str:
    """Return the name of this machine."""
    return socket.gethostname()[:80]


def of_disk(known: set[str]) -> Iterator[Trouble]:
    """Yield the trouble of this disk; a known one lasts while the folder cannot be examined."""
    name = f"{DISK}:{here()}"
    try:
        found = shutil.disk_usage(settings.GATEWAY_HOME)
    except OSError as error:
        logger.warning("the disk of %s cannot be looked at: %s", settings.GATEWAY_HOME, error)
        if name in known:
            yield Trouble(name, str, UNSEEN)
        return
    if found.free < found.total * (ENOUGH if name in known else LOW):
        yield Trouble(name, partial(disk_text, found.free, found.total), LASTING)


def disk_text(free: int, total: int) -> str:
    """Return the notice of a disk that is nearly full."""
    said = gettext(
        "The disk of {machine} is nearly full: {free} of {total} GB are free. Messages are refused "
        "when it is full: remove files, or make it larger."
    )
    gigabytes = [f"{each / GIGABYTE:.1f}" for each in (free, total)]
    return said.format(machine=here(), free=gigabytes[0], total=gigabytes[1])


def of_queues(now: datetime, known: set[str]) -> Iterator[Trouble]:
    """Yield the queues in which something waits for too long."""
    most = timedelta(minutes=settings.QUEUE_ALERT_MINUTES)
    for queue, (waiting_since, text, _) in QUEUES.items():
        name, since = f"{QUEUE}:{queue}", waiting_since()
        if since is not None and now - since > (most / 2 if name in known else most):
            yield Trouble(name, partial(told_at_time, text, since), LASTING)


def told_at_time(text: str, when: datetime) -> str:
    """Return a text with a time."""
    return gettext(text).format(when=clock(when))


ENDING_CERTIFICATE = Instances(
    lambda: Installation.objects.filter(certificate_ends_at__lt=Param("soon", DateTimeField()))
)


def of_certificate(now: datetime) -> Iterator[Trouble]:
    """Yield the trouble of the certificate of GATEWAY_URL, as it was when it was last read."""
    if not settings.GATEWAY_HTTPS:
        return
    for row in ENDING_CERTIFICATE.all(soon=now + CERTIFICATE_DAYS):
        yield Trouble(CERTIFICATE, partial(certificate_text, row.certificate_ends_at))


def certificate_text(end: datetime | None) -> str:
    """Return the notice of a certificate that ends."""
    said = gettext(
        "The TLS certificate of {address} is valid until {when} UTC. Renew it: afterwards browsers "
        "and platforms refuse the address."
    )
    return said.format(address=settings.GATEWAY_URL, when=clock(end))


def ending() -> Q:
    """Return the condition that a right ends after ``now``, before ``soon``."""
    now, soon = Param("now", DateTimeField()), Param("soon", DateTimeField())
    return Q(expires_at__gt=now, expires_at__lte=soon)


def ending_keys() -> QuerySet[ApiKey]:
    """Return the keys of owners and of bridges that end soon."""
    theirs = Q(user__is_owner=True, user__is_active=True) | Q(account__enabled=True)
    rows = ApiKey.objects.filter(theirs, ending(), revoked_at=None)
    return rows.filter(expires_at__gt=F("created_at") + SHORT_LIVED).order_by("pk")


def key_text(key: ApiKey) -> str:
    """Return the notice of a key that ends."""
    said = gettext("The API key {name} is valid until {when} UTC. Make a new one for its programs.")
    return said.format(name=one_line(key.name, 100), when=clock(key.expires_at))


def connections() -> QuerySet[McpConnection]:
    """Return the accounts of the gateway and of owners at MCP servers."""
    rows = McpConnection.objects.select_related("server", "user").exclude(secrets="")
    return rows.filter(Q(user=None) | Q(user__is_owner=True, user__is_active=True))


def ending_connections() -> QuerySet[McpConnection]:
    """Return those that end soon."""
    rows = connections().filter(ending(), expires_at__gt=F("connected_at") + SHORT_LIVED)
    return rows.order_by("pk")


ENDING_KEYS, ENDING_CONNECTIONS = Instances(ending_keys), Instances(ending_connections)


def not_renewed(rows: Iterable[McpConnection]) -> Iterator[McpConnection]:
    """Yield those that are not renewed by the gateway itself."""
    for row in rows:
        try:
            kept = encryption.decrypt(row.secrets)
        except encryption.DecryptError:
            continue  # told where it is used
        if not kept.get("refresh_token"):
            yield row


def connection_text(row: McpConnection) -> str:
    """Return the notice of an account that ends."""
    said = gettext(
        "The account at the MCP server {server} ({person}) is valid until {when} UTC. Sign in "
        "there again."
    )
    return said.format(person=person_of(row), server=str(row.server), when=clock(row.expires_at))


def person_of(row: McpConnection) -> str:
    """Return for whom an account is."""
    return one_line(str(row.user), 100) if row.user is not None else gettext("the gateway")


def clock(when: datetime | None) -> str:
    """Return a time for a notice."""
    return f"{when:%Y-%m-%d %H:%M}" if when is not None else "–"

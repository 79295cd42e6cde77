"""Check the database's contents: open lists, failing channels, failed deliveries."""

import shlex
from collections.abc import Generator, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from allowlist.permissions import open_kinds
from allowlist.unfinished_forgetting import unfinished
from channels_app import registry as channels_registry
from channels_app.ops import health, restored
from channels_app.ops.doctor.findings import Finding, error, warning
from channels_app.owner import backups, outages
from core.conversations import runs
from core.conversations.schedules import reports
from core.database import schema_version, text_search
from core.files.storage import misplaced
from core.jobs_worker import skills
from core.lib import encryption
from core.lib.installed import Installed
from core.lib.text import counted, visible_line
from core.models import (
    Backup,
    ChannelAccount,
    Delivery,
    InboundMessage,
    Installation,
    McpServer,
    ModelCircuit,
    ModelProvider,
    ModelTrouble,
    SearchProvider,
    User,
)
from core.plugins import registry as plugins
from core.providers import circuits
from core.providers import health as model_health
from core.providers.failures import KINDS, OWN
from core.tools import registry

FREE = "Free disk space, or memory, for the broker: it goes on by itself."
START = "Start the missing process (`manage.py up`, docs/deploy.md); its log says why."
SEND_ON = (
    "Admin, Accounts: “Test the connection” and fix what it reports; then they are sent. While the "
    "platform itself does not answer, they are tried again by themselves."
)
OVERDUE = timedelta(minutes=1)
# So long forgetting a person may take.
FORGETTING_TIME = timedelta(hours=1)


def people() -> Iterator[Finding]:
    """Check for open lists and for a missing owner."""
    for user, kinds in open_kinds().items():
        level = error if user.is_owner else warning
        danger = " This user is an owner." if user.is_owner else ""
        yield level(
            "open-list",
            f"{user} is open to everyone on {', '.join(kinds)}: any unknown sender is accepted "
            f"as this user.{danger}",
            "Admin, People: tick “only listed identities”, or list the allowed identities.",
        )
    if not User.objects.filter(is_owner=True, is_active=True).exists():
        yield error(
            "no-owner",
            "There is no active owner: unknown requests are not reported and cannot be approved.",
            "Run `manage.py sign_in_link`: on a new installation it creates the owner.",
        )


def forgetting(now: datetime) -> Iterator[Finding]:
    """Check for people who were forgotten in part only."""
    begun = unfinished(before=now - FORGETTING_TIME)
    there = dict(User.objects.filter(pk__in=begun).values_list("pk", "username"))
    for number in begun:
        whose = f"of {visible_line(there[number])}" if number in there else f"of person {number}"
        left = "data is left" if number in there else "traces are left in files of the database"
        yield warning(
            "forgetting",
            f"The removal {whose} was cut off: {left}.",
            f"Run `manage.py person forget {shlex.quote(there.get(number, 'NAME'))}`: it goes on.",
        )


def channels() -> Iterator[Finding]:
    """Check for failing accounts, and for credentials that cannot be decrypted."""
    for row in ChannelAccount.objects.order_by("id"):
        name = f"The credentials of {row}"
        can_open = yield from sealed(row.secrets, name, are="are", instead=", or enter them again")
        if can_open and row.enabled and row.status == "error":
            yield error(
                "channel",
                f"{row} does not work: {row.status_text}",
                "Admin, Accounts: “Test the connection”, fix the reported problem, save.",
            )


def sealed_keys() -> Iterator[Finding]:
    """Check for keys of services that cannot be decrypted, or are under an old key."""
    services = (
        (ModelProvider, "provider"),
        (SearchProvider, "provider"),
        (McpServer, "MCP server"),
    )
    for table, name in services:
        rows: Any = table._default_manager
        for row in rows.exclude(secrets="").order_by("id"):
            instead = f", or enter the {name}'s again"
            yield from sealed(row.secrets, f"The key of the {name} {row}", instead=instead)


def push() -> Iterator[Finding]:
    """Check for a key of Web Push that cannot be decrypted, or is under an old key."""
    kept = Installation.objects.filter(id=1).values_list("secrets", flat=True).first() or ""
    yield from sealed(kept, "The key of Web Push", then=": no notification is sent")


def sealed(
    secrets: str, name: str, *, are: str = "is", then: str = "", instead: str = ""
) -> Generator[Finding, None, bool]:
    """Check that secrets are encrypted with the current key; return whether they can be opened.

    ``then``: the consequence where not. ``instead``: another remedy than the old key.
    """
    try:
        encryption.decrypt(secrets)
    except encryption.DecryptError:
        yield error(
            "sealed",
            f"{name} cannot be opened with any key{then}.",
            f"Put the old key back into GATEWAY_ENCRYPTION_KEYS{instead}.",
        )
        return False
    if not encryption.is_current(secrets):
        yield warning(
            "sealed",
            f"{name} {are} encrypted with an old key.",
            "Run `manage.py rotate_secrets`.",
        )
    return True


def skills_that_fail() -> Iterator[Finding]:
    """Check for folders under ``skills`` without a usable skill."""
    for name, problem in skills.broken().items():
        yield warning(
            "skill",
            f"The skill {visible_line(name, 80)} cannot be used. {problem}",
            "Fix its SKILL.md (docs/plugins.md has a complete example), or remove the folder.",
        )


def backups_made() -> Iterator[Finding]:
    """Check that the last backup was good."""
    last = backups.last_ended()
    if last is not None and last.state == Backup.State.FAILED:
        yield error(
            "backup",
            f"The backup of {last.asked_at:%Y-%m-%d %H:%M} UTC could not be made: {last.error}",
            "Mend what it says, then choose “Back up now” in “Backups”.",
        )


def packages_that_fail() -> Iterator[Finding]:
    """Check for tools, plugins and channels of installed packages that cannot be loaded."""
    yield from broken("tool", registry.installed(), "docs/tools.md, “Writing a tool”")
    yield from broken("plugin", plugins.installed(), "docs/plugins.md, “A plugin”")
    yield from broken("channel", channels_registry.installed(), "docs/channels.md")


def broken(kind: str, found: Installed[Any], where: str) -> Iterator[Finding]:
    """Return the findings about broken objects of other packages; ``where``: how to write one."""
    for name, problem in found.broken.items():
        yield warning(
            kind,
            f"The installed {kind} {visible_line(name, 80)} cannot be used. "
            f"{visible_line(problem)}",
            f"Fix or remove its package, and restart the gateway ({where}).",
        )


def held() -> Iterator[Finding]:
    """Check for runs that wait for the owner since a backup was restored."""
    made_at = restored.restored_from()
    number = runs.held().count() if made_at else 0
    if number:
        yield warning(
            "held",
            f"{counted(number, 'question')} without an answer in the backup of "
            f"{made_at:%Y-%m-%d %H:%M} UTC: held for you, because an answer may have come before "
            "the restore.",
            "In “Runs”, choose those in the state “held”: let them go on, or cancel them.",
        )


def deliveries() -> Iterator[Finding]:
    """Check for failed deliveries and for messages that could not be parsed."""
    dead = Delivery.objects.filter(state=Delivery.State.DEAD).count()
    if dead:
        yield error(
            "dead-deliveries",
            f"{counted(dead, 'message')} could not be delivered.",
            "Admin, Deliveries: see each error; send again or dismiss.",
        )
    uncertain = Delivery.objects.filter(state=Delivery.State.UNCERTAIN).count()
    if uncertain:
        yield warning(
            "uncertain-deliveries",
            f"It is unknown whether {counted(uncertain, 'message')} arrived.",
            "Admin, Deliveries: check the chat, then send again or dismiss.",
        )
    unread = InboundMessage.objects.filter(state=InboundMessage.State.QUARANTINED).count()
    if unread:
        yield warning(
            "quarantined",
            f"{counted(unread, 'incoming message')} could not be read.",
            "Admin, Inbound messages: retry them after an update, or leave them.",
        )


def schedules() -> Iterator[Finding]:
    """Check that reminders and tasks are carried out at their time."""
    late = reports.lateness(now=timezone.now(), after=OVERDUE)
    if late.waiting:
        due = counted(late.waiting, "reminder or task", "reminders or tasks")
        since = counted(round(late.oldest_seconds / 60), "minute")
        yield error(
            "schedules",
            f"No worker fires what is due: {due}, for {since} already.",
            "Start a runs worker (`manage.py up`, docs/deploy.md); if one runs, its log says why "
            "it fires nothing.",
        )


def storage() -> Iterator[Finding]:
    """Check that the files folder is shared by all machines and belongs to this database."""
    if problem := misplaced():
        yield error(
            "files",
            problem,
            "Mount one GATEWAY_HOME/files on every machine, or restore it from the backup. If what "
            "is missing is gone for good: `manage.py doctor --adopt-files`.",
        )


def search() -> Iterator[Finding]:
    """Check that the search in chats has its index; without it, it reads all of a person's
    chats.
    """
    if problem := text_search.problem():
        yield warning(
            "search",
            problem,
            "Until then a search reads all chats of its person. PostgreSQL: run CREATE EXTENSION "
            "pg_trgm in this database as a superuser, then `manage.py migrate`. SQLite: run "
            "`manage.py migrate`, with SQLite 3.34 or newer.",
        )


def running() -> Iterator[Finding]:
    """Report the problems of ``/readyz``, except the accounts', which have checks of their own."""
    said = {f"{row}: {row.status_text}" for row in ChannelAccount.objects.filter(status="error")}
    idle = [*runs.idle_workers("runs"), *runs.idle_workers("long")]
    for problem in idle:
        yield error("outdated", problem, "Stop the old worker and start it from the new code.")
    elsewhere = {*said, *idle, misplaced()}
    waiting = outages.problems()
    for problem in health.problems_now():
        if problem not in elsewhere:
            refused = problem.startswith(health.BROKER_REFUSES)
            fix = SEND_ON if problem in waiting else FREE if refused else START
            yield error("not-ready", problem, fix)


def model() -> Iterator[Finding]:
    """Report the model's failure until it answers again."""
    for row in model_health.troubles():
        yield error(
            "model",
            f"The model fails ({row.code}) since {row.since:%Y-%m-%d %H:%M} UTC."
            f"{said_by_server(row)}",
            KINDS.get(row.code, OWN).owner,
        )
    for circuit in circuits.opened():
        yield warning(
            "model",
            f"{circuit.model} is not asked since {circuit.opened_at:%Y-%m-%d %H:%M} UTC "
            f"({circuit.code}); other models answer.{said_by_server(circuit)}",
            KINDS.get(circuit.code, OWN).owner,
        )


def said_by_server(row: ModelTrouble | ModelCircuit) -> str:
    """Return the server's reason as a sentence; empty without one."""
    return f" The server says: “{visible_line(row.reason, 200)}”" if row.reason else ""


def migrations() -> Iterator[Finding]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        yield error(
            "migrations",
            f"The tables are {counted(len(plan), 'migration')} behind the code.",
            "Run `manage.py migrate`.",
        )
    elif outdated := schema_version.problem():
        yield error("outdated", outdated, "Use the code that migrated the database, or newer.")

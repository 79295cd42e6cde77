"""What the database knows: who is let in, which channels fail, what was not delivered."""

from collections.abc import Iterator

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from allowlist.permissions import open_kinds
from channels_app.ops import health
from channels_app.ops.doctor.findings import Finding, error, warning
from core.conversations import runs
from core.database import schema_version
from core.files.storage import misplaced
from core.jobs_worker import skills
from core.lib import encryption
from core.lib.text import visible_line
from core.models import ChannelAccount, Delivery, InboundMessage, User
from core.providers import health as model_health
from core.providers.failures import KINDS, OWN


def people() -> Iterator[Finding]:
    """Lists that let everybody in, and an installation that nobody decides for."""
    for user, kinds in open_kinds().items():
        level = error if user.is_owner else warning
        danger = " They are an owner." if user.is_owner else ""
        yield level(
            "open-list",
            f"{user} is open to everyone on {', '.join(kinds)}: any stranger is let in as them."
            f"{danger}",
            "Admin, People: tick “only listed identities”, or list who may speak.",
        )
    if not User.objects.filter(is_owner=True, is_active=True).exists():
        yield error(
            "no-owner",
            "There is no active owner: nobody is told of strangers, nobody can let them in.",
            "Run `manage.py sign_in_link`: on a new installation it makes the owner.",
        )


def channels() -> Iterator[Finding]:
    """Accounts whose platform complains (a webhook that fails), or whose secrets are locked."""
    for row in ChannelAccount.objects.order_by("id"):
        try:
            encryption.decrypt(row.secrets)
        except encryption.DecryptError:
            yield error(
                "sealed",
                f"The credentials of {row} cannot be opened with any key.",
                "Put the old key back into GATEWAY_ENCRYPTION_KEYS, or enter them again.",
            )
            continue
        if not encryption.is_current(row.secrets):
            yield warning(
                "sealed",
                f"The credentials of {row} are encrypted with an old key.",
                "Run `manage.py rotate_secrets`.",
            )
        if row.enabled and row.status == "error":
            yield error(
                "channel",
                f"{row} does not work: {row.status_text}",
                "Admin, Accounts: “Test the connection”, mend what it names, save.",
            )


def skills_that_fail() -> Iterator[Finding]:
    """Folders under ``skills`` that hold no usable skill."""
    for name, problem in skills.broken().items():
        yield warning(
            "skill",
            f"The skill {visible_line(name, 80)} cannot be used. {problem}",
            "Mend its SKILL.md (docs/plugins.md has a whole one), or remove the folder.",
        )


def deliveries() -> Iterator[Finding]:
    """Answers that did not reach anybody, and messages that could not be read."""
    dead = Delivery.objects.filter(state=Delivery.State.DEAD).count()
    if dead:
        yield error(
            "dead-deliveries",
            f"{dead} messages could not be delivered.",
            "Admin, Deliveries: each says why; send again or dismiss.",
        )
    uncertain = Delivery.objects.filter(state=Delivery.State.UNCERTAIN).count()
    if uncertain:
        yield warning(
            "uncertain-deliveries",
            f"Of {uncertain} messages nobody knows whether they arrived.",
            "Admin, Deliveries: look in the chat, then send again or dismiss.",
        )
    unread = InboundMessage.objects.filter(state=InboundMessage.State.QUARANTINED).count()
    if unread:
        yield warning(
            "quarantined",
            f"{unread} incoming messages could not be read.",
            "Admin, Inbound messages: retry them after an update, or leave them.",
        )


def storage() -> Iterator[Finding]:
    """A folder of files that is not the one of the other machines, or of this database."""
    if problem := misplaced():
        yield error(
            "files",
            problem,
            "Mount one GATEWAY_HOME/files on every machine, or restore it from the backup. If what "
            "is missing is gone for good: `manage.py doctor --adopt-files`.",
        )


def running() -> Iterator[Finding]:
    """What ``/readyz`` says, once: what the accounts say stands elsewhere already."""
    said = {f"{row}: {row.status_text}" for row in ChannelAccount.objects.filter(status="error")}
    idle = [*runs.idle_workers("runs"), *runs.idle_workers("long")]
    for problem in idle:
        yield error("outdated", problem, "Stop the old worker and start it from the new code.")
    elsewhere = {*said, *idle, misplaced()}
    for problem in health.problems_now():
        if problem not in elsewhere:
            yield error(
                "not-ready",
                problem,
                "Start what is missing (`manage.py up`, docs/deploy.md); its log says why it died.",
            )


def model() -> Iterator[Finding]:
    """How the model fails, until it answers again."""
    for row in model_health.troubles():
        because = f" The server says: “{visible_line(row.reason, 200)}”" if row.reason else ""
        yield error(
            "model",
            f"The model fails ({row.code}) since {row.since:%Y-%m-%d %H:%M} UTC.{because}",
            KINDS.get(row.code, OWN).owner,
        )


def migrations() -> Iterator[Finding]:
    """Tables that are older than the code."""
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        yield error(
            "migrations",
            f"The tables are {len(plan)} migrations behind the code.",
            "Run `manage.py migrate`.",
        )
    elif outdated := schema_version.problem():
        yield error("outdated", outdated, "Use the code that migrated the database, or newer.")

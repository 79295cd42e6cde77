"""Forget a person: everything of theirs goes, sums of money stay, the audit stays valid.

    begun (audit, no more access) ─► runs ended ─► traces ─► rows ─► the user ─► cleaned (audit)

A step that was killed is done again by the next call; decision 206.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import redis
from django.apps import apps
from django.conf import settings
from django.db.models import Sum
from django.utils import timezone

from allowlist import audit, revocation
from allowlist.models import UnknownRequest
from allowlist.unfinished_forgetting import BEGUN, DONE, left_behind, unfinished
from core.conversations import runs
from core.database import cleaning, counting, dependents
from core.database.cleaning import CleaningError
from core.database.transactions import atomic_write, lock_until_commit
from core.files import storage
from core.models import (
    Job,
    Run,
    RunEvent,
    StoredFile,
    User,
)
from core.signals import forgetting as broker_forgetting
from core.tools.mcp import servers
from gateway_project.personal_data import mentions
from gateway_project.personal_data.tables import SECTIONS
from gateway_project.processes.preflight import waited_lock

# Of PostgreSQL: two owners must not forget each other at once.
OWNERS_LOCK = 0x6F776E657273
WAIT_SECONDS = 20.0
RUNS_AT_ONCE = 20
ROWS_ONLY = "All rows are removed, but not what they left behind."


class NotForgotten(Exception):
    """The person was not forgotten, or not to the end; the text says why."""


@dataclass(frozen=True, slots=True)
class Count:
    """How much of one kind goes."""

    title: str
    number: int


def counts(user: User) -> list[Count]:
    """Return what will go, without kinds of which there is nothing."""
    numbers = counting.numbers([each.rows(user) for each in SECTIONS])
    titles = [each.title for each in SECTIONS]
    found = [Count(*each) for each in zip(titles, numbers, strict=True)]
    size = StoredFile.objects.filter(user=user).aggregate(size=Sum("size", default=0))["size"]
    return [each for each in [*found, Count("Bytes of files", size)] if each.number]


def refusal(user: User) -> str:
    """Return why a person cannot be forgotten; empty when they can."""
    others = User.objects.filter(is_owner=True, is_active=True).exclude(pk=user.pk)
    if user.is_owner and not others.exists():
        return "The last owner cannot be forgotten: make another person an owner first."
    return ""


def forget(user: User, *, actor: str) -> None:
    """Remove a person and every trace. Raises NotForgotten; the next call continues."""
    remove(user, actor=actor)
    finish(actor=actor)


def remove(user: User, *, actor: str) -> None:
    """Remove the rows and files of a person. Takes as long as there are some, and waits for their
    runs. All that they left behind is for :func:`finish`. Raises NotForgotten, as :func:`forget`.
    """
    begin(user, actor=actor)
    end_access(user)
    try:
        found = mentions.of(user)
        mentions.remove_all(found, actor=actor, now=timezone.now())
    except redis.RedisError as error:
        raise NotForgotten(
            f"The broker does not answer, so nothing was removed yet: {error}"
        ) from error
    number = user.pk
    disable_servers(user, actor=actor)
    remove_rows(user)
    mentions.blank_log_of_the_gone()
    # Rows that were written since, such as of the end of a run.
    audit.blank(lambda row: mentions.blank_entry(row, found), actor=actor, now=timezone.now())
    with atomic_write():
        User.objects.filter(pk=number).delete()


def begin(user: User, *, actor: str) -> None:
    """End the person's access and note that forgetting has begun. Raises NotForgotten."""
    with atomic_write():
        lock_until_commit(OWNERS_LOCK)
        user.refresh_from_db(fields=["is_owner"])
        if why := refusal(user):
            raise NotForgotten(why)
        User.objects.filter(pk=user.pk).update(is_active=False, is_owner=False)
        if user.pk not in unfinished():
            audit.record(
                actor=actor,
                action=BEGUN,
                subject=f"user:{user.pk}",
                data={"number": user.pk},
                now=timezone.now(),
            )


def end_access(user: User) -> None:
    """Close the person's sockets and sessions, and wait for the end of what runs for them."""
    with atomic_write():
        revocation.end_user(user_id=user.pk)
    mentions.sign_out(user)
    deadline = time.monotonic() + WAIT_SECONDS
    while is_at_work(user) and runs.workers_alive("runs") and time.monotonic() < deadline:
        time.sleep(0.1)


def is_at_work(user: User) -> bool:
    rows = Run.objects.filter(user=user, state__in=Run.UNFINISHED)
    return rows.exists() or Job.objects.filter(run__user=user, state=Run.State.RUNNING).exists()


def remove_rows(user: User) -> None:
    """Remove the person's rows in short transactions; the bytes of a file before its row."""
    remove_files(user)
    rows = Run.objects.filter(user=user, last_seq__gt=0).order_by("pk")
    for ids in in_parts(list(rows.values_list("pk", flat=True))):
        with atomic_write():
            RunEvent.objects.filter(run_id__in=ids).delete()
    dependents.remove_before(user)
    dependents.remove(UnknownRequest.objects.filter(granted_user=user))


def disable_servers(user: User, *, actor: str) -> None:
    """Disable the MCP servers that only this person may use."""
    with atomic_write():
        for server in servers.disable_without(user):
            audit.record(
                actor=actor,
                action="mcpserver.changed",
                subject=f"mcpserver:{server.pk} {server}",
                data={"enabled": [True, False]},
                now=timezone.now(),
            )


def in_parts(ids: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(ids), RUNS_AT_ONCE):
        yield ids[start : start + RUNS_AT_ONCE]


def remove_files(user: User) -> None:
    """Remove the bytes of stored files, and the folders of long tasks."""
    for path in StoredFile.objects.filter(user=user).values_list("path", flat=True):
        (storage.folder() / path).unlink(missing_ok=True)
    for job in Job.objects.filter(run__user=user).values_list("pk", flat=True):
        shutil.rmtree(storage.folder() / "jobs" / str(job), ignore_errors=True)


def finish(*, actor: str) -> None:
    """Clean the files of the broker and of the database, for all whose rows are gone.

    One process of a machine at a time; the next one finds nothing left. Raises NotForgotten. The
    broker is first: while it is away the whole database would be written anew at each attempt.
    """
    with waited_lock(Path(settings.GATEWAY_HOME), "cleaning"):
        if not (gone := left_behind()):
            return
        not_permitted = clean_broker()
        try:
            every = apps.get_models(include_auto_created=True)
            cleaning.clean(model._meta.db_table for model in every)
        except CleaningError as error:
            raise NotForgotten(f"{ROWS_ONLY} {error}") from error
        for number in gone:
            done(number, actor=actor, now=timezone.now())
        if not_permitted:
            raise NotForgotten(not_permitted)


def clean_broker() -> str:
    """Clean the broker's file; return why that is not permitted, if so. Raises NotForgotten."""
    try:
        if not broker_forgetting.rewrite_file():
            raise NotForgotten("All rows are removed, but the broker still writes its file anew.")
    except broker_forgetting.NotPermittedError as error:
        return f"All is removed, but the broker does not permit to clean its file: {error}."
    except redis.RedisError as error:
        raise NotForgotten(f"{ROWS_ONLY} {error}") from error
    return ""


def done(number: int, *, actor: str, now: datetime) -> None:
    """Note that nothing is left of a person."""
    data: dict[str, object] = {"number": number}
    audit.record(actor=actor, action=DONE, subject=f"user:{number}", data=data, now=now)

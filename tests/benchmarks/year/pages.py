"""The cost of each page of a filled gateway: queries, time, and what the database reads for it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from django.contrib import admin
from django.core.cache import cache
from django.db import connection, transaction
from django.db.models import Count
from django.test import Client
from django.urls import reverse

from core.models import ChannelAccount, ChatSession, Run, Schedule, User
from tests.addresses import addresses
from tests.benchmarks.machine import median

OK = 200
OWN = ("SAVEPOINT", "RELEASE", "ROLLBACK TO")  # of the measurement's transaction
STEPS = 1_000  # of SQLite, between two counts
READ = (
    "SELECT coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0) "
    "FROM pg_stat_xact_all_tables WHERE schemaname = 'public'"
)


@dataclass(frozen=True)
class Queries:
    """The queries of one page: ``first`` when nothing is kept for a minute, as the dashboard keeps
    its chart and its findings, ``later`` when it is."""

    address: str
    later: int
    first: int


@dataclass(frozen=True)
class Cost:
    """One page. ``work``: rows read of PostgreSQL, thousands of steps of SQLite."""

    address: str
    queries: int
    first: int
    ms: float
    work: int


def every(client: Client, session: ChatSession, run: Run) -> list[str]:
    """Return all addresses: those that no table may grow for, and what is left."""
    member = User.objects.exclude(pk=session.user_id).latest("pk")
    return list(dict.fromkeys([*addresses(client, session, run), *others(session, member)]))


def others(session: ChatSession, member: User) -> Iterator[str]:
    """Yield the pages of the web chat and of the admin that are not of one table's list."""
    yield from (f"/c/{session.public_id}", "/chat/assistants", "/chat/usage", "/reminders")
    yield from ("/reminders/new", "/api/assistants", "/api/models")
    if plan := Schedule.objects.filter(user=session.user).first():
        yield reverse("reminder", args=[plan.public_id])
    yield f"/chat/sessions/{session.public_id}/export"
    for name in (
        "access_check",
        "core_assistant_why",
        "core_toolrule_why",
        "core_retentionrule_due",
        "core_modelcall_usage",
        "changes",
        "allowlist_unknownrequest_groups",
    ):
        yield reverse(f"admin:{name}")
    yield from ("/admin/core/", "/admin/search/?s=person", "/admin/password_change/")
    yield reverse("admin:auth_user_password_change", args=[member.pk])
    yield reverse("admin:core_user_forget", args=[member.pk])
    by_chats = ChannelAccount.objects.annotate(chats=Count("chatsession")).order_by("-chats")
    yield reverse("admin:core_channelaccount_delete", args=[by_chats[0].pk])
    yield from of_rows()


def of_rows() -> Iterator[str]:
    """Yield the other pages of tables in the admin: of a new row, a row's history and removal."""
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        yield reverse(f"{name}_add")
        if row := model._default_manager.order_by("-pk").first():
            yield reverse(f"{name}_history", args=[row.pk])
            yield reverse(f"{name}_delete", args=[row.pk])


@contextmanager
def counted() -> Iterator[list[str]]:
    """Collect the statements that are executed meanwhile."""
    asked: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: Any, context: Any) -> Any:
        if not sql.startswith(OWN):
            asked.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield asked


def ask(client: Client, address: str, token: str) -> int:
    """Ask for a page; return its status."""
    given = {"Authorization": f"Bearer {token}"} if address.startswith("/api") else {}
    response = client.get(address, headers=given)
    b"".join(response) if response.streaming else response.content
    return int(response.status_code)


def queries_of(client: Client, address: str, token: str, *, enough: int = 0) -> Queries | None:
    """Return how many queries a page has; None where there is none: a form that is not allowed.

    One that has no more than ``enough`` when nothing is kept is not asked for again.
    """
    cache.clear()
    first = asked_once(client, address, token)
    if first is None:
        return None
    if first <= enough:
        return Queries(address, first, first)
    later = asked_once(client, address, token)
    assert later is not None, address
    return Queries(address, later, first)


def asked_once(client: Client, address: str, token: str) -> int | None:
    """Return the number of queries of a page as it is now; None where there is none."""
    with counted() as asked:
        status = ask(client, address, token)
    return len(asked) if status == OK else None


def cost(client: Client, address: str, token: str, *, times: int) -> Cost | None:
    """Return what a page costs, the median of ``times``; None where there is no page."""
    found = queries_of(client, address, token)
    if found is None:
        return None
    took = []
    for _ in range(times):
        began = time.perf_counter()
        ask(client, address, token)
        took.append((time.perf_counter() - began) * 1000)
    read = work(client, address, token)
    return Cost(found.address, found.later, found.first, median(took), read)


def work(client: Client, address: str, token: str) -> int:
    """Return how much the database reads for a page."""
    if connection.vendor == "sqlite":
        connection.ensure_connection()
        steps = count()
        connection.connection.set_progress_handler(lambda: next(steps) and 0, STEPS)
        try:
            ask(client, address, token)
        finally:
            connection.connection.set_progress_handler(None, STEPS)
        return next(steps)
    with transaction.atomic(), connection.cursor() as cursor:
        ask(client, address, token)
        cursor.execute(READ)
        return int(cursor.fetchone()[0])

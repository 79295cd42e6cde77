"""No page, no list and no turn reads what other people said, or a long chat as a whole."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.utils import timezone

from allowlist import keys, revocation, unknown_requests
from allowlist.held_messages import sweep_ignored
from allowlist.models import ApiKey
from channels_app.agent_sessions import sessions
from channels_app.owner import (
    alerts,
    budget_notices,
    circuit_notices,
    mcp_notices,
    notices,
    outages,
)
from channels_app.replies import outbound
from channels_app.schedules import firing
from channels_app.tool_requests import deciding
from channels_app.worker import expired_rows
from channels_app.worker import retention as rules_of_retention
from core.conversations import jobs, left_calls, push_messages, runs, usage_reports
from core.conversations.retention import log_folding
from core.conversations.schedules import reports, retention
from core.database import text_search, transactions
from core.files import cleanup
from core.models import (
    ChannelAccount,
    ChannelIdentity,
    ChatSession,
    Run,
    User,
)
from tests.benchmarks.year.pages import every
from tests.calls import counted_calls
from tests.core.database import growth
from tests.one_turn import SENDER, one_turn
from tests.plans import Asked, listening

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

# PostgreSQL reads a small table as a whole, whatever its indexes are; SQLite does not count rows.
MANY = 100_000 if connection.vendor == "postgresql" else 10_000
# Of functions of Python: 0.1 to 0.2 s. A list has 50 rows, a transcript 500 lines.
MOST_CALLS = 400_000
# Each row of its form offers the 500 newest keys.
OF_CHOICES = re.compile(r"/admin/core/assistant/(\d+/change|add)/")
# Pages that read a whole table: `/api/` promises the number of requests, by the index alone; people
# are searched among all people, or the first 200 in use are read by the index of names.
KNOWN = {
    "/api/requests": "allowlist_unknownrequest",
    "/admin/core/user/?q=word": "core_user",
    "/admin/core/assistant/why/": "core_user",
}


@pytest.fixture(autouse=True)
def fresh_cache() -> Iterator[None]:
    """Empty the cache: the chart of the dashboard is kept for a minute."""
    cache.clear()
    yield
    cache.clear()


def chores() -> None:
    """Run what every worker does every few seconds."""
    now = timezone.now()
    notices.model_health(now=now)
    outbound.recover_lost()
    jobs.recover()
    unknown_requests.purge(now=now)
    revocation.end_expired(now=now)
    notices.look_after(now=now)
    sessions.close_idle(now=now)
    cleanup.discard_unfinished()
    outages.look(now=now)
    left_calls.close_left()
    budget_notices.look(now=now)
    alerts.look(now=now)
    usage_reports.roll_up(now=now)
    usage_reports.used_ratios(now=now, most=100)
    text_search.catch_up()
    circuit_notices.look()
    mcp_notices.look(now=now)
    deciding.look(now=now)
    push_messages.purge()
    firing.look(now=now)
    cleanup.purge(now=now)
    sweep_ignored(now=now)
    retention.purge(now=now)
    rules_of_retention.count_next(now=now)
    expired_rows.purge(now=now)
    next(log_folding.fold(now=now), None)
    reports.lateness(now=now)


def test_no_page_and_no_turn_reads_a_growing_table_as_a_whole(
    account: ChannelAccount,
    user: User,
    session: ChatSession,
    client: Client,
    woken: list[tuple[str, int]],
    settings: Any,
) -> None:
    settings.RATE_PER_MINUTE_USER = settings.RATE_PER_MINUTE_ADDRESS = 0
    account.channel = "memory"
    account.save()
    growth.grown(account, user, session, number=MANY)
    User.objects.filter(pk=user.pk).update(is_owner=True, is_staff=True, is_superuser=True)
    client.force_login(User.objects.get(pk=user.pk))
    _, token = keys.create(name="k", user=user, scopes=ApiKey.Scope.values)
    ChannelIdentity.objects.create(user=user, kind="im", value=SENDER)
    run = Run.objects.filter(session=session).latest("pk")
    slow: dict[str, list[str]] = {}
    work: dict[str, int] = {}
    for address in every(client, session, run):
        with listening() as asked, counted_calls() as calls:
            response = client.get(
                address, HTTP_AUTHORIZATION=f"Bearer {token}" if address.startswith("/api") else ""
            )
        is_missing = response.status_code == 403 and address.endswith(("/add/", "/delete/"))
        assert response.status_code == 200 or is_missing, address
        work[address] = calls[0]
        # Of an admin's search among the newest rows, and of a person's own rows, a bounded number
        # is joined with others. There are few sums of usage here.
        by_choice = not address.startswith(("/admin/", "/api/runs", "/chat/usage"))
        for each in asked:
            if found := each.read_whole(by_choice=by_choice):
                slow.setdefault(each.sql, [*found, address])
    with listening() as asked:
        one_turn(account=account, user=user, session=session, token=token)
        chores()
        Run.objects.create(session=session, user=user, origin="http")
        with transactions.atomic_write():
            assert runs.next_in_turn(most=5), "as where all places are taken"
        jobs.claim_next()
    for each in asked:
        # "Is there one?" is answered by the first row that comes, as nearly all rows fit. There are
        # few sums of usage, which PostgreSQL knows once it has looked by itself.
        is_choice = not each.sql.endswith("LIMIT 1") and '"core_usageday"' not in each.sql
        if found := each.read_whole(by_choice=is_choice):
            slow.setdefault(each.sql, [*found, "a turn"])
    for address, table in KNOWN.items():
        slow = {sql: found for sql, found in slow.items() if {*found} != {address, table}}
    assert slow == {}, "\n".join(
        f"{found}: … {sql[sql.find(' FROM ') :][:900]}" for sql, found in slow.items()
    )
    assert Asked("SELECT id FROM core_message WHERE text = %s", ["x"]).read_whole()
    most = {each: number for each, number in work.items() if number > MOST_CALLS}
    most = {each: number for each, number in most.items() if not each.endswith("/export")}  # whole
    assert all(OF_CHOICES.fullmatch(each) for each in most), most

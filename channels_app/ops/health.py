"""``/healthz``, ``/readyz`` and ``/metrics`` [D8]."""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import redis
from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connection
from django.http import HttpResponse, parse_cookie
from django.utils import timezone
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from allowlist import keys, pending_count
from channels_app.asgi import http
from channels_app.asgi.authentication import count_address, count_failure, token_of
from channels_app.asgi.http import Request
from channels_app.asgi.principal import DeniedError
from channels_app.asgi.sessions import user_of_session
from channels_app.asgi.views import EndpointRequest, endpoint, json_response, response
from channels_app.owner import alerts, outages
from channels_app.worker import account_watcher
from core import VERSION
from core.conversations import outbox, runs, usage_reports
from core.conversations.schedules import reports
from core.database import schema_version, transactions
from core.database.transactions import in_thread, in_thread_of, pool
from core.files import storage
from core.lib import broker
from core.lib.text import visible_line
from core.lib.ttl_cache import TtlCache
from core.models import Run
from core.providers import circuits
from core.providers import health as model_health
from core.providers.failures import KINDS, OWN

NO_DATABASE = "The database does not answer."
NO_WRITES = "The database accepts no writes: its disk is full, or another program holds its lock."
BROKER_REFUSES = "The broker takes no work"
ANSWER_SECONDS = 4.0
PROBED_SECONDS = 2.0
MOST_LABELS = 100
R = TypeVar("R")

_probing = threading.Lock()
probes: TtlCache[str, str] = TtlCache(PROBED_SECONDS)


@endpoint("GET", "HEAD")
async def healthz(request: EndpointRequest) -> HttpResponse:
    """Answer 200: the process is up."""
    del request
    return json_response(200, {"ok": True})


@endpoint("GET", "HEAD")
async def readyz(request: EndpointRequest) -> HttpResponse:
    """Answer whether all parts work: 503 when not.

    Details that name accounts need a key, a staff session or METRICS_TOKEN: the problems;
    ``warnings`` (problems elsewhere, such as a failing model: another gateway would not do better);
    ``waiting`` (updates that platforms hold back); ``deliveries`` (the numbers that wait after a
    failure and that were given up).
    """
    nothing: tuple[list[str], dict[str, int], dict[str, int]] = ([NO_DATABASE], {}, {})
    (problems, waiting, deliveries), stuck = await asyncio.gather(
        in_time(readiness, otherwise=nothing), in_time(write_problem, otherwise=NO_WRITES)
    )
    if stuck and NO_DATABASE not in problems:
        problems = [*problems, stuck]
    body: dict[str, Any] = {"ok": not problems}
    if await is_known(request.head):
        # Another attempt on an unreachable database would cost another time-out.
        known: list[str] = [] if NO_DATABASE in problems else await in_thread(model_problems)
        body |= {"problems": problems, "warnings": known, "waiting": waiting}
        body |= {"deliveries": deliveries, "version": VERSION}
    return json_response(503 if problems else 200, body)


async def in_time(call: Callable[[], R], *, otherwise: R) -> R:
    """Return the result of ``call`` from a dedicated thread, or ``otherwise`` after ANSWER_SECONDS:
    the other threads may all be blocked by the database.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await in_thread_of(pool("health", most=2), unkept, call)
    except TimeoutError:
        return otherwise


def unkept(call: Callable[[], R]) -> R:
    """Call it with a connection that is closed afterwards: these threads seldom work."""
    try:
        return call()
    finally:
        connection.close()


def write_problem() -> str:
    """Return why the database accepts no writes, or "". Tried once in PROBED_SECONDS at most."""
    with _probing:
        known = probes.get("writes")
        if known is not None:
            return known
        try:
            runs.heard_from(worker=f"web {socket.gethostname()}"[:100], queue="web")
        except DatabaseFailure:
            return probes.put("writes", NO_WRITES)
        return probes.put("writes", "")


async def is_known(request: Request) -> bool:
    """Return whether the request has METRICS_TOKEN, an API key, or a staff session.

    Raises RefusedError 429 for too many wrong keys.
    """
    token = token_of(request)
    if token and settings.METRICS_TOKEN and http.same_secret(token, settings.METRICS_TOKEN):
        return True
    if not token and settings.SESSION_COOKIE_NAME not in request.header("cookie"):
        return False
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await in_thread(has_credential, request, token)
    except (TimeoutError, DatabaseFailure):
        return False


def has_credential(request: Request, token: str) -> bool:
    """Return whether the token or the cookie of staff is valid. Raises RefusedError 429."""
    count_address(request.address)
    if token:
        known = keys.authenticate(token=token, now=timezone.now()) is not None
        if not known:
            count_failure(request.address)
        return known
    cookies = parse_cookie(request.header("cookie"))
    user = user_of_session(cookies.get(settings.SESSION_COOKIE_NAME, ""))
    return user is not None and user.is_staff


def readiness() -> tuple[list[str], dict[str, int], dict[str, int]]:
    """Return problems, held-back updates, and delivery counts; without a database only problems."""
    problems = problems_now()
    if NO_DATABASE in problems:
        return problems, {}, {}  # asking again would cost another time-out
    try:
        return problems, account_watcher.waiting(), outages.counted()
    except DatabaseFailure:
        return problems, {}, {}


def model_problems() -> list[str]:
    """Return the model's current failures as sentences; none where the tables are older."""
    try:
        troubles, open_circuits = model_health.troubles(), circuits.opened()
    except DatabaseFailure:
        return []
    return [
        f"The model fails since {row.since:%Y-%m-%d %H:%M} UTC ({row.code}): "
        f"{KINDS.get(row.code, OWN).owner}"
        for row in troubles
    ] + [
        f"{row.model} is not asked since {row.opened_at:%Y-%m-%d %H:%M} UTC ({row.code}): "
        f"{KINDS.get(row.code, OWN).owner}"
        for row in open_circuits
    ]


def problems_now() -> list[str]:
    """Return what does not work. A database may answer a ping, and no question about a table."""
    try:
        transactions.ping()
        return problems_of_parts()
    except DatabaseFailure:
        return [NO_DATABASE]


def problems_of_parts() -> list[str]:
    """Return what does not work beside the database. Raises DatabaseFailure."""
    problems = []
    client = broker.client(seconds=1)
    try:
        client.ping()
    except redis.ResponseError as error:  # as on a full disk: it stores what it takes
        problems.append(f"{BROKER_REFUSES}: {visible_line(str(error), 200)}")
    except (redis.RedisError, OSError):
        problems.append("The broker does not answer.")
    finally:
        client.close()
    if outdated := schema_version.problem():
        return [*problems, outdated]  # the tables may have another schema
    for queue in ("runs", "long"):
        if not runs.workers_alive(queue):
            nobody = [f"No {queue} worker has reported in the last 30 s."]
            problems += runs.idle_workers(queue) or nobody
    stuck = outages.problems()
    if not stuck and outbox.oldest_pending_seconds() > settings.UNDELIVERED_SECONDS:
        stuck = ["Deliveries are waiting too long."]
    problems += stuck
    if misplaced := storage.misplaced():
        problems.append(misplaced)
    return problems


@endpoint("GET", "HEAD")
async def metrics(request: EndpointRequest) -> HttpResponse:
    """Answer numbers for Prometheus; with METRICS_TOKEN set, only to a client that shows it."""
    check_metrics_token(request.head)
    return response(200, await in_thread(metrics_text), CONTENT_TYPE_LATEST)


def check_metrics_token(request: Request) -> None:
    """Raise RefusedError 401 without the token; without one set, for other machines."""
    token = settings.METRICS_TOKEN
    given = request.header("authorization").removeprefix("Bearer ")
    if token and http.same_secret(given, token):
        return
    if not token and request.address in {"127.0.0.1", "::1"}:
        return
    raise DeniedError


def metrics_text() -> bytes:
    """Read the numbers from the database: the same from every process."""
    registry = CollectorRegistry()
    late = reports.lateness(now=timezone.now())
    values: dict[str, Any] = {
        "latchkey_runs_queued": Run.objects.filter(state=Run.State.QUEUED).count(),
        "latchkey_runs_running": Run.objects.filter(state=Run.State.RUNNING).count(),
        "latchkey_deliveries_waiting_seconds": outbox.oldest_pending_seconds(),
        "latchkey_deliveries_failing": outages.counted()["waiting"],
        "latchkey_deliveries_dead": outbox.dead_count(),
        "latchkey_unknown_requests_pending": pending_count.count(),
        "latchkey_workers_runs": runs.workers_alive("runs"),
        "latchkey_model_failing": len(model_health.troubles()),
        "latchkey_model_circuits_open": len(circuits.opened()),
        "latchkey_workers_long": runs.workers_alive("long"),
        "latchkey_accounts_in_error": len(account_watcher.problems()),
        "latchkey_schedules_active": reports.active_count(),
        "latchkey_occurrences_late": late.waiting,
        "latchkey_occurrences_late_seconds": late.oldest_seconds,
    }
    for name, value in values.items():
        Gauge(name, name.replace("_", " "), registry=registry).set(value)
    lasting = Gauge(
        "latchkey_alerts",
        "troubles of which the owner was told, by kind",
        ["kind"],
        registry=registry,
    )
    for kind, count in alerts.lasting().items():
        lasting.labels(kind=kind).set(count)
    registry.register(Usage())
    return generate_latest(registry)


class Usage(Collector):
    """Failures by code; tokens, calls and cost by model; and the used part of each budget."""

    def collect(self) -> list[Metric]:
        failures = CounterMetricFamily(
            "latchkey_model_failures", "runs that failed, by code", labels=["code"]
        )
        for code, count in model_health.counts().items():
            failures.add_metric([code], count)
        tokens = CounterMetricFamily(
            "latchkey_model_tokens", "tokens of calls, by model and kind", labels=["model", "kind"]
        )
        calls = CounterMetricFamily(
            "latchkey_model_calls", "calls of models, by outcome", labels=["model", "outcome"]
        )
        cost = CounterMetricFamily(
            "latchkey_model_cost_dollars", "cost of calls, by model", labels=["model"]
        )
        for model, used in usage_reports.totals_by_model(most=MOST_LABELS).items():
            for kind in ("prompt", "cached", "completion", "reasoning"):
                tokens.add_metric([model, kind], getattr(used.whole, f"{kind}_tokens"))
            for outcome, number in sorted(used.outcomes.items()):
                calls.add_metric([model, outcome], number)
            cost.add_metric([model], used.whole.cost / 1_000_000_000)
        ratio = GaugeMetricFamily(
            "latchkey_budget_used_ratio", "used part of a budget, of 1", labels=["budget"]
        )
        ratios = usage_reports.used_ratios(now=timezone.now(), most=MOST_LABELS)
        for budget_id, value in ratios.items():
            ratio.add_metric([str(budget_id)], value)
        return [failures, tokens, calls, cost, ratio]

"""``/healthz``, ``/readyz`` and ``/metrics`` [D8]."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import redis
from django.conf import settings
from django.contrib.auth import get_user
from django.db import Error as DatabaseFailure
from django.db import connection
from django.http import HttpRequest, HttpResponse, parse_cookie
from django.urls import path
from django.utils import timezone
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    generate_latest,
)
from redis.backoff import NoBackoff
from redis.retry import Retry

from allowlist import keys, pending_count
from channels_app.asgi import http
from channels_app.asgi.authentication import count_address, count_failure, token_of
from channels_app.asgi.http import RefusedError, Request
from channels_app.asgi.views import EndpointRequest, endpoint, json_response, response
from channels_app.owner import outages
from channels_app.worker import account_watcher
from core import VERSION
from core.conversations import outbox, runs
from core.database import schema_version
from core.database.transactions import in_thread, in_thread_of, pool
from core.files import storage
from core.models import Run
from core.providers import health as model_health
from core.providers.failures import KINDS, OWN

NO_DATABASE = "The database does not answer."
NO_WRITES = "The database takes no writes: its disk is full, or another program holds its lock."
ANSWER_SECONDS = 4.0
PROBED_SECONDS = 2.0
R = TypeVar("R")

_probing = threading.Lock()
_probed = (0.0, "")  # valid until (monotonic), what was found


@endpoint("GET", "HEAD")
async def healthz(request: EndpointRequest) -> HttpResponse:
    """Answer 200: the process is up."""
    del request
    return json_response(200, {"ok": True})


@endpoint("GET", "HEAD")
async def readyz(request: EndpointRequest) -> HttpResponse:
    """Answer whether all parts work: 503 when not.

    Only a key, a member of staff and METRICS_TOKEN get what names accounts: what is wrong;
    ``warnings`` (what is wrong elsewhere, as a model that fails: another gateway would not do
    better); ``waiting`` (updates held back for us); ``deliveries`` (how many wait after a failure,
    and how many were given up).
    """
    nothing: tuple[list[str], dict[str, int], dict[str, int]] = ([NO_DATABASE], {}, {})
    (problems, waiting, deliveries), stuck = await asyncio.gather(
        soon(how_it_is, otherwise=nothing), soon(write_problem, otherwise=NO_WRITES)
    )
    if stuck and NO_DATABASE not in problems:
        problems = [*problems, stuck]
    body: dict[str, Any] = {"ok": not problems}
    if await is_known(request.head):
        # Asking a database that is away once more would cost another time-out.
        known: list[str] = [] if NO_DATABASE in problems else await in_thread(model_problems)
        body |= {"problems": problems, "warnings": known, "waiting": waiting}
        body |= {"deliveries": deliveries, "version": VERSION}
    return json_response(503 if problems else 200, body)


async def soon(call: Callable[[], R], *, otherwise: R) -> R:
    """What ``call`` gives in a thread of its own kind, or ``otherwise`` after ANSWER_SECONDS: the
    other threads may all wait for the database."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await in_thread_of(pool("health", most=2), call)
    except TimeoutError:
        return otherwise


def write_problem() -> str:
    """Why the database takes no writes, or an empty string. At most one try in PROBED_SECONDS:
    anybody may ask."""
    global _probed  # noqa: PLW0603 - what this process found last
    with _probing:
        if time.monotonic() < _probed[0]:
            return _probed[1]
        try:
            runs.heard_from(worker=f"web {socket.gethostname()}"[:100], queue="web")
            found = ""
        except DatabaseFailure:
            found = NO_WRITES
        _probed = (time.monotonic() + PROBED_SECONDS, found)
        return found


async def is_known(request: Request) -> bool:
    """Whether the request shows METRICS_TOKEN, a key, or the session of a member of staff.

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
    """Whether ``token`` is a usable key, or the cookie one of staff. Raises RefusedError 429."""
    count_address(request.address)
    if token:
        known = keys.authenticate(token=token, now=timezone.now()) is not None
        if not known:
            count_failure(request.address)
        return known
    cookies = parse_cookie(request.header("cookie"))
    store = import_module(settings.SESSION_ENGINE).SessionStore(
        cookies.get(settings.SESSION_COOKIE_NAME)
    )
    user = get_user(cast("HttpRequest", SimpleNamespace(session=store)))
    return bool(user.is_authenticated and user.is_active and user.is_staff)


def how_it_is() -> tuple[list[str], dict[str, int], dict[str, int]]:
    """What is wrong, what the platforms hold back, and what was not delivered; nothing where the
    database is away."""
    problems = problems_now()
    if NO_DATABASE in problems:
        return problems, {}, {}  # asking again would cost another time-out
    try:
        return problems, account_watcher.waiting(), outages.counted()
    except DatabaseFailure:
        return problems, {}, {}


def model_problems() -> list[str]:
    """How the model fails now, in words for the owner; nothing where the tables are older."""
    try:
        troubles = model_health.troubles()
    except DatabaseFailure:
        return []
    return [
        f"The model fails since {row.since:%Y-%m-%d %H:%M} UTC ({row.code}): "
        f"{KINDS.get(row.code, OWN).owner}"
        for row in troubles
    ]


def problems_now() -> list[str]:
    """What is wrong, in words for the owner."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseFailure:
        return [NO_DATABASE]
    problems = []
    client = redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=1,
        socket_connect_timeout=1,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        client.ping()
    except (redis.RedisError, OSError):
        problems.append("The broker does not answer.")
    finally:
        client.close()
    if outdated := schema_version.problem():
        return [*problems, outdated]  # what the tables hold may not be what we think
    for queue in ("runs", "long"):
        if not runs.workers_alive(queue):
            nobody = [f"No {queue} worker was heard from in the last 30 s."]
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
    return response(200, await in_thread(measured), CONTENT_TYPE_LATEST)


def check_metrics_token(request: Request) -> None:
    """Raises RefusedError 401 for a stranger: no token set means this machine only."""
    token = settings.METRICS_TOKEN
    given = request.header("authorization").removeprefix("Bearer ")
    if token and http.same_secret(given, token):
        return
    if not token and request.address in {"127.0.0.1", "::1"}:
        return
    raise RefusedError(401, "Permission denied")


def measured() -> bytes:
    """The numbers, read from the database: the same from every process."""
    registry = CollectorRegistry()
    values: dict[str, Any] = {
        "latchkey_runs_queued": Run.objects.filter(state=Run.State.QUEUED).count(),
        "latchkey_runs_running": Run.objects.filter(state=Run.State.RUNNING).count(),
        "latchkey_deliveries_waiting_seconds": outbox.oldest_pending_seconds(),
        "latchkey_deliveries_failing": outages.counted()["waiting"],
        "latchkey_deliveries_dead": outbox.dead_count(),
        "latchkey_unknown_requests_pending": pending_count.count(),
        "latchkey_workers_runs": runs.workers_alive("runs"),
        "latchkey_model_failing": len(model_health.troubles()),
        "latchkey_workers_long": runs.workers_alive("long"),
        "latchkey_accounts_in_error": len(account_watcher.problems()),
    }
    for name, value in values.items():
        Gauge(name, name.replace("_", " "), registry=registry).set(value)
    failures = Counter(
        "latchkey_model_failures", "runs that failed, by code", ["code"], registry=registry
    )
    for code, count in model_health.counts().items():
        failures.labels(code=code).inc(count)
    return generate_latest(registry)


urlpatterns = [path("healthz", healthz), path("readyz", readyz), path("metrics", metrics)]

"""``/healthz``, ``/readyz`` and ``/metrics`` [D8]."""

from typing import Any

import redis
from django.conf import settings
from django.db import Error as DatabaseFailure
from django.db import connection
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from redis.backoff import NoBackoff
from redis.retry import Retry

from allowlist import waiting
from channels_app import gateways, http, outages
from channels_app.http import Receive, RefusedError, Request, Scope, Send
from channels_app.lean import Route
from core import outbox, runs, schema
from core.db import in_thread
from core.models import Run

NO_DATABASE = "The database does not answer."


async def healthz(scope: Scope, receive: Receive, send: Send) -> None:
    """The process is up."""
    del scope, receive
    await http.answer(send, 200, {"ok": True})


async def readyz(scope: Scope, receive: Receive, send: Send) -> None:
    """Whether all parts work; 503 names what does not. ``waiting``: updates held back for us;
    ``deliveries``: how many wait after a failure, and how many were given up."""
    del scope, receive
    problems, waiting, deliveries = await in_thread(how_it_is)
    body = {
        "ok": not problems,
        "problems": problems,
        "waiting": waiting,
        "deliveries": deliveries,
    }
    await http.answer(send, 503 if problems else 200, body)


def how_it_is() -> tuple[list[str], dict[str, int], dict[str, int]]:
    """What is wrong, what the platforms hold back, and what was not delivered; nothing where the
    database is away."""
    problems = problems_now()
    if NO_DATABASE in problems:
        return problems, {}, {}  # asking again would cost another time-out
    try:
        return problems, gateways.waiting(), outages.counted()
    except DatabaseFailure:
        return problems, {}, {}


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
    if outdated := schema.problem():
        return [*problems, outdated]  # what the tables hold may not be what we think
    for queue in ("runs", "long"):
        if not runs.workers_alive(queue):
            nobody = [f"No {queue} worker was heard from in the last 30 s."]
            problems += runs.idle_workers(queue) or nobody
    stuck = outages.problems()
    if not stuck and outbox.oldest_pending_seconds() > settings.UNDELIVERED_SECONDS:
        stuck = ["Deliveries are waiting too long."]
    return problems + stuck + gateways.problems()


async def metrics(scope: Scope, receive: Receive, send: Send) -> None:
    """Numbers for Prometheus; with METRICS_TOKEN set, only to who shows it as a bearer."""
    request = Request(scope, receive)
    try:
        check_metrics_token(request)
    except RefusedError as error:
        await http.answer(send, error.status, {"ok": False, "error": str(error)})
        return
    data = await in_thread(measured)
    headers = http.encoded({"Content-Type": CONTENT_TYPE_LATEST})
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": data})


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
        "latchkey_unknown_requests_pending": waiting.count(),
        "latchkey_workers_runs": runs.workers_alive("runs"),
        "latchkey_workers_long": runs.workers_alive("long"),
    }
    for name, value in values.items():
        Gauge(name, name.replace("_", " "), registry=registry).set(value)
    return generate_latest(registry)


ROUTES = [
    Route(r"/healthz", healthz),
    Route(r"/readyz", readyz),
    Route(r"/metrics", metrics),
]

"""Before the key of every request: its host, its method, and whether messages are accepted. The
clock stands still.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from django.db import OperationalError
from pytest_django import Settings

from channels_app.asgi import acceptance as module
from channels_app.asgi.acceptance import Acceptance, admit
from channels_app.asgi.hosts import our_host
from channels_app.asgi.http import RefusedError, Request, Scope
from core.conversations import runs
from core.database import transactions
from tests.channels_app.asgi.clocks import Clock

AWAY = OperationalError("away")
NONE_WORKS = "no worker of this version"
MOMENT = 0.01


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Replace the clock of the module."""
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


class Database:
    """The answers of the database: why none works, or an error."""

    def __init__(self) -> None:
        self.answer: str | Exception = ""
        self.asked = 0

    def why_none_works(self) -> str:
        """Return the answer."""
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture(autouse=True)
async def database(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """Replace the answers of the database; end its threads after the test."""
    made = Database()
    monkeypatch.setattr(runs, "why_none_works", made.why_none_works)
    yield made
    await asyncio.to_thread(transactions.close_pool)


async def status(made: Acceptance) -> int:
    """Return the status of a message, after what it began has ended."""
    found = 200
    try:
        await made.check()
    except RefusedError as error:
        found = error.status
    if made.refreshing is not None:
        async with asyncio.timeout(60):
            await made.refreshing
    return found


async def test_the_first_message_waits_for_the_answer(database: Database) -> None:
    database.answer = NONE_WORKS
    assert await status(Acceptance()) == 503
    database.answer = ""
    assert await status(Acceptance()) == 200
    assert database.asked == 2


async def test_a_refusal_says_when_to_try_again(database: Database) -> None:
    database.answer = NONE_WORKS
    with pytest.raises(RefusedError, match="is being updated") as caught:
        await Acceptance().check()
    assert caught.value.headers == {"Retry-After": "30"}
    assert NONE_WORKS not in str(caught.value)


async def test_an_answer_is_refreshed_in_the_background(database: Database, clock: Clock) -> None:
    """No message waits for that while they come often enough."""
    made = Acceptance()
    assert await status(made) == 200
    database.answer = NONE_WORKS
    for pause, expected, asked in ((5, 200, 1), (MOMENT, 200, 2), (0, 503, 2), (5, 503, 2)):
        clock.now += pause
        assert (await status(made), database.asked) == (expected, asked)
    database.answer = ""
    clock.now += MOMENT
    assert (await status(made), await status(made), database.asked) == (503, 200, 3)


async def test_an_old_answer_is_not_believed(database: Database, clock: Clock) -> None:
    made = Acceptance()
    await status(made)
    database.answer = NONE_WORKS
    clock.now += 15
    assert await status(made) == 200, "refreshed beside it"
    database.answer = ""
    clock.now += 15 + MOMENT
    assert await status(made) == 200, "this one has waited"
    assert database.asked == 3


async def test_one_refresh_is_under_way_at_a_time(database: Database, clock: Clock) -> None:
    made = Acceptance()
    await made.check()
    clock.now += 6
    await made.check()
    first = made.refreshing
    assert first is not None
    clock.now += 6
    await made.check()
    assert made.refreshing is first
    async with asyncio.timeout(60):
        await first
    clock.now += 6
    assert (await status(made), made.refreshing is first, database.asked) == (200, False, 3)


async def test_without_an_answer_the_last_one_stays(database: Database, clock: Clock) -> None:
    made = Acceptance()
    database.answer = AWAY
    assert await status(made) == 200
    for answer, expected in ((NONE_WORKS, 503), (AWAY, 503), ("", 200), (AWAY, 200)):
        database.answer = answer
        clock.now += 16
        assert await status(made) == expected


async def test_a_change_is_logged_once(
    database: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    made = Acceptance()
    for answer in ("", NONE_WORKS, NONE_WORKS, "", ""):
        database.answer = answer
        clock.now += 16
        await status(made)
    assert [each.getMessage() for each in caplog.records] == [
        f"messages are refused: {NONE_WORKS}",
        "messages are taken again",
    ]


async def test_nothing_is_known_after_it_was_cleared(database: Database) -> None:
    made = Acceptance()
    database.answer = NONE_WORKS
    await status(made)
    made.clear_cache()
    assert made.reason == ""
    database.answer = ""
    assert (await status(made), database.asked) == (200, 2)


# The method --------------------------------------------------------------------------------------


async def admitted(method: str, *methods: str) -> tuple[int, str, str]:
    """Return the status, the text and the methods that a refusal allows."""
    request = Request({"method": method, "path": "/", "headers": []})
    try:
        await admit(request, methods=methods)
    except RefusedError as error:
        return error.status, str(error), error.headers.get("Allow", "")
    return 200, "", ""


async def test_a_method_that_an_endpoint_does_not_have_is_refused() -> None:
    fine = (200, "", "")
    assert await admitted("GET", "GET", "POST") == await admitted("POST", "GET", "POST") == fine
    assert await admitted("PUT", "GET", "POST") == (405, "Use GET.", "GET, POST")
    assert await admitted("GET", "POST") == (405, "Use POST.", "POST")
    assert await admitted("PUT") == fine
    assert await admitted("TRACE") == (405, "Use GET.", "GET, POST")
    assert await admitted("TRACE", "TRACE") == (405, "Use TRACE.", "TRACE")


async def test_only_a_post_needs_a_worker(database: Database) -> None:
    module.acceptance.clear_cache()
    database.answer = NONE_WORKS
    assert (await admitted("POST"))[0] == 503
    assert (await admitted("GET"))[0] == (await admitted("DELETE"))[0] == 200
    assert (await admitted("POST", "GET"))[0] == 405


# The host ----------------------------------------------------------------------------------------


async def sent(
    *hosts: str, path: str = "/x", kind: str = "http", others: Iterable[str] = ()
) -> list[Any]:
    """Return what a client gets; ``inner`` where the application is asked."""
    found: list[Any] = []

    async def inner(scope: Scope, receive: Any, send: Any) -> None:
        assert (scope["path"], await receive()) == (path, "body")
        await send("inner")

    async def receive() -> Any:
        return "body"

    async def send(message: Any) -> None:
        found.append(message)

    fields = [(b"host", each.encode("latin-1")) for each in hosts]
    fields += [(each.encode(), b"evil.example") for each in others]
    scope: Scope = {"type": kind, "path": path, "headers": fields}
    await our_host(inner)(scope, receive, send)
    return found


@pytest.fixture(autouse=True)
def own_hosts(settings: Settings) -> None:
    """Allow a name and the names below another one."""
    settings.ALLOWED_HOSTS = ["gateway.example", ".lan.example", "192.0.2.1"]


@pytest.mark.parametrize(
    "host",
    [
        "gateway.example",
        "GATEWAY.example:8443",
        "gateway.example.",
        "a.lan.example",
        "192.0.2.1:80",
    ],
)
async def test_our_hosts_are_ours(host: str) -> None:
    assert await sent(host) == ["inner"]
    assert await sent(host, kind="websocket") == ["inner"]
    assert await sent(host, others=["x-forwarded-host"]) == ["inner"]


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["evil.example"],
        ["gateway.example.evil.example"],
        ["evil.example:gateway.example"],
        ["gateway.example@evil.example"],
        ["gateway.example/x"],
        ["127.0.0.1"],
        ["[::1]:80"],
        ["gateway.example", "gateway.example"],
        ["gateway.example", "evil.example"],
        ["é"],
    ],
)
async def test_a_foreign_host_is_refused(hosts: list[str]) -> None:
    """A site whose name was pointed here could read answers (DNS rebinding)."""
    start, body = await sent(*hosts)
    assert (start["type"], start["status"]) == ("http.response.start", 400)
    said = json.loads(body["body"])
    assert (said["ok"], said["status"]) == (False, 400)
    assert "adds it to ALLOWED_HOSTS" in said["error"]
    assert await sent(*hosts, kind="websocket") == [{"type": "websocket.close", "code": 4403}]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_a_probe_may_use_an_address_or_no_host(path: str) -> None:
    for hosts in ([], ["192.0.2.9"], ["127.0.0.1:8000"], ["[::1]"], ["[2001:db8::1]:80"]):
        assert await sent(*hosts, path=path) == ["inner"]
        assert await sent(*hosts, path=f"{path}/") != ["inner"]
    for hosts in ([""], ["evil.example"], ["127.0.0.1", "127.0.0.1"], ["[127.0.0.1"], ["1.2.3"]):
        assert await sent(*hosts, path=path) != ["inner"]

"""A database that takes no writes: requests end with 503 soon, readiness names it ([D8] [RC6])."""

import contextlib
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.channels_app.client import Answer, Client, people
from tests.gateways import Gateway
from tests.servers import wait_until
from tests.settings import TEST_DATABASE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TEST_DATABASE == "postgres", reason="PostgreSQL locks rows, not itself"),
]
MOST_SECONDS = 5.0
SLACK_SECONDS = 3.0  # a loaded machine
ASKED = 24


@pytest.fixture(scope="module")
def gateway(module_gateways: Callable[..., Gateway]) -> Gateway:
    """Return a gateway for the tests here."""
    return module_gateways(RATE_PER_MINUTE_USER="0", RATE_PER_MINUTE_ADDRESS="0")


@pytest.fixture(scope="module")
def ada(gateway: Gateway) -> Client:
    """Return a user with a key, after one request."""
    found = people(gateway, number=1)[0]
    assert found.say("hello").status == 200
    return found


@contextlib.contextmanager
def locked(gateway: Gateway) -> Iterator[None]:
    """Hold SQLite's write lock, as another program might."""
    connection = sqlite3.connect(gateway.database_url.removeprefix("sqlite:///"), timeout=30)
    connection.isolation_level = None
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


@contextlib.contextmanager
def full(gateway: Gateway) -> Iterator[None]:
    """Let no file of the web process grow."""
    pid = gateway.pid("web")
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def timed(call: Callable[[], Answer]) -> tuple[Answer, float]:
    """Send a request; return the answer and its duration in seconds."""
    started = time.monotonic()
    return call(), time.monotonic() - started


@pytest.mark.parametrize("stuck", [locked, full])
def test_rc6_d8_requests_that_cannot_write_end_soon_and_readiness_says_so(
    stuck: Callable[[Gateway], contextlib.AbstractContextManager[None]],
    gateway: Gateway,
    ada: Client,
) -> None:
    """[D8] Many at once, at several endpoints; afterwards all is as before."""
    asks: list[Callable[[], Answer]] = [
        lambda: ada.say("now", **{"async": True}),
        lambda: ada.post("/v1/chat/completions", CHAT),
        lambda: ada.post("/api/sessions", {"title": "x"}),
    ]
    with stuck(gateway), ThreadPoolExecutor(ASKED + 1) as pool:
        ready = pool.submit(timed, lambda: ada.get("/readyz"))
        every = [pool.submit(timed, asks[number % len(asks)]) for number in range(ASKED)]
        answers = [each.result() for each in every]
        assert ready.result()[1] < MOST_SECONDS + SLACK_SECONDS
        # The last result may be two seconds old.
        wait_until(lambda: ada.get("/readyz").status == 503, what="what is wrong")
    for answer, seconds in answers:
        assert answer.status == 503, answer.raw
        assert int(answer.headers["retry-after"]) > 0
        assert seconds < MOST_SECONDS + SLACK_SECONDS, seconds
    wait_until(lambda: ada.get("/readyz").status == 200, what="readiness")
    assert ada.say("and now?").status == 200


CHAT = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}


def test_d8_problems_are_listed_with_a_credential_only(gateway: Gateway, ada: Client) -> None:
    """[D8] Account names and a platform's words need a credential; ok or not does not."""
    anybody, wrong = Client(gateway, ""), Client(gateway, "lk_wrong")
    known = ada.get("/readyz").body
    assert known.items() >= {"ok": True, "problems": [], "warnings": [], "waiting": {}}.items()
    assert known["deliveries"] == {"waiting": 0, "given_up": 0}
    assert anybody.get("/readyz").body == wrong.get("/readyz").body == {"ok": True}

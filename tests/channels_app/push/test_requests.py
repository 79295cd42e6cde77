"""The requests to push services, and what is made of the answers: without a service."""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from channels_app.push import sending
from core.conversations import push_messages, push_subscriptions
from core.conversations.push_subscriptions import Browser
from core.lib.safe_fetch import Posted, is_public
from core.models import PushMessage, PushSubscription, User
from tests.channels_app.push.conftest import answered
from tests.channels_app.push.service import ReadingBrowser, Received, bytes_of
from tests.channels_app.webchat.conftest import sign_in

pytestmark = pytest.mark.django_db(transaction=True)
State = PushMessage.State
DAY = timedelta(days=1)


@dataclass
class Fetching:
    """A fetcher without a network: ``status`` and ``headers`` are those of each answer."""

    status: int = 201
    headers: Mapping[str, str] = field(default_factory=dict)
    requests: list[tuple[str, bytes, Mapping[str, str], int]] = field(default_factory=list)

    async def post(
        self, url: str, *, body: bytes, headers: Mapping[str, str], most_bytes: int
    ) -> Posted:
        """Note a request, and answer it."""
        self.requests.append((url, body, headers, most_bytes))
        return Posted(self.status, self.headers, b"")

    @property
    def claims(self) -> dict[str, Any]:
        """Return what the only request's signature says."""
        [(_, _, headers, _)] = self.requests
        given = headers["Authorization"].partition("t=")[2].partition(",")[0]
        found: dict[str, Any] = json.loads(bytes_of(given.split(".")[1]))
        return found


@pytest.fixture
def fetching(monkeypatch: pytest.MonkeyPatch) -> Fetching:
    made = Fetching()
    monkeypatch.setattr(sending, "FETCHER", made)
    return made


@pytest.fixture
def browser(ann: User) -> ReadingBrowser:
    """Return a browser of ann."""
    reading = ReadingBrowser("https://push.example:8443/send/one")
    keys = reading.subscription["keys"]
    described = Browser(reading.endpoint, keys["p256dh"], keys["auth"], "Firefox")
    push_subscriptions.keep(user=ann, session_key=sign_in(ann), browser=described)
    return reading


def waiting(user: User, kind: str = "answer", **fields: Any) -> PushMessage:
    """Return a message that is due in the user's browser."""
    given = {"ref": answered(user, "Blue.").public_id, "expires_at": timezone.now() + DAY}
    browser = PushSubscription.objects.get(user=user)
    return PushMessage.objects.create(subscription=browser, kind=kind, **given | fields)


def send(message: PushMessage) -> float | None:
    return asyncio.run(sending.send(message.pk))


def state(message: PushMessage) -> str:
    message.refresh_from_db()
    return message.state


@pytest.mark.parametrize(("kind", "urgency"), [("answer", "normal"), ("reminder", "high")])
def test_w58_a_request_has_the_message_and_the_headers_of_the_rfcs(
    fetching: Fetching, browser: ReadingBrowser, ann: User, kind: str, urgency: str
) -> None:
    message = waiting(ann, kind)
    assert send(message) is None
    [(url, body, headers, most_bytes)] = fetching.requests
    assert (url, most_bytes) == (browser.endpoint, 1024)
    assert headers.keys() == {
        "Authorization",
        "Content-Encoding",
        "Content-Type",
        "TTL",
        "Urgency",
        "Topic",
    }
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Urgency"] == urgency
    assert 0 < int(headers["TTL"]) <= 24 * 3600
    assert browser.read(Received("", dict(headers), body))["body"] == "Blue."
    assert fetching.claims["aud"] == "https://push.example:8443"
    assert -60 < fetching.claims["exp"] - time.time() - 12 * 3600 <= 0


def test_w64_messages_that_wait_for_a_person_are_urgent() -> None:
    assert set(sending.URGENT) == {"reminder", "question", "request"}


@pytest.mark.parametrize(
    ("contact", "url", "is_https", "sub"),
    [
        ("mailto:me@example.org", "https://gate.example", True, "mailto:me@example.org"),
        ("", "https://gate.example:8443", True, "https://gate.example:8443"),
        ("", "http://gate.example:8080", False, "mailto:gateway@gate.example"),
        ("", "", False, "mailto:gateway@localhost"),
    ],
)
def test_w58_a_service_is_told_whom_it_may_write_to(
    fetching: Fetching,
    browser: ReadingBrowser,
    ann: User,
    settings: Any,
    contact: str,
    url: str,
    is_https: bool,
    sub: str,
) -> None:
    settings.PUSH_CONTACT, settings.GATEWAY_URL = contact, url
    settings.GATEWAY_HTTPS = is_https
    send(waiting(ann))
    assert fetching.claims["sub"] == sub


def test_w62_the_fetcher_waits_ten_seconds_and_asks_over_tls_only() -> None:
    assert sending.FETCHER.max_seconds == 10
    assert sending.FETCHER.https_only is True
    assert sending.FETCHER.allowed is is_public


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *((status, State.SENT) for status in (200, 201, 299)),
        *((status, State.DEAD) for status in (199, 300, 301, 400, 403, 413, 428, 430, 499)),
        *((status, State.PENDING) for status in (429, 500, 503, 599)),
    ],
)
def test_w61_an_answer_decides_the_state_of_a_message(
    fetching: Fetching, browser: ReadingBrowser, ann: User, status: int, expected: str
) -> None:
    fetching.status, fetching.headers = status, {"Retry-After": "70"}
    message = waiting(ann)
    assert send(message) == (70.0 if expected == State.PENDING else None)
    assert state(message) == expected
    assert message.error == ("" if expected == State.SENT else f"HTTP {status}")


def test_w61_an_impossible_time_to_come_back_is_none(
    fetching: Fetching, browser: ReadingBrowser, ann: User
) -> None:
    """It left the message with a worker that had ended, for a minute each time."""
    fetching.status = 429
    fetching.headers = {"Retry-After": f"Fri, 31 Dec {'9' * 30} 23:59:59 GMT"}
    message = waiting(ann)
    assert send(message) == 5.0
    assert state(message) == State.PENDING


def test_a_message_that_is_not_due_is_not_claimed(
    fetching: Fetching, browser: ReadingBrowser, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = waiting(ann, retry_at=timezone.now() + timedelta(seconds=0.9))
    monkeypatch.setattr(push_messages, "claim", None)
    wait = send(message)
    assert wait is not None
    assert 0 < wait < 0.9
    assert send(waiting(ann, state=State.SENT)) is None


def test_a_message_that_cannot_be_claimed_is_looked_at_soon_or_when_it_is_due(
    fetching: Fetching, browser: ReadingBrowser, ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the database may be behind; another worker may be faster."""
    message = waiting(ann)
    monkeypatch.setattr(push_messages, "claim", lambda _: None)
    assert send(message) == 0.05
    until = timezone.now() + timedelta(minutes=1)

    def holding(_: int) -> None:
        PushSubscription.objects.update(held_until=until)

    monkeypatch.setattr(push_messages, "claim", holding)
    wait = send(message)
    assert wait is not None
    assert 50 < wait < 60
    PushSubscription.objects.update(held_until=None)

    def losing(message_id: int) -> None:
        PushMessage.objects.filter(pk=message_id).update(state=State.SENT)

    monkeypatch.setattr(push_messages, "claim", losing)
    assert send(message) is None
    assert fetching.requests == []


@pytest.mark.parametrize(("left", "expected"), [(0.5, State.SENT), (0.0, State.STALE)])
def test_w61_a_message_is_sent_until_its_end(
    fetching: Fetching,
    browser: ReadingBrowser,
    ann: User,
    monkeypatch: pytest.MonkeyPatch,
    left: float,
    expected: str,
) -> None:
    message = waiting(ann)

    class Late:
        """The clock, shortly before the end of the message."""

        @staticmethod
        def now() -> object:
            return message.expires_at - timedelta(seconds=left)

    monkeypatch.setattr(sending, "timezone", Late)
    send(message)
    assert state(message) == expected
    assert [headers["TTL"] for _, _, headers, _ in fetching.requests] == ["0"] * (left > 0)


def test_w59_only_the_browser_of_a_session_that_has_ended_is_forgotten(
    fetching: Fetching, browser: ReadingBrowser, ann: User
) -> None:
    message = waiting(ann)
    ended = {"user": ann, "session_key": "ended"}
    PushSubscription.objects.update(session_key="ended")
    other = PushSubscription.objects.create(endpoint="https://push.example/other", **ended)
    assert send(message) is None
    assert list(PushSubscription.objects.all()) == [other]
    assert fetching.requests == []


async def test_w61_sixteen_messages_are_sent_at_once() -> None:
    async with asyncio.timeout(10):
        for _ in range(16):
            assert not sending.places().locked()
            await sending.places().acquire()
        assert sending.places().locked()

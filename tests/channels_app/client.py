"""An HTTP client of a gateway, and users with keys."""

import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.gateways import Gateway, Reached

MOST_BUSY = 10
MAKE_PEOPLE = """
import json
from allowlist import keys
from core.models import ChannelAccount, User
tokens = []
for number in range({number}):
    user, _ = User.objects.get_or_create(
        username=f"{name}-{{number}}", defaults={{"is_owner": {owner}, "is_staff": {owner}}}
    )
    tokens.append(keys.create(name="test", user=user, scopes=["inbound", "chat"])[1])
bridge, _ = ChannelAccount.objects.get_or_create(channel="{channel}", name="{name}")
tokens.append(keys.create(name="bridge", account=bridge, scopes=["inbound"])[1])
print("TOKENS", json.dumps(tokens))
"""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        value = json.loads(self.raw)
        assert isinstance(value, dict)
        return value


@dataclass(frozen=True)
class Event:
    """A server-sent event."""

    id: str
    data: dict[str, Any]
    raw: bytes


@dataclass(frozen=True)
class Open:
    """An answer that is not read yet."""

    connection: HTTPConnection
    response: HTTPResponse

    def close(self) -> None:
        """Close the connection."""
        self.response.close()
        self.connection.close()

    def __enter__(self) -> HTTPResponse:
        return self.response

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Client:
    """A client with ``token``."""

    gateway: Gateway
    token: str
    timeout: float = 60
    headers: dict[str, str] = field(default_factory=dict)

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Open:
        """Send a request."""
        address = urlsplit(self.gateway.base_url)
        assert address.hostname
        connection = HTTPConnection(address.hostname, address.port, timeout=self.timeout)
        every = {"Content-Type": "application/json", **self.headers}
        if self.token:
            every["Authorization"] = f"Bearer {self.token}"
        every |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body=body, headers=every)
            return Open(connection, connection.getresponse())
        except BaseException:
            connection.close()
            raise

    def call(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        """Send a request and read the whole answer."""
        with self.request(method, path, body, **headers) as response:
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())

    def get(self, path: str, **headers: str) -> Answer:
        return self.call("GET", path, None, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.call("POST", path, json.dumps(body).encode(), **headers)

    def say(self, text: str, **more: Any) -> Answer:
        """Send ``POST /inbound`` and wait for the answer."""
        return self.post("/inbound", {"text": text, **more})

    def start(self, text: str, **more: Any) -> str:
        """Send a message without waiting, in a conversation of its own; return the id of the
        run. When the gateway is busy, it comes again as ``Retry-After`` says, like any client.
        """
        more = {"async": True, "user_id": secrets.token_hex(8), **more}
        answer = when_free(lambda: self.say(text, **more))
        assert answer.status == 202, answer.raw
        return str(answer.body["run_id"])

    def result(self, run_id: str) -> Answer:
        """Return the answer of ``GET /inbound/result``."""
        return self.get(f"/inbound/result?run_id={run_id}")

    def stream(
        self, method: str, path: str, body: Any = None, *, stop_after: int = 0, **headers: str
    ) -> list[Event]:
        """Return the events of a stream; with ``stop_after`` the client leaves after so many."""
        given = None if body is None else json.dumps(body).encode()
        with self.request(method, path, given, **headers) as response:
            assert response.status == 200, response.read()
            found: list[Event] = []
            for event in events(response):
                found.append(event)
                if len(found) == stop_after:
                    break
            return found

    def follow(self, run_id: str, **how: Any) -> list[Event]:
        """Return the events of ``GET /runs/<id>/events``."""
        return self.stream("GET", f"/runs/{run_id}/events", **how)


def when_free(send: Callable[[], Answer]) -> Answer:
    """Return the answer to a request that is sent again while the server is busy, as it says."""
    for _ in range(MOST_BUSY):
        answer = send()
        if answer.status != 503:
            break
        time.sleep(int(answer.headers["retry-after"]))
    return answer


def events(response: Any) -> Iterator[Event]:
    """Return the events of a body; comments are left out."""
    raw, name, data = b"", "", ""
    for line in iter(response.readline, b""):
        raw += line
        if line.startswith(b"id:"):
            name = line[3:].strip().decode()
        elif line.startswith(b"data:"):
            data = line[5:].strip().decode()
        elif line in (b"\n", b"\r\n"):
            if data:
                yield Event(name, json.loads(data), raw)
            raw, name, data = b"", "", ""


def people(
    gateway: Gateway,
    *,
    number: int,
    name: str = "user",
    owner: bool = False,
    channel: str = "bridge",
    more: str = "",
) -> list[Client]:
    """Create users with a key, and last the key of a bridge account ``channel/name``.

    ``more`` is additional code for the gateway's shell.
    """
    code = MAKE_PEOPLE.format(number=number, name=name, owner=owner, channel=channel) + more
    output = gateway.manage("shell", "-v0", "-c", code)
    line = next(line for line in output.splitlines() if line.startswith("TOKENS"))
    return [Client(gateway, token) for token in json.loads(line.removeprefix("TOKENS"))]


def query(gateway: Reached, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query in the database of ``gateway``."""
    return query_url(gateway.database_url, sql)


def query_url(url: str, sql: str) -> list[Any]:
    """Return the rows of a query in a database."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(urlsplit(url).path, timeout=20)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()
    with psycopg.connect(url.replace("postgres://", "postgresql://")) as postgres:
        return postgres.execute(sql.encode()).fetchall()


def counts(gateway: Gateway) -> dict[str, int]:
    """Return the numbers of rows in the tables that a message writes to."""
    tables = ("inboundmessage", "run", "message", "chatsession", "runevent", "delivery")
    return {name: query(gateway, f"SELECT count(*) FROM core_{name}")[0][0] for name in tables}

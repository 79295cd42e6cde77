"""A broker behind TLS (``rediss``): an unverified one does not get the password."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from celery import Celery
from kombu.exceptions import OperationalError

from gateway_project import environment
from tests import settings
from tests.certificates import certified


@dataclass(frozen=True)
class TlsServer:
    """TLS in front of the broker of this test. ``certificate``: the file that it shows."""

    port: int
    certificate: Path

    def url(self, query: str = "") -> str:
        return f"rediss://:{settings.BROKER_PASSWORD}@127.0.0.1:{self.port}/7{query}"


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[TlsServer]:
    shown, kept = certified(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown, kept)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening, context), daemon=True).start()
        yield TlsServer(listening.getsockname()[1], shown)


def serve(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Accept connections and relay them, until the listener is closed."""
    with suppress(OSError):
        while True:
            raw, _ = listening.accept()
            threading.Thread(target=pass_on, args=(raw, context), daemon=True).start()


def pass_on(raw: socket.socket, context: ssl.SSLContext) -> None:
    """Relay bytes between a client and the broker, both ways."""
    with suppress(OSError), context.wrap_socket(raw, server_side=True) as client:
        broker = socket.create_connection(("127.0.0.1", settings.BROKER_PORT))
        threading.Thread(target=pump, args=(broker, client), daemon=True).start()
        pump(client, broker)


def pump(source: socket.socket, target: socket.socket) -> None:
    """Copy all bytes of ``source``."""
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.close()


def wakes(url: str) -> bool:
    """Return whether Celery speaks with the broker at ``url``."""
    app = Celery(broker=url)
    try:
        with app.connection_for_write(transport_options={"max_retries": 1}) as connection:
            connection.ensure_connection(max_retries=1, timeout=30)
            channel: Any = connection.default_channel
            return bool(channel.client.ping())
    except OperationalError:
        return False
    finally:
        app.close()


def answers(url: str) -> bool:
    """Return whether the broker at ``url`` answers redis-py."""
    with redis.Redis.from_url(url) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False


@pytest.mark.parametrize("client", [wakes, answers])
def test_an_unverified_broker_gets_no_password(
    tls: TlsServer, monkeypatch: pytest.MonkeyPatch, client: Callable[[str], bool]
) -> None:
    """Celery alone says "defaulting to insecure SSL behaviour", and goes on."""
    known = f"?ssl_ca_certs={tls.certificate}"
    for query, may_speak in (("", False), (known, True), ("?ssl_cert_reqs=none", True)):
        monkeypatch.setenv("REDIS_URL", tls.url(query))
        url = environment.broker("REDIS_URL", str, in_production=True)
        assert client(url) is may_speak, query

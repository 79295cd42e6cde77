"""The owner is told of troubles of the installation: once, and once when they are over."""

import asyncio
import errno
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from allowlist import keys
from allowlist.models import ApiKey
from channels_app.memory.channel import PLATFORM
from channels_app.owner import alert_checks, alerts, notices
from channels_app.worker.runner import Runner
from core.conversations import runs
from core.lib import encryption
from core.models import (
    Alert,
    ChannelAccount,
    ChatSession,
    Delivery,
    Installation,
    Job,
    McpConnection,
    McpServer,
    Run,
    User,
)
from tests.channels_app.running import memory_account, runner, until

__all__ = ["runner"]
pytestmark = pytest.mark.django_db(transaction=True)
USAGE = shutil.disk_usage
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@pytest.fixture
def account(owner: User) -> ChannelAccount:
    """Return a channel that reaches the owner."""
    made = memory_account()
    owner.last_account, owner.last_target = made, {"chat": "own", "thread": ""}
    owner.only_listed = True
    owner.save()
    return made


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return ``free(percent)``: the part of the disk that is free."""

    def set_free(percent: int) -> None:
        usage = type(USAGE("/"))(100 * 10**9, (100 - percent) * 10**9, percent * 10**9)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)

    set_free(50)
    return set_free


def told() -> list[str]:
    """Return the notices that are queued or sent, in order."""
    rows = Delivery.objects.filter(dedupe_key__startswith="notice:alert:").order_by("id")
    return [str(row.payload["text"]) for row in rows]


def test_x80_a_disk_that_is_nearly_full_is_told_once_and_again_when_it_is_good(
    account: ChannelAccount, free: Callable[[int], None]
) -> None:
    """Not for a moment only, and not again for a value around the limit."""
    now = timezone.now()
    free(9)
    alerts.look(now=now)
    free(50)
    alerts.look(now=now + MINUTE)
    assert (told(), Alert.objects.count()) == ([], 0)
    free(9)
    for minute in range(10):
        alerts.look(now=now + minute * MINUTE)
        free(9 if minute % 2 else 11)
    [text] = told()
    assert "is nearly full: 11.0 of 100.0 GB are free" in text
    free(13)
    alerts.look(now=now + 20 * MINUTE)
    alerts.look(now=now + 21 * MINUTE)
    assert len(told()) == 2
    assert told()[1] == f"The disk of {socket.gethostname()} has enough space again."
    assert not Alert.objects.exists()
    free(9)
    for minute in (30, 32):
        alerts.look(now=now + minute * MINUTE)
    assert len(told()) == 3, "another time"


def test_x80_a_disk_that_cannot_be_looked_at_leaves_the_other_alerts(
    account: ChannelAccount, free: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a file server that is away. A trouble that is known is neither over nor told."""

    def away(_: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    now = timezone.now()
    free(9)
    alerts.look(now=now)
    monkeypatch.setattr(shutil, "disk_usage", away)
    Alert.objects.create(name="key:12345", seen_at=now, told_at=now)
    for minute in (-5, 5, 6):
        alerts.look(now=now + minute * MINUTE)
    assert [each.name for each in Alert.objects.all()] == [f"disk:{socket.gethostname()}"]
    assert told() == []
    free(9)
    alerts.look(now=now + 7 * MINUTE)
    monkeypatch.setattr(shutil, "disk_usage", away)
    alerts.look(now=now + 8 * MINUTE)
    assert len(told()) == 1
    free(50)
    alerts.look(now=now + 9 * MINUTE)
    assert len(told()) == 2


def test_x80_the_real_worker_tells_it_on_the_owners_channel(
    account: ChannelAccount,
    free: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    runner: Runner,
) -> None:
    monkeypatch.setattr(alert_checks, "LASTING", timedelta(0))
    free(5)
    until(lambda: PLATFORM.texts("own"))
    free(50)
    until(lambda: len(PLATFORM.texts("own")) == 2)
    first, second = PLATFORM.texts("own")
    assert "nearly full" in first
    assert "has enough space again" in second


def test_x81_of_several_workers_one_tells(
    account: ChannelAccount, free: Callable[[int], None]
) -> None:
    free(9)
    now = timezone.now()
    alerts.look(now=now)
    for minute, number in ((5, 1), (6, 1)):
        at_once(partial(alerts.look, now=now + minute * MINUTE))
        assert len(told()) == number
    free(50)
    at_once(partial(alerts.look, now=now + 9 * MINUTE))
    assert len(told()) == 2


def at_once(call: Callable[[], None]) -> None:
    """Call it in four threads at the same moment."""
    ready = threading.Barrier(4)

    def work() -> None:
        ready.wait()
        try:
            call()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(work) for _ in range(4)]:
            each.result()


def test_x81_a_kill_while_it_is_told_leaves_nothing_half_done(
    account: ChannelAccount, free: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state and the notices are one transaction: the next look tells it, once."""
    free(9)
    now = timezone.now()
    alerts.look(now=now)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for minute, state in ((5, "begin"), (9, "end")):
        free(9 if state == "begin" else 50)
        with monkeypatch.context() as patched:
            patched.setattr(notices, "notify", die)
            with pytest.raises(KeyboardInterrupt):
                alerts.look(now=now + minute * MINUTE)
        assert Alert.objects.filter(told_at=None).exists() is (state == "begin")
        before = len(told())
        alerts.look(now=now + (minute + 1) * MINUTE)
        alerts.look(now=now + (minute + 2) * MINUTE)
        assert len(told()) == before + 1


def test_x81_another_machines_disk_is_left_to_it_until_it_is_gone(
    account: ChannelAccount, free: Callable[[int], None]
) -> None:
    now = timezone.now()
    Alert.objects.create(name="disk:other", seen_at=now, told_at=now)
    runs.heard_from(worker="other:1:2", queue="runs")
    alerts.look(now=now)
    assert Alert.objects.exists()
    runs.heard().delete()
    alerts.look(now=now)
    assert (told(), Alert.objects.count()) == ([], 0)


def test_x82_a_queue_that_waits_for_a_worker_is_told_and_one_behind_itself_is_not(
    account: ChannelAccount, free: Callable[[int], None], guest: User
) -> None:
    now = timezone.now()
    session = ChatSession.objects.create(user=guest, account=account, chat="c")
    first, second = (
        Run.objects.create(session=session, user=guest, origin="memory") for _ in range(2)
    )
    Run.objects.update(created_at=now - 20 * MINUTE)
    Run.objects.filter(pk=first.pk).update(state="running")
    look_twice(now)
    assert told() == [], "it waits behind the run before it"
    Run.objects.filter(pk=first.pk).update(state="succeeded", finished_at=now - MINUTE)
    look_twice(now)
    assert told() == [], "it waits for a worker since a minute"
    Run.objects.filter(pk=first.pk).update(finished_at=now - 15 * MINUTE)
    look_twice(now)
    [text] = told()
    assert text.startswith("Messages wait for a worker since ")
    Run.objects.filter(pk=second.pk).update(state="running")
    look_twice(now)
    assert told()[1:] == ["Messages do not wait for a worker any more."]
    job = Job.objects.create(run=second, tool="slides")
    Job.objects.update(created_at=now - 20 * MINUTE)
    look_twice(now)
    job.delete()
    look_twice(now)
    assert [each.split(" a worker")[0] for each in told()[2:]] == [
        "Long tasks wait for",
        "Long tasks do not wait for",
    ]


def look_twice(now: datetime) -> None:
    for seconds in (0, 61):
        alerts.look(now=now + timedelta(seconds=seconds))


def test_x83_a_key_of_an_owner_that_ends_is_told_before(
    account: ChannelAccount, free: Callable[[int], None], owner: User, guest: User
) -> None:
    """Not one that is made for a few days, revoked, or of another person."""
    now = timezone.now()
    for name, person, days in (
        ("laptop", owner, 90),
        ("revoked", owner, 90),
        ("for a while", owner, 90),
        ("guest's", guest, 90),
    ):
        keys.create(name=name, user=person, scopes=["chat"], expires_at=now + days * DAY)
    ApiKey.objects.filter(name="revoked").update(revoked_at=now)
    ApiKey.objects.filter(name="for a while").update(created_at=now + 80 * DAY)
    for day in (0, 80, 84, 85):
        alerts.look(now=now + day * DAY)
    [text] = told()
    assert text.startswith("The API key laptop is valid until ")
    ApiKey.objects.filter(name="laptop").update(expires_at=now + 200 * DAY)
    alerts.look(now=now + 86 * DAY)
    assert told()[1:] == ["The API key laptop is valid for longer."]
    alerts.look(now=now + 195 * DAY)
    alerts.look(now=now + 201 * DAY)
    assert len(told()) == 3, "its end itself is no good news"
    assert not Alert.objects.exists()


def test_x83_an_account_at_an_mcp_server_that_ends_is_told_before(
    account: ChannelAccount, free: Callable[[int], None], owner: User
) -> None:
    """Not one that the gateway renews by itself."""
    now = timezone.now()
    server = McpServer.objects.create(name="Notes", slug="notes", url="https://notes.example/")
    for person, tokens in (
        (owner, {"access_token": "a"}),
        (None, {"access_token": "a", "refresh_token": "r"}),
    ):
        McpConnection.objects.create(
            server=server,
            user=person,
            secrets=encryption.encrypt(tokens),
            connected_at=now - 80 * DAY,
            expires_at=now + 3 * DAY,
        )
    alerts.look(now=now)
    [text] = told()
    assert text.startswith("The account at the MCP server Notes (owner) is valid until ")
    McpConnection.objects.update(expires_at=now + 90 * DAY)
    alerts.look(now=now)
    assert told()[1:] == ["The account at the MCP server Notes (owner) is valid for longer."]


def certificate(folder: Path, *, days: int) -> Path:
    """Return a file with a key and a certificate that ends in so many days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 90 * DAY)
        .not_valid_after(now + days * DAY)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = folder / f"{days}.pem"
    path.write_bytes(key.private_bytes(pem, form, plain) + made.public_bytes(pem))
    return path


@contextmanager
def tls_server(path: Path, asked: list[int]) -> Iterator[int]:
    """Yield the port of a server with a certificate; ``asked`` gets an entry a connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def serve() -> None:
            while True:
                try:
                    client, _ = plain.accept()
                except OSError:
                    return
                asked.append(1)
                try:
                    context.wrap_socket(client, server_side=True).close()
                except OSError:
                    client.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield plain.getsockname()[1]
        finally:
            plain.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_x84_a_certificate_that_ends_is_told_and_its_renewal(
    account: ChannelAccount,
    free: Callable[[int], None],
    settings: Settings,
    tmp_path: Path,
    runner: Runner,
) -> None:
    """The public address is connected to once a day, by the real worker."""
    asked: list[int] = []

    def serve(days: int) -> Any:
        return tls_server(certificate(tmp_path, days=days), asked)

    with serve(5) as port:
        settings.GATEWAY_URL = f"https://127.0.0.1:{port}"
        settings.GATEWAY_HTTPS = True
        until(lambda: PLATFORM.texts("own"))
        checked = Installation.objects.get().certificate_checked_at
    [text] = PLATFORM.texts("own")
    assert text.startswith(f"The TLS certificate of https://127.0.0.1:{port} is valid until ")
    assert len(asked) == 1
    assert checked is not None
    with serve(80) as port:
        settings.GATEWAY_URL = f"https://127.0.0.1:{port}"
        Installation.objects.update(certificate_checked_at=checked - DAY)
        until(lambda: len(PLATFORM.texts("own")) == 2)
    assert PLATFORM.texts("own")[1].endswith(" was renewed.")
    assert len(asked) == 2


def test_x84_an_address_that_is_not_reached_changes_nothing(
    account: ChannelAccount, free: Callable[[int], None], settings: Settings, tmp_path: Path
) -> None:
    """It may be reachable from outside only. Two workers ask it once a day."""
    settings.GATEWAY_URL, settings.GATEWAY_HTTPS = "https://127.0.0.1:1", True
    now = timezone.now()
    taken = [alerts.take_certificate_check(now=now + hours * DAY / 24) for hours in (0, 1, 23, 25)]
    assert taken == [True, False, False, True]
    Installation.objects.update(certificate_ends_at=now + 5 * DAY)
    asyncio.run(alerts.check_certificate())
    alerts.look(now=now)
    assert len(told()) == 1

"""A person whose every word is one that is found nowhere else, in a running gateway: forgotten."""

import io
import json
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
import redis
from websockets.exceptions import WebSocketException

from tests import templates
from tests.channels_app.client import Client, people, query
from tests.channels_app.socket_client import Socket
from tests.conftest import DatabaseMaker
from tests.gateways import Gateway
from tests.models_chaos.owner import signed_in
from tests.servers import wait_until

pytestmark = pytest.mark.slow
CANARY = "zorvillex"
SCRIPT = [
    {"match": "^hang", "steps": [{"text": f"{CANARY}reply begun. "}, {"hang": True}]},
    {"match": "", "steps": [{"text": "You said: {input}"}]},
]
OWNER = """
from core.models import User
User.objects.create(username="boss", is_owner=True, is_staff=True, is_superuser=True)
"""
PASSWORD = f"""
from core.models import User
user = User.objects.get(username="{CANARY}-user")
user.set_password("correct horse"); user.save()
"""
PLAN = {"at": "2100-01-01T08:00", "rule": "FREQ=DAILY", "time_zone": "UTC"}


@pytest.fixture
def running(new_database: DatabaseMaker, tmp_path: Path) -> Iterator[Gateway]:
    """Start a gateway with its database in its home, as `manage.py up` has it."""
    folder = tmp_path / "gateway"
    (folder / "home").mkdir(parents=True)
    url = new_database()
    if url.startswith("sqlite"):
        place = folder / "home" / "gateway.sqlite3"
        shutil.copy(urlsplit(url).path, place)
        url = f"sqlite:///{place}"
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    gateway = Gateway(folder=folder, database_url=url, extra={"LLM_SCRIPT": str(script)})
    templates.collect_static(gateway)
    gateway.start()
    yield gateway
    gateway.stop()


def rows(gateway: Gateway, sql: str) -> list[dict[str, Any]]:
    """Return rows with the names of their columns."""
    url = gateway.database_url
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(urlsplit(url).path, timeout=20)) as opened:
            opened.row_factory = sqlite3.Row
            return [dict(each) for each in opened.execute(sql)]
    with psycopg.connect(url.replace("postgres://", "postgresql://")) as opened_pg:
        cursor = opened_pg.execute(sql.encode())
        names = [each.name for each in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def tables(gateway: Gateway) -> list[str]:
    if gateway.database_url.startswith("sqlite"):
        found = query(gateway, "SELECT name FROM sqlite_master WHERE type = 'table'")
    else:
        found = query(gateway, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        found.append(("pg_stats",))
    return [row[0] for row in found]


def places_in_tables(gateway: Gateway) -> set[str]:
    """Return table and column of every value with the word."""
    found = set()
    for table in tables(gateway):
        for row in rows(gateway, f'SELECT * FROM "{table}"'):
            for column, value in row.items():
                raw = (
                    bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode()
                )
                if CANARY.encode() in raw.lower():
                    found.add(f"{table}.{column}")
    return found


def files_with_word(gateway: Gateway) -> list[str]:
    """Return the files below the gateway's folder with the word in their name or bytes: its home,
    the broker's files, the logs of all processes."""
    return [
        str(each.relative_to(gateway.folder))
        for each in gateway.folder.rglob("*")
        if each.is_file()
        and (CANARY in each.name.lower() or CANARY.encode() in each.read_bytes().lower())
    ]


def broker_has_word(gateway: Gateway) -> bool:
    with closing(redis.Redis.from_url(gateway.broker.url)) as client:
        for key in client.scan_iter(count=1000):
            if CANARY.encode() in key.lower() or CANARY.encode() in (client.dump(key) or b""):
                return True
            if client.type(key) == b"stream" and CANARY in str(client.xrange(key)).lower():
                return True
    return False


def let_in(gateway: Gateway, bridge: Client) -> int:
    """Write as an unknown sender of a bridge, and approve it; return the person's number."""
    said = {
        "user_id": f"{CANARY}-address",
        "user_name": f"{CANARY}-sender",
        "text": f"{CANARY} asks to come in",
    }
    bridge.post("/inbound", said)
    listed = gateway.manage("requests", "list")
    assert CANARY in listed
    gateway.manage("requests", "approve", listed.split()[0], "--owner", "boss")
    answer = bridge.post("/inbound", {**said, "text": f"{CANARY} is in"})
    assert answer.status == 200, answer.raw
    [(number,)] = query(
        gateway, f"SELECT user_id FROM core_channelidentity WHERE value = '{CANARY}-address'"
    )
    return int(number)


def live(gateway: Gateway, bridge: Client) -> tuple[int, Client]:
    """Do what a person does, each with the word; return their number and a client."""
    number = let_in(gateway, bridge)
    with signed_in(gateway) as owner:
        owner.submit(
            f"/admin/core/user/{number}/change/",
            username=f"{CANARY}-user",
            display_name=f"{CANARY} Display",
        )
    gateway.manage("shell", "-v0", "-c", PASSWORD)
    made = gateway.manage(
        "create_key",
        f"{CANARY}-key",
        "--user",
        f"{CANARY}-user",
        "--scope",
        "chat",
        "--scope",
        "inbound",
    )
    token = next(word for word in made.split() if word.startswith("lk_"))
    client = Client(gateway, token)
    file = client.call("POST", f"/files?name={CANARY}-file.txt", f"{CANARY} content".encode())
    assert file.status == 201, file.raw
    answer = client.say(f"{CANARY} sends a file", files=[file.body["id"]])
    assert answer.status == 200, answer.raw
    body = {"model": "default", "messages": [{"role": "user", "content": f"{CANARY} in v1"}]}
    assert client.post("/v1/chat/completions", body).status == 200
    made_plan = client.post("/api/schedules", {"text": f"{CANARY} reminder", **PLAN})
    assert made_plan.status == 201, made_plan.raw
    with httpx.Client(base_url=gateway.base_url, timeout=60, trust_env=False) as browser:
        for word in ("wrong", "correct horse"):
            browser.get("/sign-in")
            form = {
                "username": f"{CANARY}-user",
                "password": word,
                "csrfmiddlewaretoken": browser.cookies.get("csrftoken", ""),
            }
            browser.post("/sign-in", data=form, headers={"Referer": f"{gateway.base_url}/sign-in"})
    return number, client


def kept(gateway: Gateway, number: int) -> list[list[dict[str, Any]]]:
    """Return rows of a person."""
    chats = f"SELECT id FROM core_chatsession WHERE user_id = {number}"
    turns = f"SELECT id FROM core_run WHERE user_id = {number}"
    return [
        rows(gateway, f"SELECT * FROM core_user WHERE id = {number}"),
        rows(gateway, f"SELECT * FROM core_chatsession WHERE user_id = {number}"),
        rows(gateway, f"SELECT * FROM core_message WHERE session_id IN ({chats}) ORDER BY id"),
        rows(gateway, f"SELECT * FROM core_run WHERE user_id = {number} ORDER BY id"),
        rows(
            gateway, f"SELECT * FROM core_runevent WHERE run_id IN ({turns}) ORDER BY run_id, seq"
        ),
        rows(gateway, f"SELECT * FROM core_inboundmessage WHERE user_id = {number} ORDER BY id"),
    ]


def is_closed(socket: Socket) -> bool:
    try:
        socket.receive(seconds=0.2)
    except TimeoutError:
        return False
    except (WebSocketException, OSError):
        return True
    return False


def by_command(gateway: Gateway, number: int) -> None:
    """Export, and forget, with the commands."""
    place = gateway.folder.parent / "export"
    gateway.manage("person", "export", f"{CANARY}-user", "--to", str(place))
    assert f"{CANARY} in v1" in (place / "person.json").read_text()
    del number
    assert "Forgotten" in gateway.manage("person", "forget", f"{CANARY}-user")


def in_the_admin(gateway: Gateway, number: int) -> None:
    """The same on the person's page."""
    with signed_in(gateway) as owner:
        page = f"/admin/core/user/{number}"
        form = {"csrfmiddlewaretoken": owner.browser.cookies.get("csrftoken") or ""}
        headers = {"Referer": f"{gateway.base_url}{page}/change/"}
        answer = owner.browser.post(f"{page}/export/", data=form, headers=headers)
        assert answer.status_code == 200
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            assert f"{CANARY} in v1" in archive.read("person.json").decode()
        there = owner.submit(f"{page}/forget/", name=f"{CANARY}-user")
        gateway.kill("runs")  # perhaps while it cleans
        gateway.restart("runs")
        assert "All is removed. Backups" in owner.get(there)
        wait_until(lambda: "Being cleaned" not in owner.get(there), seconds=60)


@pytest.mark.parametrize(
    "forget",
    [
        pytest.param(by_command, marks=pytest.mark.on("postgres")),
        pytest.param(in_the_admin, marks=pytest.mark.on("sqlite")),
    ],
)
def test_x24_x28_a_person_of_a_running_gateway_is_forgotten_to_the_last_byte(
    running: Gateway, forget: Callable[[Gateway, int], None]
) -> None:
    """[X23] [X24] [X28] Messages by requests, a turn under way, a socket open; another person
    stays."""
    other, bridge = people(running, number=1, name="other", more=OWNER)
    assert other.say("Milk and bread").status == 200
    number, client = live(running, bridge)
    [(stays,)] = query(running, "SELECT id FROM core_user WHERE username LIKE 'other%'")
    before = kept(running, stays)
    assert all(before)
    socket = Socket(running, client.token)
    socket.connect()
    run, _ = socket.say(f"hang on, {CANARY}", client_id="1")
    socket.until(run, 3)
    assert len(places_in_tables(running)) > 20
    assert files_with_word(running)
    assert broker_has_word(running)

    forget(running, number)

    wait_until(lambda: is_closed(socket), what="the end of the socket")
    assert client.say("still here?").status == 401
    assert places_in_tables(running) == set()
    assert not broker_has_word(running)
    assert files_with_word(running) == []
    assert kept(running, stays) == before
    assert "intact" in running.manage("audit_verify")
    assert not query(running, f"SELECT id FROM core_user WHERE id = {number}")
    again = bridge.post("/inbound", {"user_id": f"{CANARY}-address", "text": "hello"})
    assert again.status == 401, again.raw

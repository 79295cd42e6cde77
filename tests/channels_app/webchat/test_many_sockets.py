"""Many people over ``/ws`` at once, each answered once and in order ([D3]); the end of one [A9]."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed

from tests.channels_app.client import Client, Event, query, when_free
from tests.channels_app.socket_client import Socket
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow


def test_fifty_people_over_sockets_and_http_at_once(crowd: list[Client], gateway: Gateway) -> None:
    """Four messages each into one session, sent without waiting for the answers."""
    start = threading.Barrier(50)

    def over_socket(number: int) -> list[str]:
        with Socket(gateway, crowd[number].token) as socket:
            start.wait(timeout=60)
            run, session = socket.say(f"{number}: message 0", client_id="c0")
            runs = [run]
            for each in range(1, 4):
                text = f"{number}: message {each}"
                run, _ = socket.say(text, client_id=f"c{each}", session_id=session)
                runs.append(run)
            for run in runs:
                socket.until_final(run)
            return [socket.text(run) for run in runs]

    def over_http(number: int) -> list[str]:
        client = crowd[number]
        start.wait(timeout=60)
        said = when_free(lambda: client.say(f"{number}: message 0")).body
        runs = [
            client.start(f"{number}: message {each}", session_id=said["session_id"])
            for each in range(1, 4)
        ]
        return [said["text"], *(client.follow(run)[-1].data["text"] for run in runs)]

    def talk(number: int) -> list[str]:
        return over_http(number) if number % 2 else over_socket(number)

    with ThreadPoolExecutor(50) as pool:
        for number, said in enumerate(pool.map(talk, range(50))):
            assert said == [f"{number}: message {each}" for each in range(4)]
    rows = query(
        gateway,
        "SELECT m.session_id, m.text FROM core_message m WHERE m.role = 'assistant' ORDER BY m.id",
    )
    sessions: dict[int, list[str]] = {}
    for session, text in rows:
        sessions.setdefault(session, []).append(text)
    assert len(rows) == 200
    assert all(texts == sorted(texts) for texts in sessions.values())


KEY = """
from allowlist import keys
from allowlist.models import ApiKey
from django.utils import timezone
for key in ApiKey.objects.filter(user__username="user-{number}"):
    keys.revoke(key=key, actor="test", now=timezone.now())
"""
PERSON = """
from allowlist import revocation
from core.models import User
user = User.objects.get(username="user-{number}")
User.objects.filter(pk=user.pk).update(is_active=False)
revocation.end_user(user_id=user.pk)
"""


def ends(socket: Socket) -> int:
    """Return the code with which the socket is closed; earlier frames are dropped."""
    while True:
        try:
            socket.receive(seconds=60)
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 0


@pytest.mark.parametrize(("number", "how"), [(10, KEY), (11, PERSON)], ids=["key", "person"])
def test_a9_a_revocation_ends_the_stream_the_socket_and_the_run_that_waits(
    gateway: Gateway, crowd: list[Client], number: int, how: str
) -> None:
    client = crowd[number]
    session = client.say("hi").body["session_id"]
    socket = Socket(gateway, client.token)
    socket.connect()
    with ThreadPoolExecutor(2) as pool:
        body = {"text": "hang", "stream": True, "session_id": session}
        stream = pool.submit(client.stream, "POST", "/inbound", body)
        running = f"SELECT id FROM core_run WHERE state = 'running' AND user_id = {me(client)}"
        wait_until(lambda: query(gateway, running), seconds=30)
        waits = client.start("later", session_id=session)
        closed = pool.submit(ends, socket)
        gateway.manage("shell", "-v0", "-c", how.format(number=number))
        last: Event = stream.result(timeout=60)[-1]
        assert (last.data["event"], last.data["ok"]) == ("done", False)
        assert closed.result(timeout=60) == 4401
    state = f"SELECT state FROM core_run WHERE public_id = '{waits}'"
    wait_until(lambda: query(gateway, state) == [("cancelled",)], seconds=30)
    assert client.post("/inbound", {"text": "still there?"}).status == 401
    socket.close()


def me(client: Client) -> int:
    """Return the id of a client's user."""
    prefix = client.token.split("_")[1]
    sql = f"SELECT user_id FROM allowlist_apikey WHERE prefix = '{prefix}'"
    return int(query(client.gateway, sql)[0][0])

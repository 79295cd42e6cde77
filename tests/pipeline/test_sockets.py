"""Many people over ``/ws`` at once, each answered once and in order ([D3])."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.gateways import Gateway
from tests.pipeline.client import Client, query
from tests.pipeline.socket_client import Socket

pytestmark = pytest.mark.slow


def test_fifty_people_over_sockets_and_http_at_once(crowd: list[Client], house: Gateway) -> None:
    """Four messages each into one session, sent without waiting for the answers."""
    start = threading.Barrier(50)

    def over_socket(number: int) -> list[str]:
        with Socket(house, crowd[number].token) as socket:
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
        said = client.say(f"{number}: message 0").body
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
        house,
        "SELECT m.session_id, m.text FROM core_message m WHERE m.role = 'assistant' ORDER BY m.id",
    )
    sessions: dict[int, list[str]] = {}
    for session, text in rows:
        sessions.setdefault(session, []).append(text)
    assert len(rows) == 200
    assert all(texts == sorted(texts) for texts in sessions.values())

"""A web process that is stopped while streams are open: each ends with an event that says how to go
on, and its body ends as HTTP says ([D2])."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from pathlib import Path

import pytest

from tests.channels_app.client import Answer, people, query
from tests.gateways import Starter
from tests.servers import wait_until

pytestmark = pytest.mark.slow
SCRIPT = [{"match": "", "steps": [{"text": "One two three "}, {"hang": True}]}]
CHAT = {"model": "default", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
UI = {
    "id": "chat-1",
    "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "x"}]}],
}
STREAMS = {
    "/inbound": {"text": "hi", "stream": True},
    "/v1/chat/completions": CHAT,
    "/ui/chat": UI,
}


def until(response: HTTPResponse, words: bytes) -> bytes:
    """Read up to ``words``."""
    got = b""
    while words not in got:
        line = response.readline()
        assert line, got
        got += line
    return got


def test_a_stop_ends_each_stream_with_the_run_and_how_to_go_on(
    start_gateway: Starter, tmp_path: Path
) -> None:
    """[D2] No cut chunk: ``http.client`` raises IncompleteRead for one. The run goes on."""
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT), encoding="utf-8")
    gateway = start_gateway(LLM_SCRIPT=str(script))
    every = people(gateway, number=len(STREAMS))
    asked = zip(every, STREAMS.items(), strict=False)
    opened = [
        (path, each.request("POST", path, json.dumps(body).encode()))
        for each, (path, body) in asked
    ]
    for _, stream in opened:
        until(stream.response, b"data:")
    gateway.processes["web"].send(15)
    ends = {path: stream.response.read().decode() for path, stream in opened}
    for _, stream in opened:
        stream.close()
    gateway.restart("web")
    frames = [line for line in ends["/inbound"].splitlines() if line.startswith("data:")]
    last = json.loads(frames[-1][5:])
    assert last["event"] == "interrupted"
    assert not any('"done"' in frame for frame in frames)
    assert last["resume"] == f"/runs/{last['run_id']}/events"
    assert every[0].get(f"/inbound/result?run_id={last['run_id']}").body["state"] == "pending"
    cancelled = every[0].post("/inbound/cancel", {"run_id": last["run_id"]})
    assert cancelled.body["cancelled"]
    for path in ("/v1/chat/completions", "/ui/chat"):
        assert "restarts" in ends[path], ends[path]
        assert ends[path].rstrip().endswith("data: [DONE]")


def test_a_stop_answers_each_request_that_waits(start_gateway: Starter, tmp_path: Path) -> None:
    """[D2] With 503 in its own shape: clients whose connection was cut asked again, and both runs
    went on. The run of /inbound goes on.
    """
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"match": "", "steps": [{"hang": True}]}]), encoding="utf-8")
    gateway = start_gateway(LLM_SCRIPT=str(script))
    first, second, third, *_ = people(gateway, number=3)
    asked: list[Callable[[], Answer]] = [
        lambda: first.post("/v1/chat/completions", {**CHAT, "stream": False}),
        lambda: second.post("/v1/chat/completions", CHAT),
        lambda: third.post("/inbound", {"text": "hi"}),
    ]
    with ThreadPoolExecutor(len(asked)) as pool:
        waiting = [pool.submit(each) for each in asked]
        running = "SELECT id FROM core_run WHERE state = 'running'"
        wait_until(lambda: len(query(gateway, running)) == len(asked), what="three runs")
        gateway.processes["web"].send(15)
        whole, stream, inbound = [each.result() for each in waiting]
    gateway.restart("web")
    for found in (whole, stream):
        assert (found.status, found.body["error"]["code"]) == (503, "unavailable")
        assert "restarts" in found.body["error"]["message"]
    assert inbound.status == 503
    state = third.get(f"/inbound/result?run_id={inbound.body['run_id']}")
    assert (state.status, state.body["state"]) == (202, "pending")
    ended = "SELECT id FROM core_run WHERE state = 'cancelled'"
    wait_until(lambda: len(query(gateway, ended)) == 2, what="the end of the two of /v1")

"""``/v1/messages`` of a running gateway: answers, streams, resume, errors in Anthropic's shape."""

import json
import time
from typing import Any

import httpx
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from tests import people
from tests.channels_app.client import query
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
Json = dict[str, Any]
URL = "/v1/messages"
EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
TOOL = {
    "name": "get_weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def asked(text: str, **more: Any) -> Json:
    """Return the body of a request."""
    said = [{"role": "user", "content": text}]
    return {"model": "default", "max_tokens": 1000, "messages": said, **more}


def message(client: httpx.Client, text: str, headers: Json | None = None, **more: Any) -> Json:
    """Send ``text``; return the answer."""
    answer = client.post(URL, json=asked(text, **more), headers=headers)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    Message.model_validate(found, strict=True)
    return found


def text_of(found: Json) -> str:
    """Return the text of an answer."""
    return "\n".join(block["text"] for block in found["content"] if block["type"] == "text")


def events(answer: httpx.Response) -> list[tuple[str, str, Json]]:
    """Return (id, name, data) of each event, which has the form that Anthropic publishes."""
    found = []
    for block in answer.read().decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if line[:1] not in ("", ":"))
        if "data" in lines:
            data = json.loads(lines["data"])
            if data["type"] not in {"ping", "error"}:  # the package has no types for these
                EVENT.validate_python(data, strict=True)
            found.append((lines.get("id", ""), lines["event"], data))
    return found


def stream(client: httpx.Client, text: str, headers: Json | None = None, **more: Any) -> Any:
    """Return the events of a streamed answer."""
    body = asked(text, stream=True, **more)
    with client.stream("POST", URL, json=body, headers=headers) as answer:
        found = events(answer)
        assert answer.status_code == 200, found
        assert answer.headers["content-type"].startswith("text/event-stream")
    assert all(name == data["type"] for _, name, data in found)
    return found


def test_w25_an_answer_has_every_field_that_clients_read(client: httpx.Client) -> None:
    """[W25] One message with its blocks, reason, usage, session and the id of the request."""
    answer = client.post(URL, json=asked("Hello there"))
    body = answer.json()
    assert body["type"] == "message"
    assert body["role"] == "assistant"
    assert body["model"] == "default"
    assert body["content"] == [{"type": "text", "text": "Hello there"}]
    assert body["stop_reason"] == "end_turn"
    assert body["stop_sequence"] is None
    assert body["usage"]["input_tokens"] > 0
    assert body["usage"]["output_tokens"] > 0
    assert answer.headers["request-id"] == answer.headers["x-request-id"]
    assert body["id"] == f"msg_{answer.headers['request-id']}"
    assert len(answer.headers["x-session-id"]) == 22


def test_w25_w27_w28_a_run_with_every_kind_of_message_is_one_answer(client: httpx.Client) -> None:
    """[W25] [W27] [W28] Sources, pictures and cards as text; the gateway's own tool nowhere;
    thinking for those who ask for it."""
    found = message(client, "everything please")
    assert {block["type"] for block in found["content"]} == {"text"}
    text = text_of(found)
    assert "Paris is the capital." in text
    assert f"![A pixel]({people.PIXEL})" in text
    assert "A part is missing" in text
    assert "[Paris](https://example.org/paris)" in text
    assert "/agent/view/chart/chart-1?run=" in text
    assert found["stop_reason"] == "end_turn"
    thought = message(client, "everything please", thinking={"type": "adaptive"})["content"][0]
    assert thought["thinking"] == "Let me think."
    assert len(thought["signature"]) == 64


def test_w26_a_stream_adds_up_to_the_answer(client: httpx.Client) -> None:
    """[W26] Message, blocks and the end, in order, each event with its name."""
    found = stream(client, "everything", thinking={"type": "enabled", "budget_tokens": 2000})
    names = [name for _, name, _ in found if name != "ping"]
    assert names[0] == "message_start"
    assert names[-2:] == ["message_delta", "message_stop"]
    assert names.count("content_block_start") == names.count("content_block_stop")
    start = found[0][2]["message"]
    assert start["content"] == []
    assert start["usage"]["output_tokens"] == 0
    assert start["usage"]["input_tokens"] > 0
    end = next(data for _, name, data in found if name == "message_delta")
    assert end["delta"]["stop_reason"] == "end_turn"
    assert end["usage"]["output_tokens"] > 0
    deltas = [data["delta"] for _, name, data in found if name == "content_block_delta"]
    text = "".join(delta.get("text", "") for delta in deltas)
    assert "Paris is the capital." in text
    assert [delta["type"] for delta in deltas[:2]] == ["thinking_delta", "signature_delta"]


def test_w30_a_failed_run_is_an_error_in_both_forms(client: httpx.Client) -> None:
    """[W30] Streamed: an error event at the end. Else: a status, and Anthropic's error object."""
    found = stream(client, "break it")
    assert found[-1][1] == "error"
    assert found[-1][2]["error"] == {"type": "api_error", "message": "It broke"}
    answer = client.post(URL, json=asked("break it"))
    assert answer.status_code == 502
    assert set(answer.json()) == {"type", "error", "request_id"}
    assert answer.json()["request_id"] == answer.headers["request-id"]
    busy = client.post(URL, json=asked("busy", stream=True))
    assert busy.status_code == 429
    assert busy.json()["error"]["type"] == "rate_limit_error"
    assert busy.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert not [name for name in busy.headers if name.startswith("x-ratelimit")]


def test_w28_a_tool_of_the_client_is_handed_over_and_its_result_is_understood(
    client: httpx.Client,
) -> None:
    """[W28] In both forms; the next request's history holds the call and its result."""
    first = message(client, "What is the weather?", tools=[TOOL])
    assert first["stop_reason"] == "tool_use"
    [call] = first["content"]
    assert call["name"] == "get_weather"
    assert call["input"] == {"city": "Paris"}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "sunny, 24 °C"}
    history = [
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "content": first["content"]},
        {"role": "user", "content": [result]},
    ]
    answer = message(client, "", messages=history, tools=[TOOL])
    assert text_of(answer) == "It is sunny."
    assert answer["stop_reason"] == "end_turn"
    streamed = stream(client, "weather", tools=[TOOL])
    pieces = [data["delta"] for _, name, data in streamed if name == "content_block_delta"]
    assert json.loads("".join(piece["partial_json"] for piece in pieces)) == {"city": "Paris"}
    starts = [data["content_block"] for _, name, data in streamed if name == "content_block_start"]
    assert starts[0]["id"] != call["id"]


def test_w31_an_answer_goes_on_where_the_connection_was_cut(client: httpx.Client) -> None:
    """[W31] The same request again with the number of the last event gets exactly the rest."""
    headers = {"Idempotency-Key": "resumed"}
    whole = stream(client, "slow", headers)
    assert all(number for number, name, _ in whole if name != "ping")
    for number, name, _ in whole:
        if name == "ping":
            continue
        rest = stream(client, "slow", {**headers, "Last-Event-ID": number})
        before = [data for each, kind, data in whole if kind != "ping" and int(each) <= int(number)]
        after = [data for _, kind, data in rest if kind != "ping"]
        text = "".join(each.get("delta", {}).get("text", "") for each in before + after)
        assert text == "one two three four"
        assert (after[-1:] or before[-1:]) == [{"type": "message_stop"}]
    other = client.post(URL, json=asked("other"), headers=headers)
    assert other.status_code == 422
    assert other.json()["error"]["type"] == "invalid_request_error"


def state_of(client: httpx.Client, run_id: str) -> str:
    """Return the state of a run."""
    return str(client.get(f"/api/runs/{run_id}").json()["state"])


def test_w31_a_run_stops_when_its_client_leaves(client: httpx.Client) -> None:
    """[W31] With an Idempotency-Key it goes on, since the client may come back."""
    with client.stream("POST", URL, json=asked("hang", stream=True)) as answer:
        run_id = answer.headers["request-id"]
        next(answer.iter_lines())
    wait_until(lambda: state_of(client, run_id) == "cancelled", seconds=10)
    keep = {"Idempotency-Key": "kept"}
    with client.stream("POST", URL, json=asked("slow", stream=True), headers=keep) as answer:
        run_id = answer.headers["request-id"]
    again = client.post(URL, json=asked("slow"), headers=keep)
    assert again.headers["request-id"] == run_id
    assert text_of(again.json()) == "one two three four"


def test_w26_a_long_silence_is_filled_with_pings(client: httpx.Client) -> None:
    """[W26] So that proxies do not cut the stream."""
    with client.stream("POST", URL, json=asked("hang", stream=True)) as answer:
        lines = answer.iter_lines()
        found = [line for _, line in zip(range(20), lines, strict=False)]
    assert "event: ping" in found


def test_w25_pictures_and_earlier_turns_reach_the_model(client: httpx.Client) -> None:
    """[W25] A picture in base64, and the client's history of two turns."""
    source = {"type": "base64", "media_type": "image/png", "data": people.PIXEL.partition(",")[2]}
    picture = [{"type": "image", "source": source}, {"type": "text", "text": "weather picture"}]
    answer = message(client, "", messages=[{"role": "user", "content": picture}], tools=[TOOL])
    assert answer["stop_reason"] == "tool_use"
    turns = [
        {"role": "user", "content": "weather"},
        {"role": "assistant", "content": "It rains."},
        {"role": "user", "content": "and again?"},
    ]
    assert text_of(message(client, "", messages=turns)) == "and again?"
    bad = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1:1/x.png"}}
    refused = client.post(URL, json=asked("", messages=[{"role": "user", "content": [bad]}]))
    assert refused.status_code == 400


def test_w25_the_system_prompt_follows_the_gateways_and_is_no_text_of_the_person(
    client: httpx.Client, scripted: Gateway
) -> None:
    """[W25] Also one that comes after the person's message, as coding agents send it."""
    said = [
        {"role": "user", "content": "said by the person"},
        {"role": "system", "content": "An environment."},
    ]
    answer = client.post(URL, json=asked("", messages=said, system="Be short."))
    assert text_of(answer.json()) == "said by the person"
    stored = "SELECT count(*) FROM core_inboundmessage WHERE text = 'said by the person'"
    assert query(scripted, stored) == [(1,)]


def test_w32_models_are_listed_in_the_form_of_the_client(client: httpx.Client) -> None:
    """[W32] By the header ``anthropic-version``; an unknown one is 404."""
    version = {"anthropic-version": "2023-06-01"}
    listed = client.get("/v1/models", headers=version).json()
    assert [each["id"] for each in listed["data"]] == ["default"]
    assert listed["first_id"] == listed["last_id"] == "default"
    assert listed["has_more"] is False
    assert client.get("/v1/models", headers=version, params={"after_id": "default"}).json() == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }
    assert client.get("/v1/models?limit=0", headers=version).status_code == 400
    assert client.get("/v1/models").json()["object"] == "list"
    assert client.get("/v1/models/default", headers=version).json()["type"] == "model"
    for name in ("", "/default"):
        for headers in ({}, version):  # some clients look whether an API is there
            looked = client.head(f"/v1/models{name}", headers=headers)
            assert (looked.status_code, looked.content) == (200, b"")
    for answer in (
        client.get("/v1/models/gpt-9/x", headers=version),
        client.post(URL, json={**asked("x"), "model": "gpt-9"}),
        client.post(f"{URL}/count_tokens", json={**asked("x"), "model": "gpt-9"}),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "not_found_error"


def test_w32_tokens_are_counted_without_a_run(client: httpx.Client, scripted: Gateway) -> None:
    """[W32] An estimate; nothing is stored."""
    runs = query(scripted, "SELECT count(*) FROM core_run")
    answer = client.post(f"{URL}/count_tokens", json=asked("How many?", tools=[TOOL]))
    assert answer.status_code == 200
    assert answer.json()["input_tokens"] > 5
    assert answer.headers["request-id"].startswith("req_")
    assert query(scripted, "SELECT count(*) FROM core_run") == runs


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", URL, 405), ("POST", f"{URL}/batches", 404), ("GET", f"{URL}/count_tokens", 405)],
)
def test_w30_missing_pages_are_reported_in_anthropics_shape(
    client: httpx.Client, method: str, path: str, status: int
) -> None:
    """[W30] Methods and addresses."""
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["type"] == "error"
    assert answer.json()["request_id"] == answer.headers["request-id"]


def test_w33_only_a_key_with_the_scope_speaks(scripted: Gateway, tokens: dict[str, str]) -> None:
    """[W33] In either header; 401 for an unknown and a revoked one, 403 without the scope."""
    with httpx.Client(base_url=scripted.base_url, timeout=60) as anyone:
        for token, status in [
            ("", 401),
            ("lk_000000000000_" + "x" * 43, 401),
            (tokens["revoked"], 401),
            (tokens["inbound_only"], 403),
            (tokens["member"], 200),
        ]:
            for headers in ({"x-api-key": token}, {"Authorization": f"Bearer {token}"}):
                given = headers if token else {}
                answer = anyone.post(URL, json=asked("hi"), headers=given)
                assert answer.status_code == status
                assert token == "" or token not in answer.text
                if status != 200:
                    kind = "authentication_error" if status == 401 else "permission_error"
                    assert answer.json()["error"]["type"] == kind


REVOKE = """
from allowlist import keys
from allowlist.models import ApiKey
from django.utils import timezone
from core.models import User
user = User.objects.get(username="member")
if {make}:
    print(keys.create(name="later", user=user, scopes=["chat"])[1])
else:
    keys.revoke(key=ApiKey.objects.get(name="later"), actor="test", now=timezone.now())
"""


def test_w33_a_revoked_key_ends_its_stream(scripted: Gateway) -> None:
    """[W33] An answer that is being given is stopped."""
    token = scripted.manage("shell", "-v", "0", "-c", REVOKE.format(make=True)).strip()
    with httpx.Client(
        base_url=scripted.base_url, headers={"x-api-key": token}, timeout=60
    ) as client:
        body = asked("hang", stream=True)
        with client.stream("POST", URL, json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            scripted.manage("shell", "-v", "0", "-c", REVOKE.format(make=False))
            began = time.monotonic()
            rest = list(lines)
        assert time.monotonic() - began < 45
        assert any("message_stop" in line or "error" in line for line in rest)
        assert client.post(URL, json=asked("x")).status_code == 401


def test_w33_a_bridge_names_its_sender_and_the_rule_decides(
    client: httpx.Client, tokens: dict[str, str], scripted: Gateway
) -> None:
    """[W33] In ``metadata.user_id``; an unknown sender is denied and recorded."""
    bridge = {"Authorization": f"Bearer {tokens['bridge']}"}
    nobody = client.post(URL, json=asked("x"), headers=bridge)
    assert nobody.status_code == 400
    assert "metadata.user_id" in nobody.json()["error"]["message"]
    body = asked("let me in", metadata={"user_id": "outsider"})
    denied = client.post(URL, json=body, headers=bridge)
    assert denied.status_code == 401
    assert denied.json()["error"]["message"] == "Permission denied"
    held = "SELECT text, state FROM core_inboundmessage WHERE sender = 'outsider'"
    assert query(scripted, held) == [("let me in", "held")]


def test_w33_people_and_sessions_never_cross(client: httpx.Client, tokens: dict[str, str]) -> None:
    """[W33] Whatever ``metadata.user_id`` and the session header say."""
    mine = client.post(URL, json=asked("x", metadata={"user_id": tokens["member_id"]}))
    session = mine.headers["x-session-id"]
    assert client.get(f"/api/sessions/{session}").status_code == 200
    theirs = {"x-api-key": tokens["member"], "Authorization": f"Bearer {tokens['member']}"}
    assert client.get(f"/api/sessions/{session}", headers=theirs).status_code == 404
    foreign = client.post(URL, json=asked("f"), headers={**theirs, "X-Session-Id": session})
    assert foreign.headers["x-session-id"] != session

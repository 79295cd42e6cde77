"""``/v1`` of a running gateway: answers, streams, sessions and errors in OpenAI's shape."""

import json
import time
from typing import Any

import httpx
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests import people
from tests.channels_app.client import query
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
Json = dict[str, Any]


def asked(text: str, **more: Any) -> Json:
    """Return the body of a request."""
    return {"model": "default", "messages": [{"role": "user", "content": text}], **more}


def chat(client: httpx.Client, text: str, headers: Json | None = None, **more: Any) -> Json:
    """Send ``text``; return the answer."""
    answer = client.post("/v1/chat/completions", json=asked(text, **more), headers=headers)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    ChatCompletion.model_validate(found, strict=True)
    return found


def frames(answer: httpx.Response) -> list[Json | str]:
    """Return the data of a stream's events; the chunks have the form that OpenAI publishes."""
    lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data")]
    found = [line if line == "[DONE]" else json.loads(line) for line in lines]
    for frame in found:
        if frame != "[DONE]" and "error" not in frame:
            ChatCompletionChunk.model_validate(frame, strict=True)
    return found


def stream(client: httpx.Client, text: str, **more: Any) -> list[Any]:
    """Return the frames of a streamed answer."""
    body = asked(text, stream=True, **more)
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        return frames(answer)


def test_an_answer_has_every_field_that_clients_read(client: httpx.Client) -> None:
    """[D5] [M3] One completion with its message, finish reason, usage and session."""
    answer = client.post("/v1/chat/completions", json=asked("Hello there"))
    body = answer.json()
    assert body["object"] == "chat.completion"
    assert body["model"] == "default"
    assert body["choices"][0]["message"]["content"] == "Hello there"
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["total_tokens"] > 0
    assert abs(body["created"] - time.time()) < 60
    assert len(answer.headers["x-session-id"]) == 22
    assert body["id"] == f"chatcmpl-{answer.headers['x-request-id']}"


def test_a_run_with_every_kind_of_message_is_one_answer(client: httpx.Client) -> None:
    """[M3] Thinking and loading as reasoning, sources, image and custom type in the content, the
    gateway's own tool nowhere."""
    message = chat(client, "everything please")["choices"][0]["message"]
    assert "Let me think." in message["reasoning_content"]
    assert "Looking it up" in message["reasoning_content"]
    assert "Paris is the capital." in message["content"]
    assert f"![A pixel]({people.PIXEL})" in message["content"]
    assert "A part is missing" in message["content"]
    assert "[Paris](https://example.org/paris)" in message["content"]
    assert "/agent/view/chart/chart-1?run=" in message["content"]
    assert message["annotations"][0]["url_citation"]["url"] == "https://example.org/paris"
    assert "tool_calls" not in message


def test_a_stream_has_one_id_one_role_and_one_finish_reason(client: httpx.Client) -> None:
    """[M3] And adds up to the answer without streaming; usage last, when requested."""
    found = stream(client, "everything", stream_options={"include_usage": True})
    assert found[-1] == "[DONE]"
    chunks = found[:-1]
    assert len({chunk["id"] for chunk in chunks}) == 1
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    assert [delta.get("role") for delta in deltas].count("assistant") == 1
    assert deltas[0]["role"] == "assistant"
    reasons = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    assert [reason for reason in reasons if reason] == ["stop"]
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] > 0
    assert not any("tool_calls" in delta for delta in deltas)
    text = "".join(delta.get("content", "") for delta in deltas)
    whole = chat(client, "everything")["choices"][0]["message"]["content"]
    assert text.replace(found[0]["id"], "").split("?run=")[0] == whole.split("?run=")[0]


def test_a_failed_run_is_an_error_in_both_forms(client: httpx.Client) -> None:
    """[M3] Streamed: a bare error frame, then the end. Else: a status and OpenAI's error object."""
    found = stream(client, "break it")
    assert found[-1] == "[DONE]"
    assert found[-2]["error"]["message"] == "It broke"
    assert "choices" not in found[-2]
    answer = client.post("/v1/chat/completions", json=asked("break it"))
    assert answer.status_code == 502
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert client.post("/v1/chat/completions", json=asked("busy")).status_code == 429


TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def test_a_tool_of_the_client_is_handed_over_and_its_result_is_understood(
    client: httpx.Client,
) -> None:
    """[M3] A real tool call; the next request's history holds the call and its result."""
    first = chat(client, "What is the weather?", tools=[TOOL])["choices"][0]
    assert first["finish_reason"] == "tool_calls"
    call = first["message"]["tool_calls"][0]
    assert call["function"] == {"name": "get_weather", "arguments": '{"city":"Paris"}'}
    history = [
        {"role": "user", "content": "What is the weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "sunny, 24 °C"},
    ]
    body = {"model": "default", "messages": history, "tools": [TOOL]}
    answer = client.post("/v1/chat/completions", json=body).json()
    assert answer["choices"][0]["message"]["content"] == "It is sunny."
    assert answer["choices"][0]["finish_reason"] == "stop"
    streamed = stream(client, "weather", tools=[TOOL])
    calls = [
        each
        for frame in streamed[:-1]
        for choice in frame["choices"]
        for each in choice["delta"].get("tool_calls", [])
    ]
    assert [each["index"] for each in calls] == [0]


def runs_of(client: httpx.Client, session: str) -> int:
    """Return how many messages a session of the owner has."""
    answer = client.get(f"/api/sessions/{session}/messages")
    return int(answer.json()["count"]) if answer.status_code == 200 else 0


def test_a_session_is_chosen_by_header_else_one_a_key(
    client: httpx.Client, tokens: dict[str, str]
) -> None:
    """[D5] The client's own name, the public id of one's session, nothing; never another's."""
    url = "/v1/chat/completions"
    plain = client.post(url, json=asked("a")).headers["x-session-id"]
    assert client.post(url, json=asked("b")).headers["x-session-id"] == plain
    named = client.post(url, json=asked("c"), headers={"X-Session-Id": "my chat"})
    assert named.headers["x-session-id"] != plain
    again = client.post(url, json=asked("d"), headers={"X-Session-Id": "my chat"})
    assert again.headers["x-session-id"] == named.headers["x-session-id"]
    by_id = client.post(url, json=asked("e"), headers={"X-Session-Id": plain})
    assert by_id.headers["x-session-id"] == plain
    other = {"Authorization": f"Bearer {tokens['member']}", "X-Session-Id": plain}
    foreign = client.post(url, json=asked("f"), headers=other).headers["x-session-id"]
    assert foreign != plain
    theirs = {"Authorization": f"Bearer {tokens['member']}", "X-Session-Id": "my chat"}
    separate = client.post(url, json=asked("g"), headers=theirs).headers["x-session-id"]
    assert separate != named.headers["x-session-id"]
    assert client.post(url, json=asked("h"), headers={"X-Session-Id": "x" * 101}).status_code == 400


def test_requests_at_the_same_time_do_not_wait_for_each_other(client: httpx.Client) -> None:
    """[D5] Without a session of their own, several requests of one key run side by side."""
    body = asked("hang", stream=True)
    with client.stream("POST", "/v1/chat/completions", json=body) as first:
        next(first.iter_lines())
        assert chat(client, "still here")["choices"][0]["message"]["content"] == "still here"


def state_of(client: httpx.Client, run_id: str) -> str:
    """Return the state of a run."""
    return str(client.get(f"/api/runs/{run_id}").json()["state"])


def test_a_run_stops_when_its_client_leaves(client: httpx.Client) -> None:
    """[D5] Streamed or not; with an Idempotency-Key it goes on, since the client may come back."""
    with client.stream("POST", "/v1/chat/completions", json=asked("hang", stream=True)) as answer:
        run_id = answer.headers["x-request-id"]
        next(answer.iter_lines())
    wait_until(lambda: state_of(client, run_id) == "cancelled", seconds=10)
    body = asked("slow", stream=True)
    keep = {"Idempotency-Key": "once"}
    with client.stream("POST", "/v1/chat/completions", json=body, headers=keep) as answer:
        run_id = answer.headers["x-request-id"]
    again = client.post("/v1/chat/completions", json=asked("slow"), headers=keep)
    assert again.headers["x-request-id"] == run_id
    assert again.json()["choices"][0]["message"]["content"] == "one two three four"


def test_w3_a_cut_stream_goes_on_after_the_last_event(client: httpx.Client) -> None:
    """[W3] With an Idempotency-Key its events are numbered; nothing is missing, nothing twice."""
    body, keep = asked("slow", stream=True), {"Idempotency-Key": "cut"}
    seen: list[str] = []
    with client.stream("POST", "/v1/chat/completions", json=body, headers=keep) as answer:
        run_id, number = answer.headers["x-request-id"], ""
        for line in answer.iter_lines():
            number = line.removeprefix("id: ") if line.startswith("id: ") else number
            if line.startswith("data: "):
                seen.append(line.removeprefix("data: "))
            if sum('"content"' in each for each in seen) == 2:
                break
    more = {**keep, "Last-Event-ID": number}
    with client.stream("POST", "/v1/chat/completions", json=body, headers=more) as answer:
        assert answer.headers["x-request-id"] == run_id
        rest = frames(answer)
    whole: list[Any] = [*map(json.loads, seen), *rest]
    texts = [each["choices"][0]["delta"].get("content", "") for each in whole if each != "[DONE]"]
    assert "".join(texts) == "one two three four"
    assert sum(each != "[DONE]" and "role" in each["choices"][0]["delta"] for each in whole) == 1
    assert whole[-1] == "[DONE]"


def test_w3_a_client_that_cannot_resume_gets_data_lines_alone(client: httpx.Client) -> None:
    """[W3] Simple clients know no other; a number that is none is refused."""
    body = asked("Hello", stream=True)
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert not any(line.startswith("id:") for line in answer.iter_lines())
    wrong = {"Idempotency-Key": "wrong", "Last-Event-ID": "x"}
    answer = client.post("/v1/chat/completions", json=body, headers=wrong)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "Last-Event-ID"


def test_a_client_that_leaves_before_its_whole_answer_stops_the_run(client: httpx.Client) -> None:
    """[D5] Without streaming too."""
    name = {"X-Session-Id": "leaver"}
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/chat/completions", json=asked("hang"), headers=name, timeout=1.0)
    began = time.monotonic()
    assert chat(client, "next", headers=name)["choices"][0]["message"]["content"] == "next"
    assert time.monotonic() - began < 30


def test_a_long_silence_is_filled_with_comments(client: httpx.Client) -> None:
    """[D5] So that proxies do not cut the stream."""
    body = asked("hang", stream=True)
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        assert any(line.startswith(":") for _, line in zip(range(20), lines, strict=False))


def test_models_are_listed_and_an_unknown_one_is_404(client: httpx.Client) -> None:
    """[D5] [RO2] In the list, by name, and in a request."""
    listed = client.get("/v1/models").json()
    assert [each["id"] for each in listed["data"]] == ["default"]
    assert client.get("/v1/models/default").json()["object"] == "model"
    for answer in (
        client.get("/v1/models/gpt-9/x"),
        client.post("/v1/chat/completions", json={**asked("x"), "model": "gpt-9"}),
    ):
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "model_not_found"
        assert answer.json()["error"]["param"] == "model"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/v1/models", 405),
        ("POST", "/v1/models/default", 405),
        ("POST", "/v1/images/generations", 404),
        ("GET", "/v1", 404),
        ("POST", "/v1/responses/compact", 404),
        ("POST", "/v1/responses/input_tokens", 404),
        ("POST", "/v1/responses/resp_a", 405),
    ],
)
def test_missing_pages_are_reported_in_openais_shape(
    client: httpx.Client, method: str, path: str, status: int
) -> None:
    """[D5] Methods and addresses."""
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_only_a_key_with_the_scope_speaks(scripted: Gateway, tokens: dict[str, str]) -> None:
    """[A10] 401 for none, an unknown and a revoked one; 403 without the scope."""
    with httpx.Client(base_url=scripted.base_url) as anyone:
        for token, status in [
            ("", 401),
            ("lk_000000000000_" + "x" * 43, 401),
            (tokens["revoked"], 401),
            (tokens["inbound_only"], 403),
        ]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            for answer in (
                anyone.post("/v1/chat/completions", json=asked("x"), headers=headers),
                anyone.get("/v1/models", headers=headers),
                anyone.get("/v1/models/default", headers=headers),
            ):
                assert answer.status_code == status
                error = answer.json()["error"]
                assert error["code"] == (
                    "invalid_api_key" if status == 401 else "insufficient_permissions"
                )
                assert status == 403 or "www-authenticate" in answer.headers
                assert token == "" or token not in answer.text


def test_a_key_in_the_address_is_refused_and_not_logged(
    scripted: Gateway, tokens: dict[str, str]
) -> None:
    """[RO9] 400, whatever else is right."""
    with httpx.Client(base_url=scripted.base_url) as anyone:
        for name in ("key", "api_key", "token", "access_token"):
            answer = anyone.get("/v1/models", params={name: tokens["owner"]})
            assert answer.status_code == 400
            assert tokens["owner"] not in answer.text
    assert tokens["owner"] not in scripted.log("web")


def test_the_user_field_changes_no_identity(client: httpx.Client, tokens: dict[str, str]) -> None:
    """[RO6] [A10] A personal key is its person, whatever ``user`` says."""
    answer = client.post("/v1/chat/completions", json=asked("x", user=tokens["member_id"]))
    session = answer.headers["x-session-id"]
    assert client.get(f"/api/sessions/{session}").status_code == 200
    theirs = {"Authorization": f"Bearer {tokens['member']}"}
    assert client.get(f"/api/sessions/{session}", headers=theirs).status_code == 404


def test_a_bridge_names_its_sender_and_the_rule_decides(
    client: httpx.Client, tokens: dict[str, str], scripted: Gateway
) -> None:
    """[A5] [A10] An unknown sender is denied and recorded; a request without a name is refused."""
    bridge = {"Authorization": f"Bearer {tokens['bridge']}"}
    url = "/v1/chat/completions"
    assert client.post(url, json=asked("x"), headers=bridge).status_code == 400
    denied = client.post(url, json=asked("let me in", user="stranger"), headers=bridge)
    assert denied.status_code == 401
    assert denied.json()["error"]["message"] == "Permission denied"
    held = "SELECT text, state FROM core_inboundmessage WHERE sender = 'stranger'"
    assert query(scripted, held) == [("let me in", "held")]
    asking = "SELECT count(*) FROM allowlist_unknownrequest WHERE sender = 'stranger'"
    assert query(scripted, asking) == [(1,)]


def test_garbage_is_refused_by_name(client: httpx.Client) -> None:
    """[RO11] 400 in OpenAI's shape; ``param`` names the field."""
    wrong: list[tuple[Json, str]] = [
        ({"stop": 5}, "stop"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stream_options": "x", "stream": True}, "stream_options"),
        (
            {"stream_options": {"include_usage": "yes"}, "stream": True},
            "stream_options.include_usage",
        ),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"temperature": 3}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"seed": True}, "seed"),
        ({"n": 2}, "n"),
        ({"stream": "yes"}, "stream"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ({"model": 5}, "model"),
        ({"tools": {}}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
    ]
    for body, param in wrong:
        answer = client.post("/v1/chat/completions", json={**asked("x"), **body})
        assert answer.status_code == 400, body
        assert answer.json()["error"]["param"] == param
        assert answer.json()["error"]["type"] == "invalid_request_error"
    for raw in (b"", b"{", b"[]", b'{"a": NaN}', b"\xff\xfe", b"[" * 100_000, b'{"a":1,"a":2}'):
        kind = {"Content-Type": "application/json"}
        answer = client.post("/v1/chat/completions", content=raw, headers=kind)
        assert answer.status_code == 400
        assert answer.json()["error"]["message"]


def nested(depth: int) -> Json:
    """Return a schema of that depth."""
    schema: Json = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"properties": {"x": {"anyOf": [{"$ref": "#/properties/x"}]}}},
        {"$ref": "http://169.254.169.254/schema"},
        {"$ref": "#/nowhere"},
        nested(20),
        nested(240),
        {"enum": ["x"] * 20_000},
        "not a schema",
    ],
)
def test_a_tool_whose_schema_has_no_end_is_refused(client: httpx.Client, schema: Any) -> None:
    """[RO4] Loops, foreign references, depth, size."""
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    answer = client.post("/v1/chat/completions", json=asked("x", tools=[tool]))
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.1:1/x.png",
        "http://localhost/x.png",
        "data:image/svg+xml;base64,PHN2Zy8+",
        "data:image/png;base64,PHN2Zy8+",
        "data:image/png,raw",
        "data:image/png;base64,***",
        "data:text/html;base64,PHN2Zy8+",
        "ftp://example.org/x.png",
        "javascript:alert(1)",
        "",
    ],
)
def test_a_picture_that_is_none_or_not_public_is_refused(client: httpx.Client, url: str) -> None:
    """[RO5] Before anything is stored."""
    part = {"type": "image_url", "image_url": {"url": url}}
    body = {"model": "default", "messages": [{"role": "user", "content": [part]}]}
    answer = client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].endswith("image_url.url")


def test_a_picture_of_50_mb_is_refused(client: httpx.Client) -> None:
    """[RO5] By the limit of the body."""
    url = "data:image/png;base64," + "A" * 50_000_000
    part = {"type": "image_url", "image_url": {"url": url}}
    body = {"model": "default", "messages": [{"role": "user", "content": [part]}]}
    try:
        answer = client.post("/v1/chat/completions", json=body)
    except httpx.WriteError:
        return  # the connection was closed during the upload: also a refusal
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


def test_guessing_keys_is_slowed_down(scripted: Gateway, client: httpx.Client) -> None:
    """[RO8] 429 after 20 wrong keys from one address; valid keys still work."""
    with httpx.Client(base_url=scripted.base_url) as guesser:
        seen = []
        for number in range(30):
            headers = {"Authorization": f"Bearer lk_{number:012x}_{'x' * 43}"}
            answer = guesser.get("/v1/models", headers=headers)
            seen.append(answer.status_code)
            if answer.status_code == 429:
                assert int(answer.headers["retry-after"]) > 0
                assert answer.json()["error"]["code"] == "rate_limit_exceeded"
        assert set(seen) == {401, 429}
        assert seen.count(401) <= 20
        assert seen[-1] == 429
    assert client.get("/v1/models").status_code == 200

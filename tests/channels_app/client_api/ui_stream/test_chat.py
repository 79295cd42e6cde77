"""``/ui/chat`` of a running gateway: streams, resume, stop, and the client's own history."""

import base64
import json
from typing import Any

import httpx
import pytest

from channels_app.client_api.ui_stream import fields
from tests import people
from tests.servers import wait_until

pytestmark = pytest.mark.slow
Json = dict[str, Any]


def said(text: str, role: str = "user", name: str = "m1") -> Json:
    """Return a message of the AI SDK."""
    return {"id": name, "role": role, "parts": [{"type": "text", "text": text}]}


def asked(text: str, chat: str = "chat-1", **more: Any) -> Json:
    """Return the default request of ``useChat``."""
    return {"id": chat, "messages": [said(text)], "trigger": "submit-message", **more}


def frames(answer: httpx.Response) -> list[Any]:
    """Return the chunks of a stream."""
    lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def told(client: httpx.Client, body: Json) -> list[Any]:
    """Return the chunks of an answer."""
    with client.stream("POST", "/ui/chat", json=body) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
        return frames(answer)


def text_of(chunks: list[Any]) -> str:
    """Return the text of the answer."""
    return "".join(chunk["delta"] for chunk in chunks[:-1] if chunk["type"] == "text-delta")


def test_an_answer_is_a_ui_message_stream(client: httpx.Client) -> None:
    """[M3] Start, parts of every kind, finish, ``[DONE]``."""
    chunks = told(client, asked("everything"))
    kinds = [chunk["type"] for chunk in chunks[:-1]]
    assert chunks[-1] == "[DONE]"
    assert kinds[0] == "start"
    assert kinds[-1] == "finish"
    for kind in (
        "reasoning-delta",
        "data-loading",
        "tool-input-available",
        "tool-output-available",
        "source-url",
        "source-document",
        "data-retrieval",
        "file",
        "data-error",
        "data-chart",
        "text-delta",
    ):
        assert kind in kinds, kind
    assert "Paris is the capital." in text_of(chunks)


def test_a_chat_is_resumed_from_its_beginning_and_stopped(
    client: httpx.Client, tokens: dict[str, str]
) -> None:
    """204 when nothing runs; never another person's; a client that leaves stops nothing."""
    assert client.get("/ui/chat/chat-2/stream").status_code == 204
    with client.stream("POST", "/ui/chat", json=asked("hang", chat="chat-2")) as answer:
        run_id = answer.headers["x-run-id"]
        next(answer.iter_lines())
    other = {"Authorization": f"Bearer {tokens['member']}"}
    assert client.get("/ui/chat/chat-2/stream", headers=other).status_code == 204
    stopped = client.post("/ui/chat/chat-2/stop", headers=other).json()
    assert stopped["cancelled"] is False
    with client.stream("GET", "/ui/chat/chat-2/stream") as answer:
        assert answer.status_code == 200
        assert answer.headers["x-run-id"] == run_id
        assert client.post("/ui/chat/chat-2/stop").json()["cancelled"] is True
        chunks = frames(answer)
    assert chunks[0]["type"] == "start"
    assert "Begun." in text_of(chunks)
    assert chunks[-2]["type"] == "abort"
    wait_until(lambda: client.get("/ui/chat/chat-2/stream").status_code == 204)
    assert client.post("/ui/chat/chat-2/stop").json()["cancelled"] is False


def test_a_tool_of_the_client_comes_back_in_the_same_message(client: httpx.Client) -> None:
    """[M3] The call is handed over; its result goes on with the assistant's message."""
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}
    chunks = told(client, asked("weather", tools=[tool]))
    call = next(chunk for chunk in chunks[:-1] if chunk["type"] == "tool-input-available")
    assert call["toolName"] == "get_weather"
    assert "providerExecuted" not in call
    part = {
        "type": "tool-get_weather",
        "toolCallId": call["toolCallId"],
        "state": "output-available",
        "input": call["input"],
        "output": {"sky": "clear"},
    }
    assistant = {"id": chunks[0]["messageId"], "role": "assistant", "parts": [part]}
    body = {"id": "chat-1", "messages": [said("weather"), assistant], "tools": [tool]}
    again = told(client, body)
    assert text_of(again) == "It is sunny."
    assert again[0]["messageId"] == assistant["id"]


def test_only_the_last_message_may_be_sent(client: httpx.Client) -> None:
    """``message`` instead of ``messages``: the gateway has the others."""
    body = {"id": "chat-3", "message": said("Hello again")}
    assert text_of(told(client, body)) == "Hello again"
    image = {"type": "file", "mediaType": "image/png", "url": people.PIXEL}
    picture = {"id": "m2", "role": "user", "parts": [{"type": "text", "text": "See"}, image]}
    assert text_of(told(client, {"id": "chat-3", "message": picture})).strip() == "See"


def test_l5_documents_are_read_as_on_the_other_endpoints(client: httpx.Client) -> None:
    """``file`` parts: a data URL in the whole history or the last message, or an upload's id."""
    data = base64.b64encode(b"The sea is salty.").decode()
    file = {"type": "file", "mediaType": "text/plain", "filename": "sea.txt"}
    inline = {**file, "url": f"data:text/plain;base64,{data}"}
    sent = client.post("/files?name=sea.txt", content=b"The sea is salty.")
    uploaded = {**file, "url": f"/files/{sent.json()['id']}"}
    for number, part in enumerate((inline, uploaded)):
        message = said("What does it say?")
        message["parts"].append(part)
        for body in ({"messages": [message]}, {"message": message}):
            text = text_of(told(client, {"id": f"chat-file-{number}-{len(body)}", **body}))
            assert "The sea is salty." in text
            assert "What does it say?" in text


def test_a_failed_run_is_an_error_chunk(client: httpx.Client) -> None:
    """[M3] And the end of the stream."""
    chunks = told(client, asked("break"))
    assert chunks[-2] == {"type": "error", "errorText": "It broke"}


def test_a_long_silence_is_filled_with_comments(client: httpx.Client) -> None:
    """So that proxies do not cut the stream."""
    body = asked("hang", chat="chat-4")
    with client.stream("POST", "/ui/chat", json=body) as answer:
        lines = answer.iter_lines()
        assert any(line.startswith(":") for _, line in zip(range(40), lines, strict=False))
    client.post("/ui/chat/chat-4/stop")


def test_garbage_is_refused_by_name(client: httpx.Client) -> None:
    """400 with the field."""
    file = {"type": "file", "mediaType": "application/pdf", "url": "data:,x"}
    pdf = {**file, "url": "data:application/pdf;base64,JVBERg=="}
    named = {**pdf, "filename": 5}
    svg = {
        "type": "file",
        "mediaType": "image/svg+xml",
        "url": "data:image/svg+xml;base64,PHN2Zy8+",
    }
    wrong: list[tuple[Json, str]] = [
        ({"id": ""}, "id"),
        ({"id": "x" * 101}, "id"),
        ({"id": "é"}, "id"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{"role": "user"}]}, "messages[0].parts"),
        ({"messages": [{"role": "robot", "parts": []}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "parts": [file]}]}, "messages[0].parts[0].url"),
        ({"messages": [{"role": "user", "parts": [named]}]}, "messages[0].parts[0].filename"),
        ({"messages": [{"role": "system", "parts": [pdf]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "parts": [svg]}]}, "messages[0].content[0].image_url.url"),
        ({"messages": [{"parts": []}]}, "messages[0].role"),
        ({"tools": 5}, "tools"),
    ]
    for body, field in wrong:
        json_please = {"Accept": "application/json"}
        answer = client.post("/ui/chat", json={**asked("x"), **body}, headers=json_please)
        assert answer.status_code == 400, body
        assert answer.json()["field"] == field
    answer = client.post("/ui/chat", json=asked("x", tools=5))
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text == "tools must be a list."
    assert client.get("/ui/chat/%C3%A9/stream").status_code == 400


def test_a_personal_key_is_needed(client: httpx.Client, tokens: dict[str, str]) -> None:
    """[A10] Not a bridge's, not one without the scope; and the right method."""
    bridge = {"Authorization": f"Bearer {tokens['bridge']}"}
    scopeless = {"Authorization": f"Bearer {tokens['inbound_only']}"}
    for headers, status in [({"Authorization": ""}, 401), (bridge, 403), (scopeless, 403)]:
        assert client.post("/ui/chat", json=asked("x"), headers=headers).status_code == status
        assert client.get("/ui/chat/a/stream", headers=headers).status_code == status
        assert client.post("/ui/chat/a/stop", headers=headers).status_code == status
    assert client.get("/ui/chat").status_code == 405
    assert client.post("/ui/chat/a/stream").status_code == 405
    assert client.get("/ui/chat/a/stop").status_code == 405


def tool_part(state: str, **more: Any) -> Json:
    """Return a part of a tool that the client runs."""
    return {"type": "tool-pay", "toolCallId": "c1", "state": state, "input": {"sum": 5}, **more}


@pytest.mark.parametrize(
    ("part", "told"),
    [
        (tool_part("output-available", output="paid"), "paid"),
        (tool_part("output-error", errorText="no money"), "no money"),
        (tool_part("output-denied", approval={"id": "a", "approved": False}), fields.DENIED),
        (
            tool_part("approval-responded", approval={"approved": False, "reason": "too much"}),
            f"{fields.DENIED} Reason: too much",
        ),
        (tool_part("approval-responded", approval={"approved": True}), fields.APPROVED),
        (tool_part("approval-requested", approval={"id": "a"}), None),
        (tool_part("input-streaming"), None),
        (tool_part("input-available"), None),
        (tool_part("output-available", output="x", providerExecuted=True), None),
    ],
)
def test_each_state_of_a_clients_tool_is_told_to_the_model(part: Json, told: str | None) -> None:
    """[M3] A decided or finished call; one that is still in progress is no call yet."""
    assistant = {"id": "m2", "role": "assistant", "parts": [{"type": "text", "text": "Hm"}, part]}
    found = fields.read({"id": "c", "messages": [said("pay"), assistant, said("go on")]})
    results = [each["content"] for each in found.messages if each["role"] == "tool"]
    assert results == ([] if told is None else [told])


def test_system_messages_stay_system() -> None:
    """Each follows the gateway's rules, and none is a turn of the user."""
    given = [said("Be brief.", "system"), said("Be kind.", "system"), said("Hello")]
    found = fields.read({"id": "c", "messages": given})
    assert [each["role"] for each in found.messages] == ["system", "system", "user"]


def test_a_tool_whose_schema_holds_itself_is_taken() -> None:
    """As of comments that have comments."""
    tree = {"type": "object", "properties": {"replies": {"type": "array", "items": {"$ref": "#"}}}}
    tool = {"type": "function", "function": {"name": "post", "parameters": tree}}
    assert fields.read({**asked("x"), "tools": [tool]}).tools == [tool]

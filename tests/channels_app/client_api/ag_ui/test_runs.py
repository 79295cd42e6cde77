"""``/ag-ui`` of a running gateway: runs, tools of the client, media, resume, stop, errors."""

from typing import Any

import httpx
import pytest

from tests import people
from tests.channels_app.client_api.ag_ui.frames import (
    Json,
    connected,
    kinds,
    numbered,
    outcome_of,
    said,
    text_of,
    told,
)
from tests.channels_app.client_api.asking_tools import client_of
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
WEATHER = {"name": "get_weather", "description": "The weather.", "parameters": {"type": "object"}}


def test_w40_an_answer_is_a_run_of_ag_ui(member: httpx.Client) -> None:
    """Lifecycle, thought, call of the gateway with its result, progress, cards, text, usage."""
    events = told(member, said("everything", thread="w40", run="first", state={"page": 7}))
    found = kinds(events)
    assert found[:2] == ["RUN_STARTED", "STATE_SNAPSHOT"]
    assert events[0] | {"threadId": "w40", "runId": "first", "protocolVersion": "1.0"} == events[0]
    assert events[1]["snapshot"] == {"page": 7}
    for kind in (
        "REASONING_MESSAGE_CONTENT",
        "ACTIVITY_SNAPSHOT",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_CONTENT",
    ):
        assert kind in found, kind
    assert {"retrieval", "error", "chart"} <= {each.get("name") for each in events}
    assert "Paris is the capital." in text_of(events)
    assert f"]({people.PIXEL})" in text_of(events)
    assert outcome_of(events) == {"type": "success"}
    assert events[-1]["usage"][0]["totalTokens"] > 0


def test_w41_a_tool_of_the_client_is_called_and_its_result_continues(member: httpx.Client) -> None:
    """The calls of a run are in one message; the history with the result goes to the model."""
    first = said("weather?", thread="w41", tools=[WEATHER])
    events = told(member, first)
    call = next(each for each in events if each["type"] == "TOOL_CALL_START")
    assert call["toolCallName"] == "get_weather"
    assert outcome_of(events)["pendingToolCallIds"] == [call["toolCallId"]]
    arguments = "".join(each["delta"] for each in events if each["type"] == "TOOL_CALL_ARGS")
    called = {
        "id": call["parentMessageId"],
        "role": "assistant",
        "toolCalls": [
            {
                "id": call["toolCallId"],
                "type": "function",
                "function": {"name": "get_weather", "arguments": arguments},
            }
        ],
    }
    result = {"id": "r", "role": "tool", "toolCallId": call["toolCallId"], "content": "sunny"}
    history = [*first["messages"], called, result]
    again = told(member, said("", thread="w41", tools=[WEATHER], messages=history))
    assert text_of(again) == "It is sunny."


def test_w42_two_turns_are_remembered_by_the_gateway_or_the_client(
    member: httpx.Client,
) -> None:
    """Only the last message: the gateway has the others. Reconnecting returns them."""
    first = said("My name is Ada", thread="w42")
    told(member, first)
    assert "And" in text_of(told(member, said("And again", thread="w42")))
    events = connected(member, "w42")
    assert kinds(events) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    messages = events[1]["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant"] * 2
    assert messages[0]["content"] == "My name is Ada"
    assert messages[0]["id"] == first["messages"][0]["id"]
    history = [*messages, {"id": "x", "role": "user", "content": "third"}]
    assert "third" in text_of(told(member, said("", thread="w42", messages=history)))


def test_w42_each_answer_stands_below_its_question(member: httpx.Client) -> None:
    """The second was asked before the first answer was there."""
    with member.stream("POST", "/ag-ui", json=said("slow, please", thread="w42b")) as answer:
        next(answer.iter_lines())
        told(member, said("My name is Ada", thread="w42b"))
    messages = connected(member, "w42b")[1]["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant"] * 2
    assert [each["content"] for each in messages[::2]] == ["slow, please", "My name is Ada"]
    assert messages[1]["content"] == "one two three four"


def test_w43_the_same_run_id_is_the_same_run(member: httpx.Client, asking: Gateway) -> None:
    """Also with a number: exactly the rest; another message under the same id is refused."""
    body = said("slow", thread="w43", run="once")
    whole = told(member, body)
    with member.stream("POST", "/ag-ui", json=body) as answer:
        parts = list(numbered(answer))
    assert text_of([event for _, event in parts]) == text_of(whole)
    assert (parts[0][1], parts[-1][1]) == (whole[0], whole[-1])
    for number, _ in parts[::3]:
        rest = told(member, body, **{"Last-Event-ID": str(number)})
        before = [event for count, event in parts if count <= number]
        assert text_of(before) + text_of(rest) == "one two three four"
        again = connected(member, "w43", "?runId=once", **{"Last-Event-ID": str(number)})
        assert text_of(before) + text_of(again) == "one two three four"
    other = member.post("/ag-ui", json=said("another", thread="w43", run="once"))
    assert (other.status_code, other.json()["field"]) == (422, "runId")
    runs = asking.manage("shell", "-v", "0", "-c", COUNT.format(text="slow")).strip()
    assert runs == "1"


COUNT = """
from core.models import Run
print(Run.objects.filter(origin="ag-ui", text="{text}").count())
"""


def test_w43_a_cut_stream_goes_on_where_it_was_cut(member: httpx.Client) -> None:
    """The run goes on when the client leaves; the texts join exactly."""
    body = said("slow", thread="cut", run="cut")
    before: list[tuple[int, Json]] = []
    with member.stream("POST", "/ag-ui", json=body) as answer:
        for number, event in numbered(answer):
            before.append((number, event))
            if event["type"] == "TEXT_MESSAGE_CONTENT":
                break
    rest = connected(member, "cut", **{"Last-Event-ID": str(before[-1][0])})
    assert "RUN_STARTED" not in kinds(rest)
    assert text_of([event for _, event in before]) + text_of(rest) == "one two three four"
    assert outcome_of(rest) == {"type": "success"}


def test_w43_a_number_is_of_its_run(member: httpx.Client) -> None:
    """While another run is open the rest is that of the run that was cut; at a run that is named
    another's number is none.
    """
    with member.stream("POST", "/ag-ui", json=said("slow", thread="bound")) as answer:
        parts = list(numbered(answer))
    last, text = next(each for each in parts if each[1]["type"] == "TEXT_MESSAGE_CONTENT")
    body = said("hang", thread="bound", run="open")
    with member.stream("POST", "/ag-ui", json=body) as hanging:
        next(hanging.iter_lines())
        rest = connected(member, "bound", **{"Last-Event-ID": str(last)})
        assert text["delta"] + text_of(rest) == "one two three four"
        path, headers = "/ag-ui/bound/stream?runId=open", {"Last-Event-ID": str(last)}
        with member.stream("GET", path, headers=headers) as answer:
            assert next(numbered(answer))[1]["type"] == "RUN_STARTED"
    member.post("/ag-ui/bound/stop")


def test_w44_a_run_is_stopped_and_reconnected_to(
    member: httpx.Client, asking: Gateway, keys: dict[str, str]
) -> None:
    """The partial answer is kept; no other person reaches the thread."""
    with member.stream("POST", "/ag-ui", json=said("hang", thread="w44", run="hangs")) as answer:
        next(event for _, event in numbered(answer) if event["type"] == "TEXT_MESSAGE_CONTENT")
    with client_of(asking, keys["owner"]) as other:
        assert other.get("/ag-ui/w44/stream").status_code == 404
        assert other.post("/ag-ui/w44/stop").json()["cancelled"] is False
    with member.stream("GET", "/ag-ui/w44/stream") as answer:
        events: list[Json] = []
        for _, event in numbered(answer):
            events.append(event)
            if event["type"] == "TEXT_MESSAGE_CONTENT":
                assert member.post("/ag-ui/w44/stop").json()["cancelled"] is True
    assert kinds(events)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert events[0]["runId"] == "hangs"
    assert [each["content"] for each in events[1]["messages"]] == ["hang"]
    assert text_of(events).startswith("Begun.")
    assert outcome_of(events) == {"type": "cancelled"}


def test_w45_a_failed_run_ends_with_its_error(member: httpx.Client) -> None:
    """The kind of failure, in words for the person; the text before it stays."""
    events = told(member, said("break", thread="w45"))
    assert "Half" in text_of(events)
    assert events[-1]["type"] == "RUN_ERROR"
    assert "It broke" in events[-1]["message"]
    busy = told(member, said("busy", thread="w45"))[-1]
    assert (busy["type"], busy["code"]) == ("RUN_ERROR", "rate_limited")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"threadId": ""}, "threadId"),
        ({"runId": None}, "runId"),
        ({"messages": None}, "messages"),
        ({"messages": [{"id": "1", "role": "assistant", "content": "x"}]}, "messages"),
        ({"tools": "x"}, "tools"),
        ({"context": [{"description": 1, "value": "x"}]}, "context[0].description"),
        ({"resume": [{"interruptId": "x", "status": "?"}]}, "resume[0].status"),
        ({"state": {"x": "y" * 60_000}}, "state"),
    ],
)
def test_w45_a_wrong_request_names_the_field(member: httpx.Client, body: Json, field: str) -> None:
    answer = member.post("/ag-ui", json={**said("x", thread="t"), **body})
    assert answer.status_code in (400, 413), answer.text
    assert answer.json()["field"] == field


@pytest.mark.parametrize("name", ["%00", "%C3%A9", "x" * 200])
def test_w45_a_wrong_run_is_refused_when_reconnecting(member: httpx.Client, name: str) -> None:
    """PostgreSQL stores no NUL, and cannot look for one."""
    told(member, said("hello", thread="w45-reconnect"))
    answer = member.get(f"/ag-ui/w45-reconnect/stream?runId={name}")
    assert answer.status_code in (400, 413), answer.text
    assert answer.json()["field"] == "runId"


def test_w45_keys_that_may_not_are_refused(asking: Gateway, keys: dict[str, str]) -> None:
    for name, status in (("revoked", 401), ("inbound_only", 403), ("bridge", 403)):
        with client_of(asking, keys[name]) as client:
            assert client.post("/ag-ui", json=said("x", thread="t")).status_code == status, name


def test_w46_pictures_and_documents_are_understood(member: httpx.Client) -> None:
    """Data, an upload, the parts of older clients; an address of a document is refused."""
    picture = people.PIXEL.partition(",")[2]
    upload = member.post("/files?name=a.txt", content=b"hello").json()["id"]
    parts: list[Any] = [
        {"type": "text", "text": "look"},
        {"type": "image", "source": {"type": "data", "value": picture, "mimeType": "image/png"}},
        {"type": "document", "source": {"type": "file", "value": upload}},
        {
            "type": "document",
            "source": {"type": "data", "value": "aGk=", "mimeType": "text/plain"},
            "metadata": {"filename": "b.txt"},
        },
    ]
    assert "look" in text_of(told(member, said(parts, thread="w46")))
    body = said("", thread="w46")
    old = {"type": "binary", "mimeType": "image/png", "data": picture, "filename": "c.png"}
    body["messages"][0]["content"] = [{"type": "text", "text": "old"}, old]
    assert "old" in text_of(told(member, body))
    away = {"type": "url", "value": "https://example.org/a.pdf"}
    body = said([{"type": "document", "source": away}], thread="w46")
    answer = member.post("/ag-ui", json=body)
    assert (answer.status_code, "addresses are not fetched" in answer.text) == (400, True)


def test_w47_context_and_state_reach_the_model(member: httpx.Client, asking: Gateway) -> None:
    """They follow the gateway's own instructions."""
    context = [{"description": "The open page", "value": "invoices"}]
    told(member, said("context?", thread="w47", context=context, state={"selected": 3}))
    printed: list[str] = []

    def stored() -> bool:
        printed[:] = [asking.manage("shell", "-v", "0", "-c", PROMPT)]
        return "invoices" in printed[0]

    wait_until(stored, seconds=30, what="the instructions")
    assert '{"selected":3}' in printed[0]


PROMPT = """
from core.agent import prompt
from core.models import Run
print(prompt.prepare(Run.objects.filter(text="context?").latest("id")).system["content"])
"""


def test_w45_a_used_up_budget_ends_the_run_with_its_reason(asking: Gateway) -> None:
    with client_of(asking, asking.manage("shell", "-v", "0", "-c", POOR).strip()) as poor:
        events = told(poor, said("hello", thread="w45"))
        assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "budget")
        part = {"type": "text", "text": "hello"}
        body = {"id": "poor", "messages": [{"id": "m", "role": "user", "parts": [part]}]}
        with poor.stream("POST", "/ui/chat", json=body) as answer:
            assert '"type":"error"' in answer.read().decode()


POOR = """
from allowlist import keys
from core.models import Budget, User
user = User.objects.create(username="poor")
Budget.objects.create(user=user, unit="tokens", period="day", limit=1)
print(keys.create(name="poor", user=user, scopes=["chat"])[1])
"""

"""``/v1/responses`` from the first answer to a killed process, at a gateway with a model server."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from tests import people
from tests.channels_app.client_api.responses.test_responses import (
    WEATHER,
    create,
    events,
    resumed,
    stream,
    text_of,
)
from tests.clients import line
from tests.gateways import Gateway
from tests.journeys import model as models
from tests.journeys.model import Rule
from tests.models_chaos import rows
from tests.servers import wait_until

pytestmark = pytest.mark.slow
Json = dict[str, Any]
COUNT = "one two three four five six seven eight"
RULES = [
    Rule("Count", text=COUNT, slow=True),
    Rule("weather", tool="get_weather", arguments={"city": "Paris"}),
    Rule("weather", text="In Paris the sun shines.", after_tool=True),
    Rule("picture", text="One pixel."),
    Rule("for an hour", text="Hm. " * 400, slow=True),
    Rule("Patch", tool="apply_patch", arguments={"input": "*** Begin Patch"}),
    Rule("Patch", text="Patched.", after_tool=True),
    Rule("Read", tool="files__read", arguments={"path": "a"}),
    Rule("List", tool="local_shell", arguments={"command": ["ls"]}),
]
OTHER_TOOLS: Any = [
    {"type": "custom", "name": "apply_patch", "format": {"type": "text"}},
    {"type": "namespace", "name": "files", "tools": [{"type": "function", "name": "read"}]},
    {"type": "local_shell"},
    {"type": "web_search"},
]
MAKE = """
import json
from allowlist import keys
from core.models import Assistant, AssistantModel, Budget, LanguageModel, User
down = Assistant.objects.create(name="Down", slug="down")
AssistantModel.objects.create(assistant=down, model=LanguageModel.objects.get(name="dead"))
default = Assistant.objects.get(is_default=True)
default.instructions, default.temperature = "You are a poet.", 1.5
default.save()
made = {}
for name in ("ann", "poor", "agent", "left"):
    user = User.objects.create(username=name)
    more = {"model_only": True} if name == "agent" else {}
    made[name] = keys.create(name=name, user=user, scopes=["chat"], **more)[1]
Budget.objects.create(user=User.objects.get(username="poor"), unit="tokens", period="day", limit=1)
print("MADE", json.dumps(made))
"""
REVOKE = """
from allowlist import keys
from allowlist.models import ApiKey
from django.utils import timezone
keys.revoke(key=ApiKey.objects.get(name="left"), actor="test", now=timezone.now())
"""


PICTURE = base64.b64decode(people.PIXEL.partition(",")[2])


@dataclass
class Place:
    """A running gateway with its model server, keys by name, and a line that can break."""

    gateway: Gateway
    model: models.Model
    keys: dict[str, str]
    line: line.Line

    def client(self, key: str = "ann", base: str = "") -> httpx.Client:
        """Return a client with the key of a name."""
        headers = {"Authorization": f"Bearer {self.keys[key]}"}
        return httpx.Client(base_url=base or self.gateway.base_url, headers=headers, timeout=120)


@pytest.fixture(scope="module")
def place(module_gateways: Callable[..., Gateway]) -> Iterator[Place]:
    """Yield it. A run whose worker is gone is taken over after a second."""
    with models.running() as model:
        model.rules = list(RULES)
        gateway = module_gateways(
            LLM_PROVIDER="openai-compatible",
            RATE_PER_MINUTE_USER="0",
            GATEWAY_ENCRYPTION_KEYS="key-of-a-test",
            RUN_LEASE_SECONDS="1",
            SWEEP_SECONDS="1",
        )
        working = rows.provider(model.url, "large", fields={"can_see_images": True})
        dead = rows.provider("http://127.0.0.1:9/v1", "dead", name="dead")
        rows.make(gateway, working, dead, chain=["large"])
        output = gateway.manage("shell", "-v", "0", "-c", MAKE)
        with line.to(gateway.port) as to_gateway:
            keys = json.loads(output.partition("MADE ")[2])
            yield Place(gateway, model, keys, to_gateway)


@pytest.fixture
def client(place: Place) -> Iterator[httpx.Client]:
    """Yield a client of a person."""
    place.model.asked.clear()
    with place.client() as made:
        yield made


def said_text(response: Json) -> str:
    """Return the text of the last message."""
    text: str = response["output"][-1]["content"][0]["text"]
    return text


def asked(place: Place) -> Json:
    """Return the last request to the model's server."""
    return place.model.asked[-1]


def test_w22_a_key_for_the_model_only_gets_the_models_alone(
    place: Place, client: httpx.Client
) -> None:
    """[W22] At all three endpoints: the client's messages in their places, its tools, no
    temperature of the assistant; a key of the gateway's assistant has all of that.
    """
    messages = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "system", "content": "Be quick."},
        {"role": "user", "content": "Go on"},
    ]
    function = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    chat = {"model": "default", "messages": messages, "tools": [function]}
    flat = {"type": "function", **function["function"]}  # type: ignore[dict-item]
    with place.client("agent") as agent:
        assert agent.post("/v1/chat/completions", json=chat).status_code == 200
        first = asked(place)
        create(agent, instructions="You are an agent.", input=messages[1:], tools=[flat])
        second = asked(place)
        theirs = {"name": "look", "input_schema": {"type": "object"}}
        said = {"system": "You are an agent.", "messages": messages[1:], "tools": [theirs]}
        version = {"anthropic-version": "2023-06-01"}
        asking = {"model": "default", "max_tokens": 100, **said}
        answer = agent.post("/v1/messages", json=asking, headers=version)
        assert answer.status_code == 200, answer.text
    for got in (first, second, asked(place)):
        assert got["messages"] == messages
        assert got["tools"] == [function]
        assert "temperature" not in got
    create(client, instructions="Be brief.", input=messages[1:], tools=[flat])
    got = asked(place)
    [system] = [each["content"] for each in got["messages"] if each["role"] == "system"]
    assert system.startswith("You are a poet.")
    assert system.endswith("Be brief.\n\nBe quick.")
    assert len(got["tools"]) > 1
    assert got["temperature"] == 1.5


def test_w12_the_model_gets_call_and_result_with_the_next_response(
    place: Place, client: httpx.Client
) -> None:
    """[W12] As messages of chat completions, in a conversation that the gateway keeps."""
    first = create(client, input="How is the weather?", tools=[WEATHER])
    [call] = first["output"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "It is sunny."}
    second = create(
        client, input=[result], tools=[WEATHER], previous_response_id=first["id"], store=True
    )
    assert said_text(second) == "In Paris the sun shines."
    roles = [each["role"] for each in asked(place)["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    third = create(client, input="Thanks", previous_response_id=second["id"])
    assert [each["role"] for each in asked(place)["messages"]][3:] == ["tool", "assistant", "user"]
    assert said_text(third) == "You said: Thanks"


def test_w19_other_tools_of_a_client_work_from_end_to_end(
    place: Place, client: httpx.Client
) -> None:
    """[W19] Streamed in the published events; the result of a custom tool reaches the model."""
    found = stream(client, input="Patch it", tools=OTHER_TOOLS)
    kinds = [each["type"] for each in found]
    assert "response.custom_tool_call_input.delta" in kinds
    first = found[-1]["response"]
    [call] = first["output"]
    assert (call["type"], call["name"]) == ("custom_tool_call", "apply_patch")
    assert call["input"] == "*** Begin Patch"
    result = {"type": "custom_tool_call_output", "call_id": call["call_id"], "output": "ok"}
    more = {"tools": OTHER_TOOLS, "previous_response_id": first["id"]}
    assert said_text(create(client, input=[result], **more)) == "Patched."
    [called] = [each for each in asked(place)["messages"] if each.get("tool_calls")]
    assert called["tool_calls"][0]["function"]["arguments"] == '{"input":"*** Begin Patch"}'
    [read] = create(client, input="Read it", tools=OTHER_TOOLS)["output"]
    assert (read["type"], read["name"], read["namespace"]) == ("function_call", "read", "files")
    [listed] = stream(client, input="List it", tools=OTHER_TOOLS)[-1]["response"]["output"]
    assert (listed["type"], listed["action"]["command"]) == ("local_shell_call", ["ls"])


def test_w13_pictures_and_documents_are_seen_and_remembered(
    place: Place, client: httpx.Client
) -> None:
    """[W13] As data, and as files that were uploaded; in the next response, too."""
    uploaded = client.post("/files?name=notes.txt", content=b"The code is 4711.").json()["id"]
    seen = client.post("/files?name=b.png", content=PICTURE).json()["id"]
    parts = [
        {"type": "input_text", "text": "What is in this picture?"},
        {"type": "input_image", "image_url": people.PIXEL},
        {"type": "input_file", "file_id": uploaded, "filename": "notes.txt"},
        {"type": "input_image", "file_id": seen},
    ]
    first = create(client, input=[{"role": "user", "content": parts}])
    assert said_text(first) == "One pixel."
    create(client, input="And the code?", previous_response_id=first["id"])
    for got in place.model.prompts()[-2:]:
        assert people.PIXEL in got
        assert got.count("data:image/") == 2
        assert "The code is 4711." in got


def counting(client: httpx.Client, *, until: str = "") -> list[Json]:
    """Return the events of a response in the background, up to the cut of the line or the word
    ``until``.
    """
    body = {"model": "default", "input": "Count", "stream": True, "background": True}
    lines: list[str] = []
    with suppress(httpx.TransportError), client.stream("POST", "/v1/responses", json=body) as found:
        for each in found.iter_lines():
            lines.append(each)
            if until and f'"delta":"{until}' in each:
                break
    return events(lines)


def test_w21_a_cut_stream_goes_on_exactly_where_it_broke(
    place: Place, client: httpx.Client
) -> None:
    """[W21] In the background: the part that came and the rest make the whole answer."""
    cuts = place.line.cuts
    place.line.cut_next()
    with place.client(base=f"http://127.0.0.1:{place.line.port}") as cut:
        before = counting(cut)
    assert place.line.cuts == cuts + 1
    assert "" < text_of(before) < COUNT
    rest = resumed(client, before[0]["response"]["id"], before[-1]["sequence_number"])
    assert text_of(before) + text_of(rest) == COUNT
    assert rest[-1]["type"] == "response.completed"
    assert said_text(rest[-1]["response"]) == COUNT


def test_w21_a_client_that_leaves_stops_its_response(client: httpx.Client) -> None:
    """[W21] Not in the background: as chat completions."""
    body = {"model": "default", "input": "Think for an hour", "stream": True}
    with client.stream("POST", "/v1/responses", json=body) as answer:
        first = events([next(each for each in answer.iter_lines() if each.startswith("data"))])
    name = first[0]["response"]["id"]
    wait_until(lambda: client.get(f"/v1/responses/{name}").json()["status"] == "cancelled")


def test_w21_a_revoked_key_ends_its_stream(place: Place) -> None:
    """[W21] Within the stream, and at the next request."""
    body = {"model": "default", "input": "Think for an hour", "stream": True, "background": True}
    with place.client("left") as left:
        with left.stream("POST", "/v1/responses", json=body) as answer:
            lines = answer.iter_lines()
            before = [next(lines) for _ in range(8)]
            place.gateway.manage("shell", "-v", "0", "-c", REVOKE)
            found = events([*before, *lines])
        assert found[-1]["type"] == "response.failed"
        assert found[-1]["response"]["status"] == "cancelled"
        name = found[-1]["response"]["id"]
        assert left.get(f"/v1/responses/{name}").status_code == 401


def test_w21_budget_and_model_failures_are_statuses(place: Place, client: httpx.Client) -> None:
    """[W21] 429 insufficient_quota, and 502 or 503 for a model that does not answer."""
    with place.client("poor") as poor:
        refused = poor.post("/v1/responses", json={"model": "default", "input": "x"})
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "insufficient_quota"
    down = client.post("/v1/responses", json={"model": "down", "input": "x", "stream": True})
    assert down.status_code in (502, 503)
    later = create(client, model="down", input="x", background=True)
    last = resumed(client, later["id"], 0)[-1]
    assert last["type"] == "response.failed"
    assert client.get(f"/v1/responses/{later['id']}").json()["status"] == "failed"


def test_w21_killed_processes_cost_no_word(place: Place, client: httpx.Client) -> None:
    """[W21] ``kill -9`` of the worker and of the web server in the middle of a response in the
    background: the reader goes on after what it had, and has every word once.
    """
    before = counting(client, until="two")
    name, number = before[0]["response"]["id"], before[-1]["sequence_number"]
    for role in ("runs", "web"):
        place.gateway.kill(role)
    for role in ("runs", "web"):
        place.gateway.launch(role)
    for role in ("runs", "web"):
        place.gateway.wait_ready(role)
    rest = resumed(client, name, number)
    assert text_of(before) + text_of(rest) == COUNT
    assert rest[-1]["type"] == "response.completed"
    polled = client.get(f"/v1/responses/{name}").json()
    assert (polled["status"], said_text(polled)) == ("completed", COUNT)

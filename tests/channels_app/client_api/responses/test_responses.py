"""``/v1/responses`` of a running gateway, as the official client sees it: every object and event is
validated against the published types.
"""

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response, ResponseReasoningItem, ResponseStreamEvent
from pydantic import TypeAdapter

from tests import people
from tests.channels_app.client import query
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
Json = dict[str, Any]
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

PARIS = "Paris is the capital."
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "strict": False,
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture
def sdk(scripted: Gateway, tokens: dict[str, str]) -> Iterator[openai.OpenAI]:
    """Yield the official client with the owner's key; it validates what it gets."""
    with openai.OpenAI(
        base_url=f"{scripted.base_url}/v1",
        api_key=tokens["owner"],
        max_retries=0,
        _strict_response_validation=True,
    ) as made:
        yield made


def events(lines: Iterable[str]) -> list[Json]:
    """Return the events of a stream, each valid and with a higher number than the one before."""
    found: list[Json] = []
    for line in lines:
        if line.startswith("data: "):
            event = json.loads(line.removeprefix("data: "))
            EVENT.validate_python(event, strict=True)
            assert event["sequence_number"] > (found[-1]["sequence_number"] if found else 0)
            found.append(event)
    return found


def stream(client: httpx.Client, **body: Any) -> list[Json]:
    """Return the events of a streamed response."""
    asked = {"model": "default", "stream": True, **body}
    with client.stream("POST", "/v1/responses", json=asked) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        return events(answer.iter_lines())


def resumed(client: httpx.Client, name: str, after: int) -> list[Json]:
    """Return the events of a stored response after a number."""
    address = f"/v1/responses/{name}?stream=true&starting_after={after}"
    with client.stream("GET", address) as answer:
        assert answer.status_code == 200, answer.read()
        return events(answer.iter_lines())


def text_of(found: Iterable[Json]) -> str:
    """Return the text that events add up to."""
    return "".join(each["delta"] for each in found if each["type"] == "response.output_text.delta")


def create(client: httpx.Client, headers: Json | None = None, **body: Any) -> Json:
    """Return a response that is not streamed."""
    answer = client.post("/v1/responses", json={"model": "default", **body}, headers=headers)
    assert answer.status_code == 200, answer.text
    Response.model_validate(answer.json(), strict=True)
    found: Json = answer.json()
    return found


def test_w10_a_response_has_every_field_of_the_published_type(sdk: openai.OpenAI) -> None:
    """[W10] Items, usage, the fields of the request; the session and the run as headers."""
    raw = sdk.responses.with_raw_response.create(
        model="default",
        input="Hello there",
        metadata={"a": "b"},
        temperature=0.5,
        instructions="Be brief.",
    )
    made = raw.parse()
    assert made.output_text == "Hello there"
    assert [each.type for each in made.output] == ["message"]
    assert (made.status, made.model, made.metadata) == ("completed", "default", {"a": "b"})
    assert (made.temperature, made.instructions) == (0.5, "Be brief.")
    assert made.usage is not None
    assert made.usage.total_tokens > 0
    assert made.id == f"resp_{raw.headers['x-request-id']}"
    assert len(raw.headers["x-session-id"]) == 22
    assert abs(made.created_at - time.time()) < 60
    assert sdk.responses.retrieve(made.id).model_dump() == made.model_dump()


def test_w11_a_stream_has_the_published_events_and_adds_up(
    client: httpx.Client, sdk: openai.OpenAI
) -> None:
    """[W11] Reasoning as an item with a summary, sources as annotations, the gateway's own tool and
    its progress nowhere; the answer is that of chat completions.
    """
    found = stream(client, input="everything")
    kinds = [each["type"] for each in found]
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-1] == "response.completed"
    items = found[-1]["response"]["output"]
    assert [each["type"] for each in items] == ["reasoning", "message"]
    assert items[0]["summary"] == [{"type": "summary_text", "text": "Let me think."}]
    [part] = items[1]["content"]
    assert part["text"] == text_of(found)
    assert f"![A pixel]({people.PIXEL})" in part["text"]
    assert "A part is missing" in part["text"]
    [cited] = part["annotations"]
    assert "[Paris](https://example.org/paris)" in part["text"][cited["start_index"] :]
    assert cited["end_index"] < len(part["text"])
    assert cited["url"] == "https://example.org/paris"
    assert not any("Looking it up" in json.dumps(each) for each in found)
    assert not any("current_time" in json.dumps(each) for each in found)
    done = [each["item"] for each in found if each["type"] == "response.output_item.done"]
    assert done == items
    asked = {"model": "default", "messages": [{"role": "user", "content": "everything"}]}
    chat = client.post("/v1/chat/completions", json=asked).json()["choices"][0]["message"]
    assert chat["content"].split("?run=")[0] == part["text"].split("?run=")[0]
    with sdk.responses.stream(model="default", input="everything") as accumulated:
        final = accumulated.get_final_response()
    assert final.output_text.split("?run=")[0] == part["text"].split("?run=")[0]


def test_w12_a_tool_of_the_client_is_called_and_its_result_understood(
    client: httpx.Client, sdk: openai.OpenAI
) -> None:
    """[W12] Streamed with its arguments; answered by ``previous_response_id`` alone, and by a
    client that sends all items back.
    """
    with sdk.responses.stream(model="default", input="weather?", tools=[WEATHER]) as asking:
        asked = asking.get_final_response()
    [call] = asked.output
    assert call.type == "function_call"
    assert (call.name, call.arguments) == ("get_weather", '{"city":"Paris"}')
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    after = sdk.responses.create(
        model="default", previous_response_id=asked.id, input=[result], tools=[WEATHER]
    )
    assert after.output_text == "It is sunny."
    sent = [{"role": "user", "content": "weather?"}, asked.output[0].model_dump(), result]
    again = create(client, input=sent, tools=[WEATHER], store=False)
    assert again["output"][0]["content"][0]["text"] == "It is sunny."
    referred = [{"type": "item_reference", "id": call.id}, result]
    third = create(client, input=[sent[0], *referred], tools=[WEATHER])
    assert third["output"][0]["content"][0]["text"] == "It is sunny."
    unanswered = {"model": "default", "previous_response_id": asked.id, "input": "And?"}
    refused = client.post("/v1/responses", json=unanswered)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input")


def test_w13_another_response_follows_with_all_that_was_said(
    client: httpx.Client, scripted: Gateway
) -> None:
    """[W13] In the same session, from whichever response the client names; ``instructions`` are of
    one response only.
    """
    first = create(client, input="My name is Ann", instructions="Be brief.")
    second = create(client, input="And mine?", previous_response_id=first["id"])
    create(client, input="Another branch", previous_response_id=first["id"])
    third = create(client, input="Third", previous_response_id=second["id"])
    sql = "SELECT options, session_id FROM core_run WHERE public_id = '{}'"
    names = [each["id"].removeprefix("resp_") for each in (first, third)]
    rows = [query(scripted, sql.format(name))[0] for name in names]
    assert rows[0][1] == rows[1][1]
    options = rows[1][0]
    kept = json.loads(options) if isinstance(options, str) else options
    assert [(each["role"], each["content"]) for each in kept["messages"]] == [
        ("user", "My name is Ann"),
        ("assistant", "My name is Ann"),
        ("user", "And mine?"),
        ("assistant", "And mine?"),
        ("user", "Third"),
    ]
    listed = client.get(f"/v1/responses/{third['id']}/input_items?order=asc&limit=4").json()
    assert [each["role"] for each in listed["data"]] == ["user", "assistant"] * 2
    assert listed["has_more"]
    rest = client.get(
        f"/v1/responses/{third['id']}/input_items?order=asc&after={listed['last_id']}"
    ).json()
    assert [each["content"][0]["text"] for each in rest["data"]] == ["Third"]


def test_w14_a_response_in_the_background_is_polled_resumed_and_cancelled(
    client: httpx.Client, sdk: openai.OpenAI
) -> None:
    """[W14] Its id comes at once; events after any number are exactly the rest; it stops."""
    queued = create(client, input="slow", background=True)
    assert queued["status"] in ("queued", "in_progress")
    whole = resumed(client, queued["id"], 0)
    assert text_of(whole) == "one two three four"
    for event in whole:
        rest = resumed(client, queued["id"], event["sequence_number"])
        numbers = [each["sequence_number"] for each in whole]
        known = numbers[: numbers.index(event["sequence_number"]) + 1]
        before = [each for each in whole if each["sequence_number"] in known]
        assert text_of(before) + text_of(rest) == "one two three four"
    done = sdk.responses.retrieve(queued["id"])
    assert (done.status, done.output_text) == ("completed", "one two three four")
    hangs = create(client, input="hang", background=True)
    wait_until(lambda: client.get(f"/v1/responses/{hangs['id']}").json()["status"] == "in_progress")
    stopped = sdk.responses.cancel(hangs["id"])
    assert stopped.status == "cancelled"
    assert stopped.error is not None
    assert stopped.error.message == "The answer was stopped."
    assert stopped.error.code == "invalid_prompt"  # Codex begins any other one anew
    assert sdk.responses.cancel(hangs["id"]).status == "cancelled"
    assert sdk.responses.cancel(queued["id"]).status == "completed"


def test_w15_a_response_that_is_not_stored_or_another_persons_is_not_found(
    client: httpx.Client, scripted: Gateway, tokens: dict[str, str]
) -> None:
    """[W15] ``store: false``, deleted, another person's and invented ids answer alike."""
    loose = create(client, input="loose", store=False)
    gone = create(client, input="gone")
    removed = client.delete(f"/v1/responses/{gone['id']}")
    assert removed.json() == {"id": gone["id"], "object": "response", "deleted": True}
    mine = create(client, input="mine")
    theirs = {"Authorization": f"Bearer {tokens['member']}"}
    for name, headers in (
        (loose["id"], None),
        (gone["id"], None),
        ("resp_" + "A" * 22, None),
        ("resp_x", None),
        (mine["id"], theirs),
    ):
        body = {"model": "default", "input": "x", "previous_response_id": name}
        answers = [
            client.get(f"/v1/responses/{name}", headers=headers),
            client.get(f"/v1/responses/{name}?stream=true", headers=headers),
            client.get(f"/v1/responses/{name}/input_items", headers=headers),
            client.post(f"/v1/responses/{name}/cancel", headers=headers),
            client.delete(f"/v1/responses/{name}", headers=headers),
            client.post("/v1/responses", json=body, headers=headers),
        ]
        assert {each.status_code for each in answers} == {404}, name
        messages = {each.json()["error"]["message"] for each in answers}
        assert messages == {"There is no response with this id."}
    assert client.get(f"/v1/responses/{mine['id']}").status_code == 200
    assert scripted.is_healthy()


def test_w16_errors_are_those_that_the_clients_know(
    client: httpx.Client, sdk: openai.OpenAI
) -> None:
    """[W16] A failure before the first text is a status, after it an event with the output so
    far; a wrong field is named.
    """
    with pytest.raises(openai.InternalServerError, match="It broke"):
        sdk.responses.create(model="default", input="break")
    with pytest.raises(openai.RateLimitError):
        sdk.responses.create(model="default", input="busy", stream=True)
    last = stream(client, input="break")[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"] == {"code": "server_error", "message": "It broke"}
    assert last["response"]["output"][0]["content"][0]["text"] == "Half"
    polled = client.get(f"/v1/responses/{last['response']['id']}").json()
    assert polled == last["response"]
    with pytest.raises(openai.NotFoundError) as unknown:
        sdk.responses.create(model="gpt-9", input="x")
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as wrong:
        sdk.responses.create(model="default", input="x", temperature=9)
    assert wrong.value.param == "temperature"


LIST = """
from core.models import ChannelIdentity, User
for value, name in {listed}.items():
    user = User.objects.get(username=name)
    ChannelIdentity.objects.update_or_create(kind="im", value=value, defaults={{"user": user}})
"""


def test_w17_a_bridge_names_its_sender(
    client: httpx.Client, scripted: Gateway, tokens: dict[str, str]
) -> None:
    """[W17] As for chat completions: without ``user`` it is 400, an unknown sender is 401. A
    sender's response is followed by that sender only, while it is the same person.
    """
    headers = {"Authorization": f"Bearer {tokens['bridge']}"}
    body = {"model": "default", "input": "x"}
    refused = client.post("/v1/responses", json=body, headers=headers)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "user")
    held = client.post("/v1/responses", json={**body, "user": "ann@example.org"}, headers=headers)
    assert held.status_code == 401
    listed = {"ann": "owner", "bob": "member"}
    scripted.manage("shell", "-v", "0", "-c", LIST.format(listed=listed))
    first = create(client, headers, input="a secret", user="ann")
    follow = {"input": "And?", "previous_response_id": first["id"]}
    assert create(client, headers, user="ann", **follow)["status"] == "completed"
    assert client.get(f"/v1/responses/{first['id']}", headers=headers).status_code == 200
    assert client.get(f"/v1/responses/{first['id']}").status_code == 200  # of the person
    for user in ("bob", "stranger"):
        asked = {"model": "default", **follow, "user": user}
        assert client.post("/v1/responses", json=asked, headers=headers).status_code == 404
    scripted.manage("shell", "-v", "0", "-c", LIST.format(listed={"ann": "member"}))
    asked = {"model": "default", **follow, "user": "ann"}
    assert client.post("/v1/responses", json=asked, headers=headers).status_code == 404


def test_w18_an_idempotency_key_makes_one_response(client: httpx.Client) -> None:
    """[W18] Repeated, streamed or not; another body with it is refused."""
    key = {"Idempotency-Key": "one"}
    first = create(client, headers=key, input="once")
    assert create(client, headers=key, input="once")["id"] == first["id"]
    late = {"Idempotency-Key": "late"}
    queued = create(client, headers=late, input="later", background=True)
    wait_until(
        lambda: (
            create(client, headers=late, input="later", background=True)["status"] == "completed"
        )
    )
    assert create(client, headers=late, input="later", background=True)["id"] == queued["id"]
    other = {"model": "default", "input": "twice"}
    assert client.post("/v1/responses", json=other, headers=key).status_code == 422


NOTHING_MORE: Any = {}
ENCRYPTED: Any = {"include": ["reasoning.encrypted_content"]}


def test_w79_reasoning_is_encrypted_for_a_client_that_asks(
    client: httpx.Client, sdk: openai.OpenAI
) -> None:
    """[W79] In each event and object that has the whole item, also when it is polled; without
    ``include`` there is none.
    """
    found = stream(client, input="everything", **ENCRYPTED)
    begun = next(each["item"] for each in found if each["type"].endswith("item.added"))
    done = next(each["item"] for each in found if each["type"].endswith("item.done"))
    assert (begun["type"], begun["encrypted_content"]) == ("reasoning", None)
    assert found[-1]["type"] == "response.completed"
    assert found[-1]["response"]["output"][0] == done
    assert "think" not in done["encrypted_content"]
    whole = sdk.responses.create(model="default", input="everything", **ENCRYPTED)
    for answer in (whole, sdk.responses.retrieve(whole.id)):
        thought = answer.output[0]
        assert isinstance(thought, ResponseReasoningItem)
        assert thought.encrypted_content
    plain = stream(client, input="everything")
    items = [each["item"] for each in plain if "item" in each]
    for item in [*items, *plain[-1]["response"]["output"]]:
        assert item.get("encrypted_content") is None


def test_w79_reasoning_is_encrypted_when_a_response_is_asked_for_later(
    client: httpx.Client, sdk: openai.OpenAI
) -> None:
    """[W79] ``include`` of the later request decides, for the object and for its events."""
    made = sdk.responses.create(model="default", input="everything")
    thoughts = [
        sdk.responses.retrieve(made.id, **more).output[0] for more in (NOTHING_MORE, ENCRYPTED)
    ]
    assert all(isinstance(each, ResponseReasoningItem) for each in thoughts)
    assert [bool(getattr(each, "encrypted_content", "")) for each in thoughts] == [False, True]
    with sdk.responses.retrieve(made.id, stream=True, **ENCRYPTED) as events:
        ended = [each.response for each in events if each.type == "response.completed"]
    assert getattr(ended[0].output[0], "encrypted_content", "")
    odd = client.get(f"/v1/responses/{made.id}", params={"include[]": "everything"})
    assert (odd.status_code, odd.json()["error"]["param"]) == (400, "include")


def refusal(client: httpx.Client, headers: Json | None = None, **body: Any) -> Json:
    """Return the error of a refused request."""
    answer = client.post("/v1/responses", json={"model": "default", **body}, headers=headers)
    assert answer.status_code == 400, answer.text
    found: Json = answer.json()["error"]
    return found


def test_w79_encrypted_reasoning_comes_back_from_its_person_alone(
    client: httpx.Client, sdk: openai.OpenAI, tokens: dict[str, str]
) -> None:
    """[W79] A broken one and another person's are OpenAI's error, what another server encrypted is
    left out.
    """
    first = sdk.responses.create(model="default", input="everything", store=False, **ENCRYPTED)
    history: Any = [{"role": "user", "content": "everything"}]
    history += [each.model_dump(exclude_none=True) for each in first.output]
    history.append({"role": "user", "content": "And then?"})
    sealed = history[1]["encrypted_content"]
    again = sdk.responses.create(model="default", input=history, store=False, **ENCRYPTED)
    assert again.output_text == "And then?"
    member = {"Authorization": f"Bearer {tokens['member']}"}
    assert refusal(client, member, input=history) == {
        "message": f"The encrypted content lk1_...{sealed[-4:]} could not be verified.",
        "type": "invalid_request_error",
        "code": "invalid_encrypted_content",
        "param": "input[1].encrypted_content",
    }
    for broken in (sealed[:-9], sealed[:40] + "x" + sealed[40:], "lk1_", "lk1_ä", sealed * 999):
        history[1]["encrypted_content"] = broken
        assert refusal(client, input=history)["code"] == "invalid_encrypted_content"
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.responses.create(model="default", input=history)
    assert caught.value.code == "invalid_encrypted_content"
    for foreign in ("gAAAAABpMm18nXrFLUlQW", "", None):
        history[1]["encrypted_content"] = foreign
        assert create(client, input=history)["status"] == "completed"


def test_w79_a_bridges_sender_sends_back_their_own_encrypted_reasoning(
    client: httpx.Client, scripted: Gateway, tokens: dict[str, str]
) -> None:
    """[W79] The person is the sender's; an unknown sender is 401 as ever."""
    listed = {"olive": "owner", "max": "member"}
    scripted.manage("shell", "-v", "0", "-c", LIST.format(listed=listed))
    bridge = {"Authorization": f"Bearer {tokens['bridge']}"}
    made = create(client, bridge, input="everything", user="olive", **ENCRYPTED)
    history = [made["output"][0], {"role": "user", "content": "And then?"}]
    for headers, user in ((bridge, "olive"), (None, "")):
        assert create(client, headers, input=history, user=user or None)["status"] == "completed"
    found = refusal(client, bridge, input=history, user="max")
    assert found["code"] == "invalid_encrypted_content"
    stranger = {"model": "default", "input": history, "user": "stranger"}
    assert client.post("/v1/responses", json=stranger, headers=bridge).status_code == 401

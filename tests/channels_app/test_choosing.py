"""Choosing at every HTTP interface, by two people at a time, seen at the model server.

The default assistant asks the environment's model. ``ada`` may choose ``poet``, ``bob`` may not.
"""

import json
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests import fake_model
from tests.channels_app import choices
from tests.channels_app.client import Answer, Client, people
from tests.fake_model import FakeModel
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
OWN = "house-model"
BRIDGE = """
from allowlist import keys
from core.models import ChannelAccount, ChannelIdentity, User
bridge = ChannelAccount.objects.create(channel="bridge", name="post", config={"kind": "im"})
for name in ("ada-0", "bob-0"):
    person = User.objects.get(username=name)
    ChannelIdentity.objects.create(user=person, kind="im", value=name)
print("KEY", keys.create(name="v1", account=bridge, scopes=["inbound", "chat"])[1])
"""


@pytest.fixture(scope="module")
def server() -> Iterator[FakeModel]:
    """Yield the model server."""
    with fake_model.running() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(module_gateways: Callable[..., Gateway], server: FakeModel) -> Gateway:
    """Start a gateway whose models are all on that server."""
    return module_gateways(
        LLM_PROVIDER="openai-compatible",
        GATEWAY_MODEL_URL=server.url,
        GATEWAY_MODEL=OWN,
        RATE_PER_MINUTE_USER="0",
        RATE_PER_MINUTE_ADDRESS="0",
        RUN_LEASE_SECONDS="3",
        SWEEP_SECONDS="1",
    )


@pytest.fixture(scope="module")
def clients(gateway: Gateway, server: FakeModel) -> dict[str, Client]:
    """Return clients with the keys of an owner, of Ada, of Bob, and of a bridge that names the
    last two as senders.
    """
    made = {
        name: people(gateway, number=1, name=name, owner=name == "owner")[0]
        for name in ("owner", "ada", "bob")
    }
    key = gateway.manage("shell", "-v", "0", "-c", BRIDGE).split("KEY ")[1].strip()
    made["bridge"] = Client(gateway, key)
    choices.make_in(gateway, listed="ada-0", url=server.url)
    return made


@pytest.fixture
def ada(clients: dict[str, Client]) -> Client:
    return clients["ada"]


@pytest.fixture
def bob(clients: dict[str, Client]) -> Client:
    return clients["bob"]


@pytest.fixture
def owner(clients: dict[str, Client]) -> Client:
    return clients["owner"]


def seen(server: FakeModel, text: str) -> tuple[str, str]:
    """Return what the model server was asked with this text: the model's name, and the beginning of
    the instructions.
    """
    for body in reversed(server.asked):
        if text in str(body["messages"][-1]["content"]):
            return str(body["model"]), str(body["messages"][0]["content"]).partition(".")[0]
    raise AssertionError(f"{text} was not asked: {server.asked}")


def said(client: Client, server: FakeModel, **more: Any) -> tuple[str, str]:
    """Send a message to ``/inbound``; return what the model server was asked."""
    text = secrets.token_hex(8)
    answer = client.say(text, **more)
    assert answer.status == 200, answer.raw
    return seen(server, text)


def completed(client: Client, model: str, **more: Any) -> tuple[str, Answer]:
    """Ask for a chat completion; return its text and the answer."""
    text = secrets.token_hex(8)
    body = {"model": model, "messages": [{"role": "user", "content": text}], **more}
    return text, client.post("/v1/chat/completions", body)


def listed(client: Client) -> list[str]:
    """Return the names of ``GET /v1/models``."""
    return [str(each["id"]) for each in client.get("/v1/models").body["data"]]


def refused(answer: Answer, field: str) -> None:
    """Check an error that names a field."""
    assert (answer.status, answer.body["field"]) == (404, field), answer.raw


# /v1


def test_d5_models_are_those_that_the_person_of_the_key_may_choose(
    ada: Client, bob: Client, owner: Client, clients: dict[str, Client]
) -> None:
    assert listed(ada) == [OWN, "default", "assistant", "coder", "poet", "small"]
    assert listed(bob) == [OWN, "default", "assistant", "coder", "small"]
    assert {*listed(owner)} == {*listed(ada), "hidden", "large"}
    for each in owner.get("/v1/models").body["data"]:
        assert each["created"] > 1_700_000_000
        other = each["id"] in ("small", "large")
        assert each["owned_by"] == ("Other" if other else "latchkey"), each
        assert owner.get(f"/v1/models/{each['id']}").body == each
    for name in ("poet", "hidden", "large", "nothing"):
        assert bob.get(f"/v1/models/{name}").body["error"]["code"] == "model_not_found"
    assert ada.get("/v1/models/Other/small").body["id"] == "Other/small"


def test_d5_a_model_of_a_request_is_an_assistant_or_a_model_by_name(
    ada: Client, server: FakeModel
) -> None:
    gateways_own = seen_by(ada, server, "default")
    assert gateways_own[0] == OWN
    assert "You are the" not in gateways_own[1]
    assert seen_by(ada, server, OWN) == gateways_own
    assert seen_by(ada, server, "poet") == (OWN, "You are the poet, v1")
    assert seen_by(ada, server, "small") == ("small", gateways_own[1])
    assert seen_by(ada, server, "Other/small") == ("small", gateways_own[1])
    assert seen_by(ada, server, "default") == gateways_own, "a name holds for its request alone"


def seen_by(client: Client, server: FakeModel, model: str) -> tuple[str, str]:
    """Ask for a completion by ``model``, which the answer repeats; return as :func:`seen`."""
    text, answer = completed(client, model)
    assert (answer.status, answer.body["model"]) == (200, model), answer.raw
    return seen(server, text)


def test_d5_a_name_that_is_not_offered_is_unknown_and_leaves_nothing_behind(
    bob: Client, server: FakeModel
) -> None:
    for name in ("poet", "hidden", "large", "nothing", "Poet", "a\n", "Other/large"):
        text, answer = completed(bob, name)
        error = answer.body["error"]
        assert (answer.status, error["code"], error["param"]) == (404, "model_not_found", "model")
        runs = bob.get("/api/runs?limit=1").body["results"]
        assert text not in str(runs)
        assert text not in str(server.asked)


def test_d5_c10_a_bridge_names_the_choice_of_its_sender(
    clients: dict[str, Client], server: FakeModel
) -> None:
    bridge = clients["bridge"]
    text, answer = completed(bridge, "poet", user="ada-0")
    assert (answer.status, seen(server, text)) == (200, (OWN, "You are the poet, v1")), answer.raw
    _, answer = completed(bridge, "poet", user="bob-0")
    assert (answer.status, answer.body["error"]["param"]) == (404, "model")
    _, answer = completed(bridge, "poet", user="a stranger")
    assert (answer.status, answer.body["error"]["message"]) == (401, "Permission denied")
    assert listed(bridge) == [OWN, "default", "assistant", "coder", "small"]


# /inbound and its commands


def test_d1_a_message_names_its_assistant_and_its_model(
    ada: Client, bob: Client, server: FakeModel
) -> None:
    usual = said(bob, server)
    assert said(ada, server, assistant="poet") == (OWN, "You are the poet, v1")
    assert said(ada, server, model="small") == ("small", usual[1])
    assert said(ada, server, assistant="coder", model="small") == ("small", "You are the coder, v1")
    assert said(ada, server, assistant="", model=None) == usual == said(ada, server)
    for wrong in ("poet", "hidden", "nothing", "Coder", "ä"):
        refused(bob.say("hello", assistant=wrong), "assistant")
    for wrong in ("large", "coder", "nothing"):
        refused(bob.say("hello", model=wrong), "model")
    assert bob.say("hello", assistant=5).body["field"] == "assistant"
    assert bob.say("hello", model="x" * 301).status == 413
    stream = bob.post("/inbound", {"text": "hello", "assistant": "poet", "stream": True})
    assert stream.status == 404


def test_d1_the_assistant_belongs_to_the_request_that_a_key_repeats(bob: Client) -> None:
    key = {"Idempotency_Key": secrets.token_hex(8)}
    first = bob.post("/inbound", {"text": "hi", "assistant": "coder"}, **key)
    again = bob.post("/inbound", {"text": "hi", "assistant": "coder"}, **key)
    other = bob.post("/inbound", {"text": "hi"}, **key)
    assert (first.status, again.body["run_id"]) == (200, first.body["run_id"])
    assert (other.status, other.body["field"]) == (422, "Idempotency-Key")


def test_c8_c10_a_command_chooses_for_a_conversation_until_it_is_undone(
    ada: Client, bob: Client, server: FakeModel
) -> None:
    for client in (ada, bob):
        assert client.say("/new", user_id="talk").status == 200
    usual = said(bob, server, user_id="talk")
    chosen = ada.say("/assistant poet", user_id="talk").body["text"]
    assert chosen.startswith("Poet answers: it was chosen in this conversation.")
    assert said(ada, server, user_id="talk") == (OWN, "You are the poet, v1")
    assert said(bob, server, user_id="talk") == usual
    assert said(ada, server, user_id="another talk") == usual
    assert said(ada, server, user_id="talk", assistant="coder")[1] == "You are the coder, v1"
    assert said(ada, server, user_id="talk")[1] == "You are the poet, v1", "the turn is over"
    ada.say("/model small", user_id="talk")
    assert said(ada, server, user_id="talk") == ("small", "You are the poet, v1")
    ada.say("/assistant default", user_id="talk")
    ada.say("/model default", user_id="talk")
    assert said(ada, server, user_id="talk") == usual
    assert "There is no assistant" in bob.say("/assistant poet", user_id="talk").body["text"]
    refused(bob.say("/help", user_id="talk", assistant="poet"), "assistant")


def test_c8_c10_a_withdrawn_choice_stops_counting_at_the_next_message(
    gateway: Gateway, bob: Client, server: FakeModel
) -> None:
    usual = said(bob, server)
    bob.say("/assistant coder", user_id="w")
    assert said(bob, server, user_id="w")[1] == "You are the coder, v1"
    choices.offer(gateway, "coder", "nobody")
    try:
        assert said(bob, server, user_id="w") == usual
        assert "no longer offered" in bob.say("/assistant", user_id="w").body["text"]
        refused(bob.say("hello", assistant="coder"), "assistant")
    finally:
        choices.offer(gateway, "coder", "everybody")
    assert said(bob, server, user_id="w") == usual, "what was said to be gone does not come back"


# /ui/chat


def test_a_message_of_the_ui_stream_names_its_assistant_and_its_model(
    ada: Client, bob: Client, server: FakeModel
) -> None:
    def told(client: Client, **more: Any) -> tuple[str, Answer]:
        text = secrets.token_hex(8)
        parts = [{"type": "text", "text": text}]
        body = {"id": f"chat-{text}", "messages": [{"role": "user", "parts": parts}], **more}
        return text, client.post("/ui/chat", body, Accept="application/json")

    text, answer = told(ada, assistant="poet", model="small")
    assert answer.status == 200, answer.raw
    assert seen(server, text) == ("small", "You are the poet, v1")
    refused(told(bob, assistant="poet")[1], "assistant")
    refused(told(bob, model="large")[1], "model")
    text, answer = told(bob)
    assert (answer.status, seen(server, text)[0]) == (200, OWN)


# /api


def test_d9_choices_are_listed_and_a_session_keeps_one(
    ada: Client, bob: Client, owner: Client, server: FakeModel
) -> None:
    def slugs(client: Client) -> list[str]:
        return [each["slug"] for each in client.get("/api/assistants").body["results"]]

    assert slugs(ada) == ["assistant", "coder", "poet"]
    assert slugs(bob) == ["assistant", "coder"]
    assert slugs(owner) == ["assistant", "coder", "hidden", "poet"]
    assert [each["name"] for each in bob.get("/api/models").body["results"]] == ["small"]
    made = ada.post("/api/sessions", {"title": "Verses", "assistant": "poet"}).body
    where = f"/api/sessions/{made['id']}"
    assert (made["assistant"], made["model"], made["answers"]) == ("poet", None, "poet")
    assert made["why"] == "Poet answers: it was chosen in this conversation."
    assert said(ada, server, session_id=made["id"]) == (OWN, "You are the poet, v1")
    patched = patch(ada, where, {"assistant": "coder", "model": "small"})
    assert (patched.body["assistant"], patched.body["model"]) == ("coder", "small")
    assert patched.body["title"] == "Verses"
    assert said(ada, server, session_id=made["id"]) == ("small", "You are the coder, v1")
    assert ada.get(where).body["assistant"] == "coder"
    assert patch(ada, where, {"title": "Prose"}).body["assistant"] == "coder"
    undone = patch(ada, where, {"assistant": None, "model": ""}).body
    assert (undone["assistant"], undone["model"], undone["answers"]) == (None, None, "assistant")
    assert undone["why"] == "Assistant answers: it is the default."
    refused(patch(ada, where, {"assistant": "hidden"}), "assistant")
    refused(patch(ada, where, {"model": "large"}), "model")
    refused(bob.post("/api/sessions", {"assistant": "poet"}), "assistant")
    assert patch(bob, where, {"assistant": "coder"}).status == 404, "not Bob's session"
    assert ada.get(where).body["assistant"] is None


def patch(client: Client, path: str, body: dict[str, Any]) -> Answer:
    """Send a PATCH."""
    return client.call("PATCH", path, json.dumps(body).encode())


# Bindings


def test_c10_a_bound_key_is_answered_by_its_assistant_and_another_key_of_the_person_is_not(
    gateway: Gateway, bob: Client, server: FakeModel
) -> None:
    """Also one that is not offered; a choice of the person in the conversation goes before."""
    usual = said(bob, server)
    bound = people(gateway, number=1, name="bob")[0]
    bind = f"""
from allowlist.models import ApiKey
from core.models import Assistant, AssistantBinding
AssistantBinding.objects.create(
    assistant=Assistant.objects.get(slug="hidden"),
    key_id=ApiKey.objects.get(prefix={bound.token.split("_")[1]!r}).pk,
)
"""
    gateway.manage("shell", "-v", "0", "-c", bind)
    hidden = (OWN, "You are the hidden, v1")
    assert said(bound, server) == seen_by(bound, server, "default") == hidden
    assert said(bob, server) == seen_by(bob, server, "default") == usual
    assert "it is bound to the API key" in bound.say("/assistant").body["text"]
    assert "it is the default" in bob.say("/assistant").body["text"]
    assert said(bound, server, assistant="coder")[1] == "You are the coder, v1"
    session = bob.post("/api/sessions", {"assistant": "coder"}).body["id"]
    for client in (bob, bound):
        text, answer = completed_in(client, session)
        assert (answer.status, seen(server, text)[1]) == (200, "You are the coder, v1")


def completed_in(client: Client, session: str) -> tuple[str, Answer]:
    """Ask for a completion in a session of one's own."""
    text = secrets.token_hex(8)
    body = {"model": "default", "messages": [{"role": "user", "content": text}]}
    return text, client.post("/v1/chat/completions", body, X_Session_Id=session)


# A turn keeps its instructions


def test_c11_a_turn_keeps_the_instructions_with_which_it_began(
    gateway: Gateway, ada: Client, server: FakeModel
) -> None:
    """Edited while a run waits behind another one; the next message has the new ones."""
    server.gate.clear()
    first, second = secrets.token_hex(8), secrets.token_hex(8)
    place = {"user_id": "edited", "assistant": "poet"}
    runs = [ada.start(first, **place)]
    wait_until(lambda: first in str(server.asked))
    runs.append(ada.start(second, **place))
    choices.edit(gateway, "poet")
    server.gate.set()
    for run in runs:
        wait_until(lambda run=run: ada.result(run).status == 200)  # type: ignore[misc]
    assert seen(server, first)[1] == seen(server, second)[1] == "You are the poet, v1"
    assert said(ada, server, **place)[1] == "You are the poet, v2"


def test_c11_a_turn_keeps_its_instructions_between_attempts(
    gateway: Gateway, bob: Client, server: FakeModel
) -> None:
    """Its worker is killed while the model is asked, and the instructions are edited meanwhile."""
    server.gate.clear()
    text = secrets.token_hex(8)
    run = bob.start(text, assistant="coder")
    wait_until(lambda: text in str(server.asked))
    gateway.kill("runs")
    choices.edit(gateway, "coder")
    gateway.restart("runs")
    server.gate.set()
    wait_until(lambda: bob.result(run).status == 200, seconds=60)
    attempts = [
        str(body["messages"][0]["content"]).partition(".")[0]
        for body in server.asked
        if text in str(body["messages"][-1]["content"])
    ]
    assert attempts == ["You are the coder, v1"] * 2
    assert said(bob, server, assistant="coder")[1] == "You are the coder, v2"

"""Two senders and one key: a client's message id reveals nothing to another client.

Every endpoint with an idempotency key is called by two listed senders and an unlisted one behind
one bridge key, or by two users with keys of their own; every id of a session, a run, a file by a
user who does not own it. Contracts [D1] [A3] [A5] [A10].
"""

import ast
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.utils import timezone

from allowlist import keys, unknown_requests
from allowlist.models import UnknownRequest
from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError
from channels_app.asgi.principal import Principal
from channels_app.bridge import signing
from channels_app.intake.decisions import let_in
from channels_app.webchat import frames, operations
from core.database import transactions
from core.files import storage
from core.lib import encryption
from core.models import ChannelAccount, ChannelIdentity, InboundMessage, Run, StoredFile, User
from tests.redteam.gateway_data import Answer, GatewayData

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "a-secret-of-this-bridge"
KEY = "the-same-key"
WORDS = "what is my balance?"
SECONDS = count()
PRODUCT = Path(operations.__file__).parents[1]


@dataclass(frozen=True)
class Got:
    """The answer to a client, in the same form for all endpoints: status, all words, named
    field."""

    status: int
    words: str
    field: str = ""


@dataclass
class World:
    """Two listed senders and an owner behind one bridge; the same two hold personal keys."""

    account: ChannelAccount
    owner: User
    people: dict[str, User] = field(default_factory=dict)
    gateway: GatewayData = field(default_factory=GatewayData)

    def run_of(self, name: str) -> Run:
        """Return the only run of a person."""
        return Run.objects.get(user=self.people[name])

    def ids_of(self, name: str) -> set[str]:
        """Return every public id of the run of a person."""
        run = self.run_of(name)
        return {run.public_id, run.session.public_id}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Create the people, with no rate limit reached."""
    for name in ("addresses", "people", "failures", "keys"):
        monkeypatch.setattr(throttling, name, throttling.Rate())
    account = ChannelAccount.objects.create(
        channel="bridge",
        name="mail",
        config={"callback_url": "https://bridge.example/get_response"},
        secrets=encryption.encrypt({"signing_secret": SECRET}),
    )
    made = World(account, User.objects.create(username="owner", is_owner=True, only_listed=True))
    made.gateway.tokens["bridge"] = keys.create(
        name="b", account=account, scopes=["chat", "inbound"]
    )[1]
    for name in ("alice", "bob"):
        user = made.people[name] = User.objects.create(username=name, only_listed=True)
        ChannelIdentity.objects.create(user=user, kind="im", channel="bridge", value=name)
        made.gateway.tokens[name] = keys.create(name=name, user=user, scopes=["chat", "inbound"])[1]
    yield made
    transactions.close_pool()


Ask = Callable[[World, str, str, str], Got]


def got(answer: Answer) -> Got:
    """Convert an HTTP answer."""
    heads = {name: value for name, value in answer.headers.items() if name.startswith("x-")}
    words = answer.body.decode() + repr(heads)
    body: dict[str, Any] = {}
    if answer.headers.get("content-type") == "application/json":
        body = orjson.loads(answer.body)
    elif answer.status >= 400:  # a stream is refused by its only event
        body = orjson.loads(answer.body.removeprefix(b"data: "))
    error = body.get("error")
    named = error.get("param") if isinstance(error, dict) else body.get("field")
    return Got(answer.status, words, named or "")


def inbound_json(world: World, sender: str, key: str, text: str) -> Got:
    """Send ``POST /inbound`` without waiting."""
    body = {"user_id": sender, "text": text, "async": True}
    return got(world.gateway.ask("bridge", "POST", "/inbound", body, **{"Idempotency-Key": key}))


def inbound_stream(world: World, sender: str, key: str, text: str) -> Got:
    """Send ``POST /inbound`` as a stream; leave after its first frame."""
    body = {"user_id": sender, "text": text, "stream": True}
    return got(world.gateway.ask("bridge", "POST", "/inbound", body, **{"Idempotency-Key": key}))


def v1(world: World, sender: str, key: str, text: str) -> Got:
    """Send ``POST /v1/chat/completions``."""
    messages = [{"role": "user", "content": text}]
    body = {"model": "default", "stream": True, "messages": messages, "user": sender}
    path = "/v1/chat/completions"
    return got(world.gateway.ask("bridge", "POST", path, body, **{"Idempotency-Key": key}))


def process(world: World, sender: str, key: str, text: str) -> Got:
    """Send ``POST /process``, in a chat that all senders share."""
    body = {"user_id": sender, "text": text, "request_id": key, "chat_id": "room"}
    data = orjson.dumps(body)
    # A signature holds whole seconds, and none may be used twice.
    signed = signing.headers(secret=SECRET, now=time.time() + next(SECONDS) % 200, body=data)
    return got(world.gateway.ask("bridge", "POST", "/process", data, **signed))


def socket(world: World, sender: str, key: str, text: str) -> Got:
    """Send a plain frame over ``/ws``."""
    principal = Principal(user=None, account=world.account, key_id=1)
    return said(frames.Say(text=text, client_id=key, user_id=sender, plain=True), principal)


def own_inbound(world: World, sender: str, key: str, text: str) -> Got:
    """Send ``POST /inbound`` with a personal key."""
    body = {"text": text, "async": True}
    return got(world.gateway.ask(sender, "POST", "/inbound", body, **{"Idempotency-Key": key}))


def own_v1(world: World, sender: str, key: str, text: str) -> Got:
    """Send ``POST /v1/chat/completions`` with a personal key."""
    messages = [{"role": "user", "content": text}]
    body = {"model": "default", "stream": True, "messages": messages}
    path = "/v1/chat/completions"
    return got(world.gateway.ask(sender, "POST", path, body, **{"Idempotency-Key": key}))


def own_socket(world: World, sender: str, key: str, text: str) -> Got:
    """Send a frame of a person over ``/ws``."""
    return said(frames.Say(text=text, client_id=key), Principal(user=world.people[sender]))


def said(frame: frames.Say, principal: Principal) -> Got:
    """Send a frame to the web socket; return its answer without waiting for its run."""
    try:
        run, session = operations.accept(frame, principal=principal)
    except RefusedError as error:
        return Got(error.status, str(error), error.field)
    return Got(202, f"{run.public_id} {session}")


BRIDGED: dict[str, tuple[Ask, str]] = {
    "/inbound": (inbound_json, "Idempotency-Key"),
    "/inbound as a stream": (inbound_stream, "Idempotency-Key"),
    "/v1/chat/completions": (v1, "Idempotency-Key"),
    "/process": (process, "request_id"),
    "/ws": (socket, "client_id"),
}
PERSONAL: dict[str, tuple[Ask, str]] = {
    "/inbound": (own_inbound, "Idempotency-Key"),
    "/v1/chat/completions": (own_v1, "Idempotency-Key"),
    "/ws": (own_socket, "client_id"),
}
EVERY = {f"bridge {name}": each for name, each in BRIDGED.items()} | {
    f"personal {name}": each for name, each in PERSONAL.items()
}
bridged = pytest.mark.parametrize(("ask", "name"), BRIDGED.values(), ids=BRIDGED)
each_way = pytest.mark.parametrize(("ask", "name"), EVERY.values(), ids=EVERY)


def is_accepted(answer: Got) -> bool:
    """Return whether the message was accepted."""
    return answer.status in {200, 202}


@each_way
def test_two_senders_with_one_key_are_two_messages(world: World, ask: Ask, name: str) -> None:
    """Each has a run of their own, is told of no other, and may send theirs again."""
    first = ask(world, "alice", KEY, WORDS)
    second = ask(world, "bob", KEY, WORDS)
    assert is_accepted(first)
    assert is_accepted(second)
    assert InboundMessage.objects.count() == Run.objects.count() == 2
    for sender, other in (("alice", "bob"), ("bob", "alice")):
        again = ask(world, sender, KEY, WORDS)
        assert is_accepted(again)
        assert not [each for each in world.ids_of(other) if each in again.words]
    assert not [each for each in world.ids_of("alice") if each in second.words]
    assert InboundMessage.objects.count() == Run.objects.count() == 2


@bridged
def test_an_unlisted_sender_with_a_used_key_is_held_without_an_answer(
    world: World, ask: Ask, name: str
) -> None:
    """And makes an unknown request, as with any other message; the listed one's retry works."""
    assert is_accepted(ask(world, "alice", KEY, WORDS))
    stranger = ask(world, "mallory", KEY, WORDS)
    assert stranger.status == 401
    assert not [each for each in world.ids_of("alice") if each in stranger.words]
    held = InboundMessage.objects.get(sender="mallory")
    assert (held.state, held.text) == ("held", WORDS)
    assert UnknownRequest.objects.get().sender == "mallory"
    assert is_accepted(ask(world, "alice", KEY, WORDS))
    assert ask(world, "mallory", KEY, WORDS).status == 401
    assert (Run.objects.count(), InboundMessage.objects.count()) == (1, 2)


@bridged
def test_an_unknown_senders_key_takes_no_message_of_a_listed_sender(
    world: World, ask: Ask, name: str
) -> None:
    """A later sender with the same key is accepted nevertheless."""
    assert ask(world, "mallory", KEY, WORDS).status == 401
    assert is_accepted(ask(world, "alice", KEY, WORDS))
    assert world.run_of("alice").text == WORDS
    assert InboundMessage.objects.get(sender="mallory").state == "held"


@each_way
def test_the_same_key_with_another_body_is_refused_by_name(
    world: World, ask: Ask, name: str
) -> None:
    """422, and the first one's retry still works."""
    assert is_accepted(ask(world, "alice", KEY, WORDS))
    other = ask(world, "alice", KEY, "send all my money to bob")
    assert (other.status, other.field) == (422, name)
    assert not [each for each in world.ids_of("alice") if each in other.words]
    assert is_accepted(ask(world, "alice", KEY, WORDS))
    assert world.run_of("alice").text == WORDS


@bridged
def test_a_revoked_sender_does_not_get_an_old_answer(world: World, ask: Ask, name: str) -> None:
    """The rule is asked before a repetition is looked for."""
    assert is_accepted(ask(world, "alice", KEY, WORDS))
    ChannelIdentity.objects.filter(value="alice").delete()
    refused = ask(world, "alice", KEY, WORDS)
    assert refused.status == 401
    assert not [each for each in world.ids_of("alice") if each in refused.words]


@bridged
def test_a_held_message_is_the_same_request_after_the_approval(
    world: World, ask: Ask, name: str
) -> None:
    """[A7] The retry finds the run of the replayed message; nothing runs twice."""
    assert ask(world, "carol", KEY, WORDS).status == 401
    unknown_requests.decide(
        request=UnknownRequest.objects.get().public_id,
        verdict="approve",
        owner=world.owner,
        via="test",
        now=timezone.now(),
        replay=lambda messages: let_in(UnknownRequest.objects.get().public_id, messages),
    )
    assert is_accepted(ask(world, "carol", KEY, WORDS))
    assert Run.objects.count() == InboundMessage.objects.count() == 1


@bridged
def test_a_refused_message_is_accepted_when_repeated_after_the_approval(
    world: World, ask: Ask, name: str
) -> None:
    """Listed by hand, or after the held message was emptied: its sender has it still."""
    assert ask(world, "dave", KEY, WORDS).status == 401
    InboundMessage.objects.update(state="purged", text="")
    dave = world.people["dave"] = User.objects.create(username="dave", only_listed=True)
    ChannelIdentity.objects.create(user=dave, kind="im", channel="bridge", value="dave")
    assert is_accepted(ask(world, "dave", KEY, WORDS))
    assert is_accepted(ask(world, "dave", KEY, WORDS))
    assert world.run_of("dave").text == WORDS
    assert InboundMessage.objects.get().text == WORDS


def test_a_bridge_that_names_a_session_repeats_its_request(world: World) -> None:
    """A bridge's sender has one conversation, whatever ``session_id`` says: it is ignored, the
    second time as the first."""
    body = {"user_id": "alice", "text": WORDS, "async": True, "session_id": "theirs"}
    heads = {"Idempotency-Key": KEY}
    answers = [
        got(world.gateway.ask("bridge", "POST", "/inbound", body, **heads)) for _ in range(2)
    ]
    assert [each.status for each in answers] == [202, 202]
    assert answers[0].words == answers[1].words
    principal = Principal(user=None, account=world.account, key_id=1)
    frame = frames.Say(text=WORDS, client_id=KEY, user_id="bob", session_id="theirs", plain=True)
    assert said(frame, principal) == said(frame, principal)
    assert is_accepted(said(frame, principal))


def test_one_key_at_different_endpoints_is_one_message_each(world: World) -> None:
    """An endpoint is part of what a key is unique for; how the answer is asked for is not."""
    for ask, _ in BRIDGED.values():
        assert is_accepted(ask(world, "alice", KEY, WORDS))
    assert Run.objects.count() == len(BRIDGED) - 1  # /inbound is there twice


# An id of ``alice``'s object -> another user's request with it, and the status that
# the other gets, as for a thing that does not exist. "{…}" is alice's id.
@dataclass(frozen=True)
class Foreign:
    """A request with another user's id. ``who``: the key that is used."""

    who: str
    method: str
    path: str
    status: int
    body: Any = None
    headers: tuple[tuple[str, str], ...] = ()

    def filled(self, names: dict[str, str]) -> tuple[str, Any, dict[str, str]]:
        """Return the path, the body and the headers with these ids."""

        def fill(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: fill(each) for key, each in value.items()}
            if isinstance(value, list):
                return [fill(each) for each in value]
            if not isinstance(value, str):
                return value
            for name, known in names.items():
                value = value.replace("{" + name + "}", known)
            return value

        return fill(self.path), fill(self.body), {key: fill(each) for key, each in self.headers}


HI = {"text": "hi", "async": True}
CHAT = {"model": "default", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
UI = {
    "id": "{session}",
    "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}],
}
AG_UI = {
    "threadId": "{session}",
    "runId": "run-1",
    "messages": [{"id": "m", "role": "user", "content": "hi"}],
}
FOREIGN = {
    "run: result, sender of a bridge": Foreign(
        "bridge", "GET", "/inbound/result?run_id={run}&user_id=bob", 404
    ),
    "run: result, unlisted sender": Foreign(
        "bridge", "GET", "/inbound/result?run_id={run}&user_id=mallory", 404
    ),
    "run: events, sender of a bridge": Foreign(
        "bridge", "GET", "/runs/{run}/events?user_id=bob", 404
    ),
    "run: events, unlisted sender": Foreign(
        "bridge", "GET", "/runs/{run}/events?user_id=mallory", 404
    ),
    "run: cancel, sender of a bridge": Foreign(
        "bridge", "POST", "/inbound/cancel", 404, {"run_id": "{run}", "user_id": "bob"}
    ),
    "run: cancel, unlisted sender": Foreign(
        "bridge", "POST", "/inbound/cancel", 404, {"run_id": "{run}", "user_id": "mallory"}
    ),
    "run: result": Foreign("bob", "GET", "/inbound/result?run_id={run}", 404),
    "run: result, claiming to be her": Foreign(
        "bob", "GET", "/inbound/result?run_id={run}&user_id=alice", 404
    ),
    "run: events": Foreign("bob", "GET", "/runs/{run}/events", 404),
    "run: cancel": Foreign("bob", "POST", "/inbound/cancel", 404, {"run_id": "{run}"}),
    "run: detail": Foreign("bob", "GET", "/api/runs/{run}", 404),
    "run: cancel, REST": Foreign("bob", "POST", "/api/runs/{run}/cancel", 404),
    "run: another bridge": Foreign("other bridge", "GET", "/inbound/result?run_id={run}", 404),
    "session: /inbound": Foreign("bob", "POST", "/inbound", 404, {**HI, "session_id": "{session}"}),
    "session: messages": Foreign("bob", "GET", "/api/sessions/{session}/messages", 404),
    "session: files": Foreign("bob", "GET", "/api/sessions/{session}/files", 404),
    "session: rename": Foreign("bob", "PATCH", "/api/sessions/{session}", 404, {"title": "x"}),
    "session: delete": Foreign("bob", "DELETE", "/api/sessions/{session}", 404),
    "session: AG-UI, reconnect": Foreign("bob", "GET", "/ag-ui/{session}/stream", 404),
    "session: UI stream, resume": Foreign("bob", "GET", "/ui/chat/{session}/stream", 204),
    "file: get": Foreign("bob", "GET", "/files/{file}", 404),
    "file: delete": Foreign("bob", "DELETE", "/files/{file}", 404),
    # A name that a client may choose for itself: it is the sender's own conversation.
    "session: /v1": Foreign(
        "bob", "POST", "/v1/chat/completions", 200, CHAT, (("X-Session-Id", "{session}"),)
    ),
    "session: /v1, sender of a bridge": Foreign(
        "bridge",
        "POST",
        "/v1/chat/completions",
        200,
        {**CHAT, "user": "bob"},
        (("X-Session-Id", "{session}"),),
    ),
    "session: /inbound, sender of a bridge": Foreign(
        "bridge", "POST", "/inbound", 202, {**HI, "user_id": "bob", "session_id": "{session}"}
    ),
    "session: AG-UI": Foreign("bob", "POST", "/ag-ui", 200, AG_UI),
    "session: UI stream": Foreign("bob", "POST", "/ui/chat", 200, UI),
    "label: /inbound": Foreign("bob", "POST", "/inbound", 202, {**HI, "user_id": "alice"}),
    # Whose a file is, is looked at when the run begins; the request tells nothing.
    "file: /inbound": Foreign("bob", "POST", "/inbound", 202, {**HI, "files": ["{file}"]}),
}
NOTHING = "A" * 22


@pytest.mark.parametrize("case", FOREIGN.values(), ids=FOREIGN)
def test_another_senders_id_is_not_reused(world: World, case: Foreign) -> None:
    """The answer is that for an id that does not exist; hers is untouched, and still hers."""
    other = ChannelAccount.objects.create(channel="bridge", name="other")
    token = keys.create(name="o", account=other, scopes=["chat", "inbound"])[1]
    world.gateway.tokens["other bridge"] = token
    inbound_json(world, "alice", KEY, WORDS)
    run = world.run_of("alice")
    kept = storage.keep(user=world.people["alice"], name="own.txt", content=b"private")
    names = {
        "run": run.public_id,
        "session": run.session.public_id,
        "file": kept.public_id,
    }
    path, body, headers = case.filled(names)
    answer = world.gateway.ask(case.who, case.method, path, body, **headers)
    missing = case.filled(dict.fromkeys(names, NOTHING))
    nothing = world.gateway.ask(case.who, case.method, missing[0], missing[1], **missing[2])
    assert (answer.status, nothing.status) == (case.status, case.status)
    asked = repr((path, body, headers))
    told = answer.body.decode() + repr(dict(answer.headers))
    assert not [each for each in names.values() if each in told and each not in asked]
    if case.status == 404:
        assert answer.body == nothing.body
    run.refresh_from_db()
    assert (run.state, run.cancel_requested_at, run.session.closed_at) == ("queued", None, None)
    assert StoredFile.objects.get().revoked_at is None
    assert list(run.session.runs.values_list("id", flat=True)) == [run.id]
    mine = f"/inbound/result?run_id={run.public_id}"
    for who, sender in (("alice", ""), ("bridge", "&user_id=alice"), ("bridge", "")):
        assert world.gateway.ask(who, "GET", mine + sender).status == 202


def test_only_platforms_give_ids_that_are_unique_for_the_account() -> None:
    """A client's id goes through ``RepeatKey``; a new endpoint that forgets it fails here."""
    fills = {
        path.relative_to(PRODUCT).parts[0]
        for path in PRODUCT.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Draft"
        if any(each.arg == "update_id" for each in call.keywords)
    }
    assert fills == {"telegram", "memory"}


def test_the_table_of_two_senders_has_every_way() -> None:
    """A missing way would be untested."""
    assert len(BRIDGED) * 6 + len(EVERY) * 2 + len(FOREIGN) == 5 * 6 + 8 * 2 + 29

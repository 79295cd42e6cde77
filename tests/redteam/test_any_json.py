"""Any JSON value at any endpoint: a status below 500, in its own shape, on both databases.

Two generators. The random one changes one part of a small body. It never put NUL into the type of
a picture or a key of a tool's schema: few of its values have the right type for the place. So the
second one writes each hostile value into each place of a body that has every field.
"""

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from channels_app.asgi import throttling
from channels_app.asgi.http import RefusedError
from channels_app.bridge import signing
from channels_app.telegram import receive
from channels_app.telegram import views as telegram_views
from channels_app.telegram.addressing import Bot
from channels_app.webchat import frames
from core.database import transactions
from core.lib import encryption
from core.models import ChannelAccount
from tests.channels_app.telegram.people import message
from tests.redteam import gateway_data, matrix
from tests.redteam.gateway_data import GatewayData
from tests.redteam.matrix import (
    ACCEPT,
    AG_UI,
    BROWSER,
    CHAT,
    ENDPOINT,
    PLAN,
    RENAME,
    RESPOND,
    RPC,
    THUMB,
    UI,
)

EXAMPLES = 40
CHEAP = bounded(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None, exclude_categories=()), max_size=40)
    | st.sampled_from(["", "\x00", "\ud800", "' OR 1=1 --", "{session}", "A" * 22, "9" * 400])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
PROCESS = {"user_id": "u", "text": "hi", "request_id": "r", "images": [], "context": "c"}
CALLBACK = {"callback_url": "https://bridge.example/get_response"}
SIGNING = "a signing secret of the bridge"
SAID = {"text": "hi", "async": True, "images": [], "session_id": None, "user_id": "u"}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
# Items and tools of the Responses API.
ITEMS: dict[str, Any] = {
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "namespace": "n", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "custom_tool_call", "call_id": "e", "name": "p", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "e", "output": "x"},
        {"type": "local_shell_call", "call_id": "d", "action": {"command": ["ls"]}},
        {
            "type": "local_shell_call_output",
            "call_id": "d",
            "output": [{"type": "input_text", "text": "a"}],
        },
    ],
    "instructions": "Be brief.",
    "tools": [
        {"type": "custom", "name": "p", "description": "x", "format": GRAMMAR},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "custom", "name": "p"}],
    },
    "text": {"format": {"type": "json_object"}, "verbosity": "low"},
    "reasoning": {"effort": "low"},
    "metadata": {"a": "b"},
}
ENDPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "inbound": ("/inbound", SAID),
    "cancel": ("/inbound/cancel", {"run_id": "{run}"}),
    "openai": ("/v1/chat/completions", {**CHAT, "tools": [], "stop": None, "user": "u"}),
    "responses": ("/v1/responses", {**RESPOND, **ITEMS, "user": "u"}),
    "ui": ("/ui/chat", UI),
    "ag_ui": ("/ag-ui", AG_UI),
    "telegram": ("/telegram/bot/webhook", message("hello")),
    "rename": ("/chat/sessions/{session}", RENAME),
    "settings": ("/chat/settings", {"show_progress": True}),
    "push": ("/chat/push/subscriptions", {**BROWSER, "by": "page"}),
    "push-remove": ("/chat/push/remove", ENDPOINT),
    "push-remove-other": ("/chat/push/remove", {"id": 1}),
    "thumb": ("/chat/feedback", THUMB),
    "sessions": ("/api/sessions", {"title": "x"}),
    "decision": ("/api/requests/{request}/decision", {"verdict": "deny"}),
    "process": ("/process", PROCESS),
    "mcp": ("/mcp", RPC),
    "agents": ("/api/agent-sessions", {"channel": "web", "title": "x"}),
    "source": ("/api/runs/{run}/sources/s1/feedback", {"verdict": "up", "comment": "x"}),
    "schedule": ("/api/schedules", {**PLAN, "kind": "text", "if_missed": "once"}),
    "in minutes": ("/api/schedules", {"text": "x", "in_minutes": 5.5, "time_zone": "UTC"}),
    "reschedule": ("/api/schedules/{schedule}", {**PLAN, "kind": "prompt", "if_missed": "skip"}),
    "retitle": ("/api/sessions/{session}", {"title": "y"}),
    "code": ("/chat/link-code", {"x": [1]}),
    "upload": ("/files?name=x", {"any": "bytes"}),
}


@pytest.fixture(autouse=True)
def gateway(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[GatewayData]:
    """Create people and things; no limit counts; the bot knows its name without asking Telegram."""
    for name in ("addresses", "people", "failures"):
        monkeypatch.setattr(throttling, name, throttling.Rate())
    monkeypatch.setattr(throttling.Rate, "check", lambda *_, **__: None)
    telegram_views.accounts.clear()
    made = gateway_data.build()
    secrets = encryption.encrypt({"signing_secret": SIGNING})
    ChannelAccount.objects.filter(channel="bridge").update(config=CALLBACK, secrets=secrets)
    row = ChannelAccount.objects.get(channel="telegram")
    receive.bots.put((row.id, row.open_secrets()["token"]), Bot(1, "a_bot"))
    yield made
    telegram_views.accounts.clear()
    receive.bots.clear()
    transactions.close_pool()


def with_one_part_changed(valid: Any, value: Any, where: int) -> Any:
    """Return ``valid`` with its ``where``-th part (counted through all levels) replaced by
    ``value``."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    copy = orjson.loads(orjson.dumps(valid))
    walk(copy)
    node, key = places[where % len(places)]
    node[key] = value
    return copy


def encoded(value: Any) -> bytes:
    """Return JSON as a hostile client writes it: lone surrogates and huge integers included."""
    return json.dumps(value).encode()


def credentials(endpoint: str, body: bytes) -> tuple[str, str, dict[str, str]]:
    """Return role, method and headers."""
    headers = {"x-telegram-bot-api-secret-token": gateway_data.WEBHOOK_SECRET}
    if endpoint == "process":
        return "bridge", "POST", signing.headers(secret=SIGNING, now=time.time(), body=body)
    if endpoint == "ui":  # in words, unless JSON is asked for
        return "own", "POST", {"accept": "application/json"}
    if endpoint == "mcp":
        return "own", "POST", dict(ACCEPT)
    method = "PATCH" if endpoint in {"retitle", "reschedule"} else "POST"
    return "owner" if endpoint == "decision" else "own", method, headers


@pytest.mark.either
@pytest.mark.parametrize("endpoint", ENDPOINTS)
@CHEAP
@given(value=VALUES, where=st.integers(0, 60), whole=st.booleans())
def test_no_value_is_a_failure(
    endpoint: str, gateway: GatewayData, value: Any, where: int, *, whole: bool
) -> None:
    """[RI8] [RW10] [RW13] [RW14] [RO11] The whole body, or one part of it, may be anything."""
    path, valid = ENDPOINTS[endpoint]
    body = value if whole else with_one_part_changed(valid, value, where)
    if isinstance(body, dict) and path in {"/inbound", "/v1/chat/completions"}:
        waits = "async" if path == "/inbound" else "stream"
        body = {**body, waits: body.get(waits) or True}  # no worker runs here to wait for
    if isinstance(body, dict) and path == "/v1/responses":
        body = {**body, "background": body.get("background") or True}
    raw = encoded(body)
    who, method, headers = credentials(endpoint, raw)
    answer = gateway.ask(who, method, gateway.fill(path), raw, **headers)
    assert answer.status < 500, (answer.body, body)
    assert b"Traceback" not in answer.body
    if answer.status >= 400:
        assert isinstance(orjson.loads(answer.body), dict)


PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6"
    "kgAAAABJRU5ErkJggg=="
)
PAPER = "data:text/plain;base64,aGVsbG8="
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 5, "enum": ["a"]}},
    "$defs": {"d": {"const": 1.5}},
}
TOOL = {
    "type": "function",
    "function": {"name": "weather", "description": "d", "parameters": SCHEMA, "strict": True},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
FORMAT = {"name": "n", "schema": SCHEMA, "strict": True}
FULL_CHAT = {
    "model": "default",
    "stream": True,
    "messages": [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "a", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "t"}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "t"},
                {"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}},
                {"type": "file", "file": {"file_data": PAPER, "filename": "f"}},
            ],
        },
    ],
    "stream_options": {"include_usage": True},
    "tools": [TOOL],
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "temperature": 1.5,
    "top_p": 0.5,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "max_tokens": 5,
    "max_completion_tokens": 5,
    "seed": 5,
    "stop": ["x"],
    "logit_bias": {"5": 1},
    "parallel_tool_calls": True,
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": FORMAT},
    "user": "u",
    "metadata": {"of": {"mine": [1]}},
}
PART = {"type": "file", "mediaType": "image/png", "url": PIXEL, "filename": "f"}
DOCUMENT = {"type": "file", "mediaType": "text/plain", "url": PAPER, "filename": "f"}
RESULT = {
    "type": "tool-weather",
    "toolCallId": "c1",
    "state": "output-available",
    "input": {"city": "x"},
    "output": {"is": ["warm"]},
}
FULL_UI = {
    "id": "chat-1",
    "messages": [
        {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "x"}, PART, DOCUMENT]},
        {"id": "m2", "role": "assistant", "parts": [{"type": "text", "text": "y"}, RESULT]},
    ],
    "tools": [TOOL],
    "trigger": "submit-message",
}
FULL_AG_UI = {
    "threadId": "thread-1",
    "runId": "run-1",
    "protocolVersion": "1.0",
    "messages": [
        {"id": "m1", "role": "system", "content": "s"},
        {"id": "m2", "role": "reasoning", "content": "s"},
        {
            "id": "m3",
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "image", "source": {"type": "data", "value": PIXEL, "mimeType": "i"}},
                {"type": "document", "source": {"type": "data", "value": PAPER, "mimeType": "t"}},
                {"type": "binary", "mimeType": "image/png", "data": PIXEL, "filename": "f"},
            ],
        },
        {
            "id": "m4",
            "role": "assistant",
            "content": "y",
            "toolCalls": [
                {"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}
            ],
        },
        {"id": "m5", "role": "tool", "toolCallId": "c1", "content": "warm"},
    ],
    "tools": [{"name": "w", "description": "d", "parameters": {"type": "object"}}],
    "context": [{"description": "d", "value": "v"}],
    "state": {"a": [1, 2.5]},
    "forwardedProps": {"assistant": None, "model": None},
}
FULL_SAID = {
    "text": "hi",
    "async": True,
    "user_id": "u",
    "user_name": "n",
    "channel_name": "c",
    "images": [PIXEL, {"url": PIXEL, "name": "n"}],
    "audios": ["data:audio/ogg;base64,aGVsbG8="],
    "videos": ["data:video/mp4;base64,aGVsbG8="],
    "files": [{"url": PAPER, "name": "n"}],
    "unknown": {"field": [1, 2.5]},
}
FULL_PROCESS = {
    "user_id": "u",
    "text": "hi",
    "request_id": "r",
    "user_name": "n",
    "chat_id": "c",
    "thread_id": "t",
    "context": "c",
    "images": [PIXEL],
    "audios": [],
    "files": [PAPER],
}
THUMB_OF = {**THUMB, "message_id": "found-1"}
AGENT = {"channel": "web", "account": "default", "title": "x"}
SOURCE = {"verdict": "up", "message_id": "found-1"}
# Bodies with every field; those of the table above where they have all already.
FULL: dict[str, Any] = {
    "inbound": FULL_SAID,
    "openai": FULL_CHAT,
    "ui": FULL_UI,
    "ag_ui": FULL_AG_UI,
    "process": FULL_PROCESS,
    "thumb": THUMB_OF,
    "agents": AGENT,
    "source": SOURCE,
}
# Kept as they came and cleaned afterwards (Telegram repeats what is refused; an agent's terminal
# prints anything), or no JSON for us.
TAKEN_AS_THEY_ARE = {"telegram", "mcp", "code", "upload"}
# The calls and results of tools of a client, which are cleaned too.
OF_TOOLS = {
    "openai": ("messages[1].tool_calls[0].function", "messages[2].content"),
    "responses": (
        *("input[1].arguments", "input[2].output", "input[3].input", "input[4].output"),
        *("input[5].arguments", "input[6].output"),
    ),
    "ui": ("messages[1].parts[1].input", "messages[1].parts[1].output"),
    "ag_ui": ("messages[3].toolCalls[0].function", "messages[4].content"),
}
HOSTILE_TEXTS = ("\x00", "\ud800", "\udfff")
HOSTILE_NUMBERS = (2**64, -(2**63) - 1, 10**60)


def places_in(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every part of a JSON value with its path, itself included."""
    yield path, node
    if isinstance(node, dict):
        for key, each in node.items():
            yield from places_in(each, f"{path}.{key}" if path else key)
    if isinstance(node, list):
        for number, each in enumerate(node):
            yield from places_in(each, f"{path}[{number}]")


def hostile(valid: Any) -> Iterator[tuple[str, Any]]:
    """Yield a path, and ``valid`` with one hostile value at that path: each text, each key, each
    number.

    A hostile text keeps the rest of the original, so that it has the right type and shape.
    """
    total = len(list(places_in(valid)))
    for number in range(total):
        path, node = list(places_in(valid))[number]
        if isinstance(node, dict):
            for text in HOSTILE_TEXTS[:2]:
                yield path or "body", put(valid, number, {**node, f"k{text}": 1})
        elif isinstance(node, str):
            for text in HOSTILE_TEXTS:
                yield path, put(valid, number, f"{node[:11]}{text}{node[11:]}")
        elif isinstance(node, int | float) and not isinstance(node, bool):
            for huge in HOSTILE_NUMBERS:
                yield path, put(valid, number, huge)


def put(valid: Any, number: int, value: Any) -> Any:
    """Return ``valid`` with its ``number``-th part, as ``places_in`` counts, replaced."""
    count = -1

    def copied(node: Any) -> Any:
        nonlocal count
        count += 1
        if count == number:
            count += len(list(places_in(node))) - 1
            return value
        if isinstance(node, dict):
            return {key: copied(each) for key, each in node.items()}
        return [copied(each) for each in node] if isinstance(node, list) else node

    return copied(valid)


def posted(endpoint: str, gateway: GatewayData, body: Any) -> gateway_data.Answer:
    """Send a body to an endpoint; return the answer."""
    raw = encoded(body)
    who, method, headers = credentials(endpoint, raw)
    return gateway.ask(who, method, gateway.fill(ENDPOINTS[endpoint][0]), raw, **headers)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_hostile_value_in_any_place_is_refused_by_name_on_both_databases(
    endpoint: str, gateway: GatewayData
) -> None:
    """[RI8] [RO11] [RW13] NUL, lone surrogates and huge numbers, in every text, key and number."""
    valid = json.loads(gateway.fill(json.dumps(FULL.get(endpoint, ENDPOINTS[endpoint][1]))))
    # Without the hostile value all of it is accepted; the bridge's sender is not listed.
    assert posted(endpoint, gateway, valid).status in (
        {401} if endpoint == "process" else range(200, 300)
    )
    tried = 0
    for path, body in hostile(valid):
        answer = posted(endpoint, gateway, body)
        tried += 1
        if endpoint in TAKEN_AS_THEY_ARE or path.startswith(OF_TOOLS.get(endpoint, ("-",))):
            assert answer.status < 500, (path, answer)
        else:
            assert answer.status == 400, (path, answer)
            assert path in answer.body.decode(), (path, answer)
    assert tried


@CHEAP
@given(value=VALUES, where=st.integers(0, 20), kind=st.integers(0, 7))
def test_no_frame_is_more_than_refused(value: Any, where: int, kind: int) -> None:
    """[RWS7] A socket gets frames of ours only, or a refusal that names the field."""
    every: list[dict[str, Any]] = [
        {
            "type": "message",
            "text": "x",
            "client_id": "c",
            "files": [{"url": "data:,", "name": ""}],
        },
        {"type": "stop", "run_id": "A" * 22},
        {"type": "resume", "run_id": "A" * 22, "after": 0},
        {"type": "decide", "request": "A" * 22, "verdict": "deny"},
        {"type": "auth", "key": "k"},
        {"type": "ping"},
        {"type": "visible", "visible": True},
        {"type": "shown", "cards": ["A" * 22]},
        {"text": "x", "user_id": "u"},
    ]
    changed = with_one_part_changed(every[kind], value, where)
    refusals: list[RefusedError] = []
    try:
        frames.read(frames.parse(encoded(changed).decode()))
    except RefusedError as error:
        refusals.append(error)
    assert all(each.status in {400, 413} and each.field for each in refusals)


HOSTILE_PARTS = ("%00", "a%00b", "%ED%A0%80", "%FF", "9" * 400)


@pytest.mark.parametrize("part", HOSTILE_PARTS)
def test_a_hostile_value_in_an_address_is_no_failure(part: str, gateway: GatewayData) -> None:
    """Every variable part of every address, in the path and in the query."""
    gateway.names = dict.fromkeys(gateway.names, part)
    for route, rows in {**matrix.PAGES, **matrix.API, **matrix.ENDPOINTS}.items():
        for row in rows:
            path = gateway.fill(row.path)
            if path == row.path and "?" not in path:
                continue
            path = re.sub(r"=[^&]*", f"={part}", path)
            answer = gateway.ask("owner", row.method, path, row.body, **dict(row.headers))
            assert answer.status < 500, (route, answer)

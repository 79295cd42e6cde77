"""Any JSON value at any door: a status below 500, in the door's own shape, on both databases."""

import json
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from channels_app import limits
from channels_app.bridge import signing
from channels_app.http import RefusedError
from channels_app.telegram import receive
from channels_app.telegram import views as telegram_door
from channels_app.telegram.addressing import Bot
from channels_app.webchat import frames
from core import db, sealed
from core.models import ChannelAccount
from tests.redteam import house as houses
from tests.redteam.house import House
from tests.redteam.matrix import ACCEPT, CHAT, RENAME, RPC, THUMB, UI
from tests.telegram.people import message

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
DOORS: dict[str, tuple[str, dict[str, Any]]] = {
    "inbound": ("/inbound", SAID),
    "cancel": ("/inbound/cancel", {"run_id": "{run}"}),
    "openai": ("/v1/chat/completions", {**CHAT, "tools": [], "stop": None, "user": "u"}),
    "ui": ("/ui/chat", UI),
    "telegram": ("/telegram/bot/webhook", message("hello")),
    "rename": ("/chat/sessions/{session}", RENAME),
    "settings": ("/chat/settings", {"show_progress": True}),
    "thumb": ("/chat/feedback", THUMB),
    "sessions": ("/api/sessions", {"title": "x"}),
    "decision": ("/api/requests/{request}/decision", {"verdict": "deny"}),
    "process": ("/process", PROCESS),
    "mcp": ("/mcp", RPC),
    "agents": ("/api/agent-sessions", {"channel": "web", "title": "x"}),
    "source": ("/api/runs/{run}/sources/s1/feedback", {"verdict": "up", "comment": "x"}),
    "retitle": ("/api/sessions/{session}", {"title": "y"}),
    "code": ("/chat/link-code", {"x": [1]}),
    "upload": ("/files?name=x", {"any": "bytes"}),
}


@pytest.fixture(autouse=True)
def house(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[House]:
    """People and things; no limit counts; the bot knows its name without asking Telegram."""
    for name in ("addresses", "people", "failures"):
        monkeypatch.setattr(limits, name, limits.Rate())
    monkeypatch.setattr(limits.Rate, "check", lambda *_, **__: None)
    telegram_door.forget()
    made = houses.build()
    secrets = sealed.seal({"signing_secret": SIGNING})
    ChannelAccount.objects.filter(channel="bridge").update(config=CALLBACK, secrets=secrets)
    row = ChannelAccount.objects.get(channel="telegram")
    known = receive.Known(Bot(1, "a_bot"), time.monotonic() + 3600)
    monkeypatch.setitem(receive._known, (row.id, row.open_secrets()["token"]), known)
    yield made
    telegram_door.forget()
    db.close_pool()


def with_one_part_changed(valid: Any, value: Any, where: int) -> Any:
    """``valid`` with its ``where``-th part (counted through all levels) replaced by ``value``."""
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
    """JSON as a hostile client writes it: lone surrogates and huge integers included."""
    return json.dumps(value).encode()


def credentials(door: str, body: bytes) -> tuple[str, str, dict[str, str]]:
    """(who asks at a door, method, headers)."""
    headers = {"x-telegram-bot-api-secret-token": houses.WEBHOOK_SECRET}
    if door == "process":
        return "bridge", "POST", signing.headers(secret=SIGNING, now=time.time(), body=body)
    if door == "ui":  # in words, unless JSON is asked for
        return "own", "POST", {"accept": "application/json"}
    if door == "mcp":
        return "own", "POST", dict(ACCEPT)
    method = "PATCH" if door == "retitle" else "POST"
    return "owner" if door == "decision" else "own", method, headers


@pytest.mark.parametrize("door", DOORS)
@CHEAP
@given(value=VALUES, where=st.integers(0, 60), whole=st.booleans())
def test_no_value_is_a_failure(
    door: str, house: House, value: Any, where: int, *, whole: bool
) -> None:
    """[I8] [W10] [W13] [W14] [O11] The whole body, or one part of a valid one, may be anything."""
    path, valid = DOORS[door]
    body = value if whole else with_one_part_changed(valid, value, where)
    if isinstance(body, dict) and path in {"/inbound", "/v1/chat/completions"}:
        waits = "async" if path == "/inbound" else "stream"
        body = {**body, waits: body.get(waits) or True}  # no worker runs here to wait for
    raw = encoded(body)
    who, method, headers = credentials(door, raw)
    answer = house.ask(who, method, house.fill(path), raw, **headers)
    assert answer.status < 500, (answer.body, body)
    assert b"Traceback" not in answer.body
    if answer.status >= 400:
        assert isinstance(orjson.loads(answer.body), dict)


@CHEAP
@given(value=VALUES, where=st.integers(0, 20), kind=st.integers(0, 6))
def test_no_frame_is_more_than_refused(value: Any, where: int, kind: int) -> None:
    """[WS7] What a socket is told is a frame of ours, or a refusal that names the field."""
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
        {"text": "x", "user_id": "u"},
    ]
    changed = with_one_part_changed(every[kind], value, where)
    refusals: list[RefusedError] = []
    try:
        frames.read(frames.parse(encoded(changed).decode()))
    except RefusedError as error:
        refusals.append(error)
    assert all(each.status in {400, 413} and each.field for each in refusals)

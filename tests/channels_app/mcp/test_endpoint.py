"""Access to ``/mcp`` ([D7], RM1, RM2, RM9), over plain HTTP."""

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from allowlist import keys
from channels_app.agent_sessions import sessions
from channels_app.asgi.http import RefusedError
from channels_app.mcp import endpoints
from core.models import ChannelAccount, ChatSession, User
from tests.channels_app.mcp.conftest import MakeAgent
from tests.channels_app.mcp.served import Served

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
Settings = Any


@pytest.fixture
def key(owner: User) -> str:
    return keys.create(name="agent", user=owner, scopes=["send_result"])[1]


def ask(
    served: Served,
    body: Any = LIST,
    *,
    method: str = "POST",
    key: str = "",
    path: str = "/mcp",
    **headers: str,
) -> tuple[int, Any, dict[str, str]]:
    """Send one request; return status, body, headers."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    every = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Host": f"127.0.0.1:{served.port}",
        **({"Authorization": f"Bearer {key}"} if key else {}),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, body=data if method == "POST" else None, headers=every)
    answer = connection.getresponse()
    raw = answer.read().decode()
    connection.close()
    found: Any = raw
    if answer.headers.get("Content-Type", "").startswith("application/json"):
        found = json.loads(raw)
    return answer.status, found, {name.lower(): value for name, value in answer.headers.items()}


def test_a_foreign_origin_or_host_is_refused_before_anything_else(
    served: Served, key: str, settings: Settings
) -> None:
    """RM1: DNS rebinding."""
    for origin in ("http://evil.example", "null", "http://127.0.0.1:8000.evil.example"):
        assert ask(served, key=key, Origin=origin)[0] == 403
    for host in ("evil.example", f"evil.example:{served.port}", ""):
        assert ask(served, key=key, Host=host)[0] == 400
    assert ask(served, key=key)[0] == 200
    assert ask(served, key=key, Origin=settings.GATEWAY_URL)[0] == 200
    settings.MCP_ALLOWED_ORIGINS = ["https://inspector.example"]
    assert ask(served, key=key, Origin="https://inspector.example")[0] == 200


def test_only_a_persons_key_with_the_scope_opens_it(
    served: Served, owner: User, session: ChatSession, memory: ChannelAccount
) -> None:
    """RM2: a session id is no credential."""
    status, body, headers = ask(served, X_Session_Id=session.public_id)
    assert status == 401
    assert headers["www-authenticate"].startswith("Bearer")
    assert body["jsonrpc"] == "2.0"
    chat = keys.create(name="chat", user=owner, scopes=["chat"])[1]
    assert ask(served, key=chat)[0] == 403
    bridge = keys.create(name="bridge", account=memory, scopes=["send_result"])[1]
    assert ask(served, key=bridge)[0] == 403
    assert ask(served, key="lk_0123456789ab_" + "x" * 43)[0] == 401


def test_a_revoked_key_opens_nothing(
    agent_of: MakeAgent, owner: User, session: ChatSession, served: Served
) -> None:
    """[A9]"""
    from django.utils import timezone

    agent = agent_of(owner, session)
    assert agent.send("one")["status"] == "success"
    keys.revoke(key=owner.api_keys.get(), actor="test", now=timezone.now())
    assert ask(served, key=agent.key)[0] == 401


def test_a_batch_of_a_thousand_calls_is_too_much(
    served: Served, key: str, settings: Settings
) -> None:
    """RM9."""
    assert ask(served, [LIST] * 3, key=key)[0] == 400
    settings.RATE_PER_MINUTE_USER = 100
    assert ask(served, [LIST] * 1000, key=key)[0] == 429


def test_bad_bodies_are_refused_in_the_protocols_shape(served: Served, key: str) -> None:
    """[RI8] [RI9] at this endpoint: never a 5xx."""
    for body in (b"", b"{", b"\xff", b'{"a":1,"a":2}', b"[" * 100_000, b"5", b'{"x":NaN}'):
        status, answer, _ = ask(served, body, key=key)
        assert status == 400
        assert answer["error"]["message"]
    status, *_ = ask(served, {"jsonrpc": "2.0", "id": 1, "method": "no/such"}, key=key)
    assert status in {200, 400, 404}
    assert ask(served, {"jsonrpc": "1.0"}, key=key)[0] == 400


def test_there_is_no_stream_of_the_servers_own(served: Served, key: str) -> None:
    """[D7] no state is kept between requests: any process may answer."""
    for method in ("GET", "DELETE", "PUT"):
        status, _, headers = ask(served, method=method, key=key)
        assert status == 405
        assert headers["allow"] == "POST"


def test_answers_carry_the_headers_of_all_our_answers(served: Served, key: str) -> None:
    """Nothing is sniffed, framed or cached."""
    _, _, headers = ask(served, key=key)
    assert headers["x-content-type-options"] == "nosniff"
    assert "no-" in headers["cache-control"]


def test_the_session_comes_from_the_header(
    served: Served, key: str, owner: User, memory: ChannelAccount
) -> None:
    """[S1] not from the arguments."""
    session = sessions.open_session(user=owner, account=memory)
    call = {
        **LIST,
        "method": "tools/call",
        "params": {"name": "list_sessions", "arguments": {}},
    }
    _, body, _ = ask(served, call, key=key, X_Session_Id=session.public_id)
    assert session.public_id in body
    assert '\\"current\\":true' in body or '"current":true' in body


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@pytest.mark.parametrize(
    ("body", "code", "name"),
    [
        (b"no json", -32700, None),
        (b'{"jsonrpc": "2.0", "id": 1', -32700, None),
        (b"\xff", -32700, None),
        (b"[]", -32600, None),
        (b"7", -32600, None),
        ({**LIST, "jsonrpc": "1.0", "id": 7}, -32600, 7),
        ({"jsonrpc": "2.0", "id": "a"}, -32600, "a"),
        ({**LIST, "method": 5}, -32600, 1),
        ({**LIST, "params": [1]}, -32600, 1),
        ({**LIST, "id": [1]}, -32600, None),
        ({**LIST, "id": 2**70, "method": 5}, -32600, None),
    ],
)
def test_d7_invalid_messages_get_a_json_rpc_error_in_one_sentence(
    served: Served, key: str, path: str, body: Any, code: int, name: Any
) -> None:
    """[D7] With the message's id where it has one; with and without the slash."""
    status, found, _ = ask(served, body, key=key, path=path)
    assert status == 400
    assert (found["error"]["code"], found.get("id")) == (code, name)
    assert ("id" in found) == (name is not None)
    assert found["error"]["message"].count(".") <= 2
    assert "\n" not in found["error"]["message"]
    assert ask(served, key=key, path=path)[0] == 200


def test_v39_refusals_carry_the_requests_id_and_never_null(
    served: Served, key: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[V39] Ours and the SDK's; one that is decided before the body is read has no id at all."""
    call = {**LIST, "id": "seven"}
    wrong: list[tuple[int, dict[str, str]]] = [
        (406, {"Accept": "text/plain"}),
        (400, {"MCP_Protocol_Version": "1999-01-01"}),
    ]
    for expected, headers in wrong:
        status, found, answered = ask(served, call, key=key, **headers)
        assert status == expected, (headers, found)
        assert found["id"] == "seven"
        assert "no-" in answered["cache-control"]

    @contextmanager
    def full(_: object) -> Iterator[None]:
        raise RefusedError(429, "Too many at once.")
        yield

    monkeypatch.setattr(endpoints, "slot", full)
    status, found, _ = ask(served, call, key=key)
    assert (status, found["id"]) == (429, "seven")
    for status, found, _ in (
        ask(served, call),
        ask(served, call, key=key, Origin="http://evil.example"),
        ask(served, b"no json", key=key),
    ):
        assert status in {400, 401, 403}
        assert found["error"]["message"]
        assert "id" not in found

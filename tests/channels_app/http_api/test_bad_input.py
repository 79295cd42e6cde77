"""Bad input at the HTTP endpoints: a 4xx that names the field, no 5xx, nothing stored."""

import json
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest

from tests.channels_app.client import Answer, Client, counts
from tests.gateways import Gateway
from tests.servers import wait_until

pytestmark = pytest.mark.slow
PICTURE = "data:image/png;base64,AAAA"


def refused(answer: Answer, status: int, *, field: str = "") -> None:
    """Check that the answer is an error in the endpoint's own shape."""
    body = answer.body
    assert (answer.status, body["status"]) == (status, status), body
    assert (body["ok"], body["text"], body["format"]) == (False, "", "plain")
    assert body["error"]
    assert body.get("field", "") == field
    if field and field != "body":
        assert field in body["error"]
    assert "Traceback" not in answer.raw.decode()


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 400, "text"),
        ({"text": None}, 400, "text"),
        ({"text": 5}, 400, "text"),
        ({"text": ["a"]}, 400, "text"),
        ({"text": ""}, 400, "text"),
        ({"text": " \t\n\u2003"}, 400, "text"),
        ({"text": "a\x00b"}, 400, "text"),
        ({"text": "x" * 200_001}, 413, "text"),
        ({"text": "a", "stream": "yes"}, 400, "stream"),
        ({"text": "a", "stream": 1}, 400, "stream"),
        ({"text": "a", "async": None, "stream": None}, 400, "stream"),
        ({"text": "a", "async": "true"}, 400, "async"),
        ({"text": "a", "user_id": 42}, 400, "user_id"),
        ({"text": "a", "user_id": "x" * 257}, 413, "user_id"),
        ({"text": "a", "user_id": "\x00"}, 400, "user_id"),
        ({"text": "a", "user_name": {}}, 400, "user_name"),
        ({"text": "a", "channel_name": []}, 400, "channel_name"),
        ({"text": "a", "session_id": 5}, 400, "session_id"),
        ({"text": "a", "session_id": "x" * 65}, 413, "session_id"),
        ({"text": "a", "session_id": "unknown"}, 404, "session_id"),
        ({"text": "a", "session_id": "A" * 22}, 404, "session_id"),
        ({"text": "a", "session_id": "' OR 1=1 --"}, 404, "session_id"),
        ({"text": "a", "images": "data:x"}, 400, "images"),
        ({"text": "a", "images": 0}, 400, "images"),
        ({"text": "a", "images": False}, 400, "images"),
        ({"text": "a", "images": [5]}, 400, "images"),
        ({"text": "a", "images": ["/etc/passwd"]}, 400, "images"),
        ({"text": "a", "images": ["file:///etc/passwd"]}, 400, "images"),
        ({"text": "a", "images": ["data:image/png;base64,%%%"]}, 400, "images"),
        ({"text": "a", "images": ["data:image/png,AAAA"]}, 400, "images"),
        ({"text": "a", "images": [PICTURE] * 17}, 413, "images"),
        ({"text": "a", "audios": {}}, 400, "audios"),
        ({"text": "a", "videos": "x"}, 400, "videos"),
        ({"text": "a", "files": [None]}, 400, "files"),
        ({"text": "a", "files": [{"url": PICTURE, "id": {}}]}, 400, "files"),
        ({"text": "a", "files": [{"url": PICTURE, "id": 0}]}, 400, "files"),
    ],
    ids=lambda value: json.dumps(value)[:50] if isinstance(value, dict) else "",
)
def test_ri3_ri6_a_field_of_the_wrong_kind_is_named(
    body: dict[str, Any], status: int, field: str, ada: Client, gateway: Gateway
) -> None:
    before = counts(gateway)
    refused(ada.post("/inbound", body), status, field=field)
    assert counts(gateway) == before


BODIES = {
    "nothing": b"",
    "no JSON": b"text=hello",
    "half": b'{"text": "a"',
    "two": b'{"text": "a"}{"text": "b"}',
    "a list": b'["text"]',
    "a string": b'"text"',
    "null": b"null",
    "two BOMs": b'\xef\xbb\xbf\xef\xbb\xbf{"text": "a"}',
    "UTF-16": '{"text": "a"}'.encode("utf-16"),
    "invalid UTF-8": b'{"text": "\xff\xfe"}',
    "overlong": b'{"text": "\xc0\x80"}',
    "NaN": b'{"text": "a", "x": NaN}',
    "Infinity": b'{"text": "a", "x": -Infinity}',
    "infinite": b'{"text": "a", "x": 1e999}',
    "huge integer": b'{"text": "a", "x": ' + b"9" * 5000 + b"}",
    "same key twice": b'{"text": "a", "text": "b"}',
    "same key twice, deep": b'{"text": "a", "x": [{"y": 1, "y": 2}]}',
    "deep list": b'{"text": "a", "x": ' + b"[" * 100 + b"]" * 100 + b"}",
    "very deep": b"[" * 100_000 + b"]" * 100_000,
    "very deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "control character": b'{"text": "a\x01"}',
    "wide": b"[" + b"[]," * 500_000 + b"[]]",
}


@pytest.mark.parametrize("name", BODIES)
def test_ri8_ri9_a_body_that_is_no_json_object_is_refused(
    name: str, ada: Client, gateway: Gateway
) -> None:
    before = counts(gateway)
    refused(ada.call("POST", "/inbound", BODIES[name]), 400, field="body")
    refused(ada.call("POST", "/inbound/cancel", BODIES[name]), 400, field="body")
    assert counts(gateway) == before


@pytest.mark.parametrize("surrogate", ["\\ud800", "\\udfff\\ud800", "x\\ud83d y"])
def test_a_lone_surrogate_is_refused(surrogate: str, ada: Client, gateway: Gateway) -> None:
    before = counts(gateway)
    refused(ada.call("POST", "/inbound", f'{{"text": "{surrogate}"}}'.encode()), 400, field="text")
    body = f'{{"text": "a", "session_id": "{surrogate}"}}'.encode()
    refused(ada.call("POST", "/inbound", body), 400, field="session_id")
    unknown = f'{{"text": "a", "{surrogate}": "{surrogate}"}}'.encode()
    assert ada.call("POST", "/inbound", unknown).status == 400
    assert counts(gateway) == before


def test_a_body_of_20_mb_is_refused_before_it_is_read(ada: Client, gateway: Gateway) -> None:
    before = counts(gateway)
    refused(ada.call("POST", "/inbound", b"x" * 20_000_000), 413)
    assert counts(gateway) == before


def test_a_chunked_body_of_20_mb_is_cut_off(ada: Client, gateway: Gateway) -> None:
    before = counts(gateway)
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as connection:
        connection.sendall(
            b"POST /inbound HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: application/json\r\n"
            b"Authorization: Bearer " + ada.token.encode() + b"\r\n\r\n"
        )
        answer = b""
        with suppress(OSError):
            for _ in range(20):
                connection.sendall(b"100000\r\n" + b" " * 0x100000 + b"\r\n")
        with suppress(OSError):
            answer = connection.recv(65536)
    assert b" 413 " in answer.split(b"\r\n")[0] or answer == b""
    assert counts(gateway) == before
    assert ada.say("still there?").status == 200


def test_a_compressed_body_is_refused(ada: Client) -> None:
    refused(ada.call("POST", "/inbound", b"\x1f\x8b", Content_Encoding="gzip"), 415)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/inbound", "POST"),
        ("PUT", "/inbound", "POST"),
        ("POST", "/inbound/result", "GET"),
        ("GET", "/inbound/cancel", "POST"),
        ("POST", "/runs/x/events", "GET"),
        ("OPTIONS", "/inbound", "POST"),
    ],
)
def test_other_methods_are_refused(method: str, path: str, allow: str, ada: Client) -> None:
    answer = ada.call(method, path, b"{}")
    refused(answer, 405)
    assert answer.headers["allow"] == allow
    assert "access-control-allow-origin" not in answer.headers  # RI19


@pytest.mark.parametrize(
    "token",
    ["", "x", "lk_000000000000_" + "x" * 43, "lk_" + "é" * 12, "a" * 5000, "Bearer"],
)
def test_ri1_no_key_or_a_wrong_one_is_a_401(token: str, gateway: Gateway) -> None:
    before = counts(gateway)
    nobody = Client(gateway, token.encode("utf-8").decode("latin-1"))
    for answer in (
        nobody.post("/inbound", {"text": "a"}),
        nobody.get("/inbound/result?run_id=" + "A" * 22),
        nobody.post("/inbound/cancel", {"run_id": "A" * 22}),
        nobody.get("/runs/" + "A" * 22 + "/events"),
    ):
        if answer.status == 429:
            continue  # more than twenty failures a minute
        refused(answer, 401)
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert counts(gateway) == before


def test_ro9_a_key_in_the_address_is_refused_and_not_logged(ada: Client, gateway: Gateway) -> None:
    for name in ("key", "api_key", "token", "access_token"):
        answer = Client(gateway, "").post(f"/inbound?{name}={ada.token}", {"text": "a"})
        assert answer.status == 400
    assert ada.token not in gateway.log("web")


@pytest.mark.parametrize("key", ["X-API-Key", "x-api-key"])
def test_d1_the_key_may_come_in_a_header_of_its_own(
    key: str, ada: Client, gateway: Gateway
) -> None:
    assert Client(gateway, "").post("/inbound", {"text": "a"}, **{key: ada.token}).status == 200


@pytest.mark.parametrize(
    "run_id",
    ["", "x", "A" * 22, "../../etc", "%00", "' OR 1=1 --", "A" * 5000, "%F0%9F%98%80"],
)
def test_ri15_an_unknown_run_and_another_persons_are_the_same_404(
    run_id: str, ada: Client, bob: Client, bridge: Client
) -> None:
    known = ada.say("hi").body["run_id"]
    for client, asked in ((ada, run_id), (bob, known), (bridge, known)):
        safe = quote(asked, safe="%")
        answers = [
            client.get(f"/inbound/result?run_id={safe}"),
            client.post("/inbound/cancel", {"run_id": asked}),
        ]
        if asked and "/" not in asked:
            answers.append(client.get(f"/runs/{safe}/events"))
        for answer in answers:
            refused_run(answer)
        assert len({answer.raw for answer in answers}) == 1


def refused_run(answer: Answer) -> None:
    """Return a response for an unknown run_id."""
    assert (answer.status, answer.body["field"]) == (404, "run_id")
    assert answer.body["error"] == "There is no run with this run_id."


def test_a_session_of_somebody_else_is_as_unknown_as_none(
    ada: Client, bob: Client, gateway: Gateway
) -> None:
    session = ada.say("hi").body["session_id"]
    before = counts(gateway)
    foreign = bob.say("hi", session_id=session)
    unknown = bob.say("hi", session_id="A" * 22)
    assert foreign.status == 404
    assert foreign.raw == unknown.raw
    assert counts(gateway) == before


def test_a_run_id_that_is_no_string_is_named(ada: Client) -> None:
    values: list[object] = [5, None, ["x"], {}]
    for value in values:
        refused(ada.post("/inbound/cancel", {"run_id": value}), 400, field="run_id")


@pytest.mark.parametrize(
    "after", ["-1", "1" + "0" * 30, "abc", "' OR 1=1", "1.5", "0x10", "１", "1e3"]
)
def test_ri16_a_last_event_id_that_is_none_is_refused(after: str, ada: Client) -> None:
    run = ada.say("hi").body["run_id"]
    answer = ada.get(f"/runs/{run}/events?after={quote(after)}")
    refused(answer, 400, field="after")
    header = after.encode("utf-8").decode("latin-1")
    refused(ada.get(f"/runs/{run}/events", Last_Event_ID=header), 400, field="Last-Event-ID")


def test_ri16_a_position_after_the_end_ends_at_once(ada: Client) -> None:
    run = ada.say("hi").body["run_id"]
    assert ada.follow(run, Last_Event_ID="999999") == []


def test_a10_the_body_cannot_make_somebody_another_person(ada: Client, bob: Client) -> None:
    answer = ada.say("hi", user_id="user-1", user_name="Bob", channel_name="telegram")
    assert answer.status == 200
    assert bob.result(answer.body["run_id"]).status == 404


def test_a_bridge_must_name_the_sender(bridge: Client, gateway: Gateway) -> None:
    before = counts(gateway)
    refused(bridge.say("hi"), 400, field="user_id")
    assert counts(gateway) == before


def test_a_slow_header_and_half_a_body_hold_nothing_up(ada: Client, gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port)) as half:
        half.sendall(b"POST /inbound HTTP/1.1\r\nContent-Length: 100\r\nAuthorization: Bearer ")
        half.sendall(ada.token.encode() + b"\r\n\r\n{")
        assert ada.say("hi").status == 200
    wait_until(lambda: ada.say("hi").status == 200, seconds=5)


def test_no_endpoint_ever_failed(ada: Client, gateway: Gateway) -> None:
    """After all of the above: nothing unexpected in the log of the web process."""
    assert ada.say("hi").status == 200
    assert "a door failed" not in gateway.log("web")
    assert "Traceback" not in gateway.log("web")

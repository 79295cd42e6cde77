"""Headers on the wire, from both web servers: every header of every kind of answer, and no other
header."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.channels_app.client import Client, people
from tests.gateways import Gateway
from tests.redteam.test_files import NASTY_NAMES
from tests.redteam.test_headers import EXACT

pytestmark = pytest.mark.slow
# Method and address of each kind of answer: JSON, text, error, redirect. Pages that are shown have
# the same middleware, and test_headers.py; they would need the static files here.
KINDS = [
    ("GET", "/"),
    ("POST", "/sign-in"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
    ("GET", "/none"),
    ("GET", "/admin/"),
    ("GET", "/api/sessions"),
    ("GET", "/api/schema"),
    ("GET", "/v1/models"),
    ("GET", "/v1/none"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/inbound"),
    ("GET", "/inbound"),
    ("POST", "/process"),
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("POST", "/ui/chat"),
    ("POST", "/ag-ui"),
    ("POST", "/files"),
    ("GET", "/files/out?token=x"),
    ("GET", "/files/" + "A" * 22),
    ("POST", "/telegram/none/webhook"),
    ("GET", "/static/none.css"),
    ("TRACE", "/"),
    ("OPTIONS", "/inbound"),
    ("GET", "/%2e%2e/%2e%2e/etc/passwd"),
    ("GET", "//evil.example/%2f.."),
    ("HEAD", "/healthz"),
    ("GET", "/c/%0d%0aSet-Cookie:%20x=1"),
]


@pytest.fixture(scope="module", params=["uvicorn", "daphne"])
def web(
    request: pytest.FixtureRequest, new_database: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """Yield a web process alone, behind each server."""
    assert callable(new_database)
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "home").mkdir()
    gateway = Gateway(
        folder=folder,
        database_url=new_database(),
        extra={"GATEWAY_SERVER": request.param, "RATE_PER_MINUTE_ADDRESS": "0"},
        roles=("web",),
    )
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture(scope="module")
def ada(web: Gateway) -> Client:
    """Return a user with a key."""
    return people(web, number=1)[0]


def raw(web: Gateway, method: str, path: str, *lines: str, body: bytes = b"") -> list[bytes]:
    """Return the lines of the head of an answer, unparsed."""
    head = [
        f"{method} {path} HTTP/1.1",
        f"Host: 127.0.0.1:{web.port}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *lines,
    ]
    with socket.create_connection(("127.0.0.1", web.port), timeout=200) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        got = b""
        while b"\r\n\r\n" not in got and (part := connection.recv(65536)):
            got += part
    return got.partition(b"\r\n\r\n")[0].split(b"\r\n")


def headers_of(lines: list[bytes]) -> dict[str, str]:
    """Return the headers; none may occur twice, but cookies and those of the connection."""
    found: dict[str, str] = {}
    for line in lines[1:]:
        name, _, value = line.decode("latin-1").partition(":")
        assert name.lower() not in found or name.lower() in {"set-cookie", "connection"}, line
        found[name.lower()] = value.strip()
    return found


@pytest.mark.parametrize(("method", "path"), KINDS)
def test_every_answer_on_the_wire_is_guarded(method: str, path: str, web: Gateway) -> None:
    lines = raw(web, method, path, "Content-Type: application/json", "Origin: https://evil.example")
    found = headers_of(lines)
    assert not lines[0].startswith(b"HTTP/1.1 5"), lines
    assert {name: found.get(name) for name in EXACT} == EXACT, lines
    assert "content-security-policy" in found
    assert "frame-ancestors 'none'" in found["content-security-policy"]
    assert "cache-control" in found or path.startswith("/static/")
    assert not found.get("server")
    assert not any(name.startswith("access-control") for name in found)
    assert "evil.example" not in found.get("location", "")
    assert "x=1" not in found.get("set-cookie", "")


@pytest.mark.parametrize("name", NASTY_NAMES)
def test_rf5_no_name_of_a_file_becomes_a_header_on_the_wire(
    name: str, web: Gateway, ada: Client
) -> None:
    """[RF5]"""
    asked = quote(name.encode("utf-8", "surrogatepass"))
    key = f"Authorization: Bearer {ada.token}"
    sent = ada.call("POST", f"/files?name={asked}", b"words")
    assert sent.status == 201
    lines = raw(web, "GET", f"/files/{sent.body['id']}", key)
    found = headers_of(lines)
    assert lines[0].startswith(b"HTTP/1.1 200")
    assert "set-cookie" not in found
    assert "x-evil" not in found
    assert all(0x20 <= byte < 0x7F for line in lines for byte in line)
    assert found["content-length"] == "5"
    assert Path(found["content-type"].partition(";")[0]).suffix == ""


def test_a_request_that_smuggles_another_is_one_or_none(web: Gateway) -> None:
    """Two lengths, or a length beside chunks: a proxy in front may have read the other."""
    smuggled = b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for lines in (
        ("Transfer-Encoding: chunked",),
        ("Content-Length: 3",),
        ("Transfer-Encoding: chunked, identity",),
        ("Transfer-Encoding: xchunked",),
    ):
        head = "\r\n".join(
            [
                "POST /inbound HTTP/1.1",
                "Host: 127.0.0.1",
                f"Content-Length: {len(smuggled)}",
                *lines,
            ]
        )
        with socket.create_connection(("127.0.0.1", web.port), timeout=200) as connection:
            connection.sendall(head.encode() + b"\r\n\r\n" + smuggled)
            got = b""
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
                while part := connection.recv(65536):
                    got += part
        assert b'{"ok":true}' not in got, (lines, got)

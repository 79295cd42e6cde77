"""[D4] The example of webhooks in docs/ under Node, beside a gateway and a chat that are servers of
this test. tests/channels_app/bridge/test_examples.py has a real gateway.
"""

import json
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from django.conf import settings

from channels_app.asgi.http import parse_object
from channels_app.bridge import fields, signing
from gateway_project.processes import listener
from tests.servers import Process, wait_until

EXAMPLE = settings.BASE_DIR / "docs" / "examples" / "webhook_bridge.mjs"
SECRET, SECONDS = "a-secret-of-a-bridge", 60.0
SAID = {"token": "t", "user_id": "u-ada", "channel_id": "c4", "channel_name": "town"}
JSON = "application/json"


@dataclass
class Served:
    """A server that keeps what it gets; ``statuses``: its next answers, then 202."""

    statuses: list[int] = field(default_factory=list)
    got: list[tuple[Any, bytes]] = field(default_factory=list)

    def start(self) -> ThreadingHTTPServer:
        """Start it; return the server, to be shut down."""

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler) -> None:  # noqa: N805
                length = int(handler.headers["Content-Length"])
                self.got.append((handler.headers, handler.rfile.read(length)))
                handler.send_response(self.statuses.pop(0) if self.statuses else 202)
                handler.send_header("Retry-After", "0.01")
                handler.end_headers()

            def log_message(handler, *_: Any) -> None:  # noqa: N805
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


@dataclass
class Bridge:
    """The running bridge, and both sides of it."""

    port: int
    gateway: Served
    chat: Served

    def post(self, path: str, body: bytes, **headers: str) -> int:
        """Return the status of a POST to the bridge."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        asked = Request(f"http://127.0.0.1:{self.port}{path}", body, named)
        try:
            with urlopen(asked, timeout=SECONDS) as answer:  # noqa: S310
                return int(answer.status)
        except HTTPError as error:
            error.close()
            return error.code

    def call_back(self, **answer: Any) -> int:
        """Return the status of a callback of the gateway."""
        body = json.dumps({"chat_id": "town", "text": "", **answer}).encode()
        signed = signing.headers(secret=SECRET, now=time.time(), body=body)
        return self.post("/get_response", body, **signed)

    def posted(self) -> list[dict[str, str]]:
        """Return what the chat shows."""
        return [json.loads(body) for _, body in self.chat.got]


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Bridge]:
    """Start the example."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not here; CI has it")
    found = Bridge(listener.free_port(), Served(), Served())
    servers = [found.gateway.start(), found.chat.start()]
    gateway, chat = (f"http://127.0.0.1:{each.server_port}" for each in servers)
    addresses = {"GATEWAY_URL": gateway, "INCOMING_URL": chat, "BRIDGE_PORT": str(found.port)}
    secrets = {"BRIDGE_KEY": "k", "BRIDGE_SECRET": SECRET, "OUTGOING_TOKEN": "t"}
    process = Process(
        command=[node, str(EXAMPLE)],
        log=tmp_path / "bridge.log",
        env={**os.environ, **addresses, **secrets},
    )
    process.start()
    wait_until(lambda: "ready" in process.tail(), seconds=SECONDS, what="the bridge")
    yield found
    process.stop()
    for server in servers:
        server.shutdown()
        server.server_close()


def test_d4_a_message_comes_as_json_or_as_a_form_with_the_name_of_its_channel(
    bridge: Bridge,
) -> None:
    """Mattermost sends a form unless told, and an incoming webhook finds a channel by its name."""
    said = {**SAID, "text": "Grüße & mehr", "post_id": "p1"}
    assert bridge.post("/outgoing", json.dumps(said).encode(), Content_Type=JSON) == 202
    form = "application/x-www-form-urlencoded"
    assert bridge.post("/outgoing", urlencode(said).encode(), Content_Type=form) == 202
    for headers, body in bridge.gateway.got:
        asked = fields.read(parse_object(body))
        assert (asked.user_id, asked.chat_id, asked.text) == ("u-ada", "town", "Grüße & mehr")
        signing.check(
            secret=SECRET,
            timestamp=headers[signing.TIMESTAMP],
            signature=headers[signing.SIGNATURE],
            body=body,
            now=time.time(),
        )
    assert bridge.post("/outgoing", b'{"token": "\xc3\xa4"}', Content_Type=JSON) == 401


def test_d4_a_message_waits_for_a_busy_gateway(bridge: Bridge) -> None:
    """The chat does not send it again."""
    bridge.gateway.statuses = [503, 429]
    said = {**SAID, "text": "hello", "post_id": "p1"}
    assert bridge.post("/outgoing", json.dumps(said).encode(), Content_Type=JSON) == 202
    asked = [fields.read(parse_object(body)) for _, body in bridge.gateway.got]
    assert [each.request_id for each in asked] == ["p1", "p1", "p1"]


def test_d4_an_answer_is_posted_once_and_its_pictures_are_counted(bridge: Bridge) -> None:
    """A webhook posts no pictures, and a chat refuses an empty text."""
    url = "data:image/png;base64,AAAA"
    assert bridge.call_back(delivery_id="1", text="hello @all") == 204
    assert bridge.call_back(delivery_id="1", text="hello @all") == 204
    assert bridge.call_back(delivery_id="2", images=[url, url]) == 204
    texts = [each["text"] for each in bridge.posted()]
    assert texts == ["hello @\u200ball", "🖼 × 2"]
    assert {each["channel"] for each in bridge.posted()} == {"town"}
    bridge.chat.statuses = [404]
    assert bridge.call_back(delivery_id="3", text="again") == 502
    assert bridge.call_back(delivery_id="3", text="again") == 204
    assert bridge.post("/get_response", b"{}", X_Latchkey_Signature="v1=\u00e4") == 401


def test_d4_a_request_that_breaks_off_ends_nothing(bridge: Bridge) -> None:
    with socket.create_connection(("127.0.0.1", bridge.port), timeout=SECONDS) as link:
        link.sendall(b"POST /outgoing HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
    assert bridge.call_back(delivery_id="1", text="hello") == 204
    assert bridge.call_back(delivery_id="2", text="hello") == 204

"""A model server that fails in the way that the last message names; else it says "Hello."."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
PIECE = "x" * 65_536
PIECES = 800


@dataclass
class Misbehaving:
    """``asked`` counts the requests by the last message, ``bodies`` are all of them."""

    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    bodies: list[Json] = field(default_factory=list)


def chunk(delta: Json, finish: str | None = None) -> bytes:
    """Return a ``data:`` line."""
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def error(message: str, kind: str = "x", code: str | None = None) -> bytes:
    """Return an error body in OpenAI's form."""
    return json.dumps({"error": {"message": message, "type": kind, "code": code}}).encode()


# Message -> status, headers, body.
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "key": (401, {}, error("Incorrect API key provided: sk-abcdef123", code="invalid_api_key")),
    "quota": (429, {}, error("You exceeded your current quota", code="insufficient_quota")),
    "later": (429, {"Retry-After": "3600"}, error("Rate limit", code="rate_limit_exceeded")),
    "context": (400, {}, error("This model's maximum context length is 4096 tokens.",
                               code="context_length_exceeded")),
    "missing": (404, {}, error("The model `m` does not exist", code="model_not_found")),
    "wrong": (400, {}, error("top_k must be positive")),
    "unprocessable": (422, {}, error("top_k must be positive")),
    "large": (413, {}, error("Request too large")),
    "page": (200, {"Content-Type": "text/html"}, b"<!DOCTYPE html><html>Welcome</html>"),
    "garbage": (200, {"Content-Type": "text/event-stream"}, b"\x00\xff" * 100),
    "empty": (200, {"Content-Type": "text/event-stream"}, chunk({}, "stop")),
    "half": (200, {"Content-Type": "text/event-stream"}, chunk({"content": "Half of it"})),
    "framed": (200, {"Content-Type": "text/event-stream"},
               b"data: " + error("The server had an error") + b"\n\n"),
}  # fmt: skip


def flood(delta: Callable[[], Json]) -> Iterator[bytes]:
    """Yield 50 MB in 800 pieces."""
    for _ in range(PIECES):
        yield chunk(delta())
    yield chunk({}, "stop")


def call_piece() -> Json:
    """Return a piece of a tool call with endless arguments."""
    return {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": PIECE}}]}


def comments() -> Iterator[bytes]:
    """Yield comments, and never a token."""
    while True:
        yield b": PROCESSING\n\n"
        time.sleep(0.2)


def slowly(delta: Json) -> Iterator[bytes]:
    """Yield four seconds of pieces, which are shown as they come."""
    for _ in range(200):
        yield chunk(delta)
        time.sleep(0.02)
    yield chunk({}, "stop")


STREAMS: dict[str, Callable[[], Iterator[bytes]]] = {
    "flood": lambda: flood(lambda: {"content": PIECE}),
    "thoughts": lambda: flood(lambda: {"reasoning_content": PIECE}),
    "arguments": lambda: flood(call_piece),
    "lists": lambda: slowly({"content": "- an _item_ of `many`\n" * 40}),
    "comments": comments,
}


@contextmanager
def running() -> Iterator[Misbehaving]:
    """Yield the server on a free port."""
    model = Misbehaving()

    class Handler(BaseHTTPRequestHandler):
        """Answers every POST."""

        def do_POST(self) -> None:
            """Answer in the way that the last message names."""
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = str(body["messages"][-1]["content"]).split()[0]
            model.asked[said] += 1
            model.bodies.append(body)
            status, headers, data = ANSWERS.get(said, (200, {}, b""))
            self.send_response(status)
            for name, value in headers.items() or [("Content-Type", "text/event-stream")]:
                self.send_header(name, value)
            self.end_headers()
            pieces = STREAMS[said]() if said in STREAMS else iter([data])
            if said not in STREAMS and said not in ANSWERS:
                pieces = iter([chunk({"content": "Hello."}), chunk({}, "stop")])
            with suppress(OSError):
                for piece in pieces:
                    self.wfile.write(piece)
                    self.wfile.flush()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield model
    server.shutdown()
    server.server_close()
    thread.join()

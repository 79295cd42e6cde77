"""An OpenAI-compatible model server that keeps what it was asked and answers as it is told."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass
class FakeModel:
    """``asked`` are the bodies so far, ``keys`` the Authorization of each; ``deltas`` and
    ``finish`` are the answer, once ``gate`` is open; ``models`` is what it lists.
    """

    url: str = ""
    asked: list[Json] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    deltas: list[Json] = field(default_factory=lambda: [{"content": "Yes."}])
    finish: str = "stop"
    models: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Answer at once, unless told otherwise."""
        self.gate.set()

    def stream(self) -> bytes:
        """Return the answer as server-sent events."""
        chunks: list[Json] = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
            for delta in self.deltas
        ]
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": self.finish}]})
        lines = [json.dumps(chunk) for chunk in chunks] + ["[DONE]"]
        return "".join(f"data: {line}\n\n" for line in lines).encode()


@contextmanager
def running() -> Iterator[FakeModel]:
    """Yield a fake model on a free port."""
    model = FakeModel()

    class Handler(BaseHTTPRequestHandler):
        """Answers every POST; lists its models."""

        def do_GET(self) -> None:
            """Send the list."""
            listed = json.dumps({"data": [{"id": name} for name in model.models]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(listed)))
            self.end_headers()
            self.wfile.write(listed)

        def do_POST(self) -> None:
            """Keep the body, send the stream."""
            size = int(self.headers["Content-Length"])
            model.keys.append(self.headers.get("Authorization", ""))
            model.asked.append(json.loads(self.rfile.read(size)))
            model.gate.wait(120)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(model.stream())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield model
    model.gate.set()
    server.shutdown()
    server.server_close()
    thread.join()

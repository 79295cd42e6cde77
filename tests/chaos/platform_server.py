"""The platform of the recorder channel: the messages of its chats, and the number of attempts."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Platform:
    """An HTTP server in a thread. ``messages``: as people see them; ``posts``: every request."""

    def __init__(self) -> None:
        self.messages: dict[str, dict[str, Any]] = {}
        self.posts: list[str] = []
        self._lock = threading.Lock()
        platform = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = json.loads(self.rfile.read(length))
                number = platform.take(body).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(number)))
                self.end_headers()
                self.wfile.write(number)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Return its address."""
        return f"http://127.0.0.1:{self._server.server_port}/send"

    def take(self, body: dict[str, Any]) -> str:
        """Show a message once a key; its number."""
        with self._lock:
            self.posts.append(body["key"])
            self.messages.setdefault(body["key"], body)
            return str(list(self.messages).index(body["key"]))

    def texts(self, chat: str) -> list[str]:
        """Return the visible messages of a chat, in order."""
        with self._lock:
            return [each["text"] for each in self.messages.values() if each["chat"] == chat]

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

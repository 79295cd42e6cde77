"""A server that speaks the wires of several vendors: Anthropic's and Google's streams, Ollama's."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tests.core.providers.model_server import Reply

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class VendorServer:
    """Answers by path; the last of several replies of a path stays."""

    replies: dict[str, list[Reply]] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    root: str = ""
    runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application(client_max_size=16 * 1024**2)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self.runner.setup()
        await web.TCPSite(self.runner, "127.0.0.1", 0).start()
        self.root = f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    async def stop(self) -> None:
        """Close everything."""
        assert self.runner
        await self.runner.cleanup()

    def on(self, path: str, *replies: Reply) -> None:
        """Answer requests for ``path`` (without a query)."""
        self.replies[path] = list(replies)

    def asked(self, path: str) -> list[dict[str, Any]]:
        """Return the bodies of the requests for ``path``."""
        return [body for each, body in self.requests if each == path]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append((request.path, orjson.loads(body or b"{}")))
        self.headers.append({k.lower(): v for k, v in request.headers.items()})
        replies = self.replies.get(request.path) or [json_reply({"detail": "Not Found"}, 404)]
        reply = replies[0] if len(replies) == 1 else replies.pop(0)
        return await reply(request)


def json_reply(body: Any, status: int = 200, **headers: str) -> Reply:
    """Return a reply with a JSON body."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers, dumps=dumps)

    return reply


def dumps(body: Any) -> str:
    return orjson.dumps(body).decode()


def page(text: str = "<!DOCTYPE html><html><body>Welcome</body></html>") -> Reply:
    """Return a reply that is a web page."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, content_type="text/html")

    return reply


def redirect(to: str, status: int = 307) -> Reply:
    """Return a reply that sends elsewhere."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": to})

    return reply


# Anthropic: https://docs.anthropic.com/en/api/messages-streaming


def anthropic_stream(*events: dict[str, Any]) -> bytes:
    """Return the body of a stream: an event for each object, named by its type."""
    return b"".join(
        b"event: " + each["type"].encode() + b"\ndata: " + orjson.dumps(each) + b"\n\n"
        for each in events
    )


def anthropic_start(**usage: int) -> dict[str, Any]:
    """Return the first event."""
    return {
        "type": "message_start",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude",
            "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 1, **usage},
        },
    }  # fmt: skip


def anthropic_text(index: int, *words: str) -> list[dict[str, Any]]:
    """Return the events of a text."""
    start = {"type": "content_block_start", "index": index,
             "content_block": {"type": "text", "text": ""}}  # fmt: skip
    deltas = [
        {"type": "content_block_delta", "index": index,
         "delta": {"type": "text_delta", "text": word}}
        for word in words
    ]  # fmt: skip
    return [start, *deltas, {"type": "content_block_stop", "index": index}]


def anthropic_call(index: int, name: str, *pieces: str) -> list[dict[str, Any]]:
    """Return the events of a tool's call."""
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    start = {"type": "content_block_start", "index": index, "content_block": block}
    deltas = [
        {"type": "content_block_delta", "index": index,
         "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in pieces
    ]  # fmt: skip
    return [start, *deltas, {"type": "content_block_stop", "index": index}]


def anthropic_end(reason: str = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    """Return the last events."""
    delta = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None},
             "usage": {"output_tokens": 7, **usage}}  # fmt: skip
    return [delta, {"type": "message_stop"}]


# Google: https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent


def google_chunk(*parts: dict[str, Any], finish: str = "", **usage: int) -> dict[str, Any]:
    """Return one object of a stream."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    made: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-2.5-flash"}
    return {**made, "usageMetadata": usage} if usage else made


def google_stream(*chunks: dict[str, Any]) -> bytes:
    """Return the body of a stream."""
    return b"".join(b"data: " + orjson.dumps(each) + b"\r\n\r\n" for each in chunks)

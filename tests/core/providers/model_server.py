"""A small model server that speaks OpenAI's chat completions, badly where a test asks for it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web


@dataclass
class ModelServer:
    """Answers each request with the next of ``replies``; the last one stays."""

    replies: list["Reply"] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen on a free port."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/v1"

    async def stop(self) -> None:
        """Close everything."""
        assert self._runner
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(orjson.loads(await request.read() or b"{}"))
        self.headers.append(dict(request.headers))
        reply = self.replies[0] if len(self.replies) == 1 else self.replies.pop(0)
        return await reply(request)


Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


def chunk(
    delta: dict[str, Any] | None = None, *, finish: str | None = None, **more: Any
) -> dict[str, Any]:
    """Return a ``chat.completion.chunk``."""
    choices = [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return {**head, "choices": choices, **more}


def sse(*chunks: dict[str, Any] | bytes, done: bool = True) -> bytes:
    """Return the body of a stream."""
    lines = [each if isinstance(each, bytes) else orjson.dumps(each) for each in chunks]
    return b"".join(b"data: " + line + b"\n\n" for line in lines) + b"data: [DONE]\n\n" * done


def streams(
    body: bytes, *, size: int = 0, pause: float = 0, cut: bool = False, hang: bool = False
) -> Reply:
    """Return a reply that sends ``body`` in pieces of ``size`` bytes; ``cut``: drops the
    connection.
    """

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for start in range(0, len(body), size or len(body) or 1):
            await response.write(body[start : start + (size or len(body))])
            await asyncio.sleep(pause)
        if cut:
            assert request.transport
            request.transport.abort()
        if hang:
            await asyncio.sleep(60)
        return response

    return reply


def answers(body: bytes) -> Reply:
    """Return a reply that is JSON, and no stream."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type="application/json")

    return reply


def answers_late(body: bytes) -> Reply:
    """Return a reply that is JSON, whose headers come before its body is made."""

    async def reply(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b"\n")
        await asyncio.sleep(0.02)
        await response.write(body)
        return response

    return reply


def says(status: int, **headers: str) -> Reply:
    """Return a reply that is an error."""

    async def reply(request: web.Request) -> web.StreamResponse:
        body = {"error": {"message": "sk-secret is wrong", "type": "x", "code": "y"}}
        return web.json_response(body, status=status, headers=headers)

    return reply


def hangs() -> Reply:
    """Wait for ever: a reply that never comes."""

    async def reply(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError

    return reply


def hello(*words: str, finish: str = "stop") -> bytes:
    """Return a whole stream with the text ``words``."""
    return sse(
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": word}) for word in words),
        chunk(finish=finish),
        chunk(usage={"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})
        | {"choices": []},
    )

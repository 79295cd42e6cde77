"""A model server of almost no cost, in a process of its own; it is also a Bot API server.

``POST /v1/chat/completions`` streams ``tokens`` pieces ``<number>:<nanoseconds> ``, the first after
``first_ms``, then ``per_second`` of them a second (0: all at once). The nanoseconds are this
machine's monotonic clock when the piece was written, so readers can compute its latency. The first
piece also carries the last word of the request: a misdirected answer is detected. ``POST /control``
with those three names changes them. Raw asyncio, JSON by hand: the stub must not dominate the
measurement.
"""

import asyncio
import itertools
import sys
import time
from dataclasses import dataclass

import orjson
import uvloop

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
PIECE = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"stub",'
    b'"choices":[{"index":0,"delta":{%b},"finish_reason":%b}]}\n\n'
)
USAGE = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"stub","choices":[],'
    b'"usage":{"prompt_tokens":9,"completion_tokens":%d,"total_tokens":%d}}\n\ndata: [DONE]\n\n'
)
END = b"0\r\n\r\n"
MOST_CALLS = 10_000_000
BACKLOG = 1024  # connections that come at the same moment
_message_ids = itertools.count(1000)


@dataclass
class Pace:
    """How the model speaks. ``sent``: messages of bots."""

    first_ms: float = 0.0
    per_second: float = 0.0
    tokens: int = 64
    sent: int = 0


def chunked(data: bytes) -> bytes:
    """Return ``data`` as one chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def piece(number: int, tag: bytes) -> bytes:
    """Return piece ``number`` of an answer, stamped now."""
    said = b"%d:%d%b " % (number, time.monotonic_ns(), b":" + tag if tag else b"")
    return PIECE % (b'"content":"%b"' % said, b"null")


def tag_of(body: bytes) -> bytes:
    """Return the last word of the last message, in letters, digits and hyphens."""
    content = orjson.loads(body)["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    word = text.split()[-1] if text.split() else ""
    return "".join(each for each in word if each.isalnum() or each == "-").encode()[:40]


async def speak(writer: asyncio.StreamWriter, pace: Pace, body: bytes) -> None:
    """Stream one answer."""
    tag = tag_of(body)
    tokens, began = pace.tokens, time.monotonic()
    if pace.first_ms:
        await asyncio.sleep(pace.first_ms / 1000)
    role = PIECE % (b'"role":"assistant","content":""', b"null")
    writer.write(HEAD + chunked(role + piece(0, tag)))
    gap = 1 / pace.per_second if pace.per_second else 0.0
    began = time.monotonic()
    for number in range(1, tokens):
        if gap:
            await asyncio.sleep(max(0.0, began + number * gap - time.monotonic()))
        writer.write(chunked(piece(number, b"")))
    end = PIECE % (b"", b'"stop"') + USAGE % (tokens, tokens + 9)
    writer.write(chunked(end) + END)
    await writer.drain()


def act_as_bot_api(path: str, body: bytes, pace: Pace) -> object:
    """Return the answer of the Bot API to a method; every message gets a number of its own."""
    method = path.rsplit("/", 1)[-1]
    if method == "getMe":
        return {"id": 900, "is_bot": True, "first_name": "Bot", "username": "bench_bot"}
    if method == "getWebhookInfo":
        return {"url": "", "pending_update_count": 0}
    if not method.startswith(("sendMessage", "edit")):
        return True
    pace.sent += method == "sendMessage"
    asked = orjson.loads(body) if body.startswith(b"{") else {}
    chat = int(asked.get("chat_id", 1))
    number = int(asked.get("message_id") or next(_message_ids))
    return {"message_id": number, "date": 1, "chat": {"id": chat, "type": "private"}, "text": "-"}


def control(body: bytes, pace: Pace) -> object:
    """Change the pace; return the current one."""
    for name, value in orjson.loads(body or b"{}").items():
        setattr(pace, name, value)
    return vars(pace)


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pace: Pace) -> None:
    """Answer the requests of one connection."""
    for _ in range(MOST_CALLS):
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        length = 0
        for line in head.split(b"\r\n")[1:]:
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        body = await reader.readexactly(length)
        if path == "/v1/chat/completions":
            await speak(writer, pace, body)
            continue
        answer = (
            control(body, pace)
            if path == "/control"
            else {"ok": True, "result": act_as_bot_api(path, body, pace)}
        )
        data = orjson.dumps(answer)
        writer.write(JSON_HEAD % len(data) + data)


async def serve() -> None:
    """Listen on a free port, say which, answer until killed."""
    pace = Pace()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve_one(reader, writer, pace)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()

    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    server = await asyncio.start_server(connected, "127.0.0.1", port, backlog=BACKLOG)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())

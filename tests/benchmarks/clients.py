"""Load clients: light, raw asyncio, each checks that its answer is whole, in order and its own."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import orjson
from websockets.asyncio.client import ClientConnection, connect

SECONDS = 60.0  # the longest that anything here waits
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
MOST_FRAMES = 100_000
_numbers = itertools.count(1)


class WrongAnswerError(AssertionError):
    """A message was lost, out of order, or another user's."""


@dataclass(slots=True)
class Turn:
    """One answer as a client saw it. Seconds; ``delays``: of each piece, from the model to here."""

    first: float = 0.0
    whole: float = 0.0
    pieces: int = 0
    text: str = ""
    delays: list[float] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def take(self, text: str) -> None:
        """Some more of the answer; pieces that carry the stub's clock are timed."""
        now = time.monotonic()
        if not self.text:
            self.first = now - self._began
        self.text += text
        for word in text.split():
            parts = word.split(":")
            if len(parts) > 1 and parts[1].isdigit():
                self.delays.append(now - int(parts[1]) / 1e9)

    def end(self) -> "Turn":
        """Nothing more comes."""
        self.whole = time.monotonic() - self._began
        self.pieces = len(self.text.split())
        return self

    def check(self, *, tokens: int, tag: str) -> None:
        """Raise WrongAnswerError unless the stub's pieces are all here, in order, and ours."""
        words = [word.split(":") for word in self.text.split()]
        if [int(word[0]) for word in words] != list(range(tokens)):
            raise WrongAnswerError(f"pieces were lost or moved: {self.text[:200]!r}")
        if words[0][2:] != [tag]:
            raise WrongAnswerError(f"{tag} got the answer of {words[0][2:]}")


def new_tag() -> str:
    """Return a word that no other question has."""
    return f"q{next(_numbers)}"


class Http:
    """One kept connection to an HTTP server."""

    def __init__(self, url: str) -> None:
        """Nothing is connected yet."""
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self.prefix = parts.path.rstrip("/")

    async def __aenter__(self) -> "Http":
        self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.writer.close()

    def send(self, path: str, body: bytes, headers: dict[str, str]) -> None:
        """Send a POST."""
        lines = [f"POST {self.prefix}{path} HTTP/1.1", f"Host: {self.host}:{self.port}"]
        every = {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}
        lines += [f"{name}: {value}" for name, value in every.items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    async def head(self) -> tuple[int, dict[bytes, bytes]]:
        """Return the status and the headers (lower case) of the answer."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *rest = raw.split(b"\r\n")
        pairs = (line.split(b":", 1) for line in rest if line)
        return int(first.split(b" ")[1]), {pair[0].lower(): pair[1].strip() for pair in pairs}

    async def chunk(self) -> bytes:
        """Return the next chunk of a chunked body; empty at its end."""
        size = int(await self.reader.readline(), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def body(self, headers: dict[bytes, bytes]) -> bytes:
        """Return the whole body."""
        if b"content-length" in headers:
            return await self.reader.readexactly(int(headers[b"content-length"]))
        found = b""
        for _ in range(MOST_FRAMES):
            block = await self.chunk()
            found += block
            if not block:
                break
        return found

    async def post(self, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """POST; return the status and the body."""
        self.send(path, body, headers)
        status, found = await self.head()
        return status, await self.body(found)


@dataclass(frozen=True)
class Chat:
    """``/chat/completions`` of an OpenAI-compatible server at ``url``, which ends in ``/v1``."""

    url: str
    key: str = ""
    model: str = ""
    path: str = "/chat/completions"

    async def ask(self) -> tuple[Turn, str]:
        """Return a streamed answer, and the tag that was asked with."""
        tag = new_tag()
        message = {"role": "user", "content": f"hello {tag}"}
        asked: dict[str, Any] = {"model": self.model, "messages": [message], "stream": True}
        return await streamed(self.url, self.path, self.key, asked, read_stream), tag


async def streamed(
    url: str,
    path: str,
    key: str,
    asked: Any,
    read: Callable[[Http, Turn], Awaitable[None]],
) -> Turn:
    """Return the answer to a POST whose stream ``read`` takes in. Raises WrongAnswerError."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with asyncio.timeout(SECONDS), Http(url) as http:
        turn = Turn()
        http.send(path, orjson.dumps(asked), headers)
        status, found = await http.head()
        if status != 200:
            raise WrongAnswerError(f"{status}: {(await http.body(found))[:300]!r}")
        await read(http, turn)
    return turn.end()


async def read_stream(http: Http, turn: Turn) -> None:
    """Read a chat completion's chunks to ``[DONE]``."""
    rest = b""
    for _ in range(MOST_FRAMES):
        block = await http.chunk()
        if not block:
            raise WrongAnswerError("the stream broke off")
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            if line.startswith(b"data: [DONE]"):
                return
            if line.startswith(b"data:"):
                choices = orjson.loads(line[5:]).get("choices") or [{}]
                text = choices[0].get("delta", {}).get("content")
                if text:
                    turn.take(text)


@dataclass(frozen=True)
class Inbound:
    """``POST /inbound``, as JSON or as an event stream."""

    url: str
    key: str
    stream: bool

    async def ask(self) -> tuple[Turn, str]:
        """Return an answer, and the tag that was asked with."""
        tag = new_tag()
        # A conversation of its own: no history, and nothing to wait for.
        body = orjson.dumps({"text": f"hello {tag}", "stream": self.stream, "user_id": tag})
        headers = {"Authorization": f"Bearer {self.key}"}
        async with asyncio.timeout(SECONDS), Http(self.url) as http:
            turn = Turn()
            status, data = await http.post("/inbound", body, headers)
            last = data.strip().rsplit(b"\n\n", 1)[-1].split(b"data: ")[-1]
            answer = orjson.loads(last)
            if status != 200 or not answer["ok"]:
                raise WrongAnswerError(f"{status}: {data[:300]!r}")
            turn.take(answer["text"])
        return turn.end(), tag


class Socket:
    """One person's socket at ``/ws``."""

    def __init__(self, *, url: str, key: str) -> None:
        """Not open yet."""
        self.url, self.key, self.session = url, key, ""

    async def open(self) -> None:
        """Connect and show the key."""
        self.connection: ClientConnection = await connect(
            self.url, compression=None, open_timeout=SECONDS, ping_interval=None, max_queue=None
        )
        await self.tell({"type": "auth", "key": self.key})
        if (await self.hear())["type"] != "authenticated":
            raise WrongAnswerError("the socket was not accepted")

    async def close(self) -> None:
        """Leave."""
        await self.connection.close()

    async def tell(self, frame: dict[str, Any]) -> None:
        """Send one frame."""
        await self.connection.send(orjson.dumps(frame).decode())

    async def hear(self) -> dict[str, Any]:
        """Return the next frame."""
        async with asyncio.timeout(SECONDS):
            frame: dict[str, Any] = orjson.loads(await self.connection.recv())
        return frame

    async def ping(self) -> float:
        """Return the seconds to the pong."""
        began = time.monotonic()
        await self.tell({"type": "ping"})
        while (await self.hear())["type"] != "pong":
            pass
        return time.monotonic() - began

    async def ask(self) -> tuple[Turn, str]:
        """Return an answer in this socket's chat."""
        tag, turn, run = new_tag(), Turn(), ""
        said = {"type": "message", "text": f"hello {tag}", "client_id": tag}
        await self.tell(said | {"session_id": self.session})
        while not run:
            frame = await self.hear()
            if frame["type"] == "error":
                raise WrongAnswerError(str(frame))
            if frame["type"] == "accepted" and frame["client_id"] == tag:
                run, self.session = frame["run_id"], frame["session_id"]
        return await self.read(turn, run), tag

    async def watch(self) -> Turn:
        """Return the next answer in a chat of this person, which another socket asks for."""
        return await self.read(Turn())

    async def read(self, turn: Turn, run: str = "") -> Turn:
        """Read the events of ``run``, else of the next one that says something, in order."""
        seen = 0
        for _ in range(MOST_FRAMES):
            frame = await self.hear()
            if frame["type"] == "error":
                raise WrongAnswerError(str(frame))
            if not run and "seq" in frame:
                run = frame["run_id"]
            if not run or frame.get("run_id") != run:
                continue
            if frame["type"] == "final":
                return self.finished(turn, frame)
            if "seq" in frame:
                if frame["seq"] <= seen:  # numbers may skip: joined events have the last one's
                    raise WrongAnswerError(f"event {frame['seq']} came after {seen}")
                seen = frame["seq"]
                if frame["type"] == "text" and frame.get("delta_action") == "append":
                    turn.take(frame["props"]["content"])
        raise WrongAnswerError("no end came")

    def finished(self, turn: Turn, final: dict[str, Any]) -> Turn:
        """Compare what was streamed with the final text."""
        if final["text"].split() != turn.text.split():
            raise WrongAnswerError("the final text is not what was streamed")
        return turn.end()


@dataclass(frozen=True)
class Webhook:
    """Telegram's side of the webhook: one connection, one update after the other."""

    url: str
    path: str
    secret: str = ""

    def update(self, *, user: int) -> bytes:
        """Return a private message of ``user``, as Telegram writes it."""
        number = next(_numbers)
        person = {"id": user, "is_bot": False, "first_name": "Ada"}
        message = {
            "message_id": number,
            "date": int(time.time()),
            "from": person,
            "chat": {"id": user, "type": "private", "first_name": "Ada"},
            "text": f"hello m{number}",
        }
        return orjson.dumps({"update_id": number, "message": message})

    async def send(self, http: Http, *, user: int) -> float:
        """Bring one update; seconds until it was acknowledged."""
        began = time.monotonic()
        headers = {SECRET_HEADER: self.secret} if self.secret else {}
        status, body = await http.post(self.path, self.update(user=user), headers)
        if status != 200:
            raise WrongAnswerError(f"{status}: {body[:200]!r}")
        return time.monotonic() - began

"""The same answer over each protocol of clients, against chat completions in the same run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from tests.benchmarks import chats, machine
from tests.benchmarks.chats import Load, Target
from tests.benchmarks.clients import (
    MOST_FRAMES,
    Http,
    Turn,
    new_tag,
    streamed,
)
from tests.benchmarks.gateway import MeasuredGateway
from tests.benchmarks.report import Row

Json = dict[str, Any]
FIRST = "/v1/chat/completions"


def user(text: str) -> Json:
    """Return a message of the person."""
    return {"role": "user", "content": text}


# The body that asks something, by address; and the piece of the answer in a frame.
BODIES: dict[str, Callable[[str, str], Json]] = {
    FIRST: lambda text, _: {"model": "stub", "messages": [user(text)], "stream": True},
    "/v1/responses": lambda text, _: {"model": "stub", "input": text, "stream": True},
    "/v1/messages": lambda text, _: {
        "model": "stub",
        "max_tokens": 1000,
        "messages": [user(text)],
        "stream": True,
    },
    "/ag-ui": lambda text, tag: {
        "threadId": tag,
        "runId": tag,
        "state": {},
        "messages": [{"id": "1", **user(text)}],
        "tools": [],
        "context": [],
        "forwardedProps": {},
    },
    "/ui/chat": lambda text, tag: {
        "id": tag,
        "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": text}]}],
    },
}


def piece_of(frame: Json) -> str:
    """Return the piece of the answer in a frame of any of them."""
    if choices := frame.get("choices"):
        return str(choices[0].get("delta", {}).get("content") or "")
    kind, delta = frame.get("type"), frame.get("delta")
    if kind == "content_block_delta":
        return str(frame["delta"].get("text", ""))
    if kind in ("response.output_text.delta", "TEXT_MESSAGE_CONTENT", "text-delta"):
        return str(delta)
    return ""


@dataclass(frozen=True)
class Asker:
    """One endpoint with one key."""

    url: str
    key: str
    path: str

    async def ask(self) -> tuple[Turn, str]:
        """Return a streamed answer, and the tag that was asked with."""
        tag = new_tag()
        asked = BODIES[self.path](f"hello {tag}", tag)
        return await streamed(self.url, self.path, self.key, asked, read_stream), tag


async def read_stream(http: Http, turn: Turn) -> None:
    """Read the frames of a stream to its end."""
    rest = b""
    for _ in range(MOST_FRAMES):
        block = await http.chunk()
        if not block:
            return
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {") and (text := piece_of(orjson.loads(line[6:]))):
                turn.take(text)


async def rows(at: MeasuredGateway, *, waves: int, rounds: int) -> list[Row]:
    """Return first token, whole answer and CPU of a turn of each protocol."""
    load = Load(1, waves, 64, per_second=200)
    targets = {
        path: Target([Asker(at.gateway.base_url, at.keys[0], path)], at.pids) for path in BODIES
    }
    found = await chats.compare(at, targets, load, rounds)
    least = found[FIRST]
    shown = []
    for path, each in found.items():
        first, whole = machine.median(each.first), machine.median(each.whole)
        cpu = each.cpu_ms()["all"]
        ratios = (
            first / machine.median(least.first),
            whole / machine.median(least.whole),
            cpu / least.cpu_ms()["all"],
        )
        value = f"{first * 1000:.1f} ms, {whole * 1000:.0f} ms, {cpu:.1f} ms"
        compared = " / ".join(f"{ratio:.2f}" for ratio in ratios)
        label = f"first token, whole answer, CPU of a turn of 64 tokens: {path}"
        goal = "≤ 1.1 × chat completions" if path != FIRST else ""
        shown.append(Row(label, f"{value} = {compared} ×", goal))
    return shown

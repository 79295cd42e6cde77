"""Answers as the body of a callback ([D4]): text that is ready to show. Pure."""

from typing import Any

import orjson

from channels_app.base import Block, Target, WholeAnswer
from channels_app.delivery import aggregator

LIMIT = 8000  # characters of a result or notice; an answer is never split


def answer(found: WholeAnswer, *, text: str) -> Block:
    """Return an answer as one block; ``text`` is its Markdown as the platform shows it."""
    block: Block = {
        "text": text,
        "request_id": found.request,
        "session_id": found.session,
    }
    context = found.options.get("context")
    if context:
        block["context"] = context
    if found.images:
        block["images"] = list(found.images)
    if found.error:
        block["error"] = found.error
    if found.code:
        block["code"] = found.code
    return block


def unasked(text: str) -> list[Block]:
    """Return the blocks of results and notices, which answer no request."""
    return [{"text": part} for part in aggregator.split(text, limit=LIMIT)]


def body(block: Block, *, target: Target, key: str) -> bytes:
    """Return the JSON of a callback. ``delivery_id`` is the same when it is sent again."""
    images = block.get("images", [])
    found: dict[str, Any] = {
        "request_id": block.get("request_id") or target.reply_to,
        "session_id": block.get("session_id", ""),
        "delivery_id": key,
        "chat_id": target.chat,
        "text": block["text"],
        "format": "plain",
    }
    if target.thread:
        found["thread_id"] = target.thread
    if images:
        found |= {"images": images, "image": images[0]}
    for name in ("error", "code", "context"):
        if block.get(name):
            found[name] = block[name]
    return orjson.dumps(found)

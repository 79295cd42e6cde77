"""The small requests of an examination, in the form of each vendor, and what their answers show."""

import base64
import io
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from core.models import ModelProvider
from core.providers.base import ModelRequest

Body = dict[str, Any]
ANSWER_TOKENS = 300
PICTURE_SIDE = 64  # some models refuse smaller ones
TOOL = "report_ready"
ABOUT = {"name": TOOL, "description": "Reports that you are ready."}
NOTHING: Body = {"type": "object", "properties": {}}
FOR_TOOL = f"Call the tool {TOOL} now. Do not answer with text."
FOR_COLOUR = "Which colour is this picture? Answer with one word."
COLOUR = "red"


def request(model: str, question: str, *, with_tool: bool, picture: str) -> ModelRequest:
    """Return a request of chat completions. ``picture``: a PNG in base64, empty for none."""
    content: Any = question
    if picture:
        url = {"url": f"data:image/png;base64,{picture}"}
        content = [{"type": "text", "text": question}, {"type": "image_url", "image_url": url}]
    tool = {"type": "function", "function": {**ABOUT, "parameters": NOTHING}}
    return ModelRequest(
        [{"role": "user", "content": content}],
        tools=[tool] if with_tool else [],
        model=model,
        options={"max_tokens": ANSWER_TOKENS},
    )


def for_anthropic(model: str, question: str, *, with_tool: bool, picture: str) -> tuple[str, Body]:
    """Return the path and body of a request to Anthropic's Messages API."""
    parts: list[Body] = [{"type": "text", "text": question}]
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    parts += [{"type": "image", "source": source}] if picture else []
    body: Body = {
        "model": model,
        "max_tokens": ANSWER_TOKENS,
        "messages": [{"role": "user", "content": parts}],
    }
    if with_tool:
        body["tools"] = [{**ABOUT, "input_schema": NOTHING}]
    return "/v1/messages", body


def for_google(model: str, question: str, *, with_tool: bool, picture: str) -> tuple[str, Body]:
    """Return the path and body of a request to Google's ``generateContent``."""
    parts: list[Body] = [{"text": question}]
    inline = {"mimeType": "image/png", "data": picture}
    parts += [{"inlineData": inline}] if picture else []
    body: Body = {
        "contents": [{"role": "user", "parts": parts}],
        "generationConfig": {"maxOutputTokens": ANSWER_TOKENS},
    }
    if with_tool:
        body["tools"] = [{"functionDeclarations": [ABOUT]}]
    return f"/v1beta/models/{quote(model.removeprefix('models/'), safe='')}:generateContent", body


# Of the vendors that speak a wire of their own.
NATIVE: dict[str, Callable[..., tuple[str, Body]]] = {
    ModelProvider.Kind.ANTHROPIC: for_anthropic,
    ModelProvider.Kind.GOOGLE: for_google,
}


def is_done(body: Any, *, with_tool: bool) -> bool | None:
    """Return whether an answer calls the tool, or names the colour; None for an empty one."""
    parts = parts_of(body)
    called = any("functionCall" in each or each.get("type") == "tool_use" for each in parts)
    said = "".join(str(each.get("text") or "") for each in parts)
    if with_tool and (called or said):
        return called
    return COLOUR in said.lower() if said and not with_tool else None


def parts_of(body: Any) -> list[Body]:
    """Return the parts of an answer of Anthropic or Google; none of another form."""
    content: Any = body.get("content") if isinstance(body, dict) else None
    candidates = body.get("candidates") if isinstance(body, dict) else None
    if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
        inner = candidates[0].get("content")
        content = inner.get("parts") if isinstance(inner, dict) else None
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []


def picture() -> str:
    """Return a picture of one COLOUR as a PNG, in base64."""
    from PIL import Image  # noqa: PLC0415 - few processes examine a model

    made = io.BytesIO()
    Image.new("RGB", (PICTURE_SIDE, PICTURE_SIDE), COLOUR).save(made, "PNG")
    return base64.b64encode(made.getvalue()).decode()

"""The official Python client of Anthropic, whose answers have to have the published form."""

import json
from contextlib import suppress
from typing import Any

import anthropic
import common

TOOLS: Any = [
    {
        "name": "get_weather",
        "description": "The weather of a city.",
        "input_schema": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    }
]


def client(key: str = common.KEY, base: str = common.GATEWAY) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        base_url=base, api_key=key, max_retries=0, _strict_response_validation=True
    )


def body(*said: Any, model: str = "default", **more: Any) -> Any:
    messages: Any = [{"role": "user", "content": said[0]}, *said[1:]]
    return {"model": model, "max_tokens": 1000, "messages": messages, **more}


def ask(*said: Any, key: str = common.KEY, **more: Any) -> Any:
    return client(key).messages.create(**body(*said, **more))


def text(answer: Any) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")


def stream() -> list[str]:
    with client().messages.stream(**body(common.COUNT)) as found:
        return list(found.text_stream)


def tool() -> str:
    first = ask(common.WEATHER, tools=TOOLS)
    [call] = [block for block in first.content if block.type == "tool_use"]
    result = {
        "type": "tool_result",
        "tool_use_id": call.id,
        "content": common.weather(**call.input),
    }
    later = [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    return text(ask(common.WEATHER, *later, tools=TOOLS))


def image() -> str:
    source = {
        "type": "base64",
        "media_type": "image/png",
        "data": common.PIXEL.partition(",")[2],
    }
    picture = {"type": "image", "source": source}
    return text(ask([{"type": "text", "text": common.PICTURE}, picture]))


def remember() -> str:
    said = ask(common.MY_NAME).content
    later = [{"role": "assistant", "content": said}, {"role": "user", "content": common.WHAT_NAME}]
    return text(ask(common.MY_NAME, *later))


def raw(base: str, text: str, headers: dict[str, str]) -> Any:
    messages = client(base=base).messages
    return messages.with_streaming_response.create(**body(text), stream=True, extra_headers=headers)


def stop() -> dict[str, str]:
    with raw(common.GATEWAY, common.HANG, {}) as answer:
        next(answer.iter_lines())
        return {"run": answer.headers["request-id"]}


def cut() -> dict[str, Any]:
    keep = {"Idempotency-Key": "cut"}
    runs: list[str] = []
    text, last = "", "0"
    for _ in range(2):
        headers = {**keep, "Last-Event-ID": last}
        with suppress(Exception), raw(common.CUT, common.COUNT, headers) as answer:
            runs.append(answer.headers["request-id"])
            number = last
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    number = line[4:]
                elif line.startswith("data: "):
                    delta = json.loads(line[6:]).get("delta") or {}
                    text += delta.get("text", "")
                    last = number
    return {"runs": runs, "text": text}


common.main(
    {
        "first": lambda: text(ask(common.HELLO)),
        "stream": stream,
        "tool": tool,
        "image": image,
        "remember": remember,
        "stop": stop,
        "cut": cut,
        "revoked": lambda: text(ask(common.HELLO, key=common.REVOKED)),
        "budget": lambda: text(ask(common.HELLO, key=common.POOR)),
        "down": lambda: text(ask(common.HELLO, model=common.DOWN)),
    }
)
